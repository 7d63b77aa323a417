"""What statements mean is computed in the gateway's own process, and ended there by force.

Reading, binding, planning, and writing it in an engine's words take milliseconds. Limits of length
and nesting keep them short; what none of those has foreseen, a text that grows with every word of
it, would take one of the threads for ever, and from all the others their time. So a computation
that has used its seconds of a processor, or whose statement has ended, is interrupted wherever it
is: it is pure, so that there is nothing it could leave behind.
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
"""Seconds of a processor; the longest statement there may be takes two."""
_SHORT_S = 1.0
"""Seconds of a processor that a computation may take although its statement has ended."""
LOOK_S = 0.25
_SETTLED_S = 1.0

T = TypeVar("T")


class Ends(Protocol):
    """What says whether a statement has ended; a `Deadline` does."""

    def check(self) -> None:
        """Raises when it has."""


class _InterruptedError(BaseException):
    """Raised in the middle of whatever a thread computes."""


@dataclasses.dataclass(eq=False, slots=True)
class _Work:
    """What a thread computes, the clock of its processor time, and what that says at the end."""

    thread: int
    clock: Callable[[], float]
    began_at: float
    seconds_max: float
    deadline: Ends
    is_told: bool = False


class Computing:
    """Runs computations that may be interrupted. Safe to share between threads.

    Args:
        seconds_max: How long one may take, of a processor's time.
    """

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._lock = threading.Lock()
        self._works: set[_Work] = set()
        self._loop = Loop("computing", self._look)

    def run(self, compute: Callable[[], T], deadline: Ends) -> T:
        """What a computation gives. It must be pure, and hold no lock.

        Args:
            compute: The computation.
            deadline: The statement's; a computation goes on for a moment after that.

        Raises:
            SeamlineError: STATEMENT_TOO_LARGE, or why the statement has ended.
        """
        clock = _clock()
        work = _Work(threading.get_ident(), clock, clock(), self._seconds_max, deadline)
        try:
            with self._lock:
                self._works.add(work)
            try:
                found = compute()
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
                f"to understand the statement takes more than {self._seconds_max:g} s",
            ) from None
        return found

    def close(self) -> None:
        """Interrupts nothing any more."""
        self._loop.stop()

    def _leave(self, work: _Work) -> None:
        """Ends a computation; an interruption that is on its way arrives here, and not later."""
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
    """Seconds of a processor that the calling thread has used; where nobody knows, all seconds."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)
