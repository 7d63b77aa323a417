"""The results of statements that are not queries, and the patterns that narrow listings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """The result of a statement that is not a query.

    Attributes:
        output: Its columns.
        rows: Its rows.
        changes: Changes to the client's session, in the form of `Statement.changes`.
        dropped: Full names of the tables that it dropped; what the session has read of them no
            longer counts.
    """

    output: tuple[Output, ...]
    rows: list[tuple[Any, ...]]
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dropped: tuple[tuple[str, ...], ...] = ()


def done(changes: Mapping[str, Any] | None = None) -> Rows:
    """Returns the result of a statement that has no rows of its own."""
    return Rows((Output("result", types.BOOLEAN),), [(True,)], changes or {})


NOTES = (Output("note", types.VARCHAR),)
"""The columns of a result that consists of notes for the user."""


METRICS = (Output("metric_name", types.VARCHAR), Output("metric_value", types.BIGINT))
"""The columns of a result that says how much was done, as in Trino."""


def count(rows: int) -> Rows:
    """Returns the number of rows that a statement wrote as its result."""
    return Rows((Output("rows", types.BIGINT),), [(rows,)])


def noted(notes: Sequence[str]) -> Rows:
    """Returns the notes as a result, or that of `done` if there are none."""
    return Rows(NOTES, [(note,) for note in notes]) if notes else done()


def table(shape: Mapping[str, Type], rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Returns rows with named columns."""
    return Rows(tuple(Output(name, type_) for name, type_ in shape.items()), list(rows))


def matching(rows: Sequence[Any], pattern: str | None, escape: str | None) -> list[Any]:
    """Returns the rows whose first cell matches a LIKE pattern; all of them without a pattern.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    if pattern is None:
        return list(rows)
    regex = re.compile(_regex(pattern, escape), re.DOTALL)
    return [row for row in rows if regex.fullmatch(str(row[0]))]


def _regex(pattern: str, escape: str | None) -> str:
    if escape is not None and len(escape) != 1:
        raise SeamlineError(INVALID_ARGUMENT, "ESCAPE must be a single character")
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in {"%", "_", escape}:
                raise SeamlineError(
                    INVALID_ARGUMENT, f"{escape!r} must be followed by %, _ or {escape!r} itself"
                )
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(parts)
