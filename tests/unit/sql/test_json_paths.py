"""Goal: a JSON path of SQL is parsed in bounded time, and what is not one is refused by name.

Method: paths that nest and repeat, with the time that parsing them may take counted in looks at a
token, not in seconds; what paths find is in `tests/slt/sql_json_paths.slt`.
"""

from __future__ import annotations

import pytest

from seamline.errors import SeamlineError
from seamline.sql.kernels import json_paths, sql_paths
from seamline.sql.kernels.path_parsing import sql_path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "lax",
        "lax $.",
        "lax $[",
        "lax $[1",
        "lax $[1,]",
        "lax $.a b",
        "lax $.a = 1",
        "lax $?(@.a)",
        "lax $?(@.a = 1)",
        "lax $?(!@.a == 1)",
        "lax $?((@.a == 1) is known)",
        "lax $.nosuch()",
        "lax $.size(1)",
        "lax $ & 1",
        'lax "a',
        'lax $?(@ like_regex "(")',
        'lax $?(@ like_regex "a" flag "q")',
        "lax $?(@ starts with 1)",
    ],
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(SeamlineError) as refused:
        sql_path(path)
    assert refused.value.code.name == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "path",
    [
        "lax " + "(" * 5_000 + "1" + ")" * 5_000,
        "lax " + "-" * 5_000 + "1",
        "lax $" + "?(@" * 5_000 + " == 1" + ")" * 5_000,
        "lax $?(" + "(@?(" * 25 + "@ == 1" + ") + 1)" * 25 + " == 1)",
        "lax $?(" + "!(" * 5_000 + "@ == 1" + ")" * 5_001,
    ],
)
def test_paths_that_nest_too_deeply_are_refused(path: str) -> None:
    with pytest.raises(SeamlineError, match="nested too deeply"):
        sql_path(path)


def test_brackets_are_those_of_conditions_or_of_values() -> None:
    for path, found in {
        "lax $[*]?((@ == 1) || (@ == 3))": "[1,3]",
        "lax $[*]?(((@ + 1)) == 2)": "[1]",
        "lax $[*]?((@) > 1 && (@ < 3))": "[2]",
        "lax $[*]?(!((@ == 1) is unknown))": "[1,2,3]",
        "lax $[*]?((@?(@ > 2)) == 3)": "[3]",
    }.items():
        assert json_paths.query("[1,2,3]", path, "unconditional", "keep", "null", "null") == found


def test_places_that_multiply_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_paths, "VALUES_MAX", 1_000)
    with pytest.raises(SeamlineError, match="more than 1,000 values"):
        json_paths.exists("1", "lax $" + "[0,0,0,0]" * 12, "false")


def test_deep_values_are_no_internal_error() -> None:
    text = "[" * 900 + '{"a":1}' + "]" * 900
    assert json_paths.exists(text, "lax $..a", "false") in {True, False}
