"""JSON paths: those of json_extract, and those of SQL with an optional `lax` or `strict` prefix.

A json_extract path names one value: `$.store.book[0]["a b"]`. An SQL path may find several values,
and says whether a missing member is an error.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql.kernels import floating, json_texts
from seamline.sql.kernels.json_texts import Json, Number

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


# --- SQL's paths ---------------------------------------------------------------------------------


class PathError(Exception):
    """Raised when a strict path does not fit, or a text is not JSON."""


Step = Callable[[Json, bool], Iterator[Json]]


@dataclasses.dataclass(frozen=True, slots=True)
class SqlPath:
    """An SQL path.

    Attributes:
        is_lax: Whether missing members are left out, and arrays unwrapped.
        steps: Functions that yield what each step finds in a value.
    """

    is_lax: bool
    steps: tuple[Step, ...]

    def values(self, text: str) -> list[Json]:
        """Returns the values that the path finds in a text.

        Raises:
            PathError: The text is not JSON, or a strict path does not fit it.
        """
        try:
            found = [json_texts.parse(text)]
        except ValueError as error:
            raise PathError(f"{text[:100]!r} is not JSON") from error
        for step in self.steps:
            found = [inner for value in found for inner in step(value, self.is_lax)]
        return found


_SQL_STEP = re.compile(
    r"""\s*(?:\.\s*(?:(?P<method>\w+)\(\)|(?P<name>[A-Za-z_]\w*)|(?P<quoted>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<members>\*))|\[\s*(?:(?P<elements>\*)|(?P<places>[^\]]+))\])\s*"""
)
_PLACE = re.compile(r"\s*(\d+|last(?:\s*-\s*\d+)?)(?:\s+to\s+(\d+|last(?:\s*-\s*\d+)?))?\s*")


@functools.lru_cache(maxsize=512)
def sql_path(path: str) -> SqlPath:
    """Parses an SQL path.

    Raises:
        SeamlineError: INVALID_ARGUMENT, or NOT_SUPPORTED for filters and arithmetic.
    """
    match = re.fullmatch(r"\s*(?:(lax|strict)\s+)?\$(.*)", path, re.DOTALL)
    if match is None:
        raise SeamlineError(INVALID_ARGUMENT, f"{path!r} is not a JSON path", hint="")
    mode, rest = match.groups()
    steps: list[Step] = []
    at = 0
    while rest[at:].strip():
        step = _SQL_STEP.match(rest, at)
        if step is None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"the JSON path {path!r} has more in it than members, elements and wildcards",
                hint="Filters, arithmetic and variables are not supported in JSON paths.",
            )
        steps.append(_sql_step(step, path))
        at = step.end()
    return SqlPath(mode != "strict", tuple(steps))


def _sql_step(match: re.Match[str], path: str) -> Step:
    if match["name"] or match["quoted"]:
        name = match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])
        return functools.partial(_member, name)
    if match["members"]:
        return _members
    if match["method"]:
        if match["method"] not in _METHODS:
            raise SeamlineError(
                NOT_SUPPORTED, f"the method {match['method']}() in {path!r} is not supported"
            )
        return _METHODS[match["method"]]
    if match["elements"]:
        return _elements
    places = [_PLACE.fullmatch(place) for place in match["places"].split(",")]
    if None in places:
        raise SeamlineError(INVALID_ARGUMENT, f"{path!r} is not a JSON path", hint="")
    return functools.partial(_places, [(p[1], p[2] or p[1]) for p in places if p is not None])


def _opened(value: Json, is_lax: bool) -> list[Json]:
    return value if is_lax and isinstance(value, list) else [value]


def _member(name: str, value: Json, is_lax: bool) -> Iterator[Json]:
    for item in _opened(value, is_lax):
        if isinstance(item, dict) and name in item:
            yield item[name]
        elif not is_lax:
            raise PathError(f"there is no member {name}")


def _members(value: Json, is_lax: bool) -> Iterator[Json]:
    for item in _opened(value, is_lax):
        if isinstance(item, dict):
            yield from item.values()
        elif not is_lax:
            raise PathError("a value has no members")


def _elements(value: Json, is_lax: bool) -> Iterator[Json]:
    if not isinstance(value, list) and not is_lax:
        raise PathError("a value is not an array")
    yield from value if isinstance(value, list) else [value]


def _places(places: list[tuple[str, str]], value: Json, is_lax: bool) -> Iterator[Json]:
    if not isinstance(value, list) and not is_lax:
        raise PathError("a value is not an array")
    items = value if isinstance(value, list) else [value]
    for first, last in places:
        for at in range(_place(first, items), _place(last, items) + 1):
            if 0 <= at < len(items):
                yield items[at]
            elif not is_lax:
                raise PathError(f"there is no element {at}")


def _place(written: str, items: list[Json]) -> int:
    if not written.startswith("last"):
        return int(written)
    return len(items) - 1 - int(written.partition("-")[2] or 0)


def _size_of(value: Json, is_lax: bool) -> Iterator[Json]:
    if not isinstance(value, list) and not is_lax:
        raise PathError("a value is not an array")
    yield Number(len(value) if isinstance(value, list) else 1)


def _type_of(value: Json, _: bool) -> Iterator[Json]:
    names: dict[type[Any], str] = {Number: "number", str: "string", bool: "boolean"}
    names |= {list: "array", dict: "object"}
    yield names.get(type(value), "null")


_METHODS: dict[str, Step] = {"size": _size_of, "type": _type_of}


# --- SQL's functions -----------------------------------------------------------------------------

_FAILED = object()


def _values(text: str, path: str) -> list[Json] | object:
    compiled = sql_path(path)
    try:
        return compiled.values(text)
    except PathError:
        return _FAILED


def exists(text: str, path: str, on_error: str) -> bool | None:
    """JSON_EXISTS: whether the path finds anything; ERROR, TRUE, FALSE or UNKNOWN on error."""
    found = _values(text, path)
    if isinstance(found, list):
        return bool(found)
    if on_error == "error":
        raise SeamlineError(INVALID_ARGUMENT, f"the JSON path {path!r} does not fit", hint="")
    return {"true": True, "false": False}.get(on_error)


def value(text: str, path: str, on_empty: str, on_error: str) -> list[str | None] | None:
    """JSON_VALUE: the scalar that the path finds, as text in a list.

    The result is null where the default on empty applies, and an empty list where that on error
    does.
    """
    found = _values(text, path)
    if isinstance(found, list) and not found:
        return _instead(on_empty, None, f"the JSON path {path!r} finds nothing")
    if not isinstance(found, list) or len(found) > 1 or isinstance(found[0], dict | list):
        return _instead(on_error, [], f"the JSON path {path!r} finds no single scalar")
    scalar = found[0]
    if isinstance(scalar, Number) and not json_texts.is_whole(scalar):
        return [floating.cast_double(float(scalar))]
    return [_scalar_text(scalar)]


def _instead(
    wanted: str, default: list[str | None] | None, message: str
) -> list[str | None] | None:
    if wanted == "error":
        raise SeamlineError(INVALID_ARGUMENT, message, hint="")
    return [None] if wanted == "null" else default


def query(
    text: str, path: str, wrapper: str, quotes: str, on_empty: str, on_error: str
) -> str | None:
    """JSON_QUERY: the object or array that the path finds, as text."""
    found = _values(text, path)
    if isinstance(found, list):
        found = [json_texts.doubled(value) for value in found]
    if isinstance(found, list) and not found:
        return _query_instead(on_empty, f"the JSON path {path!r} finds nothing")
    if isinstance(found, list):
        is_one = len(found) == 1 and isinstance(found[0], dict | list)
        if wrapper == "unconditional" or (wrapper == "conditional" and not is_one):
            return json_texts.write(found)
        if len(found) == 1:
            if quotes == "omit" and type(found[0]) is str:
                return json_texts.whole(found[0])
            return json_texts.write(found[0])
    return _query_instead(on_error, f"the JSON path {path!r} finds no single value")


def _query_instead(wanted: str, message: str) -> str | None:
    if wanted == "error":
        raise SeamlineError(INVALID_ARGUMENT, message, hint="")
    return {"empty array": "[]", "empty object": "{}"}.get(wanted)
