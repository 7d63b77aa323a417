"""Goal: a subquery that reads the row around it gives what it gives with that row in its text.

Method: subqueries of every shape are asked for each row alone, with a literal in place of the
column, and then of all rows at once: LATERAL joined in each way, as a value, and in EXISTS.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from support.gateway import Gateway

KEYS = (1, 2, 3, 4)
ROWS = "(VALUES (2, NULL), (3, 0), (4, 1)) AS u(k, v)"
AROUND = "(VALUES 1, 2, 3, 4) AS t(k)"
FILTERS = ("u.k <= t.k", "u.k = t.k", "u.k = t.k AND v > 0", "u.k < t.k OR v = t.k")
AGGREGATES = (
    "max(v)",
    "count(*)",
    "count(v) + 1",
    "bool_or(v = 1)",
    "coalesce(max(v), 9)",
    "max(v) IS NULL",
    "array_agg(v)",
    "sum(v) + 1",
    "max(v), 5",
    "count(*), true",
)
SHAPES = (
    "SELECT {a} FROM {rows} WHERE {w}",
    "SELECT {a} FROM {rows} WHERE {w} HAVING count(*) > 0",
    "SELECT {a} FROM {rows} WHERE {w} LIMIT 1",
    "SELECT d.*, 1 FROM (SELECT {a} FROM {rows} WHERE {w}) AS d",
    "SELECT d.*, 1 FROM (SELECT {a} FROM {rows} WHERE {w}) AS d WHERE t.k > 1",
    "SELECT 7 FROM (SELECT {a} FROM {rows} WHERE {w}) AS d",
    "SELECT v, 5 FROM {rows} WHERE {w}",
    "SELECT * FROM (VALUES (t.k, 1), (0, t.k)) AS d(x, y) WHERE x <> 3",
)


def subqueries() -> Iterator[str]:
    made = itertools.product(SHAPES, AGGREGATES, FILTERS)
    return iter(dict.fromkeys(s.format(a=a, w=w, rows=ROWS) for s, a, w in made))


def asked(gateway: Gateway, sql: str) -> list[tuple[Any, ...]]:
    return sorted(gateway.rows(sql, "duckdb"), key=repr)


@pytest.mark.one_in(test=16, prove=8)
@pytest.mark.parametrize("part", range(16))
def test_the_row_around_is_as_good_as_a_literal(offline_gateway: Gateway, part: int) -> None:
    wrong = []
    for query in itertools.islice(subqueries(), part, None, 16):
        alone = {k: asked(offline_gateway, query.replace("t.k", str(k))) for k in KEYS}
        width = next((len(rows[0]) for rows in alone.values() if rows), 1)
        none = [(None,) * width]
        for sql, wanted in (
            (
                f"SELECT * FROM {AROUND} LEFT JOIN LATERAL ({query}) AS l ON true",
                [(k, *row) for k in KEYS for row in alone[k] or none],
            ),
            (
                f"SELECT * FROM {AROUND} LEFT JOIN LATERAL ({query}) AS l ON t.k > 2",
                [(k, *row) for k in KEYS for row in (alone[k] if k > 2 else none) or none],
            ),
            (
                f"SELECT * FROM {AROUND} CROSS JOIN LATERAL ({query}) AS l",
                [(k, *row) for k in KEYS for row in alone[k]],
            ),
            (
                f"SELECT k, EXISTS ({query}) FROM {AROUND}",
                [(k, bool(alone[k])) for k in KEYS],
            ),
            (
                f"SELECT k, ({query}) FROM {AROUND}",
                [(k, *(alone[k] or none)[0]) for k in KEYS],
            ),
        )[: 5 if width == 1 and all(len(rows) < 2 for rows in alone.values()) else 4]:
            found = asked(offline_gateway, sql)
            if found != sorted(wanted, key=repr):
                wrong.append(f"{sql}\n  gives {found}\n  not   {sorted(wanted, key=repr)}")
    assert not wrong, "\n".join(wrong)


GRID = "SELECT * FROM (VALUES 0, 1, 2) AS a(a), (VALUES 1, 2, 3) AS b(b), (VALUES 0, 2, 4) AS c(c)"
FEW = "(VALUES (0, 3, 1), (2, 2, 0), (3, 0, 2)) AS q(a, b, c)"
OPERATORS = ("=", "<>", ">=", "<", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
NESTED = (
    f"SELECT 1 FROM {FEW} WHERE {{0}} AND {{1}}",
    f"SELECT 1 FROM (SELECT q.a, q.b, q.c, r.c AS d FROM {FEW} WHERE {{0}}) AS q WHERE {{1}}",
    f"SELECT 1 FROM {FEW} LEFT JOIN (VALUES 0, 2) AS p(c) ON p.c < q.c WHERE {{0}} AND {{1}}",
)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("shape", NESTED)
def test_conditions_on_several_columns_of_the_row_around(
    offline_gateway: Gateway, shape: str
) -> None:
    """EXISTS keeps the rows that a join finds, whatever their conditions compare."""
    wrong = []
    for one, other in itertools.product(OPERATORS, repeat=2):
        conditions = f"q.a {one} r.a", f"q.b {other} r.b AND q.b <> r.a"
        wanted = f"SELECT DISTINCT r.* FROM ({GRID}) AS r, {FEW} WHERE {' AND '.join(conditions)}"
        exists = f"FROM ({GRID}) AS r WHERE {{}} EXISTS ({shape.format(*conditions)})"
        rows = asked(offline_gateway, wanted)
        left = asked(offline_gateway, f"SELECT count(*) {exists.format('NOT')}")
        if asked(offline_gateway, f"SELECT * {exists.format('')}") != rows:
            wrong.append(exists.format(""))
        if left != [(27 - len(rows),)]:
            wrong.append(exists.format("NOT"))
    assert not wrong, "\n".join(wrong)
