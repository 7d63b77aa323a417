"""Dates, timestamps and times that are written out: literals, and the moment of the statement."""

from __future__ import annotations

import datetime
import re

from sqlglot import exp

from seamline.errors import INVALID_LITERAL, NOT_SUPPORTED, SeamlineError
from seamline.sql import time_zones, types
from seamline.sql.binder.conversions import constructor
from seamline.sql.binder.scope import Scope, Typed, location_of
from seamline.sql.binder.time_zones import at_zone
from seamline.sql.binder.typer import Handlers, Typer
from seamline.sql.calls import CallSpec, call
from seamline.sql.dialects import CAST
from seamline.sql.types import Time, Timestamp

_DATE = r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(:(?P<second>\d{1,2})([.,](?P<fraction>\d+))?)?"
_TIMESTAMP = re.compile(
    rf"{_DATE}([ T]{_CLOCK})?\s*(?P<zone>Z|[+-]\d{{1,2}}(:?\d{{2}})?|[A-Za-z].*)?"
)
_TIME = re.compile(rf"{_CLOCK}\s*(?P<zone>\S+)?")
_DIGITS_MAX = 6


def bind_moment(node: exp.Cast) -> Typed | None:
    """DATE '…', TIMESTAMP '…' and TIME '…', with as many digits of a second as are written.

    Also CAST of such a text, with as many digits as its type has; None where that rounds.

    Raises:
        SeamlineError: INVALID_LITERAL; NOT_SUPPORTED for more digits than are kept.
    """
    text, kind = node.this.name.strip(), node.to.this
    try:
        if kind == exp.DType.DATE:
            return _date(text)
        if kind in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ}:
            return _timestamp(text, node)
        if kind == exp.DType.TIME:
            return _time(text, node)
    except (ValueError, OverflowError) as error:
        what = {exp.DType.DATE: "date", exp.DType.TIME: "time"}.get(kind, "timestamp")
        raise SeamlineError(
            INVALID_LITERAL, f"{text!r} is not a {what}", location=location_of(node.this)
        ) from error
    return None


def _date(text: str) -> Typed:
    match = re.fullmatch(_DATE, text)
    if match is None:
        raise ValueError(text)
    date = datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    return moment_literal(date, types.DATE)


def _timestamp(text: str, node: exp.Cast) -> Typed | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    digits = _digits(match["fraction"] or "", text)
    if _rounds(node, digits):
        return None
    date = datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    moment = datetime.datetime.combine(date, _clock(match))
    is_zoned = node.to.this == exp.DType.TIMESTAMPTZ
    if CAST in node.meta and match["zone"] is not None and not is_zoned:
        raise ValueError(text)
    digits = _precision(node, digits)
    if match["zone"] is None and not is_zoned:
        return moment_literal(moment, Timestamp(digits, zoned=False))
    zone = time_zones.named(match["zone"] or time_zones.UTC)
    instant = moment_literal(time_zones.instant(moment, zone), Timestamp(digits, zoned=True))
    return instant if zone == time_zones.UTC else at_zone(instant, zone)


def _time(text: str, node: exp.Cast) -> Typed | None:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if match["zone"] is not None:
        raise time_with_zone()
    digits = _digits(match["fraction"] or "", text)
    if _rounds(node, digits):
        return None
    return time_literal(_clock(match), _precision(node, digits))


def _clock(match: re.Match[str]) -> datetime.time:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    return datetime.time(hour, minute, second, _microseconds(match["fraction"]))


def _digits(fraction: str, text: str) -> int:
    """As many digits of a second as the literal has; those that are kept."""
    if fraction[_DIGITS_MAX:].strip("0"):
        raise SeamlineError(
            NOT_SUPPORTED, f"{text!r} has more than 6 digits of a second", hint="Write at most 6."
        )
    return min(len(fraction), _DIGITS_MAX)


def _microseconds(fraction: str | None) -> int:
    return int((fraction or "")[:_DIGITS_MAX].ljust(_DIGITS_MAX, "0"))


def _rounds(node: exp.Cast, digits: int) -> bool:
    """Whether CAST rounds; TIMESTAMP '…' has as many digits as are written."""
    precision = node.to.expressions
    return bool(precision) and int(precision[0].name) < digits


def _precision(node: exp.Cast, digits: int) -> int:
    """Digits of a second of the result: those of the type in a CAST, in a literal those written."""
    if CAST not in node.meta:
        return digits
    target = types.from_sqlglot(node.to)
    return target.precision if isinstance(target, Time | Timestamp) else digits


def time_with_zone() -> SeamlineError:
    """The error for a time of day in a time zone."""
    return SeamlineError(
        NOT_SUPPORTED,
        "time with time zone is not supported",
        hint="A time of day in a zone is not an instant; use timestamp with time zone, or time.",
    )


def moment_literal(value: datetime.date, type_: types.Type) -> Typed:
    """A date or timestamp whose type each engine is told."""
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    # a cast from text to a date or time fails where Spark puts a value in a subquery's place
    overload = constructor("$literal", f"CAST('{text}' AS {{type}})", f"{{type}} '{text}'")
    return call(CallSpec(overload, (), type_, value), []), type_


def time_literal(value: datetime.time, digits: int) -> Typed:
    """A time of day."""
    type_ = Time(digits)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    micros = seconds * 1_000_000 + value.microsecond
    overload = constructor(
        "$literal", f"CAST('{value.isoformat()}' AS TIME)", f"CAST({micros} AS BIGINT)"
    )
    return call(CallSpec(overload, (), type_), []), type_


def bind_now(typer: Typer, node: exp.Expr, _: Scope) -> Typed:
    """CURRENT_TIMESTAMP and its kin: when the statement was submitted, the same everywhere."""
    if isinstance(node, exp.CurrentTime):
        raise time_with_zone()
    digits = int(node.this.name) if isinstance(node.this, exp.Literal) else 3
    return now(typer, node, digits)


def now(typer: Typer, node: exp.Expr, digits: int) -> Typed:
    """The moment of the statement, cut to so many digits of a second.

    Raises:
        SeamlineError: NOT_SUPPORTED for more digits than are kept.
    """
    if digits > _DIGITS_MAX:
        raise SeamlineError(NOT_SUPPORTED, "timestamps have at most 6 digits of a second", hint="")
    unit = 10 ** (_DIGITS_MAX - digits)
    instant = typer.now.replace(microsecond=typer.now.microsecond // unit * unit)
    moment = instant.replace(tzinfo=None)
    match node:
        case exp.CurrentDate():
            return moment_literal(moment.date(), types.DATE)
        case exp.Localtime():
            return time_literal(moment.time(), digits)
        case exp.Localtimestamp():
            return moment_literal(moment, Timestamp(digits, zoned=False))
    return moment_literal(instant, Timestamp(digits, zoned=True))


HANDLERS: Handlers = {
    exp.CurrentTimestamp: bind_now,
    exp.CurrentDate: bind_now,
    exp.CurrentTime: bind_now,
    exp.Localtime: bind_now,
    exp.Localtimestamp: bind_now,
}
