"""Converts result values from Arrow or JSON to Python objects.

Results have Decimal for decimal, aware datetimes for timestamps with time zone, bytes, UUID, lists
for arrays, and dicts for rows and maps.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from seamline.errors import NUMERIC_OVERFLOW, SeamlineError

if TYPE_CHECKING:
    import pyarrow as pa

Converter = Callable[[Any], Any]


def json_converter(type_: str) -> Converter:
    """Returns the function that converts JSON values of a type (by SQL name) to Python values.

    The function raises NUMERIC_OVERFLOW for dates and timestamps of years that Python lacks.
    """
    return _nested(type_, _JSON_LEAVES)


def arrow_converter(type_: str) -> Callable[[pa.Array], list[Any]]:
    """Returns the function that converts an Arrow column of that type to a list of Python values.

    Timestamps are built from their integer values here. Arrow would look up the time zone for each
    of them, and for a million timestamps that lookup would take most of the time. The function
    raises NUMERIC_OVERFLOW for dates and timestamps of years that Python lacks.
    """
    convert = _nested(type_, _ARROW_LEAVES)

    def values(column: pa.Array) -> list[Any]:
        try:
            plain = column.cast(_with_moments_as_numbers(column.type)).to_pylist()
            return plain if convert is _same else list(map(convert, plain))
        except OverflowError as error:
            raise _far(type_) from error

    return values


def _with_moments_as_numbers(type_: pa.DataType) -> pa.DataType:
    """Returns an Arrow type in which microsecond timestamps with time zone become integers."""
    import pyarrow as pa

    if pa.types.is_timestamp(type_) and type_.tz is not None and type_.unit == "us":
        return pa.int64()
    if pa.types.is_null(type_):
        return pa.bool_()  # casting an all-null array to its own type loses all nulls but one
    if pa.types.is_map(type_):
        return pa.map_(
            _with_moments_as_numbers(type_.key_type), _with_moments_as_numbers(type_.item_type)
        )
    if pa.types.is_list(type_):
        return pa.list_(_field_with_numbers(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_field_with_numbers(field) for field in type_])
    return type_


def _field_with_numbers(field: pa.Field) -> pa.Field:
    return field.with_type(_with_moments_as_numbers(field.type))


def _far(type_: str) -> SeamlineError:
    return SeamlineError(
        NUMERIC_OVERFLOW,
        f"Python has no {type_} of a year before 1 or after 9999",
        hint="CAST it AS varchar, or fetch the result as Arrow.",
    )


def _date(text: str) -> datetime.date:
    if text.startswith(_FAR):
        raise _far("date")
    return datetime.date.fromisoformat(text)


_FAR = ("+", "-", "0000")
"""How years that Python lacks begin."""


def _timestamp(text: str) -> datetime.datetime:
    if text.startswith(_FAR):
        raise _far("timestamp")
    if text.endswith(" UTC"):
        return datetime.datetime.fromisoformat(text[:-4]).replace(tzinfo=datetime.UTC)
    return datetime.datetime.fromisoformat(text)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _moment(value: int | datetime.datetime) -> datetime.datetime:
    """Converts from microseconds since the epoch; Arrow's other units are already datetimes."""
    if isinstance(value, int):
        return _EPOCH + datetime.timedelta(0, 0, value)
    return value.astimezone(datetime.UTC)


def _hashable(key: Any) -> Any:
    """Returns a hashable key: an array becomes a tuple, and a row the tuple of its values."""
    if isinstance(key, list):
        return tuple(map(_hashable, key))
    if isinstance(key, dict):
        return tuple(map(_hashable, key.values()))
    return key


def _same(value: Any) -> Any:
    return value


_JSON_LEAVES: dict[str, Converter] = {
    "decimal": decimal.Decimal,
    "varbinary": base64.b64decode,
    "uuid": uuid.UUID,
    "date": _date,
    "time": datetime.time.fromisoformat,
    "time with time zone": datetime.time.fromisoformat,
    "timestamp": _timestamp,
    "timestamp with time zone": _timestamp,
    "double": float,
    "real": float,
}
_ARROW_LEAVES: dict[str, Converter] = {
    "uuid": uuid.UUID,
    "time with time zone": datetime.time.fromisoformat,  # Arrow lacks the type, so it is text
    "timestamp with time zone": _moment,
}


def _nested(type_: str, leaves: dict[str, Converter]) -> Converter:
    name, inside = split_type(type_)
    match name:
        case "array":
            element = _nested(inside[0], leaves)
            return _nullable(lambda items: [element(item) for item in items])
        case "map":
            key, value = _nested(inside[0], leaves), _nested(inside[1], leaves)
            kind = split_type(inside[0])[0]
            is_text = leaves is _ARROW_LEAVES or kind not in _KEYS_AS_JSON
            hashable = _hashable if kind in _NESTED else _same
            return _nullable(
                lambda entries: {
                    hashable(key(k if is_text else json.loads(k))): value(v)
                    for k, v in (entries.items() if isinstance(entries, dict) else entries)
                }
            )
        case "row":
            fields = [row_field(part, position) for position, part in enumerate(inside)]
            converters = {field: _nested(inner, leaves) for field, inner in fields}
            return _nullable(
                lambda row: {field: convert(row[field]) for field, convert in converters.items()}
            )
    return _nullable(leaves.get(name, _same))


_NESTED = frozenset({"array", "map", "row"})
_KEYS_AS_JSON = frozenset({"boolean", "tinyint", "smallint", "integer", "bigint", "double", "real"})


def _nullable(convert: Converter) -> Converter:
    if convert is _same:
        return convert
    return lambda value: None if value is None else convert(value)


_PRECISION = re.compile(r"\(\d+(,\s*\d+)?\)")


def split_type(type_: str) -> tuple[str, Sequence[str]]:
    """Returns the bare name of a type, and the types or fields in its parentheses."""
    name, bracket, rest = type_.partition("(")
    if name in _NESTED and bracket:
        return name, _parts(rest[:-1])
    return _PRECISION.sub("", type_).strip(), ()


def _parts(text: str) -> list[str]:
    """Splits at commas outside parentheses and quotes."""
    parts, depth, quoted, current = [], 0, False, ""
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
        if character == "," and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()]


def row_field(text: str, position: int) -> tuple[str, str]:
    """Returns the name and type of a row field, as written in the row's type.

    A field without a name is called by its place, from 0: `field0`.
    """
    if text.startswith('"'):
        end = re.match(r'"((?:[^"]|"")*)"', text)
        assert end is not None
        return end[1].replace('""', '"'), text[end.end() :].strip()
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else (f"field{position}", text)


_NAMED = re.compile(r"(?!interval )([a-z_][a-z0-9_]*) (.+)")
