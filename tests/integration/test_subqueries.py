"""Goal: a subquery over the table it is used in, hot and cold, means the same on both engines.

Method: every place a subquery can be used in, correlated and not, over one unified table with rows
in both tiers, and over another; the engines must agree with each other and with a plain SQLite.
"""

from __future__ import annotations

import sqlite3

import pytest
from support.gateway import Gateway
from support.stack import Stack

ROWS = [(i, i % 3 if i % 5 else None, "abc"[i % 3]) for i in range(12)]
CASES = [("i.k = o.k", "t"), ("i.k = o.k AND i.id < o.id", "t"), ("i.id = o.id + 1", "u")]
"""A condition, and the inner table: the outer one, or another."""
INNER = "FROM {inner} AS i WHERE {condition}"
FORMS = [
    f"SELECT o.id FROM {{outer}} AS o WHERE o.id = (SELECT max(i.id) {INNER})",
    f"SELECT o.id, (SELECT count(*) {INNER}) FROM {{outer}} AS o",
    f"SELECT o.id, (SELECT sum(i.g) {INNER}) + 1 FROM {{outer}} AS o",
    f"SELECT o.id FROM {{outer}} AS o WHERE EXISTS (SELECT 1 {INNER})",
    f"SELECT o.id FROM {{outer}} AS o WHERE NOT EXISTS (SELECT 1 {INNER})",
    f"SELECT o.id FROM {{outer}} AS o WHERE o.g IN (SELECT i.g {INNER})",
    f"SELECT o.id FROM {{outer}} AS o WHERE o.g NOT IN (SELECT i.g {INNER})",
    f"SELECT o.id, o.g IN (SELECT i.g {INNER}) FROM {{outer}} AS o",
    f"SELECT o.id, EXISTS (SELECT 1 {INNER}) FROM {{outer}} AS o",
    f"SELECT o.k, count(*) FROM {{outer}} AS o WHERE EXISTS (SELECT 1 {INNER}) GROUP BY o.k",
    f"SELECT o.id FROM {{outer}} AS o WHERE o.id > 3 OR EXISTS (SELECT 1 {INNER})",
]


@pytest.fixture(scope="module")
def tables(stack: Stack) -> dict[str, str]:
    """Two unified tables of the same rows, half of them tiered."""
    names = {"t": "subqueries_t", "u": "subqueries_u"}
    records = [{"id": id_, "g": g, "k": k} for id_, g, k in ROWS]
    for name in names.values():
        stack.create_topic(name, 2)
        stack.create_table(name, "id bigint, g bigint, k varchar")
        stack.produce(name, records[:6])
        stack.tier(name)
        stack.produce(name, records[6:])
    return names


def expected(sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(":memory:") as connection:
        for name in "tu":
            connection.execute(f"CREATE TABLE {name} (id, g, k)")
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", ROWS)
        return sorted(connection.execute(sql).fetchall(), key=repr)


@pytest.mark.one_in(prove=18)
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
@pytest.mark.parametrize("form", FORMS)
def test_correlated_subqueries(
    gateway: Gateway, tables: dict[str, str], form: str, engine: str
) -> None:
    wrong = {}
    for condition, other in CASES:
        sql = form.format(condition=condition, outer=tables["t"], inner=tables[other])
        found = [
            tuple(int(value) if isinstance(value, bool) else value for value in row)
            for row in gateway.rows(sql, engine)
        ]
        plain = form.format(condition=condition, outer="t", inner=other)
        if sorted(found, key=repr) != expected(plain):
            wrong[sql] = found
    assert not wrong
