"""Intervals: lengths of time in milliseconds or months, stored as whole numbers on both engines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from seamline.sql import types
from seamline.sql.functions.registry import aggregate, define, kernel, scalar
from seamline.sql.kernels.durations import human_readable_seconds, parse_duration
from seamline.sql.kernels.kernel import by_row
from seamline.sql.types import Timestamp, Type

_DAY, _YEAR = str(types.INTERVAL_DAY), str(types.INTERVAL_YEAR)
_TIME = str(types.TIME)
_MOMENTS = ("timestamp", "timestamp with time zone")

# --- Moving dates and times ----------------------------------------------------------------------


def _both_ways(
    moment: str,
    interval: str,
    duckdb: str,
    spark: str,
    returns: Callable[[Sequence[Type]], Type] | None = None,
) -> None:
    """Declares `moment + interval`, `interval + moment` and `moment - interval`.

    In the templates, [m] is the moment and [i] the interval with its sign.
    """
    for name, signature, moment_at, interval_at in (
        ("$add", f"{moment}, {interval} -> {moment}", "{0}", "{1}"),
        ("$add", f"{interval}, {moment} -> {moment}", "{1}", "{0}"),
        ("$subtract", f"{moment}, {interval} -> {moment}", "{0}", "(-{1})"),
    ):
        on_duckdb, on_spark = (
            text.replace("[m]", moment_at).replace("[i]", interval_at) for text in (duckdb, spark)
        )
        define("scalar", name, signature, on_duckdb, on_spark, returns)


def _in_milliseconds(arguments: Sequence[Type]) -> Type:
    """Returns the type of a timestamp moved by milliseconds: the greater precision of the two."""
    (moment,) = (type_ for type_ in arguments if isinstance(type_, Timestamp))
    return dataclasses.replace(moment, precision=max(3, moment.precision))


_NO_DAYS = "INVALID_ARGUMENT: a date can only be moved by whole days"
_both_ways(
    "date",
    _DAY,
    f"(CASE WHEN [i] % 86400000 <> 0 THEN error('{_NO_DAYS}')"
    " ELSE [m] + CAST([i] // 86400000 AS INTEGER) END)",
    f"(CASE WHEN [i] % 86400000 <> 0 THEN CAST(raise_error('{_NO_DAYS}') AS DATE)"
    " ELSE date_add([m], CAST([i] div 86400000 AS INT)) END)",
)
for _moment in _MOMENTS:
    _both_ways(
        _moment,
        _DAY,
        "CAST(([m] + to_milliseconds([i])) AS {type})",
        "CAST(timestamp_micros(unix_micros(CAST([m] AS TIMESTAMP)) + [i] * 1000) AS {type})",
        _in_milliseconds,
    )
for _moment in ("date", *_MOMENTS):
    _both_ways(
        _moment,
        _YEAR,
        "CAST(([m] + to_months(CAST([i] AS INTEGER))) AS {type})",
        "CAST(timestampadd(MONTH, CAST([i] AS INT), [m]) AS {type})",
    )
_both_ways(
    _TIME,
    _DAY,
    "([m] + to_milliseconds([i] % 86400000))",
    "pmod([m] + [i] % 86400000 * 1000, 86400000000)",
)

# --- Differences between two moments -------------------------------------------------------------

scalar(
    "$subtract",
    f"date, date -> {_DAY}",
    "(CAST({0} - {1} AS BIGINT) * 86400000)",
    "(CAST(datediff({0}, {1}) AS BIGINT) * 86400000)",
)
for _moment in _MOMENTS:
    scalar(
        "$subtract",
        f"{_moment}, {_moment} -> {_DAY}",
        "CAST(floor((epoch_us({0}) - epoch_us({1}) + 500) / 1000::DOUBLE) AS BIGINT)",
        "CAST(floor((unix_micros(CAST({0} AS TIMESTAMP)) - unix_micros(CAST({1} AS TIMESTAMP))"
        " + 500) / 1000D) AS BIGINT)",
    )
scalar(
    "$subtract",
    f"{_TIME}, {_TIME} -> {_DAY}",
    "CAST(floor((epoch_us({0}) - epoch_us({1}) + 500) / 1000::DOUBLE) AS BIGINT)",
    "CAST(floor(({0} - {1} + 500) / 1000D) AS BIGINT)",
)

# --- Arithmetic ----------------------------------------------------------------------------------

for _interval in (_DAY, _YEAR):
    for _operator, _name in (("+", "$add"), ("-", "$subtract")):
        scalar(_name, f"{_interval}, {_interval} -> {_interval}", f"({{0}} {_operator} {{1}})")
    scalar("$negate", f"{_interval} -> {_interval}", "(-{0})")
    scalar("$multiply", f"{_interval}, bigint -> {_interval}", "({0} * {1})")
    scalar("$multiply", f"bigint, {_interval} -> {_interval}", "({0} * {1})")
    for _signature in (f"{_interval}, double", f"double, {_interval}"):
        scalar(
            "$multiply",
            f"{_signature} -> {_interval}",
            "CAST(trunc({0} * {1}) AS BIGINT)",
            "CAST(({0} * {1}) AS BIGINT)",
        )
    scalar(
        "$divide",
        f"{_interval}, double -> {_interval}",
        "(CASE WHEN {1} = 0 THEN error('DIVISION_BY_ZERO')"
        " ELSE CAST(trunc({0} / {1}) AS BIGINT) END)",
        "(CASE WHEN {1} = 0 THEN raise_error('DIVISION_BY_ZERO')"
        " ELSE CAST(({0} / {1}) AS BIGINT) END)",
    )
    aggregate(
        "sum",
        f"{_interval} -> {_interval}",
        "CAST(sum({distinct}{0}){over} AS BIGINT)",
        "sum({distinct}{0}){over}",
    )
    aggregate(
        "avg",
        f"{_interval} -> {_interval}",
        "CAST(floor(avg({distinct}{0}){over} + 0.5) AS BIGINT)",
        "CAST(floor(avg({distinct}{0}){over} + 0.5D) AS BIGINT)",
    )

# --- Fields --------------------------------------------------------------------------------------

for _name, _unit, _count in (
    ("day", 86_400_000, None),
    ("day_of_month", 86_400_000, None),
    ("hour", 3_600_000, 24),
    ("minute", 60_000, 60),
    ("second", 1_000, 60),
    ("millisecond", 1, 1_000),
):
    _rest = "" if _count is None else f" % {_count}"
    scalar(
        _name, f"{_DAY} -> bigint", f"(({{0}} // {_unit}){_rest})", f"(({{0}} div {_unit}){_rest})"
    )
scalar("year", f"{_YEAR} -> bigint", "({0} // 12)", "({0} div 12)")
scalar("month", f"{_YEAR} -> bigint", "({0} % 12)")
scalar("to_milliseconds", f"{_DAY} -> bigint", "{0}")
kernel("parse_duration", f"varchar -> {_DAY}", by_row(parse_duration))
kernel("human_readable_seconds", "double -> varchar", by_row(human_readable_seconds))
