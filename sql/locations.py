"""Locations in the text of a statement, for errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from seamline.errors import ErrorKind, Location, SeamlineError
from seamline.sql.trees import nodes_of

_POSITION = ("line", "col", "start", "end")
"""Where a token is, as nodes carry it in `meta`."""


def token_position(token: Token) -> dict[str, int]:
    """Returns the position of a token, as nodes carry it in `meta`."""
    return {key: getattr(token, key) for key in _POSITION}


def move(node: exp.Expr, to: exp.Expr | None = None) -> None:
    """Removes the locations from a tree of another text; `to` is where that text is in this one."""
    for part in node.walk():
        for key in _POSITION:
            part.meta.pop(key, None)
    if to is not None:
        node.meta.update({key: to.meta[key] for key in _POSITION if key in to.meta})


def location_of(node: exp.Expr) -> Location | None:
    """Returns where a node begins: at its leftmost name, literal or call with a known location."""
    positions = [part.meta for part in nodes_of(node) if part.meta_get("line") is not None]
    if not positions:
        return None
    first = min(positions, key=lambda meta: (meta["line"], meta["col"]))
    return Location(first["line"], max(1, first["col"] - (first["end"] - first["start"])))


def location_of_name(table: exp.Table) -> Location | None:
    """Returns where the name of a table begins, with its catalog and schema."""
    parts = (table.args.get("catalog"), table.args.get("db"), table.this)
    return location_of(next(part for part in parts if part is not None))


def location_at(text: str, index: int) -> Location:
    """Returns the location of a character in a text."""
    before = text[:index]
    return Location(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


@contextlib.contextmanager
def locate_errors(node: exp.Expr | None) -> Iterator[None]:
    """Adds this node's location, taken on entry, to user errors raised inside without one."""
    with locate_errors_at(location_of(node) if node is not None else None):
        yield


@contextlib.contextmanager
def locate_errors_at(location: Location | None) -> Iterator[None]:
    """Adds a location to user errors raised inside without one."""
    try:
        yield
    except SeamlineError as error:
        if error.code.kind is ErrorKind.USER:
            error.location = error.location or location
        raise
