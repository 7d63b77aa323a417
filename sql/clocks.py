"""Casts to and from a time of day, as SQL of both engines.

Spark, which has no type for it, holds microseconds since midnight. A time with time zone is kept as
the time in UTC; the offset at which its fields are read belongs to its type.
"""

from __future__ import annotations

from seamline.sql import session_zone, time_zones
from seamline.sql.session_zone import SEVERAL_ZONES
from seamline.sql.types import Time, Timestamp

DAY = 86_400_000_000
"""The microseconds of a day."""


def offset_of(source: Timestamp | Time) -> str:
    """Returns the offset of a time made from the value; instants of a region have several."""
    if not source.zoned:
        return time_zones.offset_now(session_zone.current())
    is_fixed = source.zone == SEVERAL_ZONES or time_zones.offset_of(source.zone) is not None
    return source.zone if is_fixed else SEVERAL_ZONES


def kept_as(source: Time, target: Time) -> tuple[str, str]:
    """Returns a time of day as it is kept in another type: with a zone, in UTC."""
    if source.zoned == target.zoned:
        return "{0}", "{0}"
    if source.zoned:
        return time_zones.clock_in(source.zone)
    return time_zones.clock_in_utc(offset_of(source))


def of_moment(source: Timestamp, target: Time) -> tuple[str, str]:
    """Returns the time of day of a timestamp, or of an instant, as it is kept in a type."""
    duckdb, spark = ("{0}", "{0}")
    if source.zoned:
        duckdb, spark = time_zones.local_time(time_zones.UTC if target.zoned else source.zone)
    clock = f"CAST({duckdb} AS TIME)", f"pmod(unix_micros(CAST({spark} AS TIMESTAMP)), {DAY})"
    if source.zoned or not target.zoned:
        return clock
    return inside(clock, time_zones.clock_in_utc(offset_of(source)))


def inside(inner: tuple[str, str], outer: tuple[str, str]) -> tuple[str, str]:
    """Returns conversions that are followed by others."""
    return outer[0].replace("{0}", inner[0]), outer[1].replace("{0}", inner[1])


def as_text(source: Time) -> tuple[str, str]:
    """Returns the text of a time, with its offset if it has one."""
    length = 8 + (source.precision + 1 if source.precision else 0)
    duckdb, spark = time_zones.clock_in(source.zone) if source.zoned else ("{0}", "{0}")
    duckdb = f"substr(strftime(DATE '1970-01-01' + {duckdb}, '%H:%M:%S.%f'), 1, {length})"
    spark = f"substr(date_format(timestamp_micros({spark}), 'HH:mm:ss.SSSSSS'), 1, {length})"
    if not source.zoned:
        return duckdb, spark
    offset = time_zones.written_offset(source.zone)
    return f"({duckdb} || '{offset}')", f"concat({spark}, '{offset}')"


def of_text(*, safe: bool) -> tuple[str, str]:
    """Returns the time in a text, whose form is checked elsewhere."""
    return (
        f"{'TRY_' if safe else ''}CAST({{0}} AS TIME)",
        "unix_micros(CAST(concat('1970-01-01 ', {0}) AS TIMESTAMP))",
    )


def of_zoned_text(*, safe: bool) -> tuple[str, str]:
    """Returns casts of a text that may name an offset to the time of day in UTC."""
    offset = "right({0}, 6)"
    minutes = (
        f"(TRY_CAST(substr({offset}, 2, 2) AS INTEGER) * 60 + TRY_CAST(right({{0}}, 2) AS INTEGER))"
    )
    here = time_zones.offset_of(time_zones.offset_now(session_zone.current()))
    ahead = (
        f"(CASE WHEN {{0}} NOT LIKE '%+%' AND {{0}} NOT LIKE '%-%' THEN {here}"
        f" WHEN {offset} LIKE '-%' THEN -{minutes} ELSE {minutes} END)"
    )
    clock = "regexp_extract({0}, '^[0-9:.]+'"
    duckdb, spark = of_text(safe=safe)
    return (
        f"({duckdb.replace('{0}', f'{clock})')} - to_minutes({ahead}))",
        f"pmod({spark.replace('{0}', f'{clock}, 0)')} - {ahead} * 60000000L, {DAY})",
    )


def rounded(duckdb: str, spark: str, digits: int) -> tuple[str, str]:
    """Returns a time rounded half up to fewer digits of a second; after the last is midnight."""
    unit = 10 ** (6 - digits)
    half = unit // 2
    return (
        f"(TIME '00:00:00' + to_microseconds((epoch_us({duckdb}) + {half}) // {unit} * {unit}"
        f" % {DAY}))",
        f"(({spark} + {half}) div {unit} * {unit} % {DAY})",
    )
