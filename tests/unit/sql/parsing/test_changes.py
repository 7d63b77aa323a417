"""Goal: TABLE(changes(…)) is read with its arguments, and anything else is refused where it is.

Method: statements parsed, their parameters filled in, their references looked at.
"""

from __future__ import annotations

from typing import Any

import pytest

from seamline.errors import SeamlineError
from seamline.sql.binder.qualify import TableReference, references
from seamline.sql.parsing import parameters, parse
from seamline.sql.parsing.changes import Changes


def read(sql: str, values: Any = ()) -> list[TableReference]:
    parsed = parse.parse(sql)
    assert isinstance(parsed, parse.Query)
    return references(parameters.bind(parsed, values))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("table => 't', from_token => 'a'", Changes(("t",), "a")),
        ("FROM_TOKEN => 'a', TABLE => 't', to_token => 'b'", Changes(("t",), "a", "b")),
        ("'s.t', 'a', 'b', 10", Changes(("s", "t"), "a", "b", 10)),
        ("table => 'c.s.\"x.y\"', from_token => 'a', offsets_max => 5",
         Changes(("c", "s", "x.y"), "a", None, 5)),
        ("table => 't', from_token => 'a', to_token => NULL", Changes(("t",), "a")),
    ],
)  # fmt: skip
def test_arguments_are_given_by_name_or_by_place(arguments: str, wanted: Changes) -> None:
    (found,) = read(f"SELECT * FROM TABLE(changes({arguments})) AS c")
    assert (found.name, found.changes) == (wanted.table, wanted)


def test_arguments_may_be_parameters() -> None:
    sql = "SELECT * FROM TABLE(changes(table => ?, from_token => ?, offsets_max => ?))"
    (found,) = read(sql, ["t", "a", 7])
    assert found.changes == Changes(("t",), "a", None, 7)


def test_changes_stand_beside_tables_and_in_queries_of_every_shape() -> None:
    sql = """
        WITH c AS (SELECT * FROM TABLE(changes('t', 'a')))
        SELECT * FROM c JOIN t ON c.id = t.id LEFT JOIN TABLE(changes('u', 'b')) AS d ON d.id = t.id
        WHERE t.id IN (SELECT id FROM TABLE(changes('t', 'a', 'z')))
    """
    assert [(r.name[-1], r.changes and r.changes.from_token) for r in read(sql)] == [
        ("t", "a"), ("t", None), ("u", "b"), ("t", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("from_", "code", "column"),
    [
        ("changes('t', 'a')", "NOT_SUPPORTED", 15),
        ("TABLE(exclude_columns(1, 2))", "FUNCTION_NOT_FOUND", 15),
        ("TABLE(other.builtin.sequence(1, 2))", "FUNCTION_NOT_FOUND", 15),
        ("TABLE(changes('t'))", "INVALID_ARGUMENT", 21),
        ("TABLE(changes('t', NULL))", "INVALID_ARGUMENT", 21),
        ("TABLE(changes('t', 'a', 'b', 1, 2))", "INVALID_ARGUMENT", 21),
        ("TABLE(changes('t', 'a', until => 'b'))", "INVALID_ARGUMENT", None),
        ("TABLE(changes('t', 'a', from_token => 'b'))", "INVALID_ARGUMENT", None),
        ("TABLE(changes('t', 5))", "INVALID_ARGUMENT", 34),
        ("TABLE(changes('t', 'a', 'b', 0))", "INVALID_ARGUMENT", 21),
        ("TABLE(changes('t', 'a', 'b', 'c'))", "INVALID_ARGUMENT", None),
        ("TABLE(changes('t', x.id)), x", "INVALID_ARGUMENT", 34),
        ("TABLE(changes('a b', 'a'))", "SYNTAX_ERROR", None),
        ("TABLE(changes('t', 'a')) FOR VERSION AS OF 1", "INVALID_ARGUMENT", None),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(from_: str, code: str, column: int | None) -> None:
    with pytest.raises(SeamlineError) as caught:
        read(f"SELECT * FROM {from_}")
    assert caught.value.code.name == code
    assert caught.value.location is not None
    if column is not None:
        assert caught.value.location.column == column


def test_a_view_holds_no_changes() -> None:
    with pytest.raises(SeamlineError) as caught:
        parse.parse("CREATE VIEW v AS SELECT * FROM TABLE(changes('t', 'a'))")
    assert caught.value.code.name == "NOT_SUPPORTED"
