"""Limits on how often something may happen per minute, and how busy the process is."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from seamline.connectors.cache import Cache

MINUTE_S = 60.0
_KEYS_MAX = 10_000
_LOOK_S = 0.2
_HIGH = 0.5


class MinuteRate:
    """Counts events by a key. Guard it with a lock.

    Args:
        count_max: Events that may happen in any minute; 0 sets no limit.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, count_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._count_max = count_max
        self._clock = clock
        self._happened: Cache[str, collections.deque[float]] = Cache(_KEYS_MAX)

    def wait_s(self, key: str) -> float:
        """Returns the seconds until another event may happen; 0 if it may happen now."""
        happened = self._happened.get(key)
        if not self._count_max or happened is None or len(happened) < self._count_max:
            return 0.0
        return max(0.0, happened[0] + MINUTE_S - self._clock())

    def count(self, key: str) -> None:
        """Counts an event that has happened."""
        if self._count_max:
            made = self._happened.get_or_make(
                key, lambda: collections.deque[float](maxlen=self._count_max)
            )
            made.append(self._clock())


class ProcessLoad:
    """How busy this process is. Its Python code uses at most one processor.

    Args:
        clock: A monotonic clock, in seconds.
        used: Returns the processor seconds that the process has used.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._used = used
        self._looked_at = clock()
        self._used_then = used()
        self._is_high = False

    @property
    def is_high(self) -> bool:
        """Whether it has recently used much of a processor."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            used = self._used()
            self._is_high = used - self._used_then > _HIGH * (now - self._looked_at)
            self._looked_at, self._used_then = now, used
        return self._is_high
