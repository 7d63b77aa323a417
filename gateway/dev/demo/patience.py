"""Waits for a program while it makes progress, however long that takes on this machine."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

IDLE_S_MAX = 60.0


class Patience:
    """Decides whether to keep waiting.

    Args:
        signs: Returns a value that changes while there is progress.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        signs: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._signs = signs
        self._clock = clock
        self._began = self._moved = clock()
        self._last = signs()

    @property
    def elapsed_s(self) -> float:
        """Seconds waited so far."""
        return self._clock() - self._began

    @property
    def is_over(self) -> bool:
        """Whether nothing has changed for so long that no progress is expected."""
        now = self._clock()
        seen = self._signs()
        if seen != self._last:
            self._last, self._moved = seen, now
        return now - self._moved > IDLE_S_MAX


def signs_of(session: int, log: pathlib.Path) -> tuple[int, int]:
    """Returns what changes while a session's processes work: their CPU time and a log's size."""
    return _ticks(session), log.stat().st_size if log.exists() else 0


def _ticks(session: int) -> int:
    """Returns the CPU time of a session's processes in clock ticks; 0 on systems without /proc."""
    total = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has just ended
            continue
        fields = text.rpartition(")")[2].split()  # the process name before ) may hold anything
        if int(fields[3]) == session:
            total += int(fields[11]) + int(fields[12])
    return total
