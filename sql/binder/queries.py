"""SELECT, set operations and WITH, bound from the inside out, each with its columns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from seamline.errors import SYNTAX_ERROR, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion
from seamline.sql.binder.clauses import bind_condition, bind_group, bind_limits
from seamline.sql.binder.conversions import cast_outputs, require_equality
from seamline.sql.binder.map_keys import combine_entries, distinct_entries, group_by_entries
from seamline.sql.binder.ordering import order_results, order_select
from seamline.sql.binder.recursion import bind_recursive, reads_itself
from seamline.sql.binder.results import bind_results
from seamline.sql.binder.scope import Cte, Output, Scope, location_of, output_column, unsupported
from seamline.sql.binder.shapes import renamed
from seamline.sql.binder.sources import bind_from
from seamline.sql.binder.typer import Typer
from seamline.sql.binder.windows import bind_windows
from seamline.sql.expressions.correlated import compute_keys_inside, join_laterally
from seamline.sql.places import placed


def bind_query(
    typer: Typer, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    """Binds a query of any shape; returns it in canonical form, with its columns."""
    ctes = _bind_with(typer, node, outer, ctes)
    match node:
        case exp.Select():
            return _bind_select(typer, node, outer, ctes)
        case exp.SetOperation():
            return _bind_set_operation(typer, node, outer, ctes)
        case exp.Subquery():
            inner, output = typer.query(node.this, outer, ctes)
            node.set("this", inner)
            bind_limits(node)
            return order_results(typer, node, ctes, output), output
    raise unsupported(node)


def _bind_with(
    typer: Typer, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]
) -> Mapping[str, Cte]:
    with_ = node.args.get("with_")
    if with_ is None:
        return ctes
    in_scope, here = dict(ctes), set[str]()
    recursive = [c for c in with_.expressions if with_.args.get("recursive") and reads_itself(c)]
    with_.set("recursive", bool(recursive))
    for cte in with_.expressions:
        name = cte.alias.lower()
        if name in here:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"WITH defines {name} twice",
                location=location_of(cte.args["alias"]),
                hint="Give one of them another name.",
            )
        here.add(name)
        if any(cte is one for one in recursive):
            inner, in_scope[name] = bind_recursive(typer, cte, outer, in_scope)
        else:
            inner, output = typer.query(cte.this, outer, in_scope)
            in_scope[name] = Cte(typer.new_alias(), tuple(renamed(output, cte.args.get("alias"))))
        cte.set("this", inner)
        cte.set("alias", exp.TableAlias(this=exp.to_identifier(in_scope[name].alias)))
    return in_scope


def _bind_select(
    typer: Typer, node: exp.Select, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    if not node.expressions:
        raise SeamlineError(SYNTAX_ERROR, "SELECT needs at least one column")
    scope = Scope(outer, ctes)
    bind_from(typer, node, scope)
    bind_windows(typer, node, scope)
    output, results = bind_results(typer, node.expressions, scope)
    node.set("expressions", [_named(result, index) for index, result in enumerate(results)])
    with placed(node.args.get("where")):
        bind_condition(typer, node, "where", scope)
    types_ = [column.type for column in output]
    with placed(node.args.get("group")):
        bind_group(typer, node, scope, list(zip(results, types_, strict=True)))
    with placed(node.args.get("having")):
        bind_condition(typer, node, "having", scope)
    bind_limits(node)
    if node.args.get("distinct"):
        for column in output:
            require_equality(column.type, "DISTINCT")
    bound = order_select(typer, node, scope, output)
    scope.read_groups(bound)
    _move_conditions(typer, scope)
    join_laterally(node, typer.new_alias)
    if scope.map_keys:
        group_by_entries(node, scope.map_keys, typer.new_alias())
    compute_keys_inside(node, typer.new_alias)
    if node.args.get("distinct"):
        distinct_entries(typer, node, output)
    return bound, output


def _move_conditions(typer: Typer, scope: Scope) -> None:
    """Moves the conditions of joins in brackets to where engines plan them."""
    for group in scope.groups.values():
        _move_conditions(typer, group.scope)
        join_laterally(group.query, typer.new_alias)


def _named(result: exp.Expr, index: int) -> exp.Alias:
    """Returns a result with its name around it, so that a subquery stays equal to a key."""
    return exp.Alias(this=result.copy(), alias=exp.to_identifier(output_column(index)))


def _bind_set_operation(
    typer: Typer, node: exp.SetOperation, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    chain = [node]  # the set operations nested on the left, of any number
    while isinstance(chain[-1].this, exp.SetOperation) and not chain[-1].this.args.get("with_"):
        chain.append(chain[-1].this)
    left, output = typer.query(chain[-1].this, outer, ctes)
    for part in reversed(chain):
        output = _combine(typer, part, (left, output), typer.query(part.expression, outer, ctes))
        whole = combine_entries(typer, part, output)
        bind_limits(whole)
        left = order_results(typer, whole, ctes, output)
    return left, output


def _combine(
    typer: Typer,
    node: exp.SetOperation,
    left: tuple[exp.Expr, list[Output]],
    right: tuple[exp.Expr, list[Output]],
) -> list[Output]:
    """Puts both sides into a set operation, converted to their common types."""
    if len(left[1]) != len(right[1]):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"the sides of {node.key.upper()} have {len(left[1])} and {len(right[1])} columns",
            hint="Select as many columns on both sides.",
        )
    output = []
    for position, (one, other) in enumerate(zip(left[1], right[1], strict=True), 1):
        common = coercion.common_type(one.type, other.type)
        if common is None:
            raise SeamlineError(
                TYPE_MISMATCH,
                f"column {one.name or position} of {node.key.upper()} is {one.type} on one side, "
                f"{other.type} on the other",
            )
        if isinstance(node, exp.Except | exp.Intersect) or node.args.get("distinct"):
            require_equality(common, node.key.upper())
        output.append(Output(one.name, common))
    node.set("this", cast_outputs(typer, left[0], left[1], output))
    node.set("expression", cast_outputs(typer, right[0], right[1], output))
    return output
