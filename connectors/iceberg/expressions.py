"""Translates our predicates to PyIceberg expressions, to prune by partition and file statistics.

Only what Iceberg evaluates as the engines do is translated. The engines order NaN above every
number, while Iceberg's statistics leave it out; so `>`, `>=` and `<>` on floating-point columns are
not pushed down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg import expressions as iceberg
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from seamline.sql import comparisons, types
from seamline.sql.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
)
from seamline.sql.types import Field, Varbinary

_COMPARISONS: Mapping[str, Any] = {
    "=": iceberg.EqualTo,
    "<>": iceberg.NotEqualTo,
    "<": iceberg.LessThan,
    "<=": iceberg.LessThanOrEqual,
    ">": iceberg.GreaterThan,
    ">=": iceberg.GreaterThanOrEqual,
}
_NULLS: Mapping[bool, Any] = {True: iceberg.NotNull, False: iceberg.IsNull}
_STARTS_WITH: Any = iceberg.StartsWith
_IN: Any = iceberg.In
_WRONG_WITH_NAN = frozenset({">", ">=", "<>"})


def to_iceberg(predicate: Predicate | None, fields: Mapping[str, Field]) -> BooleanExpression:
    """Returns an expression that is true at least where the predicate is.

    Args:
        predicate: The predicate; None is true.
        fields: The columns that it may refer to, as they are now, by the names that it uses. A
            column may since have been renamed, or its type promoted. Conditions on other columns
            count as true.
    """
    match predicate:
        case None:
            return AlwaysTrue()
        case And(parts):
            return _combine(iceberg.And, [to_iceberg(part, fields) for part in parts], AlwaysTrue())
        case Or(parts):
            return _combine(iceberg.Or, [to_iceberg(part, fields) for part in parts], AlwaysFalse())
    field = fields.get(predicate.column)
    if field is None or not _has_bounds(field.type):
        return AlwaysTrue()
    found: BooleanExpression = _leaf(_typed(predicate, field), field)
    return found


def _has_bounds(type_: types.Type) -> bool:
    """Whether statistics of the type are comparable with predicates; some count nanoseconds."""
    if isinstance(type_, types.Timestamp):
        return not type_.in_nanoseconds
    nested = isinstance(type_, types.Row | types.Array | types.Map)
    return not nested and type_ not in {types.JSON, types.UNKNOWN}


def _typed(predicate: Comparison | In | IsNull | StartsWith, field: Field) -> Predicate | None:
    """Adapts a predicate to the current column; PyIceberg rejects or rounds other types' values."""
    match predicate:
        case Comparison(_, operator, value):
            return comparisons.comparison(field.name, field.type, operator, value)
        case In(_, values):
            return comparisons.membership(field.name, field.type, values)
    return predicate


def _leaf(predicate: Predicate | None, field: Field) -> Any:
    name, type_ = field.name, field.type
    match predicate:
        case Or(()):
            return AlwaysFalse()
        case IsNull(_, negated):
            return _NULLS[negated](name)
        case StartsWith(_, prefix) if type_ == types.VARCHAR:
            return _STARTS_WITH(name, prefix)
        case Comparison() | In() if isinstance(type_, Varbinary):
            return AlwaysTrue()
        case In(_, values):
            return _IN(name, values)
        case Comparison(_, operator, value):
            if type_ in types.FLOATS and operator in _WRONG_WITH_NAN:
                return AlwaysTrue()
            return _COMPARISONS[operator](name, value)
    return AlwaysTrue()


def _combine(
    kind: Any, parts: list[BooleanExpression], neutral: BooleanExpression
) -> BooleanExpression:
    """Returns the combination of all parts, as a tree that is no deeper than it must be."""
    if len(parts) > 1:
        combined: BooleanExpression = kind(*parts)
        return combined
    return parts[0] if parts else neutral
