"""Goal: of a query's WHERE, only what must hold of every wanted row narrows a computed table.

Method: queries and what is found in them; whatever could mean something else finds nothing.
"""

from __future__ import annotations

import pytest

from seamline.sql.binder.qualify import TableReference, references
from seamline.sql.parsing.parse import Query, parse

FOUND = {
    "a = 'x'": {"a": "x"},
    "'x' = t.A AND (b LIKE 'y' AND c > 1)": {"a": "x", "b": "y"},
    r"a LIKE 'x\_y\%' ESCAPE '\'": {"a": "x_y%"},
    "a LIKE 'x%' AND b = 'y' AND (c = 'z' OR d = 'z')": {"b": "y"},
    "a LIKE 'x_y'": {},
    r"a LIKE 'x\y' ESCAPE '\'": {},
    "a = 'x' OR b = 'y'": {},
    "NOT a = 'x'": {},
    "a NOT LIKE 'x'": {},
    "a NOT LIKE 'x' ESCAPE '!'": {},
    "NOT a LIKE 'x'": {},
    "a <> 'x'": {},
    "a = ALL (SELECT 'x')": {},
    "a = b": {},
    "a = 1": {},
    "u.a = 'x'": {},
    "lower(a) = 'x'": {},
    "(a = 'x') IS NULL": {},
}


def read(sql: str) -> list[TableReference]:
    statement = parse(sql)
    assert isinstance(statement, Query)
    return references(statement.tree)


@pytest.mark.parametrize("where", FOUND)
def test_what_is_found(where: str) -> None:
    (reference,) = read(f"SELECT * FROM t WHERE {where}")
    assert dict(reference.equals) == FOUND[where]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t AS t(b, a) WHERE a = 'x'",
        "SELECT * FROM t, u WHERE a = 'x'",
        "SELECT * FROM t LEFT JOIN u ON true WHERE a = 'x'",
        "SELECT * FROM t CROSS JOIN UNNEST(ARRAY['x']) AS v(a) WHERE a = 'x'",
        "SELECT * FROM (SELECT * FROM t) WHERE a = 'x'",
        "SELECT a FROM t GROUP BY a HAVING a = 'x'",
        "SELECT (SELECT max(b) FROM t) FROM (VALUES 'x') AS v(a) WHERE a = 'x'",
    ],
)
def test_nothing_is_found(sql: str) -> None:
    assert not any(reference.equals for reference in read(sql))
