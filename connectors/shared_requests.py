"""Callers that wait for the same answer share the next request for it.

While a request is under way, all who ask the same wait for one next request, which begins after
each of them asked. So an answer is never older than one of the caller's own would be: nobody joins
a request that has begun. A caller that asks while there is none under way makes its own, at once.

A request runs in the thread of one of those who share it, under that caller's deadline, but each
waits under its own. If the caller ends first, another one makes the request instead, and any other
failure is what each of them gets. A request that takes longer than `SLOW_S` keeps nobody waiting:
the next one begins beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from seamline.connectors.dependencies import SLOW_S, again, letting_others_run
from seamline.errors import CANCELED, DEADLINE_EXCEEDED, SeamlineError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LAST_MOMENT_S = 0.1
"""With less than this left, it may be the caller's deadline that cut its request short."""


class CallerDeadline(Protocol):
    """What is needed here of a caller's `Deadline`."""

    def check(self) -> None:
        """See `Deadline.check`."""

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """See `Deadline.on_end`."""


class _Request(Generic[V]):
    """One request, from before it begins until those who share it have its outcome."""

    def __init__(self) -> None:
        self.has_begun = False
        self.answers: list[V] = []  # none or one
        self.error: SeamlineError | None = None

    @property
    def has_ended(self) -> bool:
        return bool(self.answers) or self.error is not None

    def outcome(self) -> V:
        if self.error is not None:
            raise again(self.error) from self.error
        return self.answers[0]


class _Line(Generic[V]):
    """The requests of one key: those under way, and the one that comes next."""

    def __init__(self) -> None:
        self.next: _Request[V] = _Request()
        self.callers = 0
        self.under_way = 0
        self.last_began_at = 0.0

    @property
    def waits_s(self) -> float:
        """Seconds until the next request may begin."""
        if not self.under_way:
            return 0.0
        return max(0.0, self.last_began_at + SLOW_S - time.monotonic())


class SharedRequests(Generic[K, V]):
    """Requests by what they ask for. Safe to share between threads.

    Their answers must be of use to several callers at once: values that nobody changes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[K, _Line[V]] = {}

    def get(self, key: K, request: Callable[[], V], deadline: CallerDeadline) -> V:
        """Returns the answer of a request that began after this call.

        Args:
            key: What is asked for; requests with the same key have the same answer.
            request: Makes the request, under the same deadline.
            deadline: The caller's.

        Raises:
            SeamlineError: what the request ended with; what the deadline says.
        """
        with self._changed:
            line = self._lines.setdefault(key, _Line())
            line.callers += 1
            own = line.next
            is_first = self._begin(line, own)
        try:
            if is_first:
                return self._make(line, own, request, deadline)
            with letting_others_run():
                is_mine = self._wait(line, own, deadline)
            return self._make(line, own, request, deadline) if is_mine else own.outcome()
        finally:
            with self._changed:
                line.callers -= 1
                if not line.callers:
                    del self._lines[key]

    def _begin(self, line: _Line[V], own: _Request[V]) -> bool:
        """Begins a request, if nobody has and nothing keeps it waiting; returns whether it did."""
        if own.has_begun or line.waits_s:
            return False
        own.has_begun = True
        if line.next is own:
            line.next = _Request()
        line.under_way += 1
        line.last_began_at = time.monotonic()
        return True

    def _wait(self, line: _Line[V], own: _Request[V], deadline: CallerDeadline) -> bool:
        """Waits for a request to end; returns True once the caller has to make it instead."""
        forget = deadline.on_end(self._notify)
        try:
            with self._changed:
                while not own.has_ended:
                    deadline.check()
                    if self._begin(line, own):
                        return True
                    slow_s = SLOW_S if own.has_begun else line.waits_s
                    self._changed.wait(min(slow_s, deadline.remaining_s()))
                return False
        finally:
            forget()

    def _make(
        self, line: _Line[V], own: _Request[V], request: Callable[[], V], deadline: CallerDeadline
    ) -> V:
        """Makes a request that has begun, for all who share it."""
        try:
            answer = request()
        except BaseException as error:
            with self._changed:
                if isinstance(error, SeamlineError) and not _is_end_of_time(error, deadline):
                    own.error = error
                own.has_begun = own.error is not None
                self._end(line)
            raise
        with self._changed:
            own.answers.append(answer)
            self._end(line)
        return answer

    def _end(self, line: _Line[V]) -> None:
        line.under_way -= 1
        self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _is_end_of_time(error: SeamlineError, deadline: CallerDeadline) -> bool:
    """Whether a request failed because its caller ended."""
    is_own = error.code in (DEADLINE_EXCEEDED, CANCELED)
    return is_own or deadline.remaining_s() < _LAST_MOMENT_S
