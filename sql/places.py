"""Where in a statement something stands, for errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlglot import exp

from seamline.errors import ErrorKind, Location, SeamlineError


def location_of(node: exp.Expr) -> Location | None:
    """Where a node begins: the leftmost of its names, literals and calls that know their place."""
    places = [found.meta for found in node.walk() if "line" in found.meta]
    if not places:
        return None
    first = min(places, key=lambda meta: (meta["line"], meta["col"]))
    return Location(first["line"], max(1, first["col"] - (first["end"] - first["start"])))


def location_at(text: str, index: int) -> Location:
    """Where a character of a text stands."""
    before = text[:index]
    return Location(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


@contextlib.contextmanager
def placed(node: exp.Expr | None) -> Iterator[None]:
    """What is raised inside without a place of its own has this node's, as it is before."""
    with placed_at(location_of(node) if node is not None else None):
        yield


@contextlib.contextmanager
def placed_at(place: Location | None) -> Iterator[None]:
    """What is wrong with a statement, and raised inside without a place, has this one."""
    try:
        yield
    except SeamlineError as error:
        if error.code.kind is ErrorKind.USER:
            error.location = error.location or place
        raise
