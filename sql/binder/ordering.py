"""ORDER BY of a whole query: by its results, their positions, and what they are computed from.

A name in ORDER BY means a result first, at any depth of an expression; only the arguments of
aggregates are looked up in FROM. Not every engine sorts by everything that a query can compute. In
such a case, an outer query does the sorting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.errors import GROUPING_ERROR, SeamlineError
from seamline.sql import functions
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.clauses import bind_order_item, ordinal_of, sort_keys
from seamline.sql.binder.grouping import check_grouping, refuse_aggregates, refuse_windows
from seamline.sql.binder.scope import Column, Cte, Output, Scope, output_column
from seamline.sql.binder.shapes import bracketed
from seamline.sql.expressions.calls import VOLATILE, Call, CallSpec, call
from seamline.sql.locations import location_of

_DIFFERING = VOLATILE | {"shuffle"}
"""Functions whose results differ between rows even where their arguments do not."""


class _Result(exp.Expression):
    """A result of the query in an item of ORDER BY, by its position."""

    arg_types = {"position": True}  # noqa: RUF012


def order_select(
    binder: Binder, node: exp.Select, scope: Scope, output: Sequence[Output]
) -> exp.Select:
    """Binds the ORDER BY of a SELECT; returns the query, or one around it.

    Raises:
        SeamlineError: GROUPING_ERROR, and any error of binding an expression.
    """
    projections = [projection.unalias() for projection in node.expressions]
    items = _bind_items(binder, node, scope, scope.ctes, output, projections)
    has_ties = _forget_ties(node, items)
    if node.args.get("distinct"):
        for ordered in items:
            if any(scope.owns(column) for column in ordered.this.find_all(exp.Column)):
                raise SeamlineError(
                    GROUPING_ERROR,
                    "ORDER BY of SELECT DISTINCT can only use what is selected",
                    location=location_of(ordered),
                    hint="Select the expression, too.",
                )
            refuse_aggregates(ordered.this, "ORDER BY of SELECT DISTINCT")
        check_grouping(node, scope)
        if not all(isinstance(ordered.this, _Result) for ordered in items):
            around = _order_around(binder, node, items, len(output))
            return _with_ties(binder, around, items, len(output)) if has_ties else around
    for ordered in items:
        ordered.set("this", _over_sources(ordered.this, projections))
    _set_order(node, items)
    check_grouping(node, scope)
    if has_ties:
        return _with_ties(binder, node, items, len(output))
    if any(ordered.this.find(exp.Window, exp.Query) for ordered in items):
        return _order_by_more(binder, node, items)
    return node


def order_results(
    binder: Binder, node: exp.Expr, ctes: Mapping[str, Cte], output: Sequence[Output]
) -> exp.Expr:
    """Binds the ORDER BY of any other query, which can refer only to its results."""
    items = _bind_items(binder, node, None, ctes, output, ())
    has_ties = _forget_ties(node, items)
    for ordered in items:
        refuse_aggregates(ordered.this, "ORDER BY of a set operation")
        refuse_windows(ordered.this, "ORDER BY of a set operation")
    is_plain = all(isinstance(ordered.this, _Result) for ordered in items)
    if isinstance(node, exp.Subquery):
        is_plain = not any(node.args.get(key) for key in ("order", "limit", "offset"))
    if not is_plain or has_ties:
        around = _order_around(binder, node, items, len(output))
        return _with_ties(binder, around, items, len(output)) if has_ties else around
    for ordered in items:
        ordered.set("this", exp.column(output_column(ordered.this.args["position"])))
    _set_order(node, items)
    return node


def _bind_items(
    binder: Binder,
    node: exp.Expr,
    sources: Scope | None,
    ctes: Mapping[str, Cte],
    output: Sequence[Output],
    projections: Sequence[exp.Expr],
) -> list[exp.Ordered]:
    """Returns the bound items that affect the order, with results in them as `_Result`."""
    order = node.args.get("order")
    if order is None:
        return []
    scope = Scope(sources, ctes, is_of_order=True)
    for number, column in enumerate(output):
        if _first_like(number, output, projections) == number:
            scope.row.append(Column(column.name, column.type, _Result(position=number)))
    items = []
    for ordered in order.expressions:
        position = ordinal_of(ordered.this, len(output), "ORDER BY")
        item: exp.Expr
        if position is not None:
            item, type_ = _Result(position=position), output[position].type
        else:
            item, type_ = bind_order_item(binder, ordered, scope)
            same = (i for i, projection in enumerate(projections) if projection == item)
            item = next((_Result(position=i) for i in same), item)
        items += [key for key in sort_keys(ordered, item, type_) if _varies(key.this)]
    return items


def _first_like(position: int, output: Sequence[Output], projections: Sequence[exp.Expr]) -> int:
    """Returns the first result with the same name and computation, which is the same result."""
    for earlier in range(position if projections else 0):
        same_name = output[earlier].name.lower() == output[position].name.lower()
        if same_name and projections[earlier] == projections[position]:
            return earlier
    return position


def _varies(node: exp.Expr) -> bool:
    """Whether a sort key may differ between rows; engines take a constant for a position."""
    if node.find(_Result, exp.Column, exp.Query, exp.Window) is not None:
        return True
    return any(called.spec.overload.name in _DIFFERING for called in node.find_all(Call))


def _over_sources(node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr:
    """Rewrites a sort key over FROM: a bare result by name, one in an expression recomputed."""
    if isinstance(node, _Result):
        return exp.column(output_column(node.args["position"]))

    def replace(inner: exp.Expr) -> exp.Expr:
        if isinstance(inner, _Result):
            return bracketed(projections[inner.args["position"]].copy())
        return inner

    return node.transform(replace)


def _order_around(
    binder: Binder, node: exp.Expr, items: Sequence[exp.Ordered], width: int
) -> exp.Select:
    """Wraps a query that returns only its results in one that sorts by expressions over them."""
    around, alias = _around(binder, node, width)

    def replace(inner: exp.Expr) -> exp.Expr:
        if isinstance(inner, _Result):
            column = exp.column(output_column(inner.args["position"]), alias)
            column.meta.update(inner.meta)
            return column
        return inner

    for ordered in items:
        ordered.set("this", ordered.this.transform(replace))
    _set_order(around, items)
    if any(ordered.this.find(exp.Window, exp.Query) for ordered in items):
        return _order_by_more(binder, around, items)
    return around


def _order_by_more(binder: Binder, node: exp.Select, items: Sequence[exp.Ordered]) -> exp.Select:
    """Wraps a query that also returns its sort keys in one that sorts by them."""
    width = len(node.expressions)
    around, alias = _around(binder, node, width)
    for ordered in items:
        value = ordered.this
        if isinstance(value, exp.Column) and not value.table:
            name = value.name
        else:
            name = output_column(len(node.expressions))
            node.append("expressions", exp.alias_(value, name))
        ordered.set("this", exp.column(name, alias))
    _set_order(around, items)
    return around


def _forget_ties(node: exp.Expr, items: Sequence[exp.Ordered]) -> bool:
    """Returns whether rows that sort equal to the last row of a limit are included.

    Where all rows sort equal, it removes the limit.
    """
    limit = node.args.get("limit")
    if limit is None or not limit.meta.get("with_ties"):
        return False
    if not items:
        node.set("limit", None)
    return bool(items)


def _with_ties(
    binder: Binder, node: exp.Select, items: Sequence[exp.Ordered], width: int
) -> exp.Select:
    """Returns a query for the rows that rank within a limit.

    Args:
        binder: Names the sources.
        node: The query, ordered and limited.
        items: The items it is ordered by.
        width: The number of its results.
    """
    skipped = _count_of(node, "offset")
    last = skipped + _count_of(node, "limit")
    ranked = _order_by_more(binder, node, items)
    for argument in ("order", "limit", "offset"):
        ranked.set(argument, None)
    keys = [exp.alias_(i.this.copy(), output_column(width + n)) for n, i in enumerate(items)]
    columns = [output_column(width + len(items) + n) for n in range(2)]
    ranks = [
        exp.alias_(_of_order(name, items), column)
        for name, column in zip(("rank", "row_number"), columns, strict=True)
    ]
    for added in (*keys, *ranks):
        ranked.append("expressions", added)
    chosen, alias = _around(binder, ranked, width)
    for ordered, key in zip(items, keys, strict=True):
        ordered.set("this", exp.column(key.alias, alias))
    _set_order(chosen, items)
    rank, number = (exp.column(column, alias) for column in columns)
    return chosen.where(
        exp.LTE(this=rank, expression=exp.Literal.number(last)),
        exp.GT(this=number, expression=exp.Literal.number(skipped)),
        copy=False,
    )


def _count_of(node: exp.Expr, clause: str) -> int:
    count = node.args.get(clause)
    return int(count.expression.name) if count is not None else 0


def _of_order(name: str, items: Sequence[exp.Ordered]) -> exp.Window:
    """Returns a window function of a row's position among all rows."""
    function = functions.resolve(name, [])
    spec = CallSpec(function.overload, function.parameters, function.returns)
    order = exp.Order(expressions=[item.copy() for item in items])
    return exp.Window(this=call(spec, []), partition_by=[], order=order, over="OVER")


def _around(binder: Binder, node: exp.Expr, width: int) -> tuple[exp.Select, str]:
    """Wraps a query in one that returns its first results and takes over its limits."""
    alias = binder.new_alias()
    names = [output_column(index) for index in range(width)]
    around = exp.select(*(exp.alias_(exp.column(name, alias), name) for name in names))
    for argument in ("limit", "offset"):
        around.set(argument, node.args.get(argument))
        node.set(argument, None)
    node.set("order", None)
    inside = node.this if isinstance(node, exp.Subquery) else node
    if inside is not node:
        around.set("with_", node.args.get("with_"))
    source = exp.Subquery(this=inside, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    return around.from_(source, copy=False), alias


def _set_order(node: exp.Expr, items: Sequence[exp.Ordered]) -> None:
    node.set("order", exp.Order(expressions=list(items)) if items else None)
