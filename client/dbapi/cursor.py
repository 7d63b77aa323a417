"""Cursors execute statements and fetch their rows, as Python values or as Arrow.

The first fetch starts with the first chunk; later chunks are requested when they are needed. Ctrl-C
while waiting cancels the statement on the gateway.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from seamline.dbapi.errors import Error, InterfaceError, as_client_error
from seamline.dbapi.parameters import to_json
from seamline.dbapi.statement import Progress, RemoteStatement
from seamline.dbapi.tokens import SeenTokens
from seamline.dbapi.transport import Transport
from seamline.dbapi.values import arrow_converter, json_converter
from seamline.errors import (
    CANCELED,
    INVALID_ARGUMENT,
    MISSING_EXTRA,
    STATEMENT_LOST,
    SeamlineError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.dbapi.connection import Connection

T = TypeVar("T")
_ENDS_A_SESSION = frozenset({"HISTORY_CHANGED", "INVALID_TOKEN"})


class Cursor:
    """A DB-API cursor.

    Attributes:
        arraysize: Rows `fetchmany` returns by default.
        description: Per column (name, type, None, None, None, None, None); None before a result,
            and after a statement without one, such as INSERT and DROP TABLE.
        rowcount: Rows in the result, or rows written; -1 when there are neither.
    """

    def __init__(self, connection: Connection, transport: Transport, seen: SeenTokens) -> None:
        self.arraysize = 1
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._connection = connection
        self._transport = transport
        self._seen = seen
        self._statement = self._new_statement()
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._rows_failure: Exception | None = None
        self._rows_fetched = 0
        self._batches: Batches | None = None
        self._body: Mapping[str, Any] = {}
        self._closed = False

    @property
    def connection(self) -> Connection:
        """The connection it belongs to."""
        return self._connection

    @property
    def statement_id(self) -> str | None:
        """The gateway's id of the statement."""
        return self._statement.statement_id

    @property
    def receipt(self) -> dict[str, Any]:
        """What the result reflects: seams, rows per tier, engine and token."""
        return dict(self._statement.manifest.get("receipt") or {})

    @property
    def token(self) -> str | None:
        """The token of this read; pass it to `execute` to read the same rows again."""
        return self._statement.manifest.get("token")

    @property
    def write_token(self) -> str | None:
        """The token another connection passes as `after` to see the rows that were inserted."""
        return self._statement.manifest.get("write_token")

    @property
    def rownumber(self) -> int | None:
        """Index of the next row to fetch, from 0; None without a result."""
        return None if self.description is None else self._rows_fetched

    @property
    def truncated(self) -> bool:
        """Whether the result was cut off at `row_limit`."""
        return bool(self._statement.manifest.get("truncated"))

    # --- Executing -----------------------------------------------------------------------------

    def execute(
        self,
        operation: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        engine: str | None = None,
        token: str | None = None,
        after: str | Sequence[str] = (),
        freshness: str | None = None,
        timeout: float | None = None,
        row_limit: int | None = None,
        dialect: str | None = None,
        progress: Progress | None = None,
    ) -> Cursor:
        """Runs a statement and waits for its result.

        Args:
            operation: One statement; `?` or `:name` stand for parameters.
            parameters: The parameters' values.
            engine: `auto`, `duckdb` or `spark`.
            token: A token from an earlier receipt, to read the same rows again.
            after: Tokens the result must not fall behind: of writes (`seamline.write_token`), or
                other connections' `last_token`.
            freshness: `latest`, `bounded '500ms'` or `cached`.
            timeout: Seconds it may take.
            row_limit: Rows after which the result is cut off.
            dialect: SQL dialect of the statement, if it is another one.
            progress: Called with the manifest while it runs.

        Raises:
            Error: the gateway's named error as a DB-API exception.
        """
        self._check_open()
        self._release()
        seen = self._seen.all
        body = {
            "statement": operation,
            "parameters": to_json(parameters),
            "catalog": self._connection.catalog,
            "schema": self._connection.schema,
            "engine": engine,
            "properties": self._connection.properties,
            "prepared": self._connection.prepared,
            "token": token,
            "after": [*([after] if isinstance(after, str) else after), *seen],
            "freshness": freshness,
            "timeout": timeout,
            "row_limit": row_limit,
            "dialect": dialect,
            "format": "ARROW_STREAM" if _has_arrow() else "JSON_ARRAY",
        }
        if self._connection.time_zone is not None:
            body["time_zone"] = self._connection.time_zone
        try:
            self._run(body, progress)
        except Error as error:
            if error.code.name in _ENDS_A_SESSION:
                self._seen.replace(seen)  # reported once; the next statement starts over
            raise
        session = self._statement.manifest.get("session")
        if session:  # a statement that reads no table adds nothing to what was read
            self._seen.replace(seen, session)
        self._connection.change(self._statement.manifest.get("changes") or {})
        self._take_result(self._statement.manifest)
        return self

    def _run(self, body: Mapping[str, Any], progress: Progress | None) -> None:
        """Runs a statement; a read whose gateway is gone is submitted once more.

        Raises:
            Error: the gateway's named error as a DB-API exception.
        """
        self._body, self._statement = body, self._new_statement()
        try:
            self._statement.run(body, progress)
        except Error as error:
            if not self._is_lost_read(error):
                raise
            self._statement = self._new_statement()
            self._statement.run(body, progress)

    def _is_lost_read(self, error: Error) -> bool:
        return error.code is STATEMENT_LOST and bool(self._statement.manifest.get("is_read"))

    def _chunks(self, chunks_of: Callable[[RemoteStatement], Iterator[T]]) -> Iterator[T]:
        """Yields the chunks of the result.

        If the gateway is gone before the first one has come, the same rows are read once more.
        """
        chunks = chunks_of(self._statement)
        try:
            first = next(chunks)
        except Error as error:
            if not self._is_lost_read(error):
                raise
            before = self._statement.manifest
            self._run({**self._body, "token": before.get("token")}, None)  # reads the same rows
            if self._statement.manifest["columns"] != before["columns"]:
                raise
            self.rowcount = self._statement.manifest["row_count"]
            chunks = chunks_of(self._statement)
            first = next(chunks)
        yield first
        yield from chunks

    def _take_result(self, manifest: Mapping[str, Any]) -> None:
        if manifest.get("update_type") is not None:
            written = manifest.get("update_count")
            self.rowcount = -1 if written is None else written
            return
        self.description = [
            (column["name"], column["type"], None, None, None, None, None)
            for column in manifest["columns"]
        ]
        self.rowcount = manifest["row_count"]
        self._rows = self._iterate_rows()

    def executemany(self, operation: str, seq_of_parameters: Iterable[Any]) -> Cursor:
        """Runs a statement once for each set of parameters, each in its own transaction.

        Afterwards `rowcount` is the total number of rows written. If the statements have results,
        only the last one's can be fetched. The first failure ends it; a note of the error says how
        many had succeeded before.
        """
        self._check_open()
        self._release()
        written: list[int] = []
        for parameters in seq_of_parameters:
            try:
                self.execute(operation, parameters)
            except Error as error:
                error.add_note(f"before it, {len(written):,} sets of parameters had succeeded")
                raise
            written.append(self.rowcount)
        if self.description is None:
            self.rowcount = -1 if -1 in written else sum(written)
        return self

    def cancel(self) -> None:
        """Asks the gateway to end the statement; may be called from another thread."""
        self._statement.cancel()

    adbc_cancel = cancel

    # --- Rows ------------------------------------------------------------------------------------

    def fetchone(self) -> tuple[Any, ...] | None:
        """Returns the next row; None at the end."""
        return next(self._remaining_rows(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Returns the next rows, at most `size`."""
        rows = self._remaining_rows()
        return list(itertools.islice(rows, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all remaining rows."""
        return list(self._remaining_rows())

    def __iter__(self) -> Self:
        self._check_result()
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._remaining_rows())

    # --- Arrow ------------------------------------------------------------------------------------

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """Returns the result as a reader of Arrow batches, from its first row.

        Raises:
            InterfaceError: MISSING_EXTRA without pyarrow.
        """
        self._check_result()
        arrow = _arrow()
        chunks = self._chunks(RemoteStatement.arrow_chunks)
        first = next(chunks)
        reader = arrow.ipc.open_stream(first)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from reader
            for chunk in chunks:
                yield from arrow.ipc.open_stream(chunk)

        return arrow.RecordBatchReader.from_batches(reader.schema, batches())

    def fetch_arrow_table(self) -> pa.Table:
        """Returns the result as one Arrow table."""
        return self.fetch_record_batch().read_all()

    fetchall_arrow = fetch_arrow_table
    fetchallarrow = fetch_arrow_table

    def fetchmany_arrow(self, size: int | None = None) -> pa.Table:
        """Returns the next rows as an Arrow table, at most `size`; an empty table at the end.

        The first table begins with the first row, and each table continues where the last one
        ended. Rows fetched in other ways do not affect this.
        """
        self._check_result()
        if self._batches is None:
            self._batches = Batches(self.fetch_record_batch())
        return self._batches.take(self.arraysize if size is None else size)

    def fetch_df(self) -> Any:
        """Returns the result as a pandas DataFrame."""
        return self.fetch_arrow_table().to_pandas()

    def fetch_polars(self) -> Any:
        """Returns the result as a Polars DataFrame."""
        if importlib.util.find_spec("polars") is None:
            raise _missing("polars", "pip install polars")
        import polars

        return polars.from_arrow(self.fetch_arrow_table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the result through Arrow's C stream interface."""
        return self.fetch_record_batch().__arrow_c_stream__(requested_schema)

    # --- The rest of the DB-API -------------------------------------------------------------------

    def close(self) -> None:
        """Releases the result; the cursor cannot be used afterwards, but keeps its `rowcount`."""
        if not self._closed:
            rowcount = self.rowcount
            self._release()
            self.rowcount = rowcount  # which SQLAlchemy, and so pandas, reads afterwards
            self._closed = True

    def setinputsizes(self, sizes: object) -> None:
        """Required by the DB-API; does nothing."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Required by the DB-API; does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Chunks -----------------------------------------------------------------------------------

    def _remaining_rows(self) -> Iterator[tuple[Any, ...]]:
        """Returns the rows that have not been fetched; once that has failed, it fails again."""
        self._check_result()
        if self._rows_failure is not None:
            raise self._rows_failure
        return self._rows

    def _iterate_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yields the rows, counting them as they are fetched."""
        try:
            for row in self._converted_rows():
                self._rows_fetched += 1
                yield row
        except GeneratorExit:
            raise
        except SeamlineError as error:
            self._rows_failure = as_client_error(error)
            raise self._rows_failure from error
        except BaseException as error:
            self._rows_failure = _lasting(error)
            raise

    def _converted_rows(self) -> Iterator[tuple[Any, ...]]:
        types = [column["type"] for column in self._statement.manifest["columns"]]
        if not _has_arrow():
            converters = [json_converter(type_) for type_ in types]
            for rows in self._chunks(RemoteStatement.json_chunks):
                for row in rows:
                    yield tuple(f(v) for f, v in zip(converters, row, strict=True))
            return
        arrow = _arrow()
        converters = [arrow_converter(type_) for type_ in types]
        for chunk in self._chunks(RemoteStatement.arrow_chunks):
            for batch in arrow.ipc.open_stream(chunk):
                columns = [
                    convert(column)
                    for convert, column in zip(converters, batch.columns, strict=True)
                ]
                yield from zip(*columns, strict=True)

    def _release(self) -> None:
        self.description, self.rowcount, self._rows = None, -1, iter(())
        self._rows_fetched, self._rows_failure, self._batches = 0, None, None
        done, self._statement = self._statement, self._new_statement()
        done.release()

    def _new_statement(self) -> RemoteStatement:
        return RemoteStatement(self._transport, self._connection.compression)

    def _check_open(self) -> None:
        if self._closed or self._connection.closed:
            raise _misused("the cursor is closed")

    def _check_result(self) -> None:
        self._check_open()
        if self.description is None:
            raise _misused("there is no result: execute a statement that has one first")


class Batches:
    """Splits the rows of a result into consecutive tables of any size."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._rest: pa.RecordBatch | None = None
        self._failure: Exception | None = None

    def take(self, size: int) -> pa.Table:
        """Returns the next rows, at most `size`; once that has failed, it fails again."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._take(size)
        except BaseException as error:
            self._failure = _lasting(error)
            raise

    def _take(self, size: int) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        while size > 0:
            batch = self._rest if self._rest is not None else next(self._reader, None)
            if batch is None:
                break
            batches.append(batch.slice(0, size))
            self._rest = batch.slice(size) if batch.num_rows > size else None
            size -= batches[-1].num_rows
        return _arrow().Table.from_batches(batches, self._reader.schema)


def _lasting(error: BaseException) -> Exception:
    """Returns what later fetches raise: after a failure, no rows must not mean the end."""
    if isinstance(error, Exception):
        return error
    return as_client_error(
        SeamlineError(
            CANCELED, "an earlier fetch was interrupted", hint="Execute the statement again."
        )
    )


def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _arrow() -> Any:
    if not _has_arrow():
        raise _missing("pyarrow", "pip install 'seamline[arrow]'")
    import pyarrow as pa
    import pyarrow.ipc

    return pa


def _missing(module: str, command: str) -> InterfaceError:
    return InterfaceError(MISSING_EXTRA, f"this needs {module}", hint=command)


def _misused(message: str) -> InterfaceError:
    return InterfaceError(INVALID_ARGUMENT, message, hint="")
