"""Server-sent events: streams to clients that stay connected.

Each costs a thread that waits, and no turn while it does, so there are so many at once. A stream
ends with the credential that it began with.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import flask

from seamline.errors import RETRY_AFTER, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.authentication import Authentication

STREAMS_MAX = 100
EVENT_STREAM = "text/event-stream"
_RETRY_S = 1


class Streams:
    """The streams of one gateway. Safe to share between threads.

    Args:
        authentication: Says who may still be told something.
    """

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._free = threading.BoundedSemaphore(STREAMS_MAX)

    def still_known(self) -> Callable[[], object]:
        """Raises, whenever it is called, once the current request's credential has ended."""
        return functools.partial(self._authentication.again, flask.g.identity)

    def answer(self, begin: Callable[[], Iterator[str]]) -> flask.Response:
        """The answer that sends events.

        Args:
            begin: Gives the events; what it raises is the answer instead.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        if not self._free.acquire(blocking=False):
            raise SeamlineError(
                TOO_MANY_STATEMENTS,
                f"{STREAMS_MAX} clients already follow tables or statements",
                hint="Follow it from another gateway, or when one of them has gone.",
                details={RETRY_AFTER: _RETRY_S},
            )
        try:
            events = begin()
        except BaseException:
            self._free.release()
            raise
        answer = flask.Response(_sent(events), mimetype=EVENT_STREAM)
        answer.headers["X-Accel-Buffering"] = "no"
        answer.call_on_close(self._free.release)
        return answer


def event(kind: str, body: dict[str, Any], id_: str = "") -> str:
    """An event."""
    named = f"id: {id_}\n" if id_ else ""
    return f"event: {kind}\n{named}data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _sent(events: Iterator[str]) -> Iterator[str]:
    yield f"retry: {_RETRY_S * 1000}\n\n"
    yield from events
