"""Trino's client protocol over the statements of the gateway.

    POST   /v1/statement                                submit; the body is the statement
    GET    /v1/statement/{id}/{slug}/{chunk}/{row}      get its next page; waits about a second
    HEAD   /v1/statement/{id}/{slug}/{chunk}/{row}      say that its client will come back
    DELETE /v1/statement/{id}/{slug}/{chunk}/{row}      cancel or release it
    GET    /v1/query                                    list the latest statements; ?state=
    GET    /v1/query/{id}                               get its state
    DELETE /v1/query/{id}                               ask it to end
    GET    /v1/info                                     describe the server
    GET    /v1/info/state                               say whether it takes statements
    GET    /v1/node                                     list the servers that it watches: none

An answer without `nextUri` is the last one, and has no rows; some clients would read them twice.
A failed statement is a normal answer with `error`. A statement begins when its first page is asked
for: a client that got no answer to its submission may submit again, and only the second one runs.
Each page can be requested again until the result is released. A client says once, when it submits,
in which form it reads answers; the addresses that follow carry it.
"""

from __future__ import annotations

import itertools
import json
import secrets
from typing import Any

import flask

from seamline.dbapi.version import VERSION
from seamline.errors import INVALID_REQUEST, SHUTTING_DOWN, SeamlineError
from seamline.gateway.access.rules import Action
from seamline.gateway.http.face_types import HttpFace, Parts
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL, Statement
from seamline.gateway.trino import results, segments, session
from seamline.gateway.trino.addresses import Addresses
from seamline.gateway.trino.forms import Form
from seamline.gateway.trino.pages import Page, Place, page

POLL_S = 1.0
COLUMNS_S = 0.1
"""How long columns wait for rows to go with them; drivers can cancel once they have columns."""
LISTED = 100
"""How many statements a list has at most."""
PROTOCOL = "476"
"""The Trino release whose protocol this is; tools compare it with the one they need."""


def face(parts: Parts) -> HttpFace:
    """Returns the protocol as a face of a gateway with these parts."""
    routes = blueprint(
        parts.service,
        parts.slots,
        parts.config.http.external_url,
        is_open=parts.authentication.is_open,
    )
    return HttpFace(
        blueprints=(routes,),
        serves=lambda path: path.startswith("/v1/"),
        is_audited=lambda request: (
            request.method == "DELETE" and request.path.startswith("/v1/query/")
        ),
    )


def blueprint(
    service: Service, slots: RequestSlots, external_url: str | None = None, *, is_open: bool = False
) -> flask.Blueprint:
    """Returns the routes for a service.

    Args:
        service: Runs statements.
        slots: The slots of requests; one that waits for a statement gives up its slot.
        external_url: The gateway's address for clients; by default the one in their requests.
        is_open: Whether clients need no authentication.
    """
    routes = flask.Blueprint("trino", __name__, url_prefix="/v1")
    answers = _Answers(service, slots, Addresses(external_url), is_open=is_open)
    path = "/statement/<statement_id>/<slug>/<int:chunk>/<int:row>"
    routes.post("/statement")(answers.submit)
    routes.get(path)(answers.advance)
    routes.delete(path)(answers.leave)
    routes.get("/query")(answers.list)
    routes.get("/query/<statement_id>")(answers.state)
    routes.delete("/query/<statement_id>")(answers.kill)
    routes.get("/info")(answers.info)
    routes.get("/info/state")(answers.server_state)
    routes.get("/node")(lambda: flask.jsonify([]))
    return routes


class _Answers:
    """The handlers of the routes."""

    def __init__(
        self, service: Service, slots: RequestSlots, addresses: Addresses, *, is_open: bool
    ) -> None:
        self._service = service
        self._slots = slots
        self._addresses = addresses
        self._is_open = is_open

    def submit(self) -> flask.Response:
        """Submits the body as a statement."""
        headers, caller = flask.request.headers, flask.g.principal
        try:
            request = session.request_of(_text(), headers)
            if not self._is_open:
                session.check_user(headers, caller.name)
            statement = self._service.submit(request, caller, flask.g.origin, held=True)
        except SeamlineError as error:
            if error.code is SHUTTING_DOWN:
                raise
            refused = secrets.token_urlsafe(18)
            body = results.refusal(error, refused, self._addresses.info(refused))
            return flask.jsonify(body)
        return self._answer(statement, Place(), Form.of_headers(headers))

    def advance(self, statement_id: str, slug: str, chunk: int, row: int) -> flask.Response:
        """Returns the page at a place, or the same place again if the page is not ready yet."""
        statement, place = self._own(statement_id, slug), Place(chunk, row)
        if flask.request.method == "HEAD":  # its own, since Flask answers it as a GET
            return flask.Response()
        self._service.start(statement)
        form = Form.of_parameters(flask.request.args)
        with self._slots.waiting(POLL_S) as left_s:
            read = _chunk(statement, chunk, left_s)
        if read is None:
            # it may have ended since the check, with a chunk that the check did not find
            is_over = statement.state in FINAL and _is_end(statement, place)
            return self._answer(statement, None if is_over else place, form)
        page_ = page(read, place, [column.type for column in statement.output])
        is_last = statement.state in FINAL and not page_.count and _is_end(statement, page_.next)
        data = _data(statement, place, page_, form.encoding)
        return self._answer(statement, None if is_last else page_.next, form, data)

    def leave(self, statement_id: str, slug: str, chunk: int, row: int) -> flask.Response:  # noqa: ARG002 - parts of the address
        """Cancels a statement that is still running, or releases its result, as its client asks."""
        statement = self._own(statement_id, slug)
        if statement.state in FINAL:
            statement.close()
        else:
            statement.cancel()
        return flask.Response(status=204)

    def list(self) -> flask.Response:
        """Returns the latest statements that the caller may see, newest first."""
        statements = self._service.statements(flask.g.principal)
        state = flask.request.args.get("state", "").upper()
        chosen = (each for each in statements if state in ("", each.trino_state))
        return flask.jsonify([*map(results.summary, itertools.islice(chosen, LISTED))])

    def state(self, statement_id: str) -> flask.Response:
        """Returns a statement's progress."""
        statement = self._service.statement(statement_id, flask.g.principal, Action.VIEW)
        return flask.jsonify(results.summary(statement))

    def kill(self, statement_id: str) -> flask.Response:
        """Ends a statement; waits a moment for that, as clients then ask for its state."""
        statement = self._service.statement(statement_id, flask.g.principal, Action.KILL)
        statement.cancel()
        with self._slots.waiting(POLL_S) as left_s:
            statement.wait(left_s)
        return flask.Response(status=204)

    def info(self) -> flask.Response:
        """Describes the server."""
        body = {
            "nodeVersion": {"version": PROTOCOL},
            "environment": f"seamline {VERSION}",
            "coordinator": True,
            "starting": False,
        }
        return flask.jsonify(body)

    def server_state(self) -> flask.Response:
        """Returns Trino's word for whether the server takes statements."""
        return flask.jsonify("ACTIVE" if self._service.accepts_statements else "SHUTTING_DOWN")

    def _own(self, statement_id: str, slug: str) -> Statement:
        self._service.ids.require(statement_id)
        self._addresses.check(statement_id, slug)
        return self._service.statement(statement_id, flask.g.principal)

    def _answer(
        self, statement: Statement, next_: Place | None, form: Form, data: str = ""
    ) -> flask.Response:
        """Returns a page, with everything that is known about its statement so far."""
        statement_id = statement.statement_id
        has_ended, error = statement.state in FINAL, statement.error
        next_uri = None
        if next_ is not None and error is None:
            next_uri = self._addresses.page(statement_id, next_, form)
        else:
            statement.hand_over()
        info_uri = self._addresses.info(statement_id)
        body = results.document(statement, info_uri, next_uri, precisions=form.precisions)
        answer = flask.Response(_with_data(body, data), mimetype="application/json")
        if has_ended and error is None:
            for name, value in session.changed(statement.changes):
                answer.headers.add(name, value)
        return answer


def _text() -> str:
    """Returns the statement's text, which is the body.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    try:
        return flask.request.get_data().decode()
    except UnicodeDecodeError as error:
        raise SeamlineError(
            INVALID_REQUEST, "the body is not UTF-8", hint="Send the statement's text as the body."
        ) from error


def _chunk(statement: Statement, index: int, seconds: float) -> bytes | None:
    """Returns a chunk of the result; None when it is not ready yet, or there are no more."""
    if not statement.wait_for_plan(seconds):
        seconds = min(seconds, COLUMNS_S)
    statement.wait_for_result(seconds)
    spool = statement.spool
    if spool is None or statement.error is not None:
        return None
    has_chunk = spool.has_chunk(index, seconds)
    if spool.complete:
        statement.wait(seconds)  # it will end in a moment, and then its outcome is known
    if not has_chunk or _has_failed(statement):
        return None
    try:
        return spool.chunk(index, 0)
    except SeamlineError:
        if _has_failed(statement):  # since
            return None
        raise


def _has_failed(statement: Statement) -> bool:
    return statement.error is not None


def _is_end(statement: Statement, place: Place) -> bool:
    return statement.spool is None or place.chunk >= statement.spool.chunk_count


def _data(statement: Statement, place: Place, page_: Page, encoding: str | None) -> str:
    """Returns a page's rows as the JSON of an answer; an empty string if there are none."""
    if encoding is None or not page_.rows:
        return page_.rows
    assert statement.spool is not None
    offset = sum(statement.spool.chunk_rows[: place.chunk]) + place.row
    return _json(segments.data(page_.rows, page_.count, offset, encoding))


def _with_data(body: dict[str, Any], data: str) -> str:
    text = _json(body)
    return f'{text[:-1]},"data":{data}}}' if data else text


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
