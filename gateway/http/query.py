"""Answers a query in plain text with its rows, as `curl`, notebooks and spreadsheets need it.

    POST   /api/v1/query                   SQL in the body
    GET    /api/v1/statements/{id}/rows    all rows of a statement that has succeeded

Both take ?format=ndjson|json|csv|arrow|parquet, or Accept. The answer begins only after the
statement has succeeded, so the HTTP status says how it ended. If the gateway goes away during the
answer, the HTTP response is incomplete, and clients report that.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import flask
import pyarrow as pa
from pyarrow import parquet
from pydantic import BeforeValidator, Field

from seamline.connectors.chunks import read_chunk
from seamline.dbapi.texts import json_value
from seamline.dbapi.values import arrow_converter
from seamline.errors import (
    DEADLINE_EXCEEDED,
    INVALID_REQUEST,
    RETRY_AFTER,
    TOO_MANY_STATEMENTS,
    SeamlineError,
)
from seamline.gateway.http.operations import ANY, JSON, Answer, Query, Text, operation
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.http.values import csv_text, shown
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL, State, Statement, StatementRequest
from seamline.planners.plan.route import ENGINES
from seamline.sql.binder.scope import Output

TIMEOUT_S_DEFAULT = 60.0
_ENDING_S = 15.0
"""Seconds beyond its timeout that a statement may take to end."""
STATEMENT_ID = "Seamline-Statement-Id"


class SqlText(Text):
    """A statement."""

    text: Annotated[str, Field(min_length=1, examples=["SELECT 1"])]
    """The SQL text."""


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


FormatName = Annotated[
    Literal["ndjson", "json", "csv", "arrow", "parquet"], BeforeValidator(_lowered)
]


class RowsOptions(Query):
    """How rows are answered."""

    format: FormatName | None = None
    """Format of the rows; by default the one that `Accept` names, or else ndjson."""


class QueryOptions(RowsOptions):
    """How a query is run and answered."""

    catalog: str | None = None
    """The catalog of names that omit it."""
    schema_: str | None = Field(None, alias="schema")
    """The schema of names that omit it."""
    dialect: str | None = None
    """The SQL dialect, if not the gateway's own."""
    engine: str | None = Field(None, json_schema_extra={"enum": [*ENGINES]})
    """The engine that runs the query."""
    token: str | None = None
    """The token of an earlier statement; returns the same rows again."""
    after: str | None = None
    """Tokens that the result must not fall behind, separated by commas."""
    freshness: str | None = None
    """`latest`, `bounded '500ms'` or `cached`."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = TIMEOUT_S_DEFAULT
    """Seconds that the query may take."""
    row_limit: Annotated[int, Field(ge=0)] | None = None
    """Number of rows after which the result is cut off."""


@dataclasses.dataclass(frozen=True)
class _Form:
    """An output format of rows.

    Attributes:
        media_type: Its media type.
        pieces: Encodes the chunks of a result, each of which is an Arrow stream.
        needs_names: Whether its readers find values by the names of columns.
    """

    media_type: str
    pieces: Callable[[Iterator[bytes], Sequence[Output]], Iterable[bytes]]
    needs_names: bool = False


def blueprint(service: Service, slots: RequestSlots) -> flask.Blueprint:
    """Returns the route."""
    routes = flask.Blueprint("query", __name__, url_prefix="/api/v1")

    @routes.post("/query")
    @operation("The rows of a query", {200: _ROWS}, ANY)
    def query(sql: SqlText, query: QueryOptions) -> flask.Response:
        form = _form(query)
        request = StatementRequest(
            statement=sql.text,
            catalog=query.catalog,
            schema=query.schema_,
            dialect=query.dialect,
            engine=query.engine,
            token=query.token,
            after=(query.after,) if query.after else (),
            freshness=query.freshness,
            timeout_s=query.timeout,
            row_limit=query.row_limit,
        )
        statement = service.submit(request, flask.g.principal, flask.g.origin)
        _wait(statement, slots, statement.deadline.remaining_s() + _ENDING_S)
        try:
            return _answer(statement, form, slots)
        except SeamlineError:
            statement.close()
            raise

    @routes.get("/statements/<statement_id>/rows")
    @operation("All rows of a statement", {200: _ROWS}, ANY)
    def rows(statement_id: str, query: RowsOptions) -> flask.Response:
        statement = service.statement(statement_id, flask.g.principal)
        if statement.error is not None:
            raise statement.error
        if statement.state is not State.SUCCEEDED:
            raise SeamlineError(
                INVALID_REQUEST,
                f"statement {statement_id} has not ended yet",
                hint=f"Wait for its end: GET /api/v1/statements/{statement_id}?wait=60.",
            )
        return _answer(statement, _form(query), slots)

    return routes


def _form(options: RowsOptions) -> _Form:
    return _FORMS[options.format] if options.format else _accepted()


def _wait(statement: Statement, slots: RequestSlots, seconds: float) -> None:
    with slots.waiting(seconds) as left_s:
        if statement.wait(left_s) not in FINAL:
            statement.cancel()
            if not left_s:
                raise SeamlineError(
                    TOO_MANY_STATEMENTS,
                    "too many clients are already waiting for statements",
                    details={RETRY_AFTER: 1},
                )
            statement.wait(_ENDING_S)
    if statement.error is not None:
        raise statement.error
    if statement.state not in FINAL:
        raise SeamlineError(DEADLINE_EXCEEDED, "the statement was canceled but has not ended yet")


def _answer(statement: Statement, form: _Form, slots: RequestSlots) -> flask.Response:
    spool, columns = statement.spool, statement.output
    assert spool is not None
    if form.needs_names:
        _check_names(columns)
    if spool.chunk_count > 1:
        _check_protocol()

    def chunks() -> Iterator[bytes]:
        for index in range(spool.chunk_count):
            data = spool.chunk(index, 0)
            assert data is not None
            yield data
        statement.hand_over()

    pieces = iter(form.pieces(chunks(), columns))
    body = b"".join(pieces) if spool.chunk_count == 1 else _holding_slots(pieces, slots)
    answer = flask.Response(body, mimetype=form.media_type)
    answer.headers[STATEMENT_ID] = statement.statement_id
    return answer


def _holding_slots(pieces: Iterator[bytes], slots: RequestSlots) -> Iterator[bytes]:
    while True:
        with slots.working():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def _check_names(columns: Sequence[Output]) -> None:
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SeamlineError(
            INVALID_REQUEST,
            f"rows in this format cannot have two columns called {twice}",
            hint="Give the columns different names with AS, or use another format: csv, arrow.",
        )


def _check_protocol() -> None:
    if flask.request.environ.get("SERVER_PROTOCOL") == "HTTP/1.0":
        raise SeamlineError(
            INVALID_REQUEST,
            "the rows are too many for HTTP/1.0, in which an answer that breaks off looks whole",
            hint="Ask with HTTP/1.1; in nginx, set proxy_http_version 1.1.",
        )


def _accepted() -> _Form:
    """Returns the format that the client's `Accept` prefers; ndjson if it accepts anything."""
    kinds = flask.request.accept_mimetypes
    if not kinds:
        return _FORMS["ndjson"]
    best = kinds.best_match([form.media_type for form in _FORMS.values()])
    for form in _FORMS.values():
        if form.media_type == best:
            return form
    media_types = ", ".join(form.media_type for form in _FORMS.values())
    raise SeamlineError(
        INVALID_REQUEST,
        "Accept names no known result format",
        hint=f"The formats are {media_types}.",
    )


# --- Formats -------------------------------------------------------------------------------------


def _lines(chunks: Iterator[bytes], columns: Sequence[Output]) -> Iterator[bytes]:
    for data in chunks:
        yield "".join(f"{line}\n" for line in _objects(read_chunk(data), columns)).encode()


def _array(chunks: Iterator[bytes], columns: Sequence[Output]) -> Iterator[bytes]:
    begin = "["
    for data in chunks:
        objects = ",\n".join(_objects(read_chunk(data), columns))
        if objects:
            yield f"{begin}{objects}".encode()
            begin = ",\n"
    yield b"]\n" if begin == ",\n" else b"[]\n"


def _csv(chunks: Iterator[bytes], columns: Sequence[Output]) -> Iterator[bytes]:
    for index, data in enumerate(chunks):
        yield csv_text(read_chunk(data), columns, header=index == 0).encode()


def _arrow(chunks: Iterator[bytes], _: Sequence[Output]) -> Iterator[bytes]:
    """Yields one Arrow stream of all chunks."""
    return _written(chunks, pa.ipc.new_stream)


def _parquet(chunks: Iterator[bytes], _: Sequence[Output]) -> Iterator[bytes]:
    """Yields a Parquet file, with a row group for each batch."""
    return _written(chunks, parquet.ParquetWriter)


def _written(
    chunks: Iterator[bytes], open_writer: Callable[[Any, pa.Schema], Any]
) -> Iterator[bytes]:
    sink = _Sink()
    writer = None
    for data in chunks:
        with pa.ipc.open_stream(data) as reader:
            writer = writer or open_writer(sink, reader.schema)
            for batch in reader:
                writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()


class _Sink:
    """A buffer to which Arrow writes, and from which its bytes are taken in between."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: Any) -> int:
        """Buffers bytes."""
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Does nothing, as nothing is held back."""

    def close(self) -> None:
        """Does nothing, as there is nothing to release."""

    def taken(self) -> bytes:
        """Returns what was written since the last call."""
        data, self._written = b"".join(self._written), []
        return data


def _objects(batches: Iterable[pa.RecordBatch], columns: Sequence[Output]) -> Iterator[str]:
    names = [column.name for column in columns]
    converters = [arrow_converter(str(column.type)) for column in columns]
    for batch in batches:
        values = [shown(f, column) for f, column in zip(converters, batch.columns, strict=True)]
        for row in zip(*values, strict=True):
            record = dict(zip(names, map(json_value, row), strict=True))
            yield json.dumps(record, ensure_ascii=False)


_FORMS = {
    "ndjson": _Form("application/x-ndjson", _lines, needs_names=True),
    "json": _Form(JSON, _array, needs_names=True),
    "csv": _Form("text/csv", _csv),
    "arrow": _Form("application/vnd.apache.arrow.stream", _arrow),
    "parquet": _Form("application/vnd.apache.parquet", _parquet, needs_names=True),
}
_ROWS = Answer("The rows", {form.media_type: None for form in _FORMS.values()})
