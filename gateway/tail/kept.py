"""What a follower keeps, and what can be done with it at once: all under one lock.

Threads publish what they have read; statements take cuts of it; boundaries trim it. Nothing here
waits, asks the log, or fails.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from seamline.gateway.tail.holdings import Held, Holdings, Read, Taken
from seamline.gateway.tail.horizon import Horizon
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.segments import Segment, merge, mergeable
from seamline.gateway.tail.store import SegmentStore
from seamline.seam.offsets import OffsetRange, Offsets


class Kept:
    """See the module's docstring. Safe to share between threads.

    Args:
        retention: Where to begin; partitions it does not name begin at 0.
        store: Counts the segments.

    Attributes:
        last_used: When a statement last used it, on the monotonic clock.
        over: Whether it is of no use any more; then nothing is kept.
    """

    def __init__(self, retention: Retention, store: SegmentStore) -> None:
        self.last_used = time.monotonic()
        self.over = False
        self._store = store
        self._changed = threading.Condition()
        self._holdings = Holdings(store)
        self._retention = retention
        self._horizon = Horizon()
        self._rows_seen = self._bytes_seen = 0

    # --- For statements ------------------------------------------------------------------------

    @contextlib.contextmanager
    def holding(self, boundary: Offsets) -> Iterator[None]:
        """While it is held, nothing at or past that boundary is trimmed."""
        with self._changed:
            self.last_used = time.monotonic()
            key = self._retention.hold(boundary)
        try:
            yield
        finally:
            with self._changed:
                self._retention.drop(key)
                self.last_used = time.monotonic()
                self._trim()

    def take(self, ranges: Sequence[OffsetRange]) -> Taken:
        """Cuts of what is held of the ranges, leased, and what is not held."""
        with self._changed:
            return self._holdings.take(ranges)

    def advance(self, boundary: Offsets, epochs: Mapping[int, int], asked_at: float) -> bool:
        """Takes note of the table's boundary: trims below it, and goes on at it where it is ahead.

        Args:
            boundary: The boundary of the newest snapshot.
            epochs: Leader epochs there, where known.
            asked_at: A moment before it was learned.

        Returns:
            False when it has moved back to before what is held (the table was rolled back), so
            that the follower is of no use any more.
        """
        with self._changed:
            self.last_used = time.monotonic()
            if self._retention.is_newer(asked_at):
                if self._retention.is_back(boundary) and not self._holdings.holds_from(boundary):
                    return False
                self._retention.advance(boundary, epochs, asked_at)
                self._trim()
            return True

    def cut(self, age_s_max: float | None) -> tuple[Offsets, float] | None:
        """Ends below which everything is here, and the moment at which that was all there was.

        Args:
            age_s_max: How long ago that may be; None for any time.

        Returns:
            None when it is longer ago, or never was.
        """
        with self._changed:
            complete_at = self._horizon.complete_at
            if self.over or complete_at is None:
                return None
            if age_s_max is not None and time.monotonic() - complete_at > age_s_max:
                return None
            self.last_used = time.monotonic()
            return self._holdings.confirmed(), complete_at

    def missing(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """What is not held of the ranges."""
        with self._changed:
            return self._holdings.cut(ranges)[1]

    def lag(self, ranges: Sequence[OffsetRange]) -> int:
        """Offsets still to be read before the ranges are held."""
        with self._changed:
            positions = {**self._retention.boundary, **self._holdings.positions()}
        return sum(max(0, r.end_exclusive - positions.get(r.partition, 0)) for r in ranges)

    # --- What there is -------------------------------------------------------------------------

    @property
    def held(self) -> dict[int, Held]:
        """What is held of each partition."""
        with self._changed:
            return self._holdings.snapshot()

    @property
    def ends(self) -> Offsets:
        """The log's ends as last learned."""
        return self._horizon.ends

    @property
    def in_use(self) -> bool:
        """Whether a statement is being served."""
        with self._changed:
            return self._retention.in_use

    @property
    def bytes_per_row(self) -> float | None:
        """Decoded bytes of a row, None before there was one."""
        return self._bytes_seen / self._rows_seen if self._rows_seen else None

    # --- For readers ---------------------------------------------------------------------------

    def positions(self, number: int, of: int) -> dict[int, int]:
        """Where each of a reader's partitions is."""
        with self._changed:
            found = self._holdings.positions()
        return {p: position for p, position in found.items() if p % of == number}

    @property
    def epochs(self) -> dict[int, int]:
        """Leader epochs below the positions, where known."""
        with self._changed:
            return self._holdings.epochs()

    def publish(self, read: Read) -> None:
        """Takes what a reader has read of a partition."""
        with self._changed:
            if self.over or not self._holdings.publish(read, time.monotonic()):
                return  # reading goes on elsewhere by now
            if read.segment is not None:
                self._rows_seen += read.segment.row_count
                self._bytes_seen += read.segment.size_bytes
            self._changed.notify_all()
        self._merge(read.covers.partition)

    # --- Spilling ------------------------------------------------------------------------------

    def spillable(self) -> tuple[Segment, ...]:
        """The largest run of neighbours in memory that no statement reads."""
        with self._changed:
            return self._holdings.spillable()

    def replace(self, run: Sequence[Segment], by: Segment) -> bool:
        """See `Holdings.replace`."""
        with self._changed:
            return self._holdings.replace(run, by)

    # --- Inside --------------------------------------------------------------------------------

    def _begin(self, partitions: Mapping[int, int]) -> None:
        """Begins with partitions that are new here."""
        retention, now = self._retention, time.monotonic()
        for partition in partitions:
            if not self.over and partition not in self._holdings:
                start, epoch = retention.boundary.get(partition, 0), retention.epochs.get(partition)
                self._holdings.add(partition, start, epoch, now)
                self._changed.notify_all()

    def _confirm(self, below: Mapping[int, int]) -> None:
        self._holdings.confirm(below)
        self._horizon.confirmed(self._holdings.confirmed())

    def _merge(self, partition: int) -> None:
        while True:
            with self._changed:
                run = mergeable(self._holdings.segments(partition))
            if not run:
                return
            merged = merge(run)
            self._store.hold([merged])
            if not self.replace(run, merged):
                self._store.release([merged])
                return

    def _end(self) -> None:
        self.over = True
        self._holdings.clear()
        self._changed.notify_all()

    def _trim(self) -> None:
        self._holdings.trim(self._retention, time.monotonic())
        self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
