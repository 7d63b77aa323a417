"""The steps of the protocol that ask a log again, or look along a table's line of snapshots.

They work over any log and any table; what decides is in `seam`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.connectors.continuity import check_not_cut
from seamline.connectors.protocols import Deadline, HotLog
from seamline.errors import (
    HISTORY_CHANGED,
    LOG_TRUNCATED,
    WRITE_NOT_VISIBLE,
    SeamlineError,
)
from seamline.seam.boundary import ColdSide
from seamline.seam.log import LogBounds
from seamline.seam.now import invisible, pin
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import TableState

_LEADER_CHANGE_S = 5.0
_LAST_MOMENT_S = 0.1
_PAUSE_S_MIN = 0.002
_PAUSE_S_MAX = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Floor:
    """How far a topic must be readable.

    Attributes:
        seen: What the session has read of it.
        write: Exclusive ends of writes that must be readable, by partition.
    """

    seen: Seam | None = None
    write: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def end(self) -> Offsets:
        """The exclusive ends it must show."""
        return self.with_write(self.seen.end).write if self.seen is not None else self.write

    def with_write(self, end: Mapping[int, int]) -> Floor:
        """This floor, raised where `end` is higher."""
        raised = {p: max(offset, self.write.get(p, 0)) for p, offset in end.items()}
        return dataclasses.replace(self, write=self.write.replace(raised))


def wait_until_visible(
    log: HotLog, bounds: LogBounds, floor: Floor, deadline: Deadline
) -> LogBounds:
    """The bounds of a topic, taken once it is readable as far as it must be.

    A session's earlier read was readable then, so it is waited for only as long as a change of
    leaders takes; a write is waited for until the deadline.

    Raises:
        SeamlineError: WRITE_NOT_VISIBLE when a write does not become readable; HISTORY_CHANGED
            when the topic is another one, or lost what the session has read.
    """
    waited_s = 0.0
    pause_s = _PAUSE_S_MIN
    while True:
        if floor.seen is not None and bounds.topic_id != floor.seen.topic_id:
            return bounds  # placing the seam tells what happened
        problem = invisible(bounds, floor.end)
        if problem is None:
            return bounds
        if floor.write and deadline.remaining_s() < _LAST_MOMENT_S:
            raise SeamlineError(WRITE_NOT_VISIBLE, f"{problem}, after {waited_s:.1f} s")
        if not floor.write and waited_s > _LEADER_CHANGE_S:
            return bounds
        deadline.check()
        deadline.pause(pause_s)
        waited_s += pause_s
        pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
        bounds = log.bounds([bounds.topic], bounds.isolation, deadline)[bounds.topic]


def seam_of_now(
    state: TableState,
    head: ColdSide,
    bounds: LogBounds,
    log: HotLog,
    cluster: str,
    deadline: Deadline,
) -> Seam:
    """Places the seam; asks the log again when its ends are older than the table's last commit."""
    for newer in (False, True):
        if newer or head.boundary.isolation != bounds.isolation:
            bounds = log.bounds([bounds.topic], head.boundary.isolation, deadline)[bounds.topic]
        seam = pin(state, head, bounds, cluster=cluster, bounds_are_newer=newer)
        if seam is not None:
            check_not_cut(log, bounds, head.boundary.next, head.boundary.epochs, deadline)
            return seam
    raise AssertionError("bounds read after the table always place the seam")


def check_remembered(log: HotLog, bounds: LogBounds, token: Seam, deadline: Deadline) -> None:
    """The log must not have lost, and replaced, what a token stands for.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    if bounds.topic_id != token.topic_id:
        return  # placing the seam says so
    try:
        check_not_cut(log, bounds, token.end, token.end_epochs, deadline)
    except SeamlineError as error:
        if error.code is LOG_TRUNCATED:
            message = f"topic {bounds.topic} lost records a token stands for: {error.message}"
            raise SeamlineError(HISTORY_CHANGED, message) from error
        raise
