"""A tail: exact ranges of a topic, decoded; read from the log, or assembled from segments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from seamline.connectors.kafka.formats.bad_records import decoder_of
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engine_tails import TailFile
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.seam.compaction import Seen
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql.types import arrow_field


@dataclasses.dataclass(frozen=True, slots=True)
class TailOrigin:
    """Where a tail came from, for receipts.

    Attributes:
        segments: Segments held here that were used.
        pruned: Segments held here that the filter ruled out.
        looked_up: Segments used of which only a few rows were, found by the order of a column.
        spilled: Segments used that are on disk.
        offsets_read: Offsets read from the log for this statement alone.
        of_other_types: Records read from the log that were not decoded, as they are of types that
            the statement does not need.
        note: Why the table's follower could not supply everything; empty when it did.
    """

    segments: int = 0
    pruned: int = 0
    looked_up: int = 0
    spilled: int = 0
    offsets_read: int = 0
    of_other_types: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """A decoded tail.

    Attributes:
        rows: The rows, with the requested columns.
        records: Records read from the log.
        size_bytes: Bytes of their values.
        skipped: Bad records left out under the policy `skip`.
        files: Files that hold further rows, with all columns.
        origin: Where it came from.
        log: Identifies the follower that supplied all records; None if some came from the log.
        release: Frees what the tail keeps alive; rows and files must not be used afterwards.
        seen: For an upsert table, which offsets had records in each range that was read from the
            log for this statement.
    """

    rows: pa.Table
    records: int
    size_bytes: int
    skipped: int
    files: tuple[TailFile, ...] = ()
    origin: TailOrigin = TailOrigin()
    log: object | None = None
    release: Callable[[], None] = lambda: None
    seen: tuple[Seen, ...] = ()

    @property
    def row_count(self) -> int:
        """The number of rows, also of those in files."""
        return int(self.rows.num_rows) + sum(file.row_count for file in self.files)


def read_tail(
    log: HotLog,
    ranges: Sequence[OffsetRange],
    isolation: str,
    spec: DecoderSpec,
    names: Sequence[str],
    deadline: Deadline,
    *,
    size_bytes_max: int,
    add_bytes: Callable[[int], None] = lambda _: None,
    epochs: Mapping[int, int] | None = None,
) -> Tail:
    """Reads and decodes the ranges.

    Every record is decoded completely, whichever columns are wanted: whether it is bad must not
    depend on them. Only records whose types the spec rules out are not decoded.

    Args:
        log: The cluster.
        ranges: What to read.
        isolation: The isolation to read with.
        spec: How to decode records.
        names: Columns to keep.
        deadline: The statement's deadline.
        size_bytes_max: Bytes of values that may be held.
        add_bytes: Called with the bytes of each batch before it is decoded; raises if these are too
            many.
        epochs: See `HotLog.read`.

    Raises:
        SeamlineError: BAD_RECORD, LOG_TRIMMED, LOG_TRUNCATED, TAIL_TOO_LARGE, KAFKA_UNAVAILABLE,
            SCHEMA_REGISTRY_UNAVAILABLE.
    """
    decoder = decoder_of(spec, schemas_of(log, deadline))
    kept = kept_columns(spec, names)
    batches = []
    records = size = skipped = of_other_types = 0
    looked = Looked(ranges if spec.primary_key else ())
    for raw in log.read(spec.topic, ranges, isolation, deadline, epochs=epochs):
        records += len(raw)
        looked.at(raw)
        more = sum(len(value) for value in raw.values if value is not None)
        size += more
        if size > size_bytes_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"the tail of topic {spec.topic} is larger than {size_bytes_max:,} bytes",
            )
        add_bytes(more)
        decoded = decoder.decode(raw)
        skipped += decoded.skipped
        of_other_types += decoded.of_other_types
        batches.append(decoded.rows.select(kept))
    offsets_read = sum(len(r) for r in ranges)
    origin = TailOrigin(offsets_read=offsets_read, of_other_types=of_other_types)
    rows = table_of(batches, spec, kept)
    return Tail(rows, records, size, skipped, origin=origin, seen=looked.seen)


class Looked:
    """Notes which offsets of ranges have records while the ranges are read.

    Args:
        ranges: The ranges, at most one of each partition.
    """

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self._ranges = {r.partition: r for r in ranges}
        self._there = {r.partition: np.zeros(len(r), np.bool_) for r in ranges}

    def at(self, records: RawBatch) -> None:
        """Takes records of the ranges."""
        partitions = np.asarray(records.partitions, np.int32)
        offsets = np.asarray(records.offsets, np.int64)
        for partition, there in self._there.items():
            there[offsets[partitions == partition] - self._ranges[partition].start] = True

    @property
    def seen(self) -> tuple[Seen, ...]:
        """Which offsets of each range had records, once the whole range has been read."""
        return tuple(Seen(r, np.packbits(self._there[p])) for p, r in self._ranges.items())


def kept_columns(spec: DecoderSpec, wanted: Collection[str]) -> list[str]:
    """Returns the wanted columns in the order of the table."""
    return [column.name for column in spec.columns if column.name in wanted]


def table_of(batches: Sequence[pa.RecordBatch], spec: DecoderSpec, kept: Sequence[str]) -> pa.Table:
    """Returns one table from batches that have the kept columns."""
    if kept:
        schema = pa.schema([arrow_field(c) for c in spec.columns if c.name in kept])
        return pa.Table.from_batches(batches, schema)
    # a table without columns loses its number of rows: keep one of nulls, which take no bytes
    count = sum(batch.num_rows for batch in batches)
    return pa.table({"__none": pa.nulls(count)})
