"""Functions that format dates and times as text, and parse them from text."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql.functions.registry import define, kernel
from seamline.sql.kernels.date_formats import by_pattern
from seamline.sql.kernels.date_parsing import (
    date_parse,
    from_iso8601_date,
    from_iso8601_timestamp,
    from_iso8601_timestamp_nanos,
    parse_datetime,
)
from seamline.sql.kernels.date_patterns import of_joda, of_mysql
from seamline.sql.kernels.kernel import by_row
from seamline.sql.templates import Template
from seamline.sql.types import Timestamp, Type

kernel("date_format", "timestamp, varchar -> varchar", by_pattern(of_mysql))
kernel("format_datetime", "timestamp, varchar -> varchar", by_pattern(of_joda))
kernel("$format_zoned", "timestamp, varchar, bigint, varchar -> varchar", by_pattern(of_joda))
kernel("date_parse", "varchar, varchar -> timestamp(3)", by_row(date_parse))
kernel("parse_datetime", "varchar, varchar -> timestamp(3) with time zone", by_row(parse_datetime))
kernel(
    "from_iso8601_timestamp",
    "varchar -> timestamp(3) with time zone",
    by_row(from_iso8601_timestamp),
)
kernel(
    "from_iso8601_timestamp_nanos",
    "varchar -> timestamp(6) with time zone",
    by_row(from_iso8601_timestamp_nanos),
)
for _name, _compute, _types in (
    ("parse_datetime", parse_datetime, "varchar, varchar, varchar -> timestamp(3)"),
    ("from_iso8601_timestamp", from_iso8601_timestamp, "varchar, varchar -> timestamp(3)"),
    (
        "from_iso8601_timestamp_nanos",
        from_iso8601_timestamp_nanos,
        "varchar, varchar -> timestamp(6)",
    ),
):  # with the zone of text that names none
    kernel(f"${_name}_in", f"{_types} with time zone", by_row(_compute))
kernel("from_iso8601_date", "varchar -> date", by_row(from_iso8601_date))


def _iso8601(duckdb_format: str, spark_format: str, zone: str = "") -> tuple[Template, Template]:
    """Returns templates for text with as many digits of a second as the type has."""

    def length(arguments: Sequence[Type]) -> int:
        digits = arguments[0].precision if isinstance(arguments[0], Timestamp) else 6
        return 19 + (digits + 1 if digits else 0)

    def duckdb(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        text = f"strftime(CAST({args[0]} AS TIMESTAMP), '{duckdb_format}')"
        return f"(substr({text}, 1, {length(arguments)}) || '{zone}')"

    def spark(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        text = f'date_format({args[0]}, "{spark_format}")'
        return f"concat(substr({text}, 1, {length(arguments)}), '{zone}')"

    return duckdb, spark


define("scalar", "to_iso8601", "date -> varchar", "CAST({0} AS VARCHAR)", "CAST({0} AS STRING)")
for _moment, _zone in (("timestamp", ""), ("timestamp with time zone", "Z")):
    define(
        "scalar",
        "to_iso8601",
        f"{_moment} -> varchar",
        *_iso8601("%Y-%m-%dT%H:%M:%S.%f", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", _zone),
    )
