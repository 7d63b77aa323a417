"""SQL's JSON paths: `lax $.items[*]?(@.price > 10).name`, parsed once and computed over values.

A path finds a sequence of values. In lax mode arrays are opened where a member or a method is asked
for, other values stand for arrays of one element, and what is missing is left out; in strict mode
each of these is an error. A condition of a filter is true, false or unknown, and an error in it is
unknown.
"""

from __future__ import annotations

import dataclasses
import decimal
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels import json_texts
from seamline.sql.kernels.json_texts import Json, Number
from seamline.sql.kernels.path_numbers import (
    PathError,
    as_double,
    computed,
    number_of,
    of_number,
    whole_index,
)


@dataclasses.dataclass(slots=True)
class Context:
    """What a path is evaluated over.

    Attributes:
        is_lax: Whether missing members are left out, and arrays opened.
        root: The value that `$` stands for.
        variables: The values of PASSING, by name; one that is missing is an empty sequence.
        objects: The ids that `keyvalue()` has given to objects so far.
        current: The value that `@` stands for, innermost last.
        sizes: The length of the array that `last` stands for, innermost last.
    """

    is_lax: bool
    root: Json
    variables: Mapping[str, Json]
    objects: Iterator[int] = dataclasses.field(default_factory=itertools.count)
    current: list[Json] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)


VALUES_MAX = 1_000_000
"""How many elements a step finds at most: several places in brackets multiply them."""

Path: TypeAlias = Callable[[Context], list[Json]]
Condition: TypeAlias = Callable[[Context], bool | None]


@dataclasses.dataclass(frozen=True, slots=True)
class SqlPath:
    """A parsed path.

    Attributes:
        is_lax: Whether it begins with `lax`, or with neither word.
        find: Computes it.
        names: The variables that it reads.
    """

    is_lax: bool
    find: Path
    names: frozenset[str]

    def values(self, text: str, variables: Mapping[str, Json]) -> list[Json]:
        """Returns the values that the path finds in a text.

        Raises:
            PathError: The text is not JSON, or the path does not fit it.
        """
        try:
            root = json_texts.parse(text)
        except ValueError as error:
            raise PathError(f"{text[:100]!r} is not JSON") from error
        try:
            return self.find(Context(self.is_lax, root, variables))
        except RecursionError as error:
            raise PathError(f"{text[:100]!r} is nested too deeply") from error


def opened(values: Sequence[Json], context: Context) -> Iterator[Json]:
    """Yields values; in lax mode, the elements of arrays among them instead."""
    for value in values:
        if context.is_lax and isinstance(value, list):
            yield from value
        else:
            yield value


# --- Where a path begins -------------------------------------------------------------------------


def constant(value: Json) -> Path:
    """Returns the path of a literal."""
    return lambda _: [value]


def root(context: Context) -> list[Json]:
    """`$`."""
    return [context.root]


def current(context: Context) -> list[Json]:
    """`@`."""
    if not context.current:
        raise PathError("@ is used outside a filter")
    return [context.current[-1]]


def last(context: Context) -> list[Json]:
    """`last`."""
    if not context.sizes:
        raise PathError("last is used outside brackets")
    return [Number(context.sizes[-1] - 1)]


def variable(name: str) -> Path:
    """Returns the path `$name`."""
    return lambda context: [context.variables[name]] if name in context.variables else []


# --- Steps ---------------------------------------------------------------------------------------


def member(path: Path, name: str | None) -> Path:
    """Returns `path.name`; `path.*` without a name."""

    def find(context: Context) -> list[Json]:
        values: list[Json] = []
        for value in opened(path(context), context):
            if isinstance(value, dict) and name is None:
                values += value.values()
            elif isinstance(value, dict) and name in value:
                values.append(value[name])
            elif not context.is_lax:
                raise PathError(f"there is no member {name}")
        return values

    return find


def descendants(path: Path, name: str) -> Path:
    """Returns `path..name`: members of this name at any depth, outer ones first."""

    def inside(value: Json) -> Iterator[Json]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
            for inner in value.values():
                yield from inside(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from inside(inner)

    return lambda context: [descendant for value in path(context) for descendant in inside(value)]


def elements(path: Path, subscripts: Sequence[tuple[Path, Path]] | None) -> Path:
    """Returns `path[first to last, …]`; `path[*]` without places."""

    def find(context: Context) -> list[Json]:
        values: list[Json] = []
        for value in path(context):
            if not isinstance(value, list) and not context.is_lax:
                raise PathError("a value is not an array")
            items = value if isinstance(value, list) else [value]
            values += items if subscripts is None else _chosen(items, subscripts, context)
            if len(values) > VALUES_MAX:
                raise SeamlineError(
                    INVALID_ARGUMENT, f"a JSON path finds more than {VALUES_MAX:,} values", hint=""
                )
        return values

    return find


def _chosen(
    items: list[Json], subscripts: Sequence[tuple[Path, Path]], context: Context
) -> Iterator[Json]:
    context.sizes.append(len(items))
    try:
        ranges = [[whole_index(bound(context)) for bound in pair] for pair in subscripts]
    finally:
        context.sizes.pop()
    for first, end in ranges:
        is_inside = 0 <= first <= end < len(items)
        if not is_inside and not context.is_lax:
            raise PathError(f"there are no elements {first} to {end}")
        yield from items[max(first, 0) : max(end + 1, 0)]


def filtered(path: Path, condition: Condition) -> Path:
    """Returns `path?(condition)`."""

    def find(context: Context) -> list[Json]:
        values = []
        for value in opened(path(context), context):
            context.current.append(value)
            try:
                if condition(context):
                    values.append(value)
            finally:
                context.current.pop()
        return values

    return find


def method(path: Path, name: str) -> Path:
    """Returns `path.name()`."""
    compute, opens = METHODS[name]

    def find(context: Context) -> list[Json]:
        values = path(context)
        return [
            result
            for value in (opened(values, context) if opens else values)
            for result in compute(value, context)
        ]

    return find


def _size(value: Json, context: Context) -> Iterator[Json]:
    if not isinstance(value, list) and not context.is_lax:
        raise PathError("a value is not an array")
    yield Number(len(value) if isinstance(value, list) else 1)


_TYPES: Mapping[type[Any], str] = {
    Number: "number",
    decimal.Decimal: "number",
    str: "string",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def _type(value: Json, _: Context) -> Iterator[Json]:
    yield _TYPES.get(type(value), "null")


def _pairs(value: Json, context: Context) -> Iterator[Json]:
    if not isinstance(value, dict):
        raise PathError("a value is not an object")
    id_ = Number(next(context.objects))
    for name, inner in value.items():
        yield {"name": name, "value": inner, "id": id_}


def _numeric(name: str) -> Callable[[Json, Context], Iterator[Json]]:
    def compute(value: Json, _: Context) -> Iterator[Json]:
        yield as_double(value) if name == "double" else of_number(name, value)

    return compute


METHODS: Mapping[str, tuple[Callable[[Json, Context], Iterator[Json]], bool]] = {
    "size": (_size, False),
    "type": (_type, False),
    "keyvalue": (_pairs, True),
    **{name: (_numeric(name), True) for name in ("double", "ceiling", "floor", "abs")},
}
"""The methods, and whether lax mode opens arrays for them."""


# --- Arithmetic ----------------------------------------------------------------------------------


def arithmetic(sign: str, left: Path, right: Path) -> Path:
    """Returns `left + right` and the like, for one number on either side."""

    def find(context: Context) -> list[Json]:
        sides = [list(opened(path(context), context)) for path in (left, right)]
        if any(len(side) != 1 for side in sides):
            raise PathError(f"{sign} needs one number on either side")
        return [computed(sign, sides[0][0], sides[1][0])]

    return find


def signed(sign: str, path: Path) -> Path:
    """Returns `-path` or `+path`, of each number."""

    def find(context: Context) -> list[Json]:
        values = list(opened(path(context), context))
        return [computed(sign, Number(0), value) for value in values]

    return find


# --- Conditions ----------------------------------------------------------------------------------


def compares(sign: str, left: Path, right: Path) -> Condition:
    """Returns `left == right` and the like, which is true if it is for any two of the values."""

    def test(context: Context) -> bool | None:
        try:
            sides = [list(opened(path(context), context)) for path in (left, right)]
        except PathError:
            return None
        is_true = False
        for one, other in itertools.product(*sides):
            answer = _compared(sign, one, other)
            if answer is None or (answer and context.is_lax):
                return answer
            is_true = is_true or answer
        return is_true

    return test


_NUMERIC = Number | decimal.Decimal


def _compared(sign: str, one: Json, other: Json) -> bool | None:
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return None
    if one is None or other is None:
        return {"==": one is other, "<>": one is not other}.get(sign, False)
    if isinstance(one, _NUMERIC) and isinstance(other, _NUMERIC):
        left, right = number_of(one), number_of(other)
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return bool(COMPARISONS[sign](left, right))
    if isinstance(one, _NUMERIC) or isinstance(other, _NUMERIC) or type(one) is not type(other):
        return None
    return bool(COMPARISONS[sign](one, other))


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def exists(path: Path) -> Condition:
    """Returns `exists(path)`."""

    def test(context: Context) -> bool | None:
        try:
            return bool(path(context))
        except PathError:
            return None

    return test


def of_texts(path: Path, matches: Callable[[str, Context], bool]) -> Condition:
    """Returns a condition on texts, which is true if it is for any of the values."""

    def test(context: Context) -> bool | None:
        is_true = False
        try:
            for value in opened(path(context), context):
                if type(value) is not str:
                    return None
                is_true = is_true or matches(value, context)
                if is_true and context.is_lax:
                    return True
        except PathError:
            return None
        return is_true

    return test


def starts_with(path: Path, start: Path) -> Condition:
    """Returns `path starts with start`."""

    def matches(text: str, context: Context) -> bool:
        (prefix,) = start(context)
        if type(prefix) is not str:
            raise PathError("starts with needs a text")
        return text.startswith(prefix)

    return of_texts(path, matches)


def like_regex(path: Path, pattern: str) -> Condition:
    """Returns `path like_regex pattern`, by RE2, whose time is bounded."""

    def matches(text: str, _: Context) -> bool:
        return bool(pc.match_substring_regex(pa.array([text]), pattern)[0].as_py())

    return of_texts(path, matches)


def both(left: Condition, right: Condition) -> Condition:
    """Returns `left && right`."""

    def test(context: Context) -> bool | None:
        one = left(context)
        if one is False:
            return False
        other = right(context)
        return False if other is False else None if one is None or other is None else True

    return test


def either(left: Condition, right: Condition) -> Condition:
    """Returns `left || right`."""
    return negated(both(negated(left), negated(right)))


def negated(condition: Condition) -> Condition:
    """Returns `!condition`."""

    def test(context: Context) -> bool | None:
        answer = condition(context)
        return None if answer is None else not answer

    return test


def is_unknown(condition: Condition) -> Condition:
    """Returns `(condition) is unknown`."""
    return lambda context: condition(context) is None
