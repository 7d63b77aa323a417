"""Values of every client in one form, so that their rows can be compared.

A client gives Python's values, or texts of its own; the type of a column says what they mean.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Value = Any
_SPACED = re.compile("[0-9a-f]{2}( [0-9a-f]{2})*")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?\s*(Z|UTC|\+00:00)?")


def rows(found: Sequence[Sequence[Value]], kinds: Sequence[str]) -> list[tuple[Value, ...]]:
    """Rows whose columns have these kinds."""
    return [tuple(value(*each) for each in zip(kinds, row, strict=True)) for row in found]


def value(kind: str, given: Value) -> Value:
    """A value; every client's null is None."""
    return None if _is_null(given) else KINDS[kind](given)


def _is_null(given: Value) -> bool:
    if given is None or type(given).__name__ in {"NaTType", "NAType"}:
        return True
    return isinstance(given, float) and math.isnan(given)


def _boolean(given: Value) -> bool:
    return str(given).lower() == "true"


def _number(given: Value) -> str:
    return str(decimal.Decimal(str(given)).normalize())


def _bytes(given: Value) -> str:
    if not isinstance(given, str):
        return bytes(given).hex()
    if given.startswith("0x"):
        return given[2:].lower()
    if _SPACED.fullmatch(given):
        return given.replace(" ", "")
    return base64.b64decode(given).hex()


def _moment(given: Value) -> str:
    if isinstance(given, datetime.datetime) and given.tzinfo is not None:
        given = given.astimezone(datetime.UTC)
    found = _MOMENT.fullmatch(str(given))
    assert found, given
    return f"{found[1]} {found[2]}.{(found[3] or '').ljust(6, '0')}"


def _array(given: Value) -> list[Value]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:  # a driver's own text
            given = [None if part.lower() == "null" else part for part in given[1:-1].split(", ")]
    return list(given)


def _row(given: Value) -> list[str]:
    if isinstance(given, str):
        given = _object(given)
    return [str(part) for part in (given.values() if isinstance(given, Mapping) else given)]


def _map(given: Value) -> dict[str, str]:
    if isinstance(given, str):
        given = _object(given)
    if not isinstance(given, Mapping):
        given = dict(
            tuple(part.values()) if isinstance(part, Mapping) else tuple(part) for part in given
        )
    return {str(name): str(part) for name, part in given.items()}


def _object(given: str) -> Value:
    try:
        return json.loads(given)
    except ValueError:
        return dict(part.split("=", 1) for part in given[1:-1].split(", "))


KINDS: Mapping[str, Callable[[Value], Value]] = {
    "boolean": _boolean,
    "integer": lambda given: int(decimal.Decimal(str(given))),
    "number": _number,
    "text": str,
    "bytes": _bytes,
    "uuid": lambda given: str(given).lower(),
    "date": lambda given: str(given)[:10],
    "moment": _moment,
    "array": _array,
    "row": _row,
    "map": _map,
}
