"""Turns: requests are worked on a few at a time, and one that only waits holds up nobody.

A request takes its turn once all of it has arrived, and has none while it waits for a statement;
its answer is sent after its turn. So clients that wait, or are slow, cost a thread and a connection
each, and no more. Probes take no turn. When very many are waiting already, a request does not wait:
it is answered at once with the present state.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PROBES = frozenset({"/healthz", "/readyz"})


class Turns:
    """The requests that are worked on. Safe to share between threads.

    Args:
        working_max: Requests that are worked on at once.
        waiting_max: Requests that wait at once.
    """

    def __init__(self, working_max: int, waiting_max: int) -> None:
        self._turns = threading.BoundedSemaphore(working_max)
        self._waits = threading.BoundedSemaphore(waiting_max)
        self._mine = threading.local()

    def taken_by(self, application: WSGIApplication, body_bytes_max: int) -> WSGIApplication:
        """The application, each request of which takes its turn.

        Args:
            application: Answers without waiting for the client.
            body_bytes_max: Longest body it reads.
        """

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            if environ.get("PATH_INFO") in PROBES:
                return application(environ, start_response)
            _receive(environ, body_bytes_max)
            with self.working():
                return application(environ, start_response)

        return answer

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[float]:
        """While it lasts, another request may take the turn.

        Yields:
            How many of the seconds to wait: 0 when too many are waiting already.
        """
        if seconds <= 0 or not self._waits.acquire(blocking=False):
            yield 0.0
            return
        has_turn = getattr(self._mine, "has_turn", False)
        if has_turn:
            self._turns.release()
        try:
            yield seconds
        finally:
            self._waits.release()
            if has_turn:
                self._turns.acquire()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While it lasts, the thread has a turn; it waits for one first."""
        with self._turns:
            self._mine.has_turn = True
            try:
                yield
            finally:
                self._mine.has_turn = False


def _receive(environ: Any, bytes_max: int) -> None:
    """Reads the body, at most a byte more than allowed, for the application to notice."""
    length = environ.get("CONTENT_LENGTH") or ""
    if not length and not environ.get("wsgi.input_terminated"):
        return
    wanted = min(int(length), bytes_max + 1) if length.isdecimal() else bytes_max + 1
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(wanted))
