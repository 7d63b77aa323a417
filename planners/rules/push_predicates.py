"""Filters of the query, as far as they speak of one scan alone, are handed to that scan.

The query keeps them. WHERE and the conditions of inner joins apply to every source, but to a
source whose rows an outer join may replace by nulls only when no null can pass; the condition of
an outer join applies to its null-supplied side alone.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from seamline.planners.logical import LogicalPlan
from seamline.sql import predicates, types
from seamline.sql.calls import Call
from seamline.sql.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
)


def push_predicates(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    names = {
        scan.scan_id: {field.name.lower(): field.name for field in scan.columns}
        for scan in plan.scans
    }
    found: dict[str, list[Predicate]] = {scan.scan_id: [] for scan in plan.scans}
    for select in plan.query.tree.find_all(exp.Select):
        for scan_id, predicate in _pushable(select, names):
            found[scan_id].append(predicate)
    scans = tuple(
        dataclasses.replace(
            scan, predicate=predicates.conjunction(scan.predicate, *found[scan.scan_id])
        )
        if found[scan.scan_id]
        else scan
        for scan in plan.scans
    )
    return dataclasses.replace(plan, scans=scans)


def _pushable(
    select: exp.Select, names: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, Predicate]]:
    from_ = select.args.get("from_")
    if from_ is None:
        return
    sources = {from_.this.alias_or_name: from_.this}
    nullable: set[str] = set()
    for join in select.args.get("joins") or ():
        side = (join.side or "").upper()
        name = join.this.alias_or_name
        nullable_before = set(nullable)
        if side in {"RIGHT", "FULL"}:
            nullable |= set(sources)
        sources[name] = join.this
        if side in {"LEFT", "FULL"}:
            nullable.add(name)
        condition = join.args.get("on")
        if condition is None:
            continue
        if not side:
            yield from _of_sources(condition, sources, nullable, names)
        elif side == "LEFT":
            yield from _of_sources(condition, {name: join.this}, set(), names)
        elif side == "RIGHT":
            others = {n: s for n, s in sources.items() if n != name}
            yield from _of_sources(condition, others, nullable_before, names)
    where = select.args.get("where")
    if where is not None:
        yield from _of_sources(where.this, sources, nullable, names)


def _of_sources(
    condition: exp.Expr,
    sources: Mapping[str, exp.Expr],
    nullable: set[str],
    names: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, Predicate]]:
    for part in _conjuncts(condition):
        owners = {column.table for column in part.find_all(exp.Column)}
        if len(owners) != 1:
            continue
        owner = owners.pop()
        source = sources.get(owner)
        if not isinstance(source, exp.Table) or source.name not in names:
            continue
        predicate = to_predicate(part, names[source.name])
        if predicate is None or (owner in nullable and not rejects_nulls(predicate)):
            continue
        yield source.name, predicate


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = _inner(node)
    if isinstance(inner, exp.And):
        for part in inner.flatten():
            yield from _conjuncts(part)
    else:
        yield inner


def rejects_nulls(predicate: Predicate) -> bool:
    """Whether a row of nothing but nulls fails it."""
    match predicate:
        case And(parts):
            return any(rejects_nulls(part) for part in parts)
        case Or(parts):
            return all(rejects_nulls(part) for part in parts)
        case IsNull(_, negated):
            return negated
        case _:
            return True


def to_predicate(node: exp.Expr, names: Mapping[str, str]) -> Predicate | None:
    """The predicate an expression over one scan amounts to, None when it is none of the language.

    Args:
        node: A boolean expression.
        names: Declared names of the scan's columns by lower-case name.
    """
    node = _inner(node)
    match node:
        case exp.And() | exp.Or():
            parts = [to_predicate(part, names) for part in node.flatten()]
            if any(part is None for part in parts):
                return None
            known = tuple(part for part in parts if part is not None)
            return And(known) if isinstance(node, exp.And) else Or(known)
        case exp.Not():
            inner = to_predicate(node.this, names)
            return None if inner is None else predicates.negation(inner)
        case exp.Is() if isinstance(node.expression, exp.Null):
            column = _column(node.this, names)
            return None if column is None else IsNull(column)
        case exp.Between():
            return _between(node, names)
        case exp.In() if not node.args.get("query"):
            return _in(node, names)
        case exp.Like():
            return _like(node, names)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node, names)
        case exp.Column():
            column = _column(node, names)
            return None if column is None else Comparison(column, "=", True)
    return None


_OPERATORS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _comparison(node: exp.Binary, names: Mapping[str, str]) -> Predicate | None:
    operator = _OPERATORS[type(node)]
    left, right = node.this, node.expression
    column, value = _column(left, names), constant(right)
    if column is None:
        column, value = _column(right, names), constant(left)
        operator = _MIRRORED[operator]
    if column is None or value is None:
        return None
    return Comparison(column, operator, value)


def _between(node: exp.Between, names: Mapping[str, str]) -> Predicate | None:
    column = _column(node.this, names)
    low, high = constant(node.args["low"]), constant(node.args["high"])
    if column is None or low is None or high is None:
        return None
    return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))


def _in(node: exp.In, names: Mapping[str, str]) -> Predicate | None:
    column = _column(node.this, names)
    values = [constant(item) for item in node.expressions]
    if column is None or any(value is None for value in values):
        return None
    return In(column, tuple(dict.fromkeys(values)))


def _like(node: exp.Like, names: Mapping[str, str]) -> Predicate | None:
    column, pattern = _column(node.this, names), constant(node.expression)
    if column is None or not isinstance(pattern, str):
        return None
    prefix = pattern.split("%", 1)[0].split("_", 1)[0]
    if prefix == pattern:
        return Comparison(column, "=", pattern)
    return StartsWith(column, prefix) if prefix and pattern == prefix + "%" else None


def _column(node: exp.Expr, names: Mapping[str, str]) -> str | None:
    """The column an expression is, seen through conversions that keep order and equality."""
    node = _inner(node)
    while isinstance(node, Call) and _keeps_order(node):
        node = _inner(node.expressions[0])
    if isinstance(node, exp.Column):
        return names.get(node.name)
    return None


def _keeps_order(node: Call) -> bool:
    spec = node.spec
    return (
        spec.overload.name == "cast"
        and spec.returns in types.INTEGERS
        and spec.parameters[0] in types.INTEGERS
        and types.INTEGERS.index(spec.parameters[0]) < types.INTEGERS.index(spec.returns)
    )


def constant(node: exp.Expr) -> Any:
    """The Python value of a constant expression, None when it is none or null."""
    node = _inner(node)
    match node:
        case exp.Literal() if node.is_string:
            return node.name
        case exp.Literal():
            return int(node.name)
        case exp.Boolean():
            return bool(node.this)
        case Call() if node.spec.constant is not None:
            return node.spec.constant
        case Call():
            return _computed(node)
    return None


def _computed(node: Call) -> Any:
    """A negated or converted literal."""
    name, returns = node.spec.overload.name, node.spec.returns
    if name not in {"$negate", "cast"} or len(node.expressions) != 1:
        return None
    value = constant(node.expressions[0])
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if name == "$negate":
        return -value
    if returns in types.INTEGERS and isinstance(value, int):
        return value
    if returns == types.DOUBLE:
        return float(value)
    if isinstance(returns, types.Decimal) and not isinstance(value, float):
        return decimal.Decimal(value)
    return None


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
