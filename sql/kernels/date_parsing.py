"""Parses dates and times by a pattern, or in the forms of ISO 8601.

Fields that a pattern omits are those of 1970-01-01 00:00:00. Text without a zone is in the given
zone, the session's.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Mapping

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql import time_zones
from seamline.sql.kernels.date_patterns import (
    Fraction,
    Name,
    Number,
    Part,
    Pattern,
    Text,
    YearOfCentury,
    Zone,
    of_joda,
    of_mysql,
)

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PIVOT = 70

Values = dict[str, int]


def date_parse(text: str, pattern: str) -> datetime.datetime:
    """Parses a timestamp by a MySQL pattern.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    values, _ = _read(text, pattern, of_mysql)
    return _moment(values, text)


def parse_datetime(text: str, pattern: str, zone: str = time_zones.UTC) -> datetime.datetime:
    """Parses an instant by a Joda pattern.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    values, named = _read(text, pattern, of_joda)
    return _unskipped(_moment(values, text), named or zone, text)


def _unskipped(moment: datetime.datetime, zone: str, text: str) -> datetime.datetime:
    """Returns the instant of a local time, which the clocks of the zone must not skip."""
    if time_zones.is_skipped(moment, zone):
        raise _invalid(text)
    return time_zones.instant(moment, zone)


def _read(text: str, pattern: str, read: Callable[[str], Pattern]) -> tuple[Values, str | None]:
    parts = read(pattern)
    match = _expression(parts).fullmatch(text)
    if match is None:
        raise _invalid(text)
    values: Values = {}
    zone = None
    for index, part in enumerate(parts):
        if isinstance(part, Text):
            continue
        if isinstance(part, Zone):
            zone = time_zones.named(match[f"p{index}"])
        else:
            field, value = _value(part, match[f"p{index}"])
            values[field] = value
    return values, zone


@functools.lru_cache(maxsize=1024)
def _expression(pattern: Pattern) -> re.Pattern[str]:
    text = "".join(
        re.escape(part.text) if isinstance(part, Text) else f"(?P<p{index}>{_form(part)})"
        for index, part in enumerate(pattern)
    )
    return re.compile(text, re.IGNORECASE | re.ASCII)


def _form(part: Part) -> str:
    match part:
        case Number(field, _, digits):
            sign = "[+-]?" if field in {"year", "week_year"} else ""
            return rf"{sign}\d{{1,{digits}}}"
        case YearOfCentury():
            return r"\d{2}"
        case Fraction(_, digits):
            return rf"\d{{1,{digits}}}"
        case Name("month"):
            return "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
        case Name("day_of_week"):
            return "|".join(f"{name}|{name[:3]}" for name in _DAYS)
        case Name("half"):
            return "am|pm"
        case Name():
            return "ad|bc"
        case Zone(form):
            return r"[A-Za-z_/+\-0-9:]+" if form == "name" else r"z|[+-]\d{2}:?\d{2}"
    raise AssertionError(part)


def _value(part: Part, text: str) -> tuple[str, int]:
    match part:
        case Number(field):
            return field, int(text)
        case YearOfCentury(field):
            return field, int(text) + (2000 if int(text) < _PIVOT else 1900)
        case Fraction():
            return "fraction", int(text[:3].ljust(3, "0")) * 1000
        case Name("month"):
            return "month", _index(text, _MONTHS)
        case Name("day_of_week"):
            return "day_of_week", _index(text, _DAYS)
        case Name("half"):
            return "half", int(text.lower() == "pm")
        case Name("era"):
            return "era", int(text.lower() == "ad")
    raise AssertionError(part)


def _index(text: str, names: tuple[str, ...]) -> int:
    return next(i for i, name in enumerate(names, 1) if name.startswith(text.lower()[:3]))


def _moment(values: Values, text: str) -> datetime.datetime:
    try:
        date = _date(values)
        return datetime.datetime.combine(date, _clock(values))
    except (ValueError, OverflowError) as error:
        raise _invalid(text) from error


def _date(values: Mapping[str, int]) -> datetime.date:
    year = values.get("year", 1970)
    if "century" in values and "year" not in values:
        year = values["century"] * 100
    if values.get("era") == 0:
        raise ValueError(year)
    if "day_of_year" in values:
        first = datetime.date(year, 1, 1)
        date = first + datetime.timedelta(days=values["day_of_year"] - 1)
        if date.year != year or values["day_of_year"] < 1:
            raise ValueError(year)
        return date
    if "week" in values or "week_year" in values:
        return datetime.date.fromisocalendar(
            values.get("week_year", values.get("year", 1970)),
            values.get("week", 1),
            values.get("day_of_week", 1),
        )
    return datetime.date(year, values.get("month", 1), values.get("day", 1))


def _clock(values: Mapping[str, int]) -> datetime.time:
    hour = values.get("hour", values.get("clock_hour", 0) % 24)
    if "hour" not in values and "clock_hour" not in values:
        of_half = values.get("hour_of_half", 0)
        if "clock_hour_of_half" in values:
            if not 1 <= values["clock_hour_of_half"] <= 12:
                raise ValueError(values)
            of_half = values["clock_hour_of_half"] % 12
        if of_half > 11:
            raise ValueError(values)
        hour = of_half + 12 * values.get("half", 0)
    return datetime.time(
        hour, values.get("minute", 0), values.get("second", 0), values.get("fraction", 0)
    )


def _invalid(text: str) -> SeamlineError:
    return SeamlineError(
        INVALID_ARGUMENT,
        f"{text!r} is not a date or time in that format",
        hint="TRY(…) returns null.",
    )


# --- ISO 8601 ------------------------------------------------------------------------------------

_ISO_DATE = (
    r"(?P<year>[+-]?\d{4,9})(-W(?P<week>\d{1,2})(-(?P<weekday>\d))?|-(?P<ordinal>\d{3})"
    r"|-(?P<month>\d{1,2})(-(?P<day>\d{1,2}))?)?"
)
_ISO = re.compile(
    rf"{_ISO_DATE}(T(?P<hour>\d{{1,2}})?(:(?P<minute>\d{{1,2}})(:(?P<second>\d{{1,2}})"
    r"([.,](?P<fraction>\d+))?)?)?(?P<zone>Z|[+-]\d{2}(:?\d{2})?)?)?",
    re.ASCII,
)


def from_iso8601_timestamp(text: str, zone: str = time_zones.UTC) -> datetime.datetime:
    """Parses an instant; drops digits of a second beyond the third.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    moment, named = _iso_moment(text, 3)
    return _unskipped(moment, named or zone, text)


def from_iso8601_timestamp_nanos(text: str, zone: str = time_zones.UTC) -> datetime.datetime:
    """Parses an instant.

    Raises:
        SeamlineError: INVALID_ARGUMENT; NOT_SUPPORTED for more digits of a second than are kept.
    """
    match = _ISO.fullmatch(text)
    if match is not None and (match["fraction"] or "")[6:].strip("0"):
        raise SeamlineError(NOT_SUPPORTED, "timestamps have at most 6 digits of a second", hint="")
    moment, named = _iso_moment(text, 6)
    return time_zones.instant(moment, named or zone)


def _iso_moment(text: str, digits: int) -> tuple[datetime.datetime, str | None]:
    """Returns a local time, and the zone that the text names."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise _invalid(text)
    values = {name: int(match[name]) for name in ("hour", "minute", "second") if match[name]}
    values |= _iso_date(match)
    values["fraction"] = int((match["fraction"] or "")[:digits].ljust(6, "0"))
    return _moment(values, text), time_zones.named(match["zone"]) if match["zone"] else None


def from_iso8601_date(text: str) -> datetime.date:
    """Parses a calendar date, a week date or an ordinal date.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    match = _ISO.fullmatch(text)
    if match is None or "T" in text:
        raise _invalid(text)
    return _moment(_iso_date(match), text).date()


def _iso_date(match: re.Match[str]) -> Values:
    year = int(match["year"])
    if match["week"]:
        return {
            "week_year": year,
            "week": int(match["week"]),
            "day_of_week": int(match["weekday"] or 1),
        }
    if match["ordinal"]:
        return {"year": year, "day_of_year": int(match["ordinal"])}
    return {"year": year, "month": int(match["month"] or 1), "day": int(match["day"] or 1)}
