"""The gaps of one partition: records that a follower may have come too late to see.

A gap may be a record that compaction has removed. Its replacement lies below any end that the log
reports after the gap was read. Once such an end is known, a cached tail that reaches it has the
newest record of every key; until then, that is unknown. See `seam.compaction`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from seamline.seam.offsets import OffsetRange

Span = tuple[int, int]
"""The first offset without a record, and the offset after the last such one."""


def gaps_in(covers: OffsetRange, offsets: Sequence[int]) -> Span | None:
    """Returns where a part of the log has no records; None if it has one at every offset.

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
    """The gaps in what is cached of a partition: settled ones, and unknown ones.

    Attributes:
        below: Every settled gap lies below this offset.
        replaced_below: Everything missing from settled gaps has been replaced below this offset.
        unknown: Where the unsettled gaps are.
        read_at: When the last gap was read, on the monotonic clock.
    """

    below: int = 0
    replaced_below: int = 0
    unknown: Span | None = None
    read_at: float = 0.0

    def read(self, span: Span | None, now: float) -> Gaps:
        """Returns the gaps after another read, which found these gaps."""
        if span is None:
            return self
        first = span[0] if self.unknown is None else self.unknown[0]
        return dataclasses.replace(self, unknown=(first, span[1]), read_at=now)

    def settled(self, asked_at: float, below: int) -> Gaps:
        """Returns the gaps with those read before a moment settled below an offset.

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
        """Returns the offset below which everything missing from a range has been replaced.

        Returns:
            None when that is not known yet.
        """
        if self.unknown is not None and self.unknown[0] < end and self.unknown[1] > start:
            return None
        return self.replaced_below if self.below > start else 0


NO_GAPS = Gaps()
