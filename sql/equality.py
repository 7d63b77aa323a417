"""SQL equality of two values: unknown where a nested null decides.

The engines' own `=` treats two nulls in arrays and rows as equal, and NaN as equal to itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.templates import DUCKDB, SPARK, Template, field_named
from seamline.sql.types import Array, Row, Type


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
    """Compares arrays by the least of their elements' results: 0 false, 1 null, 2 true."""
    i = f"i{depth}"
    test = equal(DUCKDB, element, f"{one}[{i}]", f"{other}[{i}]", depth + 1)
    answers = (
        f"list_transform(range(1, len({one}) + 1),"
        f" lambda {i}: coalesce(2 * CAST({test} AS INTEGER), 1))"
    )
    return (
        f"(CASE WHEN {one} IS NULL OR {other} IS NULL THEN NULL"
        f" WHEN len({one}) <> len({other}) THEN FALSE"
        f" ELSE CASE list_min({answers}) WHEN 0 THEN FALSE WHEN 1 THEN NULL ELSE TRUE END END)"
    )


def _spark_arrays(element: Type, one: str, other: str, depth: int) -> str:
    x, y, z = (f"{name}{depth}" for name in "xyz")
    test = equal(SPARK, element, x, y, depth + 1)
    return (
        f"(CASE WHEN size({one}) <> size({other}) THEN FALSE"
        f" ELSE forall(zip_with({one}, {other}, ({x}, {y}) -> {test}), {z} -> {z}) END)"
    )
