"""Delta tables that kafka-delta-ingest fills: written by `deltalake`, over a log in memory or real.

Each commit of the writer has the rows of some offsets and, as its transactions, the last one of
each partition, as kafka-delta-ingest writes them.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from fakes.memory import MemoryLog

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.config.model import Config
from seamline.seam.log import READ_COMMITTED
from support import offline
from support.gateway import Gateway
from support.offline import MemoryConnections

TOPIC = "orders"
APPLICATION = "orders-ingest"
QUERY = "12ee5a45-5506-4299-8040-a3e2264ed382"
NEVER = NoDeadline()
SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string()), ("price", pa.float64())])
PLACED = pa.schema([*SCHEMA, ("k_partition", pa.int32()), ("k_offset", pa.int64())])
"""The same with the place of each record."""


class Writer:
    """What copies records into a Delta table.

    Args:
        folder: Where the table is.
        schema: Its columns.
        partition_by: Those that it is partitioned by.
        location: Where it is instead, in a store.
        storage_options: How `deltalake` reaches that.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        location: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.schema = folder, schema
        self._location = location or str(folder)
        self._storage_options = dict(storage_options or {})
        self._partition_by = list(partition_by)
        self.copied: dict[int, int] = {}

    @property
    def table(self) -> deltalake.DeltaTable:
        """The table as its writer sees it."""
        return deltalake.DeltaTable(self._location, storage_options=self._storage_options)

    def write(
        self,
        rows: Sequence[Mapping[str, Any]],
        ends: Mapping[int, int],
        said: Mapping[str, int] | None = None,
        **options: Any,
    ) -> None:
        """A commit of rows, which says the ends of partitions.

        Args:
            rows: The rows.
            ends: The first offset of each partition that is not in the table.
            said: The transactions, when they are not kafka-delta-ingest's.
            options: More for `write_deltalake`.
        """
        own = {f"{APPLICATION}-{p}": end - 1 for p, end in ends.items() if end}
        made = [Transaction(*one) for one in (own if said is None else said).items()]
        write_deltalake(
            self._location,
            pa.Table.from_pylist(list(rows), schema=self.schema),
            **{"mode": "append", "partition_by": self._partition_by or None, **options},
            commit_properties=CommitProperties(app_transactions=made),
            storage_options=self._storage_options,
        )
        self.copied.update(ends)


class DeltaShop:
    """A topic of orders, and the Delta table that it is copied into.

    Args:
        folder: Where everything is.
        schema: The columns of the table.
        partition_by: Those that it is partitioned by.
        more: Further properties of the table; None leaves one out.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        schema: pa.Schema = SCHEMA,
        partition_by: Sequence[str] = (),
        more: Mapping[str, str | None] | None = None,
    ) -> None:
        self.log = MemoryLog()
        self.log.create_topic(TOPIC, 2)
        self.writer = Writer(folder / "bronze" / "shop" / TOPIC, schema, partition_by)
        (bounds,) = self.log.bounds([TOPIC], READ_COMMITTED, NEVER).values()
        own = {**binding(TOPIC, bounds.topic_id), **(more or {})}
        kept = {name: value for name, value in own.items() if value is not None}
        config = offline.load_config(folder)
        self.config = configured(config, folder / "bronze", {f"bronze.shop.{TOPIC}": kept})
        self.connections = MemoryConnections(self.config, self.log)
        self.records: dict[tuple[int, int], dict[str, Any]] = {}

    def gateway(self) -> Gateway:
        """A gateway over it, which has not seen it before."""
        return Gateway(self.config, connections=MemoryConnections(self.config, self.log))

    def produce(self, count: int) -> None:
        """Appends records, in turn to each partition."""
        for _ in range(count):
            number = len(self.records)
            record = {"id": number, "item": f"item {number}", "price": number * 1.5}
            partition = number % 2
            offset = self.log.produce(TOPIC, partition, json.dumps(record).encode())
            self.records[partition, offset] = record

    def copy(self, ends: Mapping[int, int], shape: Shape | None = None, **options: Any) -> None:
        """The writer commits what is below the ends, and was not copied before."""
        made = shape or (lambda partition, offset, record: record)
        places = [(p, o) for p, end in ends.items() for o in range(self.copied(p), end)]
        self.writer.write([made(p, o, self.records[p, o]) for p, o in places], ends, **options)

    def copied(self, partition: int) -> int:
        """How far the writer is."""
        return self.writer.copied.get(partition, 0)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Every record as its row."""
        return sorted((r["id"], r["item"], r["price"]) for r in self.records.values())


class Streamed:
    """A table that a streaming query of Spark fills, and the query's checkpoint beneath it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.checkpoint = folder / "bronze" / "shop" / TOPIC / "_checkpoint"
        own = {"boundary_provider": "spark-streaming", "boundary_checkpoint": str(self.checkpoint)}
        self.shop = DeltaShop(folder, more={**own, "boundary_app_id": None})
        self.epoch = -1
        (self.checkpoint / "offsets").mkdir(parents=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))

    def plan(self, ends: dict[int, int]) -> None:
        """The query decides on a batch."""
        self.epoch += 1
        offsets = json.dumps({TOPIC: {str(p): end for p, end in ends.items()}})
        file = self.checkpoint / "offsets" / str(self.epoch)
        file.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')

    def commit(self, ends: dict[int, int]) -> None:
        """The query commits it."""
        self.shop.copy(ends, said={QUERY: self.epoch})


Shape = Callable[[int, int, dict[str, Any]], dict[str, Any]]


def placed(partition: int, offset: int, record: dict[str, Any]) -> dict[str, Any]:
    """A record with its place."""
    return {**record, "k_partition": partition, "k_offset": offset}


def binding(topic: str, topic_id: str) -> dict[str, str]:
    """What the configuration says of a table that `Writer` fills."""
    return {
        "topic": topic,
        "boundary_provider": "kafka-delta-ingest",
        "boundary_app_id": APPLICATION,
        "topic_id": topic_id,
    }


def configured(
    config: Config,
    warehouse: object,
    tables: Mapping[str, Mapping[str, str]],
    properties: Mapping[str, str] | None = None,
) -> Config:
    """A configuration with a catalog `bronze` of Delta tables."""
    tree = config.model_dump()
    own = {"type": "delta", "warehouse": str(warehouse)}
    catalogs = {name: catalog.model_dump() for name, catalog in config.catalogs.items()}
    tree["catalogs"] = {**catalogs, "bronze": {**own, "properties": properties or {}}}
    tree["clusters"] = {name: cluster.model_dump() for name, cluster in config.clusters.items()}
    return Config.model_validate({**tree, "tables": tables})
