"""A tail: exact ranges of a topic, decoded; read from the log, or put together from segments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.connectors.base import Deadline, HotLog, OffsetRange, TailFile
from seamline.connectors.kafka.decode import Decoder, DecoderSpec, bad_record
from seamline.connectors.kafka.segments import Cut
from seamline.sql.columns import OFFSET
from seamline.sql.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.sql.predicates import Predicate


@dataclasses.dataclass(frozen=True, slots=True)
class TailOrigin:
    """How a tail was come by, for receipts.

    Attributes:
        segments: Segments held here that were used.
        pruned: Segments held here that the filter ruled out.
        spilled: Segments used that lie on disk.
        offsets_read: Offsets read from the log for this statement alone.
        note: Why the table's follower could not give everything; empty when it did.
    """

    segments: int = 0
    pruned: int = 0
    spilled: int = 0
    offsets_read: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """A decoded tail.

    Attributes:
        rows: The rows, with the columns asked for.
        records: Records read from the log.
        size_bytes: Bytes of their values.
        skipped: Bad records left out under the policy `skip`.
        files: Files that hold further rows, with all columns.
        source: How it was come by.
        release: Lets go of what it keeps alive; rows and files must not be used afterwards.
    """

    rows: pa.Table
    records: int
    size_bytes: int
    skipped: int
    files: tuple[TailFile, ...] = ()
    source: TailOrigin = TailOrigin()
    release: Callable[[], None] = lambda: None


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
    kept = kept_columns(spec, wanted)
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
    origin = TailOrigin(offsets_read=sum(len(r) for r in ranges))
    return Tail(table_of(batches, spec, kept), records, size, skipped, source=origin)


def kept_columns(spec: DecoderSpec, wanted: Collection[str]) -> list[str]:
    """The wanted columns in the order of the table."""
    return [name for name in spec.arrow_schema.names if name in wanted]


def table_of(batches: Sequence[pa.RecordBatch], spec: DecoderSpec, kept: Sequence[str]) -> pa.Table:
    """One table of batches that have the kept columns."""
    schema = pa.schema([spec.arrow_schema.field(name) for name in kept])
    if schema.names:
        return pa.Table.from_batches(batches, schema)
    # a table without columns forgets how many rows it has: keep one of nulls
    count = sum(batch.num_rows for batch in batches)
    return pa.table({"__none": pa.nulls(count, pa.int8())})


def in_memory(tail: Tail, spec: DecoderSpec, wanted: Sequence[str]) -> Tail:
    """The same tail with the rows of its files in memory too, in no certain order."""
    if not tail.files:
        return tail
    kept = kept_columns(spec, wanted)
    schema = pa.schema([spec.arrow_schema.field(name) for name in kept])
    batches = [_rows_of(file, kept, schema) for file in tail.files]
    rows = pa.concat_tables([tail.rows, table_of(batches, spec, kept)])
    return dataclasses.replace(tail, rows=rows, files=())


def _rows_of(file: TailFile, kept: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    table = pq.read_table(file.path, columns=list({*kept, OFFSET}), partitioning=None)
    offsets = table.column(OFFSET)
    if not file.whole:
        inside = pc.and_(
            pc.greater_equal(offsets, file.start), pc.less(offsets, file.end_exclusive)
        )
        table = table.filter(inside)
    columns = [table.column(name).combine_chunks() for name in kept]
    if not columns:
        return pa.record_batch({"__none": pa.nulls(table.num_rows, pa.int8())})
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def first_bad(cuts: Sequence[Cut], spec: DecoderSpec) -> SeamlineError | None:
    """The error that the first bad record among the cuts is, under the policy `fail`."""
    for cut in cuts:
        found = cut.first_bad
        if found is not None:
            return bad_record(spec.topic, cut.segment.range.partition, *found)
    return None


def assemble(
    cuts: Sequence[Cut],
    rest: Tail | None,
    spec: DecoderSpec,
    wanted: Sequence[str],
    predicate: Predicate | None,
) -> Tail:
    """A tail of cuts and of what was read from the log beside them.

    Bad records were looked for in all cuts, and those left out are counted in all; only then are
    segments left out that the predicate rules out, so that neither depends on the query.

    Args:
        cuts: Parts of segments; whoever leased them must keep the lease as long as the tail.
        rest: What else belongs to it.
        spec: How records were decoded.
        wanted: Columns to keep.
        predicate: Rows for which it is not true may be left out.
    """
    kept = kept_columns(spec, wanted)
    used = [c for c in cuts if c.segment.row_count and c.segment.zones.may_match(predicate)]
    batches = [c.rows.select(kept) for c in used if c.segment.file is None]
    files = [
        TailFile(str(c.segment.file), c.start, c.end_exclusive, c.whole)
        for c in used
        if c.segment.file is not None
    ]
    rows = table_of(batches, spec, kept)
    skipped = sum(cut.skipped for cut in cuts)
    origin = TailOrigin(
        segments=len(used),
        pruned=sum(c.segment.row_count > 0 for c in cuts) - len(used),
        spilled=len(files),
        offsets_read=rest.source.offsets_read if rest is not None else 0,
    )
    return Tail(
        rows=pa.concat_tables([rows, rest.rows]) if rest is not None else rows,
        records=sum(c.row_count for c in used) + skipped + (rest.records if rest else 0),
        size_bytes=sum(c.value_bytes for c in used) + (rest.size_bytes if rest else 0),
        skipped=skipped + (rest.skipped if rest else 0),
        files=tuple(files),
        source=origin,
    )
