"""Goal: ALTER TABLE … EXECUTE means what it says, and what is wrong in it has a name and a place.

Method: statements, with what they are parsed into or the word at which they are refused.
"""

from __future__ import annotations

import pytest

from seamline.errors import Location, SeamlineError
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import MaintainTable


@pytest.mark.parametrize(
    ("sql", "procedure", "arguments"),
    [
        ("optimize", "optimize", {}),
        ("OPTIMIZE()", "optimize", {}),
        ("optimize(file_size_threshold => '1.5 MB')", "optimize",
         {"file_size_threshold": 1.5 * 2**20}),
        ("optimize('10kB')", "optimize", {"file_size_threshold": 10 * 2**10}),
        ("optimize_manifests", "optimize_manifests", {}),
        ("expire_snapshots('7d', 3)", "expire_snapshots",
         {"retention_threshold": 7 * 86_400, "retain_last": 3}),
        ("expire_snapshots(RETAIN_LAST => 3, \"retention_threshold\" => '90m')", "expire_snapshots",
         {"retain_last": 3, "retention_threshold": 5_400}),
        ("remove_orphan_files(retention_threshold => '200h')", "remove_orphan_files",
         {"retention_threshold": 720_000}),
    ],
)  # fmt: skip
def test_procedures_and_their_arguments(
    sql: str, procedure: str, arguments: dict[str, float]
) -> None:
    found = parse.parse(f"ALTER TABLE IF EXISTS a.b.t EXECUTE {sql};")
    assert found == MaintainTable(
        ("a", "b", "t"), procedure, tuple(arguments.items()), if_exists=True
    )


@pytest.mark.parametrize(
    ("name", "cold"),
    [("t", '"t$cold" AS "t"'), ('a."b.c"."T"', '"a"."b.c"."T$cold" AS "T"')],
)
def test_a_condition_is_that_of_a_query_of_the_cold_rows(name: str, cold: str) -> None:
    found = parse.parse(f"ALTER TABLE {name} EXECUTE optimize('1MB') WHERE x = ? OR t.y > 1")
    assert isinstance(found, MaintainTable)
    assert found.query is not None
    assert found.query.tree.sql("trino") == f"SELECT 1 FROM {cold} WHERE x = ? OR t.y > 1"
    assert found.query.placeholders == 1


EXPIRE = "expire_snapshots(retention_threshold => '7d', retain_last => 10)"


@pytest.mark.parametrize(
    ("sql", "code", "at", "hint"),
    [
        ("optimise", "STATEMENT_NOT_ALLOWED", "optimise", "Did you mean optimize?"),
        ("vacuum", "STATEMENT_NOT_ALLOWED", "vacuum", "The procedures are optimize, "),
        ("drop_extended_stats", "NOT_SUPPORTED", "drop_", "There are none"),
        ("expire_snapshots(retain_lst => 1)", "INVALID_ARGUMENT", "retain_lst", "Did you mean"),
        ("expire_snapshots(size => 1)", "INVALID_ARGUMENT", "size", EXPIRE),
        ("expire_snapshots(retain_last => 1, retain_last => 2)", "INVALID_ARGUMENT",
         "retain_last => 2", EXPIRE),
        ("expire_snapshots('7d', 1, 2)", "INVALID_ARGUMENT", "2)", EXPIRE),
        ("optimize_manifests('x')", "INVALID_ARGUMENT", "'x'", "optimize_manifests takes no"),
        ("expire_snapshots('7d', retain_last => 1)", "SYNTAX_ERROR", "retain_last", EXPIRE),
        ("expire_snapshots(retention_threshold => '7d', 1)", "SYNTAX_ERROR", "1)", EXPIRE),
        ("expire_snapshots(7)", "INVALID_ARGUMENT", "7)", "retention_threshold => '7d'"),
        ("expire_snapshots('7w')", "INVALID_ARGUMENT", "'7w'", "retention_threshold => '7d'"),
        ("expire_snapshots('7d', '1')", "INVALID_ARGUMENT", "'1'", "retain_last => 10"),
        ("expire_snapshots('7d', 0)", "INVALID_ARGUMENT", "0)", "retain_last => 10"),
        ("optimize('10')", "INVALID_ARGUMENT", "'10'", "file_size_threshold => '100MB'"),
        ("optimize(NULL)", "NOT_SUPPORTED", "NULL", "file_size_threshold => '100MB'"),
        ("optimize_manifests WHERE x = 1", "NOT_SUPPORTED", "WHERE", "It concerns the whole"),
        ("optimize WHERE x = 1 GROUP BY x", "SYNTAX_ERROR", "x = 1", "optimize WHERE"),
        ("optimize WHERE x = 1 UNION SELECT 1", "SYNTAX_ERROR", "x = 1", "optimize WHERE"),
        ("optimize WHERE x = 1 AT TOKEN 'y'", "SYNTAX_ERROR", "x = 1", "optimize WHERE"),
        ("optimize('1MB',)", "SYNTAX_ERROR", ")", "an argument is expected"),
        ("optimize('1MB'", "SYNTAX_ERROR", "", ""),
        ("optimize WHERE", "SYNTAX_ERROR", "", ""),
        ("optimize more", "SYNTAX_ERROR", "more", ""),
        ("", "SYNTAX_ERROR", "", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_name_and_a_place(sql: str, code: str, at: str, hint: str) -> None:
    text = f"ALTER TABLE t EXECUTE {sql}".rstrip()
    with pytest.raises(SeamlineError) as caught:
        parse.parse(text)
    assert caught.value.code.name == code
    assert caught.value.hint.startswith(hint)
    assert caught.value.location == Location(1, (text.index(at) if at else len(text)) + 1)
