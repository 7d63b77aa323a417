"""What a follower holds of each partition: [held_from, position), without a hole, as segments.

A data structure without threads or waiting; its owner has the lock. Segments in it are held in the
store once, for as long as they are in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.segments import MERGED_BYTES, Cut, Segment
from seamline.gateway.tail.store import Lease, SegmentStore
from seamline.seam.offsets import OffsetRange, Offsets


@dataclasses.dataclass(slots=True)
class Held:
    """One partition.

    Attributes:
        held_from: First offset held.
        position: First offset not read yet.
        moved_at: When the position last moved, on the monotonic clock.
        confirmed: Rows below it are known to be of the topic that is followed.
        segments: In the order of their offsets.
        epoch: Leader epoch of the newest record below the position, where known.
    """

    held_from: int
    position: int
    moved_at: float
    confirmed: int
    segments: tuple[Segment, ...] = ()
    epoch: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What was read of a partition in one go.

    Attributes:
        covers: The offsets read.
        segment: Their rows, None when there were none.
        epoch: Leader epoch of the newest record, where known.
    """

    covers: OffsetRange
    segment: Segment | None
    epoch: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """What a follower has of some ranges.

    Attributes:
        cuts: Parts of segments, ascending within each partition.
        missing: What it does not hold.
        lease: Keeps the segments until it is released.
    """

    cuts: tuple[Cut, ...]
    missing: tuple[OffsetRange, ...]
    lease: Lease


class Holdings:
    """The partitions of one follower.

    Args:
        store: Counts the segments.
    """

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self._held: dict[int, Held] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._held

    def add(self, partition: int, start: int, epoch: int | None, now: float) -> None:
        """Begins with a partition at an offset; one that is there stays as it is."""
        self._held.setdefault(partition, Held(start, start, now, start, epoch=epoch))

    def snapshot(self) -> dict[int, Held]:
        """Every partition, copied."""
        return {p: dataclasses.replace(held) for p, held in sorted(self._held.items())}

    def positions(self) -> dict[int, int]:
        """Where reading is in each partition."""
        return {p: held.position for p, held in self._held.items()}

    def epochs(self) -> dict[int, int]:
        """Leader epochs of the newest records, where known."""
        return {p: held.epoch for p, held in self._held.items() if held.epoch is not None}

    def confirmed(self) -> Offsets:
        """Below which offsets rows are known to be of this topic."""
        return Offsets({p: held.confirmed for p, held in self._held.items()})

    def position(self, partition: int) -> int:
        """Where reading is in a partition; 0 where it has not begun."""
        held = self._held.get(partition)
        return held.position if held is not None else 0

    def holds_from(self, starts: Mapping[int, int]) -> bool:
        """Whether everything from these offsets up to the positions is there."""
        return all(self._held[p].held_from <= s for p, s in starts.items() if p in self._held)

    def publish(self, read: Read, now: float) -> bool:
        """Adds what was read; False when it does not belong here."""
        held = self._held.get(read.covers.partition)
        if held is None or held.position != read.covers.start:
            return False
        held.position, held.moved_at = read.covers.end_exclusive, now
        if read.epoch is not None:
            held.epoch = read.epoch
        segment = read.segment
        if segment is not None:
            self._store.hold([segment])
            held.segments = (*held.segments, segment)
        return True

    def confirm(self, below: Mapping[int, int]) -> None:
        """Rows below these positions are of this topic."""
        for partition, position in below.items():
            held = self._held.get(partition)
            if held is not None:
                held.confirmed = max(held.confirmed, min(position, held.position))

    def reached(self, ends: Mapping[int, int]) -> int | None:
        """How far the ends are reached, in offsets; None when they all are."""
        positions = {p: self.position(p) for p in ends}
        if all(positions[p] >= end for p, end in ends.items()):
            return None
        return sum(min(positions[p], end) for p, end in ends.items())

    def led_by(self, below: Mapping[int, int], epochs: Mapping[int, int]) -> None:
        """Under the leaders of these epochs the log still holds what was read below the positions.

        Where reading has gone on since, its records have told a newer epoch.
        """
        for partition, position in below.items():
            held = self._held.get(partition)
            if held is not None and held.position == position:
                held.epoch = epochs.get(partition, held.epoch)

    def quiet_since(self, moment: float, epochs: Mapping[int, int]) -> dict[int, int]:
        """Positions of the partitions that have not moved since a moment.

        Args:
            moment: On the monotonic clock.
            epochs: Leader epochs of that moment, where known; a partition read under another one
                is left out.
        """
        return {
            p: h.position
            for p, h in self._held.items()
            if h.moved_at <= moment and h.epoch in (None, epochs.get(p, h.epoch))
        }

    def take(self, ranges: Sequence[OffsetRange]) -> Taken:
        """Cuts of what is held of the ranges, leased, and what is not held."""
        cuts, missing = self.cut(ranges)
        lease = self._store.lease([cut.segment for cut in cuts])
        return Taken(tuple(cuts), tuple(missing), lease)

    def cut(self, ranges: Sequence[OffsetRange]) -> tuple[list[Cut], list[OffsetRange]]:
        """Cuts of what is held of the ranges, and what is not."""
        cuts: list[Cut] = []
        missing: list[OffsetRange] = []
        for wanted in ranges:
            held = self._held.get(wanted.partition)
            if held is None:
                missing.append(wanted)
                continue
            start = min(max(wanted.start, held.held_from), wanted.end_exclusive)
            end = max(start, min(wanted.end_exclusive, held.position))
            cuts += _cuts(held.segments, start, end)
            around = ((wanted.start, start), (end, wanted.end_exclusive))
            missing += [OffsetRange(wanted.partition, a, b) for a, b in around if a < b]
        return cuts, missing

    def trim(self, retention: Retention, now: float) -> None:
        """Lets segments go that need not be kept; goes on further up where reading is not there."""
        for partition, held in self._held.items():
            keep = retention.keep_from(partition)
            gone = tuple(s for s in held.segments if s.range.end_exclusive <= keep)
            if gone:
                held.segments = held.segments[len(gone) :]
                held.held_from = max(held.held_from, gone[-1].range.end_exclusive)
                self._store.release(gone)
            if keep > held.position:
                held.held_from = held.position = held.confirmed = keep
                held.moved_at = now
                held.epoch = retention.epochs.get(partition)

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """The segments of a partition."""
        held = self._held.get(partition)
        return held.segments if held is not None else ()

    def replace(self, run: Sequence[Segment], by: Segment) -> bool:
        """Puts one segment, held by the caller, in the place of neighbours.

        Returns:
            False when they are not there any more; then it stays the caller's.
        """
        held = self._held.get(by.range.partition)
        if held is None:
            return False
        first = next((i for i, s in enumerate(held.segments) if s is run[0]), None)
        if first is None or held.segments[first : first + len(run)] != tuple(run):
            return False
        held.segments = (*held.segments[:first], by, *held.segments[first + len(run) :])
        self._store.release(run)
        return True

    def spillable(self) -> tuple[Segment, ...]:
        """The largest run of neighbours in memory that nobody else holds."""
        runs = [run for held in self._held.values() for run in self._runs(held.segments)]
        return max(runs, key=_size, default=())

    def clear(self) -> None:
        """Lets everything go."""
        for held in self._held.values():
            self._store.release(held.segments)
        self._held.clear()

    def _runs(self, segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
        run: list[Segment] = []
        for segment in segments:
            usable = segment.rows is not None and not self._store.is_leased(segment)
            if run and (not usable or _size(run) >= MERGED_BYTES):
                yield tuple(run)
                run = []
            if usable:
                run.append(segment)
        if run:
            yield tuple(run)


def _size(run: Sequence[Segment]) -> int:
    return sum(segment.size_bytes for segment in run)


def _cuts(segments: Sequence[Segment], start: int, end: int) -> Iterator[Cut]:
    for segment in segments:
        own = segment.range
        if own.start < end and own.end_exclusive > start:
            yield Cut(segment, max(start, own.start), min(end, own.end_exclusive))
