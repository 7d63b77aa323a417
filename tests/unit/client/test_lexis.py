"""Goal: a script is cut into statements where a semicolon ends one, and nowhere else.

Method: texts in which semicolons mean something else, and any text at all: its pieces are the text.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.errors import Location
from seamline.terminal.lexis import Statement, is_complete, statements, tokens
from seamline.terminal.running import marked

SQL = st.lists(
    st.sampled_from(["'", '"', "--", "/*", "*/", ";", "\n", " ", "a", "1", "é", "\\"])
).map("".join)


@given(SQL)
def test_the_pieces_of_a_text_are_the_text(sql: str) -> None:
    assert "".join(token.text for token in tokens(sql)) == sql


@given(SQL)
def test_a_statement_is_where_it_says(sql: str) -> None:
    lines = sql.split("\n")
    for number, found in enumerate(statements(sql), start=1):
        assert found.number == number
        first = found.text.split("\n")[0]
        assert lines[found.line - 1][found.column - 1 :].startswith(first)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; -- nothing\n /* ; */ ;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\n SELECT ';' ;", ["SELECT 1", "SELECT ';'"]),
        ("""SELECT "a;""b" -- ; no
            , 'it''s; ' /* ; */; SELECT 2""", ["""SELECT "a;""b" -- ; no
            , 'it''s; '""", "SELECT 2"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
    ],
)  # fmt: skip
def test_statements(script: str, expected: list[str]) -> None:
    assert [found.text for found in statements(script)] == expected


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [("", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False), ("a; b", False)],
)
def test_a_text_is_whole_once_its_last_statement_was_ended(text: str, is_whole: bool) -> None:
    assert is_complete(text) == is_whole


def test_a_place_is_one_of_the_script() -> None:
    _, second = statements("SELECT 1;\n\n  SELECT\n nope;")
    assert (second.line, second.column) == (3, 3)
    assert second.in_script(Location(1, 1)) == Location(3, 3)
    assert second.in_script(Location(2, 2)) == Location(4, 2)


@pytest.mark.parametrize(
    ("sql", "place", "shown"),
    [
        ("SELECT nope", Location(1, 8), "line 1: SELECT nope\n               ^"),
        ("SELECT 1,\n\t'ü日', x", Location(2, 8), "line 2:  'ü日', x\n                ^"),
        ("SELECT", Location(9, 99), "line 9: SELECT\n              ^"),
    ],
)
def test_the_mark_stands_under_its_place(sql: str, place: Location, shown: str) -> None:
    assert marked(sql, place) == shown


@pytest.mark.parametrize("column", [1, 50, 150, 300])
def test_of_a_long_line_the_part_around_the_place_is_shown(column: int) -> None:
    sql = "".join(chr(ord("a") + i % 26) for i in range(300))
    line, caret = marked(sql, Location(1, column)).split("\n")
    assert len(line) <= 88
    assert line[len(caret) - 1] == sql[column - 1]


def test_what_a_statement_is() -> None:
    assert Statement("explain analyze SELECT 1").is_raw
    assert Statement("SHOW  CREATE TABLE t").is_raw
    assert not Statement("SHOW TABLES").is_raw
    assert Statement("/* x */ Create table t (a bigint)").defines
    assert not Statement("SELECT 1").defines
