"""A table and its seam as the gateway pins them, split into parts that Spark's executors read.

The gateway says where the snapshot's metadata and the log are, from which offset to which, and how
records are decoded. Parts have a bounded size, and are read as the gateway itself would read them.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    InputPartition,
)

from seamline.connectors.config import ClusterConfig, SchemaRegistryConfig
from seamline.connectors.continuity import checked
from seamline.connectors.duckdb.engine import read_scan
from seamline.connectors.iceberg.catalog import IcebergTable, table_of_file
from seamline.connectors.iceberg.static_table import static_table
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.protocols import EngineScan, NoDeadline
from seamline.connectors.spark.decoding import plain
from seamline.errors import (
    COLD_FILE_INVALID,
    GATEWAY_UNAVAILABLE,
    INVALID_ARGUMENT,
    NOT_A_UNIFIED_TABLE,
    OFFSETS_NOT_STORED,
    SeamlineError,
)
from seamline.seam import encoding
from seamline.seam.binding import TopicBinding
from seamline.seam.checks import LogRead
from seamline.seam.files import ColdPlan, DataFile, ScanRequest
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql.predicates import And, Comparison, Or, Predicate
from seamline.sql.types import Field

SPLIT_BYTES = 128 << 20
SPLIT_OFFSETS = 250_000
"""Their rows stay in memory until the log has been found to be the same one still."""

_REQUEST_S = 60.0


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a read.

    Attributes:
        url: Address of the gateway (`url`).
        access_token: Its bearer token (`accessToken`).
        user: A user of it, instead (`user`).
        password: The user's password (`password`).
        table: Name of the table (`table`).
        token: A token of a receipt, to read that seam again (`token`); batches only.
        kafka: librdkafka properties of the executors (`kafka.…`); the brokers' addresses come from
            the gateway unless they are among them.
        storage: PyIceberg properties of the storage (`iceberg.…`).
        registry: How executors reach the schema registry, as in the gateway's configuration
            (`registry.…`); its address comes from the gateway unless it is among them.
    """

    url: str
    table: str
    access_token: str
    user: str
    password: str
    token: str
    kafka: Mapping[str, str]
    storage: Mapping[str, str]
    registry: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        """The options as Spark gives them, names in any case."""
        given = {name.lower(): value for name, value in options.items()}
        for name in ("url", "table"):
            if not given.get(name):
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"the option {name} is missing",
                    hint='spark.read.format("seamline").option("url", …).option("table", …)',
                )
        return cls(
            given["url"].rstrip("/"),
            given["table"],
            given.get("accesstoken", ""),
            given.get("user", ""),
            given.get("password", ""),
            given.get("token", ""),
            _with_prefix(options, "kafka."),
            _with_prefix(options, "iceberg."),
            _with_prefix(options, "registry."),
        )


def _with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {n.removeprefix(prefix): v for n, v in options.items() if n.startswith(prefix)}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as the gateway has pinned it.

    Attributes:
        seam: Its seam.
        metadata_location: The file that holds its metadata.
        bootstrap_servers: Where its topic's cluster is; None when there is no topic.
        options: The options of the read.
        data_locations: Where its files may lie in addition to its own location.
        schema_registry_url: Where the schemas of its topic's records are registered.
    """

    seam: Seam
    metadata_location: str
    bootstrap_servers: str | None
    options: Options
    data_locations: Sequence[str] = ()
    schema_registry_url: str = ""

    @classmethod
    def place(cls, options: Options) -> Table:
        """Asks the gateway for the seam: the present one, or the token's."""
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own
            f"{options.url}/api/v1/seams",
            data=json.dumps({"table": options.table, "token": options.token or None}).encode(),
            headers={"Content-Type": "application/json"},
        )
        if options.user:
            proof = base64.b64encode(f"{options.user}:{options.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {proof}")
        elif options.access_token:
            request.add_header("Authorization", f"Bearer {options.access_token}")
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_S) as answer:  # noqa: S310
                return cls.from_json(json.load(answer), options)
        except urllib.error.HTTPError as error:
            raise _gateway_error(error) from error
        except OSError as error:
            raise SeamlineError(GATEWAY_UNAVAILABLE, f"{options.url}: {error}") from error

    @classmethod
    def from_json(cls, body: Mapping[str, Any], options: Options) -> Table:
        """The table that the gateway's answer describes.

        Raises:
            SeamlineError: NOT_A_UNIFIED_TABLE.
        """
        seam = Seam.from_json(body)
        if body["metadata_location"] is None:
            raise SeamlineError(
                NOT_A_UNIFIED_TABLE,
                f"{options.table} is a topic without a table",
                hint="CREATE TABLE … WITH (topic = '…') makes the table that is read here.",
            )
        located = body["metadata_location"], body["bootstrap_servers"]
        registry = body.get("schema_registry_url", "")
        return cls(seam, *located, options, body["data_locations"], registry)

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns, metadata columns included."""
        return self.state.schemas[self.seam.schema_id].columns

    @property
    def places(self) -> Places | None:
        """The columns that say which record a row is, if there are any."""
        return Places.of(encoding.parse(self.seam.format), self.columns)

    @property
    def state(self) -> TableState:
        """The table's metadata."""
        return self._cold().state

    def _cold(self) -> IcebergTable:
        static = static_table(self.metadata_location, self.options.storage)
        return table_of_file(self.seam.table, static, self.data_locations)

    def hot_splits(
        self,
        ranges: Sequence[OffsetRange],
        epochs: Mapping[int, int],
        end: Offsets,
        end_epochs: Offsets,
    ) -> list[HotSplit]:
        """The log between offsets, in parts of a bounded length.

        Args:
            ranges: The offsets.
            epochs: Leader epochs of the records below the ranges' starts, where known.
            end: Ends the log was found to have.
            end_epochs: Leader epochs at that time, where known.
        """
        if self.bootstrap_servers is None:
            return []
        seam = self.seam
        cluster = ClusterConfig(
            name="source",
            bootstrap_servers=self.bootstrap_servers,
            properties=self.options.kafka,
            schema_registry=self._schema_registry(),
        )
        state = self.state
        binding = TopicBinding.from_properties(state.properties)
        assert binding is not None
        columns = state.schemas[seam.schema_id].columns
        spec = DecoderSpec.of(binding, columns, seam.format, seam.on_error)
        return [
            HotSplit(
                cluster,
                spec,
                LogRead(seam.topic, seam.topic_id, seam.isolation, (part,), end, end_epochs),
                epochs.get(part.partition) if part.start == wanted.start else None,
            )
            for wanted in ranges
            for part in _parts(wanted)
        ]

    def _schema_registry(self) -> SchemaRegistryConfig:
        return SchemaRegistryConfig(**{"url": self.schema_registry_url, **self.options.registry})

    def cold_splits(self, window: Mapping[int, tuple[int, int]] | None) -> list[ColdSplit]:
        """The files of the snapshot, in parts of a bounded size.

        Args:
            window: Per partition the offsets wanted, rows of no partition excluded; None for all.

        Raises:
            SeamlineError: OFFSETS_NOT_STORED, COLD_FILE_INVALID, ….
        """
        seam = self.seam
        if seam.snapshot_id is None or (window is not None and not window):
            return []
        table = self._cold()
        columns = self.columns
        places = self.places
        if window is not None and places is None:
            raise SeamlineError(
                OFFSETS_NOT_STORED, f"no column of {self.options.table} holds its records' offsets"
            )
        predicate = None
        if window is not None and places is not None and places.names is not None:
            predicate = _lies_in(window, *places.names)
        request = ScanRequest(seam.schema_id, tuple(c.name for c in columns), predicate)
        plan = table.inspect(table.plan(seam.snapshot_id, request))
        if plan.unsupported is not None:
            raise SeamlineError(
                COLD_FILE_INVALID,
                f"table {self.options.table} has {plan.unsupported}",
                hint="Read it through the gateway's catalog, or with engine = 'spark'.",
            )
        deletes = table.deleted_rows(plan)
        scan = EngineScan(
            "scan",
            seam.table,
            columns,
            seam.snapshot_id,
            table.state.schema_of(seam.snapshot_id).columns,
            cold_end=seam.cold_end,
            file_access=table.file_access,
            places=places,
        )
        return [
            ColdSplit(
                dataclasses.replace(
                    scan,
                    cold=dataclasses.replace(plan, files=files),
                    deletes=_of_files(deletes, files),
                ),
                dict(window) if window is not None else None,
            )
            for files in _bins(plan)
        ]


def _gateway_error(error: urllib.error.HTTPError) -> SeamlineError:
    try:
        return SeamlineError.from_json(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return SeamlineError(GATEWAY_UNAVAILABLE, f"{error.url}: HTTP {error.code}")


def _lies_in(
    window: Mapping[int, tuple[int, int]], partition_name: str, offset_name: str
) -> Predicate:
    return Or(
        tuple(
            And(
                (
                    Comparison(partition_name, "=", partition),
                    Comparison(offset_name, ">=", start),
                    Comparison(offset_name, "<", end),
                )
            )
            for partition, (start, end) in window.items()
        )
    )


def _parts(wanted: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(wanted.start, wanted.end_exclusive, SPLIT_OFFSETS):
        yield OffsetRange(wanted.partition, start, min(start + SPLIT_OFFSETS, wanted.end_exclusive))


def _bins(plan: ColdPlan) -> Iterator[tuple[DataFile, ...]]:
    files: list[DataFile] = []
    for file in plan.files:
        if files and sum(f.size_bytes for f in files) + file.size_bytes > SPLIT_BYTES:
            yield tuple(files)
            files = []
        files.append(file)
    if files:
        yield tuple(files)


def _of_files(deletes: pa.Table | None, files: Sequence[DataFile]) -> pa.Table | None:
    if deletes is None:
        return None
    paths = pa.array([file.path for file in files])
    return deletes.filter(pa.compute.is_in(deletes.column("path"), paths))


@dataclasses.dataclass
class ColdSplit(InputPartition):
    """Some files of the snapshot."""

    scan: EngineScan
    window: Mapping[int, tuple[int, int]] | None

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        for batch in read_scan(self.scan):
            kept = batch if self.window is None else _within(batch, self.window, self.scan.places)
            if kept.num_rows:
                yield plain(kept)


@dataclasses.dataclass
class HotSplit(InputPartition):
    """Some offsets of the log.

    Attributes:
        cluster: How executors reach it.
        spec: How records are decoded.
        log_read: The offsets, and the log that they must be of.
        epoch: Leader epoch of the record below them, where known.
    """

    cluster: ClusterConfig
    spec: DecoderSpec
    log_read: LogRead
    epoch: int | None

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows, once the log has been found to be the same one still."""
        cluster = Cluster(self.cluster)
        try:
            log, deadline = KafkaLog(cluster), NoDeadline()
            decoder = Decoder(self.spec, log.schemas)
            read = self.log_read
            epochs = {r.partition: self.epoch for r in read.ranges if self.epoch is not None}
            records = log.read(read.topic, read.ranges, read.isolation, deadline, epochs=epochs)
            with checked(log, read, deadline):
                batches = [decoder.decode(raw).rows for raw in records]
            yield from (plain(rows) for rows in batches if rows.num_rows)
        finally:
            cluster.close()


def _within(
    batch: pa.RecordBatch, window: Mapping[int, tuple[int, int]], places: Places | None
) -> pa.RecordBatch:
    assert places is not None
    partition, offset = (_inside(batch, path) for path in (places.partition, places.offset))
    mask = pa.repeat(pa.scalar(False), batch.num_rows)
    for number, (start, end) in window.items():
        here = pa.compute.and_(
            pa.compute.equal(partition, number),
            pa.compute.and_(pa.compute.greater_equal(offset, start), pa.compute.less(offset, end)),
        )
        mask = pa.compute.or_(mask, pa.compute.fill_null(here, fill_value=False))
    return batch.filter(mask)


def _inside(batch: pa.RecordBatch, path: Sequence[Field]) -> pa.Array:
    """A column, or a field inside of it."""
    found = batch.column(path[0].name)
    for field in path[1:]:
        found = pa.compute.struct_field(found, field.name)
    return found
