"""Goal: a panel that many look at is computed once, and is as right as if each had computed it.

Method: a real broker, catalog and engine. Clients ask the same at once over HTTP; how often the
engine ran is a metric. Records, transactions and tiering change what the next statement reads.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import re
import threading
from collections.abc import Iterator

import pytest
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.statement import State, Statement, StatementRequest

pytestmark = pytest.mark.integration

CLIENTS = 12


@pytest.fixture(scope="module")
def own(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose counts are those of these tests."""
    folder: pathlib.Path = tmp_path_factory.mktemp("gateway")
    made = Gateway(stack.configured({**stack.flags, "state_directory": str(folder)}))
    yield made
    made.close()


@pytest.fixture
def users(stack: Stack, name: str) -> str:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": n, "text": f"t{n % 3}"} for n in range(60)])
    stack.tier(name)
    stack.produce(name, [{"id": n, "text": "hot"} for n in range(60, 90)])
    return name


def computed(gateway: Gateway) -> int:
    """How many results were computed."""
    text = gateway.parts.metrics_text()
    found = re.search(r"^seamline_result_cache_misses_total (\S+)$", text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def test_many_who_ask_at_once_cause_one_run(own: Gateway, users: str) -> None:
    sql = f"SELECT text, count(*), sum(id) FROM {users} GROUP BY text ORDER BY text"
    before, barrier = computed(own), threading.Barrier(CLIENTS)

    def ask(_: int) -> tuple[list[tuple[object, ...]], bool]:
        with own.connect() as connection:
            barrier.wait(120)
            cursor = connection.execute(sql)
            assert cursor.receipt is not None
            return cursor.fetchall(), cursor.receipt["cache_hit"]

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(ask, range(CLIENTS)))
    assert computed(own) == before + 1
    assert sum(is_hit for _, is_hit in answers) == CLIENTS - 1
    rows = [("hot", 30, 2235), ("t0", 20, 570), ("t1", 20, 590), ("t2", 20, 610)]
    assert [each for each, _ in answers] == [rows] * CLIENTS
    assert own.rows(sql, properties={"result_cache": "off"}) == rows


def test_what_changes_the_seam_is_computed_anew(own: Gateway, stack: Stack, users: str) -> None:
    sql = f"SELECT count(*), max(id) FROM {users}"
    for change, expected in (
        (lambda: None, (90, 89)),
        (lambda: stack.produce(users, [{"id": 90, "text": "more"}]), (91, 90)),
        (lambda: stack.tier(users), (91, 90)),
    ):
        change()
        first, second = own.statement(sql), own.statement(sql)
        assert (first.receipt["cache_hit"], second.receipt["cache_hit"]) == (False, True)
        for statement in (first, second):
            assert own.rows(sql, token=statement.receipt["token"]) == [expected]


def test_the_engines_do_not_share(own: Gateway, users: str) -> None:
    sql = f"SELECT count(*) FROM {users}"
    assert not own.statement(sql, "duckdb").receipt["cache_hit"]
    assert not own.statement(sql, "spark").receipt["cache_hit"]
    for engine in ("duckdb", "spark"):
        receipt = own.statement(sql, engine).receipt
        assert (receipt["cache_hit"], receipt["engine"]) == (True, engine)


def test_bounded_freshness_computes_a_panel_once(own: Gateway, stack: Stack, users: str) -> None:
    sql = f"SELECT count(*), max(id) FROM {users}"
    first = own.statement(sql, properties={"freshness": "bounded 10m"})
    for more in range(3):
        stack.produce(users, [{"id": 100 + more, "text": "more"}])
        assert own.rows(f"SELECT max(id) FROM {users}") == [(100 + more,)]
        again = own.statement(sql, properties={"freshness": "bounded 10m"})
        assert again.receipt["cache_hit"]
        assert again.receipt["tables"] == first.receipt["tables"]
    assert own.rows(sql) == [(93, 102)]
    assert own.rows(sql, properties={"freshness": "bounded 10m"}) == [(93, 102)], "the newest"


def endless(users: str) -> str:
    numbers = " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    return f"SELECT count(*) FROM {users} CROSS JOIN {numbers} WHERE id + u + v + w + x = -1"


def submitted(gateway: Gateway, sql: str) -> Statement:
    """A statement that an engine has, or that waits for another one's run."""
    statement = gateway.service.submit(StatementRequest(sql), Principal("anonymous"))
    wait_until(lambda: statement.progress.get("engine"), 60)
    return statement


def test_ending_a_statement_ends_no_other(own: Gateway, users: str) -> None:
    results, before = own.parts.results, computed(own)
    runs, waits, too = (submitted(own, endless(users)) for _ in range(3))
    wait_until(lambda: results.waiting == 2, 60)
    waits.cancel()
    assert waits.wait(60) is State.CANCELED
    wait_until(lambda: results.waiting == 1, 60)
    assert (runs.state, too.state) == (State.RUNNING, State.RUNNING)
    runs.cancel()
    assert runs.wait(60) is State.CANCELED
    wait_until(lambda: computed(own) == before + 2, 60)
    assert too.state is State.RUNNING, "it runs itself"
    too.cancel()
    assert too.wait(60) is State.CANCELED
