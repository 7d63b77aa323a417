"""What is visible at one level of a query, and how a name that is not there is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    INVALID_PARAMETERS,
    NOT_SUPPORTED,
    Location,
    SeamlineError,
)
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: name and type."""

    name: str
    type: Type


Typed = tuple[exp.Expr, Type]
"""An expression in canonical form, and its type."""


class Scope:
    """The sources visible at one level of a query, and the level around it."""

    def __init__(self, outer: Scope | None, ctes: Mapping[str, Sequence[Output]]) -> None:
        self.outer = outer
        self.ctes = dict(ctes)
        self.sources: dict[str, dict[str, Type]] = {}
        self.scan_ids: dict[str, str] = {}
        self.aliases: dict[str, Type] = {}

    def find(self, source: str) -> Scope | None:
        """The nearest level that has the source."""
        scope: Scope | None = self
        while scope is not None and source not in scope.sources:
            scope = scope.outer
        return scope


def location_of(node: exp.Expr) -> Location | None:
    """Where in the statement a node stands."""
    identifier = (
        node if isinstance(node, exp.Identifier | exp.Literal) else node.find(exp.Identifier)
    )
    meta = identifier.meta if identifier is not None else {}
    if "line" not in meta:
        return None
    return Location(meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"])))


def unknown_column(node: exp.Column, scope: Scope) -> SeamlineError:
    """The error for a column that is not there, or there twice."""
    name = node.name
    owners = [s for s, columns in scope.sources.items() if name in columns]
    place = location_of(node.this)
    if not node.table and len(owners) > 1:
        return SeamlineError(
            COLUMN_AMBIGUOUS,
            f"column {name} is in {' and in '.join(owners)}",
            location=place,
        )
    if node.table and scope.find(node.table) is None:
        return SeamlineError(
            COLUMN_NOT_FOUND, f"there is no table {node.table} in FROM", location=place
        )
    known = sorted({n for columns in scope.sources.values() for n in columns})
    near = [n for n in known if n[:3] == name[:3] or name in n][:5]
    hint = f"Near it: {', '.join(near)}." if near else None
    return SeamlineError(
        COLUMN_NOT_FOUND, f"column {name} does not exist", location=place, hint=hint
    )


def unsupported(node: exp.Expr) -> SeamlineError:
    """The error for a node that nothing is known of."""
    if isinstance(node, exp.Star):
        return SeamlineError(
            COLUMN_AMBIGUOUS,
            "* stands for no columns here, or for several of the same name",
            hint="Name the columns, with AS where two have the same name.",
        )
    text = node.sql("trino")
    return (
        SeamlineError(
            NOT_SUPPORTED,
            f"{text[:80]} ({type(node).__name__}) is not supported",
            location=location_of(node),
        )
        if not isinstance(node, exp.Placeholder)
        else SeamlineError(INVALID_PARAMETERS, "a placeholder has no value")
    )
