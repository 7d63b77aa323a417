"""Comparisons of a column with a constant, expressed exactly in the column's own type.

An engine compares both sides in their common type. A predicate holds only values of its column's
type. So a constant of another type is replaced by its nearest neighbour (`whole > 2.5` becomes
`whole > 2`), or decides the comparison by itself (`whole = 2.5` holds for no row). Where neither
can be exact, there is no predicate. A predicate is true where the comparison is true and false
where it is false, so it may be negated. For a null, where the comparison is neither, the predicate
is never true.
"""

from __future__ import annotations

import ctypes
import datetime
import decimal
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from seamline.sql import coercion, types
from seamline.sql.predicates import FALSE, Comparison, In, IsNull, Predicate, Value
from seamline.sql.types import Decimal, Timestamp, Type, Varbinary

_TIMES = (types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ)

_FLOAT_DIGITS: Mapping[Type, tuple[int, int]] = {types.DOUBLE: (15, 22), types.REAL: (6, 10)}
"""Digit count and scale up to which every engine converts an exact number to the same float."""


def widens(source: Type, target: Type) -> bool:
    """Whether a cast from one type to the other preserves every value and the order of values."""
    if source == types.DATE and isinstance(target, Timestamp):
        return True
    if isinstance(source, Timestamp) and isinstance(target, Timestamp):
        return source.zoned <= target.zoned and source.precision <= target.precision
    one, other = coercion.as_decimal(source), coercion.as_decimal(target)
    if one is None or other is None:
        return source == target
    if isinstance(source, Decimal) and target in types.INTEGERS:
        return one.scale == 0 and one.precision < other.precision  # of ten digits, some do not fit
    return one.scale <= other.scale and one.precision - one.scale <= other.precision - other.scale


def comparison(column: str, type_: Type, operator: str, value: Value) -> Predicate | None:
    """Returns `column operator value` in terms of the column's type, or None if not exact."""
    nearest = _nearest(value, type_)
    if nearest is None:
        return None
    if nearest.is_exact and nearest.below is not None:
        return Comparison(column, operator, nearest.below)
    not_null = IsNull(column, negated=True)
    match operator:
        case "=":
            return FALSE
        case "<>":
            return not_null
        case "<" | "<=":
            return FALSE if nearest.below is None else Comparison(column, "<=", nearest.below)
        case _:
            return not_null if nearest.below is None else Comparison(column, ">", nearest.below)


def membership(column: str, type_: Type, values: Iterable[Value]) -> Predicate | None:
    """Returns `column IN (values)` in terms of the column's type, or None if not exact."""
    members = []
    for value in values:
        nearest = _nearest(value, type_)
        if nearest is None:
            return None
        if nearest.is_exact and nearest.below is not None:
            members.append(nearest.below)
    return In(column, tuple(dict.fromkeys(members))) if members else FALSE


def converted(value: Value, type_: Type) -> Value | None:
    """Returns a constant cast to a type; None when that changes it, or engines may disagree."""
    if type_ in _FLOAT_DIGITS and not isinstance(value, float):
        return _floating(value, type_)
    nearest = _nearest(value, type_)
    return nearest.below if nearest is not None and nearest.is_exact else None


class _Nearest(NamedTuple):
    """Where a constant is among the values of a type.

    Attributes:
        below: The greatest value that is not above the constant; None when all values are above.
        is_exact: Whether `below` is the constant itself.
    """

    below: Value | None
    is_exact: bool


def _nearest(value: Value, type_: Type) -> _Nearest | None:
    """Returns where the constant is; None when the type does not compare with such constants."""
    match type_, value:
        case types.BOOLEAN, bool():
            return _Nearest(value, is_exact=True)
        case _, bool():
            return None
        case Decimal(precision, scale), int() | decimal.Decimal():
            return _nearest_decimal(value, precision, scale)
        case _, int() | decimal.Decimal() if type_ in types.INTEGERS:
            return _nearest_integer(value, 8 << types.INTEGERS.index(type_))
        case types.DOUBLE, float() if math.isfinite(value):
            return _Nearest(value, is_exact=True)
        case types.REAL, float() if math.isfinite(value) and _as_real(value) == value:
            return _Nearest(value, is_exact=True)
        case (types.VARCHAR, str()) | (Varbinary(), bytes()):
            return _Nearest(value, is_exact=True)
        case _, datetime.date() if type_ in _TIMES:
            return _nearest_time(value, type_)
    return None


def _nearest_integer(value: int | decimal.Decimal, bits: int) -> _Nearest:
    whole, limit = math.floor(value), 2 ** (bits - 1)
    if whole < -limit:
        return _Nearest(None, is_exact=False)
    return _Nearest(min(whole, limit - 1), is_exact=whole == value and whole < limit)


def _nearest_decimal(value: int | decimal.Decimal, precision: int, scale: int) -> _Nearest:
    # uses whole numbers throughout: Python's decimals round to the precision of their context
    numerator, denominator = value.as_integer_ratio()
    unscaled, rest = divmod(numerator * 10**scale, denominator)
    limit = 10**precision
    if unscaled <= -limit:
        return _Nearest(None, is_exact=False)
    nearest = min(unscaled, limit - 1)
    digits = tuple(int(digit) for digit in str(abs(nearest)))
    below = decimal.Decimal((nearest < 0, digits, -scale))
    return _Nearest(below, is_exact=rest == 0 and unscaled < limit)


def _nearest_time(value: datetime.date, type_: Type) -> _Nearest:
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    elif value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if type_ == types.DATE:
        return _Nearest(value.date(), is_exact=value.time() == datetime.time())
    if type_ == types.TIMESTAMP_TZ:
        value = value.replace(tzinfo=datetime.UTC)
    return _Nearest(value, is_exact=True)


def _floating(value: Value, type_: Type) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return None
    _, digits, exponent = decimal.Decimal(value).as_tuple()
    digits_max, scale_max = _FLOAT_DIGITS[type_]
    if len(digits) > digits_max or not -scale_max <= int(exponent) <= 0:
        return None
    return float(value) if type_ == types.DOUBLE else _as_real(float(value))


def _as_real(value: float) -> float:
    return ctypes.c_float(value).value
