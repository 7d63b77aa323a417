"""Statements of any shape, many at once, over tables that change: right answers, or named errors.

Method: 64 clients ask statements drawn from a seed over two tables, while records are produced and
tiered. What each answer must be is known afterwards: plain DuckDB computes the same statement over
the records that a consumer of its own has seen, as far as the receipt says the answer goes.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.checker import Replay, multiset
from support.gateway import Gateway, statement_rows
from support.stack import Stack

from seamline.errors import COMMIT_CONFLICT, INTERNAL_ERROR, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.statements.statement import Statement

SEED = 20
CLIENTS = 64
EACH = 2
COLUMNS = "id bigint, text varchar"
SPARK_EVERY = 32

Ends = dict[str, dict[int, int]]


def shape(draw: random.Random, one: str, other: str) -> str:
    """A statement over one or two tables; what it answers does not depend on an order."""
    a, b = draw.choice([(one, other), (other, one), (one, one)])
    n, k = draw.randrange(1, 2000), draw.randrange(2, 9)
    comparison = draw.choice(["<", "<=", ">", ">=", "<>", "="])
    where = draw.choice(["", f" WHERE id % {k} {comparison} 1", f" WHERE text {comparison} 't{k}'"])
    joined = f"{a} AS a {draw.choice(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} {b} AS b ON a.id = b.id"
    return draw.choice(
        [
            f"SELECT count(*), count(DISTINCT text), sum(id), min(text) FROM {a}{where}",
            f"SELECT text, count(*), max(id) FROM {a}{where} GROUP BY text",
            f"SELECT text, id % {k}, count(*) FROM {a} GROUP BY ROLLUP (text, id % {k})",
            f"SELECT count(*), sum(a.id), count(b.id), min(b.text) FROM {joined}",
            f"SELECT a.text, count(*) FROM {joined} WHERE b.id {comparison} {n} GROUP BY a.text",
            f"SELECT id, text FROM {a}{where} ORDER BY id, text LIMIT {k}",
            f"SELECT count(*) FROM {a} WHERE id IN (SELECT id + {k} FROM {b}{where})",
            f"SELECT count(*) FROM {a} AS a WHERE NOT EXISTS"
            f" (SELECT 1 FROM {b} AS b WHERE b.id = a.id + {n})",
            f"SELECT count(*) FROM {a} WHERE id {comparison} (SELECT max(id) / 2 FROM {b})",
            f"WITH c AS (SELECT text, count(*) AS n FROM {a} GROUP BY text)"
            f" SELECT x.text, x.n FROM c AS x JOIN c AS y ON x.n <= y.n AND x.text <> y.text"
            " GROUP BY x.text, x.n",
            f"SELECT count(*), sum(id) FROM"
            f" (SELECT id FROM {a}{where} UNION ALL SELECT id FROM {b}) AS u",
            f"SELECT id FROM {a} WHERE id < {n} EXCEPT SELECT id FROM {b} WHERE id % {k} = 0",
            f"SELECT text, sum(r) FROM (SELECT text, row_number() OVER (PARTITION BY text ORDER BY"
            f" id) AS r FROM {a}) AS w WHERE r % {k} = 0 GROUP BY text",
            f"SELECT sum(CASE WHEN id % {k} = 0 THEN 1 ELSE -1 END) FROM {a}{where}",
            f"SELECT count(*) FILTER (WHERE id {comparison} {n}), count(text) FROM {a}",
        ]
    )


@contextlib.contextmanager
def changing(stack: Stack, names: tuple[str, ...]) -> Iterator[None]:
    """Records arrive in tables, and are tiered, as long as the block lasts."""
    stop, failures = threading.Event(), list[BaseException]()
    numbers = itertools.count()

    def produce() -> None:
        for name in names:
            made = (next(numbers) for _ in range(40))
            stack.produce(name, [{"id": n // 2, "text": f"t{n % 11}"} for n in made])
        stop.wait(0.05)

    def tier() -> None:
        for name in names:
            try:
                stack.tier(name, records_max=2000)
            except SeamlineError as error:
                assert error.code is COMMIT_CONFLICT, error

    def forever(work: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    threads = [threading.Thread(target=forever, args=(work,)) for work in (produce, tier)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]


def ends_of(statement: Statement) -> Ends:
    """How far an answer goes, by table and partition."""
    return {
        table["table"][-1]: {int(p): end for p, end in table["end"].items()}
        for table in statement.receipt["tables"]
    }


def plain(sql: str, ends: Ends, rows: dict[str, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """What DuckDB answers over the records below some ends."""
    with duckdb.connect(":memory:") as connection:
        for name, end in ends.items():
            kept = [row for row in rows[name] if row[3] < end.get(row[2], 0)]
            columns = {
                "id": pa.array([r[0] for r in kept], pa.int64()),
                "text": pa.array([r[1] for r in kept], pa.string()),
            }
            connection.register(f"rows_{name}", pa.table(columns))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_{name}")
        found: list[tuple[Any, ...]] = connection.execute(sql.replace(" / ", " // ")).fetchall()
        return found


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.integration
@pytest.mark.spark
def test_many_statements_at_once_over_changing_tables(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    names = (name, f"{name}_b")
    for each in names:
        stack.create_topic(each, 2)
        stack.create_table(each, COLUMNS)
        stack.produce(each, [{"id": n, "text": f"t{n % 7}"} for n in range(500)])
        stack.tier(each)
    draw = random.Random(SEED)
    asked = [shape(draw, *names) for _ in range(CLIENTS * EACH)]

    def client(number: int) -> list[Statement]:
        mine = asked[number * EACH : (number + 1) * EACH]
        engine = "spark" if number % SPARK_EVERY == 0 else "duckdb"
        return [gateway.statement(sql, engine) for sql in mine]

    with changing(stack, names), concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        answered = list(itertools.chain.from_iterable(pool.map(client, range(CLIENTS))))
    rows = {each: Replay(stack, each).catch_up().rows(("id", "text")) for each in names}
    outcomes: collections.Counter[str] = collections.Counter()
    for sql, statement in zip(asked, answered, strict=True):
        if statement.error is not None:
            assert statement.error.code is not INTERNAL_ERROR, (sql, statement.error)
            outcomes[statement.error.code.name] += 1
            continue
        found = multiset(statement_rows(statement))
        assert found == multiset(plain(sql, ends_of(statement), rows)), sql
        outcomes["rows"] += 1
    assert set(outcomes) <= {"rows", TOO_MANY_STATEMENTS.name, COMMIT_CONFLICT.name}, outcomes
    assert outcomes["rows"] > len(asked) / 2, outcomes
