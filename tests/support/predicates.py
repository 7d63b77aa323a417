"""Predicates evaluated over rows by three-valued logic: what pruning must agree with."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith

Row = Mapping[str, Any]
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def keeps(predicate: Predicate, row: Row) -> bool:
    """Whether the row passes: unknown drops it as false does."""
    return holds(predicate, row) is True


def holds(predicate: Predicate, row: Row) -> bool | None:
    """True, false or, for unknown, None."""
    match predicate:
        case And(parts):
            return _all(holds(part, row) for part in parts)
        case Or(parts):
            return _not(_all(_not(holds(part, row)) for part in parts))
        case IsNull(column, negated):
            return (row[column] is None) != negated
    value = row[predicate.column]
    if value is None:
        return None
    match predicate:
        case Comparison(_, sign, wanted):
            return _OPERATORS[sign](_ordered(value), _ordered(wanted))
        case In(_, values):
            return _ordered(value) in map(_ordered, values)
        case StartsWith(_, prefix):
            return bool(value.startswith(prefix))


def _ordered(value: Any) -> tuple[bool, Any]:
    """As the engines order floating numbers: NaN equals itself, above everything else."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def _all(found: Iterable[bool | None]) -> bool | None:
    known = list(found)
    if False in known:
        return False
    return None if None in known else True


def _not(found: bool | None) -> bool | None:
    return None if found is None else not found
