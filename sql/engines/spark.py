"""Rewrites a bound tree into a form for which Spark gives the same answer.

It changes only what Spark would answer differently or not at all: nulls in IN with a subquery, a
grand total of no rows, functions over windows without an order, LIKE without ESCAPE, FILTER with
OVER.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql import types
from seamline.sql.expressions.calls import (
    COMPUTED_COUNT,
    EMPTY_FRAME,
    BoundLambda,
    Call,
    CallSpec,
    call,
    constructor,
    has_aggregate,
)
from seamline.sql.expressions.correlated import (
    InnerQuery,
    aggregate_of,
    computed_of_groups,
    keys,
    move_for_spark,
    source,
)
from seamline.sql.functions import COLLECT, GROUPING, resolve
from seamline.sql.functions.collections import COLLECT_IF
from seamline.sql.templates import SPARK
from seamline.sql.trees import copy_of, nodes_of_kind


def for_spark(tree: exp.Expr) -> exp.Expr:
    """Returns a copy of the tree in Spark's form; the given tree is not changed."""
    tree = copy_of(tree)
    _refuse_kernels_in_lambdas(tree)
    _refuse_recursion(tree)
    _refuse_computed_counts(tree)
    _refuse_sets_in_windows(tree)
    for union in nodes_of_kind(tree, exp.Union):
        _balance(union)
    names = _Names(tree)
    move_for_spark(tree, names.new)
    for node in reversed(nodes_of_kind(tree, exp.In)):  # those inside others first
        if isinstance(node.args.get("query"), exp.Expr) and not _only_filters(node):
            _tell_null_from_false(node, names)
    for values in nodes_of_kind(tree, exp.Values):
        cells = values.find_all(Call, exp.Query, exp.Case, exp.Column)
        if any(map(_is_computed, cells)):
            values.replace(_as_query(values))
    for select in nodes_of_kind(tree, exp.Select):
        _answer_grouping(select)
        _drop_empty_group(select)
        if _groups_no_rows(select.args.get("group")):
            _total_of_no_rows(select, names)
    for aggregate in nodes_of_kind(tree, Call):
        if aggregate.args.get("order") is not None:
            _sort_collected(aggregate)
    return tree.transform(_one, copy=False)


def _refuse_kernels_in_lambdas(tree: exp.Expr) -> None:
    """Raises NOT_SUPPORTED for kernels in lambdas: Spark's Python workers cannot run them there."""
    for function in nodes_of_kind(tree, BoundLambda):
        for node in function.find_all(Call):
            kernel = node.spec.overload.kernel
            if kernel is not None and SPARK in kernel.engines:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"Spark cannot compute {node.spec.overload.name.split()[0]}() inside a lambda",
                    hint="Run it with engine = 'duckdb', or compute it outside the lambda.",
                )


def _refuse_recursion(tree: exp.Expr) -> None:
    """Raises NOT_SUPPORTED for WITH RECURSIVE, which Spark parses but does not run."""
    if any(with_.args.get("recursive") for with_ in nodes_of_kind(tree, exp.With)):
        raise SeamlineError(
            NOT_SUPPORTED,
            "Spark cannot compute WITH RECURSIVE",
            hint="Run it with engine = 'duckdb'.",
        )


def _refuse_computed_counts(tree: exp.Expr) -> None:
    """Raises NOT_SUPPORTED for lag(x, y) and the like: Spark takes only a constant row count."""
    for node in nodes_of_kind(tree, Call):
        if node.spec.overload.name == COMPUTED_COUNT:
            raise SeamlineError(
                NOT_SUPPORTED,
                "Spark needs a literal number of rows in a window function",
                hint="Run it with engine = 'duckdb'.",
            )


def _balance(union: exp.Union) -> None:
    """Turns a long chain of UNIONs into a shallow tree, because Spark descends it recursively."""
    if _continues(union.parent, union):
        return
    operands: list[exp.Expr] = []
    first: exp.Expr = union
    while _continues(union, first) or first is union:
        operands.append(first.expression)
        first = first.this
    operands.append(first)
    if len(operands) <= _CHAIN_MAX:
        return

    def tree_of(parts: Sequence[exp.Expr]) -> exp.Expr:
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        sides = [_bracketed(tree_of(part)) for part in (parts[:half], parts[half:])]
        return exp.Union(this=sides[0], expression=sides[1], distinct=union.args.get("distinct"))

    balanced = tree_of([operand.copy() for operand in reversed(operands)])
    for side in ("this", "expression"):
        union.set(side, balanced.args[side])


_CHAIN_MAX = 30


def _continues(above: exp.Expr | None, node: exp.Expr) -> bool:
    """Whether a union is the left side of another union of the same kind."""
    return (
        type(above) is exp.Union
        and type(node) is exp.Union
        and node is not above
        and node.arg_key == "this"
        and bool(above.args.get("distinct")) == bool(node.args.get("distinct"))
        and not any(node.args.get(key) for key in ("with_", "order", "limit", "offset"))
    )


def _bracketed(node: exp.Expr) -> exp.Expr:
    return exp.Subquery(this=node) if isinstance(node, exp.SetOperation) else node


class _Names:
    """Generates names that no source of the tree has."""

    def __init__(self, tree: exp.Expr) -> None:
        aliases = {alias.name for alias in nodes_of_kind(tree, exp.TableAlias)}
        self._prefix = max(aliases, key=len, default="q").rstrip("0123456789") + "_s"
        self._count = 0

    def new(self) -> str:
        """Returns the next name."""
        self._count += 1
        return f"{self._prefix}{self._count}"


def _one(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Like() if not isinstance(node.parent, exp.Escape):
            # an escape character that occurs in no pattern
            return exp.Escape(this=node, expression=exp.Literal.string("\x01"))
        case exp.WindowSpec():
            return _frame(node)
        case exp.Window():
            return _ordered(_filter_inside(node))
    return node


# --- VALUES --------------------------------------------------------------------------------------

_WRITTEN_OUT = frozenset({"$literal", "$constant", "$value", "$negate", "$array", "$map", "$row"})


def _is_computed(node: exp.Expr) -> bool:
    """Whether the node may fail or needs a row, which Spark does not accept in VALUES."""
    if not isinstance(node, Call):
        return True
    spec = node.spec
    if spec.overload.kernel is not None:
        return True
    is_cast = spec.overload.name == "cast" and spec.parameters[0] != types.VARCHAR
    is_plain = is_cast and spec.overload.spark in ("{0}", "CAST({0} AS {type})")
    return not is_plain and spec.overload.name not in _WRITTEN_OUT


def _as_query(values: exp.Values) -> exp.Subquery:
    """Turns VALUES into a union of one SELECT per row."""
    names = [column.name for column in values.args["alias"].args["columns"]]
    query: exp.Expr | None = None
    for row in values.expressions:
        cells = zip(row.expressions, names, strict=True)
        select = exp.select(*(exp.alias_(cell, name) for cell, name in cells))
        query = (
            select if query is None else exp.Union(this=query, expression=select, distinct=False)
        )
    assert query is not None
    return source(query, values.alias)


# --- Windows -------------------------------------------------------------------------------------


def _refuse_sets_in_windows(tree: exp.Expr) -> None:
    """Raises NOT_SUPPORTED for DISTINCT and ORDER BY in an aggregate with OVER."""
    for window in nodes_of_kind(tree, exp.Window):
        called = window.this.this if isinstance(window.this, exp.Filter) else window.this
        for what, key in (("DISTINCT", "distinct"), ("ORDER BY", "order")):
            if called.args.get(key):
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"Spark does not support {what} in an aggregate with OVER",
                    hint="Run it with engine = 'duckdb', or aggregate in a subquery.",
                )


def _filter_inside(node: exp.Window) -> exp.Window:
    """Replaces FILTER with OVER by nulls for the rows that fail it, which aggregates skip."""
    if not isinstance(node.this, exp.Filter):
        return node
    called, condition = node.this.this.copy(), node.this.expression.this
    arguments = called.expressions or [exp.Literal.number(1)]
    if not called.expressions:
        overload = resolve(called.spec.overload.name, [types.INTEGER]).overload
        called.set("spec", dataclasses.replace(called.spec, overload=overload))
    if called.spec.overload.name == COLLECT:  # the collection keeps nulls
        overload = dataclasses.replace(called.spec.overload, spark=COLLECT_IF)
        called.set("spec", dataclasses.replace(called.spec, overload=overload))
        called.append("expressions", condition.copy())
    else:
        called.set("expressions", [_only_where(condition, a) for a in arguments])
    node.set("this", called)
    return node


def _only_where(condition: exp.Expr, argument: exp.Expr) -> exp.Expr:
    """Makes an argument null where the condition fails; some arguments must stay constants."""
    if argument.arg_key == "expressions" and argument.index and not argument.find(exp.Column):
        return argument
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=argument)])


# --- Values in order -----------------------------------------------------------------------------


def _sort_collected(node: Call) -> None:
    """Rewrites an ordered collection to collect values with their keys, then sort by the keys."""
    keys = node.args["order"].expressions
    node.set("order", None)
    values = [*node.expressions, *(item.this for item in keys)]
    form = ", ".join(f"'k{position}', {{{position}}}" for position in range(len(values)))
    row = constructor("$keyed", "", f"named_struct({form})")
    unknown = (types.UNKNOWN,) * len(values)
    node.set("expressions", [call(CallSpec(row, unknown, types.UNKNOWN), values)])
    outer: exp.Expr = node
    while isinstance(outer.parent, exp.Filter):
        outer = outer.parent
    comparison = " ".join(
        _compared(f"k{position}", desc=bool(item.args.get("desc")), first=item.args["nulls_first"])
        for position, item in enumerate(keys, 1)
    )
    text = f"transform(array_sort({{0}}, (l, r) -> CASE {comparison} ELSE 0 END), s -> s.k0)"
    spec = CallSpec(constructor("$sorted", "", text), (types.UNKNOWN,), node.spec.returns)
    sorted_ = call(spec, [])
    outer.replace(sorted_)
    sorted_.set("expressions", [outer])


def _compared(key: str, *, desc: bool, first: bool) -> str:
    less, greater = ("1", "-1") if desc else ("-1", "1")
    null, other = ("-1", "1") if first else ("1", "-1")
    return (
        f"WHEN l.{key} IS NULL AND r.{key} IS NOT NULL THEN {null}"
        f" WHEN l.{key} IS NOT NULL AND r.{key} IS NULL THEN {other}"
        f" WHEN l.{key} < r.{key} THEN {less} WHEN l.{key} > r.{key} THEN {greater}"
    )


def _frame(frame: exp.WindowSpec) -> exp.WindowSpec:
    """Replaces a GROUPS frame by RANGE, which means the same where no groups are counted.

    Raises:
        SeamlineError: NOT_SUPPORTED when groups of equal rows are counted, or the frame is empty,
            which Spark cannot do.
    """
    if frame.meta.get(EMPTY_FRAME):
        raise SeamlineError(
            NOT_SUPPORTED,
            "Spark does not support a window frame without rows",
            hint="Run it with engine = 'duckdb'.",
        )
    if str(frame.args.get("kind")).upper() != "GROUPS":
        return frame
    if any(isinstance(frame.args.get(key), exp.Expr) for key in ("start", "end")):
        raise SeamlineError(
            NOT_SUPPORTED,
            "Spark does not support GROUPS in a window frame",
            hint="Run it with engine = 'duckdb'.",
        )
    frame.set("kind", "RANGE")
    return frame


def _ordered(node: exp.Window) -> exp.Window:
    """Gives window functions that need an order, but have none, one in which all rows are equal."""
    function = node.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    needs_order = isinstance(function, Call) and function.spec.overload.kind == "window"
    if needs_order and node.args.get("order") is None:
        node.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Boolean(this=True))]))
    return node


# --- IN with a subquery --------------------------------------------------------------------------


def _only_filters(node: exp.In) -> bool:
    """Whether null and false have the same effect at this node: both drop the row."""
    inner: exp.Expr = node
    if isinstance(node.parent, exp.Not) or (
        isinstance(node.parent, exp.Paren) and isinstance(node.parent.parent, exp.Not)
    ):
        inner = node.find_ancestor(exp.Not) or node
    above = inner.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where | exp.Having)


def _tell_null_from_false(node: exp.In, names: _Names) -> None:
    """Rewrites `x IN (q)` as a value, which Spark computes as false where it should be null.

    It is null when q has rows, none of them equals x, and x or one of the rows is null.
    """
    value, query = node.this, node.args["query"].this
    if not _is_correlated(query):
        query = _as_cte(node, query, names)
    column = exp.column("c0", alias := names.new())
    counts = exp.Case(
        ifs=[
            exp.If(this=exp.EQ(this=_count(), expression=_number(0)), true=_number(0)),
            exp.If(this=exp.LT(this=_count(column), expression=_count()), true=_number(2)),
        ],
        default=_number(1),
    )
    facts = exp.Subquery(this=exp.select(counts).from_(source(query.copy(), alias)))
    is_null = exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null())
    least = exp.Case(ifs=[exp.If(this=is_null, true=_number(0))], default=_number(1))
    is_in = exp.In(this=value.copy(), query=exp.Subquery(this=query.copy()))
    node.replace(
        exp.Paren(
            this=exp.Case(
                ifs=[
                    exp.If(this=is_in, true=exp.Boolean(this=True)),
                    exp.If(this=exp.GT(this=facts, expression=least), true=exp.Null()),
                ],
                default=exp.Boolean(this=False),
            )
        )
    )


def _is_correlated(query: exp.Expr) -> bool:
    """Whether the query reads columns of an enclosing query."""
    aliases = {alias.name for alias in query.find_all(exp.TableAlias)}
    return any(
        column.table and column.table not in aliases for column in query.find_all(exp.Column)
    )


def _as_cte(node: exp.Expr, query: exp.Expr, names: _Names) -> exp.Expr:
    """Moves the query into the WITH of the one around the node, so that it is written once."""
    name = names.new()
    query_around: exp.Expr | None = node.find_ancestor(exp.Select)
    while isinstance(query_around.parent if query_around else None, exp.SetOperation):
        query_around = query_around.parent if query_around else None  # WITH comes before all parts
    assert query_around is not None
    cte = exp.CTE(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name)))
    with_ = query_around.args.get("with_")
    if with_ is None:
        query_around.set("with_", exp.With(expressions=[cte]))
    else:
        with_.append("expressions", cte)
    table = exp.Table(
        this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(names.new()))
    )
    return exp.select(exp.column("c0", table.alias)).from_(table)


def _count(node: exp.Expr | None = None) -> exp.Expr:
    return exp.Count(this=exp.Star() if node is None else node.copy())


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


# --- Groups of no rows ---------------------------------------------------------------------------


def _answer_grouping(select: exp.Select) -> None:
    """Replaces grouping() by 0 in a query with one grouping set: Spark needs several for it."""
    group = select.args.get("group")
    if group is None or group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
        return
    for part in (*select.expressions, select.args.get("having"), select.args.get("order")):
        for node in list(part.find_all(Call)) if part is not None else ():
            if node.spec.overload.name == GROUPING and node.find_ancestor(exp.Query) is select:
                node.replace(_number(0))


def _drop_empty_group(select: exp.Select) -> None:
    """Drops a bare `GROUP BY ()` where an aggregate means the same group."""
    group = select.args.get("group")
    sets = group.expressions if group is not None else []
    while len(sets) == 1 and isinstance(sets[0], exp.GroupingSets):
        sets = sets[0].expressions
    is_empty = len(sets) == 1 and isinstance(sets[0], exp.Tuple) and not sets[0].expressions
    if is_empty and any(map(has_aggregate, select.expressions)):
        select.set("group", None)


def _groups_no_rows(group: exp.Group | None) -> bool:
    """Whether one grouping set is empty: it has a row even when there are no rows to group.

    Raises:
        SeamlineError: NOT_SUPPORTED if there are several, each of which has such a row.
    """
    sets = math.prod(map(_empty_sets, group.expressions)) if group is not None else 0
    if sets > 1:
        raise SeamlineError(
            NOT_SUPPORTED,
            "Spark cannot compute the group of all rows several times",
            hint="Run it with engine = 'duckdb'.",
        )
    return sets == 1


def _empty_sets(item: exp.Expr) -> int:
    match item:
        case exp.Rollup() | exp.Cube():
            return 1
        case exp.GroupingSets():
            return sum(map(_empty_sets, item.expressions))
        case exp.Tuple():
            return int(not item.expressions)
    return 0


def _total_of_no_rows(select: exp.Select, names: _Names) -> None:
    """Groups in a subquery joined to one row, so that zero groups still yield the grand total."""
    groups = InnerQuery(names.new())
    grouped = list(keys(select.args["group"].expressions))

    def replace(node: exp.Expr) -> exp.Expr:
        if node in grouped:
            return groups.column(node)
        aggregate = aggregate_of(node, select)
        if aggregate is None:
            return node
        value = groups.column(node)
        if aggregate.spec.overload.name == GROUPING:
            everything = _number((1 << len(aggregate.expressions)) - 1)
            return exp.Coalesce(this=value, expressions=[everything])
        if aggregate.spec.overload.name in _ZERO_OF_NONE:
            return exp.Coalesce(this=value, expressions=[_number(0)])
        return value

    for part in computed_of_groups(select):
        part.transform(replace, copy=False)
    groups.take_groups(select)
    one = exp.select(exp.alias_(exp.Boolean(this=True), "c0"))
    select.set("from_", exp.From(this=source(one, names.new())))
    join = exp.Join(this=groups.source(), side="LEFT", on=exp.Boolean(this=True))
    select.set("joins", [join])


_ZERO_OF_NONE = frozenset({"count", "count_if", "approx_distinct", "regr_count"})
