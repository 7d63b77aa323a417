"""Implicit type conversions, as in Trino.

Every implicit conversion that a statement relies on becomes an explicit cast in its tree, so that
neither engine applies rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import session_zone, time_zones, types
from seamline.sql.session_zone import SEVERAL_ZONES
from seamline.sql.types import (
    Array,
    Char,
    Decimal,
    Field,
    Map,
    Row,
    Time,
    Timestamp,
    Type,
    Varbinary,
)

_INTEGER_DIGITS: dict[Type, int] = {
    types.TINYINT: 3,
    types.SMALLINT: 5,
    types.INTEGER: 10,
    types.BIGINT: 19,
}


def as_decimal(type_: Type) -> Decimal | None:
    """Returns the decimal that holds every value of an exact numeric type, or None."""
    if isinstance(type_, Decimal):
        return type_
    digits = _INTEGER_DIGITS.get(type_)
    return None if digits is None else Decimal(digits, 0)


def common_type(left: Type, right: Type) -> Type | None:
    """Returns the common type of both sides of a comparison, set operation or CASE, or None."""
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return _common_moment(left, right)
    if isinstance(left, Time) and isinstance(right, Time):
        return _common_clock(left, right)
    if right == types.UNKNOWN or (left == right and not _has_moments(left)):
        return left  # those in containers may have other zones or digits, which equality ignores
    if left == types.UNKNOWN:
        return right
    if types.is_numeric(left) and types.is_numeric(right):
        return _common_number(left, right)
    match left, right:
        case (Timestamp(), types.DATE):
            return _common_moment(left, _MIDNIGHT)
        case (types.DATE, Timestamp()):
            return _common_moment(_MIDNIGHT, right)
        case Varbinary(), Varbinary():
            return left
        case Char(one_length), Char(other_length):
            return Char(max(one_length, other_length))
        case (Char(), types.VARCHAR) | (types.VARCHAR, Char()):
            return types.VARCHAR
        case Array(one), Array(other):
            element = common_type(one, other)
            return None if element is None else Array(element)
        case Map(key, value), Map(other_key, other_value):
            keys, values = common_type(key, other_key), common_type(value, other_value)
            return None if keys is None or values is None else Map(keys, values)
        case Row(fields), Row(others) if len(fields) == len(others):
            return _common_row(fields, others)
    return None


_MIDNIGHT = Timestamp(0, zoned=False)


def _has_moments(type_: Type) -> bool:
    return types.contains(type_, Timestamp) or types.contains(type_, Time)


def _common_moment(left: Timestamp, right: Timestamp) -> Timestamp:
    precision = max(left.precision, right.precision)
    if not left.zoned and not right.zoned:
        return Timestamp(precision, zoned=False)
    local = session_zone.current()
    zones = {moment.zone if moment.zoned else local for moment in (left, right)}
    zone = zones.pop() if len(zones) == 1 else SEVERAL_ZONES
    return Timestamp(precision, zoned=True, zone=zone)


def _common_clock(left: Time, right: Time) -> Time:
    precision = max(left.precision, right.precision)
    if not left.zoned and not right.zoned:
        return Time(precision)
    here = session_zone.current()
    zones = {t.zone if t.zoned else time_zones.offset_now(here) for t in (left, right)}
    return Time(precision, True, zones.pop() if len(zones) == 1 else SEVERAL_ZONES)


def common_type_of(all_types: Sequence[Type]) -> Type | None:
    """Returns the common type of all types, or None when there is none."""
    result: Type | None = types.UNKNOWN
    for type_ in all_types:
        result = None if result is None else common_type(result, type_)
    return result


def can_coerce(source: Type, target: Type) -> bool:
    """Whether a value of type `source` may be used where `target` is expected."""
    return common_type(source, target) == target


def _common_row(left: Sequence[Field], right: Sequence[Field]) -> Row | None:
    """Matches fields by position; a field with two different names becomes nameless."""
    fields = []
    for position, (one, other) in enumerate(zip(left, right, strict=True)):
        common = common_type(one.type, other.type)
        if common is None:
            return None
        has_name = one.name == other.name and not one.is_nameless and not other.is_nameless
        fields.append(
            Field(one.name, common) if has_name else types.nameless_field(position, common)
        )
    return Row(tuple(fields))


def _common_number(left: Type, right: Type) -> Type | None:
    for approximate in (types.DOUBLE, types.REAL):
        if approximate in (left, right):
            return approximate
    if left in types.INTEGERS and right in types.INTEGERS:
        return max(left, right, key=types.INTEGERS.index)
    one, other = as_decimal(left), as_decimal(right)
    assert one is not None
    assert other is not None
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return Decimal(min(whole + scale, types.MAX_DECIMAL_PRECISION), scale)
