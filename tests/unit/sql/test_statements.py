"""Goal: a statement returns rows or a named error of its writer's, never an engine's own.

Method: every expression in every clause, most of them not allowed there, and whole statements that
no engine takes: each is bound, and what binds is run by DuckDB. What Spark says to the same is in
the integration tests.
"""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from support import statements
from support.nesting import NOW

from seamline.connectors.duckdb.errors import named_error
from seamline.connectors.duckdb.instances import Instance
from seamline.errors import ErrorKind, SeamlineError
from seamline.sql.binder.qualify import qualify, references
from seamline.sql.engines import render
from seamline.sql.parsing import parameters, parse


@pytest.fixture(scope="module")
def engine() -> Instance:
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    return Instance(connection)


def outcome(engine: Instance, sql: str) -> SeamlineError | None:
    try:
        query = parse.parse(sql)
        assert isinstance(query, parse.Query)
        tree = parameters.bind(query, [])
        if references(tree):
            return None  # a table of nobody's
        bound = qualify(tree, [], now=NOW).tree
        engine.learn(render.kernels(bound, "duckdb"))
        engine.connection.execute(render.to_duckdb(bound)).fetchall()
    except SeamlineError as error:
        return error
    except duckdb.Error as error:
        return named_error(error)
    return None


@pytest.mark.one_in(test=6)
@pytest.mark.parametrize("clause", [*statements.CLAUSES, "whole"])
def test_what_is_not_allowed_has_a_name(engine: Instance, clause: str) -> None:
    found: Counter[str] = Counter()
    wrong = {}
    for sql in statements.of_clause(clause) if clause != "whole" else statements.WHOLE:
        error = outcome(engine, sql)
        if error is not None and error.code.kind is not ErrorKind.USER:
            wrong[sql] = str(error)
        found[error.code.name if error is not None else "rows"] += 1
    assert not wrong
    assert len(found) > 2, found


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT x FROM {t} WHERE row_number() OVER (ORDER BY x) = 1", "GROUPING_ERROR"),
        ("SELECT max(x) FROM {t} HAVING rank() OVER (ORDER BY 1) = 1", "GROUPING_ERROR"),
        ("SELECT 1 FROM {t} FULL JOIN {u} ON y = (SELECT x + 1)", "NOT_SUPPORTED"),
        ("SELECT 1 FROM {t} FULL JOIN {u} ON x IN (SELECT y FROM {u})", "NOT_SUPPORTED"),
        ("WITH a AS (SELECT 1), A AS (SELECT 2) SELECT * FROM a", "SYNTAX_ERROR"),
        ("SELECT x FROM {t} UNION CORRESPONDING SELECT y FROM {u}", "NOT_SUPPORTED"),
        ("WITH FUNCTION f(x integer) RETURNS integer RETURN x + 1 SELECT f(1)", "NOT_SUPPORTED"),
        ("SELECT x FROM {t}, (SELECT 1 AS x)", "COLUMN_AMBIGUOUS"),
        ("SELECT x AS k, s AS k FROM {t} ORDER BY k", "COLUMN_AMBIGUOUS"),
        ("SELECT k FROM (SELECT x AS k, s AS k FROM {t})", "COLUMN_AMBIGUOUS"),
        ("SELECT ntile(x) OVER (ORDER BY x) FROM {t}", "NOT_SUPPORTED"),
        ("SELECT ntile(0) OVER (ORDER BY x) FROM {t}", "INVALID_ARGUMENT"),
        ("SELECT x FROM {t} LIMIT 3000000000", "NOT_SUPPORTED"),
        ("SELECT sum(x) OVER (ORDER BY x ROWS 1 FOLLOWING) FROM {t}", "INVALID_ARGUMENT"),
    ],
)
def test_and_which_name(engine: duckdb.DuckDBPyConnection, sql: str, code: str) -> None:
    error = outcome(engine, sql.format(t=statements.T, u=statements.U))
    assert error is not None
    assert error.code.name == code
