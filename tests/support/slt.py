"""SQL tests as text: statements, and what they answer.

    statement ok                 runs
    statement error TABLE_NOT_FOUND    fails with that name
    query [rowsort]              answers the rows under ----, cells separated by two bars

Blank lines end a case; lines that start with # are comments. `skip spark reason` in front of a case
leaves one route out and says why; a skipped route that would agree is reported by `--unskip`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

SEPARATOR = " || "


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
    """

    line: int
    kind: str
    sql: str
    expected: str
    sort: bool
    skips: dict[str, str]


class StatementError(Exception):
    """The named error a statement ended with."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


Route = Callable[[str], tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""Runs a statement: types of the columns and rows of Python values. Raises `StatementError`."""

_DIRECTIVE = re.compile(r"(statement ok|statement error \w+|query( rowsort)?)\s*$")
_SKIP = re.compile(r"skip (\w+) (.+)")


def parse(path: pathlib.Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = []
    blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
    line = 1
    for block in blocks:
        case = _parse_block(block, line, path)
        if case is not None:
            cases.append(case)
        line += block.count("\n") + 2
    return cases


def _parse_block(block: str, line: int, path: pathlib.Path) -> Case | None:
    lines = [text for text in block.split("\n") if not text.startswith("#") and text.strip()]
    if not lines:
        return None
    skips = {}
    while match := _SKIP.fullmatch(lines[0]):
        skips[match[1]] = match[2]
        lines = lines[1:]
    directive = _DIRECTIVE.fullmatch(lines[0])
    assert directive is not None, f"{path}:{line}: {lines[0]!r} is no directive"
    body = "\n".join(lines[1:])
    sql, _, expected = body.partition("\n----")
    if lines[0].startswith("statement"):
        kind, _, name = lines[0].removeprefix("statement ").partition(" ")
        return Case(line, kind, sql, name, sort=False, skips=skips)
    return Case(line, "query", sql, expected.strip("\n"), sort="rowsort" in lines[0], skips=skips)


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


def rewrite(path: pathlib.Path, route: Route) -> None:
    """Fills the expected half of every query with what a route answers."""
    blocks = re.split(r"(\n\s*\n)", path.read_text(encoding="utf-8"))
    line = 1
    for index, block in enumerate(blocks):
        case = _parse_block(block, line, path) if index % 2 == 0 else None
        line += block.count("\n")
        if case is None:
            continue
        found = answer(case, route)
        if case.kind == "query":
            assert not found.startswith("error "), f"{path}:{case.line}: {found}\n{case.sql}"
            head = block.split("\n----", 1)[0].rstrip("\n")
            tail = "\n" if block.endswith("\n") else ""
            blocks[index] = f"{head}\n----" + (f"\n{found}" if found else "") + tail
    path.write_text("".join(blocks), encoding="utf-8")
