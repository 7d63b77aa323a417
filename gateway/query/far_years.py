"""Converts Arrow columns to Python values, including years before 1 and after 9999.

Python has no dates and timestamps in such years. Here they are texts, as in JSON and CSV: a year
that does not have four digits gets a sign, `+20222-01-31`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats."""
_DAY_US = 86_400_000_000
_EPOCH = datetime.date(1970, 1, 1)


def python_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column, as `to_pylist` does wherever it can."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:  # of a date, or of a timestamp
        return _one_by_one(column)
    return values


def _one_by_one(column: pa.Array) -> list[Any]:
    type_ = column.type
    if pa.types.is_date32(type_):
        return _numbered(column.cast(pa.int32()), _date)
    if pa.types.is_timestamp(type_):
        zone = "" if type_.tz is None else " UTC"
        numbers = column.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())
        return _numbered(numbers, lambda number: _moment(number, zone))
    if pa.types.is_map(type_):
        return [
            [(pair["key"], pair["value"]) for pair in python_values(item.values)]
            if item.is_valid
            else None
            for item in column
        ]
    if pa.types.is_list(type_):
        return [python_values(item.values) if item.is_valid else None for item in column]
    if pa.types.is_struct(type_):
        fields = [python_values(column.field(index)) for index in range(type_.num_fields)]
        rows = zip(column.is_valid().to_pylist(), *fields, strict=True)
        return [dict(zip(type_.names, row, strict=True)) if there else None for there, *row in rows]
    return column.to_pylist()  # type: ignore[no-any-return]


def _numbered(numbers: pa.Array, show: Callable[[int], Any]) -> list[Any]:
    return [None if number is None else show(number) for number in numbers.to_pylist()]


def _date(days: int) -> datetime.date | str:
    try:
        return _EPOCH + datetime.timedelta(days)
    except OverflowError:
        return _far_date(days)


def _far_date(days: int) -> str:
    cycles, rest = divmod(days, _CYCLE_DAYS)
    near = _EPOCH + datetime.timedelta(rest)
    year = near.year + _CYCLE_YEARS * cycles
    sign = "-" if year < 0 else "+" if year > datetime.MAXYEAR else ""
    return f"{sign}{abs(year):04}{near:-%m-%d}"


def _moment(microseconds: int, zone: str) -> datetime.datetime | str:
    days, rest = divmod(microseconds, _DAY_US)
    try:
        day = _EPOCH + datetime.timedelta(days)
    except OverflowError:
        clock = _at(_EPOCH, rest).time()
        return f"{_far_date(days)} {clock.isoformat('microseconds')}{zone}"
    return _at(day, rest).replace(tzinfo=datetime.UTC if zone else None)


def _at(day: datetime.date, microseconds: int) -> datetime.datetime:
    midnight = datetime.datetime.combine(day, datetime.time())
    return midnight + datetime.timedelta(microseconds=microseconds)
