"""Floating-point numbers as text, with the fewest digits that identify the same number."""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from seamline.sql.kernels.kernel import Use


def scientific(_: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that writes a real or double as `1.5E0`, as CAST does."""
    return _all_scientific(arguments[0])


def all_scientific(_: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that writes the elements of arrays in the same form."""
    found = [
        None if values is None else _all_scientific(pa.array(values, arguments[0].type.value_type))
        for values in arguments[0].to_pylist()
    ]
    texts = [None if values is None else values.to_pylist() for values in found]
    return pa.array(texts, pa.list_(pa.string()))


def _all_scientific(values: pa.Array) -> pa.Array:
    number = np.float32 if pa.types.is_float32(values.type) else np.float64
    texts = [None if v is None else _scientific(number(v)) for v in values.to_pylist()]
    return pa.array(texts, pa.string())


def _scientific(value: np.floating) -> str:
    if not np.isfinite(value):
        return not_finite(float(value))
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    return text.replace("e+", "E").replace("e", "E")


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
    return plain(float(str(number)) if np.isfinite(number) else value)
