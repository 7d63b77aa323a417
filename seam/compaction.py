"""Compacted logs: when the records that were read of one hold the newest record of every key.

Compaction removes a record once a newer one has its key, and that one was below the log's end by
then. So whatever was gone from a range when it was read has been replaced below any end that is
asked for later: reading up to there finds what has replaced it, as long as nothing has gone of
that part in turn. A range that was read without gaps has lost nothing. Gaps alone prove no loss, as
markers and aborted records leave them, too.

A batch of the pipeline need not be looked at. What it lacks has been replaced below any end that is
asked for after its commit, and statements read its snapshot with no earlier ends. Pure.
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
        bits: One bit an offset, eight of them a byte.
    """

    range: OffsetRange
    bits: np.ndarray

    def within(self, start: int, end: int) -> np.ndarray:
        """Whether there was a record at each of some offsets of the range."""
        there = np.unpackbits(self.bits, count=len(self.range)).view(np.bool_)
        first = self.range.start
        found: np.ndarray = there[max(0, start - first) : max(0, end - first)]
        return found

    @property
    def is_whole(self) -> bool:
        """Whether there was one at every offset, so that nothing can have gone."""
        return bool(self.within(self.range.start, self.range.end_exclusive).all())

    def continues(self, earlier: Seen) -> bool:
        """Whether nothing has gone since an earlier reading, nor of what has come since.

        Args:
            earlier: What was there when it was read before.
        """
        start, end = self.range.start, earlier.range.end_exclusive
        if earlier.range.start > start or end > self.range.end_exclusive:
            return False
        same = np.array_equal(self.within(start, end), earlier.within(start, end))
        return same and bool(self.within(max(start, end), self.range.end_exclusive).all())


def conflict(topic: str, ends: Mapping[int, int]) -> SeamlineError:
    """What a read fails with that may have lost a record to compaction meanwhile.

    Args:
        topic: Name of the topic.
        ends: Where the partitions end by now of which it may have.
    """
    where = ", ".join(f"{partition} (which ends at {end})" for partition, end in ends.items())
    return SeamlineError(
        READ_CONFLICT,
        f"topic {topic} is compacted while it is read: what was removed of partition {where} may "
        "have been replaced by records that came after the statement had begun",
        hint="Try again; min.compaction.lag.ms of the topic, twice as long as statements take, "
        "lets every statement finish.",
        details={"partitions": sorted(ends)},
    )
