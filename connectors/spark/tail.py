"""Exact ranges of a topic as a Spark DataFrame, decoded in Spark's workers by the same decoder.

Tiering uses it, and statements whose tail is too large for the gateway. Spark's Kafka source reads
from start offsets up to, not including, end offsets, and fails when any of them is no longer there.
It also fails at a record whose time Spark cannot represent, whatever is selected; the workers read
such ranges themselves, with the gateway's client.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.formats.bad_records import decoder_of
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.raw_records import NOT_TEXT
from seamline.connectors.spark.decoding import Decoding, plain
from seamline.seam.encoding import KEY, VALUE
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql.types import Field, to_spark

_HEADERS_SIZE = (
    "aggregate(headers, 0L, (bytes, header) -> bytes + coalesce(octet_length(header.value), 0))"
)
_ODD_HEADERS = json.dumps([{"key": NOT_TEXT}], ensure_ascii=False)


def _unless_large(part: str) -> tuple[str, str]:
    """Returns the bytes of a part, and how many there are if they are too many to be sent."""
    is_large = f"octet_length({part}) > {PART_BYTES_MAX}"
    return (
        f"CASE WHEN {is_large} THEN NULL ELSE {part} END AS {part}",
        f"CASE WHEN {is_large} THEN octet_length({part}) END AS large_{part}",
    )


RECORD = (
    *("partition", "offset", "timestamp", "timestampType"),
    *_unless_large(KEY),
    *_unless_large(VALUE),
    f"CASE WHEN {_HEADERS_SIZE} > {PART_BYTES_MAX} THEN '{_ODD_HEADERS}' "
    "ELSE to_json(headers) END AS headers",
)
"""What is sent to workers for each record.

There is no nested column: Spark measures a batch after each of its rows, and walks over all earlier
rows to measure a list. A batch of 20,000 records without headers would take 200 million steps.
"""
_SECURITY_PREFIX = "kafka."
_REQUEST_MS = 20_000
"""How long an executor waits for a broker; Spark tries three times where it asks for a position."""


def decoded_tail(
    spark: Any,
    *,
    cluster: ClusterConfig,
    ranges: Sequence[OffsetRange],
    isolation: str,
    spec: DecoderSpec,
    batch_id: int | None = None,
    min_partitions: int = 0,
    any_time: bool = False,
) -> Any:
    """Returns a DataFrame of the decoded rows, in the columns of the decoder.

    Args:
        spark: A Spark session, classic or Connect.
        cluster: The cluster as Spark's executors reach it.
        ranges: What to read, one range per partition.
        isolation: The isolation level to read it under.
        spec: How records are decoded.
        batch_id: Value of `_kafka_batch`, when the rows are being tiered.
        min_partitions: Splits ranges further so that at least as many tasks share them.
        any_time: Whether records may have times that Spark cannot represent; see `has_odd_time`.
    """
    schema = spark_schema(spec.columns)
    if any_time or (cluster.login and not cluster.java_properties):
        parts = _parts(ranges, min_partitions)
        numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
        return numbers.mapInArrow(_reading(cluster, parts, isolation, spec, batch_id), schema)
    starts = {str(r.partition): r.start for r in ranges}
    ends = {str(r.partition): r.end_exclusive for r in ranges}
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("kafka.isolation.level", isolation)
        .option("kafka.allow.auto.create.topics", "false")
        .option("kafka.request.timeout.ms", _REQUEST_MS)
        .option("kafka.default.api.timeout.ms", _REQUEST_MS)
        .option("assign", json.dumps({spec.topic: [r.partition for r in ranges]}))
        .option("startingOffsets", json.dumps({spec.topic: starts}))
        .option("endingOffsets", json.dumps({spec.topic: ends}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
    )
    if min_partitions > len(ranges):
        reader = reader.option("minPartitions", str(min_partitions))
    for key, value in cluster.java_properties.items():
        reader = reader.option(_SECURITY_PREFIX + key, value)
    records = reader.load().selectExpr(*RECORD)
    registry = cluster.schema_registry if cluster.schema_registry.address else None
    return records.mapInArrow(Decoding(spec, batch_id, registry), schema)


def has_odd_time(error: BaseException) -> bool:
    """Whether Spark's Kafka source has failed at a record whose time it cannot represent."""
    text = str(error)
    return "long overflow" in text and "millisToMicros" in text


def spark_schema(columns: Sequence[Field]) -> str:
    """Returns the columns as a schema in Spark's own notation."""
    return ", ".join(f"`{c.name.replace('`', '``')}` {to_spark(c.type)}" for c in columns)


def _parts(ranges: Sequence[OffsetRange], count_min: int) -> list[OffsetRange]:
    """Splits the ranges so that there are about `count_min` parts or more."""
    size = max(1, sum(map(len, ranges)) // max(1, count_min))
    return [
        OffsetRange(r.partition, start, min(start + size, r.end_exclusive))
        for r in ranges
        for start in range(r.start, r.end_exclusive, size)
    ]


def _reading(
    cluster: ClusterConfig,
    parts: Sequence[OffsetRange],
    isolation: str,
    spec: DecoderSpec,
    batch_id: int | None,
) -> Any:
    """Returns the function that Spark's workers run over the numbers of the parts to read."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from seamline.connectors.kafka.cluster import Cluster
        from seamline.connectors.kafka.log import KafkaLog

        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        deadline = NoDeadline()
        with contextlib.closing(Cluster(cluster)) as own:
            log = KafkaLog(own)
            decoder = decoder_of(spec, log.schemas)
            for number in numbers:
                for raw in log.read(spec.topic, [parts[number]], isolation, deadline):
                    yield plain(decoder.decode(raw, batch_id).rows)

    return read
