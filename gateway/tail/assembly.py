"""Assembles a tail from cached segments and from what was read in addition."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.connectors.kafka.formats.decoder import bad_record
from seamline.connectors.kafka.tail import Tail, TailOrigin, kept_columns, table_of
from seamline.connectors.protocols.engine_tails import TailFile
from seamline.errors import SeamlineError
from seamline.gateway.tail.segments import Slice
from seamline.seam.records import DecoderSpec
from seamline.sql.columns import OFFSET
from seamline.sql.predicates import Predicate


def in_memory(tail: Tail, spec: DecoderSpec, names: Sequence[str]) -> Tail:
    """Returns the tail with the rows of its files in memory too, in no particular order."""
    if not tail.files:
        return tail
    kept = kept_columns(spec, names)
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
        return pa.record_batch({"__none": pa.nulls(table.num_rows)})
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def first_bad(slices: Sequence[Slice], spec: DecoderSpec) -> SeamlineError | None:
    """Returns the error of the first bad record in the slices, under the policy `fail`.

    A record whose type the spec rules out does not count, as it is not even read from the log.
    """
    if spec.on_error != "fail":
        return None
    for part in slices:
        bad = next((entry for entry in part.bad if spec.needs(entry.type)), None)
        if bad is not None:
            return bad_record(spec.topic, part.segment.range.partition, bad.offset, bad.reason)
    return None


def skipped_records(slices: Sequence[Slice], spec: DecoderSpec) -> int:
    """Returns how many bad records of the slices count as left out, under the policy `skip`."""
    if spec.on_error != "skip":
        return 0
    if spec.needed_types is None:
        return sum(len(part.bad) for part in slices)
    return sum(spec.needs(entry.type) for part in slices for entry in part.bad)


def assemble(
    slices: Sequence[Slice],
    rest: Tail | None,
    spec: DecoderSpec,
    names: Sequence[str],
    predicate: Predicate | None,
) -> Tail:
    """Returns a tail made of slices and of what was read from the log in addition.

    Bad records were looked for in all slices, and skipped ones are counted in all. Only then are
    segments dropped that the predicate rules out, so that neither depends on what is cached.

    Args:
        slices: Parts of segments; the caller must keep their references as long as the tail.
        rest: The rest of the tail, read from the log.
        spec: How records are decoded; skipped ones count if it needs their types.
        names: Columns to keep.
        predicate: Rows for which it is not true may be left out.
    """
    kept = kept_columns(spec, names)
    used = [s for s in slices if s.segment.row_count and s.segment.statistics.may_match(predicate)]
    loaded = [s for s in used if s.segment.file is None]
    few = [part.looked_up(predicate, kept) for part in loaded]
    batches = [
        part.rows.select(kept) if rows is None else rows
        for part, rows in zip(loaded, few, strict=True)
    ]
    files = [
        TailFile(str(s.segment.file), s.start, s.end_exclusive, s.whole, s.row_count)
        for s in used
        if s.segment.file is not None
    ]
    rows = table_of(batches, spec, kept)
    skipped = skipped_records(slices, spec)
    origin = TailOrigin(
        segments=len(used),
        pruned=sum(s.segment.row_count > 0 for s in slices) - len(used),
        looked_up=sum(rows is not None for rows in few),
        spilled=len(files),
        offsets_read=rest.origin.offsets_read if rest is not None else 0,
        of_other_types=rest.origin.of_other_types if rest is not None else 0,
    )
    return Tail(
        rows=pa.concat_tables([rows, rest.rows]) if rest is not None else rows,
        records=sum(s.row_count for s in used) + skipped + (rest.records if rest else 0),
        size_bytes=sum(s.value_bytes for s in used) + (rest.size_bytes if rest else 0),
        skipped=skipped + (rest.skipped if rest else 0),
        files=tuple(files),
        origin=origin,
    )
