"""Goal: walks and copies of trees are those of sqlglot, in less time.

Method: trees of statements with every kind of argument, walked and copied both ways; and the number
of Python's calls for large statements, which does not depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp
from support.nesting import NOW

from seamline.sql.binder.qualify import qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.trees import copy_of, nodes_of, nodes_of_kind

STATEMENTS = (
    "VALUES (1, 'a'), (2, NULL) ORDER BY 1 LIMIT 1",
    "WITH t AS (SELECT 1 AS a /* one */) SELECT a, CAST(a AS varchar) FROM t WHERE a IN (1, ?)",
    "SELECT sum(a) OVER (ORDER BY b) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
)


def tree_of(sql: str) -> exp.Expr:
    query = parse.parse(sql)
    assert isinstance(query, parse.Query)
    return query.tree


@pytest.mark.parametrize("sql", STATEMENTS)
def test_nodes_are_those_of_a_walk(sql: str) -> None:
    tree = tree_of(sql)
    assert list(map(id, nodes_of(tree))) == list(map(id, tree.walk()))
    columns = nodes_of_kind(tree, exp.Column)
    assert list(map(id, columns)) == list(map(id, tree.find_all(exp.Column)))
    leaves = (exp.Subquery, exp.Window)
    pruned = tree.walk(prune=lambda node: isinstance(node, leaves))
    assert list(map(id, nodes_of(tree, leaves))) == list(map(id, pruned))


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_copy_is_equal_and_apart(sql: str) -> None:
    tree, copy = tree_of(sql), copy_of(tree_of(sql))
    assert copy == tree
    assert not set(map(id, nodes_of(copy))) & set(map(id, nodes_of(tree)))
    for node, whole in zip(nodes_of(copy), nodes_of(tree.copy()), strict=True):
        assert (node.arg_key, node.index) == (whole.arg_key, whole.index)
        assert (node.meta, node.comments) == (whole.meta, whole.comments)
        assert node.parent is None or node in node.parent.iter_expressions()
    copy.meta["scan_id"] = "changed"
    assert "scan_id" not in tree.meta


# --- Large statements -----------------------------------------------------------------------------


def values(rows: int) -> str:
    listed = ", ".join(f"({row}, 'text {row}', {row}.5)" for row in range(rows))
    return f"SELECT * FROM (VALUES {listed}) AS t (a, b, c)"


def alternatives(arms: int) -> str:
    chain = " OR ".join(f"(a = {arm} AND b = 'text {arm}')" for arm in range(arms))
    return f"SELECT * FROM (VALUES (1, 'x')) AS t (a, b) WHERE {chain}"


def pivot(columns: int) -> str:
    sums = ", ".join(f"sum(CASE WHEN a = {c} THEN 1 ELSE 0 END) AS c{c}" for c in range(columns))
    return f"SELECT b, {sums} FROM (VALUES (1, 'x')) AS t (a, b) GROUP BY b"


def listed(values: int) -> str:
    return f"SELECT 1 IN ({', '.join(map(str, range(values)))})"


def calls_of(work: Callable[[], object]) -> int:
    """Returns how often Python code is called, or resumed, during work."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("statement", "calls_max"),
    [(values, 700), (alternatives, 1_100), (pivot, 1_670), (listed, 140)],
)
def test_what_a_part_of_a_large_statement_costs(
    statement: Callable[[int], str], calls_max: int
) -> None:
    """The bounds are a tenth above the cost when they were set; walks by sqlglot double it."""

    def calls_for(size: int) -> int:
        sql = statement(size)
        return calls_of(lambda: render.to_duckdb(qualify(tree_of(sql), [], now=NOW).tree))

    calls_for(4)  # fills what is cached once
    small, large = calls_for(100), calls_for(200)
    assert (large - small) / 100 <= calls_max
    assert large <= 2.2 * small
