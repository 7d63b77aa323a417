"""SQL tests as text: statements, and what they answer.

    statement ok                 runs
    statement error TABLE_NOT_FOUND    fails with that name
    query [rowsort]              answers the rows under ----, cells separated by two bars
    zone Europe/Berlin           on top: the time zone of the session of all cases of the file
    session                      on top: the cases are one dialogue, over one connection
    values                       each line below is a query: `expression ---- its value`, or
                                 `expression ---- error TYPE_MISMATCH`
    table NAME hot|cold|split    a table of the columns below and the rows under ----, which are in
                                 the log, in files, or in both, divided at a point that the name
                                 is the seed of

Blank lines end a case; lines that start with # are comments. `skip spark reason` in front of a case
leaves one route out and says why; a skipped route that would agree is reported by `--unskip`.

A route that plans for long is asked many expressions in one statement (`answers`).
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import itertools
import json
import math
import pathlib
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seamline.sql.functions.patterns import split

SEPARATOR = " || "
IS = " ---- "
"""What separates an expression from its value."""
ASKED = "queries of tests/slt answered by "
"""The name, up to the route's, of a report's property: how many cases agree with the file."""
TOGETHER_MAX = 25
"""How many expressions one statement asks at most."""


@dataclasses.dataclass(slots=True)
class Case:
    """One case of a file.

    Attributes:
        line: Line of its directive, from 1.
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


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of a file.

    Attributes:
        name: Its name.
        place: `hot`, `cold` or `split`.
        columns: Name and type of each column.
        rows: The cells as they are written.
    """

    name: str
    place: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def definition(self) -> str:
        """The columns as CREATE TABLE has them."""
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns)

    @property
    def cold(self) -> int:
        """How many of its rows are in files."""
        split = random.Random(self.name).randint(1, len(self.rows) - 1)
        return {"hot": 0, "cold": len(self.rows), "split": split}[self.place]

    def records(self) -> Iterator[dict[str, Any]]:
        """Its rows as JSON says them: numbers and truth values as such, the rest as text."""
        for row in self.rows:
            yield {
                name: cell if type_ in _AS_TEXT else json.loads(cell)
                for (name, type_), cell in zip(self.columns, row, strict=True)
                if cell != NULL
            }


NULL = "NULL"
_AS_TEXT = frozenset({"varchar", "date", "timestamp(6)", "decimal(10,2)"})


class StatementError(Exception):
    """The named error a statement ended with."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


Route = Callable[[str], tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""Runs a statement: types of the columns and rows of Python values. Raises `StatementError`."""

_DIRECTIVE = re.compile(
    r"statement ok|statement error \w+|query( rowsort)?|values|table \w+ (hot|cold|split)|zone \S+"
    r"|session"
)
_BLANK = re.compile(r"(\n\s*\n)")
_SKIP = re.compile(r"skip (\w+) (.+)")


Block = list[tuple[int, str]]
"""Lines with their numbers."""


def parse(path: pathlib.Path) -> list[Case]:
    """The cases of a file."""
    return [case for block in _blocks(path) for case in _parse_block(block, path)]


def zone(path: pathlib.Path) -> str | None:
    """The time zone of the session of its cases, if it names one."""
    first = next(_blocks(path))[0][1]
    return first.removeprefix("zone ") if first.startswith("zone ") else None


def is_session(path: pathlib.Path) -> bool:
    """Whether its cases are one dialogue."""
    return next(_blocks(path))[0][1] == "session"


def tables(path: pathlib.Path) -> list[Table]:
    """The tables that its cases read."""
    return [_parse_table(block) for block in _blocks(path) if block[0][1].startswith("table ")]


def _blocks(path: pathlib.Path) -> Iterator[Block]:
    """What blank lines divide, without comments."""
    line = 1
    for block in _BLANK.split(path.read_text(encoding="utf-8")):
        numbered = [
            (line + place, text)
            for place, text in enumerate(block.split("\n"))
            if not text.startswith("#") and text.strip()
        ]
        if numbered:
            yield numbered
        line += block.count("\n")


def _parse_table(block: Block) -> Table:
    (_, first), (_, columns), _, *rows = block
    _, name, place = first.split()
    pairs = [column.partition(" ") for column in split(columns)]
    cells = tuple(tuple(text.split(SEPARATOR)) for _, text in rows)
    return Table(name, place, tuple((name, type_) for name, _, type_ in pairs), cells)


def _parse_block(numbered: Block, path: pathlib.Path) -> list[Case]:
    skips = {}
    while match := _SKIP.fullmatch(numbered[0][1]):
        skips[match[1]] = match[2]
        numbered = numbered[1:]
    (line, first), *rest = numbered
    assert _DIRECTIVE.fullmatch(first) is not None, f"{path}:{line}: {first!r} is no directive"
    if first.startswith(("table ", "zone ")) or first == "session":
        return []
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
    try:
        _, rows = route(case.sql)
    except StatementError as error:
        return f"error {error.name}"
    if case.kind != "query":
        return "ok"
    lines = [SEPARATOR.join(_cell(_text(cell)) for cell in row) for row in rows]
    return "\n".join(sorted(lines) if case.sort else lines)


def _text(value: Any) -> str:
    """A value in the form of the file."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return "0x" + value.hex()
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ") + " UTC"
        case datetime.datetime():
            return value.isoformat(" ")
        case list() | dict():
            return json.dumps(_plain(value), ensure_ascii=False)
        case decimal.Decimal():
            return format(value, "f")
    return str(value)


def _plain(value: Any) -> Any:
    """A nested value as JSON has it."""
    match value:
        case dict():
            return {k if isinstance(k, str) else _text(k): _plain(v) for k, v in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return str(value)
        case uuid.UUID() | datetime.date() | datetime.time() | decimal.Decimal():
            return _text(value)
    return value


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
    try:
        _, (row,) = route(f"SELECT {', '.join(case.expression for case in cases)}")
    except StatementError:
        return []
    return [_cell(_text(cell)) for cell in row]


def rewrite(path: pathlib.Path, route: Route) -> None:
    """Fills the expected half of every query with what a route answers."""
    lines = path.read_text(encoding="utf-8").split("\n")
    cases = parse(path)
    asked = [
        (case, answer(case, route)) for case in cases if case.kind == "query" or is_session(path)
    ]
    for case, found in reversed(asked):
        if case.kind != "query":
            continue
        assert not found.startswith("error "), f"{path}:{case.line}: {found}\n{case.sql}"
        if case.expression:
            lines[case.line - 1] = f"{case.expression}{IS}{found}"
            continue
        first = case.line + lines[case.line :].index("----") + 1
        last = next(n for n in itertools.count(first) if not "".join(lines[n : n + 1]).strip())
        lines[first:last] = found.split("\n") if found else []
    path.write_text("\n".join(lines), encoding="utf-8")
