"""The answers of statements that are not queries, and the patterns that narrow listings."""

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
    """The result of such a statement.

    Attributes:
        output: Its columns.
        rows: Its rows.
        changes: What the client's session is from now on, as `Statement.changes` has it.
        dropped: Full name of the table that it dropped: what the session has read of it is past.
    """

    output: tuple[Output, ...]
    rows: list[tuple[Any, ...]]
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dropped: tuple[str, ...] | None = None


def done(changes: Mapping[str, Any] | None = None) -> Rows:
    """The answer of what has nothing else to say."""
    return Rows((Output("result", types.BOOLEAN),), [(True,)], changes or {})


NOTES = (Output("note", types.VARCHAR),)
"""The columns of an answer that says what people should know."""


def noted(notes: Sequence[str]) -> Rows:
    """The answer of what may have something to say."""
    return Rows(NOTES, [(note,) for note in notes]) if notes else done()


def table(shape: Mapping[str, Type], rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Rows under named columns."""
    return Rows(tuple(Output(name, type_) for name, type_ in shape.items()), list(rows))


def matching(rows: Sequence[Any], pattern: str | None, escape: str | None) -> list[Any]:
    """Rows whose first cell matches a LIKE pattern.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    if pattern is None:
        return list(rows)
    wanted = re.compile(_regex(pattern, escape), re.DOTALL)
    return [row for row in rows if wanted.fullmatch(str(row[0]))]


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
