"""Which readers follow with a consumer of their own, and which share one with others.

A consumer of its own costs threads, connections and a fetch that is always under way, and brings
what is new without anybody in between. So the tables in use have one as long as there are few of
them. A reader that is far behind needs one to catch up; if many do, each has one for a while in
turn. See `connectors.kafka.lanes` for what they share otherwise.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

COUNT_MAX = 16
RESTING_MAX = 8
"""How many there may be before readers at the end of their topics give theirs back."""
SHARED_LAG_MAX = 500
"""How many offsets a reader may be behind that shares a consumer."""
TURN_S = 2.0
"""How long a reader may catch up while others wait to do so."""


class _Reader(Protocol):
    def wake(self) -> None:
        """Lets it look whether there is a consumer for it by now."""


class OwnConsumers:
    """The readers that have a consumer of their own. Safe to share between threads.

    Args:
        count_max: The greatest number of them.
        resting_max: See `RESTING_MAX`.
        turn_s: See `TURN_S`.
    """

    def __init__(
        self,
        count_max: int = COUNT_MAX,
        resting_max: int = RESTING_MAX,
        turn_s: float = TURN_S,
    ) -> None:
        self._count_max = count_max
        self._resting_max = resting_max
        self._turn_s = turn_s
        self._lock = threading.Lock()
        self._since: dict[_Reader, float] = {}
        self._waiting: dict[_Reader, None] = {}

    def take(self, reader: _Reader, *, lag: float) -> bool:
        """Returns whether a reader may have one; one that is far behind is woken when it may."""
        with self._lock:
            if reader in self._since:
                return True
            if len(self._since) >= (self._count_max if lag else self._resting_max):
                if lag > SHARED_LAG_MAX:
                    self._waiting[reader] = None
                return False
            self._waiting.pop(reader, None)
            self._since[reader] = time.monotonic()
            return True

    def is_over(self, reader: _Reader, *, lag: float) -> bool:
        """Whether a reader should give its consumer back for others; see `take`."""
        with self._lock:
            if not lag:
                return bool(self._waiting) or len(self._since) > self._resting_max
            since = self._since.get(reader, 0.0)
            return bool(self._waiting) and time.monotonic() - since > self._turn_s

    def give_back(self, reader: _Reader) -> None:
        """Notes that a reader has no consumer of its own any longer, nor waits for one."""
        with self._lock:
            self._waiting.pop(reader, None)
            if self._since.pop(reader, None) is None:
                return
            next_one = next(iter(self._waiting), None)
        if next_one is not None:
            next_one.wake()
