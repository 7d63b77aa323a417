"""Encodes rows as JSON without losing exactness, and as CSV.

bigint is a number; decimal, date, timestamp and uuid are strings; varbinary is base64; NaN and
infinities are strings; rows and maps are objects, arrays are arrays. Map keys that are not strings
are encoded as JSON to become object keys.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from seamline.dbapi.texts import separated_line
from seamline.dbapi.values import arrow_converter
from seamline.errors import NUMERIC_OVERFLOW, SeamlineError
from seamline.gateway.query.far_years import python_values
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.kernels.floating import not_finite
from seamline.sql.types import Array, Map, Row, Type


def json_rows(batches: Iterable[pa.RecordBatch], column_types: Sequence[Type]) -> list[list[Any]]:
    """Returns the rows of batches as lists of JSON values."""
    rows: list[list[Any]] = []
    for batch in batches:
        columns = [
            _column(batch.column(position), type_) for position, type_ in enumerate(column_types)
        ]
        rows.extend(list(row) for row in zip(*columns, strict=True))
    return rows


def csv_text(batches: Iterable[pa.RecordBatch], columns: Sequence[Output], *, header: bool) -> str:
    """Returns the rows of batches as CSV."""
    lines = [separated_line(column.name for column in columns)] if header else []
    converters = [arrow_converter(str(column.type)) for column in columns]
    for batch in batches:
        values = [shown(f, column) for f, column in zip(converters, batch.columns, strict=True)]
        lines.extend(map(separated_line, zip(*values, strict=True)))
    return "".join(lines)


def shown(convert: Callable[[pa.Array], list[Any]], column: pa.Array) -> list[Any]:
    """Returns the values of a column as our clients represent them; as text for years they lack."""
    try:
        return convert(column)
    except SeamlineError as error:
        if error.code is not NUMERIC_OVERFLOW:
            raise
        return python_values(column)


def _column(array: pa.Array, type_: Type) -> list[Any]:
    values = python_values(array)
    if type_ in _AS_THEY_ARE:
        return values
    return [json_value(value, type_) for value in values]


_AS_THEY_ARE = frozenset({types.BOOLEAN, *types.INTEGERS, types.VARCHAR, types.UUID, types.JSON})


def json_value(value: Any, type_: Type) -> Any:
    """Returns one value in its JSON form."""
    if value is None:
        return None
    match type_:
        case Array(element):
            return [json_value(item, element) for item in value]
        case Map(key, inner):
            return {_key(k, key): json_value(v, inner) for k, v in value}
        case Row(fields):
            return {field.name: json_value(value[field.name], field.type) for field in fields}
    match value:
        case float() if not math.isfinite(value):
            return not_finite(value)
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime() if value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return moment.isoformat(" ", "microseconds") + " UTC"
        case datetime.datetime():
            return value.isoformat(" ", "microseconds")
        case datetime.date() | datetime.time():
            return value.isoformat()
    return value


def _key(value: Any, type_: Type) -> str:
    converted = json_value(value, type_)
    return converted if isinstance(converted, str) else json.dumps(converted)
