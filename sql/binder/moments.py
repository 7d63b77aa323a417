"""Constant dates, timestamps and times: literals, and the moment of the statement."""

from __future__ import annotations

import dataclasses
import datetime
import re

from sqlglot import exp

from seamline.errors import INVALID_LITERAL, NOT_SUPPORTED, SeamlineError
from seamline.sql import session_zone, time_zones, types
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.conversions import moment_literal
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.locations import location_of
from seamline.sql.parsing.dialects import CAST
from seamline.sql.types import Time, Timestamp

_DATE = r"(?P<year>\d{1,4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_YEAR = re.compile(r"([+-]?\d{1,9})-\d{1,2}-\d{1,2}")
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(:(?P<second>\d{1,2})([.,](?P<fraction>\d+))?)?"
_TIMESTAMP = re.compile(
    rf"{_DATE}([ T]{_CLOCK})?\s*(?P<zone>Z|[+-]\d{{1,2}}(:?\d{{2}})?|[A-Za-z].*)?"
)
_TIME = re.compile(rf"{_CLOCK}\s*(?P<zone>[+-]\d\d:\d\d)?")
_DIGITS_MAX = 6


def bind_moment(node: exp.Cast) -> Typed | None:
    """Binds DATE '…', TIMESTAMP '…' and TIME '…', with the digits of a second that are written.

    It also binds CAST of such text, with the digits of its type. It returns None where that rounds,
    leaves a zone out or fails, which it does when the statement runs, and for any other type.

    Raises:
        SeamlineError: INVALID_LITERAL; NOT_SUPPORTED for more digits than are kept, and for
            years before 1 and after 9999.
    """
    text, kind = node.this.name.strip(), node.to.this
    if kind in _OF_DAYS:
        _check_year(text, node)
    try:
        if kind == exp.DType.DATE:
            return _date(text, node)
        if kind in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ}:
            return _timestamp(text, node)
        if kind in _TIMES:
            return _time(text, node)
    except (ValueError, OverflowError) as error:
        if CAST in node.meta:
            return None  # it fails where it is computed, which may be never, or inside try()
        what = "date" if kind == exp.DType.DATE else "time" if kind in _TIMES else "timestamp"
        raise SeamlineError(
            INVALID_LITERAL, f"{text!r} is not a {what}", location=location_of(node.this)
        ) from error
    return None


_TIMES = frozenset({exp.DType.TIME, exp.DType.TIMETZ})


_OF_DAYS = frozenset(
    {exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ}
)


def _check_year(text: str, node: exp.Cast) -> None:
    """Refuses years that the engines, or Python, do not share.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    match = _YEAR.match(text)
    if match is not None and not 1 <= int(match[1]) <= _YEAR_MAX:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{text!r} is of a year before 1 or after 9999",
            location=location_of(node.this),
            hint="Dates and timestamps are of the years 1 to 9999.",
        )


_YEAR_MAX = 9999


def _date(text: str, node: exp.Cast) -> Typed:
    match = re.fullmatch(_DATE, text)
    if match is None or _is_short(match, node):
        raise ValueError(text)
    date = datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    return moment_literal(date, types.DATE)


def _timestamp(text: str, node: exp.Cast) -> Typed | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or _is_short(match, node):
        raise ValueError(text)
    digits = _digits(match["fraction"] or "", text)
    if _rounds(node, digits):
        return None
    date = datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    moment = datetime.datetime.combine(date, _clock(match))
    is_zoned = node.to.this == exp.DType.TIMESTAMPTZ
    if CAST in node.meta and match["zone"] is not None and not is_zoned:
        return None
    digits = _precision(node, digits)
    if match["zone"] is None and not is_zoned:
        return moment_literal(moment, Timestamp(digits, zoned=False))
    zone = time_zones.named(match["zone"] or session_zone.current())
    if CAST not in node.meta and time_zones.is_skipped(moment, zone):
        raise SeamlineError(
            INVALID_LITERAL,
            f"the clocks of {zone} skip {text!r}",
            location=location_of(node.this),
            hint="Write a time before or after the change.",
        )
    return moment_literal(
        time_zones.instant(moment, zone), Timestamp(digits, zoned=True, zone=zone)
    )


def _is_short(match: re.Match[str], node: exp.Cast) -> bool:
    """Whether a year has fewer digits than casts read, on all engines."""
    return CAST in node.meta and len(match["year"]) < 4


def _time(text: str, node: exp.Cast) -> Typed | None:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    is_zoned = node.to.this == exp.DType.TIMETZ
    if match["zone"] is not None and not is_zoned:
        raise ValueError(text)
    digits = _digits(match["fraction"] or "", text)
    if _rounds(node, digits) and not is_zoned:
        return None
    type_ = Time(_precision(node, digits), is_zoned)
    if is_zoned:
        here = match["zone"] or time_zones.offset_now(session_zone.current())
        type_ = dataclasses.replace(type_, zone=_offset(here))
    return time_literal(_rounded(_clock(match), type_.precision), type_)


def _rounded(value: datetime.time, digits: int) -> datetime.time:
    """Returns a time rounded half up; what comes after the last of a day is midnight."""
    unit = 10 ** (_DIGITS_MAX - digits)
    ahead = (value.microsecond + unit // 2) // unit * unit - value.microsecond
    moved = datetime.datetime.combine(_ANY_DAY, value) + datetime.timedelta(microseconds=ahead)
    return moved.time()


def _offset(text: str) -> str:
    try:
        return time_zones.named(text)
    except SeamlineError as error:
        raise ValueError(text) from error


def _clock(match: re.Match[str]) -> datetime.time:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    return datetime.time(hour, minute, second, _microseconds(match["fraction"]))


def _digits(fraction: str, text: str) -> int:
    """Returns how many fractional digits of the literal are kept."""
    if fraction[_DIGITS_MAX:].strip("0"):
        raise SeamlineError(
            NOT_SUPPORTED, f"{text!r} has more than 6 digits of a second", hint="Write at most 6."
        )
    return min(len(fraction), _DIGITS_MAX)


def _microseconds(fraction: str | None) -> int:
    return int((fraction or "")[:_DIGITS_MAX].ljust(_DIGITS_MAX, "0"))


def _rounds(node: exp.Cast, digits: int) -> bool:
    """Whether CAST rounds; TIMESTAMP '…' keeps the digits that are written."""
    precision = node.to.expressions
    return bool(precision) and int(precision[0].name) < digits


def _precision(node: exp.Cast, digits: int) -> int:
    """Returns the digits of a second of the result: those of a CAST's type, or those written."""
    if CAST not in node.meta:
        return digits
    target = types.from_sqlglot(node.to)
    return target.precision if isinstance(target, Time | Timestamp) else digits


def time_literal(value: datetime.time, type_: Time) -> Typed:
    """Returns a literal for a time of day, at the offset of its type."""
    if type_.zoned:
        ahead = datetime.timedelta(minutes=time_zones.offset_of(type_.zone) or 0)
        value = (datetime.datetime.combine(_ANY_DAY, value) - ahead).time()
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    micros = seconds * 1_000_000 + value.microsecond
    overload = constructor(
        "$literal", f"CAST('{value.isoformat()}' AS TIME)", f"CAST({micros} AS BIGINT)"
    )
    return call(CallSpec(overload, (), type_), []), type_


_ANY_DAY = datetime.date(2000, 1, 1)


def bind_now(binder: Binder, node: exp.Expr, _: Scope) -> Typed:
    """Binds CURRENT_TIMESTAMP and the like to one moment: when the statement was submitted."""
    digits = int(node.this.name) if isinstance(node.this, exp.Literal) else 3
    return now(binder, node, digits)


def now(binder: Binder, node: exp.Expr, digits: int) -> Typed:
    """Returns the moment of the statement, truncated to `digits` digits of a second.

    Raises:
        SeamlineError: NOT_SUPPORTED for more digits than are kept.
    """
    if digits > _DIGITS_MAX:
        raise SeamlineError(NOT_SUPPORTED, "timestamps have at most 6 digits of a second", hint="")
    unit = 10 ** (_DIGITS_MAX - digits)
    instant = binder.now()
    instant = instant.replace(microsecond=instant.microsecond // unit * unit)
    zone = session_zone.current()
    moment = time_zones.local(instant, zone)
    match node:
        case exp.CurrentDate():
            return moment_literal(moment.date(), types.DATE)
        case exp.Localtime():
            return time_literal(moment.time(), Time(digits))
        case exp.CurrentTime():
            return time_literal(moment.time(), Time(digits, True, time_zones.offset_now(zone)))
        case exp.Localtimestamp():
            return moment_literal(moment, Timestamp(digits, zoned=False))
    return moment_literal(instant, Timestamp(digits, zoned=True, zone=zone))


HANDLERS: Handlers = {
    exp.CurrentTimestamp: bind_now,
    exp.CurrentDate: bind_now,
    exp.CurrentTime: bind_now,
    exp.Localtime: bind_now,
    exp.Localtimestamp: bind_now,
}
