"""Converts a statement's parameters to JSON for the gateway, which binds them."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.dbapi.errors import ProgrammingError
from seamline.errors import INVALID_PARAMETERS


def to_json(parameters: Sequence[Any] | Mapping[str, Any] | None) -> Any:
    """Returns the parameters as a list or dict of JSON values.

    Raises:
        ProgrammingError: INVALID_PARAMETERS for a value that JSON cannot carry.
    """
    if parameters is None:
        return []
    if isinstance(parameters, Mapping):
        return {name: value_to_json(value) for name, value in parameters.items()}
    return [value_to_json(value) for value in parameters]


def value_to_json(value: Any) -> Any:
    """Converts one value; a value JSON has no type for becomes an object that names its type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _typed("double", str(value))
        case decimal.Decimal():
            return _typed("decimal", str(value))
        case uuid.UUID():
            return _typed("uuid", str(value))
        case bytes() | bytearray() | memoryview():
            return _typed("varbinary", base64.b64encode(bytes(value)).decode())
        case datetime.datetime():
            kind = "timestamp" if value.tzinfo is None else "timestamp with time zone"
            return _typed(kind, value.isoformat())
        case datetime.date():
            return _typed("date", value.isoformat())
        case datetime.time() if value.tzinfo is None or value.utcoffset() is not None:
            kind = "time" if value.tzinfo is None else "time with time zone"
            return _typed(kind, value.isoformat())
        case list() | tuple():
            return [value_to_json(item) for item in value]
    raise ProgrammingError(
        INVALID_PARAMETERS, f"a value of type {type(value).__name__} cannot be a parameter"
    )


def _typed(kind: str, value: str) -> dict[str, str]:
    return {"type": kind, "value": value}
