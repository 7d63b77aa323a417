"""Types as Trino's protocol describes them: a raw type and its arguments.

`decimal(12,2)` is `{"rawType": "decimal", "arguments": [{"kind": "LONG", "value": 12}, …]}`; the
arguments of arrays and maps are of the kind `TYPE`, those of rows `NAMED_TYPE`.
"""

from __future__ import annotations

import re
from typing import Any

from seamline.sql.types import (
    VARCHAR,
    Array,
    Char,
    Decimal,
    Field,
    Interval,
    Map,
    Row,
    Time,
    Timestamp,
    Type,
)

_UNBOUNDED = 2_147_483_647
"""The length that stands for an unbounded varchar."""


def signature(type_: Type) -> dict[str, Any]:
    """Returns the signature of a type, JSON-ready."""
    match type_:
        case Decimal(precision, scale):
            return _signature("decimal", _long(precision), _long(scale))
        case Timestamp(precision, zoned):
            name = "timestamp with time zone" if zoned else "timestamp"
            return _signature(name, _long(precision))
        case Time(precision, zoned):
            return _signature("time with time zone" if zoned else "time", _long(precision))
        case Char(length):
            return _signature("char", _long(length))
        case Array(element):
            return _signature("array", _type(element))
        case Map(key, value):
            return _signature("map", _type(key), _type(value))
        case Row(fields):
            return _signature("row", *map(_named, fields))
    return _signature(str(type_), *([_long(_UNBOUNDED)] if type_ == VARCHAR else []))


def written(type_: Type) -> str:
    """Returns a type as Trino writes it in columns: blanks after commas, intervals in capitals."""
    text = _DECIMAL.sub(r"decimal(\1, \2)", str(type_))
    return text.upper() if isinstance(type_, Interval) else text


_DECIMAL = re.compile(r"\bdecimal\((\d+),(\d+)\)")


def _signature(name: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"rawType": name, "arguments": list(arguments)}


def _long(value: int) -> dict[str, Any]:
    return {"kind": "LONG", "value": value}


def _type(type_: Type) -> dict[str, Any]:
    return {"kind": "TYPE", "value": signature(type_)}


def _named(field: Field) -> dict[str, Any]:
    name = {} if field.is_nameless else {"fieldName": {"name": field.name}}
    value = {**name, "typeSignature": signature(field.type)}
    return {"kind": "NAMED_TYPE", "value": value}
