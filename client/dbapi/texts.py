"""Values as programs read them: each value has one text, wherever it is written.

This is what `seamline query` writes as CSV, TSV and JSON, and what the gateway returns as CSV:

    boolean                  true, false
    integers, real, double   the shortest digits that round-trip; NaN, Infinity, -Infinity
    decimal                  every digit, without an exponent; a string in JSON
    varbinary                base64
    date, time, timestamp    ISO 8601 to the microsecond: 2024-02-29T01:02:03.123456
    … with time zone         in UTC: 2024-02-29T01:02:03.123456Z
    array, map, row          JSON; map keys that are not text are written as their text

A null is an empty cell, or the requested text. An empty text is quoted, and so is a text that looks
like the null.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import uuid
from collections.abc import Iterable
from typing import Any


def json_value(value: Any) -> Any:
    """Converts a value, without loss, to one that the `json` module can write."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _infinite(value)
        case dict():
            return {
                key if isinstance(key, str) else text(key): json_value(item)
                for key, item in value.items()
            }
        case list() | tuple():  # nested map keys are tuples
            return [json_value(item) for item in value]
    return _scalar_text(value)


def text(value: Any) -> str:
    """Returns a non-null value as the text of a cell."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value) if math.isfinite(value) else _infinite(value)
        case dict() | list() | tuple():
            return json.dumps(json_value(value), ensure_ascii=False)
        case int():
            return str(value)
    return _scalar_text(value)


def _infinite(value: float) -> str:
    return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")


def _scalar_text(value: Any) -> str:
    match value:
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case uuid.UUID():
            return str(value)
        case datetime.datetime() if value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return moment.isoformat(timespec="microseconds") + "Z"
        case datetime.datetime() | datetime.time():
            return value.isoformat(timespec="microseconds")
        case datetime.date():
            return value.isoformat()
    raise TypeError(f"no SQL type has values such as {value!r}")


def separated_line(
    cells: Iterable[Any], *, separator: str = ",", null: str = "", end: str = "\r\n"
) -> str:
    """Returns a line of CSV as in RFC 4180, or of TSV.

    Args:
        cells: The values of a row.
        separator: The text between two cells.
        null: The text for a null; a value with the same text is quoted.
        end: The end of the line.
    """
    return separator.join(_cell(cell, separator, null) for cell in cells) + end


def _cell(value: Any, separator: str, null: str) -> str:
    if value is None:
        return null
    cell = text(value)
    is_plain = cell.isalnum() or not ({separator, '"', "\r", "\n"} & {*cell})
    if is_plain and cell and cell != null:
        return cell
    return '"' + cell.replace('"', '""') + '"'


def printable(text: str) -> str:
    """Returns a text of one line that cannot control a terminal: dots stand for what could."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "·" for c in text)
