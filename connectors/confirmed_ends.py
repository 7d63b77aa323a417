"""Ends of logs that were found intact under a later leader, so that each is checked only once.

The log of a leader changes only by appends and trims. So what was below an end when it was checked
is still there for as long as the leader epoch is the same, and an end that was not checked, such as
a later one, says nothing. Another election has another epoch, another topic another id: both make
what is remembered here useless rather than wrong.

A leader may change between the moment its epoch was read and the check. That does no harm. Epochs
only rise, so if the same epoch is read again after the check, the check was made under it. If it
was read before the check, the check was made after it, which is what one of the reader's own would
have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seamline.connectors.cache import Cache
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange

_ENDS_MAX = 50_000


class ConfirmedEnds:
    """The confirmed ends of one cluster's logs. Safe to share between threads."""

    def __init__(self) -> None:
        # by topic id, partition, its leader epoch, and the epoch under which the end was seen
        self._ends: Cache[tuple[str, int, int, int], int] = Cache(_ENDS_MAX)

    def cover(self, bounds: LogBounds, end: OffsetRange, epoch: int) -> bool:
        """Whether what was below an end is known to be there under the present leader.

        Args:
            bounds: What the log holds now, with its leader epochs.
            end: The end, as an empty range.
            epoch: The leader epoch under which it was seen.
        """
        leader = bounds.leader_epochs[end.partition]
        confirmed = self._ends.get((bounds.topic_id, end.partition, leader, epoch))
        return confirmed is not None and end.start <= confirmed

    def add(
        self, bounds: LogBounds, ends: Iterable[OffsetRange], epochs: Mapping[int, int]
    ) -> None:
        """Notes ends that a check found intact after the bounds had been read; see `cover`."""
        for end in ends:
            leader = bounds.leader_epochs[end.partition]
            key = (bounds.topic_id, end.partition, leader, epochs[end.partition])
            self._ends.put(key, max(end.start, self._ends.get(key) or 0))
