"""Goal: a large result arrives whole while its statement still runs, and a failed one not at all.

Method: results of many chunks from a gateway without a broker; what the client fetches before the
end is counted.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Iterator, Sequence

import pytest
from support.gateway import Gateway
from support.waiting import wait_until

import seamline
from seamline.dbapi import statement as module
from seamline.errors import DEADLINE_EXCEEDED, SeamlineError
from seamline.gateway.statements.statement import Statement

ROWS = 1_000_000
SQL = """SELECT 1000 * a.x + b.y AS n, {} AS m
         FROM UNNEST(sequence(0, 999)) AS a (x), UNNEST(sequence(0, 999)) AS b (y)"""
ENDLESS = f"""{SQL.format("length(rpad(CAST(b.y AS varchar), 1000, 'x'))")},
               UNNEST(sequence(1, 9999)) AS c (z)"""
"""Takes so long for every row that it is ended before its result is too large."""


@pytest.fixture
def connection(offline_gateway: Gateway) -> Iterator[seamline.Connection]:
    with offline_gateway.connect() as connection:
        yield connection


@pytest.fixture
def asked(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The requests that the gateway's server has had, by its own log."""
    caplog.set_level("INFO", "werkzeug")
    return lambda: [line for line in caplog.messages if "/api/v1/statements" in line]


def chunks(asked: Sequence[str], statement_id: str | None) -> list[str]:
    return [line for line in asked if f"/{statement_id}/chunks/" in line]


def numbers(cursor: seamline.Cursor) -> list[int]:
    return sorted(cursor.fetch_arrow_table().column("n").to_pylist())


@pytest.mark.prove
@pytest.mark.parametrize("bytes_max", [0, 5 << 20, 1 << 40])
def test_every_row_comes_once_however_much_of_it_came_early(
    connection: seamline.Connection,
    asked: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    bytes_max: int,
) -> None:
    succeed = Statement.succeed

    def late(statement: Statement) -> None:
        """It still runs when a chunk is asked for, however fast the engine is."""
        if bytes_max:
            early = functools.partial(chunks, statement_id=statement.statement_id)
            wait_until(lambda: early(asked()), what="a chunk that is fetched early")
        succeed(statement)

    monkeypatch.setattr(module, "AHEAD_BYTES", bytes_max)
    with monkeypatch.context() as slowed:
        slowed.setattr(Statement, "succeed", late)
        cursor = connection.execute(SQL.format("b.y"))
    assert bool(chunks(asked(), cursor.statement_id)) == bool(bytes_max)
    assert cursor.rowcount == ROWS
    for _ in range(2):  # the second time, nothing has come early
        assert numbers(cursor) == list(range(ROWS))
    cursor.execute(SQL.format("b.y"))
    assert sum(row[0] for row in cursor) == ROWS * (ROWS - 1) // 2


def test_a_statement_that_fails_late_gives_no_row(
    connection: seamline.Connection, asked: Callable[[], list[str]], offline_gateway: Gateway
) -> None:
    cursor = connection.cursor()

    def fail_late() -> None:
        statement = offline_gateway.running(about=ENDLESS)
        early = functools.partial(chunks, statement_id=statement.statement_id)
        wait_until(lambda: early(asked()), what="a chunk that is fetched early")
        statement.deadline.cancel(SeamlineError(DEADLINE_EXCEEDED, "late"))

    with concurrent.futures.ThreadPoolExecutor(1) as other:
        failed = other.submit(fail_late)
        with pytest.raises(seamline.Error, match="DEADLINE_EXCEEDED: late"):
            cursor.execute(ENDLESS)
        failed.result(60)
    assert cursor.description is None
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_few_rows_need_one_request(
    connection: seamline.Connection,
    asked: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SUBMIT_WAIT_S", 60.0)
    for number in range(20):
        cursor = connection.execute("SELECT ?", [number])
        assert cursor.fetchall() == [(number,)]
        assert not [line for line in asked() if str(cursor.statement_id) in line]
    assert sum('"POST /api/v1/statements ' in line for line in asked()) == 20
