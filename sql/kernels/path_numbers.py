"""Numbers of SQL's JSON paths: integers of 32 or 64 bits, doubles, and the decimals of a path."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seamline.sql.kernels import floating, json_texts
from seamline.sql.kernels.json_texts import Json, Number


class PathError(Exception):
    """Raised when a path does not fit a value, or a text is not JSON."""


_DIGITS = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
_INTEGER, _BIGINT = 2**31, 2**63


def number_of(value: Json) -> int | float | decimal.Decimal:
    """Returns a number to compute with: one of JSON that is not whole is a double.

    Raises:
        PathError: It is not a number, or has more than 64 bits.
    """
    if isinstance(value, decimal.Decimal):
        return value
    if not isinstance(value, Number):
        raise PathError("a value is not a number")
    if not json_texts.is_whole(value):
        return float(value)
    whole = int(value)
    if not -_BIGINT <= whole < _BIGINT:
        raise PathError("a number has more than 64 bits")
    return whole


def _json_of(value: float | decimal.Decimal) -> Json:
    if isinstance(value, decimal.Decimal):
        return value
    if isinstance(value, int):
        return Number(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return Number(floating.plain(value))


def computed(sign: str, left: Json, right: Json) -> Json:
    """Returns the result of an operator on two numbers.

    Raises:
        PathError: A value is not a number, the result has too many digits, or a divisor is zero.
    """
    one: Any = number_of(left)
    other: Any = number_of(right)
    try:
        if isinstance(one, float) or isinstance(other, float):
            return _json_of(_OF_DOUBLES[sign](float(one), float(other)))
        if isinstance(one, int) and isinstance(other, int):
            value = _OF_INTEGERS[sign](one, other)
            is_short = -_INTEGER <= one < _INTEGER and -_INTEGER <= other < _INTEGER
            limit = _INTEGER if is_short else _BIGINT
            if not -limit <= value < limit:
                raise PathError("a number is out of range")
            return _json_of(value)
        return _of_decimals(sign, decimal.Decimal(one), decimal.Decimal(other))
    except (ArithmeticError, ValueError) as error:
        raise PathError(str(error)) from error


def _of_decimals(sign: str, one: decimal.Decimal, other: decimal.Decimal) -> decimal.Decimal:
    match sign:
        case "+":
            return _DIGITS.add(one, other)
        case "-":
            return _DIGITS.subtract(one, other)
        case "*":
            return _DIGITS.multiply(one, other)
        case "%":
            return _DIGITS.remainder(one, other)
    precision = max(len(other.as_tuple().digits), _scale(other))
    scale = max(6, _scale(one) + precision + 1)
    return _DIGITS.quantize(_DIGITS.divide(one, other), decimal.Decimal(1).scaleb(-scale))


def _scale(value: decimal.Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _divided(one: int, other: int) -> int:
    whole = abs(one) // abs(other)
    return whole if (one < 0) == (other < 0) else -whole


def _divided_doubles(one: float, other: float) -> float:
    if other:
        return one / other
    return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one)


_OF_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": lambda a, b: a - b * _divided(a, b),
}
_OF_DOUBLES: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided_doubles,
    "%": lambda a, b: math.fmod(a, b) if b else math.nan,
}


def of_number(name: str, value: Json) -> Json:
    """Returns `ceiling`, `floor` or `abs` of a number, which stays of its kind.

    Raises:
        PathError: It is not a number.
    """
    number = number_of(value)
    if name == "abs":
        return _json_of(-number if number < 0 else number)
    if isinstance(number, int) or (isinstance(number, float) and not math.isfinite(number)):
        return _json_of(number)
    rounded = math.ceil(number) if name == "ceiling" else math.floor(number)
    return _json_of(float(rounded) if isinstance(number, float) else decimal.Decimal(rounded))


def as_double(value: Json) -> Json:
    """Returns a number, or a text of one, as a double.

    Raises:
        PathError: It is neither.
    """
    if type(value) is str:
        try:
            return _json_of(float(value.strip()))
        except ValueError as error:
            raise PathError("a text is not a number") from error
    return _json_of(float(number_of(value)))


def whole_index(values: Sequence[Json]) -> int:
    """Returns the position that a path in brackets finds, rounded to a whole number.

    Raises:
        PathError: It is not one number.
    """
    if len(values) != 1:
        raise PathError("the position of an element is not one number")
    return rounded(number_of(values[0]))


def rounded(number: float | decimal.Decimal) -> int:
    """Returns the nearest whole number; halves are rounded away from zero.

    Raises:
        PathError: There is none of 64 bits.
    """
    try:
        exact = decimal.Decimal(number)
        whole = int(exact.to_integral_value(rounding=decimal.ROUND_HALF_UP, context=_DIGITS))
    except (ArithmeticError, ValueError) as error:
        raise PathError(str(error)) from error
    if not -_BIGINT <= whole < _BIGINT:
        raise PathError("a number is out of range")
    return whole
