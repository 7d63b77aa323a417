"""Kernels of arrays."""

from __future__ import annotations

import calendar
import collections
import datetime
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from seamline.sql.kernels.arguments import require

ELEMENTS_MAX = 10_000
_TAKEN_MAX = 5
_COMBINATIONS_MAX = 100_000

Moment = TypeVar("Moment", datetime.date, datetime.datetime)


def combinations(values: Sequence[Any], size: int) -> list[list[Any]]:
    """Returns all ways to take `size` elements, in their original order.

    Those without the last elements come first.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    require(0 <= size <= _TAKEN_MAX, f"combinations() takes 0 to {_TAKEN_MAX} elements")
    count = math.comb(len(values), size)
    require(count <= _COMBINATIONS_MAX, f"combinations() makes at most {_COMBINATIONS_MAX} arrays")
    combined = sorted(itertools.combinations(range(len(values)), size), key=lambda at: at[::-1])
    return [[values[index] for index in indexes] for indexes in combined]


def histogram(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Returns how often each value occurs, ignoring nulls."""
    return list(collections.Counter(value for value in values if value is not None).items())


# --- Sequences of dates and times ----------------------------------------------------------------


def sequence_by_milliseconds(start: Moment, stop: Moment, step: int) -> list[Moment]:
    """Returns the sequence from start to stop in steps of a number of milliseconds.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    length = datetime.timedelta(milliseconds=step)
    if not isinstance(start, datetime.datetime):
        require(length == datetime.timedelta(length.days), "dates can only be moved by whole days")
    return _sequence(start, stop, step, lambda index: start + length * index)


def sequence_by_months(start: Moment, stop: Moment, step: int) -> list[Moment]:
    """Returns the sequence from start to stop in steps of months, each counted from the start.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    return _sequence(start, stop, step, lambda index: _moved(start, step * index))


def _moved(moment: Moment, months: int) -> Moment:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _sequence(
    start: Moment, stop: Moment, step: int, element: Callable[[int], Moment]
) -> list[Moment]:
    require(step != 0, "the step of sequence() must not be zero")
    is_towards = start == stop or (start < stop) == (step > 0)
    require(is_towards, "the step of sequence() must lead from the start to the stop")
    values: list[Moment] = []
    try:
        for index in itertools.count():
            value = element(index)
            if value > stop if step > 0 else value < stop:
                break
            values.append(value)
            require(
                len(values) <= ELEMENTS_MAX, f"sequence() makes at most {ELEMENTS_MAX} elements"
            )
    except (OverflowError, ValueError):
        pass  # the calendar ends before the stop
    return values
