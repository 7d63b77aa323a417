"""In a grouped query, whatever is not aggregated must be one of the grouping expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from seamline.errors import GROUPING_ERROR, SeamlineError
from seamline.sql.binder.scope import Scope, location_of
from seamline.sql.calls import Call


def check_grouping(node: exp.Select, scope: Scope) -> None:
    """In a grouped query, whatever is not aggregated must be one of the grouping expressions."""
    group = node.args.get("group")
    checked = [projection.unalias() for projection in node.expressions]
    having = node.args.get("having")
    if having is not None:
        checked.append(having.this)
    order = node.args.get("order")
    ordered = [item.this for item in order.expressions] if order is not None else []
    if where := node.args.get("where"):
        _refuse_aggregates(where.this, "WHERE")
    if group is None and not any(_has_aggregate(e) for e in (*checked, *ordered)):
        if having is not None:
            raise SeamlineError(GROUPING_ERROR, "HAVING needs GROUP BY or an aggregate", hint="")
        return
    keys = list(_group_keys(group)) if group is not None else []
    for key in keys:
        _refuse_aggregates(key, "GROUP BY")
    for expression in (*checked, *ordered):
        _check_grouped(expression, keys, scope)


def _group_keys(group: exp.Group) -> list[exp.Expr]:
    keys: list[exp.Expr] = []
    pending = list(group.expressions)
    for key in ("grouping_sets", "cube", "rollup"):
        pending += [e for e in group.args.get(key) or () if isinstance(e, exp.Expr)]
    while pending:
        item = pending.pop()
        if isinstance(item, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            pending += item.expressions
        elif isinstance(item, exp.Paren):
            pending.append(item.this)
            keys.append(item)
        else:
            keys.append(item)
    return keys


def _has_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Subquery | exp.Exists | exp.Select | exp.SetOperation):
        return False
    if isinstance(node, exp.Window):
        below: list[Any] = [*_function_arguments(node.this), *(node.args.get("partition_by") or ())]
        if node.args.get("order") is not None:
            below += [item.this for item in node.args["order"].expressions]
        return any(_has_aggregate(child) for child in below)
    if isinstance(node, Call) and node.spec.overload.kind == "aggregate":
        return True
    return any(_has_aggregate(child) for child in node.iter_expressions())


def _function_arguments(node: exp.Expr) -> list[exp.Expr]:
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    return list(node.expressions)


def _refuse_aggregates(node: exp.Expr, where: str) -> None:
    if _has_aggregate(node):
        hint = "Use HAVING." if where == "WHERE" else ""
        raise SeamlineError(GROUPING_ERROR, f"{where} cannot hold an aggregate", hint=hint)


def _check_grouped(node: exp.Expr, keys: Sequence[exp.Expr], scope: Scope) -> None:
    if any(node == key for key in keys):
        return
    match node:
        case Call() if node.spec.overload.kind == "aggregate":
            for argument in node.expressions:
                _refuse_aggregates(argument, f"{node.spec.overload.name}()")
            return
        case exp.Filter():
            return
        case exp.Window():
            parts: list[Any] = [
                *_function_arguments(node.this),
                *(node.args.get("partition_by") or ()),
            ]
            if node.args.get("order") is not None:
                parts += [item.this for item in node.args["order"].expressions]
            for part in parts:
                _check_grouped(part, keys, scope)
            return
        case exp.Column():
            if node.table in scope.sources:
                raise SeamlineError(
                    GROUPING_ERROR,
                    f"column {node.name} is neither grouped nor aggregated",
                    location=location_of(node),
                )
            return
        case exp.Subquery() | exp.Exists() | exp.Select():
            return
    for child in node.iter_expressions():
        _check_grouped(child, keys, scope)
