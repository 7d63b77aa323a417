"""Completion at the prompt: keywords, tables, columns, functions, meta commands.

Candidates depend on the word before the cursor and its context. After FROM they are tables; after
`name.`, the columns of that table or the tables of that schema; elsewhere, the columns of the
statement's tables, functions and keywords. Inside strings and comments there are none.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Protocol

from seamline.shell.meta import META, SIGN
from seamline.terminal.lexis import tokens
from seamline.terminal.output import WRITERS

_WORDS = """
ALL ALTER ANALYZE AND ANY ARRAY AS ASC AT BETWEEN BY CALL CASE CAST COLUMN COLUMNS COMMENT
CREATE CROSS CUBE CURRENT_DATE CURRENT_TIMESTAMP DATE DELETE DESC DESCRIBE DISTINCT DROP ELSE
END EXCEPT EXECUTE EXISTS EXPLAIN EXTRACT FALSE FETCH FILTER FIRST FOR FROM FULL FUNCTIONS GROUP
GROUPING HAVING IF IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT
MAP NATURAL NOT NULL NULLS OFFSET ON OR ORDER ORDINALITY OUTER OVER PARTITION PREPARE RANGE
REPLACE RIGHT ROLLUP ROW ROWS SCHEMA SCHEMAS SELECT SESSION SET SETS SHOW STATS TABLE TABLES
TABLESAMPLE THEN TIME TIMESTAMP TOKEN TRUE TRY_CAST UNION UNNEST USE USING VALUES VERSION VIEW
WHEN WHERE WINDOW WITH
"""
KEYWORDS = tuple(_WORDS.split())
_BEFORE_TABLES = frozenset({"describe", "from", "into", "join", "table", "view"})
_WORD = re.compile(r"(?:[\w$]|\"[^\"]*\"?|\.)*$")
_NAMED = re.compile(
    r"\b(?:from|join|into|describe)\s+(?P<name>(?:[\w$]+|\"[^\"]+\")(?:\.(?:[\w$]+|\"[^\"]+\"))*)(?![\w$.])"
    r"(?:\s+(?:as\s+)?(?P<alias>[a-z_]\w*))?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


class NameSource(Protocol):
    """A source of known names."""

    def tables(self, schema: str = "") -> list[str]:
        """Returns the tables of a schema."""

    def schemas(self) -> list[str]:
        """Returns the schemas."""

    def functions(self) -> list[str]:
        """Returns the functions."""

    def columns(self, table: str) -> list[str]:
        """Returns the columns of a table."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A completion candidate, and what kind of thing it is."""

    text: str
    kind: str


def candidates(before: str, after: str, names: NameSource) -> tuple[int, list[Candidate]]:
    """Returns the completion candidates at the cursor.

    Args:
        before: The text before the cursor.
        after: The text after the cursor; a statement may name its tables there, too.
        names: The source of known names.

    Returns:
        How many characters before the cursor a candidate replaces, and the candidates.
    """
    if before.startswith(SIGN):
        return _after_sign(before, names)
    pieces = list(tokens(before))
    last = pieces[-1] if pieces else None
    if last is not None and last.kind in {"string", "comment", "number"}:
        return 0, []
    if last is not None and last.kind == "open" and not last.text.startswith('"'):
        return 0, []
    match = _WORD.search(before)
    word = match[0] if match else ""
    owner, dot, part = word.rpartition(".")
    ends = [piece.start + 1 for piece in pieces if piece.kind == "end"]
    statement = before[ends[-1] if ends else 0 :] + after.partition(";")[0]
    if dot:
        members = list(_members(owner, statement, names))
        return len(part), _beginning_with(part, members)
    words = [p.text.lower() for p in pieces if p.kind not in {"space", "comment"}]
    previous = (words[:-1] if word and words else words)[-1:] or [""]
    members = list(
        _tables(names) if previous[0] in _BEFORE_TABLES else _anything(word, statement, names)
    )
    return len(word), _beginning_with(word, members)


def _after_sign(before: str, names: NameSource) -> tuple[int, list[Candidate]]:
    name, space, argument = before.partition(" ")
    if not space:
        return len(name), [
            Candidate(SIGN + meta, META[meta].help)
            for meta in META
            if (SIGN + meta).startswith(name)
        ]
    matches = {
        "d": [Candidate(_quoted(table), "table") for table in names.tables()]
        if name == r"\d"
        else [],
        "format": [Candidate(format_, "format") for format_ in WRITERS],
    }.get(name.removeprefix(SIGN), [])
    return len(argument), _beginning_with(argument, matches)


def _members(owner: str, statement: str, names: NameSource) -> Iterator[Candidate]:
    """Yields the columns of the statement's table with that name, else the schema's tables."""
    table = _tables_of(statement).get(owner.lower())
    if table is not None:
        yield from (Candidate(_quoted(column), "column") for column in names.columns(table))
    else:
        yield from (Candidate(_quoted(name), "table") for name in names.tables(owner))


def _tables(names: NameSource) -> Iterator[Candidate]:
    yield from (Candidate(_quoted(name), "table") for name in names.tables())
    yield from (Candidate(_quoted(name), "schema") for name in names.schemas())


def _anything(word: str, statement: str, names: NameSource) -> Iterator[Candidate]:
    for table in dict.fromkeys(_tables_of(statement).values()):
        yield from (Candidate(_quoted(column), "column") for column in names.columns(table))
    if word:
        is_lower = word.islower()
        yield from (Candidate(k.lower() if is_lower else k, "keyword") for k in KEYWORDS)
        yield from (Candidate(name, "function") for name in names.functions())
        yield from (Candidate(_quoted(name), "table") for name in names.tables())


def _tables_of(statement: str) -> dict[str, str]:
    """Maps the names and aliases by which a statement refers to its tables to the full names."""
    tables: dict[str, str] = {}
    for match in _NAMED.finditer(statement):
        name = match["name"]
        tables[name.lower()] = tables[name.rpartition(".")[2].lower()] = name
        if match["alias"] and match["alias"].upper() not in KEYWORDS:
            tables[match["alias"].lower()] = name
    return tables


def _beginning_with(word: str, matches: list[Candidate]) -> list[Candidate]:
    start = word.lower().lstrip('"')
    fitting = (each for each in matches if each.text.lower().lstrip('"').startswith(start))
    return list({each.text.lower(): each for each in reversed(list(fitting))}.values())[::-1]


def _quoted(name: str) -> str:
    """Returns a name as written in SQL, quoted if necessary."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'
