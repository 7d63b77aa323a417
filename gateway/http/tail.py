"""A table's rows as they arrive, as server-sent events.

    GET /api/v1/tail/{table}    ?from=TOKEN|beginning|now  ?where=  ?catalog=  ?schema=

    event: columns      {"columns": [{"name": …, "type": …}, …]}: first, and when they change
    event: rows         {"data": [[…], …]}, with a token as its id
    event: error        the error, after which the stream ends

A client that reconnects sends the last id in `Last-Event-ID`, and continues exactly there. An error
before the first event is the status of the answer. While no rows arrive, a new id is sent now and
then. Each client costs a waiting thread, and a slot only while rows are read for it. A stream ends
when the credential it began with expires or is revoked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import flask
from pydantic import Field

from seamline.connectors import supervision
from seamline.gateway.http.operations import ANY, Answer, Headers, Query, operation
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.http.streams import EVENT_STREAM, Streams, event
from seamline.gateway.http.values import json_rows
from seamline.gateway.query.feed import NOW, Feed, FeedBatch, FeedRequest
from seamline.gateway.query.seams import Seams
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL, Statement

HEARTBEAT_S = 10.0
_PAUSE_S_MIN = 0.1
_PAUSE_S_MAX = 1.0
_WAIT_S = 5.0


class TailQuery(Query):
    """Where to begin, and which rows to return."""

    start: str | None = Field(None, alias="from")
    """A token of any answer, `beginning` or `now`."""
    where: str = ""
    """An SQL condition that the rows must satisfy."""
    catalog: str | None = None
    """The catalog, if the name omits it."""
    schema_: str | None = Field(None, alias="schema")
    """The schema, if the name omits it."""


class LastEvent(Headers):
    """Where a client that reconnects continues."""

    last_event_id: str | None = Field(None, alias="Last-Event-ID")
    """The id of the last event that was received; the stream continues there."""


def blueprint(
    service: Service, seams: Seams, slots: RequestSlots, streams: Streams
) -> flask.Blueprint:
    """Returns the route."""
    routes = flask.Blueprint("tail", __name__, url_prefix="/api/v1/tail")

    def wait(statement: Statement) -> None:
        while statement.state not in FINAL:
            with slots.waiting(_WAIT_S) as left_s:
                statement.wait(max(_PAUSE_S_MIN, left_s))

    @routes.get("/<table>")
    @operation("A table's rows as they arrive", {200: Answer("Events", {EVENT_STREAM: None})}, ANY)
    def tail(table: str, query: TailQuery, last: LastEvent) -> flask.Response:
        flask.g.table = table
        request = FeedRequest(
            table,
            last.last_event_id or query.start or NOW,
            query.where,
            query.catalog,
            query.schema_,
        )
        feed = Feed(service, seams, request, flask.g.principal, wait, flask.g.origin)
        still_known = streams.still_known()
        return streams.answer(lambda: _events(feed, feed.begin(), slots, still_known))

    return routes


def _events(
    feed: Feed, first: FeedBatch, slots: RequestSlots, still_known: Callable[[], object]
) -> Iterator[str]:
    batch: FeedBatch | None = first
    columns: list[dict[str, str]] = []
    pause_s, said_at = _PAUSE_S_MIN, time.monotonic()
    idle = threading.Event()
    while feed.is_open:
        if batch is not None:
            own = [{"name": column.name, "type": str(column.type)} for column in batch.output]
            if own != columns:
                columns = own
                yield event("columns", {"columns": columns})
            with slots.working():
                rows = _rows_event(batch)
            yield rows
            pause_s, said_at = _PAUSE_S_MIN, time.monotonic()
        else:
            idle.wait(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
        try:
            still_known()
            with slots.working():
                batch = feed.next(is_due=time.monotonic() - said_at > HEARTBEAT_S)
        except Exception as error:  # noqa: BLE001 - a stream ends with a named error
            yield event("error", {"error": supervision.named(error).to_json()})
            return


def _rows_event(batch: FeedBatch) -> str:
    rows = json_rows(batch.rows, [column.type for column in batch.output])
    if not rows:
        return f": nothing new\nid: {batch.token}\n\n"
    return event("rows", {"data": rows}, batch.token)
