"""Server-sent events: streams to clients that stay connected.

Each stream costs a waiting thread, but no slot while it waits, so the number of streams is limited.
If there are several principals, each may have half of them. A stream ends when the credential it
began with expires or is revoked.
"""

from __future__ import annotations

import collections
import functools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import flask

from seamline.errors import RETRY_AFTER, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.authentication import Authentication

STREAMS_MAX = 100
OWN_MAX = 50
"""Maximum number for one principal, if there are several."""
EVENT_STREAM = "text/event-stream"
_RETRY_S = 1


class Streams:
    """The streams of one gateway. Safe to share between threads."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._lock = threading.Lock()
        self._open: collections.Counter[str] = collections.Counter()

    def still_known(self) -> Callable[[], object]:
        """Returns a check that raises once the current request's credential has ended."""
        return functools.partial(self._authentication.again, flask.g.identity)

    def answer(self, begin: Callable[[], Iterator[str]]) -> flask.Response:
        """Returns the answer that sends events.

        Args:
            begin: Returns the events; if it raises an error, that is the answer instead.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        name = flask.g.principal.name
        self._take(name)
        try:
            events = begin()
        except BaseException:
            self._give_back(name)
            raise
        answer = flask.Response(_sent(events), mimetype=EVENT_STREAM)
        answer.headers["X-Accel-Buffering"] = "no"
        answer.call_on_close(functools.partial(self._give_back, name))
        return answer

    def _take(self, name: str) -> None:
        """Counts another stream of a principal.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        own_max = STREAMS_MAX if self._authentication.is_open else OWN_MAX
        with self._lock:
            if self._open[name] >= own_max:
                who = f"{name} already follows {own_max}"
            elif self._open.total() >= STREAMS_MAX:
                who = f"{STREAMS_MAX} clients already follow"
            else:
                self._open[name] += 1
                return
        raise SeamlineError(
            TOO_MANY_STATEMENTS,
            f"{who} tables or statements",
            hint="Follow it from another gateway, or once one of them has disconnected.",
            details={RETRY_AFTER: _RETRY_S},
        )

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


def event(kind: str, body: dict[str, Any], id_: str = "") -> str:
    """Returns the text of an event."""
    named = f"id: {id_}\n" if id_ else ""
    return f"event: {kind}\n{named}data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _sent(events: Iterator[str]) -> Iterator[str]:
    yield f"retry: {_RETRY_S * 1000}\n\n"
    yield from events
