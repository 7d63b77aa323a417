"""Segments: decoded rows of a range of offsets, immutable, in memory or in a Parquet file.

A segment represents every record that the isolation level shows in [start, end_exclusive) of one
partition, decoded with all columns by the one decoder. A segment alone provides what `read_tail`
returns for such a range: the rows, how many records there were, which were left out, and the bad
ones. Slicing goes by position and copies nothing. A slice keeps its whole segment alive, so the
owner of slices must hold references to their segments (see `store`).
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seamline.connectors.iceberg.parquet_writer import dictionary_columns
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.raw_records import RawBatch, joined, part_of
from seamline.connectors.shared_memory import shared_memory
from seamline.gateway.tail.lookups import positions
from seamline.gateway.tail.source import RowSource
from seamline.gateway.tail.statistics import Statistics
from seamline.seam.offsets import OffsetRange
from seamline.sql.columns import OFFSET, PARTITION
from seamline.sql.predicates import Predicate


class BadRecord(NamedTuple):
    """A bad record: its offset, its type if that is known, and why it is bad if that is kept."""

    offset: int
    type: str | None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Decoded rows of one range of one partition.

    Attributes:
        source: What its rows are decoded from, and how.
        range: The offsets it covers; markers and gaps among them have no rows.
        records: The number of records, including those that were left out.
        value_bytes: Bytes of their values.
        bad: The bad records in order, under the policy `fail`; under `skip`, without reasons.
        rows: The rows; None when they are in a file.
        file: The file; None while the rows are in memory.
        row_count: The number of rows.
        size_bytes: Bytes it takes in memory, or on disk when it is there.
        statistics: Least and greatest values of its columns.
    """

    source: RowSource
    range: OffsetRange
    records: int
    value_bytes: int
    bad: tuple[BadRecord, ...]
    rows: pa.RecordBatch | None
    file: pathlib.Path | None
    row_count: int
    size_bytes: int
    statistics: Statistics

    @property
    def segment_id(self) -> str:
        """Identifies the rows: segments with the same id hold the same rows, wherever they are."""
        r = self.range
        return f"{self.source.digest}-{r.partition}-{r.start}-{r.end_exclusive}"

    def load(self) -> pa.RecordBatch:
        """Returns the rows, read from the file if they are in one.

        Raises:
            OSError: when the file cannot be read.
        """
        if self.rows is not None:
            return self.rows
        table = pq.read_table(self.file, partitioning=None)
        batch = table.combine_chunks().to_batches()
        schema = self.source.decoder.arrow_schema
        arrays = batch[0].columns if batch else [pa.nulls(0, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def offsets(self) -> pa.Array:
        """Returns the offsets of the rows.

        Raises:
            OSError: when the file cannot be read.
        """
        if self.rows is not None:
            return self.rows.column(OFFSET)
        table = pq.read_table(self.file, columns=[OFFSET], partitioning=None)
        return table.column(OFFSET).combine_chunks()


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """The part of a segment that lies in a range.

    Attributes:
        segment: The segment.
        start: First offset of the part.
        end_exclusive: Its exclusive end.
    """

    segment: Segment
    start: int
    end_exclusive: int

    @property
    def whole(self) -> bool:
        """Whether nothing was cut off."""
        own = self.segment.range
        return self.start <= own.start and self.end_exclusive >= own.end_exclusive

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows of the part; read from the file if they are in one."""
        batch = self.segment.load()
        if self.whole:
            return batch
        offsets = batch.column(OFFSET)
        first = _position(offsets, self.start)
        return batch.slice(first, _position(offsets, self.end_exclusive) - first)

    def looked_up(self, predicate: Predicate | None, names: Sequence[str]) -> pa.RecordBatch | None:
        """Returns a few rows of the part, among them all for which a predicate is true.

        Returns:
            The rows, in their order; None if the segment is in a file, or there may be many.
        """
        batch = self.segment.rows
        if batch is None or not names:
            return None
        matching = positions(self.segment.statistics, predicate)
        if matching is None:
            return None
        if not self.whole:
            offsets = batch.column(OFFSET)
            first, end = _position(offsets, self.start), _position(offsets, self.end_exclusive)
            matching = matching[(matching >= first) & (matching < end)]
        return batch.select(list(names)).take(pa.array(matching))

    @property
    def row_count(self) -> int:
        """The number of rows in the part."""
        if self.whole:
            return self.segment.row_count
        offsets = self.segment.offsets()
        return _position(offsets, self.end_exclusive) - _position(offsets, self.start)

    @property
    def value_bytes(self) -> int:
        """Bytes of the values of its records; for a part, in proportion to its rows."""
        own = self.segment
        return own.value_bytes * self.row_count // own.row_count if own.row_count else 0

    @property
    def bad(self) -> tuple[BadRecord, ...]:
        """The bad records of the part, under the policies `fail` and `skip`."""
        bad, offset = self.segment.bad, operator.attrgetter("offset")
        first = bisect.bisect_left(bad, self.start, key=offset)
        return bad[first : bisect.bisect_left(bad, self.end_exclusive, lo=first, key=offset)]


def _position(offsets: pa.Array, offset: int) -> int:
    """Returns the index of the first row at or past an offset."""
    return bisect.bisect_left(
        range(len(offsets)), offset, key=lambda index: int(offsets[index].as_py())
    )


JOINED_RECORDS_MAX = 256
"""Fewer records than this cost about as much to decode as one does."""


def build(source: RowSource, decoder: Decoder, batch: RawBatch, covers: OffsetRange) -> Segment:
    """Decodes records into a segment.

    Args:
        source: What the records are, and how they are decoded.
        decoder: The decoder of the source's specification.
        batch: Records of one partition.
        covers: The offsets read to get them.
    """
    rows, bad = decoder.decode_all(batch)
    return _segment(source, decoder, batch, covers, shared_memory().place(rows), bad)


def build_all(
    source: RowSource, decoder: Decoder, parts: Sequence[tuple[RawBatch, OffsetRange]]
) -> list[Segment]:
    """Decodes records of several partitions, those of small batches together.

    Args:
        source: What the records are, and how they are decoded.
        decoder: The decoder of the source's specification.
        parts: Records of each partition, and the offsets read to get them.

    Returns:
        A segment of each part, in the same order.
    """
    segments: dict[int, Segment] = {}
    small = [part for part in parts if len(part[0]) < JOINED_RECORDS_MAX and not part[0].large]
    if len(small) > 1:
        rows, bad = decoder.decode_all(joined([batch for batch, _ in small]))
        partitions = np.asarray(rows.column(PARTITION))
        edges = np.flatnonzero(np.diff(partitions, prepend=-1, append=-1))
        starts = {int(partitions[a]): (int(a), int(b)) for a, b in itertools.pairwise(edges)}
        first = 0
        for batch, covers in small:
            start, end = starts.get(covers.partition, (0, 0))
            own = {i - first: bad[i] for i in range(first, first + len(batch)) if i in bad}
            part = rows.slice(start, end - start)
            copied = pa.concat_batches([part, part.slice(0, 0)])  # without those of the others
            segments[covers.partition] = _segment(source, decoder, batch, covers, copied, own)
            first += len(batch)
    return [
        segments.get(covers.partition) or build(source, decoder, batch, covers)
        for batch, covers in parts
    ]


def _segment(
    source: RowSource,
    decoder: Decoder,
    batch: RawBatch,
    covers: OffsetRange,
    rows: pa.RecordBatch,
    bad: Mapping[int, str],
) -> Segment:
    policy = source.decoder.on_error
    indices = sorted(bad)
    types = decoder.types_of(part_of(batch, indices)) if bad and policy != "null" else ()
    at = [int(batch.offsets[index]) for index in indices]
    reasons = [bad[index] if policy == "fail" else "" for index in indices]
    return Segment(
        source=source,
        range=covers,
        records=len(batch),
        value_bytes=sum(map(len, filter(None, batch.values))),
        bad=tuple(map(BadRecord, at, types, reasons)) if types else (),
        rows=rows,
        file=None,
        row_count=rows.num_rows,
        size_bytes=rows.get_total_buffer_size(),
        statistics=Statistics(rows),
    )


def merge(segments: Sequence[Segment]) -> Segment:
    """Merges neighbours of one partition into one segment, copied into its own memory."""
    first, last = segments[0], segments[-1]
    rows = shared_memory().place(pa.concat_batches([segment.load() for segment in segments]))
    return Segment(
        source=first.source,
        range=OffsetRange(first.range.partition, first.range.start, last.range.end_exclusive),
        records=sum(segment.records for segment in segments),
        value_bytes=sum(segment.value_bytes for segment in segments),
        bad=tuple(entry for segment in segments for entry in segment.bad),
        rows=rows,
        file=None,
        row_count=rows.num_rows,
        size_bytes=rows.get_total_buffer_size(),
        statistics=Statistics(rows),
    )


_FILE_NUMBERS = itertools.count()
_ROW_GROUP_ROWS = 1 << 16
"""Rows buffered while a file is written, and the fewest that are read from a pruned one."""


def spill(segment: Segment, directory: pathlib.Path) -> Segment:
    """Writes the segment to a Parquet file of its own, with field ids and statistics.

    A file name is used only once: tables over one topic have segments with the same id, and so does
    a follower that started over while statements still read what its predecessor spilled.

    Raises:
        OSError: when it cannot be written; nothing is left behind then.
    """
    path = directory / f"{segment.segment_id}-{next(_FILE_NUMBERS)}.parquet"
    rows = segment.load()
    # a bad record is a row of nulls, even in columns that are required
    schema = pa.schema([field.with_nullable(nullable=True) for field in rows.schema])
    table = pa.Table.from_arrays(rows.columns, schema=schema)
    try:
        pq.write_table(
            table,
            path,
            compression="lz4",
            row_group_size=_ROW_GROUP_ROWS,
            max_rows_per_page=_ROW_GROUP_ROWS,
            use_dictionary=dictionary_columns(table),
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return dataclasses.replace(
        segment,
        rows=None,
        file=path,
        size_bytes=path.stat().st_size,
        statistics=segment.statistics.settled(),
    )


# --- Which neighbours to merge -------------------------------------------------------------------

MERGED_BYTES = 8 << 20
"""A segment half this size is large enough; merges do not produce any much larger than this."""

_FAN_IN = 8
_LEVEL_BYTES = 4096


def _level(segment: Segment) -> int:
    level = 0
    size = segment.size_bytes
    while size >= _LEVEL_BYTES and size < MERGED_BYTES // 2:
        size //= _FAN_IN
        level += 1
    return level if segment.size_bytes < MERGED_BYTES // 2 else 1 << 30


def mergeable(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Returns the newest segments of a partition that should now be merged; empty if none.

    They are merged eight at a time to the next size, so that a row is copied only a few times and
    no partition is ever in more than a few dozen small pieces.
    """
    if not segments or segments[-1].rows is None:
        return ()
    level = _level(segments[-1])
    run: list[Segment] = []
    size = 0
    for segment in reversed(segments):
        if segment.rows is None or _level(segment) != level or size >= MERGED_BYTES:
            break
        run.append(segment)
        size += segment.size_bytes
    enough = len(run) >= _FAN_IN or (size >= MERGED_BYTES and len(run) > 1)
    return tuple(reversed(run)) if enough and level < 1 << 30 else ()
