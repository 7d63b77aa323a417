"""The deadline of a statement: its time limit, and whether it was canceled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from seamline.connectors import supervision
from seamline.connectors.dependencies import letting_others_run
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.supervision import Loop
from seamline.errors import CANCELED, DEADLINE_EXCEEDED, SeamlineError

_AGAIN_S = 0.1


class StatementDeadline:
    """Implements `Deadline`. Safe to share between threads.

    A callback registered with `on_end` is called repeatedly until it is unregistered, because a
    call may come just before there is anything to stop.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._stops: dict[object, Callable[[], None]] = {}
        self._canceled: SeamlineError | None = None
        self._ended = threading.Event()
        self._stopping = False
        self._take_back = supervision.later(seconds, "deadline", self._end)

    @property
    def canceled(self) -> bool:
        """Whether it was canceled, no matter by whom."""
        return self._canceled is not None

    def check(self) -> None:
        """See `Deadline.check`."""
        if self._canceled is not None:
            raise SeamlineError(
                self._canceled.code,
                self._canceled.message,
                hint=self._canceled.hint,
                details=self._canceled.details,
            )
        if time.monotonic() >= self._ends_at:
            raise SeamlineError(
                DEADLINE_EXCEEDED, f"the statement did not end within {self._seconds:g} s"
            )

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return max(0.0, self._ends_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`; returns early when the statement is canceled."""
        self._ended.wait(min(seconds, self.remaining_s()))

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """See `Deadline.on_end`."""
        key = object()
        with self._lock:
            self._stops[key] = stop
        if self.canceled or self.remaining_s() == 0:
            self._end()

        def forget() -> None:  # it must not hold `stop`, whose owner holds it
            with self._lock:
                self._stops.pop(key, None)

        return forget

    def cancel(self, why: SeamlineError | None = None) -> None:
        """Ends the statement at its next check, and stops what it waits for; returns at once.

        Args:
            why: The error that it ends with; the first one given counts.
        """
        if self._canceled is None:
            self._canceled = why or SeamlineError(CANCELED, "the statement was canceled")
        self._end()

    def close(self) -> None:
        """Cancels the timer of a statement that has ended."""
        self._take_back()

    def _end(self) -> None:
        self._ended.set()
        with self._lock:
            if self._stopping or not self._stops:
                return
            self._stopping = True
        if not supervision.attempt("stop", lambda: Loop("stop", self._stop)):
            self._stopping = False  # the system could not start a thread

    def _stop(self) -> float | None:
        with self._lock:
            stops = list(self._stops.values())
            if not stops:
                self._stopping = False
                return None
        for stop in stops:
            supervision.attempt("stop", stop)
        return _AGAIN_S


def no_deadline() -> StatementDeadline:
    """Returns a deadline for work outside of any statement: an hour."""
    deadline = StatementDeadline(3600.0)
    deadline.close()
    return deadline


def wait_until(
    changed: threading.Condition, has_come: Callable[[], bool], deadline: Deadline
) -> None:
    """Waits for what another statement does, letting others run, until a condition holds.

    Args:
        changed: Notified when the condition may have changed; its lock is not held.
        has_come: The condition.
        deadline: Ends the wait.

    Raises:
        SeamlineError: why the statement that waits has ended.
    """

    def wake() -> None:
        with changed:
            changed.notify_all()

    forget = deadline.on_end(wake)
    try:
        with letting_others_run(), changed:
            while not has_come():
                deadline.check()
                changed.wait(deadline.remaining_s())
    finally:
        forget()
