"""A tail put together from segments that are held and from what was read beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.connectors.kafka.formats.decoder import bad_record
from seamline.connectors.kafka.tail import Tail, TailOrigin, kept_columns, table_of
from seamline.connectors.protocols import TailFile
from seamline.errors import SeamlineError
from seamline.gateway.tail.segments import Cut
from seamline.seam.records import DecoderSpec
from seamline.sql.columns import OFFSET
from seamline.sql.predicates import Predicate


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
