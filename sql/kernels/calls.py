"""Calls of kernels in the SQL of the engines, and how their values travel.

DuckDB hands over Arrow as it is. Spark hands it over by way of pandas, which cannot tell null from
NaN and has no times beyond its nanoseconds; so floating numbers travel as text there, and dates and
times as numbers of days and microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from seamline.sql import types
from seamline.sql.kernels.kernel import Kernel, Use
from seamline.sql.types import Timestamp, Type


def duckdb_template(kernel: Kernel) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """The call as DuckDB's SQL."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        return f"{Use(kernel, tuple(arguments), returns).name}({', '.join(args)})"

    return render


def spark_template(kernel: Kernel) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """The call as Spark's SQL, with what pandas cannot hold in another form."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        given = ", ".join(map(_to_wire, args, arguments))
        return _from_wire(f"{Use(kernel, tuple(arguments), returns).name}({given})", returns)

    return render


def wire_type(type_: Type) -> Type:
    """The type that a value travels as between Spark and a kernel."""
    if type_ in types.FLOATS:
        return types.VARCHAR
    if type_ == types.DATE:
        return types.INTEGER
    return types.BIGINT if isinstance(type_, Timestamp) else type_


def _to_wire(sql: str, type_: Type) -> str:
    if type_ in types.FLOATS:
        return f"CAST({sql} AS STRING)"
    if type_ == types.DATE:
        return f"unix_date({sql})"
    return f"unix_micros(CAST({sql} AS TIMESTAMP))" if isinstance(type_, Timestamp) else sql


def _from_wire(sql: str, type_: Type) -> str:
    if type_ in types.FLOATS:
        return f"CAST({sql} AS {types.to_spark(type_)})"
    if type_ == types.DATE:
        return f"date_from_unix_date({sql})"
    if isinstance(type_, Timestamp):
        return f"CAST(timestamp_micros({sql}) AS {types.to_spark(type_)})"
    return sql


def from_wire(values: pa.Array, type_: Type) -> pa.Array:
    """Arguments as a kernel takes them."""
    wanted = types.to_arrow(type_)
    if type_ in types.FLOATS:
        return pa.array([None if v is None else float(v) for v in values.to_pylist()], wanted)
    return values if values.type == wanted else values.cast(wanted)


def to_wire(values: pa.Array, type_: Type) -> pa.Array:
    """A result as it travels back."""
    if type_ in types.FLOATS:
        texts = [None if v is None else _FLOAT.get(str(v), repr(v)) for v in values.to_pylist()]
        return pa.array(texts, pa.string())
    wanted = types.to_arrow(wire_type(type_))
    return values if values.type == wanted else values.cast(wanted)


_FLOAT = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
