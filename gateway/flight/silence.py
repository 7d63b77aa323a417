"""Clients that fall silent in the middle of a call: what they hold is taken from them.

A call waits for its client while it reads a message and while it sends one. Who does not send for
so long, or takes nothing for longer, is cut off: a call that goes nowhere does not keep its thread.
A client that works on rows may take its time for the next ones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from seamline.connectors.supervision import Loop

SENDS_S_MAX = 60.0
_LOOK_S = 5.0
T = TypeVar("T")


class Silence:
    """Cuts off clients that are silent. Safe to share between threads.

    Args:
        takes_s_max: How long a client may take nothing of what it is sent.
        sends_s_max: How long one may not send what it has begun to.
        look_s: How often that is looked at.
    """

    def __init__(
        self, takes_s_max: float, sends_s_max: float = SENDS_S_MAX, look_s: float = _LOOK_S
    ) -> None:
        self._takes_s_max = takes_s_max
        self._sends_s_max = sends_s_max
        self._look_s = look_s
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, Any]] = {}
        self._loop = Loop("flight", self._step, delay_s=look_s)

    def read(self, messages: Iterator[T], context: Any) -> Iterator[T]:
        """What a client sends."""
        while True:
            with self._waits(context, self._sends_s_max):
                found = next(messages, None)
            if found is None:
                return
            yield found

    def sent(self, messages: Iterator[T], context: Any) -> Iterator[T]:
        """What a client is sent; it is asked for the next when the last one has gone."""
        for message in messages:
            with self._waits(context, self._takes_s_max):
                yield message

    def close(self) -> None:
        """Looks no more."""
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
            silent = [context for until, context in self._waiting.values() if until < now]
        for context in silent:
            context.cancel()
        return self._look_s
