"""Comparisons of floating-point numbers by IEEE 754: NaN is neither equal, less nor greater.

Engines treat NaN as the greatest number and as equal to itself, as Trino does when it sorts and
groups. Where a literal number on one side makes both meanings the same, the engines' own comparison
is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from seamline.sql import types
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.trees import nodes_of

_NODES_MAX = 20
_UNLESS_NAN = {
    exp.EQ: ("NOT (isnan({0}) AND isnan({1}))", "="),
    exp.LT: ("NOT (isnan({1}) AND {0} IS NOT NULL)", "<"),
    exp.LTE: ("NOT (isnan({1}) AND {0} IS NOT NULL)", "<="),
    exp.GT: ("NOT (isnan({0}) AND {1} IS NOT NULL)", ">"),
    exp.GTE: ("NOT (isnan({0}) AND {1} IS NOT NULL)", ">="),
}


def by_ieee(node: exp.Binary) -> exp.Expr:
    """Returns a comparison of two doubles or reals that is false for NaN, or true if it is `<>`."""
    left, right = node.this, node.expression
    are_numbers = _is_number(left), _is_number(right)
    if all(are_numbers):
        return node
    if isinstance(node, exp.NEQ):
        if any(are_numbers):
            return node
        return _check(node, "isnan({0}) AND isnan({1})", "<>", either=True)
    test, sign = _UNLESS_NAN.get(type(node), ("", ""))
    if not test:
        return node  # IS DISTINCT FROM treats NaN as equal to itself
    decides = any(are_numbers) if sign == "=" else are_numbers["<" in sign]
    return node if decides else _check(node, test, sign, either=False)


def is_one_of(value: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr | None:
    """Returns `value IN (items)`, or None where the engines' own IN means the same."""
    if all(map(_is_number, items)):
        return None
    holes = [f"{{{index}}}" for index in range(1, len(items) + 1)]
    missing = " OR ".join(f"{hole} IS NULL" for hole in holes)
    return _call(
        f"(CASE WHEN isnan({{0}}) THEN CASE WHEN {missing} THEN NULL ELSE FALSE END"
        f" ELSE {{0}} IN ({', '.join(holes)}) END)",
        value,
        *items,
    )


def is_between(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr | None:
    """Returns `value BETWEEN low AND high`, or None where the engines' own means the same.

    It is null only where the comparisons with both bounds are null, or one is null and the other
    true.
    """
    if _is_number(high):
        return None
    return _call(
        "(CASE WHEN isnan({0}) OR isnan({1}) OR isnan({2})"
        " THEN CASE WHEN {0} IS NOT NULL AND ({1} IS NOT NULL OR {2} IS NOT NULL) THEN FALSE END"
        " ELSE {0} BETWEEN {1} AND {2} END)",
        value,
        low,
        high,
    )


def numbers_of(column: exp.Expr) -> exp.Expr:
    """Returns a condition that keeps what may equal something: nulls and all numbers but NaN."""
    return _call("(CASE WHEN isnan({0}) THEN FALSE ELSE TRUE END)", column)


def may_be_nan(nodes: Sequence[exp.Expr]) -> bool:
    """Whether any of the nodes is not a literal number."""
    return not all(map(_is_number, nodes))


def _check(node: exp.Binary, test: str, sign: str, *, either: bool) -> exp.Expr:
    left, right = node.this, node.expression
    if len(nodes_of(node)) > _NODES_MAX:
        join = "OR" if either else "AND"
        return _call(f"(({{0}} {sign} {{1}}) {join} ({test}))", left, right)
    checked = _call(f"({test})", left.copy(), right.copy())
    combined = exp.Or if either else exp.And
    return exp.Paren(this=combined(this=node, expression=checked))


def _call(template: str, *operands: exp.Expr) -> exp.Expr:
    overload = constructor(f"$nan {template}", template, template)
    spec = CallSpec(overload, (types.DOUBLE,) * len(operands), types.BOOLEAN)
    return call(spec, operands)


def _is_number(node: exp.Expr) -> bool:
    """Whether the node is a literal number, which cannot be NaN."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return not node.is_string
    if not isinstance(node, Call):
        return False
    if node.spec.constant is not None:
        return True
    is_conversion = node.spec.overload.name in {"cast", "$negate"} and len(node.expressions) == 1
    return is_conversion and _is_number(node.expressions[0])
