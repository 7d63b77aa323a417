"""The client for programs of asyncio: the DB-API's connections and cursors, awaited.

What waits for the gateway does so on threads of the connection's own, so that the loop goes on. A
task that is canceled while its statement runs, by `asyncio.timeout` for instance, cancels it on the
gateway, too, and ends when that has answered. Rows that a canceled fetch had received already are
the first of the next one.
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
"""Calls of one connection that wait for the gateway at once; more wait for one of them to end."""
_ROWS_AHEAD = 1000


class AsyncConnection:
    """A connection whose statements are awaited. Tasks may share it, each with its own cursor.

    Attributes:
        sync: The DB-API's connection behind it, which has the session: `catalog`, `schema`,
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
        sync: The DB-API's cursor behind it, which says what there is to say of the statement:
            `description`, `rowcount`, `receipt`, `token`, `write_token`, `statement_id`.
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
        """Runs a statement and waits until its result is there; see `seamline.Cursor.execute`.

        Raises:
            Error: the gateway's named error as the DB-API's exception.
            asyncio.CancelledError: the task was canceled; the statement is, too.
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
        """Waits for a statement; canceled, it is canceled on the gateway and then waited for."""
        running = self._threads.submit(self._in_turn, run)
        waiting = asyncio.wrap_future(running)
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not running.cancel():
                with contextlib.suppress(Error):
                    await asyncio.to_thread(self.sync.cancel)
                with contextlib.suppress(Error):
                    await waiting
            raise

    # --- Rows ----------------------------------------------------------------------------------

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None at the end."""
        rows = await self._take(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`."""
        return await self._take(self.arraysize if size is None else size)

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
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
        """The result in Arrow batches, from its first row, each asked for when it is needed."""
        reader = await self._call(self.sync.fetch_record_batch)
        while (batch := await self._call(lambda: next(reader, None))) is not None:
            yield batch

    async def fetch_arrow_table(self) -> pa.Table:
        """The result as one Arrow table."""
        return await self._call(self.sync.fetch_arrow_table)

    async def fetch_df(self) -> Any:
        """The result as a pandas DataFrame."""
        return await self._call(self.sync.fetch_df)

    async def fetch_polars(self) -> Any:
        """The result as a Polars DataFrame."""
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
        with self._turn:  # what a canceled task began goes on until it is through
            return call()


def connect(url: str | None = None, **options: Any) -> AsyncConnection:
    """Connects to a gateway; sends nothing yet, so there is nothing to await.

    Args:
        url: Its address; as for `seamline.connect`.
        options: Those of `seamline.connect`.
    """
    return AsyncConnection(blocking.connect(url, **options))
