"""Cuts off clients that fall silent in the middle of a call, so that they do not hold resources.

A call waits for its client while it reads a message and while it sends one. A client that sends
nothing for too long, or receives nothing for even longer, is cut off, so that a stalled call does
not keep its thread. A client that processes rows may take its time before it asks for the next
ones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from seamline.connectors.supervision import Loop

SENDS_S_MAX = 60.0
_CHECK_S = 5.0
T = TypeVar("T")


class Silence:
    """Cuts off clients that are silent. Safe to share between threads.

    Args:
        receives_s_max: Seconds for which a client may receive none of what it is sent.
        sends_s_max: Seconds for which a client may not send the message that is awaited.
        check_s: Seconds between checks.
    """

    def __init__(
        self, receives_s_max: float, sends_s_max: float = SENDS_S_MAX, check_s: float = _CHECK_S
    ) -> None:
        self._receives_s_max = receives_s_max
        self._sends_s_max = sends_s_max
        self._check_s = check_s
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, Any]] = {}
        self._loop = Loop("flight", self._step, delay_s=check_s)

    def read(self, messages: Iterator[T], context: Any) -> Iterator[T]:
        """Yields what a client sends."""
        while True:
            with self._waits(context, self._sends_s_max):
                message = next(messages, None)
            if message is None:
                return
            yield message

    def send(self, messages: Iterator[T], context: Any) -> Iterator[T]:
        """Yields messages for a client, each once the previous one has been sent."""
        for message in messages:
            with self._waits(context, self._receives_s_max):
                yield message

    def close(self) -> None:
        """Stops checking."""
        self._loop.stop()

    @contextlib.contextmanager
    def _waits(self, context: Any, seconds: float) -> Iterator[None]:
        with self._lock:
            self._waiting[id(context)] = (time.monotonic() + seconds, context)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(id(context), None)

    def _step(self) -> float:
        now = time.monotonic()
        with self._lock:
            silent = [context for deadline, context in self._waiting.values() if deadline < now]
        for context in silent:
            context.cancel()
        return self._check_s
