"""Our own REST API: statements and their chunks.

    POST   /api/v1/statements                     submit, wait a little, answer with the manifest
    GET    /api/v1/statements                     the statements that the caller may see
    GET    /api/v1/statements/{id}                the manifest; ?wait= seconds
    GET    /api/v1/statements/{id}/chunks/{n}     a chunk; ?format=ARROW_STREAM|JSON_ARRAY|CSV
    POST   /api/v1/statements/{id}/cancel         ask it to end
    DELETE /api/v1/statements/{id}                release the result

States are PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED and CLOSED. The manifest carries the
columns, the chunks that are ready, the receipt and the token. A failed statement answers its
submission with the error's HTTP status; when asked for later, its manifest is a plain answer.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping
from typing import Any

import flask

from seamline.errors import INVALID_REQUEST, SeamlineError
from seamline.gateway.access.rules import Action
from seamline.gateway.http.turns import Turns
from seamline.gateway.http.values import json_rows
from seamline.gateway.query.service import Service
from seamline.gateway.query.spool import read_chunk
from seamline.gateway.query.statements import FINAL, State, Statement, StatementRequest
from seamline.sql import parameters

ARROW_STREAM = "ARROW_STREAM"
JSON_ARRAY = "JSON_ARRAY"
CSV = "CSV"
FORMATS = (ARROW_STREAM, JSON_ARRAY, CSV)
WAIT_S_DEFAULT = 10.0
WAIT_S_MAX = 60.0
INLINE_BYTES_MAX = 1 << 20
_ARROW_TYPE = "application/vnd.apache.arrow.stream"

_FIELDS: Mapping[str, tuple[type, ...]] = {
    "statement": (str,),
    "parameters": (list, dict),
    "catalog": (str,),
    "schema": (str,),
    "dialect": (str,),
    "engine": (str,),
    "token": (str,),
    "after": (str, list),
    "freshness": (str,),
    "timeout": (int, float),
    "wait_timeout": (int, float),
    "on_wait_timeout": (str,),
    "row_limit": (int,),
    "format": (str,),
    "properties": (dict,),
    "prepared": (dict,),
}


def blueprint(service: Service, turns: Turns) -> flask.Blueprint:
    """The routes of a service; a request that waits for a statement gives up its turn."""
    routes = flask.Blueprint("statements", __name__, url_prefix="/api/v1/statements")

    @routes.post("")
    def submit() -> flask.Response:
        body = _body()
        format_ = _format(body.get("format", JSON_ARRAY))
        statement = service.submit(_request(body), flask.g.principal, flask.g.origin)
        state = _await(statement, turns, _wait(body.get("wait_timeout", WAIT_S_DEFAULT)))
        if state not in FINAL and _on_wait_timeout(body) == "CANCEL":
            _cancel(statement, turns)
        answer = flask.jsonify(manifest(statement, inline=format_))
        if statement.error is not None:
            answer.status_code = statement.error.code.http_status
        return answer

    @routes.get("")
    def listing() -> flask.Response:
        found = service.statements(flask.g.principal)
        return flask.jsonify({"statements": [_summary(statement) for statement in found]})

    @routes.get("/<statement_id>")
    def status(statement_id: str) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal, Action.VIEW)
        _await(statement, turns, _wait(flask.request.args.get("wait", 0)))
        return flask.jsonify(manifest(statement))

    @routes.get("/<statement_id>/chunks/<int:index>")
    def chunk(statement_id: str, index: int) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal)
        format_ = _format(flask.request.args.get("format", ARROW_STREAM))
        wait_s = _wait(flask.request.args.get("wait", WAIT_S_DEFAULT))
        data = _chunk(statement, index, turns, wait_s)
        if data is None:
            return flask.Response(status=202, headers={"Retry-After": "0"})
        return _chunk_response(statement, index, data, format_)

    @routes.post("/<statement_id>/cancel")
    def cancel(statement_id: str) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal, Action.KILL)
        _cancel(statement, turns)
        return flask.jsonify(manifest(statement))

    @routes.delete("/<statement_id>")
    def close(statement_id: str) -> flask.Response:
        service.statement(statement_id, flask.g.principal).close()
        return flask.Response(status=204)

    return routes


def manifest(statement: Statement, inline: str | None = None) -> dict[str, Any]:
    """Everything about a statement but its rows; a small first chunk is included when asked for."""
    spool = statement.spool
    body: dict[str, Any] = {
        "statement_id": statement.statement_id,
        "state": statement.state.value,
        "elapsed_s": round(statement.elapsed_s, 6),
        "progress": statement.progress,
    }
    if statement.error is not None:
        body["error"] = statement.error.to_json()
    if spool is None or statement.error is not None:
        return body
    body["columns"] = [
        {"name": column.name, "type": str(column.type)} for column in statement.output
    ]
    body["chunks"] = {
        "count": spool.chunk_count,
        "rows": spool.chunk_rows,
        "complete": spool.complete,
    }
    body["row_count"] = spool.row_count
    body["truncated"] = statement.truncated
    body["receipt"] = statement.receipt
    body["token"] = statement.receipt.get("token")
    body["session"] = statement.receipt.get("session")
    if statement.write_token is not None:
        body["write_token"] = statement.write_token
    if statement.changes:
        body["changes"] = statement.changes
    if inline is not None and spool.chunk_count and statement.state is State.SUCCEEDED:
        body["inline"] = _inline(statement, inline)
    return body


def _inline(statement: Statement, format_: str) -> dict[str, Any] | None:
    """The first chunk in the answer itself, which saves a second request for small results."""
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
        return {"csv": _csv(statement, data, header=True)}
    return {"data": json_rows(read_chunk(data), [c.type for c in statement.output])}


def _summary(statement: Statement) -> dict[str, Any]:
    return {
        "statement_id": statement.statement_id,
        "statement": statement.request.statement,
        "state": statement.state.value,
        "submitted_at": statement.submitted_at,
        "elapsed_s": round(statement.elapsed_s, 6),
    }


def _await(statement: Statement, turns: Turns, seconds: float) -> State:
    with turns.waiting(seconds) as left_s:
        return statement.wait(left_s)


def _cancel(statement: Statement, turns: Turns) -> None:
    statement.cancel()
    _await(statement, turns, WAIT_S_DEFAULT)


def _chunk(statement: Statement, index: int, turns: Turns, seconds: float) -> bytes | None:
    with turns.waiting(seconds) as left_s:
        statement.wait_for_columns(left_s)
        if statement.error is not None:
            raise statement.error
        if statement.spool is None:
            return None
        data = statement.spool.chunk(index, left_s)
    if statement.error is not None:
        raise statement.error
    return data


def _chunk_response(statement: Statement, index: int, data: bytes, format_: str) -> flask.Response:
    spool = statement.spool
    assert spool is not None
    if format_ == ARROW_STREAM:
        answer = flask.Response(data, mimetype=_ARROW_TYPE)
    elif format_ == CSV:
        answer = flask.Response(_csv(statement, data, header=index == 0), mimetype="text/csv")
    else:
        rows = json_rows(read_chunk(data), [column.type for column in statement.output])
        answer = flask.jsonify({"chunk": index, "data": rows})
    last = spool.complete and index == spool.chunk_count - 1
    if last:
        statement.hand_over()
    answer.headers["Seamline-Last-Chunk"] = str(last).lower()
    return answer


def _csv(statement: Statement, data: bytes, *, header: bool) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink)
    if header:
        writer.writerow([column.name for column in statement.output])
    for row in json_rows(read_chunk(data), [column.type for column in statement.output]):
        writer.writerow(["" if cell is None else cell for cell in row])
    return sink.getvalue()


# --- Requests ------------------------------------------------------------------------------------


def _body() -> dict[str, Any]:
    body = body_of(_FIELDS)
    if not body.get("statement"):
        raise SeamlineError(INVALID_REQUEST, "the field statement is missing")
    return body


def body_of(fields: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """The request's body, nulls left out.

    Args:
        fields: The fields it may have, and the types of their values.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    body = flask.request.get_json(silent=True)
    if not isinstance(body, dict):
        example = ", ".join(f'"{name}": …' for name in list(fields)[:1])
        raise SeamlineError(
            INVALID_REQUEST,
            "the body is not a JSON object",
            hint=f"Send {{{example}}} with Content-Type: application/json.",
        )
    for name, value in body.items():
        wanted = fields.get(name)
        if wanted is None:
            raise SeamlineError(
                INVALID_REQUEST,
                f"{name!r} is not a field of this request",
                hint=f"Fields are: {', '.join(fields)}.",
            )
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise SeamlineError(INVALID_REQUEST, f"{name} has a value of the wrong type")
    return {name: value for name, value in body.items() if value is not None}


def _request(body: Mapping[str, Any]) -> StatementRequest:
    given = body.get("parameters", [])
    values: Any = (
        {name: parameters.from_json(value) for name, value in given.items()}
        if isinstance(given, dict)
        else [parameters.from_json(value) for value in given]
    )
    limit = body.get("row_limit")
    if limit is not None and limit < 0:
        raise SeamlineError(INVALID_REQUEST, "row_limit must not be negative")
    return StatementRequest(
        statement=body["statement"],
        parameters=values,
        catalog=body.get("catalog"),
        schema=body.get("schema"),
        dialect=body.get("dialect"),
        engine=body.get("engine"),
        token=body.get("token"),
        after=_tokens(body.get("after")),
        freshness=body.get("freshness"),
        timeout_s=body.get("timeout"),
        row_limit=limit,
        properties=_texts(body, "properties"),
        prepared=_texts(body, "prepared"),
    )


def _texts(body: Mapping[str, Any], field: str) -> dict[str, str]:
    """An object of texts; nulls left out."""
    found = {name: text for name, text in body.get(field, {}).items() if text is not None}
    if not all(isinstance(text, str) for text in found.values()):
        raise SeamlineError(INVALID_REQUEST, f"{field} must be an object of texts")
    return found


def _tokens(value: Any) -> tuple[str, ...]:
    tokens = [value] if isinstance(value, str) else value or []
    if not all(isinstance(token, str) for token in tokens):
        raise SeamlineError(INVALID_REQUEST, "after must be a token or a list of tokens")
    return tuple(tokens)


def _format(value: Any) -> str:
    folded = str(value).upper()
    if folded not in FORMATS:
        raise SeamlineError(
            INVALID_REQUEST,
            f"format {value!r} is not known",
            hint=f"format is one of: {', '.join(FORMATS)}",
        )
    return folded


def _wait(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError) as error:
        raise SeamlineError(INVALID_REQUEST, f"{value!r} is not a number of seconds") from error
    return min(WAIT_S_MAX, max(0.0, seconds))


def _on_wait_timeout(body: Mapping[str, Any]) -> str:
    value = str(body.get("on_wait_timeout", "CONTINUE")).upper()
    if value not in {"CONTINUE", "CANCEL"}:
        raise SeamlineError(
            INVALID_REQUEST, f"on_wait_timeout {value!r} is not known", hint="CONTINUE or CANCEL"
        )
    return value
