"""Whether two values are equal, as SQL means it: maybe, where a null inside of them decides.

The engines' own `=` takes two nulls in arrays and rows for equal, and NaN for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.templates import DUCKDB, SPARK, Template, field_named
from seamline.sql.types import Array, Row, Type


def template(engine: str) -> Template:
    """A template of two arguments of one type: true, false or null."""

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        one, other = args
        return equal(engine, arguments[0], one, other)

    return render


def equal(engine: str, type_: Type, one: str, other: str, depth: int = 0) -> str:
    """Their equality in an engine's SQL.

    Args:
        engine: `duckdb` or `spark`.
        type_: Type of both.
        one: The first, written so that it can be repeated.
        other: The second, likewise.
        depth: How many lambdas are around it.
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
    """By the least of their elements' answers: 0 for false, 1 for null, 2 for true."""
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
