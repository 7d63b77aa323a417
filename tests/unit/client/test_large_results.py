"""Goal: a large result arrives whole while its statement still runs, and a failed one not at all.

Method: results of many chunks from a gateway without a broker; what the client fetches before the
end is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from support.gateway import Gateway
from support.waiting import wait_until

import seamline
from seamline.dbapi import statement as module

ROWS = 1_000_000
SQL = """SELECT 1000 * a.x + b.y AS n, {} AS m
         FROM UNNEST(sequence(0, 999)) AS a (x), UNNEST(sequence(0, 999)) AS b (y)"""
SLOW = "length(rpad(CAST(b.y AS varchar), 1000, 'x'))"
"""Takes long enough for every row that the first chunk is there well before the last, and that a
deadline comes before the limit of a result's size."""
ENDLESS = f"{SQL.format(SLOW)}, UNNEST(sequence(1, 9999)) AS c (z)"


@pytest.fixture
def connection(offline_gateway: Gateway) -> Iterator[seamline.Connection]:
    with offline_gateway.connect() as connection:
        yield connection


@pytest.fixture
def asked(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The requests that the gateway's server has had, by its own log."""
    caplog.set_level("INFO", "werkzeug")
    return lambda: [line for line in caplog.messages if "/api/v1/statements" in line]


def chunks(asked: Sequence[str]) -> list[str]:
    return [line for line in asked if "/chunks/" in line]


def numbers(cursor: seamline.Cursor) -> list[int]:
    return sorted(cursor.fetch_arrow_table().column("n").to_pylist())


@pytest.mark.parametrize("bytes_max", [0, 5 << 20, 1 << 40])
def test_every_row_comes_once_however_much_of_it_came_early(
    connection: seamline.Connection,
    asked: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    bytes_max: int,
) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", bytes_max)
    cursor = connection.execute(SQL.format(SLOW))
    if bytes_max:
        wait_until(lambda: chunks(asked()), what="a chunk that is fetched early")
    else:
        assert not chunks(asked())
    assert cursor.rowcount == ROWS
    for _ in range(2):  # the second time, nothing has come early
        assert numbers(cursor) == list(range(ROWS))
    cursor.execute(SQL.format("b.y"))
    assert sum(row[0] for row in cursor) == ROWS * (ROWS - 1) // 2


def test_a_statement_that_fails_late_gives_no_row(
    connection: seamline.Connection, asked: Callable[[], list[str]]
) -> None:
    cursor = connection.cursor()
    with pytest.raises(seamline.Error, match="DEADLINE_EXCEEDED"):
        cursor.execute(ENDLESS, timeout=3)
    assert chunks(asked())
    assert cursor.description is None
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_few_rows_need_one_request(
    connection: seamline.Connection,
    asked: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SUBMIT_WAIT_S", 60.0)
    for number in range(20):
        assert connection.execute("SELECT ?", [number]).fetchall() == [(number,)]
    assert len(asked()) == 20
    assert not chunks(asked())
