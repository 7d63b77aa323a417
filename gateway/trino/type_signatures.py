"""Types as Trino's protocol describes them: a raw type and its arguments.

`decimal(12,2)` is `{"rawType": "decimal", "arguments": [{"kind": "LONG", "value": 12}, …]}`; the
arguments of arrays and maps are of the kind `TYPE`, those of rows `NAMED_TYPE`. Types of times have
their precision only for clients that say that they know it.
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


def signature(type_: Type, *, precisions: bool = True) -> dict[str, Any]:
    """Returns the signature of a type, JSON-ready.

    Args:
        type_: The type.
        precisions: Whether types of times have their precision as an argument.
    """

    def of_type(inner: Type) -> dict[str, Any]:
        return {"kind": "TYPE", "value": signature(inner, precisions=precisions)}

    def of_field(field: Field) -> dict[str, Any]:
        name = {} if field.is_nameless else {"fieldName": {"name": field.name}}
        value = {**name, "typeSignature": signature(field.type, precisions=precisions)}
        return {"kind": "NAMED_TYPE", "value": value}

    match type_:
        case Decimal(precision, scale):
            return _signature("decimal", _long(precision), _long(scale))
        case Timestamp(precision, zoned) | Time(precision, zoned):
            base = "timestamp" if isinstance(type_, Timestamp) else "time"
            name = f"{base} with time zone" if zoned else base
            return _signature(name, *([_long(precision)] if precisions else []))
        case Char(length):
            return _signature("char", _long(length))
        case Array(element):
            return _signature("array", of_type(element))
        case Map(key, value):
            return _signature("map", of_type(key), of_type(value))
        case Row(fields):
            return _signature("row", *map(of_field, fields))
    return _signature(str(type_), *([_long(_UNBOUNDED)] if type_ == VARCHAR else []))


def written(type_: Type, *, precisions: bool = True) -> str:
    """Returns a type as Trino writes it in columns: blanks after commas, intervals in capitals.

    Args:
        type_: The type.
        precisions: Whether types of times have their precision.
    """
    text = _DECIMAL.sub(r"decimal(\1, \2)", str(type_))
    if not precisions:
        text = _TIME.sub(lambda match: match[1] or match[0], text)
    return text.upper() if isinstance(type_, Interval) else text


_DECIMAL = re.compile(r"\bdecimal\((\d+),(\d+)\)")
_TIME = re.compile(r'"(?:[^"]|"")*"|\b(time|timestamp)\(\d+\)')
"""A name in quotes, which stays as it is, or a type of times."""


def _signature(name: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"rawType": name, "arguments": list(arguments)}


def _long(value: int) -> dict[str, Any]:
    return {"kind": "LONG", "value": value}
