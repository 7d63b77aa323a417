"""The clauses of a SELECT after FROM: conditions, grouping, order and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SYNTAX_ERROR,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import functions, types
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import require_equality
from seamline.sql.binder.grouping import distinct_sets, one_group
from seamline.sql.binder.literals import as_value, row_count, row_limit
from seamline.sql.binder.map_keys import holds_maps
from seamline.sql.binder.rows import fields_of
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.shapes import as_operand
from seamline.sql.expressions.calls import has_aggregate
from seamline.sql.locations import location_of
from seamline.sql.types import Row, Type


def bind_condition(binder: Binder, node: exp.Expr, clause: str, scope: Scope) -> None:
    """Binds WHERE or HAVING."""
    condition = node.args.get(clause)
    if condition is not None:
        condition.set("this", binder.boolean(condition.this, scope, clause.upper()))


def bind_group(binder: Binder, node: exp.Select, scope: Scope, results: Sequence[Typed]) -> None:
    """Binds GROUP BY and its grouping sets; a whole number is the position of a result."""
    group = node.args.get("group")
    if group is None:
        return

    def item(inner: exp.Expr) -> exp.Expr:
        if isinstance(inner, exp.Rollup | exp.Cube) and any(map(_is_empty, inner.expressions)):
            what = "an empty set of keys in ROLLUP and CUBE is not supported"
            raise SeamlineError(NOT_SUPPORTED, what, hint="Omit it, or write GROUPING SETS.")
        if isinstance(inner, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            inner.set("expressions", [item(e) for e in inner.expressions])
            return inner
        if isinstance(inner, exp.Paren):
            inner.set("this", item(inner.this))
            return inner
        position = ordinal_of(inner, len(results), "GROUP BY")
        return key(*(binder.expression(inner, scope) if position is None else results[position]))

    def key(bound: exp.Expr, type_: Type) -> exp.Expr:
        require_equality(type_, "GROUP BY")
        value = as_value(bound.copy(), type_)
        if holds_maps(type_):
            scope.map_keys.append((value, type_))
        return value

    if [e.sql().upper() for e in group.expressions] == ["AUTO"]:
        group.set("expressions", [])  # the results without aggregates, as for ALL
    _require_auto_alone(group, scope)
    items = [
        item(e)
        for part in ("expressions", "grouping_sets", "cube", "rollup")
        for e in group.args.get(part) or ()
    ]
    if not items:  # GROUP BY ALL
        items = [key(*result) for result in results if not has_aggregate(result[0])]
    if group.args.get("all") is False:
        items = [distinct_sets(items)]
    sets = [i for i in items if not _is_empty(i)]  # `()` adds nothing
    if len(sets) == 1 and isinstance(sets[0], exp.GroupingSets):
        inside = sets[0].expressions
        if len(inside) > 1 and all(map(_is_empty, inside)):
            what = "repeating the group of all rows is not supported"
            raise SeamlineError(NOT_SUPPORTED, what, hint="Write GROUPING SETS (()).")
    group.replace(exp.Group(expressions=sets) if sets else one_group())


def _require_auto_alone(group: exp.Group, scope: Scope) -> None:
    """Refuses GROUP BY AUTO with other keys, unless a column is called that."""
    names = [e for e in group.expressions if e.sql().upper() == "AUTO"]
    if names and not any(column.folded == "auto" for column in scope.row):
        raise SeamlineError(
            NOT_SUPPORTED,
            "GROUP BY AUTO with other keys is not supported",
            location=location_of(names[0]),
            hint="Write all keys, or AUTO alone.",
        )


def _is_empty(item: exp.Expr) -> bool:
    """Whether the node is `()`, the set of no keys."""
    return isinstance(item, exp.Tuple) and not item.expressions


def ordinal_of(node: exp.Expr, count: int, where: str) -> int | None:
    """Returns the position, from 0, that a whole number in GROUP BY or ORDER BY means, or None.

    Raises:
        SeamlineError: COLUMN_NOT_FOUND when there are not that many results.
    """
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    if not 1 <= int(node.name) <= count:
        raise SeamlineError(
            COLUMN_NOT_FOUND,
            f"{where} {node.name} is not the position of a result column",
            location=location_of(node),
            hint=f"The query has {count} columns.",
        )
    return int(node.name) - 1


def bind_order(binder: Binder, node: exp.Expr, scope: Scope) -> None:
    """Binds ORDER BY, and makes the position of nulls explicit."""
    order = node.args.get("order")
    if order is None:
        return
    items = []
    for ordered in order.expressions:
        items += sort_keys(ordered, *bind_order_item(binder, ordered, scope))
    order.set("expressions", items)


def bind_order_item(binder: Binder, ordered: exp.Ordered, scope: Scope) -> Typed:
    """Binds one item of ORDER BY."""
    inner, type_ = binder.expression(ordered.this, scope)
    if not _has_order(type_):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{type_} cannot be ordered",
            hint="Order by its fields or elements, one by one.",
        )
    return inner, type_


def _has_order(type_: Type) -> bool:
    if isinstance(type_, Row):
        return all(_has_order(field.type) for field in type_.fields)
    return functions.is_ordered(type_)


def sort_keys(ordered: exp.Ordered, value: exp.Expr, type_: Type) -> list[exp.Ordered]:
    """Returns the sort keys for an item of ORDER BY, each of which keeps its type.

    A row is sorted by its fields, as the engines disagree on nulls in them; a null row is beyond
    every other, on the side of nulls.
    """
    descends, nulls_first = ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))

    def key(node: exp.Expr, type_: Type, descends: Any) -> exp.Ordered:
        sort_key = exp.Ordered(this=node, desc=descends, nulls_first=nulls_first)
        sort_key.meta.update(ordered.meta, type=type_)
        return sort_key

    if not isinstance(type_, Row):
        return [key(value, type_, descends)]
    is_missing = exp.Is(this=as_operand(value.copy()), expression=exp.Null())
    keys = [key(exp.Paren(this=is_missing), types.BOOLEAN, nulls_first)]
    for field, field_type in fields_of(value, type_):
        keys += sort_keys(ordered, field, field_type)
    return keys


def bind_limits(node: exp.Expr) -> None:
    """Binds LIMIT, FETCH and OFFSET as whole numbers."""
    limit = node.args.get("limit")
    if isinstance(limit, exp.Fetch):
        node.set("limit", _fetch(node, limit))
    elif isinstance(limit, exp.Limit):
        is_all = limit.expression.name.upper() == "ALL"
        node.set("limit", None if is_all else row_limit(limit.expression))
    offset = node.args.get("offset")
    if offset is not None:
        offset.set("expression", row_count(offset.expression))


def _fetch(node: exp.Expr, fetch: exp.Fetch) -> exp.Limit | None:
    """Turns FETCH FIRST into a limit, which keeps WITH TIES as metadata."""
    options = fetch.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        raise SeamlineError(NOT_SUPPORTED, "FETCH … PERCENT is not supported", hint="")
    limit = row_limit(fetch.args.get("count") or exp.Literal.number(1))
    if limit is not None and limit.expression.name == "0":
        raise SeamlineError(
            INVALID_ARGUMENT,
            "FETCH FIRST needs a count of at least 1",
            hint="LIMIT 0 returns no rows.",
        )
    if options is None or not options.args.get("with_ties"):
        return limit
    if node.args.get("order") is None:
        raise SeamlineError(SYNTAX_ERROR, "FETCH FIRST … WITH TIES needs ORDER BY", hint="")
    if limit is not None:
        limit.meta["with_ties"] = True
    return limit
