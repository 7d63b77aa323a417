"""Where a past moment lies in the log of a table.

In each partition, the moment lies at the end of the longest run of records after the snapshot of
that time in which no record is later than the moment. Record times need not ascend: an early record
that follows a later one is not part of the run. A time in the future is a later one, too. So the
position depends on nothing but the records: once it lies before one of them, it stays there.

The log is asked wherever it still reaches back to that snapshot. For records that it has lost, the
newest snapshot is asked, which holds the same records. So the position is the same whatever
retention and tiering do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from seamline.connectors.kafka.continuity import check_read
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import Schemas, schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.seam.boundary import ColdSide
from seamline.seam.history_checks import LogRead
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec

_GROWTH = 1000
"""The factor by which a read grows if the first record, nearly always the right one, is not."""


@dataclasses.dataclass(frozen=True, slots=True)
class Later:
    """The records that are later than a moment.

    Attributes:
        first_ms: Their earliest possible time.
        decoder: Decides which records are rows at all; those that the policy `skip` leaves out are
            not.
    """

    first_ms: int
    decoder: DecoderSpec

    def among(self, batch: RawBatch, schemas: Schemas) -> Iterator[tuple[int, int]]:
        """Yields the partition and offset of each of these records in a batch."""
        bad: Mapping[int, str] = {}
        if self.decoder.on_error == "skip":
            _, bad = Decoder(self.decoder, schemas).decode_all(batch)
        positions = zip(batch.partitions, batch.offsets, batch.timestamps_ms, strict=True)
        for index, (partition, offset, time_ms) in enumerate(positions):
            if time_ms >= self.first_ms and index not in bad:
                yield int(partition), int(offset)


def ends_at(
    table: ColdTable,
    log: HotLog,
    own: ColdSide,
    head: ColdSide,
    bounds: LogBounds,
    later: Later,
    deadline: Deadline,
) -> Offsets:
    """Returns per partition of the log the first offset that does not belong to the moment.

    Args:
        table: The table.
        log: The cluster of its topic.
        own: The snapshot of the moment.
        head: The newest snapshot.
        bounds: What the log holds.
        later: The records that no longer belong to the moment.
        deadline: The statement's deadline.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED, LOG_TRUNCATED: retry with fresh facts;
            KAFKA_UNAVAILABLE, and whatever reading the table may raise.
    """
    starts = {partition: own.boundary.next.get(partition, 0) for partition in bounds.end}
    lost = [OffsetRange(p, s, bounds.start[p]) for p, s in starts.items() if s < bounds.start[p]]
    ends: dict[int, int] = {}
    if lost:
        first_batch = head.boundary.first_batch
        ends |= table.offsets_at(head.snapshot_id, later.first_ms, lost, first_batch)
    lowest = log.offsets_at(bounds.topic, bounds.topic_id, bounds.end, later.first_ms, deadline)
    unresolved = [
        OffsetRange(partition, max(starts[partition], bounds.start[partition]), end)
        for partition, end in bounds.end.items()
        if partition not in ends
    ]
    first = _first_of(log, [r for r in unresolved if len(r)], lowest, bounds, later, deadline)
    return Offsets({**bounds.end, **ends, **first})


def _first_of(
    log: HotLog,
    ranges: Sequence[OffsetRange],
    lowest: Offsets,
    bounds: LogBounds,
    later: Later,
    deadline: Deadline,
) -> dict[int, int]:
    """Returns the first later record in each range that has one.

    Args:
        log: The cluster.
        ranges: What to search, from its start on; the log must still hold all of it.
        lowest: Offsets before which there is no later record, according to the log itself.
        bounds: What the log was found to hold.
        later: The records to look for.
        deadline: The statement's deadline.
    """
    firsts: dict[int, int] = {}
    left, length = [_from(r, lowest[r.partition]) for r in ranges], 1
    left = [r for r in left if len(r)]
    while left:
        parts = [
            dataclasses.replace(r, end_exclusive=min(r.start + length, r.end_exclusive))
            for r in left
        ]
        for batch in log.read(bounds.topic, parts, bounds.isolation, deadline):
            for partition, offset in later.among(batch, schemas_of(log, deadline)):
                firsts.setdefault(partition, offset)
        left = [
            dataclasses.replace(r, start=part.end_exclusive)
            for r, part in zip(left, parts, strict=True)
            if r.partition not in firsts and part.end_exclusive < r.end_exclusive
        ]
        length *= _GROWTH
    check_read(log, LogRead.within(bounds, ranges), deadline)
    return firsts


def _from(range_: OffsetRange, start: int) -> OffsetRange:
    """Returns the part of a range at or past an offset."""
    return dataclasses.replace(range_, start=min(max(range_.start, start), range_.end_exclusive))
