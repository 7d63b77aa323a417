"""What is cached of each partition: [cached_from, position), without holes, as segments.

This is a data structure without threads or waiting; its owner holds the lock. The store retains a
segment once for as long as it is in here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from seamline.gateway.tail.gaps import NO_GAPS, Gaps, Span
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.segments import MERGED_BYTES, Segment, Slice
from seamline.gateway.tail.store import References, SegmentStore
from seamline.seam.offsets import OffsetRange, Offsets


@dataclasses.dataclass(slots=True)
class CachedPartition:
    """What is cached of one partition.

    Attributes:
        cached_from: First offset cached.
        position: First offset not read yet.
        moved_at: When the position last moved, on the monotonic clock.
        confirmed: Rows below this offset are known to belong to the topic that is followed.
        segments: The segments, in the order of their offsets.
        epoch: Leader epoch of what is just below the position, where known: that of a record, or
            where there is none, that of the leader it was requested under, or of one before.
        leader: The highest leader epoch that the log was found to have, where known.
        gaps: Where what is cached has no records.
    """

    cached_from: int
    position: int
    moved_at: float
    confirmed: int
    segments: tuple[Segment, ...] = ()
    epoch: int | None = None
    leader: int | None = None
    gaps: Gaps = NO_GAPS


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionRead:
    """What was read of a partition in one go.

    Attributes:
        covers: The offsets read.
        segment: Their rows, None when there were none.
        record_epoch: Leader epoch of the newest record, where known.
        leader: Leader epoch that the log was found to have before the read began, where known.
        gaps: Where there were no records, if anywhere.
    """

    covers: OffsetRange
    segment: Segment | None
    record_epoch: int | None
    leader: int | None
    gaps: Span | None = None

    @property
    def epoch(self) -> int | None:
        """Leader epoch of the end of what was read, where known.

        The log does not say whose the markers are that come after the newest record.
        """
        is_record = self.gaps is None or self.gaps[1] < self.covers.end_exclusive
        if is_record or self.leader is None:
            return self.record_epoch
        return max(self.record_epoch or 0, self.leader)


@dataclasses.dataclass(frozen=True, slots=True)
class CachedSlices:
    """What a follower has of some ranges.

    Attributes:
        slices: Parts of segments, ascending within each partition.
        missing: What is not cached; at most one range per partition.
        references: Keeps the segments until it is released.
        replaced_below: Per cached partition, the offset below which all that compaction had removed
            before it was read has been replaced; None where that is not known.
    """

    slices: tuple[Slice, ...]
    missing: tuple[OffsetRange, ...]
    references: References
    replaced_below: Mapping[int, int | None]


class CachedPartitions:
    """The partitions of one follower.

    Attributes:
        assignments: How often partitions were added, skipped ahead or got another leader, each of
            which makes what should be read another than what was read so far.
    """

    def __init__(self, store: SegmentStore) -> None:
        self.assignments = 0
        self._store = store
        self._by_number: dict[int, CachedPartition] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._by_number

    def add(
        self, partition: int, start: int, epoch: int | None, leader: int | None, now: float
    ) -> None:
        """Adds a partition that begins at an offset; one that is already there stays as it is.

        Args:
            partition: Its number.
            start: The offset.
            epoch: Leader epoch of what is below it, where known.
            leader: Leader epoch that the log was found to have, where known.
            now: The moment, on the monotonic clock.
        """
        self._by_number.setdefault(
            partition, CachedPartition(start, start, now, start, epoch=epoch, leader=leader)
        )
        self.assignments += 1

    def snapshot(self) -> dict[int, CachedPartition]:
        """Returns a copy of every partition."""
        return {p: dataclasses.replace(cached) for p, cached in sorted(self._by_number.items())}

    def positions(self) -> dict[int, int]:
        """Returns the position of each partition."""
        return {p: cached.position for p, cached in self._by_number.items()}

    def epochs(self) -> dict[int, int]:
        """Returns the leader epochs of what is below the positions, where known."""
        return {
            p: cached.epoch for p, cached in self._by_number.items() if cached.epoch is not None
        }

    def leaders(self) -> dict[int, int]:
        """Returns the highest leader epochs that the log was found to have, where known."""
        return {
            p: cached.leader for p, cached in self._by_number.items() if cached.leader is not None
        }

    def confirmed(self) -> Offsets:
        """Returns the offsets below which rows are known to belong to this topic."""
        return Offsets({p: cached.confirmed for p, cached in self._by_number.items()})

    def confirmed_under(self, epochs: Mapping[int, int]) -> dict[int, int]:
        """Returns the offsets below which rows belong to the log that leaders of these epochs have.

        A partition that was read under another leader is left out, however much of it was confirmed
        before: the new leader may have replaced what was read.
        """
        return {
            p: cached.confirmed
            for p, cached in self._by_number.items()
            if _is_led_by(cached, epochs.get(p))
        }

    def position(self, partition: int) -> int:
        """Returns the position of a partition; 0 where reading has not begun."""
        cached = self._by_number.get(partition)
        return cached.position if cached is not None else 0

    def reaches_back_to(self, starts: Mapping[int, int]) -> bool:
        """Whether everything from these offsets up to the positions is cached."""
        return all(
            self._by_number[p].cached_from <= s for p, s in starts.items() if p in self._by_number
        )

    def publish(self, read: PartitionRead, now: float) -> bool:
        """Adds what was read; returns False when it does not belong here.

        What was requested before the log was found to have another leader does not: it may be of
        the log that the former one had, or what is cached below it may. A record may be the first
        sign of that leader.
        """
        cached = self._by_number.get(read.covers.partition)
        if cached is None or (cached.position, cached.leader) != (read.covers.start, read.leader):
            return False
        if read.leader is not None and (read.record_epoch or 0) > read.leader:
            cached.leader = read.record_epoch
            self.assignments += 1
            return False
        cached.position, cached.moved_at = read.covers.end_exclusive, now
        cached.gaps = cached.gaps.read(read.gaps, now)
        if read.epoch is not None:
            cached.epoch = read.epoch
        segment = read.segment
        if segment is not None:
            self._store.retain([segment])
            cached.segments = (*cached.segments, segment)
        return True

    def confirm(self, below: Mapping[int, int]) -> None:
        """Notes that rows below these positions belong to this topic."""
        for partition, position in below.items():
            cached = self._by_number.get(partition)
            if cached is not None:
                cached.confirmed = max(cached.confirmed, min(position, cached.position))

    def reached(self, ends: Mapping[int, int]) -> int | None:
        """Returns how far the ends have been reached, in offsets; None when all have."""
        positions = {p: self.position(p) for p in ends}
        if all(positions[p] >= end for p, end in ends.items()):
            return None
        return sum(min(positions[p], end) for p, end in ends.items())

    def have_reached(self, left: list[tuple[int, int]]) -> bool:
        """Whether all ends have been reached; removes those that it finds to be, from the back.

        So the calls for one list cost as much as its length, however often a partition moves.
        """
        while left:
            partition, end = left[-1]
            if self.position(partition) < end:
                return False
            left.pop()
        return True

    def led_by(self, below: Mapping[int, int], epochs: Mapping[int, int]) -> None:
        """Notes that the log, under leaders of these epochs, still holds what was read.

        Where reading has advanced since, what was read has an epoch of its own.
        """
        for partition, epoch in epochs.items():
            cached = self._by_number.get(partition)
            if cached is not None:
                leader = max(epoch, cached.leader or 0)
                self.assignments += leader != cached.leader
                cached.leader = leader
                if cached.position == below.get(partition):
                    cached.epoch = epoch

    def quiet_since(self, moment: float, epochs: Mapping[int, int]) -> dict[int, int]:
        """Returns the positions of the partitions that have not moved since a moment.

        Args:
            moment: On the monotonic clock.
            epochs: Leader epochs at that moment, where known; a partition read under another one
                is left out.
        """
        return {
            p: h.position
            for p, h in self._by_number.items()
            if h.moved_at <= moment and _is_led_by(h, epochs.get(p))
        }

    def take(self, ranges: Sequence[OffsetRange]) -> CachedSlices:
        """Returns the cached parts of the ranges as referenced slices, and the parts not cached."""
        slices, missing = self.slices(ranges)
        references = self._store.references([part.segment for part in slices])
        cached = [(r, self._by_number[r.partition]) for r in ranges if r not in missing]
        replaced = {r.partition: c.gaps.replaced(r.start, r.end_exclusive) for r, c in cached}
        return CachedSlices(tuple(slices), tuple(missing), references, replaced)

    def slices(self, ranges: Sequence[OffsetRange]) -> tuple[list[Slice], list[OffsetRange]]:
        """Returns the cached parts of the ranges as slices, and the parts that are not cached."""
        slices: list[Slice] = []
        missing: list[OffsetRange] = []
        for range_ in ranges:
            cached = self._by_number.get(range_.partition)
            if cached is None:
                missing.append(range_)
                continue
            start = min(max(range_.start, cached.cached_from), range_.end_exclusive)
            end = max(start, min(range_.end_exclusive, cached.position))
            if range_.start < start and end < range_.end_exclusive:
                missing.append(range_)  # a partition is read from the log in one range
                continue
            slices += _slices(cached.segments, start, end)
            around = ((range_.start, start), (end, range_.end_exclusive))
            missing += [OffsetRange(range_.partition, a, b) for a, b in around if a < b]
        return slices, missing

    def settle(self, asked_at: float, below: Mapping[int, int]) -> None:
        """Notes that everything missing at a moment has been replaced below these offsets."""
        for partition, offset in below.items():
            cached = self._by_number.get(partition)
            if cached is not None:
                cached.gaps = cached.gaps.settled(asked_at, offset)

    def trim(self, retention: Retention, now: float) -> None:
        """Releases segments that need not be kept; skips ahead where reading is behind that."""
        for partition, cached in self._by_number.items():
            keep = retention.keep_from(partition)
            gone = tuple(s for s in cached.segments if s.range.end_exclusive <= keep)
            if gone:
                cached.segments = cached.segments[len(gone) :]
                cached.cached_from = max(cached.cached_from, gone[-1].range.end_exclusive)
                self._store.release(gone)
            if keep > cached.position:
                cached.cached_from = cached.position = cached.confirmed = keep
                cached.moved_at, cached.gaps = now, NO_GAPS
                cached.epoch = retention.epochs.get(partition)
                self.assignments += 1

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """Returns the segments of a partition."""
        cached = self._by_number.get(partition)
        return cached.segments if cached is not None else ()

    def replace(self, run: Sequence[Segment], by: Segment) -> bool:
        """Replaces neighbouring segments by one, which the caller has retained.

        Returns:
            False when they are no longer there; the one segment then stays the caller's.
        """
        cached = self._by_number.get(by.range.partition)
        if cached is None:
            return False
        first = next((i for i, s in enumerate(cached.segments) if s is run[0]), None)
        if first is None or cached.segments[first : first + len(run)] != tuple(run):
            return False
        cached.segments = (*cached.segments[:first], by, *cached.segments[first + len(run) :])
        self._store.release(run)
        return True

    def spillable(self) -> tuple[Segment, ...]:
        """Returns the largest run of neighbours in memory that nobody else uses."""
        runs = [run for cached in self._by_number.values() for run in self._runs(cached.segments)]
        return max(runs, key=_size, default=())

    def clear(self) -> None:
        """Releases everything."""
        for cached in self._by_number.values():
            self._store.release(cached.segments)
        self._by_number.clear()

    def _runs(self, segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
        run: list[Segment] = []
        for segment in segments:
            usable = segment.rows is not None and not self._store.is_shared(segment)
            if run and (not usable or _size(run) >= MERGED_BYTES):
                yield tuple(run)
                run = []
            if usable:
                run.append(segment)
        if run:
            yield tuple(run)


def _is_led_by(cached: CachedPartition, epoch: int | None) -> bool:
    return cached.epoch is None or epoch is None or cached.epoch == epoch


def _size(run: Sequence[Segment]) -> int:
    return sum(segment.size_bytes for segment in run)


def _slices(segments: Sequence[Segment], start: int, end: int) -> Iterator[Slice]:
    for segment in segments:
        own = segment.range
        if own.start < end and own.end_exclusive > start:
            yield Slice(segment, max(start, own.start), min(end, own.end_exclusive))
