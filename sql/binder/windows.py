"""Aggregates with FILTER; window functions, their definitions and frames."""

from __future__ import annotations

from sqlglot import exp

from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SYNTAX_ERROR,
    SeamlineError,
)
from seamline.sql import functions
from seamline.sql.binder.aggregates import of_each_part
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.clauses import bind_order
from seamline.sql.binder.conversions import require_comparable
from seamline.sql.binder.frames import bind_frame
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.literals import as_value
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.expressions.calls import Call
from seamline.sql.locations import location_of
from seamline.sql.near import did_you_mean


def _bind_filter(binder: Binder, node: exp.Filter, scope: Scope) -> Typed:
    inner, type_ = binder.expression(node.this, scope)
    condition = binder.boolean(node.expression.this, scope, "FILTER")
    refuse_aggregates(condition, "FILTER")
    refuse_windows(condition, "FILTER")

    def filtered(aggregate: exp.Expr) -> exp.Expr:
        if not isinstance(aggregate, Call) or not _is_of_rows(aggregate, "aggregate"):
            raise SeamlineError(NOT_SUPPORTED, "FILTER needs an aggregate function", hint="")
        return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))

    return of_each_part(inner, filtered), type_


def _bind_window(binder: Binder, node: exp.Window, scope: Scope) -> Typed:
    inner, type_ = binder.expression(node.this, scope)
    definition = _definition(binder, node, scope)

    def over(function: exp.Expr) -> exp.Expr:
        wrapped = exp.Filter | exp.IgnoreNulls | exp.RespectNulls
        called = function.this if isinstance(function, wrapped) else function
        if not isinstance(called, Call) or not _is_of_rows(called, "aggregate", "window"):
            raise SeamlineError(
                NOT_SUPPORTED, "OVER needs an aggregate or window function", hint=""
            )
        _check_of_order(called, definition, node)
        window = definition.copy()
        window.set("this", function)
        return window

    return of_each_part(inner, over), type_


_NEIGHBOURS = frozenset({"lag", "lead"})
_WITHOUT_FRAMES = _NEIGHBOURS | {
    *("rank", "dense_rank", "row_number", "ntile", "percent_rank", "cume_dist"),
}


def _check_of_order(called: Call, definition: exp.Window, node: exp.Window) -> None:
    """Refuses what would make no difference, or return any of several rows.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    name = called.spec.overload.name
    if name in _NEIGHBOURS and definition.args.get("order") is None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{name}() needs an ORDER BY in its window",
            location=location_of(node),
            hint="OVER (ORDER BY …) says which row is before which.",
        )
    if name in _WITHOUT_FRAMES and definition.args.get("spec") is not None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{name}() takes no frame",
            location=location_of(node),
            hint="Leave ROWS, RANGE or GROUPS out of its window.",
        )


def _is_of_rows(node: Call, *kinds: str) -> bool:
    """Whether the call is a function of such a kind and is computed from rows."""
    overload = node.spec.overload
    return overload.kind in kinds and overload.name != functions.GROUPING


def bind_windows(binder: Binder, node: exp.Select, scope: Scope) -> None:
    """Binds the definitions of WINDOW, each of which is inlined where it is used."""
    for definition in node.args.get("windows") or ():
        name = definition.this.name.lower()
        if name in scope.windows:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"WINDOW defines {name} twice",
                location=location_of(definition.this),
                hint="Give one of them another name.",
            )
        scope.windows[name] = _definition(binder, definition, scope)
    node.set("windows", None)


def _definition(binder: Binder, node: exp.Window, scope: Scope) -> exp.Window:
    """Returns PARTITION BY, ORDER BY and frame of a window, including those of a named window."""
    partitions = []
    for partition in node.args.get("partition_by") or ():
        inner, type_ = binder.expression(partition, scope)
        require_comparable(type_, "PARTITION BY")
        value = as_value(inner, type_)
        if value not in partitions:  # DuckDB mixes up windows if one of them repeats a key
            partitions.append(value)
    bind_order(binder, node, scope)
    order, frame = node.args.get("order"), node.args.get("spec")
    base = None
    if isinstance(node.args.get("alias"), exp.Identifier):
        base = _named_window(node.args["alias"], scope)
        extends = bool(partitions or order or frame)
        if extends and (partitions or base.args.get("spec") or (order and base.args.get("order"))):
            raise SeamlineError(
                SYNTAX_ERROR,
                f"the window {node.args['alias'].name} can only be given what it does not have",
                location=location_of(node.args["alias"]),
                hint="Write out PARTITION BY, ORDER BY and the frame.",
            )
        partitions = base.args["partition_by"]
        if order is None and base.args.get("order") is not None:
            order = base.args["order"].copy()
    if frame is not None:
        bind_frame(binder, frame, order, scope)
    elif base is not None:
        frame = base.args.get("spec")
    return exp.Window(partition_by=partitions, order=order, spec=frame, over="OVER").copy()


def _named_window(name: exp.Identifier, scope: Scope) -> exp.Window:
    level = scope.outer if scope.is_of_order and scope.outer is not None else scope
    window = level.windows.get(name.name.lower())
    if window is None:
        raise SeamlineError(
            COLUMN_NOT_FOUND,
            f"there is no window {name.name}",
            location=location_of(name),
            hint=did_you_mean(name.name, level.windows) or "WINDOW name AS (…) defines one.",
        )
    return window


def _bind_nulls(binder: Binder, node: exp.Expr, scope: Scope) -> Typed:
    inner, type_ = binder.expression(node.this, scope)
    names = {"lag", "lead", "first_value", "last_value", "nth_value"}
    if not isinstance(inner, Call) or inner.spec.overload.name not in names:
        raise SeamlineError(
            NOT_SUPPORTED,
            "IGNORE NULLS works only with lag, lead, first_value, last_value and nth_value",
            hint="",
        )
    return type(node)(this=inner), type_


HANDLERS: Handlers = {
    exp.Filter: _bind_filter,
    exp.Window: _bind_window,
    exp.IgnoreNulls: _bind_nulls,
    exp.RespectNulls: _bind_nulls,
}
