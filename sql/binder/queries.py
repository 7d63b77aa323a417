"""SELECT, set operations and WITH, bound from the inside out, each with its columns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from seamline.errors import SYNTAX_ERROR, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.clauses import bind_condition, bind_group, bind_limits
from seamline.sql.binder.conversions import cast_outputs, require_equality
from seamline.sql.binder.map_keys import combine_entries, distinct_entries, group_by_entries
from seamline.sql.binder.ordering import order_results, order_select
from seamline.sql.binder.recursion import bind_recursive, reads_itself
from seamline.sql.binder.results import bind_results
from seamline.sql.binder.scope import Cte, Output, Scope, output_column, unsupported
from seamline.sql.binder.shapes import renamed
from seamline.sql.binder.sources import bind_from
from seamline.sql.binder.windows import bind_windows
from seamline.sql.expressions.correlated import compute_keys_inside, join_laterally
from seamline.sql.locations import locate_errors, location_of
from seamline.sql.trees import copy_of


def bind_query(
    binder: Binder, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    """Binds a query of any shape; returns it in canonical form, with its columns."""
    ctes = _bind_with(binder, node, outer, ctes)
    match node:
        case exp.Select():
            return _bind_select(binder, node, outer, ctes)
        case exp.SetOperation():
            return _bind_set_operation(binder, node, outer, ctes)
        case exp.Subquery():
            inner, output = binder.query(node.this, outer, ctes)
            node.set("this", inner)
            bind_limits(node)
            return order_results(binder, node, ctes, output), output
    raise unsupported(node)


def _bind_with(
    binder: Binder, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]
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
            inner, in_scope[name] = bind_recursive(binder, cte, outer, in_scope)
        else:
            inner, output = binder.query(cte.this, outer, in_scope)
            in_scope[name] = Cte(binder.new_alias(), tuple(renamed(output, cte.args.get("alias"))))
        cte.set("this", inner)
        cte.set("alias", exp.TableAlias(this=exp.to_identifier(in_scope[name].alias)))
    return in_scope


def _bind_select(
    binder: Binder, node: exp.Select, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    if not node.expressions:
        raise SeamlineError(SYNTAX_ERROR, "SELECT needs at least one column")
    scope = Scope(outer, ctes)
    bind_from(binder, node, scope)
    bind_windows(binder, node, scope)
    output, results = bind_results(binder, node.expressions, scope)
    node.set("expressions", [_named(result, index) for index, result in enumerate(results)])
    with locate_errors(node.args.get("where")):
        bind_condition(binder, node, "where", scope)
    types_ = [column.type for column in output]
    with locate_errors(node.args.get("group")):
        bind_group(binder, node, scope, list(zip(results, types_, strict=True)))
    with locate_errors(node.args.get("having")):
        bind_condition(binder, node, "having", scope)
    bind_limits(node)
    if node.args.get("distinct"):
        for column in output:
            require_equality(column.type, "DISTINCT")
    bound = order_select(binder, node, scope, output)
    scope.read_groups(bound)
    _move_conditions(binder, scope)
    join_laterally(node, binder.new_alias)
    if scope.map_keys:
        group_by_entries(node, scope.map_keys, binder.new_alias())
    compute_keys_inside(node, binder.new_alias)
    if node.args.get("distinct"):
        distinct_entries(binder, node, output)
    return bound, output


def _move_conditions(binder: Binder, scope: Scope) -> None:
    """Moves the conditions of joins in brackets to where engines plan them."""
    for group in scope.groups.values():
        _move_conditions(binder, group.scope)
        join_laterally(group.query, binder.new_alias)


def _named(result: exp.Expr, index: int) -> exp.Alias:
    """Returns a result with its name around it, so that a subquery stays equal to a key."""
    return exp.Alias(this=copy_of(result), alias=exp.to_identifier(output_column(index)))


def _bind_set_operation(
    binder: Binder, node: exp.SetOperation, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, list[Output]]:
    chain = [node]  # the set operations nested on the left, of any number
    while isinstance(chain[-1].this, exp.SetOperation) and not chain[-1].this.args.get("with_"):
        chain.append(chain[-1].this)
    left, output = binder.query(chain[-1].this, outer, ctes)
    for part in reversed(chain):
        output = _combine(binder, part, (left, output), binder.query(part.expression, outer, ctes))
        whole = combine_entries(binder, part, output)
        bind_limits(whole)
        left = order_results(binder, whole, ctes, output)
    return left, output


def _combine(
    binder: Binder,
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
    node.set("this", cast_outputs(binder, left[0], left[1], output))
    node.set("expression", cast_outputs(binder, right[0], right[1], output))
    return output
