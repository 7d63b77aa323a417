"""Whether a log still is the one that was seen, and still holds what was seen of it.

Everything that reads a log goes by the topic's name and by offsets, and both may mean something
else a moment later: a topic is created again under its name, retention trims the start, an unclean
election loses the end and other records take its place. A topic's id tells the first, the log's
start the second. For the third offsets alone do not tell, but a leader's epoch does: the broker
knows where each epoch ended. So whoever remembers an offset remembers the epoch with it, and where
another epoch leads now, asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.protocols import Deadline, HotLog
from seamline.seam.checks import LogRead, check_holds, check_same_topic
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange


def check_read(log: HotLog, read: LogRead, deadline: Deadline) -> None:
    """After a read, before its first row is given: these were the records that were meant.

    The topic is still the same, so it was the same all the time. The log still starts no later than
    the read did, so nothing was trimmed away under it. Its end is what it was or has grown, so no
    record below it has been replaced.

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
    check_same_topic(read.topic, bounds.topic_id, read.topic_id)
    check_holds(bounds, read.ranges)
    ends = {r.partition: max(r.end_exclusive, read.end[r.partition]) for r in read.ranges}
    check_not_cut(log, bounds, ends, read.end_epochs, deadline)


def check_not_cut(
    log: HotLog,
    bounds: LogBounds,
    seen: Mapping[int, int],
    epochs: Mapping[int, int],
    deadline: Deadline,
) -> None:
    """The log must still hold what it held below some offsets; costs nothing while leaders stay.

    What has been trimmed away cannot be told any more, and passes.

    Args:
        log: The cluster.
        bounds: What the log holds now.
        seen: Exclusive ends of what was seen, per partition.
        epochs: The leader epochs of then, where known.
        deadline: The statement's.

    Raises:
        SeamlineError: LOG_TRUNCATED; KAFKA_UNAVAILABLE.
    """
    doubtful = [
        OffsetRange(partition, end, end)
        for partition, end in seen.items()
        if end > 0
        and end >= bounds.start.get(partition, 0)
        and partition in epochs
        and bounds.leader_epochs.get(partition, epochs[partition]) != epochs[partition]
    ]
    if doubtful:
        asked = {wanted.partition: epochs[wanted.partition] for wanted in doubtful}
        for _ in log.read(bounds.topic, doubtful, bounds.isolation, deadline, epochs=asked):
            pass
