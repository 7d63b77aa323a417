"""Aggregates with FILTER, window functions, their definitions and frames."""

from __future__ import annotations

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql.binder.clauses import bind_order
from seamline.sql.binder.conversions import require_comparable
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.typer import Handlers, Typer
from seamline.sql.calls import Call


def _bind_filter(typer: Typer, node: exp.Filter, scope: Scope) -> Typed:
    inner, type_ = typer.expression(node.this, scope)
    if not isinstance(inner, Call) or inner.spec.overload.kind != "aggregate":
        raise SeamlineError(NOT_SUPPORTED, "FILTER needs an aggregate function", hint="")
    condition = typer.boolean(node.expression.this, scope, "FILTER")
    return exp.Filter(this=inner, expression=exp.Where(this=condition)), type_


def _bind_window(typer: Typer, node: exp.Window, scope: Scope) -> Typed:
    inner, type_ = typer.expression(node.this, scope)
    function = (
        inner.this if isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) else inner
    )
    if not isinstance(function, Call) or function.spec.overload.kind == "scalar":
        raise SeamlineError(NOT_SUPPORTED, "OVER needs an aggregate or window function", hint="")
    if function.args.get("distinct"):
        raise SeamlineError(NOT_SUPPORTED, "DISTINCT with OVER is not supported", hint="")
    node.set("this", inner)
    bind_window_definition(typer, node, scope)
    return node, type_


def bind_window_definition(typer: Typer, node: exp.Window, scope: Scope) -> None:
    """PARTITION BY, ORDER BY and the frame of a window."""
    partitions = []
    for partition in node.args.get("partition_by") or ():
        inner, type_ = typer.expression(partition, scope)
        require_comparable(type_, "PARTITION BY")
        partitions.append(inner)
    node.set("partition_by", partitions)
    bind_order(typer, node, scope)
    frame = node.args.get("spec")
    if frame is not None:
        _check_frame(frame)


def _bind_nulls(typer: Typer, node: exp.Expr, scope: Scope) -> Typed:
    inner, type_ = typer.expression(node.this, scope)
    names = {"lag", "lead", "first_value", "last_value", "nth_value"}
    if not isinstance(inner, Call) or inner.spec.overload.name not in names:
        raise SeamlineError(
            NOT_SUPPORTED,
            "IGNORE NULLS is for lag, lead and first, last and nth value",
            hint="",
        )
    return type(node)(this=inner), type_


def _check_frame(frame: exp.Expr) -> None:
    kind = str(frame.args.get("kind") or "").upper()
    bounds = [frame.args.get("start"), frame.args.get("end")]
    plain = all(
        bound is None
        or isinstance(bound, str)
        or (kind == "ROWS" and isinstance(bound, exp.Literal) and not bound.is_string)
        for bound in bounds
    )
    if kind not in {"ROWS", "RANGE"} or not plain or frame.args.get("exclude"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "this window frame is not supported",
            hint="ROWS with whole numbers, or RANGE with UNBOUNDED and CURRENT ROW.",
        )


HANDLERS: Handlers = {
    exp.Filter: _bind_filter,
    exp.Window: _bind_window,
    exp.IgnoreNulls: _bind_nulls,
    exp.RespectNulls: _bind_nulls,
}
