"""Tables that another writer fills: real Iceberg tables over a log in memory, without a broker.

The writer is PyIceberg, which appends rows with whatever columns, summaries and properties the
writer in question leaves behind.
"""

from __future__ import annotations

import io
import json
import pathlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from fakes.memory import MemoryLog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import adopting
from seamline.gateway.commands.adopting import Adoption, Findings
from seamline.gateway.names import TableName
from support import offline
from support.gateway import Gateway

TOPIC = "orders"
NAMESPACE = "shop"
POSITIONS = ("partition=k_partition", "offset=k_offset")
NEVER = NoDeadline()


Shape = Callable[[int, int, dict[str, Any]], dict[str, Any]]
"""Makes a row of the partition, the offset and the fields of a record."""


def flat(partition: int, offset: int, record: dict[str, Any]) -> dict[str, Any]:
    """The fields other than partition and offset."""
    return {"k_partition": partition, "k_offset": offset, **record}


class Shop:
    """A topic of orders, and the table that somebody else copies it into.

    Args:
        folder: Where everything is.
        more: Further lines of the configuration.
        partitions: Partitions of the topic.
        follow: Whether gateways keep the tail.
    """

    def __init__(
        self, folder: pathlib.Path, more: str = "", partitions: int = 2, *, follow: bool = False
    ) -> None:
        config = offline.load_config(folder, more)
        self.folder = folder
        self.log = MemoryLog()
        self.log.create_topic(TOPIC, partitions)
        self.connections = offline.MemoryConnections(config, self.log)
        self.config = config.model_copy(
            update={
                "tail": config.tail.model_copy(update={"follow": follow}),
                "state_directory": str(folder / "state"),
            }
        )
        self.records: dict[tuple[int, int], dict[str, Any]] = {}
        self._copied: dict[int, int] = {}

    def gateway(self) -> Gateway:
        """A gateway over it."""
        return Gateway(self.config, connections=self.connections)

    # --- The topic -----------------------------------------------------------------------------

    def produce(self, count: int, partitions: Sequence[int] = (0, 1)) -> None:
        """Appends records, in turn to each of the partitions."""
        for _ in range(count):
            number = len(self.records)
            partition = partitions[number % len(partitions)]
            record = {"id": number, "item": f"item {number}", "price": number * 1.5}
            offset = self.log.produce(TOPIC, partition, json.dumps(record).encode())
            self.records[partition, offset] = record

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Every record as its row."""
        return sorted((r["id"], r["item"], r["price"]) for r in self.records.values())

    # --- The table -----------------------------------------------------------------------------

    def create(
        self, schema: Schema | pa.Schema, properties: Mapping[str, str] | None = None
    ) -> Table:
        """Makes the table, empty."""
        catalog = self.connections.catalog("lake").pyiceberg
        catalog.create_namespace_if_not_exists(NAMESPACE)
        return catalog.create_table((NAMESPACE, TOPIC), schema, properties=dict(properties or {}))

    @property
    def table(self) -> Table:
        """The table as PyIceberg sees it."""
        return self.connections.catalog("lake").pyiceberg.load_table((NAMESPACE, TOPIC))

    @property
    def state(self) -> Any:
        """The table's state as it is loaded for statements."""
        return self.connections.catalog("lake").load((NAMESPACE, TOPIC)).state

    def copy(
        self,
        ends: Mapping[int, int],
        summary: Mapping[str, str] | None = None,
        shape: Shape = flat,
        *,
        one_file: bool = False,
    ) -> None:
        """The writer commits every record below the ends that it has not copied before.

        Args:
            ends: Exclusive ends, by partition.
            summary: What it writes into the summaries of its commits.
            shape: Makes a row of a record and its place.
            one_file: Whether one file holds all partitions.
        """
        each = [[(p, o) for o in range(self._copied.get(p, 0), end)] for p, end in ends.items()]
        whole = [[place for places in each for place in places]]
        schema = schema_to_pyarrow(self.table.schema())
        for places in whole if one_file else each:
            rows = [shape(p, o, self.records[p, o]) for p, o in places if (p, o) in self.records]
            batch = pa.Table.from_pylist(rows, schema=schema)
            self.table.append(batch, snapshot_properties=dict(summary or {}))
        self._copied.update(ends)

    # --- Adopting ------------------------------------------------------------------------------

    @property
    def name(self) -> TableName:
        """The table's name."""
        session = resolution.session(self.config)
        return resolution.resolve((NAMESPACE, TOPIC), session, self.connections)

    def examine(self, **wanted: Any) -> Findings:
        """What is found about the table."""
        return adopting.examine(
            self.connections, Adoption("default", TOPIC, name=self.name, **wanted), NEVER
        )

    def adopt(self, **wanted: Any) -> Findings:
        """Adopts the table."""
        found = self.examine(**wanted)
        adopting.adopt(self.connections, found, force=wanted.get("force", False))
        return found


FLAT = pa.schema(
    [
        ("k_partition", pa.int32()),
        ("k_offset", pa.int64()),
        ("id", pa.int64()),
        ("item", pa.string()),
        ("price", pa.float64()),
    ]
)
"""Rows with their positions in columns of their own."""


# --- The control topic of the Iceberg sink -------------------------------------------------------

_EVENT: Mapping[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "org.apache.iceberg.connect.events",
    "fields": [
        {"name": "id", "type": {"type": "fixed", "name": "uuid_fixed", "size": 16}},
        {"name": "type", "type": "int"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "group_id", "type": "string"},
        {
            "name": "payload",
            "type": {
                "type": "record",
                "name": "DataComplete",
                "fields": [
                    {"name": "commit_id", "type": "uuid_fixed"},
                    {
                        "name": "assignments",
                        "type": [
                            "null",
                            {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "TopicPartitionOffset",
                                    "fields": [
                                        {"name": "topic", "type": "string"},
                                        {"name": "partition", "type": "int"},
                                        {"name": "offset", "type": ["null", "long"]},
                                        {"name": "timestamp", "type": ["null", "long"]},
                                    ],
                                },
                            },
                        ],
                    },
                ],
            },
        },
    ],
}


def data_complete(ends: Mapping[int, int | None], group: str, topic: str = TOPIC) -> bytes:
    """The event in which one of the sink's workers says how far its files reach.

    Encoded by the reference library for Avro, behind the header of Iceberg's messages.
    """
    schema = json.dumps(_EVENT).encode()
    stream = io.BytesIO()
    stream.write(b"\xc2\x01" + struct.pack(">H", len(schema)) + schema)
    event = {
        "id": bytes(16),
        "type": 2,
        "timestamp": 0,
        "group_id": group,
        "payload": {
            "commit_id": bytes(16),
            "assignments": [
                {"topic": topic, "partition": p, "offset": end, "timestamp": None}
                for p, end in ends.items()
            ],
        },
    }
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(_EVENT)), event)
    return stream.getvalue()
