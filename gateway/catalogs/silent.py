"""Which catalogs and clusters recently failed to answer.

Clients list everything again and again, and would wait each time for the time-out of a source that
does not answer, so listings of everything leave it out for a while. Requests that name it do wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from seamline.errors import SeamlineError

_LONG_S = 1.0
_LEFT_OUT_S = 30.0


class Silent:
    """Sources that did not answer, by name. Safe to share between threads.

    Args:
        clock: Returns the seconds since some moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._known: dict[str, tuple[float, SeamlineError]] = {}

    def why(self, source: str) -> SeamlineError | None:
        """Returns the error for which a source is left out; None if it should be asked."""
        until, error = self._known.get(source, (self.clock(), None))
        return error if self.clock() < until else None

    def note(self, source: str, error: SeamlineError, asked_at: float) -> None:
        """Leaves a source out for a while, if it took long to find out that it does not answer.

        Args:
            source: Its name.
            error: Why it is left out.
            asked_at: When it was asked, by the clock.
        """
        now = self.clock()
        if now - asked_at > _LONG_S:
            self._known[source] = (now + _LEFT_OUT_S, error)
