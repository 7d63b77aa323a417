"""Functions of dates and times: reading fields, moving and comparing.

An instant in a zone other than UTC is converted to local time before it reaches these functions. On
Spark, which has no type for it, a time of day is microseconds since midnight.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.functions.registry import scalar
from seamline.sql.templates import Template
from seamline.sql.types import Type

_MOMENTS = ("timestamp", "timestamp with time zone")
_TIMES = ("date", *_MOMENTS)
_TIME = str(types.TIME)

# --- Fields --------------------------------------------------------------------------------------

_PARTS = {
    "year": ("year", "year({0})"),
    "year_of_week": ("isoyear", "extract(YEAROFWEEK FROM {0})"),
    "yow": ("isoyear", "extract(YEAROFWEEK FROM {0})"),
    "quarter": ("quarter", "quarter({0})"),
    "month": ("month", "month({0})"),
    "week": ("week", "weekofyear({0})"),
    "week_of_year": ("week", "weekofyear({0})"),
    "day": ("day", "day({0})"),
    "day_of_month": ("day", "day({0})"),
    "day_of_week": ("isodow", "(weekday({0}) + 1)"),
    "dow": ("isodow", "(weekday({0}) + 1)"),
    "day_of_year": ("doy", "dayofyear({0})"),
    "doy": ("doy", "dayofyear({0})"),
}
_CLOCK_PARTS = {
    "hour": ("hour", "hour({0})"),
    "minute": ("minute", "minute({0})"),
    "second": ("second", "second({0})"),
}
FIELDS = frozenset({*_PARTS, *_CLOCK_PARTS, "millisecond", "last_day_of_month"})
"""Functions that read fields of an instant, in the local time of its zone."""

OF_ZONES = frozenset({"timezone_hour", "timezone_minute"})
EXTRACTED = (FIELDS - {"last_day_of_month", "millisecond", "week_of_year"}) | OF_ZONES
"""The fields that EXTRACT reads."""

OF_CLOCKS = frozenset(_CLOCK_PARTS) | OF_ZONES
"""The fields that EXTRACT does not read from dates."""

for _time in _TIMES:
    for _name, (_part, _spark_part) in (
        _PARTS.items() if _time == "date" else {**_PARTS, **_CLOCK_PARTS}.items()
    ):
        scalar(
            _name,
            f"{_time} -> bigint",
            f"CAST(date_part('{_part}', {{0}}) AS BIGINT)",
            f"CAST({_spark_part} AS BIGINT)",
        )
for _time in _MOMENTS:
    scalar(
        "millisecond",
        f"{_time} -> bigint",
        "(date_part('millisecond', {0}) % 1000)",
        "CAST(date_format({0}, 'SSS') AS BIGINT)",
    )
for _name, _length, _count in (
    ("hour", 3_600_000_000, 24),
    ("minute", 60_000_000, 60),
    ("second", 1_000_000, 60),
    ("millisecond", 1_000, 1_000),
):
    scalar(
        _name,
        f"{_TIME} -> bigint",
        f"((epoch_us({{0}}) // {_length}) % {_count})",
        f"(({{0}} div {_length}) % {_count})",
    )
for _name in ("timezone_hour", "timezone_minute"):
    scalar(
        _name,
        "timestamp with time zone -> bigint",
        "(CASE WHEN {0} IS NULL THEN NULL ELSE CAST(0 AS BIGINT) END)",
    )
for _time in _TIMES:
    scalar("last_day_of_month", f"{_time} -> date", "last_day({0})")

# --- date_trunc ----------------------------------------------------------------------------------

DATE_UNITS = ("day", "week", "month", "quarter", "year")
CLOCK_UNITS = ("millisecond", "second", "minute", "hour")
_MICROS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
for _time in _TIMES:
    for _unit in DATE_UNITS if _time == "date" else (*CLOCK_UNITS, *DATE_UNITS):
        scalar(
            f"$date_trunc_{_unit}",
            f"{_time} -> {_time}",
            f"CAST(date_trunc('{_unit}', {{0}}) AS {{type}})",
            f"CAST(date_trunc('{_unit}', {{0}}) AS {{type}})",
        )
for _unit in CLOCK_UNITS:
    scalar(
        f"$date_trunc_{_unit}",
        f"{_TIME} -> {_TIME}",
        f"({{0}} - to_microseconds(epoch_us({{0}}) % {_MICROS[_unit]}))",
        f"({{0}} - {{0}} % {_MICROS[_unit]})",
    )

# --- date_add ------------------------------------------------------------------------------------

_INTERVALS = {
    "millisecond": "to_milliseconds({0})",
    "second": "to_seconds({0})",
    "minute": "to_minutes({0})",
    "hour": "to_hours({0})",
    "day": "to_days(CAST({0} AS INTEGER))",
    "week": "to_weeks(CAST({0} AS INTEGER))",
    "month": "to_months(CAST({0} AS INTEGER))",
    "quarter": "to_months(CAST({0} * 3 AS INTEGER))",
    "year": "to_years(CAST({0} AS INTEGER))",
}
_DAY = 86_400_000_000
for _time in _TIMES:
    for _unit, _interval in _INTERVALS.items():
        if _time == "date" and _unit not in DATE_UNITS:
            continue
        scalar(
            f"$date_add_{_unit}",
            f"bigint, {_time} -> {_time}",
            f"CAST(({{1}} + {_interval}) AS {{type}})",
            f"CAST(timestampadd({_unit.upper()}, CAST({{0}} AS INT), {{1}}) AS {{type}})",
        )
for _unit in CLOCK_UNITS:
    scalar(
        f"$date_add_{_unit}",
        f"bigint, {_TIME} -> {_TIME}",
        f"({{1}} + {_INTERVALS[_unit]})",
        f"pmod({{1}} + {{0}} * {_MICROS[_unit]}, {_DAY})",
    )

# --- date_diff -----------------------------------------------------------------------------------


def _millis(moment: str) -> str:
    """Returns DuckDB's whole milliseconds since 1970, rounded down; // rounds towards zero."""
    micros = f"epoch_us({moment})"
    return f"(({micros} - ({micros} % 1000 + 1000) % 1000) // 1000)"


for _time in _MOMENTS:
    for _unit, _micros in _MICROS.items():
        scalar(
            f"$date_diff_{_unit}",
            f"{_time}, {_time} -> bigint",
            f"(({_millis('{1}')} - {_millis('{0}')}) // {_micros // 1000})",
            "((unix_millis(CAST({1} AS TIMESTAMP)) - unix_millis(CAST({0} AS TIMESTAMP)))"
            f" div {_micros // 1000})",
        )
for _unit in CLOCK_UNITS:
    scalar(
        f"$date_diff_{_unit}",
        f"{_TIME}, {_TIME} -> bigint",
        f"((epoch_us({{1}}) - epoch_us({{0}})) // {_MICROS[_unit]})",
        f"(({{1}} - {{0}}) div {_MICROS[_unit]})",
    )
scalar(
    "$date_diff_day",
    "date, date -> bigint",
    "CAST({1} - {0} AS BIGINT)",
    "CAST(datediff({1}, {0}) AS BIGINT)",
)
scalar(
    "$date_diff_week",
    "date, date -> bigint",
    "(CAST({1} - {0} AS BIGINT) // 7)",
    "(CAST(datediff({1}, {0}) AS BIGINT) div 7)",
)


def _months_between(engine: str, months: int) -> Template:
    """Returns a template for the whole months that can be added to the earlier without passing.

    The earlier of the two, since counting backwards from a month's last day gives another number.
    """

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        type_ = (types.to_duckdb if engine == "duckdb" else types.to_spark)(arguments[0])
        divide = "//" if engine == "duckdb" else "div"

        def between(one: str, other: str) -> str:
            count = f"((year({other}) - year({one})) * 12 + month({other}) - month({one}))"
            moved = (
                f"{one} + to_months(CAST({count} AS INTEGER))"
                if engine == "duckdb"
                else f"timestampadd(MONTH, {count}, {one})"
            )
            passes = f"CASE WHEN CAST(({moved}) AS {type_}) > {other} THEN 1 ELSE 0 END"
            return f"(({count} - {passes}) {divide} {months})"

        one, other = args
        return (
            f"CAST(CASE WHEN {one} <= {other} THEN {between(one, other)}"
            f" ELSE -{between(other, one)} END AS BIGINT)"
        )

    return render


for _time in _TIMES:
    for _unit, _months in (("month", 1), ("quarter", 3), ("year", 12)):
        scalar(
            f"$date_diff_{_unit}",
            f"{_time}, {_time} -> bigint",
            _months_between("duckdb", _months),
            _months_between("spark", _months),
        )

# --- Seconds since 1970 --------------------------------------------------------------------------

scalar(
    "to_unixtime",
    "timestamp with time zone -> double",
    "(epoch_us({0}) / 1000000.0::DOUBLE)",
    "(unix_micros({0}) / 1000000D)",
)
scalar(
    "to_unixtime",
    "timestamp -> double",
    "(epoch_us({0}) / 1000000.0::DOUBLE)",
    "(unix_micros(CAST({0} AS TIMESTAMP)) / 1000000D)",
)
scalar(
    "from_unixtime",
    "double -> timestamp(3) with time zone",
    "make_timestamptz(CAST(floor({0} * 1000 + 0.5) AS BIGINT) * 1000)",
    "timestamp_micros(CAST(floor({0} * 1000 + 0.5D) AS BIGINT) * 1000)",
)
_TOO_FINE = "('NOT_SUPPORTED: timestamps have at most 6 digits of a second')"
scalar(
    "from_unixtime_nanos",
    "bigint -> timestamp with time zone",
    f"(CASE WHEN {{0}} % 1000 <> 0 THEN error{_TOO_FINE} ELSE make_timestamptz({{0}} // 1000) END)",
    f"(CASE WHEN {{0}} % 1000 <> 0 THEN raise_error{_TOO_FINE}"
    " ELSE timestamp_micros({0} div 1000) END)",
)
_TOO_FAR = "('NUMERIC_OVERFLOW: nanoseconds reach from 1677 to 2262')"
scalar(
    "from_unixtime_nanos",
    "D -> timestamp with time zone",
    f"(CASE WHEN abs({{0}}) >= {2**63 - 1} THEN error{_TOO_FAR}"
    f" WHEN CAST(round({{0}}) AS BIGINT) % 1000 <> 0 THEN error{_TOO_FINE}"
    " ELSE make_timestamptz(CAST(round({0}) AS BIGINT) // 1000) END)",
    f"(CASE WHEN abs({{0}}) >= {2**63 - 1} THEN raise_error{_TOO_FAR}"
    f" WHEN CAST(round({{0}}) AS BIGINT) % 1000 <> 0 THEN raise_error{_TOO_FINE}"
    " ELSE timestamp_micros(CAST(round({0}) AS BIGINT) div 1000) END)",
)
