"""Checks of grouped queries: what is not aggregated must be one of the grouping expressions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import GROUPING_ERROR, NOT_SUPPORTED, STATEMENT_TOO_LARGE, SeamlineError
from seamline.sql.binder.scope import Scope
from seamline.sql.expressions.calls import Call, has_aggregate, parts_of_window
from seamline.sql.expressions.naming import name_of_scan_column
from seamline.sql.functions import GROUPING
from seamline.sql.locations import location_of
from seamline.sql.trees import nodes_of


def check_grouping(node: exp.Select, scope: Scope) -> None:
    """Checks that whatever a grouped query does not aggregate is one of its grouping expressions.

    Raises:
        SeamlineError: GROUPING_ERROR, also for an aggregate or a window where none is allowed.
    """
    group = node.args.get("group")
    checked = [projection.unalias() for projection in node.expressions]
    having = node.args.get("having")
    if having is not None:
        checked.append(having.this)
        refuse_windows(having.this, "HAVING")
    order = node.args.get("order")
    ordered = [item.this for item in order.expressions] if order is not None else []
    if where := node.args.get("where"):
        refuse_aggregates(where.this, "WHERE")
        refuse_windows(where.this, "WHERE")
    for expression in (*checked, *ordered):
        _check_windows(expression, scope)
    if group is None and not any(has_aggregate(e) for e in (*checked, *ordered)):
        if having is None:
            return
        group = one_group()
        node.set("group", group)
    keys = list(group_keys(group)) if group is not None else []
    for key in keys:
        refuse_aggregates(key, "GROUP BY")
        refuse_windows(key, "GROUP BY")
    for expression in (*checked, *ordered):
        _check_grouped(expression, keys, scope)


def one_group() -> exp.Group:
    """Returns the GROUP BY that makes one group of all rows, even of none."""
    return exp.Group(expressions=[exp.GroupingSets(expressions=[exp.Tuple(expressions=[])])])


def group_keys(group: exp.Group) -> list[exp.Expr]:
    """Returns the expressions that a query is grouped by, in any of its grouping sets."""
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


_SETS_MAX = 4096


def distinct_sets(items: Sequence[exp.Expr]) -> exp.GroupingSets:
    """Expands GROUP BY DISTINCT: all items combined, with each set of expressions once.

    Args:
        items: The items of GROUP BY, which may include ROLLUP, CUBE and GROUPING SETS.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """
    sets: dict[frozenset[exp.Expr], list[exp.Expr]] = {}
    for chosen in _crossed([_sets_of(item) for item in items]):
        keys = list(dict.fromkeys(chosen))
        sets.setdefault(frozenset(keys), keys)
    return exp.GroupingSets(
        expressions=[exp.Tuple(expressions=[k.copy() for k in keys]) for keys in sets.values()]
    )


def _sets_of(item: exp.Expr) -> list[list[exp.Expr]]:
    """Returns the grouping sets that one item of GROUP BY stands for."""
    inner = item.expressions
    match item:
        case exp.Paren():
            return _sets_of(item.this)
        case exp.Tuple():
            return _crossed([_sets_of(member) for member in inner])
        case exp.GroupingSets():
            return [set_ for member in inner for set_ in _sets_of(member)]
        case exp.Rollup():
            parts = [_sets_of(member) for member in inner]
            return [s for count in range(len(parts), -1, -1) for s in _crossed(parts[:count])]
        case exp.Cube():
            return _crossed([[*_sets_of(member), []] for member in inner])
    return [[item]]


def _crossed(parts: Sequence[list[list[exp.Expr]]]) -> list[list[exp.Expr]]:
    """Returns the cross product of the parts, with the sets of each combination merged."""
    if math.prod(map(len, parts)) > _SETS_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE, f"GROUP BY has more than {_SETS_MAX:,} sets of expressions"
        )
    return [list(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]


def refuse_aggregates(node: exp.Expr, where: str) -> None:
    """Raises GROUPING_ERROR for an aggregate where rows have not been grouped yet."""
    if has_aggregate(node):
        instead = "Aggregate in a subquery, and use its result."
        hint = "Use HAVING." if where == "WHERE" else instead
        raise SeamlineError(GROUPING_ERROR, f"{where} cannot contain an aggregate", hint=hint)


def refuse_windows(node: exp.Expr, where: str) -> None:
    """Raises GROUPING_ERROR for a window function where windows have not been formed yet."""
    if any(isinstance(inner, exp.Window) for inner in _of_this_level(node)):
        raise SeamlineError(
            GROUPING_ERROR,
            f"{where} cannot contain a window function",
            hint="Compute it in a subquery, and use its result.",
        )


def _of_this_level(node: exp.Expr) -> list[exp.Expr]:
    """Returns the node and its descendants, but not those inside queries."""
    return nodes_of(node, leaves=(exp.Query,))


def _check_windows(node: exp.Expr, scope: Scope) -> None:
    """Refuses windows inside windows and aggregates, and columns of outer queries in either."""
    for inner in _of_this_level(node):
        if isinstance(inner, exp.Window):
            for part in parts_of_window(inner):
                refuse_windows(part, "A window function")
                _refuse_outer(part, scope, "A window function", always=True)
        elif isinstance(inner, Call) and inner.spec.overload.kind == "aggregate":
            for argument in inner.iter_expressions():
                name = f"{inner.spec.overload.name}()"
                refuse_windows(argument, name)
                _refuse_outer(argument, scope, name, always=False)


def _refuse_outer(node: exp.Expr, scope: Scope, where: str, *, always: bool) -> None:
    """Raises NOT_SUPPORTED for columns of an enclosing query.

    Args:
        node: A part of this query.
        scope: What this query reads.
        where: What the part belongs to.
        always: Whether to refuse them even together with columns of this query.
    """
    columns = [c for c in _of_this_level(node) if isinstance(c, exp.Column) and c.table]
    outer = [column for column in columns if not scope.owns(column)]
    if outer and (always or len(outer) == len(columns)):
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{where} of a subquery cannot use columns of the query around it",
            location=location_of(outer[0]),
            hint="Join the two queries.",
        )


def _check_grouped(node: exp.Expr, keys: Sequence[exp.Expr], scope: Scope) -> None:
    if any(node == key for key in keys):
        return
    match node:
        case Call() if node.spec.overload.kind == "aggregate":
            for argument in node.iter_expressions():
                refuse_aggregates(argument, f"{node.spec.overload.name}()")
            if node.spec.overload.name == GROUPING:
                _check_grouping(node, keys)
            return
        case exp.Filter():
            return
        case exp.Window():
            for part in parts_of_window(node):
                _check_grouped(part, keys, scope)
            return
        case exp.Column():
            if scope.owns(node):
                name = node.meta.get("name", name_of_scan_column(node.name))
                raise SeamlineError(
                    GROUPING_ERROR,
                    f"column {name} is neither grouped nor aggregated",
                    location=location_of(node),
                )
            return
        case exp.Query():
            _check_subquery(node, keys, scope)
            return
    for child in node.iter_expressions():
        _check_grouped(child, keys, scope)


def _check_subquery(node: exp.Expr, keys: Sequence[exp.Expr], scope: Scope) -> None:
    """Checks a subquery, which knows the columns among the keys and no other expression."""
    try:
        for child in node.iter_expressions():
            _check_grouped(child, [key for key in keys if isinstance(key, exp.Column)], scope)
    except SeamlineError as error:
        if any(key.find(exp.Query) is not None for key in keys):
            error.hint = "GROUP BY 1 means the subquery that SELECT begins with."
        raise


def _check_grouping(node: Call, keys: Sequence[exp.Expr]) -> None:
    """Checks that grouping() takes only keys, and no more of them than an integer has bits."""
    for argument in node.expressions:
        if not any(argument == key for key in keys):
            raise SeamlineError(
                GROUPING_ERROR,
                "grouping() takes only columns that the query is grouped by",
                location=location_of(argument),
                hint="",
            )
    if len(node.expressions) > _BITS:
        raise SeamlineError(NOT_SUPPORTED, f"grouping() takes at most {_BITS} keys", hint="")


_BITS = 31
