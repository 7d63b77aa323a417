"""Goal: programs of asyncio get what the DB-API gives, and never stop the loop for it.

Method: a real gateway behind HTTP. That the loop continues is seen by what else runs on it while a
statement waits; that a canceled task leaves nothing behind, by the gateway's own statement.
"""

from __future__ import annotations

import asyncio
import pathlib
import threading
from collections.abc import Iterator

import pytest
from support import offline
from support.gateway import Gateway

import seamline
import seamline.aio
from seamline.dbapi.statement import RemoteStatement
from seamline.gateway.statements.statement import State

ENDLESS = (
    "SELECT count(*) FROM UNNEST(sequence(1, 9999)) a(x), UNNEST(sequence(1, 9999)) b(y),"
    " UNNEST(sequence(1, 9999)) c(z) WHERE x + y + z = -1"
)
MANY = "SELECT x, y FROM UNNEST(sequence(1, 400)) a(x), UNNEST(sequence(1, 400)) b(y)"
SOON_S = 15


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("aio")))
    try:
        yield running
    finally:
        running.close()


def test_it_gives_what_the_blocking_one_gives(gateway: Gateway) -> None:
    sql = "SELECT n, 'x' || CAST(n AS varchar) AS t FROM UNNEST(sequence(1, 2500)) s(n) ORDER BY n"
    with seamline.connect(gateway.url) as connection:
        wanted = connection.execute(sql).fetchall()

    async def read() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            async with await connection.execute(sql) as cursor:
                assert (cursor.rowcount, cursor.arraysize) == (2500, 1)
                assert [column[0] for column in cursor.description or ()] == ["n", "t"]
                assert cursor.receipt["engine"] == "duckdb"
                assert await cursor.fetchmany(0) == []
                found = [await cursor.fetchone(), *await cursor.fetchmany()]
                found += await cursor.fetchmany(1500)
                async for row in cursor:
                    found.append(row)
                    if len(found) == 2000:
                        break
                found += await cursor.fetchall()
                assert (await cursor.fetchone(), await cursor.fetchall()) == (None, [])
                assert found == wanted
                table = await cursor.fetch_arrow_table()
                batches = [batch async for batch in cursor.fetch_record_batches()]
                assert sum(batch.num_rows for batch in batches) == table.num_rows == 2500
                assert len(await cursor.fetch_df()) == 2500
            once = await connection.execute("SELECT ? + 1", [41])
            assert await once.fetchall() == [(42,)]
            await once.executemany("SELECT ? AS n", [[1], [2]])
            assert await once.fetchall() == [(2,)]

    asyncio.run(read())


def test_many_statements_wait_at_once_and_the_loop_goes_on(gateway: Gateway) -> None:
    async def ask() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            endless = asyncio.create_task(connection.execute(ENDLESS))
            cursors = await asyncio.gather(
                *(connection.execute("SELECT ? * ?", [n, n]) for n in range(40))
            )
            rows = [await cursor.fetchall() for cursor in cursors]
            assert rows == [[(n * n,)] for n in range(40)]
            assert not endless.done()
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless

    asyncio.run(ask())


def test_a_canceled_task_cancels_on_the_gateway(gateway: Gateway) -> None:
    async def ask() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            cursor = connection.cursor()
            task = asyncio.create_task(cursor.execute(ENDLESS))
            statement = await asyncio.to_thread(gateway.running)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(statement.wait, SOON_S)
            assert statement.state is State.CANCELED
            await cursor.execute("SELECT 1")
            assert await cursor.fetchall() == [(1,)]

    asyncio.run(ask())


def test_a_task_that_is_canceled_before_its_statement_begins(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the result of the one before is released, which the gateway has to be told."""
    releasing, go_on = threading.Event(), threading.Event()
    cancel, release = RemoteStatement.cancel, RemoteStatement.release

    def slow(statement: RemoteStatement) -> None:
        releasing.set()
        assert go_on.wait(60)
        release(statement)

    def early(statement: RemoteStatement) -> None:
        cancel(statement)
        go_on.set()

    monkeypatch.setattr(RemoteStatement, "release", slow)
    monkeypatch.setattr(RemoteStatement, "cancel", early)

    async def ask() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            task = asyncio.create_task(connection.execute(ENDLESS, timeout=300))
            assert await asyncio.to_thread(releasing.wait, 60)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.cancelled()

    asyncio.run(ask())


def test_a_time_out_and_another_task_cancel_it(gateway: Gateway) -> None:
    async def ask() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            cursor = connection.cursor()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await cursor.execute(ENDLESS)
            task = asyncio.create_task(cursor.execute(ENDLESS))
            await asyncio.to_thread(gateway.running)
            await cursor.cancel()
            with pytest.raises(seamline.Error, match="CANCELED"):
                await task

    asyncio.run(ask())


def test_a_canceled_fetch_loses_no_rows(gateway: Gateway) -> None:
    async def read() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            cursor = await connection.execute(MANY)
            found = []
            for _ in range(20):
                fetch = asyncio.create_task(cursor.fetchmany(1000))
                await asyncio.sleep(0)
                fetch.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await fetch
                found += await cursor.fetchmany(1000)
            found += await cursor.fetchall()
            assert sorted(found) == [(x, y) for x in range(1, 401) for y in range(1, 401)]

    asyncio.run(read())


def test_errors_are_the_dbapis(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    async def ask() -> None:
        async with seamline.aio.connect(gateway.url) as connection:
            with pytest.raises(seamline.ProgrammingError, match="TABLE_NOT_FOUND"):
                await connection.execute("SELECT * FROM nothing_there")
            cursor = connection.cursor()
            with pytest.raises(seamline.InterfaceError, match="no result"):
                await cursor.fetchall()
            with pytest.raises(seamline.InterfaceError, match="no result"):
                await cursor.fetchone()
            await cursor.close()
            with pytest.raises(seamline.InterfaceError, match="closed"):
                await cursor.execute("SELECT 1")
        with pytest.raises(seamline.InterfaceError, match="closed"):
            await connection.execute("SELECT 1")

    asyncio.run(ask())
