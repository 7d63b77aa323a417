"""The gateway's own REST API: statements and their chunks.

    POST   /api/v1/statements                     submit, wait briefly, answer with the manifest
    GET    /api/v1/statements                     the latest statements; ?limit=, ?state=
    GET    /api/v1/statements/{id}                the manifest; ?wait= seconds
    GET    /api/v1/statements/{id}/chunks/{n}     a chunk; ?format=ARROW_STREAM|JSON_ARRAY|CSV
    GET    /api/v1/statements/{id}/events         its progress, as server-sent events
    POST   /api/v1/statements/{id}/cancel         ask it to end
    DELETE /api/v1/statements/{id}                release the result

States are PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED and CLOSED. The manifest carries the
columns, the chunks that are ready, the receipt and the token. If a statement fails, its submission
is answered with the error's HTTP status; a later request for its manifest has status 200.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import flask
from pydantic import BeforeValidator, Field

from seamline.connectors.chunks import compressed, read_chunk
from seamline.errors import STATEMENT_LOST, STATEMENT_NOT_FOUND, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.rules import Action
from seamline.gateway.commands import updates
from seamline.gateway.http import answers
from seamline.gateway.http.operations import (
    ANY,
    JSON,
    Answer,
    Body,
    Query,
    empty,
    json,
    operation,
)
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.http.streams import EVENT_STREAM, Streams, event
from seamline.gateway.http.values import csv_text, json_rows
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.spool import ResultSpool
from seamline.gateway.statements.statement import FINAL, State, Statement, StatementRequest
from seamline.planners.plan.route import ENGINES
from seamline.sql.parsing import parameters

ARROW_STREAM = "ARROW_STREAM"
JSON_ARRAY = "JSON_ARRAY"
CSV = "CSV"
WAIT_S_DEFAULT = 10.0
WAIT_S_MAX = 60.0
INLINE_BYTES_MAX = 1 << 20
_LOOK_S = 0.2
HEARTBEAT_S = 10.0
_OWN = ("receipt", "token", "session", "write_token", "changes")
"""What a manifest shows only to the principal who submitted the statement."""
_ARROW_TYPE = "application/vnd.apache.arrow.stream"
_CSV_TYPE = "text/csv"


T = TypeVar("T")


def _folded(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


Format = Annotated[Literal["ARROW_STREAM", "JSON_ARRAY", "CSV"], BeforeValidator(_folded)]
StateName = Annotated[
    Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "CLOSED"],
    BeforeValidator(_folded),
]
Compression = Annotated[Literal["LZ4", "ZSTD"], BeforeValidator(_folded)]
WaitFor = Annotated[Literal["END", "ROWS"], BeforeValidator(_folded)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Submission(Body):
    """A statement, and how to run it."""

    statement: Annotated[str, Field(min_length=1, examples=["SELECT 1"])]
    """The SQL text."""
    parameters: list[Any] | dict[str, Any] | None = None
    """Values of `?` in order, or an object with the values of `:name`."""
    catalog: str | None = None
    """The catalog of names that omit it."""
    schema_: str | None = Field(None, alias="schema")
    """The schema of names that omit it."""
    dialect: str | None = None
    """The SQL dialect, if not the gateway's own."""
    engine: str | None = Field(None, json_schema_extra={"enum": [*ENGINES, None]})
    """The engine that runs the statement."""
    token: str | None = None
    """The token of an earlier statement; returns the same rows again."""
    after: str | list[str] | None = None
    """Tokens that the result must not fall behind: `session` of earlier answers, write tokens."""
    freshness: str | None = None
    """`latest`, `bounded '500ms'` or `cached`."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that the statement may take."""
    wait_timeout: Seconds | None = None
    """Seconds to wait for the result, at most 60; by default 10."""
    on_wait_timeout: Annotated[Literal["CONTINUE", "CANCEL"], BeforeValidator(_folded)] | None = (
        None
    )
    """What happens to the statement after that."""
    wait_for: WaitFor = "END"
    """What to wait for: the end of the statement, or its first chunk."""
    row_limit: Annotated[int, Field(ge=0)] | None = None
    """Number of rows after which the result is cut off and marked as truncated."""
    time_zone: Annotated[str | None, Field(examples=["Europe/Berlin"])] = None
    """The zone of times without one, unless the session property `time_zone_id` sets another; by
    default UTC."""
    format: Format | None = None
    """Format of the rows in the answer itself, if they are few; by default JSON_ARRAY."""
    properties: dict[str, str | None] | None = None
    """Session properties by name."""
    prepared: dict[str, str | None] | None = None
    """Prepared statements: texts by name."""

    def request(self) -> StatementRequest:
        """Returns the request for the service.

        Raises:
            SeamlineError: INVALID_PARAMETERS.
        """
        given = self.parameters if self.parameters is not None else []
        values: Any = (
            {name: parameters.from_json(value) for name, value in given.items()}
            if isinstance(given, dict)
            else [parameters.from_json(value) for value in given]
        )
        return StatementRequest(
            statement=self.statement,
            parameters=values,
            catalog=self.catalog,
            schema=self.schema_,
            dialect=self.dialect,
            engine=self.engine,
            token=self.token,
            after=(self.after,) if isinstance(self.after, str) else tuple(self.after or ()),
            freshness=self.freshness,
            timeout_s=self.timeout,
            row_limit=self.row_limit,
            time_zone=self.time_zone,
            properties=_said(self.properties),
            prepared=_said(self.prepared),
        )


class ListingQuery(Query):
    """Which statements to list."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """The maximum number of statements; the newest come first."""
    state: StateName | None = None
    """Only statements in this state."""


class Waiting(Query):
    """How long to wait, and for what."""

    wait: Seconds = 0.0
    """Seconds to wait, at most 60."""
    wait_for: WaitFor = "END"
    """What to wait for: the end of the statement, or its first chunk."""


class ChunkQuery(Query):
    """How to return a chunk."""

    format: Format = "ARROW_STREAM"
    """Format of its rows."""
    compression: Compression | None = None
    """How the buffers of ARROW_STREAM are compressed; other formats follow `Accept-Encoding`."""
    wait: Seconds = WAIT_S_DEFAULT
    """Seconds to wait for the chunk, at most 60."""


_LOST = frozenset({STATEMENT_NOT_FOUND, STATEMENT_LOST})
_MANIFEST = json(answers.Manifest, "The manifest")
_LISTING = json(answers.Listing, "Statements, newest first")
_CHUNKS = {
    200: Answer("The rows", {_ARROW_TYPE: None, JSON: answers.Chunk, _CSV_TYPE: None}),
    202: Answer("Not ready yet: ask again"),
}


def blueprint(service: Service, slots: RequestSlots, streams: Streams) -> flask.Blueprint:
    """Returns the routes for a service; a request that waits for a statement gives up its slot."""
    routes = flask.Blueprint("statements", __name__, url_prefix="/api/v1/statements")

    @routes.post("")
    @operation(
        "Submits a statement, and waits briefly for its end",
        {200: _MANIFEST},
        ANY,
        failed=answers.Manifest,
    )
    def submit(body: Submission) -> flask.Response:
        statement = service.submit(body.request(), flask.g.principal, flask.g.origin)
        wait_s = WAIT_S_DEFAULT if body.wait_timeout is None else body.wait_timeout
        state = _await(statement, slots, wait_s, body.wait_for)
        if state not in FINAL and body.on_wait_timeout == "CANCEL":
            _cancel(statement, slots)
        answer = flask.jsonify(manifest(statement, inline=body.format or JSON_ARRAY))
        if statement.error is not None:
            answer.status_code = statement.error.code.http_status
        return answer

    @routes.get("")
    @operation("The latest statements that the caller may see", {200: _LISTING})
    def listing(query: ListingQuery) -> flask.Response:
        summaries = service.summaries(flask.g.principal)
        in_state = [each for each in summaries if query.state in {None, each.state.value}]
        return flask.jsonify({"statements": [each.to_json() for each in in_state[: query.limit]]})

    @routes.get("/<statement_id>")
    @operation("The state of a statement", {200: _MANIFEST}, _LOST)
    def status(statement_id: str, query: Waiting) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal, Action.VIEW)
        _await(statement, slots, query.wait, query.wait_for)
        return flask.jsonify(_seen_by(flask.g.principal, statement))

    @routes.post("/<statement_id>/cancel")
    @operation("Asks a statement to end", {200: _MANIFEST}, _LOST)
    def cancel(statement_id: str) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal, Action.KILL)
        _cancel(statement, slots)
        return flask.jsonify(_seen_by(flask.g.principal, statement))

    _add_results(routes, service, slots)
    _add_events(routes, service, streams)
    return routes


def _add_results(routes: flask.Blueprint, service: Service, slots: RequestSlots) -> None:
    @routes.get("/<statement_id>/chunks/<int:index>")
    @operation("A chunk of a statement's rows", _CHUNKS, ANY)
    def chunk(statement_id: str, index: int, query: ChunkQuery) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal)
        answer = _chunk(statement, index, slots, query)
        if answer is None:
            return empty(202, {"Retry-After": "0"})
        last = statement.state is State.SUCCEEDED and index == _chunk_count(statement) - 1
        if last:
            statement.hand_over()
        answer.headers["Seamline-Last-Chunk"] = str(last).lower()
        return answer

    @routes.delete("/<statement_id>")
    @operation("Releases a statement's result", {204: Answer("Released")}, _LOST)
    def close(statement_id: str) -> flask.Response:
        service.statement(statement_id, flask.g.principal).close()
        return empty(204)


def _add_events(routes: flask.Blueprint, service: Service, streams: Streams) -> None:
    @routes.get("/<statement_id>/events")
    @operation(
        "A statement's progress, as it happens",
        {200: Answer("Events", {EVENT_STREAM: None})},
        {*_LOST, TOO_MANY_STATEMENTS},
    )
    def events(statement_id: str) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal, Action.VIEW)
        still_known = streams.still_known()
        who = flask.g.principal
        return streams.answer(lambda: _progress(who, statement, still_known))


def _progress(
    who: Principal, statement: Statement, still_known: Callable[[], object]
) -> Iterator[str]:
    """Yields a `progress` event whenever the manifest has changed, and `end` with the last one."""
    last, last_at = None, time.monotonic()
    while True:
        try:
            still_known()
        except SeamlineError as error:
            yield event("error", {"error": error.to_json()})
            return
        has_ended = statement.state in FINAL
        body = _seen_by(who, statement)
        now = {name: value for name, value in body.items() if name != "elapsed_s"}
        if has_ended:
            yield event("end", body)
            return
        if now != last or time.monotonic() - last_at > HEARTBEAT_S:
            yield event("progress", body)
            last, last_at = now, time.monotonic()
        statement.wait(_LOOK_S)


def _seen_by(who: Principal, statement: Statement) -> dict[str, Any]:
    """Returns the manifest, without the parts that represent the reads of another principal."""
    body = manifest(statement)
    if who.name != statement.principal:
        for name in _OWN:
            body.pop(name, None)
    return body


def manifest(statement: Statement, inline: str | None = None) -> dict[str, Any]:
    """Returns everything about a statement except its rows; a small first chunk if requested."""
    spool = statement.spool
    body: dict[str, Any] = {
        "statement_id": statement.statement_id,
        "state": statement.state.value,
        "elapsed_s": round(statement.elapsed_s, 6),
        "progress": dict(statement.progress),
        "is_read": statement.is_read,
    }
    if statement.error is not None:
        body["error"] = statement.error.to_json()
    if spool is None or statement.error is not None:
        return body
    body["columns"] = [
        {"name": column.name, "type": str(column.type)} for column in statement.output
    ]
    is_complete = spool.complete  # checked first: chunks may be added until then
    body["chunks"] = {
        "count": spool.chunk_count,
        "rows": spool.chunk_rows,
        "complete": is_complete,
    }
    body["row_count"] = spool.row_count
    body["truncated"] = statement.truncated
    body["receipt"] = statement.receipt
    body["token"] = statement.receipt.get("token")
    body["session"] = statement.receipt.get("session")
    if not updates.has_result(statement):
        body["update_type"] = updates.update_type(statement)
        body["update_count"] = updates.rows_written(statement)
    if statement.write_token is not None:
        body["write_token"] = statement.write_token
    if statement.changes:
        body["changes"] = statement.changes
    if inline is not None and spool.chunk_count and statement.state is State.SUCCEEDED:
        body["inline"] = _inline(statement, inline)
    return body


def _inline(statement: Statement, format_: str) -> dict[str, Any] | None:
    """Returns the first chunk for the answer itself, which saves small results a second request."""
    spool = statement.spool
    assert spool is not None
    data = spool.chunk(0, 0)
    if data is None or len(data) > INLINE_BYTES_MAX:
        return None
    if spool.chunk_count == 1:
        statement.hand_over()
    if format_ == ARROW_STREAM:
        return {"arrow": base64.b64encode(data).decode()}
    if format_ == CSV:
        return {"csv": csv_text(read_chunk(data), statement.output, header=True)}
    return {"data": json_rows(read_chunk(data), [c.type for c in statement.output])}


def _await(
    statement: Statement, slots: RequestSlots, seconds: float, wait_for: WaitFor = "END"
) -> State:
    """Waits for the end; or for the first chunk, unless that is about to be the last one."""
    if statement.state in FINAL:
        return statement.state
    with slots.waiting(min(WAIT_S_MAX, seconds)) as left_s:
        if wait_for == "ROWS":
            return statement.wait_for_rows(left_s)
        return statement.wait(left_s)


def _cancel(statement: Statement, slots: RequestSlots) -> None:
    statement.cancel()
    _await(statement, slots, WAIT_S_DEFAULT)


def _chunk_count(statement: Statement) -> int:
    return 0 if statement.spool is None else statement.spool.chunk_count


def _when_there(
    statement: Statement,
    slots: RequestSlots,
    seconds: float,
    get: Callable[[ResultSpool, float], T | None],
) -> T | None:
    """Returns a part of a result once it is ready; None when the time is up."""
    with slots.waiting(min(WAIT_S_MAX, seconds)) as left_s:
        statement.wait_for_result(left_s)
        if statement.error is not None:
            raise statement.error
        if statement.spool is None:
            return None
        data = get(statement.spool, left_s)
    if statement.error is not None:
        raise statement.error
    return data


def _chunk(
    statement: Statement, index: int, slots: RequestSlots, query: ChunkQuery
) -> flask.Response | None:
    """Returns a chunk in the requested form; None when the time is up."""
    seconds, codec = query.wait, query.compression
    if query.format == ARROW_STREAM and codec is None:
        sent = _when_there(statement, slots, seconds, lambda spool, s: spool.pieces(index, s))
        if sent is None:
            return None
        size, pieces = sent
        return flask.Response(pieces, mimetype=_ARROW_TYPE, headers={"Content-Length": str(size)})
    data = _when_there(statement, slots, seconds, lambda spool, s: spool.chunk(index, s))
    if data is None:
        return None
    if query.format == ARROW_STREAM and codec is not None:
        return flask.Response(compressed(data, codec.lower()), mimetype=_ARROW_TYPE)
    if query.format == CSV:
        text = csv_text(read_chunk(data), statement.output, header=index == 0)
        return flask.Response(text, mimetype=_CSV_TYPE)
    rows = json_rows(read_chunk(data), [column.type for column in statement.output])
    return flask.jsonify({"chunk": index, "data": rows})


def _said(texts: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: text for name, text in (texts or {}).items() if text is not None}
