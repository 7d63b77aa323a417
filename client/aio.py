"""The asyncio client: the DB-API's connections and cursors, awaited.

Calls that wait for the gateway run on the connection's own threads, so the event loop is never
blocked. If a task is canceled while its statement runs, for instance by `asyncio.timeout`, the
statement is canceled on the gateway, too, and the task ends once the gateway has answered. Rows
that a canceled fetch had already received are returned first by the next fetch.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from seamline.dbapi import connection as blocking
from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import Error

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
WAITING_MAX = 32
"""Calls of one connection that may wait for the gateway at once; further calls queue."""
_ROWS_AHEAD = 1000
_AGAIN_S = 0.1


class AsyncConnection:
    """A connection whose statements are awaited. Tasks may share it, each with its own cursor.

    Attributes:
        sync: The underlying DB-API connection, which holds the session: `catalog`, `schema`,
            `properties`, `prepared`, `last_token`.
    """

    def __init__(self, sync: blocking.Connection) -> None:
        self.sync = sync
        self._threads = concurrent.futures.ThreadPoolExecutor(WAITING_MAX, "seamline-aio")

    def cursor(self) -> AsyncCursor:
        """A new cursor."""
        return AsyncCursor(self.sync.cursor(), self._threads)

    async def execute(self, operation: str, parameters: Any = None, **options: Any) -> AsyncCursor:
        """Runs a statement on a new cursor; see `seamline.Cursor.execute`."""
        return await self.cursor().execute(operation, parameters, **options)

    async def commit(self) -> None:
        """See `seamline.Connection.commit`."""
        self.sync.commit()

    async def rollback(self) -> None:
        """See `seamline.Connection.rollback`."""
        self.sync.rollback()

    async def close(self) -> None:
        """Closes the connection; its cursors cannot be used afterwards."""
        self.sync.close()
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncCursor:
    """A cursor whose statements and rows are awaited; for one task at a time.

    Attributes:
        sync: The underlying DB-API cursor, which describes the statement: `description`,
            `rowcount`, `receipt`, `token`, `write_token`, `statement_id`.
        arraysize: Rows `fetchmany` returns by default.
    """

    def __init__(self, sync: Cursor, threads: concurrent.futures.Executor) -> None:
        self.sync = sync
        self.arraysize = 1
        self._threads = threads
        self._turn = threading.Lock()
        self._rows: collections.deque[tuple[Any, ...]] = collections.deque()

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """See `seamline.Cursor`."""
        return self.sync.description

    @property
    def rowcount(self) -> int:
        """See `seamline.Cursor`."""
        return self.sync.rowcount

    @property
    def receipt(self) -> dict[str, Any]:
        """See `seamline.Cursor.receipt`."""
        return self.sync.receipt

    @property
    def token(self) -> str | None:
        """See `seamline.Cursor.token`."""
        return self.sync.token

    # --- Executing -----------------------------------------------------------------------------

    async def execute(self, operation: str, parameters: Any = None, **options: Any) -> Self:
        """Runs a statement and waits for its result; see `seamline.Cursor.execute`.

        Raises:
            Error: the gateway's named error as a DB-API exception.
            asyncio.CancelledError: the task was canceled, and so was the statement.
        """
        self._rows.clear()
        await self._ended(lambda: self.sync.execute(operation, parameters, **options))
        return self

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Any]) -> Self:
        """Runs a statement once for each set of parameters; see `seamline.Cursor.executemany`."""
        self._rows.clear()
        await self._ended(lambda: self.sync.executemany(operation, seq_of_parameters))
        return self

    async def cancel(self) -> None:
        """Asks the gateway to end the statement that another task awaits."""
        await asyncio.to_thread(self.sync.cancel)

    async def _ended(self, run: Callable[[], object]) -> None:
        """Waits for a statement; if canceled, cancels it on the gateway and waits for its end."""
        running = self._threads.submit(self._in_turn, run)
        waiting = asyncio.wrap_future(running)
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not running.cancel():
                await self._cancel_until(waiting)
            raise

    async def _cancel_until(self, ended: asyncio.Future[object]) -> None:
        """Cancels what runs until it has ended: the first cancel may come before its start."""
        while not ended.done():
            with contextlib.suppress(Error):
                await asyncio.to_thread(self.sync.cancel)
            await asyncio.wait([ended], timeout=_AGAIN_S)
        ended.exception()  # it is canceled, whatever it has ended with

    # --- Rows ----------------------------------------------------------------------------------

    async def fetchone(self) -> tuple[Any, ...] | None:
        """Returns the next row; None at the end."""
        rows = await self._take(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Returns the next rows, at most `size`."""
        return await self._take(self.arraysize if size is None else size)

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all remaining rows."""
        await self._call(lambda: self._rows.extend(self.sync.fetchall()))
        rows, self._rows = list(self._rows), collections.deque()
        return rows

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Any, ...]:
        row = await self.fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def _take(self, size: int) -> list[tuple[Any, ...]]:
        def fetch() -> None:
            missing = size - len(self._rows)
            if missing > 0 or not size:
                ahead = max(missing, _ROWS_AHEAD) if size else 0
                self._rows.extend(self.sync.fetchmany(ahead))

        if len(self._rows) < size or not size:
            await self._call(fetch)
        return [self._rows.popleft() for _ in range(min(size, len(self._rows)))]

    # --- Arrow ---------------------------------------------------------------------------------

    async def fetch_record_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yields the result as Arrow batches, from its first row, each fetched on demand."""
        reader = await self._call(self.sync.fetch_record_batch)
        while (batch := await self._call(lambda: next(reader, None))) is not None:
            yield batch

    async def fetch_arrow_table(self) -> pa.Table:
        """Returns the result as one Arrow table."""
        return await self._call(self.sync.fetch_arrow_table)

    async def fetch_df(self) -> Any:
        """Returns the result as a pandas DataFrame."""
        return await self._call(self.sync.fetch_df)

    async def fetch_polars(self) -> Any:
        """Returns the result as a Polars DataFrame."""
        return await self._call(self.sync.fetch_polars)

    # --- The end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Releases the result; the cursor cannot be used afterwards."""
        await self._call(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._threads.submit(self._in_turn, call))

    def _in_turn(self, call: Callable[[], T]) -> T:
        with self._turn:  # a call that a canceled task started still runs to its end
            return call()


def connect(url: str | None = None, **options: Any) -> AsyncConnection:
    """Connects to a gateway; nothing is sent yet, so there is nothing to await.

    Args:
        url: Address of the gateway; as for `seamline.connect`.
        options: The other arguments of `seamline.connect`.
    """
    return AsyncConnection(blocking.connect(url, **options))
