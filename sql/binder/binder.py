"""The binder: holds the state for binding expressions, and dispatches nodes to their handlers.

Each kind of node has one handler, in the module for its kind. A node without a handler is refused,
so that nothing with an undefined meaning reaches an engine.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import coercion, types
from seamline.sql.binder.conversions import implicit_cast
from seamline.sql.binder.scope import Column, Cte, Output, Scope, Source, Typed, unsupported
from seamline.sql.locations import location_of
from seamline.sql.parsing.dialects import SqlJson, SqlJsonMade
from seamline.sql.row_filters_and_masks import Restriction
from seamline.sql.trees import copy_of

Handler: TypeAlias = "Callable[[Binder, Any, Scope], Typed]"
Handlers: TypeAlias = Mapping[type[Any], Handler]
QueryHandler: TypeAlias = (
    "Callable[[Binder, exp.Expr, Scope | None, Mapping[str, Cte]], tuple[exp.Expr, list[Output]]]"
)


_OPERANDS = frozenset({"this", "expression", "expressions"})
_OPTIONS: Mapping[type[Any], frozenset[str]] = {
    exp.Array: frozenset({"bracket_notation"}),
    exp.AtTimeZone: frozenset({"zone"}),
    exp.Between: frozenset({"low", "high", "symmetric"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.Cast: frozenset({"to", "safe"}),
    exp.Column: frozenset({"table", "db", "catalog"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Div: frozenset({"typed", "safe"}),
    exp.Identifier: frozenset({"quoted"}),
    exp.If: frozenset({"true", "false"}),
    exp.Interval: frozenset({"unit"}),
    exp.In: frozenset({"query"}),
    exp.Is: frozenset({"negate"}),
    exp.Like: frozenset({"negate"}),
    exp.Literal: frozenset({"is_string"}),
    exp.Overlay: frozenset({"from_", "for_"}),
    exp.ParseJSON: frozenset({"is_literal"}),
    exp.StrPosition: frozenset({"substr"}),
    exp.Subquery: frozenset({"alias"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.Trim: frozenset({"position"}),
    exp.TryCast: frozenset({"to", "safe", "requires_string"}),
    exp.UnicodeString: frozenset({"escape"}),
    exp.WithinGroup: frozenset(),
    SqlJson: frozenset(
        {"path", "function", "passing", "returning", "wrapper", "quotes", "empty", "error"}
    ),
    SqlJsonMade: frozenset({"function", "nulls", "unique", "returning"}),
    exp.Window: frozenset({"partition_by", "order", "spec", "alias", "over"}),
}
"""The arguments that a node may have besides its operands; its handler reads each of them."""


def _is_sort_key(written: exp.Identifier | None) -> bool:
    """Whether a name is that of a column which is, by itself, an item of a query's ORDER BY."""
    column = written.parent if written is not None else None
    item = column.parent if isinstance(column, exp.Column) else None
    order = item.parent if isinstance(item, exp.Ordered) else None
    return order is not None and isinstance(order.parent, exp.Query)


def _check_options(node: exp.Expr) -> None:
    """Refuses flags and clauses that no handler reads, as they would silently change the meaning.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    names = _OPERANDS | _OPTIONS.get(type(node), frozenset())
    if any(value and name not in names for name, value in node.args.items()):
        raise unsupported(node)


class Binder:
    """Binds one query.

    Attributes:
        relations: Tables by scan id.
        restrictions: Restrictions by scan id, for tables that may not be seen in full.
        user: The user who submitted the statement.
        session: The default catalog and schema.
        used: (scan id, column) pairs that the query reads.
        lambdas: The number of lambda bodies bound so far.
        holds_moment: Whether the moment the statement was submitted, or the groups that its user
            had then, have become part of the query.
    """

    def __init__(
        self,
        relations: Mapping[str, Source],
        now: datetime.datetime,
        handlers: Handlers,
        query_handler: QueryHandler,
        restrictions: Mapping[str, Restriction],
        user: str,
        session: tuple[str, str],
        groups: Sequence[str] = (),
    ) -> None:
        self.relations = relations
        self.restrictions = restrictions
        self.user = user
        self.session = session
        self._groups = groups
        self.holds_moment = False
        self._now = now.astimezone(datetime.UTC)
        self.used: set[tuple[str, str]] = set()
        self.lambdas = 0
        self._handlers = handlers
        self._query_handler = query_handler
        self._sources = itertools.count()

    def now(self) -> datetime.datetime:
        """Returns the moment the statement was submitted, in UTC, for the query to hold."""
        self.holds_moment = True
        return self._now

    def groups(self) -> Sequence[str]:
        """Returns the user's groups, for the query to hold."""
        self.holds_moment = True
        return self._groups

    def new_alias(self) -> str:
        """Returns a name for a source that nothing else in the bound tree has."""
        return f"q{next(self._sources)}"

    def parameter(self, depth: int, position: int) -> str:
        """Returns the name of a lambda's parameter, so that equal lambdas are bound alike.

        Args:
            depth: The number of lambdas around it.
            position: The parameter's position among those of its lambda, from 0.
        """
        return f"l{depth}_{position}"

    def column(self, column: Column, written: exp.Identifier | None = None) -> Typed:
        """Returns a column, and marks it as read by the query.

        Args:
            column: The column.
            written: The name in the statement, which gives errors their name and location.

        Raises:
            SeamlineError: COLUMN_AMBIGUOUS when columns differ only in case, NOT_SUPPORTED when its
                type cannot be handled, PERMISSION_DENIED when it is used for more than it may be.
        """
        if column.sort_only and not _is_sort_key(written):
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{column.name} counts rows that may not be seen, and can only be sorted by",
                location=location_of(written) if written is not None else None,
                hint=f"Use it as an item of ORDER BY: ORDER BY {column.name}.",
            )
        if column.twins:
            raise SeamlineError(
                COLUMN_AMBIGUOUS,
                f"the columns {' and '.join(map(repr, column.twins))} differ only in case",
                location=location_of(written) if written is not None else None,
                hint="SQL identifiers ignore case: rename one of them.",
            )
        if types.contains(column.type, types.Unsupported):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"column {column.name} has the type {column.type}",
                location=location_of(written) if written is not None else None,
            )
        if column.scan is not None:
            self.used.add(column.scan)
        node = copy_of(column.node)
        node.meta["type"] = column.type
        if isinstance(node, exp.Column):
            node.meta["name"] = column.name
            if written is not None:
                node.this.meta.update(written.meta)
        return node, column.type

    def query(
        self, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]
    ) -> tuple[exp.Expr, list[Output]]:
        """Returns a query in canonical form, and its columns."""
        return self._query_handler(self, node, outer, ctes)

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """Returns an expression in canonical form, and its type.

        Raises:
            SeamlineError: NOT_SUPPORTED for a node of a kind that has no handler.
        """
        for class_ in type(node).__mro__:
            handler = self._handlers.get(class_)
            if handler is not None:
                try:
                    _check_options(node)
                    return handler(self, node, scope)
                except SeamlineError as error:  # raising code need not know the location
                    error.location = error.location or location_of(node)
                    raise
        raise unsupported(node)

    def boolean(self, node: exp.Expr, scope: Scope, where: str) -> exp.Expr:
        """Binds a condition.

        Raises:
            SeamlineError: TYPE_MISMATCH when it is not a boolean.
        """
        location = location_of(node)
        value, type_ = self.expression(node, scope)
        if not coercion.can_coerce(type_, types.BOOLEAN):
            raise SeamlineError(
                TYPE_MISMATCH, f"{where} needs a boolean, not {type_}", location=location, hint=""
            )
        return implicit_cast(value, type_, types.BOOLEAN)
