"""Pushes query filters that concern a single scan into that scan.

The query keeps the filters. WHERE and inner join conditions apply to every source. For a source
whose rows an outer join may replace with nulls, they apply only if they reject nulls. The condition
of an outer join applies only to its null-supplied side. A pushed predicate holds values of the
columns' own types; a filter that cannot be expressed exactly that way is not pushed.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from seamline.planners.plan.logical import LogicalPlan
from seamline.sql import comparisons, predicates, time_zones
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import Call
from seamline.sql.expressions.naming import name_of_scan_column
from seamline.sql.predicates import (
    And,
    Comparison,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    Value,
)
from seamline.sql.types import Field


def push_predicates(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    if not plan.scans:
        return plan
    columns = {
        scan.scan_id: {field.name.lower(): field for field in scan.columns} for scan in plan.scans
    }
    by_scan: dict[str, list[Predicate]] = {scan.scan_id: [] for scan in plan.scans}
    for select in plan.query.tree.find_all(exp.Select):
        for scan_id, predicate in _pushable(select, columns):
            by_scan[scan_id].append(predicate)
    scans = tuple(
        dataclasses.replace(
            scan, predicate=predicates.conjunction(scan.predicate, *by_scan[scan.scan_id])
        )
        if by_scan[scan.scan_id]
        else scan
        for scan in plan.scans
    )
    return dataclasses.replace(plan, scans=scans)


def _pushable(
    select: exp.Select, columns: Mapping[str, Mapping[str, Field]]
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
            yield from _of_sources(condition, sources, nullable, columns)
        elif side == "LEFT":
            yield from _of_sources(condition, {name: join.this}, set(), columns)
        elif side == "RIGHT":
            others = {n: s for n, s in sources.items() if n != name}
            yield from _of_sources(condition, others, nullable_before, columns)
    where = select.args.get("where")
    if where is not None:
        yield from _of_sources(where.this, sources, nullable, columns)


def _of_sources(
    condition: exp.Expr,
    sources: Mapping[str, exp.Expr],
    nullable: set[str],
    columns: Mapping[str, Mapping[str, Field]],
) -> Iterator[tuple[str, Predicate]]:
    for part in _conjuncts(condition):
        owners = {column.table for column in part.find_all(exp.Column)}
        if len(owners) != 1:
            continue
        owner = owners.pop()
        source = sources.get(owner)
        if not isinstance(source, exp.Table) or source.name not in columns:
            continue
        predicate = to_predicate(part, columns[source.name])
        if predicate is None or (owner in nullable and not rejects_nulls(predicate)):
            continue
        yield source.name, predicate


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.And):
        for part in inner.flatten():
            yield from _conjuncts(part)
    else:
        yield inner


def rejects_nulls(predicate: Predicate) -> bool:
    """Whether an all-null row fails the predicate."""
    match predicate:
        case And(parts):
            return any(rejects_nulls(part) for part in parts)
        case Or(parts):
            return all(rejects_nulls(part) for part in parts)
        case IsNull(_, negated):
            return negated
        case _:
            return True


def to_predicate(node: exp.Expr, columns: Mapping[str, Field]) -> Predicate | None:
    """Returns the predicate equivalent to an expression over one scan; None if there is none.

    Args:
        node: A boolean expression.
        columns: The scan's columns by lower-case name.
    """
    node = node.unnest()
    match node:
        case exp.And() | exp.Or():
            parts = [to_predicate(part, columns) for part in node.flatten()]
            if any(part is None for part in parts):
                return None
            pushed = tuple(part for part in parts if part is not None)
            return And(pushed) if isinstance(node, exp.And) else Or(pushed)
        case exp.Not():
            inner = to_predicate(node.this, columns)
            return None if inner is None else predicates.negation(inner)
        case exp.Is() if isinstance(node.expression, exp.Null):
            column = _column(node.this, columns)
            return None if column is None else IsNull(column.name)
        case exp.Between():
            low = _compared(node.this, ">=", node.args["low"], columns)
            high = _compared(node.this, "<=", node.args["high"], columns)
            return None if low is None or high is None else And((low, high))
        case exp.In() if not node.args.get("query"):
            return _in(node, columns)
        case exp.Like():
            return _like(node, columns)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            operator = _OPERATORS[type(node)]
            return _compared(node.this, operator, node.expression, columns) or _compared(
                node.expression, _MIRRORED[operator], node.this, columns
            )
        case exp.Column():
            column = _column(node, columns)
            return None if column is None else Comparison(column.name, "=", True)
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


def _compared(
    left: exp.Expr, operator: str, right: exp.Expr, columns: Mapping[str, Field]
) -> Predicate | None:
    """Returns the comparison of a column (left) with a constant (right); None if it is not one."""
    column, value = _column(left, columns), constant(right)
    if column is None and isinstance(value, datetime.datetime):
        column, value = _in_zone(left, value, columns)
    if column is None or value is None:
        return None
    return comparisons.comparison(column.name, column.type, operator, value)


def _in_zone(
    node: exp.Expr, instant: datetime.datetime, columns: Mapping[str, Field]
) -> tuple[Field | None, Value | None]:
    """Returns the column whose local times an expression makes instants, and that of the instant.

    None for any other expression, or if the clocks of its zone change nearby.
    """
    node = node.unnest()
    if not isinstance(node, Call) or instant.tzinfo is None:
        return None, None
    zone = casts.zone_of(node.spec.overload)
    if zone is None or not comparisons.widens(node.spec.parameters[0], node.spec.returns):
        return None, None
    local = time_zones.local_far_from_changes(instant.astimezone(datetime.UTC), zone)
    return _column(node.expressions[0], columns), local


def _in(node: exp.In, columns: Mapping[str, Field]) -> Predicate | None:
    column = _column(node.this, columns)
    values = [constant(item) for item in node.expressions]
    if column is None or any(value is None for value in values):
        return None
    not_null = [value for value in values if value is not None]
    return comparisons.membership(column.name, column.type, not_null)


def _like(node: exp.Like, columns: Mapping[str, Field]) -> Predicate | None:
    column, pattern = _column(node.this, columns), constant(node.expression)
    if column is None or not isinstance(pattern, str):
        return None
    prefix = pattern.split("%", 1)[0].split("_", 1)[0]
    if prefix == pattern:
        return Comparison(column.name, "=", pattern)
    return StartsWith(column.name, prefix) if prefix and pattern == prefix + "%" else None


def _column(node: exp.Expr, columns: Mapping[str, Field]) -> Field | None:
    """Returns the column an expression denotes, ignoring casts that preserve values and order."""
    node = node.unnest()
    while isinstance(node, Call) and _keeps_values(node):
        node = node.expressions[0].unnest()
    if not isinstance(node, exp.Column):
        return None
    return columns.get(name_of_scan_column(node.name))


def _keeps_values(node: Call) -> bool:
    spec = node.spec
    return spec.overload.name == "cast" and comparisons.widens(spec.parameters[0], spec.returns)


def constant(node: exp.Expr) -> Value | None:
    """Returns the typed value of a constant expression; None if not constant, null or uncertain."""
    node = node.unnest()
    match node:
        case exp.Literal() if node.is_string:
            return node.name
        case exp.Literal():
            return int(node.name)
        case exp.Boolean():
            return bool(node.this)
        case Call() if node.spec.constant is not None:
            value: Value = node.spec.constant
            return value
        case Call() if len(node.expressions) == 1:
            return _computed(node, constant(node.expressions[0]))
    return None


def _computed(node: Call, value: Value | None) -> Value | None:
    """Returns a constant after negation or a cast; None if that is not possible."""
    match node.spec.overload.name, value:
        case _, None:
            return None
        case "cast", _:
            return comparisons.converted(value, node.spec.returns)
        case "$negate", decimal.Decimal():
            return value.copy_negate()  # `-` would round it
        case "$negate", int() | float():
            return -value
    return None
