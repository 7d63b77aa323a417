"""Turns values that hold maps into values that the engines group: each map as its entries, by key.

Two maps are equal whatever the order of their entries. DuckDB treats maps as lists, whose order
counts, and Spark has no set operations and no DISTINCT of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.templates import DUCKDB, Template, field_named, field_of, row_of
from seamline.sql.types import Array, Field, Map, Row, Type


def with_entries(type_: Type) -> Type:
    """Returns a type in which each map is an array of its entries."""
    match type_:
        case Array(element):
            return Array(with_entries(element))
        case Map(key, value):
            entry = (Field("key", with_entries(key)), Field("value", with_entries(value)))
            return Array(Row(entry))
        case Row(fields):
            return Row(tuple(Field(field.name, with_entries(field.type)) for field in fields))
    return type_


def to_entries(engine: str) -> Template:
    """Returns a template that makes maps of its argument entries, sorted by key."""

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        return _converted(engine, arguments[0], args[0], 0, to_maps=False)

    return render


def from_entries(engine: str) -> Template:
    """Returns a template that makes entries of its argument maps of the result's type."""

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        return _converted(engine, returns, args[0], 0, to_maps=True)

    return render


def _converted(engine: str, type_: Type, text: str, depth: int, *, to_maps: bool) -> str:
    """Returns a value with its maps as entries, or with its entries as maps again.

    Args:
        engine: `duckdb` or `spark`.
        type_: The type of the value with maps.
        text: The value's SQL, safe to repeat.
        depth: The number of enclosing lambdas.
        to_maps: Whether entries become maps.
    """
    if not types.contains(type_, Map):
        return text
    name = f"e{depth}"

    def inside(member: Type, of: str) -> str:
        return _converted(engine, member, of, depth + 1, to_maps=to_maps)

    match type_:
        case Map(key, value):
            entries = text if to_maps else f"map_entries({text})"
            if types.contains(key, Map) or types.contains(value, Map):
                parts = {
                    field: inside(member, field_of(engine, name, field))
                    for field, member in (("key", key), ("value", value))
                }
                entries = _each(engine, entries, name, row_of(engine, parts))
            sort = "list_sort" if engine == DUCKDB else "array_sort"
            return f"{'map_from_entries' if to_maps else sort}({entries})"
        case Array(element):
            return _each(engine, text, name, inside(element, name))
        case Row(fields):
            members = {f.name: inside(f.type, field_named(engine, text, f.name)) for f in fields}
            return f"(CASE WHEN {text} IS NOT NULL THEN {row_of(engine, members)} END)"
    return text


def _each(engine: str, array: str, name: str, body: str) -> str:
    if engine == DUCKDB:
        return f"list_transform({array}, lambda {name}: {body})"
    return f"transform({array}, {name} -> {body})"
