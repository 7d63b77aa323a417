"""SQL equality of two values: unknown where a nested null decides.

The engines' own `=` treats two nulls in arrays, rows and maps as equal, and NaN as equal to itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.templates import DUCKDB, SPARK, Template, field_named
from seamline.sql.types import Array, Map, Row, Type


def template(engine: str) -> Template:
    """Returns a template that compares two arguments of one type: true, false or null."""

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        one, other = args
        return equal(engine, arguments[0], one, other)

    return render


def equal(engine: str, type_: Type, one: str, other: str, depth: int = 0) -> str:
    """Returns the SQL that tests two values for equality on an engine.

    Args:
        engine: `duckdb` or `spark`.
        type_: Type of both values.
        one: The SQL of the first value, safe to repeat.
        other: The SQL of the second value, likewise.
        depth: The number of enclosing lambdas.
    """
    match type_:
        case Array(element):
            return (_spark_arrays if engine == SPARK else _duckdb_arrays)(
                element, one, other, depth
            )
        case Map(types.UNKNOWN, _):  # both are empty
            return f"({one} IS NOT NULL AND {other} IS NOT NULL OR NULL)"
        case Map():
            return (_spark_maps if engine == SPARK else _duckdb_maps)(type_, one, other, depth)
        case Row(fields) if fields:
            parts = (
                equal(
                    engine,
                    field.type,
                    field_named(engine, one, field.name),
                    field_named(engine, other, field.name),
                    depth,
                )
                for field in fields
            )
            return f"({' AND '.join(parts)})"
    if type_ in types.FLOATS:
        return f"({one} = {other} AND NOT (isnan({one}) AND isnan({other})))"
    return f"({one} = {other})"


def _duckdb_arrays(element: Type, one: str, other: str, depth: int) -> str:
    i = f"i{depth}"
    test = equal(DUCKDB, element, f"{one}[{i}]", f"{other}[{i}]", depth + 1)
    return _duckdb_members("len", f"range(1, len({one}) + 1)", i, test, one, other)


def indeterminate(engine: str, type_: Type, value: str, depth: int = 0) -> str:
    """Returns the SQL that tests whether a value is null or has a null inside, as no key may."""
    return f"({equal(engine, type_, value, value, depth)} IS NULL)"


def map_of_arrays(engine: str) -> Template:
    """Returns a template that makes a map of an array of keys and one of values."""
    plain = "map" if engine == DUCKDB else "map_from_arrays"

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        keys, values = args
        map_ = f"{plain}({keys}, {values})"
        key = arguments[0]
        if not isinstance(key, Array) or not isinstance(key.element, Array | Row):
            return map_  # the engines refuse a key that is null
        test = indeterminate(engine, key.element, "k", 1)
        message = "'INVALID_ARGUMENT: a map key is null, or has a null inside'"
        if engine == DUCKDB:
            is_invalid = f"list_bool_or(list_transform({keys}, lambda k: {test}))"
            return f"(CASE WHEN {is_invalid} THEN error({message}) ELSE {map_} END)"
        return (
            f"(CASE WHEN exists({keys}, k -> {test}) THEN raise_error({message}) ELSE {map_} END)"
        )

    return render


def _same_key(engine: str, key: Type, name: str, depth: int) -> str:
    """Returns the SQL that a key must pass to equal one that the engine considers the same.

    The engines find NaN in a map, which is equal to nothing.
    """
    has_nan = any(types.contains(key, kind) for kind in types.FLOATS)
    return f" AND {equal(engine, key, name, name, depth)}" if has_nan else ""


def _duckdb_maps(type_: Map, one: str, other: str, depth: int) -> str:
    k = f"k{depth}"
    test = equal(DUCKDB, type_.value, f"{one}[{k}]", f"{other}[{k}]", depth + 1)
    same = f"map_contains({other}, {k}){_same_key(DUCKDB, type_.key, k, depth + 1)}"
    test = f"CASE WHEN {same} THEN {test} ELSE FALSE END"
    return _duckdb_members("cardinality", f"map_keys({one})", k, test, one, other)


def _duckdb_members(size: str, indexes: str, name: str, test: str, one: str, other: str) -> str:
    """Compares by the least of the members' results: 0 false, 1 null, 2 true."""
    answers = f"list_transform({indexes}, lambda {name}: coalesce(2 * CAST({test} AS INTEGER), 1))"
    return (
        f"(CASE WHEN {one} IS NULL OR {other} IS NULL THEN NULL"
        f" WHEN {size}({one}) <> {size}({other}) THEN FALSE"
        f" ELSE CASE list_min({answers}) WHEN 0 THEN FALSE WHEN 1 THEN NULL ELSE TRUE END END)"
    )


def _spark_arrays(element: Type, one: str, other: str, depth: int) -> str:
    x, y, z = (f"{name}{depth}" for name in "xyz")
    test = equal(SPARK, element, x, y, depth + 1)
    return (
        f"(CASE WHEN size({one}) <> size({other}) THEN FALSE"
        f" ELSE forall(zip_with({one}, {other}, ({x}, {y}) -> {test}), {z} -> {z}) END)"
    )


def _spark_maps(type_: Map, one: str, other: str, depth: int) -> str:
    k = f"k{depth}"
    values = [f"element_at({of}, {k})" for of in (one, other)]
    test = equal(SPARK, type_.value, values[0], values[1], depth + 1)
    same = f"map_contains_key({other}, {k}){_same_key(SPARK, type_.key, k, depth + 1)}"
    return (
        f"(CASE WHEN {one} IS NULL OR {other} IS NULL THEN NULL"
        f" WHEN size({one}) <> size({other}) THEN FALSE ELSE forall(map_keys({one}), {k} ->"
        f" CASE WHEN {same} THEN {test} ELSE FALSE END) END)"
    )
