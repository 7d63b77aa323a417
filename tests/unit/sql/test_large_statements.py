"""Goal: a statement that is large in any one way gives its answer or a named error, never a crash.

Method: statements made by a rule whose answer is known by arithmetic, on DuckDB. Those that are too
large must say so. What Spark says to the same is in the integration tests.
"""

from __future__ import annotations

import itertools
import pathlib

import duckdb
import pytest
from support import large
from support.gateway import Gateway
from support.nesting import NOW
from support.offline import MemoryWorld

from seamline.errors import SeamlineError
from seamline.sql.binder.qualify import qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse


@pytest.mark.one_in(test=6, prove=3)
@pytest.mark.parametrize("name", large.ANSWERED)
def test_large_statements_are_answered(offline_gateway: Gateway, name: str) -> None:
    sql, answer = large.ANSWERED[name]
    assert offline_gateway.rows(sql, "duckdb") == [(answer,)]


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("name", large.REFUSED)
def test_what_is_too_large_says_so(offline_gateway: Gateway, name: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        offline_gateway.rows(large.REFUSED[name], "duckdb")
    assert caught.value.code.name == "STATEMENT_TOO_LARGE"


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("name", large.EITHER)
def test_others_have_an_answer_or_a_name(offline_gateway: Gateway, name: str) -> None:
    sql, answer = large.EITHER[name]
    try:
        found = offline_gateway.rows(sql, "duckdb")
    except SeamlineError as error:
        assert error.code.name in {"STATEMENT_TOO_LARGE", "SYNTAX_ERROR"}, error
    else:
        assert found == [(answer,)]


@pytest.mark.prove
def test_long_filters_of_a_table_are_answered(tmp_path: pathlib.Path) -> None:
    world = MemoryWorld(tmp_path)
    try:
        world.rows(
            "CREATE TABLE t AS SELECT sequential_number AS x FROM TABLE(sequence(stop => 9))"
        )
        listed = ", ".join(str(2 * i) for i in range(3_000))
        chain = " AND ".join(f"x <> {2 * i}" for i in range(1_000))
        assert world.rows(f"SELECT count(*) FROM t WHERE x IN ({listed})") == [(5,)]
        assert world.rows(f"SELECT count(*) FROM t WHERE x NOT IN ({listed})") == [(5,)]
        assert world.rows(f"SELECT count(*) FROM t WHERE {chain}") == [(5,)]
    finally:
        world.gateway.close()


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize(
    ("chain", "answer"),
    [
        (" UNION ALL ".join(f"SELECT {i} AS x" for i in range(1_000)), (1_000, 499_500)),
        (" UNION ".join(f"SELECT {i % 7} AS x" for i in range(1_000)), (7, 21)),
        ("SELECT 1 AS x" + " UNION ALL SELECT 1" * 99 + " UNION SELECT 2" * 99, (2, 3)),
        ("SELECT 1 AS x" + " UNION SELECT 1" * 99 + " UNION ALL SELECT 2" * 99, (100, 199)),
        ("SELECT 1 AS x" + " UNION ALL SELECT 1" * 99 + " EXCEPT SELECT 2", (1, 1)),
        ("SELECT 1 AS x" + " UNION ALL SELECT 1" * 50 + " UNION ALL SELECT 0.5" * 50, (101, 76)),
    ],
)
def test_spark_gets_chains_that_are_not_deep(chain: str, answer: tuple[int, int]) -> None:
    query = parse.parse(f"SELECT count(*), sum(x) FROM ({chain})")
    assert isinstance(query, parse.Query)
    text = render.to_spark(qualify(query.tree, [], now=NOW).tree)
    depth = list(itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in text))
    assert max(depth) < 40
    assert duckdb.sql(text.replace("`", '"')).fetchall() == [answer]
