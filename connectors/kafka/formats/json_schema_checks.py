"""Checks JSON against a JSON Schema before it is written to a record.

Every keyword that restricts values is either checked or refused by name, so that nothing is written
that a reader's validator would reject. `format` is checked for `date`, `date-time` and `uuid`.
"""

from __future__ import annotations

import decimal
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from seamline.connectors.kafka.formats import json_schema
from seamline.connectors.kafka.formats.schemas import Schema

Check: TypeAlias = Callable[[Any], str]
"""Returns what is wrong with a value; empty if nothing is."""

_ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description"),
        *("default", "examples", "readOnly", "writeOnly", "deprecated", "javaType"),
        *("contentEncoding", "contentMediaType"),
    }
)


def checker(schema: Schema) -> Check:
    """Returns a function that checks values, as `loads` returns them.

    Raises:
        ValueError: it is not JSON Schema, or uses something that is not checked here.
    """
    return json_schema.read(schema, lambda root, others: _Documents(others).check(root, "", root))


def loads(text: bytes) -> Any:
    """Parses JSON, keeping all digits of its numbers."""
    return json.loads(text, parse_float=decimal.Decimal)


class _Documents:
    """A schema and those it refers to, by the names it uses for them."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = others
        self._known: dict[tuple[str, str], list[Check]] = {}

    def check(self, schema: Any, name: str, root: Any) -> Check:
        """Returns the check for a part of the document of that name."""
        if isinstance(schema, bool):
            return lambda _: "" if schema else "nothing is allowed there"
        if "$ref" in schema:
            if schema.keys() - _ANNOTATIONS - {"$ref"}:
                raise ValueError("the schema has keywords beside $ref, which are not checked here")
            return self._referred(str(schema["$ref"]), name, root)
        checks = []
        for word, said in schema.items():
            if word in _DEEP:
                checks.append(_DEEP[word](schema, lambda inner: self.check(inner, name, root)))
            elif word in _PLAIN:
                checks.append(_PLAIN[word](said))
            elif word not in _ANNOTATIONS and not word.startswith("connect."):
                raise ValueError(f"the schema uses {word!r}, which is not checked here")
        return _all(checks)

    def _referred(self, reference: str, name: str, root: Any) -> Check:
        other, _, path = reference.partition("#")
        if other:
            name, root = other, self._others[other]
        if (name, path) not in self._known:
            found = self._known[name, path] = []
            found.append(self.check(json_schema.pointed(root, path), name, root))
        later = self._known[name, path]  # filled by then, even if a schema refers to itself
        return lambda value: later[0](value)


def _all(checks: list[Check]) -> Check:
    return lambda value: next(filter(None, (check(value) for check in checks)), "")


# --- Keywords that have schemas inside -----------------------------------------------------------

_Deeper: TypeAlias = Callable[[Any], Check]


def _properties(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    known = {name: deeper(inner) for name, inner in (schema.get("properties") or {}).items()}
    others = deeper(schema.get("additionalProperties", True))

    def check(value: Any) -> str:
        for name, inner in value.items() if isinstance(value, dict) else ():
            problem = known.get(name, others)(inner)
            if problem:
                return f"{name}: {problem}"
        return ""

    return check


def _items(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    if isinstance(schema["items"], list):
        raise ValueError("the schema lists items one by one, which is not checked here")
    inner = deeper(schema["items"])

    def check(value: Any) -> str:
        items = value if isinstance(value, list) else ()
        return next(filter(None, map(inner, items)), "")

    return check


def _one_of(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    inner = [deeper(branch) for branch in schema["oneOf"]]
    return _told(
        lambda value: sum(not check(value) for check in inner) == 1, "not exactly one of oneOf"
    )


def _any_of(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    inner = [deeper(branch) for branch in schema["anyOf"]]
    return _told(lambda value: any(not check(value) for check in inner), "matches none of anyOf")


def _all_of(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    return _all([deeper(branch) for branch in schema["allOf"]])


def _not(schema: Mapping[str, Any], deeper: _Deeper) -> Check:
    inner = deeper(schema["not"])
    return _told(lambda value: bool(inner(value)), "matches what the schema excludes with not")


_DEEP: Mapping[str, Callable[[Mapping[str, Any], _Deeper], Check]] = {
    "properties": _properties,
    "additionalProperties": _properties,
    "items": _items,
    "oneOf": _one_of,
    "anyOf": _any_of,
    "allOf": _all_of,
    "not": _not,
}


# --- Others --------------------------------------------------------------------------------------


def _told(is_right: Callable[[Any], bool], problem: str) -> Check:
    return lambda value: "" if is_right(value) else problem


def _is_number(value: Any) -> bool:
    return isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _type(said: Any) -> Check:
    kinds = said if isinstance(said, list) else [said]
    wanted = [_TYPES[kind] for kind in kinds]
    return _told(
        lambda value: any(is_one(value) for is_one in wanted),
        f"{' or '.join(kinds)} is what the schema requires",
    )


def _enum(said: Any) -> Check:
    return _told(lambda value: any(_same(value, one) for one in said), "not a value of the enum")


def _same(one: Any, other: Any) -> bool:
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(other, float):
        other = decimal.Decimal(str(other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _limit(holds: Callable[[Any, Any], bool], word: str) -> Callable[[Any], Check]:
    def make(said: Any) -> Check:
        if isinstance(said, bool):
            raise ValueError(f"the schema uses {word} as in draft 4")
        limit = decimal.Decimal(str(said))
        return _told(
            lambda value: not _is_number(value) or holds(value, limit), f"{word} is {said}"
        )

    return make


def _size(
    kind: type[str | list[Any] | dict[str, Any]], holds: Callable[[int, Any], bool], word: str
) -> Callable[[Any], Check]:
    return lambda said: _told(
        lambda value: not isinstance(value, kind) or holds(len(value), said), f"{word} is {said}"
    )


def _required(said: Any) -> Check:
    names = [str(name) for name in said]

    def check(value: Any) -> str:
        gone = [name for name in names if isinstance(value, dict) and name not in value]
        return f"{gone[0]}: null, but the schema requires it" if gone else ""

    return check


def _unique(said: Any) -> Check:
    def is_right(value: Any) -> bool:
        if not said or not isinstance(value, list):
            return True
        return not any(_same(a, b) for place, a in enumerate(value) for b in value[:place])

    return _told(is_right, "an item appears twice")


_FORMATS = {
    "date": r"\d{4}-\d{2}-\d{2}",
    "date-time": r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}


def _format(said: Any) -> Check:
    if said not in _FORMATS:
        raise ValueError(f"the schema uses the format {said!r}, which is not checked here")
    wanted = re.compile(_FORMATS[said])
    return _told(
        lambda value: not isinstance(value, str) or wanted.fullmatch(value) is not None,
        f"not a valid {said}",
    )


_PLAIN: Mapping[str, Callable[[Any], Check]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda said: _enum([said]),
    "required": _required,
    "uniqueItems": _unique,
    "format": _format,
    "minimum": _limit(operator.ge, "minimum"),
    "maximum": _limit(operator.le, "maximum"),
    "exclusiveMinimum": _limit(operator.gt, "exclusiveMinimum"),
    "exclusiveMaximum": _limit(operator.lt, "exclusiveMaximum"),
    "minLength": _size(str, operator.ge, "minLength"),
    "maxLength": _size(str, operator.le, "maxLength"),
    "minItems": _size(list, operator.ge, "minItems"),
    "maxItems": _size(list, operator.le, "maxItems"),
    "minProperties": _size(dict, operator.ge, "minProperties"),
    "maxProperties": _size(dict, operator.le, "maxProperties"),
}
