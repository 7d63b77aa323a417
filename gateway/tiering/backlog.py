"""What waits to be tiered: the log as it is now, compared with the boundary of the table.

It is measured while a batch runs, too, or hangs, and whatever became of the last one.
"""

from __future__ import annotations

import dataclasses
import time

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets


@dataclasses.dataclass(frozen=True, slots=True)
class Backlog:
    """What waits at one moment.

    Attributes:
        offsets: Offsets between the boundary and the ends of the log.
        oldest_ms: Time of the oldest record among them, in milliseconds since the epoch; None when
            nothing waits, or its records have no time.
        headroom: Offsets between the start of the log and the boundary, of the partition with
            records that wait where it is least: retention has removed records that were not tiered
            when it is negative. None when nothing waits.
        measured_at: The moment, on the monotonic clock.
    """

    offsets: int
    oldest_ms: int | None
    headroom: int | None
    measured_at: float

    @property
    def age_s(self) -> float:
        """How long ago it was measured, in seconds."""
        return time.monotonic() - self.measured_at

    @property
    def oldest_age_s(self) -> float | None:
        """Age of the oldest record that waits, in seconds; 0 when none waits, None if unknown."""
        if not self.offsets:
            return 0.0
        return None if self.oldest_ms is None else max(0.0, time.time() - self.oldest_ms / 1000)


class BacklogOf:
    """Measures the backlog of one table.

    Args:
        log: The cluster of its topic.
        topic: The topic.
        isolation: The isolation level that it is tiered under.
        boundary: The boundary of the table, as last seen; assigned by the table's tiering.
    """

    def __init__(self, log: HotLog, topic: str, isolation: str, boundary: Offsets) -> None:
        self.boundary = boundary
        self._log = log
        self.topic = topic
        self._isolation = isolation
        self._times: dict[int, tuple[int, int | None]] = {}

    def measure(self, deadline: Deadline) -> Backlog:
        """Returns the backlog now.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, DEADLINE_EXCEEDED.
        """
        boundary = self.boundary
        measured_at = time.monotonic()
        bounds = self._log.bounds([self.topic], self._isolation, deadline)[self.topic]
        waiting = [
            OffsetRange(partition, boundary.get(partition, 0), end)
            for partition, end in bounds.end.items()
            if end > boundary.get(partition, 0)
        ]
        times = [self._oldest_ms(part, bounds, deadline) for part in waiting]
        return Backlog(
            offsets=sum(map(len, waiting)),
            oldest_ms=min((time_ms for time_ms in times if time_ms is not None), default=None),
            headroom=min((r.start - bounds.start[r.partition] for r in waiting), default=None),
            measured_at=measured_at,
        )

    def _oldest_ms(self, part: OffsetRange, bounds: LogBounds, deadline: Deadline) -> int | None:
        """Returns the time of a partition's first record; read once for each boundary."""
        start = max(part.start, bounds.start[part.partition])
        seen = self._times.get(part.partition)
        if seen is not None and seen[0] == start:
            return seen[1]
        first = OffsetRange(part.partition, start, part.end_exclusive)
        oldest_ms: int | None = None
        records = self._log.read(
            self.topic, [first] if len(first) else [], self._isolation, deadline, max_records=1
        )
        for batch in records:
            time_ms = int(batch.timestamps_ms[0])
            oldest_ms = time_ms if time_ms >= 0 else None
            break
        else:
            return None  # markers and aborted records only, so far
        self._times[part.partition] = start, oldest_ms
        return oldest_ms
