"""Probability distributions and confidence intervals."""

from __future__ import annotations

import math

from seamline.sql.kernels.arguments import require

_STEPS_MAX = 10_000
_TINY = 1e-300
_PRECISION = 1e-16
_HALVINGS = 200


def beta_cdf(a: float, b: float, value: float) -> float:
    """Returns the cumulative probability of a value in a beta distribution.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(a > 0 and b > 0, "both parameters of a beta distribution must be above 0")
    require(0 <= value <= 1, "a value of a beta distribution must be between 0 and 1")
    return _beta_share(a, b, value)


def inverse_beta_cdf(a: float, b: float, probability: float) -> float:
    """Returns the value at a cumulative probability of a beta distribution, found by bisection.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(a > 0 and b > 0, "both parameters of a beta distribution must be above 0")
    require(0 <= probability <= 1, "a probability must be between 0 and 1")
    if probability in {0.0, 1.0}:
        return probability
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        if _beta_share(a, b, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_pdf(value: float, freedom: float) -> float:
    """Returns the probability density of Student's t-distribution.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(freedom > 0, "the degrees of freedom must be above 0")
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    tail = (freedom + 1) / 2 * math.log1p(value * value / freedom)
    return math.exp(scale - 0.5 * math.log(freedom * math.pi) - tail)


def t_cdf(value: float, freedom: float) -> float:
    """Returns the cumulative probability of a value in Student's t-distribution.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(freedom > 0, "the degrees of freedom must be above 0")
    if math.isnan(value):
        return math.nan
    share = 0.0 if math.isinf(value) else freedom / (freedom + value * value)
    tail = 0.5 * _beta_share(freedom / 2, 0.5, share)
    return 1 - tail if value > 0 else tail


def _beta_share(a: float, b: float, x: float) -> float:
    """Returns the regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluates its continued fraction by Lentz's method: from the front, until it converges."""

    def safe(value: float) -> float:
        return value if abs(value) > _TINY else _TINY

    above, below = 1.0, 1 / safe(1 - (a + b) * x / (a + 1))
    result = below
    for step in range(1, _STEPS_MAX):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            above, below = safe(1 + term / above), 1 / safe(1 + term * below)
            change = above * below
            result *= change
        if abs(change - 1) < _PRECISION:
            break
    return result


# --- Wilson's interval ---------------------------------------------------------------------------


def wilson_interval_lower(successes: int, trials: int, z: float) -> float:
    """Returns the lower bound of the Wilson interval for a proportion.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    center, half, scale = _wilson(successes, trials, z)
    return (center - half) / scale


def wilson_interval_upper(successes: int, trials: int, z: float) -> float:
    """Returns the upper bound of the Wilson interval for a proportion.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    center, half, scale = _wilson(successes, trials, z)
    return (center + half) / scale


def _wilson(successes: int, trials: int, z: float) -> tuple[float, float, float]:
    require(trials > 0, "the number of trials must be above 0")
    require(0 <= successes <= trials, "there cannot be more successes than trials")
    require(z >= 0, "a z-score must not be negative")
    share, square = successes / trials, z * z / trials
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return share + square / 2, half, 1 + square
