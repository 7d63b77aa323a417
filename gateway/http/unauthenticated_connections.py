"""Connections with a request whose sender has not been identified yet.

A new connection does not say who owns it, so connections cannot be counted by principal. Instead,
an unidentified request must arrive and be answered within `SECONDS_MAX`, and when connections get
scarce, the one whose request began first is closed.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

SECONDS_MAX = 60.0
"""Seconds until a request's sender must be identified, or until the request's end if it never
is."""


class Connection(Protocol):
    """A connection that carries requests."""

    sock: Any


class UnauthenticatedConnections:
    """Such connections, in the order in which their requests began. Safe to share between threads.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[Connection, float] = {}

    def add(self, connection: Connection) -> None:
        """Adds a connection on which a request begins to arrive."""
        self._began[connection] = self._clock()

    def remove(self, connection: Connection) -> None:
        """Removes a connection whose request is identified or over."""
        self._began.pop(connection, None)

    def since(self) -> float | None:
        """Returns when the first of the requests began, or None if there is none."""
        return next(iter(tuple(self._began.values())), None)

    def end_first(self) -> None:
        """Ends the connection whose request began first."""
        for connection in list(self._began)[:1]:
            self._end(connection)

    def end_late(self) -> None:
        """Ends the connections whose requests take too long."""
        for connection, began in list(self._began.items()):
            if self._clock() - began < SECONDS_MAX:
                return
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Shuts a connection down; the thread that reads or writes notices, and alone closes it."""
        self.remove(connection)
        with contextlib.suppress(OSError):
            # not a TLS socket's own method, which drops its session while others still read
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
