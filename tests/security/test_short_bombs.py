"""Goal: no short statement takes the gateway's own process, which reads, binds and plans them all.

Method: texts whose readings, types or columns double with every few letters, each of which would
take longer than there will be time; computations that never end, under a deadline and a bound.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from support.gateway import Gateway
from support.waiting import wait_until

from seamline.errors import CANCELED, STATEMENT_TOO_LARGE, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.deadline import StatementDeadline, no_deadline
from seamline.gateway.query.computing import Computing
from seamline.gateway.statements.statement import State, StatementRequest
from seamline.sql import types
from seamline.sql.binder import qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse

DEPTH = 50
TWICE = ("date", "decimal", "enum", "object", "row", "struct", "timestamp", "variant")
"""What may be a type or a function, which a parser finds out only behind its brackets."""


def grown(seed: str, step: str, count: int, result: str) -> str:
    """Common table expressions, each of which repeats the one before."""
    steps = [f"c{n} AS (SELECT {step} AS x FROM c{n - 1})" for n in range(1, count)]
    ctes = ", ".join((f"c0 AS (SELECT {seed} AS x)", *steps))
    return f"WITH {ctes} SELECT {result} FROM c{count - 1}"


COLUMNS = ", ".join(f"{n} AS a{n}" for n in range(900))
BOMBS = {
    **{f"{name} in {name}": f"SELECT {f'{name}(' * DEPTH}1{')' * DEPTH}" for name in TWICE},
    "rows of two": f"SELECT {'ROW(' * DEPTH}1{',1)' * DEPTH}",
    "arrays": f"SELECT {'ARRAY[' * DEPTH}1{']' * DEPTH}",
    "a type without names": f"SELECT CAST(1 AS {'row(' * DEPTH}integer{')' * DEPTH})",
    "rows of the row before": grown("1", "ROW(x, x, x)", 30, "x"),
    "maps of the map before": grown("1", "map(ARRAY[1], ARRAY[ROW(x, x)])", 30, "x"),
    "arrays of such rows": grown("1", "ROW(ARRAY[x], ARRAY[x])", 40, "x"),
    "stars": f"SELECT {', '.join(['*'] * 2000)} FROM (SELECT {COLUMNS})",
}


MANY = {f"{name} in {name}" for name in TWICE if name != "date"} | {"arrays"}


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.prove) if k in MANY else k for k in BOMBS]
)
def test_what_grows_with_every_letter_is_refused(offline_gateway: Gateway, kind: str) -> None:
    assert len(BOMBS[kind]) < 20_000
    request = StatementRequest(BOMBS[kind], engine="duckdb", timeout_s=300)
    statement = offline_gateway.parts.service.submit(request, Principal("anonymous"))
    assert statement.wait(300) is State.FAILED
    assert statement.error is not None
    assert statement.error.code is STATEMENT_TOO_LARGE, statement.error


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {'ROW(' * 10}1{', 1)' * 10}",
        f"SELECT {'date(' * 10}x{')' * 10}",
        f"SELECT {', '.join(f'CAST(a{n} AS row(x date, y array(date)))' for n in range(2000))}",
        f"SELECT {' AND '.join(f'a{n} IN (1, 2, 3)' for n in range(900))}",
        f"SELECT {'CASE WHEN a THEN (' * 25}1{') END' * 25}",
    ],
)
@pytest.mark.usefixtures("offline_gateway")
def test_what_people_write_is_read(sql: str) -> None:
    """A gateway lets the parser call itself more often than Python does at first."""
    assert isinstance(parse.parse(sql), parse.Query)


def test_a_type_may_be_large_but_not_too_large() -> None:
    row = types.Row(tuple(types.Field(f"f{n}", types.BIGINT) for n in range(100)))
    wide = types.Row((types.Field("a", types.Array(row)), types.Field("b", row)))
    assert wide.parts == 1 + 1 + row.parts + row.parts
    assert types.Map(types.BIGINT, types.Array(types.BIGINT)).parts == 4
    with pytest.raises(SeamlineError) as caught:
        types.Row(tuple(types.Field(f"f{n}", wide) for n in range(100)))
    assert caught.value.code is STATEMENT_TOO_LARGE


def test_a_query_may_have_many_columns_but_not_too_many(offline_gateway: Gateway) -> None:
    request = StatementRequest(
        f"SELECT * FROM (SELECT *, * FROM (SELECT {COLUMNS}))", engine="duckdb"
    )
    statement = offline_gateway.parts.service.submit(request, Principal("anonymous"))
    assert statement.wait(300) is State.SUCCEEDED, statement.error


# --- Interruption --------------------------------------------------------------------------------


@pytest.fixture
def computing() -> Iterator[Computing]:
    made = Computing(seconds_max=0.3)
    with contextlib.closing(made):
        yield made


def endless() -> None:
    """Computes, as what is pure does: no waiting, no system calls."""
    for _ in itertools.count():
        pass


def stubborn() -> None:
    """Keeps computing, whatever is raised in it the first time."""
    with contextlib.suppress(BaseException):
        endless()
    endless()


@pytest.mark.parametrize("work", [endless, stubborn])
def test_a_computation_ends_when_it_has_taken_its_time(
    computing: Computing, work: Callable[[], None]
) -> None:
    with pytest.raises(SeamlineError) as caught:
        computing.run(work, no_deadline())
    assert caught.value.code is STATEMENT_TOO_LARGE


def test_a_computation_ends_with_its_statement() -> None:
    deadline = StatementDeadline(60.0)
    with contextlib.closing(Computing(seconds_max=60.0)) as computing:
        timer = threading.Timer(0.2, deadline.cancel)
        timer.start()
        with pytest.raises(SeamlineError) as caught:
            computing.run(endless, deadline)
        assert caught.value.code is CANCELED
    deadline.close()


def test_a_computation_gives_what_it_gives(computing: Computing) -> None:
    assert computing.run(lambda: 1, no_deadline()) == 1
    with pytest.raises(ZeroDivisionError):
        computing.run(lambda: 1 // 0, no_deadline())


def test_what_waits_is_not_counted(computing: Computing) -> None:
    """A machine that is busy with other things interrupts nobody: a processor's time counts."""
    ended = threading.Event()

    def wait() -> bool:
        return ended.wait(1.0)

    assert computing.run(wait, no_deadline()) is False


def test_an_interruption_never_arrives_late() -> None:
    """Computations that end at about the moment at which they would be interrupted."""
    outcomes = {"ended": 0, "interrupted": 0}
    deadline = no_deadline()
    with contextlib.closing(Computing(seconds_max=0.005)) as computing:
        looked = threading.Event()

        def look() -> None:
            while not looked.is_set():
                computing._look()
                time.sleep(0.0005)

        thread = threading.Thread(target=look)
        thread.start()
        gives_up_at = time.monotonic() + 60
        for number in itertools.count():
            is_known = number >= 300 and min(outcomes.values()) > 10
            if is_known or time.monotonic() > gives_up_at:
                break
            end = time.thread_time() + 0.003 + (number % 40) * 0.0001

            def work(end: float = end) -> int:
                while time.thread_time() < end:
                    pass
                return 1

            try:
                computing.run(work, deadline)
            except SeamlineError:
                outcomes["interrupted"] += 1
            else:
                outcomes["ended"] += 1
            for _ in range(100):  # where one that is late would arrive
                pass
        looked.set()
        thread.join()
    assert sum(outcomes.values()) == number
    assert is_known, outcomes


def test_a_thread_that_was_interrupted_serves_others(offline_gateway: Gateway) -> None:
    """What has no bound of its own (parsers of other dialects) is ended by force."""
    service = offline_gateway.parts.service
    bomb = BOMBS["date in date"]
    request = StatementRequest(bomb, engine="duckdb", timeout_s=0.3, dialect="duckdb")
    statement = service.submit(request, Principal("anonymous"))
    assert statement.wait(60) is State.FAILED
    wait_until(lambda: not service._running.total(), what="every runner")
    assert offline_gateway.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 LIMIT {n}",
        "SELECT 1 OFFSET {n}",
        "SELECT 1 FETCH FIRST {n} ROWS ONLY",
        "SELECT * FROM t FOR VERSION AS OF {n}",
        "SELECT {n}",
        "SELECT CAST(1 AS decimal({n}, 0))",
        "SELECT CAST('a' AS varchar({n}))",
        "SELECT * FROM t TABLESAMPLE BERNOULLI ({n})",
        "SELECT sum(1) OVER (ROWS {n} PRECEDING)",
        "SELECT 1 GROUP BY {n}",
        "SELECT 1 ORDER BY {n}",
        "SELECT INTERVAL '{n}' day",
        "SELECT x[{n}] FROM (SELECT ARRAY[1] AS x)",
    ],
)
@pytest.mark.parametrize("digits", [30, 900, 5000])
def test_no_number_is_too_long_for_a_name(offline_gateway: Gateway, sql: str, digits: int) -> None:
    request = StatementRequest(sql.format(n="9" * digits), engine="duckdb")
    statement = offline_gateway.parts.service.submit(request, Principal("anonymous"))
    assert statement.wait(60) in {State.SUCCEEDED, State.FAILED}
    assert statement.error is None or statement.error.code.name != "INTERNAL_ERROR"


# --- What engines get ----------------------------------------------------------------------------


@pytest.mark.prove
def test_what_spark_gets_is_bounded_as_a_whole() -> None:
    """Subqueries that are repeated for Spark: each is short enough, and all together are not."""

    def written(count: int) -> str:
        call = f"{'split_part(' * 6}(SELECT 'a'){', 1)'.replace('1', repr('b') + ', 1') * 6}"
        tree = parse.parse(f"SELECT {', '.join([call] * count)}")
        assert isinstance(tree, parse.Query)
        now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        return render.to_spark(qualify.qualify(tree.tree, [], now=now).tree)

    assert len(written(1)) > 1_000_000
    with pytest.raises(SeamlineError) as caught:
        written(400)
    assert caught.value.code is STATEMENT_TOO_LARGE


def test_a_statement_that_is_slow_to_write_is_interrupted(
    offline_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "to_duckdb", lambda *_: endless())
    monkeypatch.setattr(offline_gateway.parts._computing, "_seconds_max", 0.3)
    statement = offline_gateway.statement("SELECT 1 AS slow", "duckdb")
    assert statement.error is not None
    assert statement.error.code is STATEMENT_TOO_LARGE
    monkeypatch.undo()
    assert offline_gateway.rows("SELECT 1") == [(1,)]
