"""Interval literals, and arithmetic with them."""

from __future__ import annotations

import calendar
import dataclasses
import datetime
import re
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import INVALID_LITERAL, SeamlineError
from seamline.sql import types
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.conversions import moment_literal
from seamline.sql.binder.literals import whole_number_of
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.time_zones import is_elsewhere
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.parsing.words import NUMBER_MAX
from seamline.sql.types import Interval, Timestamp

_UNITS = ("day", "hour", "minute", "second")
_MILLISECONDS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_WHOLE = r"\d+"
_SECONDS = r"\d+(?:\.\d+)?"
_BEFORE = {"hour": " ", "minute": ":", "second": ":"}
_LIMIT = 2**63


def _bind_interval(_: Binder, node: exp.Interval, __: Scope) -> Typed:
    type_ = types.INTERVAL_YEAR if _units_of(node)[0] in _MONTHS else types.INTERVAL_DAY
    value = _value_of(node)
    limit = _LIMIT if type_ == types.INTERVAL_DAY else 2**31
    if not -limit < value < limit:
        raise _not_an_interval(node)
    return interval_literal(value, type_)


def moved(name: str, operands: Sequence[Typed]) -> Typed | None:
    """Returns a literal date or timestamp moved by an interval, or None for anything else.

    The result is still a constant, by which files and tails are pruned.
    """
    if name == "$add" and isinstance(operands[0][1], Interval):
        operands = operands[::-1]
    moment, length = (
        node.spec.constant if isinstance(node, Call) else None for node, _ in operands
    )
    (_, type_), (_, interval) = operands
    if not isinstance(moment, datetime.date) or not isinstance(interval, Interval):
        return None
    if length is None or name not in {"$add", "$subtract"}:
        return None
    signed = length if name == "$add" else -length
    try:
        if interval == types.INTERVAL_YEAR:
            if is_elsewhere(type_):
                return None  # its months are those of the calendar there
            return moment_literal(_months_later(moment, signed), type_)
        if isinstance(type_, Timestamp):
            type_ = dataclasses.replace(type_, precision=max(3, type_.precision))
        elif signed % _MILLISECONDS["day"]:
            return None
        return moment_literal(moment + datetime.timedelta(milliseconds=signed), type_)
    except (ValueError, OverflowError):
        return None


def days_of(count: exp.Expr) -> Typed:
    """Returns a number of days, given as a bigint, as an interval."""
    value = whole_number_of(count)
    if value is not None:
        return interval_literal(value * _MILLISECONDS["day"], types.INTERVAL_DAY)
    overload = constructor("$days", "({0} * 86400000)", "({0} * 86400000)")
    return call(CallSpec(overload, (types.BIGINT,), types.INTERVAL_DAY), [count]), (
        types.INTERVAL_DAY
    )


def interval_literal(value: int, type_: Interval) -> Typed:
    """Returns an interval of a number of milliseconds or months."""
    text = f"CAST({value} AS BIGINT)"
    return call(CallSpec(constructor("$literal", text, text), (), type_, value), []), type_


def _months_later(moment: datetime.date, months: int) -> datetime.date:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def milliseconds_of(node: exp.Interval) -> int:
    """Returns the milliseconds in an interval of days, hours, minutes and seconds.

    Raises:
        SeamlineError: INVALID_LITERAL.
    """
    if _units_of(node)[0] in _MONTHS:
        raise _not_an_interval(node)
    return _value_of(node)


def _units_of(node: exp.Interval) -> tuple[str, str]:
    """Returns the first and the last unit of an interval."""
    unit = node.args.get("unit")
    if unit is None:
        raise _not_an_interval(node)
    if isinstance(unit, exp.IntervalSpan):
        return unit.this.name.lower(), unit.expression.name.lower()
    name = unit.name.lower()
    name = name.removesuffix("s")
    return name, name


def _value_of(node: exp.Interval) -> int:
    value = node.this.unnest()
    sign = 1
    while isinstance(value, exp.Neg):
        sign, value = -sign, value.this.unnest()
    text = value.name.strip() if isinstance(value, exp.Literal) else ""
    if text[:1] in {"-", "+"}:
        sign, text = (-sign if text[0] == "-" else sign), text[1:].strip()
    if len(text) > NUMBER_MAX:
        raise _not_an_interval(node)
    first, last = _units_of(node)
    amount = _months(text, first, last) if first in _MONTHS else _milliseconds(text, first, last)
    if amount is None:
        raise _not_an_interval(node)
    return sign * amount


def _months(text: str, first: str, last: str) -> int | None:
    if first == last and re.fullmatch(_WHOLE, text):
        return int(text) * _MONTHS[first]
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text) if (first, last) == ("year", "month") else None
    return int(match[1]) * 12 + int(match[2] or 0) if match else None


def _milliseconds(text: str, first: str, last: str) -> int | None:
    if first not in _MILLISECONDS or last not in _MILLISECONDS:
        return None
    if first not in _UNITS or last not in _UNITS:
        units: tuple[str, ...] = (first,)
    else:
        units = _UNITS[_UNITS.index(first) : _UNITS.index(last) + 1]
    if not units:
        return None
    pattern = ""
    for index, unit in reversed(list(enumerate(units))):  # the last units may be left out
        digits = _SECONDS if unit == "second" else _WHOLE
        pattern = f"(?:{_BEFORE[unit]}({digits}){pattern})?" if index else f"({digits}){pattern}"
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    total = 0
    for unit, digits in zip(units, match.groups("0"), strict=True):
        whole, _, fraction = digits.partition(".")
        total += int(whole) * _MILLISECONDS[unit] + int(fraction[:3].ljust(3, "0") or 0)
    return total


def _not_an_interval(node: exp.Interval) -> SeamlineError:
    return SeamlineError(
        INVALID_LITERAL,
        f"{node.sql('trino')} is not an interval",
        hint="INTERVAL '2' DAY, INTERVAL '1 2:03:04.567' DAY TO SECOND, INTERVAL '1-6' YEAR TO"
        " MONTH.",
    )


HANDLERS: Handlers = {exp.Interval: _bind_interval}
