"""Aggregates: DISTINCT and ORDER BY inside them, and aggregates computed from others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.errors import GROUPING_ERROR, NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import functions, types
from seamline.sql.binder.conversions import require_equality, row_of
from seamline.sql.binder.map_keys import over_entries
from seamline.sql.binder.scope import Scope
from seamline.sql.expressions.calls import Call, CallSpec, call
from seamline.sql.functions import COLLECT
from seamline.sql.locations import location_of

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder


def finished(
    binder: Binder, node: Call, scope: Scope, *, distinct: bool, order: exp.Order | None
) -> Call:
    """Completes an aggregate with its DISTINCT and ORDER BY, and computes it from its parts.

    Args:
        binder: Binds the order.
        node: The call, with its arguments bound.
        scope: What the order may read.
        distinct: Whether equal values count once.
        order: The order of the values.
    """
    items = _bind_order(binder, order, scope)
    parts = node.spec.overload.parts
    aggregates = [_part(node, name, count) for name, count in parts] or [node]
    for index, aggregate in enumerate(aggregates):
        if distinct:
            _make_distinct(aggregate, items)
        if items and aggregate.spec.overload.name == COLLECT:
            aggregate.set("order", exp.Order(expressions=[item.copy() for item in items]))
        if distinct:
            aggregates[index] = over_entries(aggregate)
    if not parts:
        return aggregates[0]
    rest = node.expressions[max(count for _, count in parts) :]
    further = node.spec.parameters[len(node.expressions) - len(rest) :]
    overload = dataclasses.replace(node.spec.overload, kind="scalar")
    parameters = (*(part.spec.returns for part in aggregates), *further)
    return call(CallSpec(overload, parameters, node.spec.returns), [*aggregates, *rest])


def _part(node: Call, name: str, count: int) -> Call:
    """Returns an aggregate of another's first arguments; several are collected as rows."""
    arguments = [argument.copy() for argument in node.expressions[:count]]
    parameters = list(node.spec.parameters[:count])
    if name == COLLECT and count > 1:
        row = types.anonymous_row(parameters)
        arguments, parameters = [row_of(arguments, row)], [row]
    resolved = functions.resolve(name, parameters)
    return call(CallSpec(resolved.overload, resolved.parameters, resolved.returns), arguments)


def _make_distinct(node: Call, items: list[exp.Ordered]) -> None:
    if not node.expressions:
        raise SeamlineError(
            NOT_SUPPORTED, f"{node.spec.overload.name}(DISTINCT …) is not supported"
        )
    for type_ in node.spec.parameters:
        require_equality(type_, "DISTINCT")
    for item in items:
        if item.this != node.expressions[0]:
            raise SeamlineError(
                GROUPING_ERROR,
                "an aggregate with DISTINCT can be ordered only by its own argument",
                location=location_of(item),
                hint="",
            )
    node.set("distinct", True)


def _bind_order(binder: Binder, order: exp.Order | None, scope: Scope) -> list[exp.Ordered]:
    items = []
    for ordered in order.expressions if order is not None else ():
        inner, type_ = binder.expression(ordered.this, scope)
        if not functions.is_ordered(type_):
            raise SeamlineError(
                TYPE_MISMATCH,
                f"{type_} cannot be ordered",
                hint="Order by its fields or elements, one by one.",
            )
        items.append(
            exp.Ordered(
                this=inner,
                desc=ordered.args.get("desc"),
                nulls_first=bool(ordered.args.get("nulls_first")),
            )
        )
    return items


def of_each_part(node: exp.Expr, wrap: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Wraps an aggregate, or each of the aggregates that it is computed from."""
    if not isinstance(node, Call) or not node.spec.overload.parts:
        return wrap(node)
    count = len(node.spec.overload.parts)
    arguments = node.expressions
    wrapped = [of_each_part(part, wrap) for part in arguments[:count]]
    node.set("expressions", [*wrapped, *arguments[count:]])
    return node
