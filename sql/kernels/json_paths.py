"""The functions of JSON paths: those of json_extract, and those of SQL.

A json_extract path names one value: `$.store.book[0]["a b"]`. An SQL path (`sql_paths`) may find
several values, and says whether a missing member is an error.
"""

from __future__ import annotations

import decimal
import functools
import re
from collections.abc import Sequence
from typing import Any

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels import floating, json_texts
from seamline.sql.kernels.json_texts import Json, Number
from seamline.sql.kernels.path_numbers import PathError, number_of, rounded
from seamline.sql.kernels.path_parsing import sql_path

_STEP = re.compile(
    r"""\.(?P<name>[\w:-]+)|\[(?P<place>\d+)\]|\[(?P<key>[\w-]+)\]"""
    r"""|\[(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]"""
)
_MISSING = object()


@functools.lru_cache(maxsize=512)
def _steps(path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            break
        if match["place"] is not None:
            steps.append(int(match["place"]))
        else:
            quoted = match["quoted"]
            inner = re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted else None
            steps.append(inner if inner is not None else match["name"] or match["key"])
        at = match.end()
    if not path.startswith("$") or at < len(path):
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{path!r} is not a JSON path",
            hint='Write $.name, $["name"] and $[0]; wildcards find more than one value.',
        )
    return tuple(steps)


def _found(text: str, path: str) -> Json:
    steps = _steps(path)
    try:
        value = json_texts.parse(text)
    except ValueError:
        return _MISSING
    for step in steps:
        if isinstance(step, str):
            value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
        else:
            is_there = isinstance(value, list) and step < len(value)
            value = value[step] if is_there else _MISSING
    return value


def extract(text: str, path: str) -> str | None:
    """json_extract: the value at the path as JSON; null if missing, or if the text is not JSON."""
    value = _found(text, path)
    return None if value is _MISSING else json_texts.write(json_texts.doubled(value))


def extract_scalar(text: str, path: str) -> str | None:
    """json_extract_scalar: the string, number or boolean at the path as text."""
    value = _found(text, path)
    return None if value is _MISSING else _scalar_text(value)


def _scalar_text(value: Json) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return str(value).lower() if isinstance(value, bool) else json_texts.whole(str(value))


def size(text: str, path: str) -> int | None:
    """json_size: the number of members or elements of the value at the path; 0 for a scalar."""
    value = _found(text, path)
    return None if value is _MISSING else json_texts.size(value)


# --- SQL's functions -----------------------------------------------------------------------------

_FAILED = object()
_DECIMAL = "decimal"
_TEXT = "text"


def _values(text: str, path: str, names: str, variables: Sequence[str | None]) -> Any:
    """Returns the values that a path finds; `_FAILED` if it does not fit.

    Args:
        text: JSON.
        path: The path.
        names: The names of the variables, each after its kind and a colon, separated by spaces.
        variables: Their values as JSON; a null of the kind `text` is no value at all.
    """
    try:
        bindings: dict[str, Json] = {}
        for name, value in zip(names.split(), variables, strict=True):
            kind, _, called = name.partition(":")
            if value is not None and kind == _DECIMAL:
                bindings[called] = decimal.Decimal(value)
            elif value is not None or kind != _TEXT:
                bindings[called] = None if value is None else json_texts.parse(value)
        return sql_path(path).values(text, bindings)
    except (PathError, ValueError):
        return _FAILED


def exists(
    text: str, path: str, on_error: str, names: str = "", variables: Sequence[str | None] = ()
) -> bool | None:
    """JSON_EXISTS: whether the path finds anything; ERROR, TRUE, FALSE or UNKNOWN on error."""
    matches = _values(text, path, names, variables)
    if matches is not _FAILED:
        return bool(matches)
    if on_error == "error":
        raise SeamlineError(INVALID_ARGUMENT, f"the JSON path {path!r} does not fit", hint="")
    return {"true": True, "false": False}.get(on_error)


def value(
    text: str,
    path: str,
    on_empty: str,
    on_error: str,
    family: str,
    names: str = "",
    variables: Sequence[str | None] = (),
) -> list[str | None] | None:
    """JSON_VALUE: the scalar that the path finds, in a list, as text to be cast to a type.

    The result is null where the default on empty applies, and an empty list where that on error
    does.

    Args:
        text: JSON.
        path: The path.
        on_empty: The result if the path finds nothing.
        on_error: The result if it finds no single scalar.
        family: `text`, `integer`, `number` or `boolean`: the types that the result may have.
        names: As for `_values`.
        variables: As for `_values`.
    """
    matches = _values(text, path, names, variables)
    if matches == []:
        return _instead(on_empty, None, f"the JSON path {path!r} finds nothing")
    failure = f"the JSON path {path!r} finds no single scalar"
    if matches is _FAILED or len(matches) > 1 or isinstance(matches[0], dict | list):
        return _instead(on_error, [], failure)
    try:
        return [_scalar(matches[0], family)]
    except PathError:
        return _instead(on_error, [], failure)


def _scalar(value: Json, family: str) -> str | None:
    """Returns a scalar as text that a cast to a type of the family reads as Trino reads the scalar.

    Raises:
        PathError: The scalar has no such value.
    """
    if isinstance(value, bool) and family in {"integer", "number"}:
        return str(int(value))
    if not isinstance(value, Number | decimal.Decimal):
        return _scalar_text(value)
    number = number_of(value)
    if family == "boolean":
        return str(number != 0).lower()
    if family == "integer":
        return str(rounded(number))
    if isinstance(number, decimal.Decimal):
        return format(number, "f")
    return floating.cast_double(number) if isinstance(number, float) else str(number)


def _instead(
    behavior: str, default: list[str | None] | None, message: str
) -> list[str | None] | None:
    if behavior == "error":
        raise SeamlineError(INVALID_ARGUMENT, message, hint="")
    return [None] if behavior == "null" else default


def query(
    text: str,
    path: str,
    wrapper: str,
    quotes: str,
    on_empty: str,
    on_error: str,
    names: str = "",
    variables: Sequence[str | None] = (),
) -> str | None:
    """JSON_QUERY: the object or array that the path finds, as text."""
    matches = _values(text, path, names, variables)
    if matches == []:
        return _query_instead(on_empty, f"the JSON path {path!r} finds nothing")
    if matches is not _FAILED:
        matches = [json_texts.doubled(value) for value in matches]
        is_one = len(matches) == 1 and isinstance(matches[0], dict | list)
        if wrapper == "unconditional" or (wrapper == "conditional" and not is_one):
            return json_texts.write(matches)
        if len(matches) == 1:
            if quotes == "omit" and type(matches[0]) is str:
                return json_texts.whole(matches[0])
            return json_texts.write(matches[0])
    return _query_instead(on_error, f"the JSON path {path!r} finds no single value")


def _query_instead(behavior: str, message: str) -> str | None:
    if behavior == "error":
        raise SeamlineError(INVALID_ARGUMENT, message, hint="")
    return {"empty array": "[]", "empty object": "{}"}.get(behavior)
