"""Kernels of numbers that the engines lack, or on which they differ."""

from __future__ import annotations

import bisect
import decimal
import math
import statistics
from collections.abc import Sequence

from seamline.sql.kernels.arguments import require

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_RADIX_MAX = 36
_EXACT = decimal.Context(prec=80)


def round_integer(value: int, places: int) -> int:
    """Rounds half away from zero; negative places are those before the point."""
    if places >= 0:
        return value
    unit: int = 10 ** min(-places, 40)
    rounded = (abs(value) + unit // 2) // unit * unit
    return -rounded if value < 0 else rounded


def truncate_decimal(value: decimal.Decimal, places: int) -> decimal.Decimal:
    """Truncates at a place; the scale is kept, and digits past the place are zeros."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if places >= -exponent:
        return value
    if -places >= len(digits) + exponent:
        return decimal.Decimal(0).quantize(decimal.Decimal((0, (1,), exponent)), context=_EXACT)
    cut = value.quantize(decimal.Decimal((0, (1,), -places)), decimal.ROUND_DOWN, _EXACT)
    return cut.quantize(decimal.Decimal((0, (1,), exponent)), context=_EXACT)


def logarithm(base: float, value: float) -> float:
    """Returns the logarithm to a base."""
    top, bottom = _natural(value), _natural(base)
    if bottom == 0:
        return math.nan if top == 0 or math.isnan(top) else math.copysign(math.inf, top)
    if math.isinf(top) and math.isinf(bottom):
        return math.nan
    return top / bottom


def _natural(value: float) -> float:
    if value == 0:
        return -math.inf
    return math.nan if value < 0 else math.log(value)


# --- Bases ---------------------------------------------------------------------------------------


def from_base(text: str, radix: int) -> int:
    """Parses a whole number in a base of 2 to 36.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(2 <= radix <= _RADIX_MAX, f"a radix must be between 2 and 36, not {radix}")
    digits = text.lower()
    unsigned = digits[1:] if digits[:1] in {"+", "-"} else digits
    allowed = _DIGITS[:radix]
    is_number = bool(unsigned) and all(digit in allowed for digit in unsigned)
    require(is_number, f"{text!r} is not a number of base {radix}")
    value = int(digits, radix)
    require(-(2**63) <= value < 2**63, f"{text!r} is not a bigint")
    return value


def to_base(value: int, radix: int) -> str:
    """Writes a whole number in a base of 2 to 36.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(2 <= radix <= _RADIX_MAX, f"a radix must be between 2 and 36, not {radix}")
    left, digits = abs(value), ""
    while left:
        left, digit = divmod(left, radix)
        digits = _DIGITS[digit] + digits
    return ("-" if value < 0 else "") + (digits or "0")


# --- Buckets -------------------------------------------------------------------------------------


def width_bucket(value: float, low: float, high: float, count: int) -> int:
    """Returns the equal-width bucket of a value: 0 below all buckets, `count` + 1 above.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(count > 0, "the number of buckets must be above 0")
    require(not math.isnan(value), "a value must be a number")
    require(math.isfinite(low) and math.isfinite(high), "bounds must be finite")
    require(low != high, "bounds differ")
    lower, upper = min(low, high), max(low, high)
    if value < lower:
        bucket = 0
    elif value >= upper:
        bucket = count + 1
    else:
        bucket = int(count * (value - lower) / (upper - lower)) + 1
    return bucket if low < high else count - bucket + 1


def bucket_among(value: float, bins: Sequence[float | None]) -> int:
    """Returns how many of the ordered bounds are not above a value.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(len(bins) > 0, "there must be a bound")
    require(not math.isnan(value), "a value must be a number")
    bounds = [bound for bound in bins if bound is not None and math.isfinite(bound)]
    require(len(bounds) == len(bins), "bounds must be finite")
    require(bounds == sorted(bounds), "bounds must be in order")
    return bisect.bisect_right(bounds, value)


# --- Bits ----------------------------------------------------------------------------------------


def signed(value: int, bits: int) -> int:
    """Returns the lowest bits of a number, read as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def bit_count(value: int, bits: int) -> int:
    """Returns how many bits are set in two's complement of a given width.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(2 <= bits <= 64, f"the number of bits must be between 2 and 64, not {bits}")
    fits = -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    require(fits, f"{value} does not fit into {bits} bits")
    return (value & ((1 << bits) - 1)).bit_count()


# --- Statistics ----------------------------------------------------------------------------------


def normal_cdf(mean: float, deviation: float, value: float) -> float:
    """Returns the cumulative probability of a value in a normal distribution.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(deviation > 0, "a standard deviation must be above 0")
    return 0.5 * math.erfc((mean - value) / (deviation * math.sqrt(2)))


def inverse_normal_cdf(mean: float, deviation: float, probability: float) -> float:
    """Returns the value at a cumulative probability of a normal distribution.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(0 < probability < 1, "a probability must be above 0 and below 1")
    require(deviation > 0, "a standard deviation must be above 0")
    return statistics.NormalDist(mean, deviation).inv_cdf(probability)
