"""How owners of statements share the cores: whoever has computed more than its share goes last.

The system's scheduler knows processes, not their owners: an owner of many statements would get most
of every core. Here each owner has what its statements have computed lately, which halves every few
seconds. Statements of an owner far above the average of all owners let those of others go first.
Where cores are free, that costs them nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_HALF_LIFE_S = 2.0
_FORGOTTEN_S = 0.001
_FAR_ABOVE = 1.5


class Shares:
    """What owners have computed lately. Safe to share between threads.

    Args:
        clock: Returns the seconds since some moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._computed: dict[str, float] = {}
        self._counted_at = clock()

    def add(self, owner: str, seconds: float) -> None:
        """Adds what a statement of an owner has computed, in seconds of a core."""
        with self._lock:
            self._fade()
            self._computed[owner] = self._computed.get(owner, 0.0) + seconds

    def is_over(self, owner: str) -> bool:
        """Whether the owner is to let others go first; never without others."""
        with self._lock:
            self._fade()
            computed = self._computed
            average = sum(computed.values()) / max(1, len(computed))
            return computed.get(owner, 0.0) > _FAR_ABOVE * average

    def _fade(self) -> None:
        now = self._clock()
        part = 0.5 ** ((now - self._counted_at) / _HALF_LIFE_S)
        self._counted_at = now
        faded = {owner: part * seconds for owner, seconds in self._computed.items()}
        self._computed = {
            owner: seconds for owner, seconds in faded.items() if seconds > _FORGOTTEN_S
        }
