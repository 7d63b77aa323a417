"""Whether two answers are the same, where one engine has exact decimals and the other has doubles.

Rows are compared in an order of their own, because equal keys of an ORDER BY leave theirs open.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from typing import Any

_RELATIVE = 1e-9
_DIGITS = 6
"""Digits by which numbers are put in order."""

Row = Sequence[Any]


def difference(found: Iterable[Row], wanted: Iterable[Row]) -> str:
    """The first difference, or nothing."""
    ours, theirs = sorted(found, key=_key), sorted(wanted, key=_key)
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if len(one) != len(other) or not all(map(_equal, one, other)):
            return f"{tuple(map(str, one))}, not {tuple(map(str, other))}"
    return ""


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if _is_number(one) and _is_number(other):
        places = min(map(_places, (one, other)))
        error = 0.5000001 * 10.0**-places if places < math.inf else 0.0
        return math.isclose(float(one), float(other), rel_tol=_RELATIVE, abs_tol=error)
    return _is_number(one) == _is_number(other) and _text(one) == _text(other)


def _places(value: Any) -> float:
    """Digits behind the point that a decimal was rounded to."""
    if isinstance(value, decimal.Decimal):
        return -int(value.as_tuple().exponent)
    return math.inf


def _key(row: Row) -> list[tuple[int, float, str]]:
    return [_cell_key(cell) for cell in row]


def _cell_key(cell: Any) -> tuple[int, float, str]:
    if cell is None:
        return (2, 0.0, "")
    if _is_number(cell):
        return (0, float(f"{float(cell):.{_DIGITS}g}"), "")
    return (1, 0.0, _text(cell))


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | decimal.Decimal) and not isinstance(cell, bool)


def _text(cell: Any) -> str:
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return str(cell.date())  # where one side has a date and the other its midnight
    return str(cell)
