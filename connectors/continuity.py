"""The checks of a log that ask it once more.

The decisions are in `seam.checks`; here the log is asked for what they need to know.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping

from seamline.connectors.protocols import Deadline, HotLog, TellsCompaction
from seamline.errors import LOG_TRIMMED, LOG_TRUNCATED, SeamlineError
from seamline.seam.checks import LogRead, doubtful, require, spoiled
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets


def check_read(log: HotLog, read: LogRead, deadline: Deadline) -> None:
    """After a read, before its first row is given: these were the records that were meant.

    Args:
        log: The cluster.
        read: What was read.
        deadline: The statement's.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED or LOG_TRUNCATED: the rows prove nothing, and
            fresh facts should be tried; KAFKA_UNAVAILABLE.
    """
    if not read.ranges:
        return
    bounds = log.bounds([read.topic], read.isolation, deadline)[read.topic]
    require(spoiled(bounds, read))
    check_not_truncated(log, bounds, read.ends, read.end_epochs, deadline)


@contextlib.contextmanager
def checked(log: HotLog, read: LogRead, deadline: Deadline) -> Iterator[None]:
    """Around a read, whose rows are given after it: `check_read` at its end, and when it fails.

    A topic that was created again looks trimmed or truncated to who still reads the former one.

    Args:
        log: The cluster.
        read: What is read inside.
        deadline: The statement's.

    Raises:
        SeamlineError: as `check_read`, else what was raised inside.
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
    """The log must still hold what it held below some ends; costs nothing while no leader changes.

    Args:
        log: The cluster.
        bounds: What the log holds now.
        ends: Exclusive ends of what was seen, per partition.
        epochs: The leader epochs at that time, where known.
        deadline: The statement's.

    Raises:
        SeamlineError: LOG_TRUNCATED; KAFKA_UNAVAILABLE.
    """
    asked = doubtful(bounds, ends, epochs)
    if asked:
        known = {wanted.partition: epochs[wanted.partition] for wanted in asked}
        for _ in log.read(bounds.topic, asked, bounds.isolation, deadline, epochs=known):
            pass


@dataclasses.dataclass(frozen=True, slots=True)
class Overtaken:
    """What compaction may have done to a read of a table that is the newest record of each key.

    Attributes:
        replaced_below: Per partition an offset: what was gone when it was read, has been replaced
            below that, if it has been replaced at all.
        ends: Where the partitions end by now in which that may be past the end of the read.
        end_epochs: Leader epochs by now, where known.
    """

    replaced_below: Offsets
    ends: Offsets
    end_epochs: Offsets


def overtaken(
    log: HotLog, read: LogRead, partitions: Collection[int], deadline: Deadline
) -> Overtaken:
    """Asks whether records that were gone when they were read may be replaced past a read's ends.

    Args:
        log: The cluster.
        read: What was read, before this is asked.
        partitions: Those of which something was gone.
        deadline: The statement's.

    Raises:
        SeamlineError: as `check_read`.
    """
    bounds = log.bounds([read.topic], read.isolation, deadline)[read.topic]
    require(spoiled(bounds, read))
    stop = {r.partition: r.end_exclusive for r in read.ranges}
    found = Offsets({p: bounds.end[p] for p in partitions})
    later = Offsets({p: end for p, end in found.items() if end > stop[p]})
    if later and isinstance(log, TellsCompaction):
        untouched = log.untouched_from(read.topic, read.topic_id, later, deadline)
        found = found.replace({p: min(o, found[p]) for p, o in untouched.items()})
        later = Offsets({p: end for p, end in later.items() if found[p] > stop[p]})
    return Overtaken(found, later, bounds.leader_epochs)
