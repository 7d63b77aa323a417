"""Detects who filled a table, by the summaries of its snapshots, its properties or its columns.

A finding only proposes how to adopt the table; nothing is decided by it alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from seamline.connectors.iceberg.boundaries import fluss, kafka_connect, spark_streaming
from seamline.connectors.iceberg.boundaries.columns import Columns
from seamline.connectors.iceberg.boundaries.fluss import Fluss
from seamline.connectors.iceberg.boundaries.kafka_connect import KafkaConnect
from seamline.connectors.iceberg.boundaries.spark_streaming import SparkStreaming
from seamline.connectors.iceberg.boundaries.stream_loader import PREFIX, StreamLoader
from seamline.seam.table import Snapshot, TableState
from seamline.sql.types import Field, Row

FLINK_JOB = "flink.job-id"
FLINK_UPSERTS = "write.upsert.enabled"
ENGINE = "engine-name"
REDPANDA_COMMIT = "redpanda.commit-metadata"
AUTOMQ_COMMIT = "automq.commit.id"


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """A kind of writer.

    Attributes:
        name: Its common name.
        provider: The boundary provider that its tables are read with.
        mark: The key that marks the summaries of its commits; empty if it leaves none.
        columns: Its metadata columns: by path, the part of the record that each holds.
        struct: The row column that holds these; empty if they are separate columns.
        needs_values: Whether it leaves out records without a value.
        unknown: Columns with values that the log does not give its readers; null while a row is
            hot.
        may_double: Whether it may copy a record twice.
        spellings: How its tables have values that others refuse: see `spelling.SPELLINGS`.
        note: What its owner must ensure, since the table does not show it.
    """

    name: str
    provider: str
    mark: str = ""
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    struct: str = ""
    needs_values: bool = False
    unknown: frozenset[str] = frozenset()
    may_double: bool = False
    spellings: tuple[str, ...] = ()
    note: str = ""

    def sources(self, fields: tuple[Field, ...]) -> tuple[str, ...]:
        """Returns the entries of `columns_from` for those of its columns that a table has."""
        return tuple(
            f"{path} = {part}"
            for path, part in self.columns.items()
            if _has(fields, path.split("."))
        )


KAFKA_CONNECT = Writer(
    "Iceberg sink of Kafka Connect", KafkaConnect.name, kafka_connect.COMMIT_ID, needs_values=True
)
FLUSS = Writer(
    "Fluss",
    Fluss.name,
    fluss.SUMMARY_KEY,
    {"__bucket": "partition", "__offset": "offset", "__timestamp": "timestamp"},
)
STREAM_LOADER = Writer("stream-loader", StreamLoader.name)
SPARK_STREAMING = Writer("Spark Structured Streaming", SparkStreaming.name, spark_streaming.QUERY)
REDPANDA = Writer(
    "Redpanda",
    Columns.name,
    REDPANDA_COMMIT,
    {
        "redpanda.partition": "partition",
        "redpanda.offset": "offset",
        "redpanda.timestamp": "timestamp",
        "redpanda.headers": "headers",
        "redpanda.key": "key",
        "redpanda.timestamp_type": "timestamp_type",
        "redpanda.data": "value.redpanda",
    },
    struct="redpanda",
    needs_values=True,
    spellings=("truncated_times", "replaced_bytes"),
)
AUTOMQ = Writer(
    "AutoMQ",
    Columns.name,
    AUTOMQ_COMMIT,
    {
        "_kafka_metadata.partition": "partition",
        "_kafka_metadata.offset": "offset",
        "_kafka_metadata.timestamp": "timestamp",
        "_kafka_header": "headers",
        "_kafka_key": "key",
        "_kafka_value": "value",
    },
    struct="_kafka_metadata",
)
TABLEFLOW = Writer(
    "Tableflow",
    Columns.name,
    columns={
        "$$topic": "topic",
        "$$partition": "partition",
        "$$headers": "headers",
        "$$offset": "offset",
        "$$timestamp": "timestamp",
        "$$timestamp-type": "timestamp_type",
        "$$raw-key": "key",
        "$$raw-value": "value",
    },
    unknown=frozenset({"$$leader-epoch"}),
)
AIVEN = Writer(
    "Aiven",
    Columns.name,
    columns={
        "kafka.partition": "partition",
        "kafka.offset": "offset",
        "kafka.timestamp": "timestamp",
        "key_raw": "key",
        "value_raw": "value",
    },
    struct="kafka",
    may_double=True,
)
FLINK = Writer(
    "Flink",
    Columns.name,
    FLINK_JOB,
    needs_values=True,
    note="the checkpoints of its job must be exactly-once and aligned: others commit records "
    "before earlier ones of their partition",
)
UNKNOWN = Writer("a writer that leaves no mark", Columns.name)

BY_MARK = (KAFKA_CONNECT, FLUSS, SPARK_STREAMING, REDPANDA, AUTOMQ, FLINK)
BY_COLUMNS = (REDPANDA, AUTOMQ, TABLEFLOW, AIVEN, FLUSS)


def writer_of(state: TableState) -> Writer:
    """Returns the writer that filled a table, as far as it can be detected."""
    if any(name.startswith(PREFIX) for name in state.properties):
        return STREAM_LOADER
    return next(_candidates(state), UNKNOWN)


def _candidates(state: TableState) -> Iterator[Writer]:
    marked = [marked_by(snapshot) for snapshot in state.ancestors(state.current_snapshot_id)]
    yield from (writer for writer in marked if writer is not None)
    fields = state.schema.columns
    for writer in BY_COLUMNS:
        parts = {
            path: part for path, part in writer.columns.items() if part in ("partition", "offset")
        }
        if all(_has(fields, path.split(".")) for path in parts):
            yield writer
    # its dynamic sink creates tables with a commit that has no mark
    if any(s.summary.get(ENGINE) == "flink" for s in state.ancestors(state.current_snapshot_id)):
        yield FLINK


def marked_by(snapshot: Snapshot) -> Writer | None:
    """Returns the writer whose mark a snapshot carries; None if it carries none."""
    return next((writer for writer in BY_MARK if writer.mark in snapshot.summary), None)


def updating(snapshot: Snapshot) -> Writer | None:
    """Returns the writer whose own commit replaced or removed rows in a snapshot, if any."""
    if snapshot.operation in ("overwrite", "delete"):
        return marked_by(snapshot)
    return None


def _has(fields: tuple[Field, ...], path: list[str]) -> bool:
    field = next((inner for inner in fields if inner.name == path[0]), None)
    if field is None or len(path) == 1:
        return field is not None
    return isinstance(field.type, Row) and _has(field.type.fields, path[1:])
