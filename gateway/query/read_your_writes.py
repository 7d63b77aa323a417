"""Waits until a log shows what a statement must see: a write, or what its session has read."""

from __future__ import annotations

import dataclasses

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, WRITE_NOT_VISIBLE, SeamlineError
from seamline.seam.log import LogBounds
from seamline.seam.now import invisible
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam

_LEADER_CHANGE_S = 5.0
_LAST_MOMENT_S = 0.1
_PAUSE_S_MIN = 0.002
_PAUSE_S_MAX = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Floor:
    """How far a topic must be readable.

    Attributes:
        seen: Seams of the topic that the session has read.
        write: Exclusive ends of writes that must be readable, by partition.
    """

    seen: tuple[Seam, ...] = ()
    write: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def end(self) -> Offsets:
        """The exclusive ends that the topic must show."""
        end = self.write
        for seam in self.seen:
            end = end.raised(seam.end)
        return end


def wait_until_visible(
    log: HotLog, bounds: LogBounds, floor: Floor, deadline: Deadline
) -> LogBounds:
    """Returns the bounds of a topic, taken once it is readable as far as it must be.

    What a session has read was readable at that time, so waiting for it takes only as long as a
    change of leaders; the wait for a write lasts until the deadline. If the topic is another one,
    or has lost what the session has read, its bounds are returned as they are: pinning the table
    raises HISTORY_CHANGED.

    Raises:
        SeamlineError: WRITE_NOT_VISIBLE when a write does not become readable.
    """
    waited_s = 0.0
    pause_s = _PAUSE_S_MIN
    while True:
        if any(seam.log.topic_id != bounds.topic_id for seam in floor.seen):
            return bounds  # pinning the table shows what happened
        problem = invisible(bounds, floor.end)
        if problem is None:
            return bounds
        hidden = SeamlineError(
            WRITE_NOT_VISIBLE,
            f"{problem}, after {waited_s:.1f} s",
            hint=None if floor.end.keys() <= bounds.end.keys() else _partitions(bounds),
        )
        if floor.write and deadline.remaining_s() < _LAST_MOMENT_S:
            raise hidden
        if not floor.write and waited_s > _LEADER_CHANGE_S:
            return bounds
        try:
            deadline.check()
            deadline.pause(pause_s)
            waited_s += pause_s
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
            bounds = log.bounds([bounds.topic], bounds.isolation, deadline)[bounds.topic]
        except SeamlineError as error:
            if floor.write and _is_end_of_time(error, deadline):
                raise hidden from error
            raise


def _partitions(bounds: LogBounds) -> str:
    return (
        f"Partitions of the topic: {len(bounds.end)}, counted from 0. Correct the token's, or read "
        "the table that was written to."
    )


def _is_end_of_time(error: SeamlineError, deadline: Deadline) -> bool:
    """Whether the statement has no time left, which also cuts its last request short."""
    is_late = deadline.remaining_s() < _LAST_MOMENT_S
    return error.code is DEADLINE_EXCEEDED or (error.code is KAFKA_UNAVAILABLE and is_late)
