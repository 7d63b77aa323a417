"""Reading a tail: exact ranges of a topic, decoded into one Arrow table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from seamline.connectors.base import Deadline, HotLog, OffsetRange
from seamline.connectors.kafka.decode import Decoder, DecoderSpec
from seamline.sql.errors import TAIL_TOO_LARGE, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """A decoded tail.

    Attributes:
        rows: The rows, with the columns asked for.
        records: Records read from the log.
        size_bytes: Bytes of their values.
        skipped: Bad records left out under the policy `skip`.
    """

    rows: pa.Table
    records: int
    size_bytes: int
    skipped: int


def read_tail(
    log: HotLog,
    ranges: Sequence[OffsetRange],
    isolation: str,
    spec: DecoderSpec,
    wanted: Sequence[str],
    deadline: Deadline,
    *,
    size_bytes_max: int,
    epochs: Mapping[int, int] | None = None,
) -> Tail:
    """Reads and decodes the ranges.

    Every record is decoded whole, whatever columns are wanted: whether it is a bad one must not
    depend on the query.

    Args:
        log: The cluster.
        ranges: What to read.
        isolation: What to read it under.
        spec: How records are decoded.
        wanted: Columns to keep.
        deadline: The statement's.
        size_bytes_max: Bytes of values that may be held.
        epochs: See `HotLog.read`.

    Raises:
        SeamlineError: BAD_RECORD, LOG_TRIMMED, LOG_TRUNCATED, TAIL_TOO_LARGE, KAFKA_UNAVAILABLE.
    """
    decoder = Decoder(spec)
    kept = [name for name in spec.arrow_schema.names if name in set(wanted)]
    batches = []
    records = size = skipped = 0
    for raw in log.read(spec.topic, ranges, isolation, deadline, epochs=epochs):
        records += len(raw)
        size += sum(len(value) for value in raw.values if value is not None)
        if size > size_bytes_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"the tail of topic {spec.topic} is larger than {size_bytes_max:,} bytes",
            )
        decoded = decoder.decode(raw)
        skipped += decoded.skipped
        batches.append(decoded.rows.select(kept))
    schema = pa.schema([spec.arrow_schema.field(name) for name in kept])
    return Tail(_table(batches, schema), records, size, skipped)


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    if schema.names:
        return pa.Table.from_batches(batches, schema)
    # a table without columns forgets how many rows it has: keep one of nulls
    count = sum(batch.num_rows for batch in batches)
    return pa.table({"__none": pa.nulls(count, pa.int8())})
