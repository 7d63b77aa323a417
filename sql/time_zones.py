"""Time zones: their names, and local times in them on both engines.

A zone is a region (`Europe/Berlin`) or an offset (`+05:30`). A local time that a clock change skips
is read with the offset from before the change, except in a literal, where it is an error. One that
occurs twice means, in a text, its first occurrence; otherwise, as in Trino, the second where clocks
are ahead of UTC and the first where they are behind it.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql import session_zone
from seamline.sql.near import did_you_mean
from seamline.sql.session_zone import SEVERAL_ZONES

UTC = session_zone.UTC

_NAMES_OF_UTC = frozenset({"utc", "z", "gmt", "uct", "zulu", "etc/utc", "greenwich", "gmt0"})
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_OFFSET_MAX = 14 * 60


@functools.lru_cache(maxsize=1024)
def named(text: str) -> str:
    """Returns the canonical name of a zone.

    Raises:
        SeamlineError: INVALID_ARGUMENT when there is no such zone.
    """
    if text.lower() in _NAMES_OF_UTC:
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes <= _OFFSET_MAX and int(match[3] or 0) < 60:
            return of_minutes(-minutes if match[1] == "-" else minutes)
    name = _regions().get(text.lower())
    if name is None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{text!r} is not a time zone",
            hint=did_you_mean(text, _regions().values())
            or "A zone is a region such as 'Europe/Berlin', or an offset such as '+05:30'.",
        )
    return name


@functools.cache
def _regions() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


def of_minutes(minutes: int) -> str:
    """Returns the zone of an offset in minutes."""
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    return f"{sign}{hours:02}:{rest:02}" if minutes else UTC


def offset_of(zone: str) -> int | None:
    """Returns the offset of a zone in minutes, or None for a region."""
    if zone == UTC:
        return 0
    if zone[0] not in "+-":
        return None
    minutes = int(zone[1:3]) * 60 + int(zone[4:6])
    return -minutes if zone[0] == "-" else minutes


def offset_now(zone: str) -> str:
    """Returns the offset of a zone at the moment of the statement, as a zone of its own.

    A time of day has no date that would say which offset it is, so Trino takes this one.
    """
    if offset_of(zone) is not None:
        return zone
    there = session_zone.moment().astimezone(zoneinfo.ZoneInfo(zone))
    offset = there.utcoffset()
    assert offset is not None
    return of_minutes(int(offset.total_seconds()) // 60)


def written_offset(zone: str) -> str:
    """Returns an offset as Trino writes it after a time: `+02:00`, and `+00:00` for UTC."""
    return "+00:00" if zone in {UTC, SEVERAL_ZONES} else zone


def instant(local: datetime.datetime, zone: str) -> datetime.datetime:
    """Returns the instant of a local time in a text."""
    minutes = offset_of(zone)
    if minutes is not None:
        return local.replace(tzinfo=datetime.UTC) - datetime.timedelta(minutes=minutes)
    return local.replace(tzinfo=zoneinfo.ZoneInfo(zone), fold=0).astimezone(datetime.UTC)


def instant_of_value(local: datetime.datetime, zone: str) -> datetime.datetime:
    """Returns the instant of a local time that is a value; see `instant_of`."""
    if offset_of(zone) is None:
        there, same_in_utc = zoneinfo.ZoneInfo(zone), local.replace(tzinfo=datetime.UTC)
        offset = same_in_utc.astimezone(there).utcoffset()
        assert offset is not None
        candidate = same_in_utc - offset
        if candidate.astimezone(there).replace(tzinfo=None) == local:
            return candidate
    return instant(local, zone)


def local(instant: datetime.datetime, zone: str) -> datetime.datetime:
    """Returns the local time in the zone at an instant."""
    minutes = offset_of(zone)
    if minutes is not None:
        there: datetime.tzinfo = datetime.timezone(datetime.timedelta(minutes=minutes))
    else:
        there = zoneinfo.ZoneInfo(zone)
    return instant.astimezone(there).replace(tzinfo=None)


def local_far_from_changes(instant: datetime.datetime, zone: str) -> datetime.datetime | None:
    """Returns the local time at an instant; None if clocks change within three days of it.

    Far from changes, local times before and after this one are instants before and after that one.
    """
    try:
        hours = [instant + datetime.timedelta(hours=hour) for hour in range(-_FAR_H, _FAR_H + 1)]
        offsets = {local(hour, zone) - hour.replace(tzinfo=None) for hour in hours}
    except OverflowError:
        return None
    return local(instant, zone) if len(offsets) == 1 else None


_FAR_H = 72


def is_skipped(moment: datetime.datetime, zone: str) -> bool:
    """Whether a clock change of the zone skips a local time."""
    return offset_of(zone) is None and local(instant(moment, zone), zone) != moment


# --- In the engines' SQL -------------------------------------------------------------------------


def local_time(zone: str) -> tuple[str, str]:
    """Returns SQL for the local time in the zone at the instant {0}: a timestamp without zone.

    Raises:
        SeamlineError: NOT_SUPPORTED for instants of different zones.
    """
    if zone == SEVERAL_ZONES:
        raise _several("instants may be of several time zones")
    spark = f"CAST(from_utc_timestamp({{0}}, '{zone}') AS TIMESTAMP_NTZ)"
    minutes = offset_of(zone)
    if minutes == 0:
        return "CAST({0} AS TIMESTAMP)", "CAST({0} AS TIMESTAMP_NTZ)"
    if minutes is not None:
        return f"(CAST({{0}} AS TIMESTAMP) + to_minutes({minutes}))", spark
    return f"timezone('{zone}', {{0}})", spark


def clock_in(zone: str) -> tuple[str, str]:
    """Returns SQL for the time of day at an offset when it is {0} in UTC.

    Raises:
        SeamlineError: NOT_SUPPORTED for times at different offsets.
    """
    return _clock_moved(_minutes(zone))


def clock_in_utc(zone: str) -> tuple[str, str]:
    """Returns SQL for the time of day in UTC when it is {0} at an offset."""
    return _clock_moved(-_minutes(zone))


def _minutes(zone: str) -> int:
    if zone == SEVERAL_ZONES:
        raise _several("times may be at several offsets")
    minutes = offset_of(zone)
    assert minutes is not None, zone
    return minutes


def _clock_moved(minutes: int) -> tuple[str, str]:
    if minutes == 0:
        return "{0}", "{0}"
    return f"({{0}} + to_minutes({minutes}))", f"pmod({{0}} + {minutes * 60_000_000}, {_DAY})"


_DAY = 86_400_000_000


def _several(what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"{what} here, so their fields cannot be read",
        hint="Name one zone: x AT TIME ZONE 'UTC'. Texts may name any, and are in the session's"
        " otherwise.",
    )


def instant_of(zone: str) -> tuple[str, str]:
    """Returns SQL for the instant of the local time {0}, a value, in the zone.

    A time that occurs twice has the offset at the instant at which clocks in UTC show it.
    """
    duckdb, spark = instant_near(zone)
    return (
        duckdb.replace("{1}", "make_timestamptz(epoch_us({0}))"),
        spark.replace("{1}", "CAST({0} AS TIMESTAMP)"),
    )


def first_instant_of(zone: str) -> tuple[str, str]:
    """Returns SQL for the first instant of the local time {0} in the zone."""
    minutes = offset_of(zone)
    spark = f"to_utc_timestamp(CAST({{0}} AS TIMESTAMP), '{zone}')"
    if minutes is not None:
        return f"CAST(({{0}} - to_minutes({minutes})) AS TIMESTAMP WITH TIME ZONE)", spark
    day_before = f"(timezone('{zone}', {{0}}) - to_days(1))"  # DuckDB takes the last occurrence
    return _preferred(zone, day_before, f"timezone('{zone}', {{0}})"), spark


def instant_near(zone: str) -> tuple[str, str]:
    """As `instant_of`, but a time that occurs twice takes the offset of the instant {1}."""
    duckdb, spark = first_instant_of(zone)
    if offset_of(zone) is not None:
        return duckdb, spark
    moved = (
        f"timestamp_micros(unix_micros(CAST({{0}} AS TIMESTAMP)) + unix_micros({{1}})"
        f" - unix_micros(from_utc_timestamp({{1}}, '{zone}')))"
    )
    return (
        _preferred(zone, "{1}", duckdb),
        f"(CASE WHEN from_utc_timestamp({moved}, '{zone}') = CAST({{0}} AS TIMESTAMP)"
        f" THEN {moved} ELSE {spark} END)",
    )


def _preferred(zone: str, near: str, otherwise: str) -> str:
    """Returns SQL for the instant of {0} with the offset at `near`; `otherwise` if none exists."""
    offset = f"(epoch_us(timezone('{zone}', {near})) - epoch_us({near}))"
    moved = f"make_timestamptz(epoch_us({{0}}) - {offset})"
    return f"(CASE WHEN timezone('{zone}', {moved}) = {{0}} THEN {moved} ELSE {otherwise} END)"
