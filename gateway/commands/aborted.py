"""Finds records of aborted transactions, which no reader of committed records sees.

A writer that reads uncommitted records, as Flink and Kafka Connect do unless configured otherwise,
copies them all the same. They are the records that only such a read of the log returns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.seam.log import READ_COMMITTED, READ_UNCOMMITTED
from seamline.seam.offsets import OffsetRange

_OFFSETS_AT_ONCE = 1 << 20


def aborted_offsets(
    log: HotLog, topic: str, offsets: OffsetRange, deadline: Deadline
) -> Iterator[np.ndarray]:
    """Yields the offsets of a range whose records were aborted, ascending, in pieces.

    Args:
        log: The cluster.
        topic: The topic.
        offsets: The range, within what readers of committed records see; callers check the read.
        deadline: Bounds requests to the log.

    Raises:
        SeamlineError: LOG_TRIMMED, LOG_TRUNCATED, BROKER_UNREACHABLE, ….
    """
    for start in range(offsets.start, offsets.end_exclusive, _OFFSETS_AT_ONCE):
        end = min(start + _OFFSETS_AT_ONCE, offsets.end_exclusive)
        part = OffsetRange(offsets.partition, start, end)
        every, committed = (
            _offsets(log, topic, part, isolation, deadline)
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED)
        )
        yield np.setdiff1d(every, committed)


def _offsets(
    log: HotLog, topic: str, range_: OffsetRange, isolation: str, deadline: Deadline
) -> np.ndarray:
    read = [batch.offsets for batch in log.read(topic, [range_], isolation, deadline)]
    return np.concatenate([np.empty(0, dtype=np.int64), *read])
