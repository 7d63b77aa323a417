"""Floating-point numbers as text, with the fewest digits that identify the same number.

A cast of a real to text keeps seven of them. Of numbers that one digit identifies, a second is
chosen so that the text is nearest to the number: the least double is `4.9E-324`.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from seamline.errors import INVALID_CAST, SeamlineError
from seamline.sql import types
from seamline.sql.kernels.kernel import Compute, Use
from seamline.sql.types import Decimal


def scientific(_: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that writes a real or double as `1.5E0`, and zero as `0E0`, as CAST does."""
    return _all_cast(arguments[0])


def all_scientific(_: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that writes the elements of arrays in the same form."""
    columns = [
        None if values is None else _all_cast(pa.array(values, arguments[0].type.value_type))
        for values in arguments[0].to_pylist()
    ]
    texts = [None if values is None else values.to_pylist() for values in columns]
    return pa.array(texts, pa.list_(pa.string()))


def _all_cast(values: pa.Array) -> pa.Array:
    written = _cast_real if pa.types.is_float32(values.type) else cast_double
    return pa.array([None if v is None else written(v) for v in values.to_pylist()], pa.string())


def cast_double(value: float) -> str:
    """Writes a double as a cast to text does."""
    if value == 0:
        return "-0E0" if math.copysign(1, value) < 0 else "0E0"
    return _scientific(np.float64(value))


def _cast_real(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return cast_double(value)
    shortest = decimal.Decimal(float(_scientific(np.float32(value))))
    with decimal.localcontext(prec=7, rounding=decimal.ROUND_HALF_UP):
        return _scientific(np.float64(float(+shortest)))


def _scientific(value: np.floating) -> str:
    if not np.isfinite(value):
        return not_finite(float(value))
    digits, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    if digits.endswith(".0"):
        nearest = f"{float(value):.1e}"
        if type(value)(nearest) == value:
            digits, _, exponent = nearest.partition("e")
    return f"{digits}E{int(exponent)}"


def real_as_decimal(*, safe: bool) -> Compute:
    """Returns a kernel that casts reals to decimals; if safe, what does not fit is null."""
    return functools.partial(_as_decimals, safe=safe)


def _as_decimals(use: Use, arguments: Sequence[pa.Array], *, safe: bool) -> pa.Array:
    target = use.returns
    assert isinstance(target, Decimal)
    numbers = []
    for value in arguments[0].to_pylist():
        number = None if value is None else _as_decimal(value, target)
        if number is None and value is not None and not safe:
            raise SeamlineError(
                INVALID_CAST, f"{plain_real(value)} is not a value of type {target}", hint=""
            )
        numbers.append(number)
    return pa.array(numbers, types.to_arrow(target))


def _as_decimal(value: float, target: Decimal) -> decimal.Decimal | None:
    """Rounds the shortest text of a real half away from zero; None if it does not fit."""
    if not math.isfinite(value):
        return None
    number = decimal.Decimal(_scientific(np.float32(value))) if value else decimal.Decimal(0)
    with decimal.localcontext(prec=100):
        unit = decimal.Decimal(1).scaleb(-target.scale)
        rounded = number.quantize(unit, decimal.ROUND_HALF_UP)
    return rounded if len(rounded.as_tuple().digits) <= target.precision else None


def not_finite(value: float) -> str:
    """Returns the text of NaN or an infinity."""
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def plain(value: float) -> str:
    """Writes a double with a point, and an exponent only if it is very large or small: `1.0E10`."""
    if value != value or value in (float("inf"), float("-inf")):
        return not_finite(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(decimal.Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    return _scientific(np.float64(value))


def plain_real(value: float) -> str:
    """Writes a real in the same way as `plain`."""
    number = np.float32(value)
    return plain(float(_scientific(number)) if np.isfinite(number) else value)
