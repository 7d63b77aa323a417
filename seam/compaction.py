"""Compacted logs: when the records read from one include the newest record of every key.

Compaction removes a record once a newer record has its key, and by then the newer one is below the
log's end. So whatever was missing from a range when it was read has a replacement below any end
requested later. Reading up to that end finds the replacement, provided that nothing in that part
has been removed in turn. A range read without gaps has lost nothing. Gaps alone do not prove a
loss, because transaction markers and aborted records leave gaps, too.

Batches of the pipeline need no check. What a batch lacks has a replacement below any end requested
after its commit, and no statement reads the batch's snapshot with an earlier end. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from seamline.errors import READ_CONFLICT, SeamlineError
from seamline.seam.offsets import OffsetRange


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Which offsets of a range had records when it was read.

    Attributes:
        range: The range.
        bits: One bit per offset, packed eight to a byte.
    """

    range: OffsetRange
    bits: np.ndarray

    def within(self, start: int, end: int) -> np.ndarray:
        """Returns, for each offset from `start` to `end` in the range, whether it had a record."""
        there = np.unpackbits(self.bits, count=len(self.range)).view(np.bool_)
        first = self.range.start
        inside: np.ndarray = there[max(0, start - first) : max(0, end - first)]
        return inside

    @property
    def is_whole(self) -> bool:
        """Whether every offset had a record, so that nothing can be missing."""
        return bool(self.within(self.range.start, self.range.end_exclusive).all())

    def continues(self, earlier: Seen) -> bool:
        """Whether nothing has been removed since an earlier read, including from what came since.

        Args:
            earlier: What was there at the earlier read.
        """
        start, end = self.range.start, earlier.range.end_exclusive
        if earlier.range.start > start or end > self.range.end_exclusive:
            return False
        same = np.array_equal(self.within(start, end), earlier.within(start, end))
        return same and bool(self.within(max(start, end), self.range.end_exclusive).all())


def conflict(topic: str, ends: Mapping[int, int]) -> SeamlineError:
    """Returns the error for a read that may have lost a record to compaction in the meantime."""
    where = ", ".join(f"{partition} (which ends at {end})" for partition, end in ends.items())
    return SeamlineError(
        READ_CONFLICT,
        f"topic {topic} was compacted while it was read: what was removed from partition {where} "
        "may have been replaced by records that came after the statement began",
        hint="Try again; with the topic's min.compaction.lag.ms at twice the duration of a "
        "statement, every statement finishes.",
        details={"partitions": sorted(ends)},
    )
