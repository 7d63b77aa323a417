"""The analysis of statements runs in the gateway's own process, where it can be interrupted.

Parsing, binding, planning, and translating a statement for an engine take milliseconds. Limits on
length and nesting keep them short. A case that no limit anticipates, such as a text that expands
with every word, would occupy a thread forever and slow down all the others. So a computation that
has used up its processor time, or whose statement has ended, is interrupted wherever it is. It is
pure, so it cannot leave anything behind.
"""

from __future__ import annotations

import ctypes
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from seamline.connectors.supervision import Loop
from seamline.errors import STATEMENT_TOO_LARGE, SeamlineError

SECONDS_MAX = 15.0
"""Processor seconds; the longest statement that is allowed takes two."""
_SHORT_S = 1.0
"""Processor seconds that a computation may use even if its statement has ended."""
LOOK_S = 0.25
_SETTLED_S = 1.0

T = TypeVar("T")


class Ends(Protocol):
    """Tells whether a statement has ended; a `Deadline` does."""

    def check(self) -> None:
        """Raises an error if it has."""


class _InterruptedError(BaseException):
    """Raised in a thread in the middle of its computation."""


@dataclasses.dataclass(eq=False, slots=True)
class _Work:
    """A thread's computation, the clock of its processor time, and the limits it runs under."""

    thread: int
    clock: Callable[[], float]
    began_at: float
    seconds_max: float
    deadline: Ends
    is_told: bool = False


class Computing:
    """Runs computations that can be interrupted. Safe to share between threads.

    Args:
        seconds_max: Processor seconds that one computation may use.
    """

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._lock = threading.Lock()
        self._works: set[_Work] = set()
        self._loop = Loop("computing", self._look)

    def run(self, compute: Callable[[], T], deadline: Ends) -> T:
        """Returns the result of a computation, which must be pure and hold no lock.

        Args:
            compute: The computation.
            deadline: The statement's deadline; a computation may run for a moment after it.

        Raises:
            SeamlineError: STATEMENT_TOO_LARGE, or the reason why the statement has ended.
        """
        clock = _clock()
        work = _Work(threading.get_ident(), clock, clock(), self._seconds_max, deadline)
        try:
            with self._lock:
                self._works.add(work)
            try:
                result = compute()
            except _InterruptedError:
                raise
            except BaseException:
                self._leave(work)
                raise
            self._leave(work)
        except _InterruptedError:
            with self._lock:
                self._works.discard(work)
            deadline.check()
            raise SeamlineError(
                STATEMENT_TOO_LARGE,
                f"analyzing the statement takes more than {self._seconds_max:g} s",
            ) from None
        return result

    def close(self) -> None:
        """Stops interrupting computations."""
        self._loop.stop()

    def _leave(self, work: _Work) -> None:
        """Ends a computation; an interruption already on its way arrives here, not later."""
        with self._lock:
            self._works.discard(work)
        end = time.monotonic() + _SETTLED_S
        while work.is_told and time.monotonic() < end:
            time.sleep(0)

    def _look(self) -> float:
        with self._lock:
            for work in self._works:
                used = work.clock() - work.began_at
                if used > work.seconds_max or (used > _SHORT_S and _has_ended(work.deadline)):
                    work.is_told = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(work.thread), ctypes.py_object(_InterruptedError)
                    )
        return LOOK_S


def _has_ended(deadline: Ends) -> bool:
    try:
        deadline.check()
    except SeamlineError:
        return True
    return False


def _clock() -> Callable[[], float]:
    """Returns a clock of the calling thread's processor time, or of wall time if unavailable."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)
