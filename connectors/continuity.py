"""Whether a log still holds what was seen of it, after its leaders have changed.

An unclean election loses the end of a log, and other records may take its place: offsets alone do
not tell. A leader's epoch does: the broker knows where each epoch ended. So whoever remembers an
offset remembers the epoch with it, and where another epoch leads now, asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.base import Deadline, HotLog, LogBounds, OffsetRange


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
