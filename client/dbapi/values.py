"""Values as Python has them, from Arrow or from JSON.

Decimal for decimal, aware datetimes for timestamps with time zone, bytes, UUID, lists for arrays,
dicts for rows and maps.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

Converter = Callable[[Any], Any]


def json_converter(type_: str) -> Converter:
    """How a JSON value of that type (by its SQL name) becomes Python's."""
    return _nested(type_, _JSON_LEAVES)


def arrow_converter(type_: str) -> Converter:
    """How what Arrow gives for that type becomes Python's."""
    return _nested(type_, _ARROW_LEAVES)


def _timestamp(text: str) -> datetime.datetime:
    if text.endswith(" UTC"):
        return datetime.datetime.fromisoformat(text[:-4]).replace(tzinfo=datetime.UTC)
    return datetime.datetime.fromisoformat(text)


def _utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC)


def _same(value: Any) -> Any:
    return value


_JSON_LEAVES: dict[str, Converter] = {
    "decimal": decimal.Decimal,
    "varbinary": base64.b64decode,
    "uuid": uuid.UUID,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timestamp": _timestamp,
    "timestamp with time zone": _timestamp,
    "double": float,
    "real": float,
}
_ARROW_LEAVES: dict[str, Converter] = {"uuid": uuid.UUID, "timestamp with time zone": _utc}


def _nested(type_: str, leaves: dict[str, Converter]) -> Converter:
    name, inside = _split(type_)
    match name:
        case "array":
            element = _nested(inside[0], leaves)
            return _nullable(lambda items: [element(item) for item in items])
        case "map":
            key, value = _nested(inside[0], leaves), _nested(inside[1], leaves)
            is_text = leaves is _ARROW_LEAVES or _split(inside[0])[0] not in _KEYS_AS_JSON
            return _nullable(
                lambda entries: {
                    key(k if is_text else json.loads(k)): value(v)
                    for k, v in (entries.items() if isinstance(entries, dict) else entries)
                }
            )
        case "row":
            fields = [_field(part) for part in inside]
            converters = {field: _nested(inner, leaves) for field, inner in fields}
            return _nullable(
                lambda row: {field: convert(row[field]) for field, convert in converters.items()}
            )
    return _nullable(leaves.get(name, _same))


_KEYS_AS_JSON = frozenset({"boolean", "tinyint", "smallint", "integer", "bigint", "double", "real"})


def _nullable(convert: Converter) -> Converter:
    if convert is _same:
        return convert
    return lambda value: None if value is None else convert(value)


_PRECISION = re.compile(r"\(\d+(,\s*\d+)?\)")


def _split(type_: str) -> tuple[str, Sequence[str]]:
    """The bare name of a type, and the types or fields in its brackets."""
    name, bracket, rest = type_.partition("(")
    if name in {"array", "map", "row"} and bracket:
        return name, _parts(rest[:-1])
    return _PRECISION.sub("", type_).strip(), ()


def _parts(text: str) -> list[str]:
    """Splits at commas outside brackets and quotes."""
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


def _field(text: str) -> tuple[str, str]:
    """Name and type of a row's field."""
    if text.startswith('"'):
        end = re.match(r'"((?:[^"]|"")*)"', text)
        assert end is not None
        return end[1].replace('""', '"'), text[end.end() :].strip()
    name, _, type_ = text.partition(" ")
    return name, type_
