"""SQL tests as text: statements, and what they answer.

    statement ok                 runs
    statement error TABLE_NOT_FOUND    fails with that name
    query [rowsort]              answers the rows under ----, cells separated by two bars
    values                       each line below is a query: `expression ---- its value`, or
                                 `expression ---- error TYPE_MISMATCH`

Blank lines end a case; lines that start with # are comments. `skip spark reason` in front of a case
leaves one route out and says why; a skipped route that would agree is reported by `--unskip`.

A route that plans for long is asked many expressions in one statement (`answers`).
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

SEPARATOR = " || "
IS = " ---- "
"""What stands between an expression and its value."""
ASKED = "queries of tests/slt answered by "
"""The name, up to the route's, of a report's property: how many cases agree with the file."""
TOGETHER_MAX = 25
"""How many expressions one statement asks at most."""


@dataclasses.dataclass(slots=True)
class Case:
    """One case of a file.

    Attributes:
        line: Line its directive stands in, from 1.
        kind: `ok`, `error` or `query`.
        sql: The statement.
        expected: Name of the error, or the rows.
        sort: Whether rows are compared without regard to order.
        skips: Routes that are left out, with the reason.
        expression: What the statement selects, if that is one value.
    """

    line: int
    kind: str
    sql: str
    expected: str
    sort: bool
    skips: dict[str, str]
    expression: str = ""


class StatementError(Exception):
    """The named error a statement ended with."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


Route = Callable[[str], tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""Runs a statement: types of the columns and rows of Python values. Raises `StatementError`."""

_DIRECTIVE = re.compile(r"statement ok|statement error \w+|query( rowsort)?|values")
_BLANK = re.compile(r"(\n\s*\n)")
_SKIP = re.compile(r"skip (\w+) (.+)")


def parse(path: pathlib.Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = []
    line = 1
    for block in _BLANK.split(path.read_text(encoding="utf-8")):
        cases += _parse_block(block, line, path)
        line += block.count("\n")
    return cases


def _parse_block(block: str, line: int, path: pathlib.Path) -> list[Case]:
    numbered = [
        (line + place, text)
        for place, text in enumerate(block.split("\n"))
        if not text.startswith("#") and text.strip()
    ]
    if not numbered:
        return []
    skips = {}
    while match := _SKIP.fullmatch(numbered[0][1]):
        skips[match[1]] = match[2]
        numbered = numbered[1:]
    (line, first), *rest = numbered
    assert _DIRECTIVE.fullmatch(first) is not None, f"{path}:{line}: {first!r} is no directive"
    if first == "values":
        return [_parse_value(text, at, skips, path) for at, text in rest]
    body = "\n".join(text for _, text in rest)
    sql, _, expected = body.partition("\n----")
    if first.startswith("statement"):
        kind, _, name = first.removeprefix("statement ").partition(" ")
        return [Case(line, kind, sql, name, sort=False, skips=skips)]
    rows = expected.strip("\n")
    return [Case(line, "query", sql, rows, sort="rowsort" in first, skips=skips)]


def _parse_value(text: str, line: int, skips: dict[str, str], path: pathlib.Path) -> Case:
    expression, is_there, value = text.partition(IS)
    assert is_there, f"{path}:{line}: {text!r} has no value"
    error = value.removeprefix("error ")
    if error != value:
        return Case(line, "error", f"SELECT {expression}", error, sort=False, skips=skips)
    return Case(line, "query", f"SELECT {expression}", value, False, skips, expression)


def answer(case: Case, route: Route) -> str:
    """What a route answers, in the form of the file."""
    from seamline.commands.output import cell_text

    try:
        _, rows = route(case.sql)
    except StatementError as error:
        return f"error {error.name}"
    if case.kind != "query":
        return "ok"
    lines = [SEPARATOR.join(_cell(cell_text(cell)) for cell in row) for row in rows]
    return "\n".join(sorted(lines) if case.sort else lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") or "(empty)"


def expected(case: Case) -> str:
    """What the file says."""
    if case.kind == "query":
        return "\n".join(sorted(case.expected.split("\n"))) if case.sort else case.expected
    return "ok" if case.kind == "ok" else f"error {case.expected}"


def answers(cases: Sequence[Case], route: Route) -> list[str]:
    """What a route answers to each case; several expressions are asked in one statement.

    Those of which one ends with an error are asked one by one.
    """
    values = [place for place, case in enumerate(cases) if case.expression]
    found: dict[int, str] = {}
    for start in range(0, len(values), TOGETHER_MAX):
        places = values[start : start + TOGETHER_MAX]
        texts = _together([cases[place] for place in places], route)
        found |= zip(places, texts, strict=False)
    return [found.get(place) or answer(case, route) for place, case in enumerate(cases)]


def _together(cases: Sequence[Case], route: Route) -> list[str]:
    """The values of expressions; none where they cannot be had in one statement."""
    from seamline.commands.output import cell_text

    try:
        _, (row,) = route(f"SELECT {', '.join(case.expression for case in cases)}")
    except StatementError:
        return []
    return [_cell(cell_text(cell)) for cell in row]


def rewrite(path: pathlib.Path, route: Route) -> None:
    """Fills the expected half of every query with what a route answers."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for case in reversed(parse(path)):
        if case.kind != "query":
            continue
        found = answer(case, route)
        assert not found.startswith("error "), f"{path}:{case.line}: {found}\n{case.sql}"
        if case.expression:
            lines[case.line - 1] = f"{case.expression}{IS}{found}"
            continue
        first = case.line + lines[case.line :].index("----") + 1
        last = next(n for n in itertools.count(first) if not "".join(lines[n : n + 1]).strip())
        lines[first:last] = found.split("\n") if found else []
    path.write_text("\n".join(lines), encoding="utf-8")
