"""Goal: no value that somebody wrote into a statement is left in its redacted text.

Method: a canary in every place where SQL has values, in our dialect and in others, and statements
that are alike but for their values.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.sql.parsing.literal_redaction import redacted


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT  a -- canary\n FROM t /* canary */ ;", "SELECT a FROM t ;"),
        ("SELECT 'ca''nary', U&'canary', X'CA', 1.5e3, 0xFF, 1_000", "SELECT ?, ?, ?, ?, ?, ?"),
        ("SELECT DATE '2020-01-01', INTERVAL '1' DAY", "SELECT DATE ?, INTERVAL ? DAY"),
        ('SELECT "a ""b""" FROM "T"', 'SELECT "a ""b""" FROM "T"'),
        ("INSERT INTO t VALUES (1, 'canary')", "INSERT INTO t VALUES (?, ?)"),
        ("EXECUTE p USING 'canary', -7", "EXECUTE p USING ?, -?"),
        ("CREATE TABLE t (a decimal(10,2)) WITH (topic = 'canary')",
         "CREATE TABLE t (a decimal(?,?)) WITH (topic = ?)"),
        ("SELECT 'canary", None),
        ("SELECT \"canary", None),
        ("SELECT /* canary", None),
        ("", ""),
    ],
)  # fmt: skip
def test_values_become_places(sql: str, text: str | None) -> None:
    assert redacted(sql) == text


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("mysql", "SELECT 'it\\'s canary', \"canary\" FROM t # canary"),
        ("bigquery", "SELECT r'canary', b'canary', '''canary''', \"\"\"canary\"\"\" FROM `t`"),
        ("postgres", "SELECT $$canary$$, $x$canary$x$, E'can\\'canary', N'canary'"),
        ("spark", "SELECT 'canary\\'', \"canary\", X'00'"),
        ("no such dialect", "SELECT 'canary'"),
    ],
)
def test_values_of_other_dialects_are_found_by_their_own_rules(dialect: str, sql: str) -> None:
    assert "canary" not in (redacted(sql, dialect) or "")


@given(st.text(), st.integers(0), st.sampled_from([" ", "\n\t", " -- ?\n"]))
def test_statements_that_differ_in_values_alone_are_alike(text: str, number: int, gap: str) -> None:
    quoted = text.replace("'", "''")
    sql = f"SELECT a{gap}FROM t WHERE{gap}b = '{quoted}' AND c > {number}"
    assert redacted(sql) == "SELECT a FROM t WHERE b = ? AND c > ?"
