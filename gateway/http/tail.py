"""A table's rows as they arrive, as server-sent events.

    GET /api/v1/tail/{table}    ?from=TOKEN|beginning|now  ?where=  ?catalog=  ?schema=

    event: columns      {"columns": [{"name": …, "type": …}, …]}: first, and when they change
    event: rows         {"data": [[…], …]}, with a token as its id
    event: error        the error, after which the stream ends

A client that reconnects sends the last id in `Last-Event-ID`, and goes on exactly there. What is
wrong at first is the status of the answer. While nothing arrives, a new id comes now and then. Each
client costs a thread that waits, and a turn only while there is something to read for it. A stream
ends with the credential that it began with.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import flask

from seamline.connectors import supervision
from seamline.errors import TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.http.turns import Turns
from seamline.gateway.http.values import json_rows
from seamline.gateway.query.feed import NOW, Feed, FeedBatch, FeedRequest
from seamline.gateway.query.seams import Seams
from seamline.gateway.query.service import Service
from seamline.gateway.query.statements import FINAL, Statement

FEEDS_MAX = 100
HEARTBEAT_S = 10.0
_PAUSE_S_MIN = 0.1
_PAUSE_S_MAX = 1.0
_WAIT_S = 5.0
_RETRY_MS = 1000


def blueprint(
    service: Service, seams: Seams, turns: Turns, authentication: Authentication
) -> flask.Blueprint:
    """The route."""
    routes = flask.Blueprint("tail", __name__, url_prefix="/api/v1/tail")
    feeds = threading.BoundedSemaphore(FEEDS_MAX)

    def wait(statement: Statement) -> None:
        while statement.state not in FINAL:
            with turns.waiting(_WAIT_S) as left_s:
                statement.wait(max(_PAUSE_S_MIN, left_s))

    @routes.get("/<table>")
    def tail(table: str) -> flask.Response:
        given = flask.request.args
        flask.g.table = table
        request = FeedRequest(
            table,
            flask.request.headers.get("Last-Event-ID") or given.get("from") or NOW,
            given.get("where", ""),
            given.get("catalog"),
            given.get("schema"),
        )
        feed = Feed(service, seams, request, flask.g.principal, wait, flask.g.origin)
        if not feeds.acquire(blocking=False):
            raise SeamlineError(
                TOO_MANY_STATEMENTS,
                f"{FEEDS_MAX} clients follow tables already",
                hint="Follow it from another gateway, or when one of them has gone.",
            )
        try:
            first = feed.begin()
        except BaseException:
            feeds.release()
            raise
        still_known = functools.partial(authentication.again, flask.g.identity)
        events = _events(feed, first, turns, still_known)
        answer = flask.Response(events, mimetype="text/event-stream")
        answer.headers["X-Accel-Buffering"] = "no"
        answer.call_on_close(feeds.release)
        return answer

    return routes


def _events(
    feed: Feed, first: FeedBatch, turns: Turns, still_known: Callable[[], object]
) -> Iterator[str]:
    yield f"retry: {_RETRY_MS}\n\n"
    batch: FeedBatch | None = first
    columns: list[dict[str, str]] = []
    pause_s, said_at = _PAUSE_S_MIN, time.monotonic()
    idle = threading.Event()
    while feed.is_open:
        if batch is not None:
            own = [{"name": column.name, "type": str(column.type)} for column in batch.output]
            if own != columns:
                columns = own
                yield _event("columns", {"columns": columns})
            with turns.working():
                event = _rows_event(batch)
            yield event
            pause_s, said_at = _PAUSE_S_MIN, time.monotonic()
        else:
            idle.wait(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
        try:
            still_known()
            with turns.working():
                batch = feed.next(is_due=time.monotonic() - said_at > HEARTBEAT_S)
        except Exception as error:  # noqa: BLE001 - a stream ends with a named error
            yield _event("error", {"error": supervision.named(error).to_json()})
            return


def _rows_event(batch: FeedBatch) -> str:
    rows = json_rows(batch.rows, [column.type for column in batch.output])
    if not rows:
        return f": nothing new\nid: {batch.token}\n\n"
    return _event("rows", {"data": rows}, batch.token)


def _event(kind: str, body: dict[str, Any], token: str = "") -> str:
    id_ = f"id: {token}\n" if token else ""
    return f"event: {kind}\n{id_}data: {json.dumps(body, separators=(',', ':'))}\n\n"
