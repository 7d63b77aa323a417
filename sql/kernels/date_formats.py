"""Formats dates and times by a pattern."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels.date_patterns import (
    Fraction,
    Name,
    Number,
    Part,
    Pattern,
    Text,
    YearOfCentury,
    Zone,
)
from seamline.sql.kernels.kernel import Compute, Use, evaluated
from seamline.sql.quoting import quoted_text

_FIELDS = {
    "year": "year(t)",
    "century": "year(t) // 100",
    "week_year": "isoyear(t)",
    "month": "month(t)",
    "day": "day(t)",
    "day_of_year": "dayofyear(t)",
    "week": "weekofyear(t)",
    "day_of_week": "isodow(t)",
    "hour": "hour(t)",
    "hour_of_half": "hour(t) % 12",
    "clock_hour_of_half": "(hour(t) + 11) % 12 + 1",
    "clock_hour": "(hour(t) + 23) % 24 + 1",
    "minute": "minute(t)",
    "second": "second(t)",
}
_NAMES = {
    ("month", True): "strftime(t, '%b')",
    ("month", False): "strftime(t, '%B')",
    ("day_of_week", True): "strftime(t, '%a')",
    ("day_of_week", False): "strftime(t, '%A')",
    ("half", False): "CASE WHEN hour(t) < 12 THEN 'AM' ELSE 'PM' END",
    ("era", False): "'AD'",
}


def by_pattern(read: Callable[[str], Pattern]) -> Compute:
    """Returns a kernel of (timestamp, pattern), or of (local timestamp, pattern, offset, zone)."""

    def compute(_: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        moments, patterns, *zone = arguments
        moments = _rounded(moments)
        columns = dict(zip(("t", "o", "z"), (moments, *zone), strict=False))
        texts = pa.nulls(len(moments), pa.string())
        for text in pc.unique(patterns).to_pylist():
            if text is not None:
                sql = written(read(text), is_zoned=bool(zone))
                here = pc.fill_null(pc.equal(patterns, text), False)
                texts = pc.if_else(here, evaluated(sql, columns), texts)
        return texts

    return compute


def _rounded(moments: pa.Array) -> pa.Array:
    """Rounds half up to milliseconds, as text has no finer digits."""
    half = pa.scalar(500, pa.duration("us"))
    return pc.floor_temporal(pc.add(moments, half), unit="millisecond")


@functools.lru_cache(maxsize=1024)
def written(pattern: Pattern, *, is_zoned: bool) -> str:
    """Returns DuckDB's SQL for a pattern over a timestamp t, an offset o in minutes and a zone z.

    Raises:
        SeamlineError: INVALID_ARGUMENT for a zone in the pattern of a timestamp without one.
    """
    if not is_zoned and any(isinstance(part, Zone) for part in pattern):
        raise SeamlineError(INVALID_ARGUMENT, "a timestamp without zone has no offset", hint="")
    parts = [f"({_part(part)})" for part in pattern]
    text = " || ".join(parts) or "''"
    return f"CASE WHEN t IS NULL THEN NULL ELSE {text} END"


def _part(part: Part) -> str:
    match part:
        case Text(text):
            return quoted_text(text)
        case Number(field, digits):
            return _padded(_FIELDS[field], digits)
        case YearOfCentury(field):
            return _padded(f"({_FIELDS[field]}) % 100", 2)
        case Fraction(digits):
            milliseconds = _padded("date_part('millisecond', t) % 1000", 3)
            return f"rpad(left({milliseconds}, {digits}), {digits}, '0')"
        case Name(field, is_short):
            return _NAMES[field, is_short]
        case Zone(form):
            if form == "name":
                return "z"
            colon = ":" if form == "offset with colon" else ""
            hours, minutes = _padded("abs(o) // 60", 2), _padded("abs(o) % 60", 2)
            return f"CASE WHEN o < 0 THEN '-' ELSE '+' END || {hours} || '{colon}' || {minutes}"


def _padded(number: str, digits: int) -> str:
    text = f"CAST({number} AS VARCHAR)"
    return f"repeat('0', {digits} - length({text})) || {text}" if digits > 1 else text
