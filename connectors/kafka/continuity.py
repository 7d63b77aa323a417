"""Consistency checks that query the log again.

`seam.checks` makes the decisions; this module queries the log for what they depend on.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog, TellsCompaction
from seamline.errors import LOG_TRIMMED, LOG_TRUNCATED, SeamlineError
from seamline.seam.history_checks import LogRead, doubtful, require, spoiled
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets

T = TypeVar("T")
_PAUSES_S = (0.1, 0.4, 1.0)
"""Seconds in which brokers whose metadata is behind learn that a topic has been recreated."""


def settled(
    log: HotLog, bounds: LogBounds, check: Callable[[LogBounds], T], deadline: Deadline
) -> tuple[T, LogBounds]:
    """Checks what a log holds, and asks it again a few times before it is called truncated.

    A topic that has just been recreated looks truncated, too: for a moment some brokers still
    answer with its former id.

    Args:
        log: The cluster.
        bounds: What the log held last.
        check: Raises LOG_TRUNCATED when a log is too short, TOPIC_RECREATED when it is another.
        deadline: The statement's deadline.

    Returns:
        What `check` returned, and the bounds that it returned it for.

    Raises:
        SeamlineError: as `check`; KAFKA_UNAVAILABLE.
    """
    for pause_s in _PAUSES_S:
        try:
            return check(bounds), bounds
        except SeamlineError as error:
            if error.code is not LOG_TRUNCATED:
                raise
        deadline.pause(pause_s)
        bounds = log.bounds([bounds.topic], bounds.isolation, deadline)[bounds.topic]
    return check(bounds), bounds


def check_read(log: HotLog, read: LogRead, deadline: Deadline) -> None:
    """Checks, after a read and before its first row is returned, that it read the right records.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED or LOG_TRUNCATED: the rows cannot be trusted,
            and the caller should retry with fresh facts; KAFKA_UNAVAILABLE.
    """
    if not read.ranges:
        return
    bounds = _unspoiled(log, read, deadline)
    check_not_truncated(log, bounds, read.ends, read.end_epochs, deadline)


def _unspoiled(log: HotLog, read: LogRead, deadline: Deadline) -> LogBounds:
    """Returns what the log holds after a read that can be trusted."""
    bounds = log.bounds([read.topic], read.isolation, deadline)[read.topic]
    _, bounds = settled(log, bounds, lambda current: require(spoiled(current, read)), deadline)
    return bounds


@contextlib.contextmanager
def checked(log: HotLog, read: LogRead, deadline: Deadline) -> Iterator[None]:
    """Wraps a read whose rows are returned afterwards, and runs `check_read` at its end.

    It also runs `check_read` when the block fails with LOG_TRIMMED or LOG_TRUNCATED: a recreated
    topic looks trimmed or truncated to a reader of the former one.

    Raises:
        SeamlineError: as `check_read`, else what the block raises.
    """
    try:
        yield
    except SeamlineError as error:
        if error.code in {LOG_TRIMMED, LOG_TRUNCATED}:
            check_read(log, read, deadline)
        raise
    check_read(log, read, deadline)


def check_not_truncated(
    log: HotLog,
    bounds: LogBounds,
    ends: Mapping[int, int],
    epochs: Mapping[int, int],
    deadline: Deadline,
) -> None:
    """Checks that the log still holds what it held below some ends.

    This costs nothing while no leader changes, and after a change one read of each end.

    Args:
        log: The cluster.
        bounds: What the log holds now.
        ends: Exclusive ends of what was seen, per partition.
        epochs: The leader epochs at that time, where known.
        deadline: The statement's deadline.

    Raises:
        SeamlineError: LOG_TRUNCATED; KAFKA_UNAVAILABLE.
    """
    unconfirmed = [
        end
        for end in doubtful(bounds, ends, epochs)
        if not log.confirmed_ends.cover(bounds, end, epochs[end.partition])
    ]
    if unconfirmed:
        seen = {end.partition: epochs[end.partition] for end in unconfirmed}
        for _ in log.read(bounds.topic, unconfirmed, bounds.isolation, deadline, epochs=seen):
            pass
        log.confirmed_ends.add(bounds, unconfirmed, seen)


@dataclasses.dataclass(frozen=True, slots=True)
class Overtaken:
    """How compaction may have affected a read of a table that holds each key's newest record.

    Attributes:
        replaced_below: Per partition, an offset: a record that was already gone when it was read
            has been replaced below this offset, if it has been replaced at all.
        ends: The current ends of the partitions in which a replacement may be past the end of the
            read.
        end_epochs: The current leader epochs, where known.
    """

    replaced_below: Offsets
    ends: Offsets
    end_epochs: Offsets


def overtaken(
    log: HotLog, read: LogRead, partitions: Collection[int], deadline: Deadline
) -> Overtaken:
    """Finds where records that were gone when read may have been replaced past the read's ends.

    Raises:
        SeamlineError: as `check_read`.
    """
    bounds = _unspoiled(log, read, deadline)
    stop = {r.partition: r.end_exclusive for r in read.ranges}
    found = Offsets({p: bounds.end[p] for p in partitions})
    later = Offsets({p: end for p, end in found.items() if end > stop[p]})
    if later and isinstance(log, TellsCompaction):
        untouched = log.untouched_from(read.topic, read.topic_id, later, deadline)
        found = found.replace({p: min(o, found[p]) for p, o in untouched.items()})
        later = Offsets({p: end for p, end in later.items() if found[p] > stop[p]})
    return Overtaken(found, later, bounds.leader_epochs)
