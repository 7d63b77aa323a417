"""HTTP clients whose answers arrive whole within a time, or not at all.

A client's own time-outs bound the wait for the next bytes. A server that sends one byte a second
never exceeds them, so within `answered_within` all connections are cut when the time is up.
"""

from __future__ import annotations

import contextlib
import contextvars
import socket
import threading
from collections.abc import Iterator
from typing import Any

import urllib3
from requests import Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from seamline.connectors import supervision


class NoAnswerError(OSError):
    """An answer did not arrive whole in time."""


class _Exchange:
    """The connections of one request, which includes redirects and retries."""

    def __init__(self, seconds: float) -> None:
        self.is_cut = False
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def add(self, sock: socket.socket) -> None:
        """Adds a connection; it is cut at once if the time is up."""
        with self._lock:
            self._sockets.append(sock)
        if self.is_cut:
            self.cut()

    def cut(self) -> None:
        """Ends all of its connections, whatever they wait for."""
        self.is_cut = True
        with self._lock:
            for sock in self._sockets:
                with contextlib.suppress(OSError):  # it is closed already
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def too_late(self) -> NoAnswerError:
        """Returns the error for an answer that is not there in time."""
        return NoAnswerError(f"no whole answer within {self._seconds:g} s")


_exchange: contextvars.ContextVar[_Exchange | None] = contextvars.ContextVar(
    "exchange", default=None
)


@contextlib.contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Bounds the time for a request, from connecting to the last byte of the answer.

    This holds for clients with `bounded` connections, in this thread.

    Raises:
        NoAnswerError: the time is up.
    """
    exchange = _Exchange(seconds)
    cancel = supervision.later(seconds, "request", exchange.cut)
    token = _exchange.set(exchange)
    try:
        yield
    except (OSError, HTTPError) as error:
        if exchange.is_cut:
            raise exchange.too_late() from error
        raise
    finally:
        _exchange.reset(token)
        cancel()
    if exchange.is_cut:  # a body without a length ends where its connection does
        raise exchange.too_late()


class _Bounded:
    """Adds a connection to the exchange it is used in."""

    sock: Any

    def connect(self) -> None:
        """Connects."""
        super().connect()  # type: ignore[misc]
        self._join()

    def request(self, *arguments: Any, **named: Any) -> None:
        """Sends a request."""
        self._join()
        super().request(*arguments, **named)  # type: ignore[misc]

    def _join(self) -> None:
        exchange = _exchange.get()
        if exchange is not None and self.sock is not None:
            exchange.add(self.sock)


class _BoundedConnection(_Bounded, HTTPConnection):
    pass


class _BoundedTlsConnection(_Bounded, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _BoundedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedTlsConnection


def bounded(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Returns a pool manager whose connections `answered_within` bounds."""
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager


class _Adapter(HTTPAdapter):
    """Sends the requests of a session through `bounded` connections."""

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, **named)
        bounded(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        return bounded(super().proxy_manager_for(proxy, **named))


def bound(session: Session) -> None:
    """Makes `answered_within` bound the requests of a session."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
