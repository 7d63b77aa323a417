"""What a follower has read too late to see, if anything has: the gaps of one partition.

A gap may be a record that compaction had removed. What replaced it lies below an end that the log
is asked for after the gap was read: once that is known, so is from which end on what is cached has
the newest record of every key. Until then, nobody knows. See `seam.compaction`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from seamline.seam.offsets import OffsetRange

Span = tuple[int, int]
"""The first offset that has no record, and the one after the last such offset."""


def gaps_in(covers: OffsetRange, offsets: Sequence[int]) -> Span | None:
    """Where a part of the log has no records; None where it has one at every offset.

    Args:
        covers: The part.
        offsets: The offsets of its records, ascending.
    """
    if len(offsets) == len(covers):
        return None
    edges = np.concatenate([[covers.start - 1], offsets, [covers.end_exclusive]])
    before = np.flatnonzero(np.diff(edges) > 1)
    return int(edges[before[0]]) + 1, int(edges[before[-1] + 1])


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps of what is cached of a partition.

    Attributes:
        below: Every gap of which it is known lies below this offset.
        replaced_below: What these lack has been replaced below this offset.
        unknown: Where the others lie, of which it is not known yet.
        read_at: When the last gap was read, on the monotonic clock.
    """

    below: int = 0
    replaced_below: int = 0
    unknown: Span | None = None
    read_at: float = 0.0

    def read(self, found: Span | None, now: float) -> Gaps:
        """More was read, which has these gaps."""
        if found is None:
            return self
        first = found[0] if self.unknown is None else self.unknown[0]
        return dataclasses.replace(self, unknown=(first, found[1]), read_at=now)

    def settled(self, asked_at: float, below: int) -> Gaps:
        """What had been read by a moment lacks nothing that has not been replaced below an offset.

        Args:
            asked_at: The moment.
            below: The offset, which was learned after it.
        """
        if self.read_at >= asked_at:
            return self
        if self.unknown is None:
            return dataclasses.replace(self, replaced_below=min(self.replaced_below, below))
        return Gaps(self.unknown[1], below, read_at=self.read_at)

    def replaced(self, start: int, end: int) -> int | None:
        """Below which offset everything has been replaced that a range lacks.

        Returns:
            None when nobody knows yet.
        """
        if self.unknown is not None and self.unknown[0] < end and self.unknown[1] > start:
            return None
        return self.replaced_below if self.below > start else 0


NO_GAPS = Gaps()
