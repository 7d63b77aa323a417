"""Request slots: few requests are worked on at once, and one that only waits holds up nobody else.

A request takes a slot once all of it has arrived, and gives it up while it waits for a statement, a
catalog or the like; its answer is sent without it. So clients that wait, or are slow, only cost
a thread and a connection each. Probes take no slot. If very many requests are already waiting, a
request does not wait, but is answered at once with the current state.

If there are several principals, the requests of one may take at most half of the slots and half of
the waiting places. A further request waits without a slot until another of the same principal has
ended, and is refused if too many do.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from seamline.connectors import dependencies
from seamline.errors import RETRY_AFTER, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.shares import Shares

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PROBES = frozenset({"/healthz", "/readyz"})
ENDS_CONNECTION = "seamline.ends_connection"
"""The key in a request's environment of a function to call if its body is not read to the end."""


class RequestSlots:
    """The requests that are worked on. Safe to share between threads.

    Args:
        working_max: The number of requests that are worked on at once.
        waiting_max: The number of requests that may wait at once.
        shared: Whether there are several principals.
    """

    def __init__(self, working_max: int, waiting_max: int, *, shared: bool = False) -> None:
        self._slots = threading.BoundedSemaphore(working_max)
        self._waits = threading.BoundedSemaphore(waiting_max)
        self._working = Shares(max(1, working_max // 2) if shared else working_max)
        self._waiting = Shares(max(1, waiting_max // 2) if shared else waiting_max)
        self._mine = threading.local()

    def limiting(self, application: WSGIApplication, body_bytes_max: int) -> WSGIApplication:
        """Wraps an application so that each of its requests takes a slot.

        Args:
            application: The application, which answers without waiting for the client.
            body_bytes_max: The size of the longest body that it reads.
        """

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            self._mine.name = None
            if environ.get("PATH_INFO") in PROBES:
                return application(environ, start_response)
            _receive(environ, body_bytes_max)
            with self.working():
                return application(environ, start_response)

        return answer

    def belong_to(self, name: str) -> None:
        """Assigns the current request, which has a slot, to a principal.

        It waits, without a slot, if that principal has too many requests being worked on.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS when too many of the principal's requests wait.
        """
        if not self._working.take(name, may_wait=False):
            with self._waited_for(name):
                self._slots.release()
                try:
                    self._working.take(name)
                finally:
                    self._slots.acquire()
        self._mine.name = name
        self._mine.slot.name = name

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[float]:
        """Gives up the slot of the current request while it waits.

        Yields:
            The number of seconds to wait: `seconds`, or 0 when too many are waiting already.
        """
        if seconds <= 0 or not self._begin_to_wait(self._name):
            yield 0.0
            return
        slot = getattr(self._mine, "slot", None)
        if slot is not None:
            slot.block()
        try:
            yield seconds
        finally:
            self._end_to_wait(self._name)
            if slot is not None:
                slot.unblock()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Waits for a slot, and holds it for the current thread."""
        slot = _Slot(self, self._name)
        self.take(slot.name)
        try:
            self._mine.slot = slot
            with dependencies.calls_of(slot):
                yield
        finally:
            self._mine.slot = None
            self.give_back(slot.name)

    @property
    def _name(self) -> str | None:
        """The principal of this thread's request; None while that is unknown."""
        name: str | None = getattr(self._mine, "name", None)
        return name

    def take(self, name: str | None) -> None:
        """Waits for a slot of a principal; of nobody as long as that is unknown."""
        if name is not None:
            self._working.take(name)
        self._slots.acquire()

    def give_back(self, name: str | None) -> None:
        """Gives back a slot of a principal."""
        self._slots.release()
        if name is not None:
            self._working.give_back(name)

    @contextlib.contextmanager
    def _waited_for(self, name: str) -> Iterator[None]:
        if not self._begin_to_wait(name):
            raise SeamlineError(
                TOO_MANY_STATEMENTS,
                f"too many requests of {name} are waiting",
                details={RETRY_AFTER: 1},
            )
        try:
            yield
        finally:
            self._end_to_wait(name)

    def _begin_to_wait(self, name: str | None) -> bool:
        if name is not None and not self._waiting.take(name, may_wait=False):
            return False
        if self._waits.acquire(blocking=False):
            return True
        if name is not None:
            self._waiting.give_back(name)
        return False

    def _end_to_wait(self, name: str | None) -> None:
        self._waits.release()
        if name is not None:
            self._waiting.give_back(name)


class _Slot(dependencies.Caller):
    """The slot of one request, for the calls that are made for it.

    Args:
        slots: Whose slot it is.
        name: The principal; None while that is unknown.
    """

    def __init__(self, slots: RequestSlots, name: str | None) -> None:
        super().__init__()
        self.name = name
        self._slots = slots

    def release(self) -> None:
        """See `Caller.release`."""
        self._slots.give_back(self.name)

    def regain(self) -> None:
        """See `Caller.regain`."""
        self._slots.take(self.name)


def _receive(environ: Any, bytes_max: int) -> None:
    """Reads the body, up to one byte more than allowed, so that the application refuses it.

    Otherwise it would take only the allowed part of a chunked body and ignore the rest, which would
    remain where the connection's next request begins.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if not length and not environ.get("wsgi.input_terminated"):
        return
    size = min(int(length), bytes_max + 1) if length.isdecimal() else bytes_max + 1
    received = environ["wsgi.input"].read(size)
    environ["wsgi.input"] = io.BytesIO(received)
    if len(received) > bytes_max:
        environ["CONTENT_LENGTH"] = str(len(received))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ.get(ENDS_CONNECTION, lambda: None)()
