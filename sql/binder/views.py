"""Views in a query: subqueries that keep the columns that the view had when it was created."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from seamline.errors import VIEW_IS_STALE, ErrorKind, SeamlineError
from seamline.sql import coercion
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import cast_outputs
from seamline.sql.binder.scope import Output
from seamline.sql.expressions.casts import in_zones
from seamline.sql.row_filters_and_masks import NO_RESTRICTION, Restriction
from seamline.sql.types import Field

_META = "view"
_OWNER = "owner"


@dataclasses.dataclass(frozen=True, slots=True)
class Expansion:
    """The view that a subquery replaces.

    Attributes:
        name: The view's full name, in lower case.
        columns: The view's columns.
        is_renamed: Whether the statement gives it an alias.
        restriction: The restriction on what may be seen of its result.
    """

    name: tuple[str, ...]
    columns: tuple[Field, ...]
    is_renamed: bool = False
    restriction: Restriction = NO_RESTRICTION

    @property
    def display(self) -> str:
        """The view's name, for messages."""
        return ".".join(self.name)


def expanded(inner: exp.Expr, table: exp.Table, expansion: Expansion) -> exp.Subquery:
    """Returns the subquery that replaces a view in FROM."""
    alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
    node = exp.Subquery(this=inner, alias=alias.copy())
    node.meta[_META] = expansion
    return node


def read_as(table: exp.Table, owner: str) -> None:
    """Notes that a table in a view is read with the rights of the view's owner."""
    table.meta[_OWNER] = owner


def owner_of(table: exp.Table) -> str | None:
    """Returns the user with whose rights a table is read, if it is not the statement's own."""
    owner: str | None = table.meta.get(_OWNER)
    return owner


def expansion_of(node: exp.Subquery) -> Expansion | None:
    """Returns the view that a subquery stands for, if any."""
    expansion: Expansion | None = node.meta.get(_META)
    return expansion


def bind_view(binder: Binder, inner: exp.Expr, view: Expansion) -> tuple[exp.Expr, list[Output]]:
    """Binds the view's query, with the columns it had when it was created.

    Raises:
        SeamlineError: VIEW_IS_STALE when what it reads has changed too much for that.
    """
    try:
        query, output = binder.query(inner, None, {})
    except SeamlineError as error:
        if error.code.kind is not ErrorKind.USER or error.code is VIEW_IS_STALE:
            raise
        raise SeamlineError(VIEW_IS_STALE, f"view {view.display}: {error.message}") from error
    if len(output) != len(view.columns):
        raise SeamlineError(
            VIEW_IS_STALE,
            f"view {view.display} has {len(view.columns)} columns, but its query has {len(output)}",
        )
    for declared, column in zip(view.columns, output, strict=True):
        if not coercion.can_coerce(column.type, declared.type):
            raise SeamlineError(
                VIEW_IS_STALE,
                f"view {view.display}: column {declared.name} was {declared.type}, but its query "
                f"now returns {column.type}",
            )
    targets = [
        Output(declared.name, in_zones(column.type, declared.type))
        for declared, column in zip(view.columns, output, strict=True)
    ]
    return cast_outputs(binder, query, output, targets), targets
