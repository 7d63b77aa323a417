"""Patterns of types in signatures: `array(E)`, `map(K, array(E))`, `function(E, boolean)`.

A pattern is a type, a variable, or a container of patterns. Matching a call binds the variables:
each becomes the narrowest type that all arguments in its positions convert to.

Variables are T, U, E, R and S (anything), O and K (anything ordered), N (any number), I (any
integer), C and D (any decimal). `timestamp` and `timestamp with time zone` are variables, too: they
match any precision and zone. `any` is an argument of any type, independent of the others. The last
part of a `function` is its result.
"""

from __future__ import annotations

import dataclasses
import functools

from seamline.sql import coercion, session_zone, types
from seamline.sql.types import Array, Decimal, Function, Map, Row, Timestamp, Type

_ANYTHING = frozenset("TUERS")
_ORDERED = frozenset("OK")
_VARIABLES = _ANYTHING | _ORDERED | frozenset("NICD")
ANY = "any"
_MOMENTS = {"timestamp": types.TIMESTAMP, "timestamp with time zone": types.TIMESTAMP_TZ}
_CONTAINERS = frozenset({"array", "map", "function", "row"})

Bound = dict[str, Type]
"""Variables and the types bound to them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A type with variables in it.

    Attributes:
        text: The pattern as written.
        head: A variable, the name of a container, or empty for a type without variables.
        parts: The patterns in a container.
    """

    text: str
    head: str = ""
    parts: tuple[Pattern, ...] = ()


@functools.cache
def parsed(text: str) -> Pattern:
    """Parses a pattern as written in a signature."""
    text = text.strip()
    if text in _VARIABLES or text in _MOMENTS or text == ANY:
        return Pattern(text, text)
    name, bracket, rest = text.partition("(")
    if bracket and name in _CONTAINERS:
        parts = tuple(map(parsed, split(rest.removesuffix(")"))))
        if any(part.head for part in parts) or name == "function":
            return Pattern(text, name, parts)
    return Pattern(text)


def split(text: str) -> list[str]:
    """Splits a text at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def bind(pattern: Pattern, argument: Type, bound: Bound) -> bool:
    """Widens the pattern's variables to take the argument; returns False if that is impossible."""
    match pattern.head:
        case "":
            return True  # a plain type: whether the argument converts to it is checked later
        case "any":
            return not isinstance(argument, Function)
        case "array":
            if argument == types.UNKNOWN:
                return bind(pattern.parts[0], types.UNKNOWN, bound)
            return isinstance(argument, Array) and bind(pattern.parts[0], argument.element, bound)
        case "map":
            if argument == types.UNKNOWN:
                return all(bind(part, types.UNKNOWN, bound) for part in pattern.parts)
            return (
                isinstance(argument, Map)
                and bind(pattern.parts[0], argument.key, bound)
                and bind(pattern.parts[1], argument.value, bound)
            )
        case "row":
            return (
                isinstance(argument, Row)
                and len(argument.fields) == len(pattern.parts)
                and all(
                    bind(part, field.type, bound)
                    for part, field in zip(pattern.parts, argument.fields, strict=True)
                )
            )
        case "function":
            return isinstance(argument, Function) and bind(
                pattern.parts[-1], argument.returns, bound
            )
        case "timestamp" | "timestamp with time zone":
            return _widen_moment(pattern.head, argument, bound)
    return _widen(pattern.head, argument, bound)


def _widen_moment(name: str, argument: Type, bound: Bound) -> bool:
    target = _MOMENTS[name]
    if isinstance(argument, Timestamp):
        if argument.zoned and not target.zoned:
            return False
        zone = argument.zone if argument.zoned else session_zone.current()
        candidate = dataclasses.replace(argument, zoned=target.zoned, zone=zone)
        common = coercion.common_type(bound.get(name, candidate), candidate)
        assert common is not None
        bound[name] = common
    return coercion.can_coerce(argument, target)


def _widen(variable: str, argument: Type, bound: Bound) -> bool:
    if argument != types.UNKNOWN and not _may_be(variable, argument):
        return False
    common = coercion.common_type(bound.get(variable, argument), argument)
    if common is None:
        return False
    bound[variable] = common
    return True


def _may_be(variable: str, type_: Type) -> bool:
    if isinstance(type_, Function):
        return False
    match variable:
        case "N":
            return types.is_numeric(type_)
        case "I":
            return type_ in types.INTEGERS
        case "C" | "D":
            return isinstance(type_, Decimal)
    return variable not in _ORDERED or is_ordered(type_)


def settle(bound: Bound) -> None:
    """Binds variables that matched only nulls to a type that their functions accept."""
    for variable, type_ in bound.items():
        if type_ == types.UNKNOWN and variable in "NICD":
            bound[variable] = Decimal(1, 0) if variable in "CD" else types.BIGINT


def substitute(pattern: Pattern, bound: Bound) -> Type:
    """Returns the type of a pattern with its variables replaced."""
    parts = [substitute(part, bound) for part in pattern.parts]
    match pattern.head:
        case "":
            return types.parse(pattern.text)
        case "array":
            return Array(parts[0])
        case "map":
            return Map(parts[0], parts[1])
        case "row":
            return types.anonymous_row(parts)
        case "function":
            return Function(tuple(parts[:-1]), parts[-1])
    moment = _MOMENTS.get(pattern.head)
    if moment is not None and moment.zoned:
        moment = dataclasses.replace(moment, zone=session_zone.current())
    return bound.get(pattern.head, moment or types.UNKNOWN)


def is_ordered(type_: Type) -> bool:
    """Whether values can be compared with < and sort the same on both engines."""
    if type_ == types.JSON:
        return False
    return not types.contains(type_, Map) and not isinstance(type_, Array | Row | types.Unsupported)


def has_equality(type_: Type) -> bool:
    """Whether `=` and `<>` are defined on the type."""
    return not isinstance(type_, types.Unsupported)


def is_comparable(type_: Type) -> bool:
    """Whether equal values of the type are one where an engine itself compares them."""
    return not types.contains(type_, Map) and not isinstance(type_, types.Unsupported)
