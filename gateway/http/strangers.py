"""Connections by which a request comes of which nobody knows yet who sends it.

Whoever connects has not said who they are, so nobody's connections are counted. Instead, what a
stranger asks must arrive and be answered within `SECONDS_MAX`, and where connections get scarce,
the one that began first makes way.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

SECONDS_MAX = 60.0
"""How long a request may take until it is known whose it is; to its end, if it never is."""


class Connection(Protocol):
    """What a request comes by."""

    sock: Any


class Strangers:
    """Such connections, in the order in which their requests began. Safe to share between threads.

    Args:
        clock: The present, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[Connection, float] = {}

    def add(self, connection: Connection) -> None:
        """A request begins to arrive."""
        self._began[connection] = self._clock()

    def remove(self, connection: Connection) -> None:
        """It is known whose it is, or it is over."""
        self._began.pop(connection, None)

    def since(self) -> float | None:
        """When the one that began first did, or None where there is none."""
        return next(iter(tuple(self._began.values())), None)

    def end_first(self) -> None:
        """Ends the one that began first."""
        for connection in list(self._began)[:1]:
            self._end(connection)

    def end_late(self) -> None:
        """Ends those that take too long."""
        for connection, began in list(self._began.items()):
            if self._clock() - began < SECONDS_MAX:
                return
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Whoever reads or writes finds its end. It is closed by them, and by nobody else."""
        self.remove(connection)
        with contextlib.suppress(OSError):
            # not the method of a socket with TLS, which forgets its session under who reads
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
