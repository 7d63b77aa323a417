"""Intervals as text in Trino's format: `2 03:04:05.000`, `1-3`."""

from __future__ import annotations

from seamline.sql import types
from seamline.sql.types import Interval


def text_of(value: int, unit: str) -> str:
    """Returns the text of an interval given in milliseconds or months."""
    sign, value = ("-" if value < 0 else ""), abs(value)
    if unit == types.INTERVAL_YEAR.unit:
        return f"{sign}{value // 12}-{value % 12}"
    seconds, milliseconds = divmod(value, 1_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{sign}{day} {hour:02}:{minute:02}:{second:02}.{milliseconds:03}"


def templates(type_: Interval) -> tuple[str, str]:
    """Returns templates that compute the text in DuckDB's and Spark's SQL."""
    if type_ == types.INTERVAL_YEAR:
        parts = [_part(12, None, 1), "'-'", _part(1, 12, 1)]
    else:
        parts = [
            *(_part(86_400_000, None, 1), "' '", _part(3_600_000, 24, 2), "':'"),
            *(_part(60_000, 60, 2), "':'", _part(1_000, 60, 2), "'.'", _part(1, 1_000, 3)),
        ]
    text = " || ".join(["(CASE WHEN {0} < 0 THEN '-' ELSE '' END)", *parts])
    return (
        f"({text})".replace("[div]", "//").replace("[text]", "VARCHAR"),
        f"({text})".replace("[div]", "div").replace("[text]", "STRING"),
    )


def _part(unit: int, count: int | None, digits: int) -> str:
    number = f"(abs({{0}}) [div] {unit})" + (f" % {count}" if count else "")
    text = f"CAST({number} AS [text])"
    return f"lpad({text}, {digits}, '0')" if digits > 1 else text
