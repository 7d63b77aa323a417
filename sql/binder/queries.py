"""SELECT, set operations and WITH: from the inside out, each with the columns it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, SYNTAX_ERROR, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, types
from seamline.sql.binder.clauses import (
    bind_condition,
    bind_group,
    bind_join,
    bind_limits,
    bind_order,
    bind_source,
)
from seamline.sql.binder.conversions import cast_outputs, require_comparable
from seamline.sql.binder.grouping import check_grouping
from seamline.sql.binder.scope import Output, Scope, unsupported
from seamline.sql.binder.shapes import renamed
from seamline.sql.binder.typer import Typer
from seamline.sql.binder.windows import bind_window_definition


def bind_query(
    typer: Typer,
    node: exp.Expr,
    outer: Scope | None,
    ctes: Mapping[str, Sequence[Output]],
) -> tuple[exp.Expr, list[Output]]:
    """A query of any shape: in canonical form, and the columns it gives."""
    ctes = _bind_with(typer, node, outer, ctes)
    match node:
        case exp.Select():
            return _bind_select(typer, node, outer, ctes)
        case exp.SetOperation():
            return _bind_set_operation(typer, node, outer, ctes)
        case exp.Subquery():
            inner, output = typer.query(node.this, outer, ctes)
            node.set("this", inner)
            _bind_order_by_outputs(typer, node, output)
            return node, output
    raise unsupported(node)


def _bind_with(
    typer: Typer,
    node: exp.Expr,
    outer: Scope | None,
    ctes: Mapping[str, Sequence[Output]],
) -> Mapping[str, Sequence[Output]]:
    with_ = node.args.get("with_")
    if with_ is None:
        return ctes
    known = dict(ctes)
    for cte in with_.expressions:
        inner, output = typer.query(cte.this, outer, known)
        cte.set("this", inner)
        known[cte.alias] = renamed(output, cte.args.get("alias"))
    return known


def _bind_select(
    typer: Typer, node: exp.Select, outer: Scope | None, ctes: Mapping[str, Sequence[Output]]
) -> tuple[exp.Expr, list[Output]]:
    _check_clauses(node)
    if not node.expressions:
        raise SeamlineError(SYNTAX_ERROR, "SELECT needs at least one column")
    scope = Scope(outer, ctes)
    if from_ := node.args.get("from_"):
        from_.set("this", bind_source(typer, from_.this, scope))
    for join in node.args.get("joins") or ():
        bind_join(typer, join, scope)
    bind_condition(typer, node, "where", scope)
    output = _bind_projections(typer, node, scope)
    bind_group(typer, node, scope)
    bind_condition(typer, node, "having", scope)
    for definition in node.args.get("windows") or ():
        bind_window_definition(typer, definition, scope)
    bind_order(typer, node, scope)
    bind_limits(node)
    if node.args.get("distinct"):
        for column in output:
            require_comparable(column.type, "DISTINCT")
    check_grouping(node, scope)
    return node, output


def _bind_projections(typer: Typer, node: exp.Select, scope: Scope) -> list[Output]:
    output = []
    rewritten = []
    for projection in node.expressions:
        name = projection.alias_or_name
        inner, type_ = typer.expression(projection.unalias(), scope)
        if isinstance(type_, types.Interval):
            raise SeamlineError(
                NOT_SUPPORTED, "an interval cannot be a result", hint="Use date_diff."
            )
        rewritten.append(exp.alias_(inner, exp.to_identifier(name)))
        output.append(Output(name, type_))
    node.set("expressions", rewritten)
    scope.aliases = {column.name: column.type for column in output}
    return output


def _bind_set_operation(
    typer: Typer, node: exp.SetOperation, outer: Scope | None, ctes: Mapping[str, Sequence[Output]]
) -> tuple[exp.Expr, list[Output]]:
    left, left_output = typer.query(node.this, outer, ctes)
    right, right_output = typer.query(node.expression, outer, ctes)
    if len(left_output) != len(right_output):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"the sides of {node.key.upper()} have {len(left_output)} and "
            f"{len(right_output)} columns",
            hint="Select as many columns on both sides.",
        )
    output = []
    for one, other in zip(left_output, right_output, strict=True):
        common = coercion.common_type(one.type, other.type)
        if common is None:
            raise SeamlineError(
                TYPE_MISMATCH,
                f"column {one.name} of {node.key.upper()} is {one.type} on one side, "
                f"{other.type} on the other",
            )
        if isinstance(node, exp.Except | exp.Intersect) or node.args.get("distinct"):
            require_comparable(common, node.key.upper())
        output.append(Output(one.name, common))
    node.set("this", cast_outputs(left, left_output, output))
    node.set("expression", cast_outputs(right, right_output, output))
    _bind_order_by_outputs(typer, node, output)
    return node, output


def _bind_order_by_outputs(typer: Typer, node: exp.Expr, output: Sequence[Output]) -> None:
    """ORDER BY and LIMIT of a combination speak only of its columns."""
    scope = Scope(None, {})
    scope.aliases = {column.name: column.type for column in output}
    bind_order(typer, node, scope)
    bind_limits(node)


def _check_clauses(node: exp.Select) -> None:
    for key in ("qualify", "laterals", "match", "locks", "connect", "prewhere", "sample", "hint",
                "kind", "into", "cluster", "distribute", "sort", "settings", "format", "options",
                "pivots", "operation_modifiers", "exclude"):  # fmt: skip
        if node.args.get(key):
            raise SeamlineError(
                NOT_SUPPORTED, f"{key.upper()} is not supported in a query", hint=""
            )
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise SeamlineError(NOT_SUPPORTED, "DISTINCT ON is not supported", hint="")
