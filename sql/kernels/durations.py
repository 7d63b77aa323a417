"""Durations as text."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from seamline.errors import INVALID_ARGUMENT, SeamlineError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_MILLISECONDS = {
    "ns": Fraction(1, 1_000_000),
    "us": Fraction(1, 1_000),
    "ms": Fraction(1),
    "s": Fraction(1_000),
    "m": Fraction(60_000),
    "h": Fraction(3_600_000),
    "d": Fraction(86_400_000),
}
_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def parse_duration(text: str) -> int:
    """Parses a duration such as `42.8ms` or `3.81 d` to milliseconds, rounded half up.

    Raises:
        SeamlineError: INVALID_ARGUMENT for anything else.
    """
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _MILLISECONDS:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{text!r} is not a duration",
            hint="Write a number and one of ns, us, ms, s, m, h, d.",
        )
    return math.floor(Fraction(match[1]) * _MILLISECONDS[match[2]] + Fraction(1, 2))


def human_readable_seconds(seconds: float) -> str:
    """Formats seconds as weeks, days, hours, minutes and seconds; `0 seconds` for none.

    Raises:
        SeamlineError: INVALID_ARGUMENT when it is not a finite number.
    """
    if not math.isfinite(seconds):
        raise SeamlineError(INVALID_ARGUMENT, f"{seconds} is not a number of seconds", hint="")
    left = math.floor(abs(seconds) + 0.5)
    parts = []
    for name, length in _UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    return ", ".join(parts) or "0 seconds"
