"""JSON as text and as Python values, and JSON functions over whole texts.

A number is kept as written, so that it loses no digits. A value of type json is text without
whitespace, whose objects have their keys in order.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels import floating


class Number(str):
    """A number as written."""

    __slots__ = ()


Json: TypeAlias = Any
"""None, bool, `Number`, str, or a list or dict of them; to write, also a tuple of members."""

_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=lambda _: 1 / 0)


def parse(text: str) -> Json:
    """Parses JSON text into a value.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except (ZeroDivisionError, RecursionError) as error:
        raise ValueError(str(error)) from error


def write(value: Json, *, ordered: bool = False) -> str:
    """Writes a value as JSON text without whitespace."""
    match value:
        case Number():
            return str(value)
        case decimal.Decimal():
            return format(value, "f")
        case list():
            return f"[{','.join(write(item, ordered=ordered) for item in value)}]"
        case dict() | tuple():  # members may share a key: those of a row may all have none
            pairs: Iterable[tuple[str, Json]] = value.items() if isinstance(value, dict) else value
            if ordered:
                pairs = sorted(pairs)
            members = (f"{_text(key)}:{write(item, ordered=ordered)}" for key, item in pairs)
            return f"{{{','.join(members)}}}"
        case str():
            return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(whole(text), ensure_ascii=False)


def whole(text: str) -> str:
    """Replaces lone surrogates, which JSON can express, in a text."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def canonical(value: Json) -> str:
    """Returns the canonical text of a value, as in type json: numbers keep their digits.

    Raises:
        ValueError: A number has an exponent that no decimal has.
    """
    return write(_each_number(value, _exact), ordered=True)


def doubled(value: Json) -> Json:
    """Returns the contents of a value; its numbers that are not whole are doubles."""
    return _each_number(value, lambda number: Number(floating.plain(float(number))))


def _exact(number: Number) -> Number:
    try:
        exact = decimal.Decimal(number)
    except decimal.InvalidOperation:
        raise ValueError(f"the exponent of {number[:40]} is too large") from None
    return Number(abs(exact) if exact == 0 else exact)


def _each_number(value: Json, change: Callable[[Number], Number]) -> Json:
    match value:
        case Number():
            if is_whole(value):
                return Number("0") if value == "-0" else value
            return change(value)
        case list():
            return [_each_number(item, change) for item in value]
        case dict():
            return {key: _each_number(item, change) for key, item in value.items()}
    return value


def parsed(text: str) -> str:
    """json_parse: the text as a value of type json."""
    try:
        return canonical(parse(text))
    except ValueError as error:
        raise SeamlineError(INVALID_ARGUMENT, f"{text[:100]!r} is not JSON", hint="") from error


def is_scalar(text: str) -> bool:
    """is_json_scalar: whether the value is neither an object nor an array."""
    return not isinstance(parse(parsed(text)), dict | list)


def _array(text: str) -> list[Json] | None:
    try:
        value = parse(text)
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def array_length(text: str) -> int | None:
    """json_array_length: the number of elements; null if the text is not an array."""
    items = _array(text)
    return None if items is None else len(items)


def array_get(text: str, index: int) -> str | None:
    """json_array_get: an element by index from 0, or from the end if negative; text is unquoted."""
    items = _array(text)
    if items is None or not -len(items) <= index < len(items):
        return None
    value = items[index]
    if value is None:
        return None
    return whole(value) if type(value) is str else write(value)


def array_contains(text: str, needle: Any) -> bool | None:
    """json_array_contains: whether a value is among the elements."""
    items = _array(text)
    return None if items is None else any(_is(value, needle) for value in items)


def _is(value: Json, needle: Any) -> bool:
    if isinstance(needle, bool) or isinstance(value, bool):
        return value is needle
    if isinstance(value, Number):  # whole numbers are looked for among whole numbers only
        kind = int if is_whole(value) else float
        return isinstance(needle, kind) and kind(value) == needle
    return type(value) is str and value == needle


def is_whole(number: Number) -> bool:
    """Whether a number is written without a point and an exponent."""
    return number.lstrip("-").isdigit()


def size(value: Json) -> int:
    """Returns the number of elements or members of a value; 0 for a scalar."""
    return len(value) if isinstance(value, list | Mapping) else 0


# --- JSON constructors ---------------------------------------------------------------------------


def array_of(values: Sequence[str | None], nulls: str) -> str:
    """Builds an array of JSON values; `nulls` says whether null values are omitted or written."""
    is_absent = nulls == "absent"
    texts = ("null" if v is None else v for v in values if v is not None or not is_absent)
    return f"[{','.join(texts)}]"


def object_of(
    keys: Sequence[str | None], values: Sequence[str | None], nulls: str, unique: str
) -> str:
    """Builds an object of keys and JSON values, in the given order.

    Args:
        keys: The keys.
        values: A value for each key.
        nulls: `absent` omits null values, `null` writes them.
        unique: `unique` if no key may occur twice.

    Raises:
        SeamlineError: INVALID_ARGUMENT for a key that is null, or occurs twice where it may not.
    """
    if None in keys:
        raise SeamlineError(INVALID_ARGUMENT, "a key of JSON_OBJECT is null", hint="")
    if unique and len(set(keys)) < len(keys):
        raise SeamlineError(INVALID_ARGUMENT, "a key of JSON_OBJECT occurs twice", hint="")
    members = (
        f"{_text(key or '')}:{'null' if value is None else value}"
        for key, value in zip(keys, values, strict=True)
        if value is not None or nulls != "absent"
    )
    return f"{{{','.join(members)}}}"
