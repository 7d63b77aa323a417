"""Waiting for a program while it makes progress, however long that takes on this machine."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

IDLE_S_MAX = 60.0
_TOLD_EVERY_S = 10.0


class Patience:
    """Decides whether to keep waiting.

    Args:
        what: What is waited for.
        signs: Something that changes while there is progress.
        say: Gets a line now and then.
        clock: Seconds, for ever growing.
    """

    def __init__(
        self,
        what: str,
        signs: Callable[[], object],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._signs = signs
        self._say = say
        self._clock = clock
        self._began = self._moved = self._told = clock()
        self._last = signs()

    @property
    def elapsed_s(self) -> float:
        """How long it has been so far."""
        return self._clock() - self._began

    @property
    def is_over(self) -> bool:
        """Whether nothing has changed for so long that nothing will."""
        now = self._clock()
        seen = self._signs()
        if seen != self._last:
            self._last, self._moved = seen, now
        if now - self._told >= _TOLD_EVERY_S:
            self._told = now
            self._say(f"{self._what}: {self.elapsed_s:.0f} s so far …")
        return now - self._moved > IDLE_S_MAX


def signs_of(session: int, log: pathlib.Path) -> tuple[int, int]:
    """What changes while the processes of a session work: their time on processors, and a log."""
    return _ticks(session), log.stat().st_size if log.exists() else 0


def _ticks(session: int) -> int:
    """Clock ticks that the processes of a session have run; 0 where the system does not say."""
    total = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has just ended
            continue
        fields = text.rpartition(")")[2].split()  # the name before it may hold anything
        if int(fields[3]) == session:
            total += int(fields[11]) + int(fields[12])
    return total
