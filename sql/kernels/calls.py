"""Calls of kernels in the SQL of the engines, and the wire format of their values.

DuckDB passes Arrow unchanged. Spark passes it through pandas, which cannot tell null from NaN,
turns whole numbers among nulls into doubles, and has no times outside its nanosecond range. So on
Spark only text, bytes, booleans and decimals travel unchanged. Numbers, dates and times travel as
text, and containers as JSON of such texts.

Spark also computes a kernel for rows that a CASE around it excludes. So on Spark a kernel reports
failure by a message beside its result, which raises the error where the result is used, and only
there.
"""

from __future__ import annotations

import base64
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from seamline.sql import types
from seamline.sql.kernels.kernel import Kernel, Use
from seamline.sql.quoting import spark_name
from seamline.sql.templates import SPARK, bound
from seamline.sql.types import Array, Decimal, Map, Row, Time, Timestamp, Type, Varbinary


def duckdb_template(kernel: Kernel) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """Returns a template that calls the kernel in DuckDB's SQL."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        inputs = ", ".join(map(_of_type, args, arguments))
        return f"{Use(kernel, tuple(arguments), returns).name}({inputs})"

    return render


def _of_type(sql: str, type_: Type) -> str:
    """Casts to the exact type that DuckDB resolves kernels by; its own functions may widen it."""
    return sql if type_ == types.UNKNOWN else f"CAST({sql} AS {types.to_duckdb(type_)})"


def spark_template(kernel: Kernel) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """Returns a template that calls the kernel in Spark's SQL."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        inputs = ", ".join(map(_to_wire, args, arguments))
        call = f"{Use(kernel, tuple(arguments), returns).name}({inputs})"
        return bound(SPARK, [call], lambda names: _checked(names[0], returns), name="answer")

    return render


def _checked(answer: str, returns: Type) -> str:
    value = _from_wire(f"{answer}.{VALUE}", returns)
    failure = f"{answer}.{FAILURE}"
    return f"CASE WHEN {failure} IS NULL THEN {value} ELSE raise_error({failure}) END"


VALUE, FAILURE = "value", "failure"
"""The fields that Spark gets for each row: the result in wire format, or the failure message."""


def wire_type(type_: Type) -> Type:
    """Returns the type as which a value travels between Spark and a kernel."""
    as_it_is = type_ in (types.BOOLEAN, types.VARCHAR) or isinstance(type_, Decimal | Varbinary)
    return type_ if as_it_is else types.VARCHAR


# --- In Spark's SQL ------------------------------------------------------------------------------


def _to_wire(sql: str, type_: Type) -> str:
    if isinstance(type_, Array | Map | Row):
        return f"to_json({_with_texts(sql, type_, 0)}, map('ignoreNullFields', 'false'))"
    return _as_text(sql, type_) if wire_type(type_) != type_ else sql


def _from_wire(sql: str, type_: Type) -> str:
    if isinstance(type_, Array | Map | Row):
        parsed = f"from_json({sql}, '{_json_type(type_)}', map('mode', 'FAILFAST'))"
        return _without_texts(parsed, type_, 0)
    return _of_text(sql, type_) if wire_type(type_) != type_ else sql


def _as_text(sql: str, type_: Type) -> str:
    match type_:
        case types.UNKNOWN:
            return "CAST(NULL AS STRING)"
        case types.DATE:
            return f"CAST(unix_date({sql}) AS STRING)"
        case Timestamp():
            return f"CAST(unix_micros(CAST({sql} AS TIMESTAMP)) AS STRING)"
        case Varbinary():
            return f"base64({sql})"
    return f"CAST({sql} AS STRING)"


def _of_text(sql: str, type_: Type) -> str:
    match type_:
        case types.UNKNOWN:
            return "NULL"
        case types.DATE:
            return f"date_from_unix_date(CAST({sql} AS INT))"
        case Timestamp():
            return f"CAST(timestamp_micros(CAST({sql} AS BIGINT)) AS {types.to_spark(type_)})"
        case Time():
            return f"CAST({sql} AS BIGINT)"
        case Varbinary():
            return f"unbase64({sql})"
    return f"CAST({sql} AS {types.to_spark(type_)})"


def _with_texts(sql: str, type_: Type, depth: int) -> str:
    """Converts everything in a value to text; maps become their entries, rows their members."""
    element = f"e{depth}"
    match type_:
        case types.VARCHAR:
            return sql
        case Array(types.VARCHAR):
            return sql
        case Array(inner):
            return f"transform({sql}, {element} -> {_with_texts(element, inner, depth + 1)})"
        case Map(key, value):
            pair = _struct(
                _with_texts(f"{element}.key", key, depth + 1),
                _with_texts(f"{element}.value", value, depth + 1),
            )
            return f"transform(map_entries({sql}), {element} -> {pair})"
        case Row(fields):

            def members(names: Sequence[str]) -> str:
                texts = (
                    _with_texts(f"{names[0]}.{spark_name(f.name)}", f.type, depth + 1)
                    for f in fields
                )
                return f"CASE WHEN {names[0]} IS NOT NULL THEN {_struct(*texts)} END"

            return bound(SPARK, [sql], members, name=element)
    return _as_text(sql, type_)


def _without_texts(sql: str, type_: Type, depth: int) -> str:
    """Restores a value from its texts: the inverse of `_with_texts`."""
    element = f"e{depth}"
    match type_:
        case types.VARCHAR:
            return sql
        case Array(types.VARCHAR):
            return sql
        case Array(inner):
            return f"transform({sql}, {element} -> {_without_texts(element, inner, depth + 1)})"
        case Map(key, value):
            pair = _struct(
                _without_texts(f"{element}.f0", key, depth + 1),
                _without_texts(f"{element}.f1", value, depth + 1),
            )
            return f"map_from_entries(transform({sql}, {element} -> {pair}))"
        case Row(fields):

            def members(names: Sequence[str]) -> str:
                texts = (
                    _without_texts(f"{names[0]}.f{index}", field.type, depth + 1)
                    for index, field in enumerate(fields)
                )
                struct = f"CASE WHEN {names[0]} IS NOT NULL THEN {_struct(*texts)} END"
                return f"CAST({struct} AS {types.to_spark(type_)})"

            return bound(SPARK, [sql], members, name=element)
    return _of_text(sql, type_)


def _struct(*members: str) -> str:
    pairs = ", ".join(f"'f{index}', {member}" for index, member in enumerate(members))
    return f"named_struct({pairs})"


def _json_type(type_: Type) -> str:
    match type_:
        case Array(element):
            return f"ARRAY<{_json_type(element)}>"
        case Map(key, value):
            return f"ARRAY<STRUCT<f0: {_json_type(key)}, f1: {_json_type(value)}>>"
        case Row(fields):
            members = (f"f{index}: {_json_type(f.type)}" for index, f in enumerate(fields))
            return f"STRUCT<{', '.join(members)}>"
    return "STRING"


# --- In Python -----------------------------------------------------------------------------------


def from_wire(values: pa.Array, type_: Type) -> pa.Array:
    """Converts arguments from wire format to the types that a kernel takes."""
    target = types.to_arrow(type_)
    if type_ == types.UNKNOWN:
        return pa.nulls(len(values))
    if isinstance(type_, Array | Map | Row):
        items = [None if v is None else _value(json.loads(v), type_) for v in values.to_pylist()]
        return pa.array(items, target)
    if type_ == types.DATE:
        return values.cast(pa.int32()).cast(target)
    if isinstance(type_, Timestamp | Time):
        return values.cast(pa.int64()).cast(target)
    return values if values.type == target else values.cast(target)


def to_wire(values: pa.Array, type_: Type) -> pa.Array:
    """Converts a result to wire format."""
    if isinstance(type_, Array | Map | Row):
        items = [None if v is None else json.dumps(_plain(v, type_)) for v in values.to_pylist()]
        return pa.array(items, pa.string())
    if type_ in types.FLOATS:
        return pa.array([_float_text(v) for v in values.to_pylist()], pa.string())
    if type_ == types.DATE:
        values = values.cast(pa.int32())
    if isinstance(type_, Timestamp | Time):
        values = values.cast(pa.int64())
    target = types.to_arrow(wire_type(type_))
    return values if values.type == target else values.cast(target)


def _value(plain: Any, type_: Type) -> Any:
    if plain is None:
        return None
    match type_:
        case Array(element):
            return [_value(item, element) for item in plain]
        case Map(key, value):
            return [(_value(pair["f0"], key), _value(pair["f1"], value)) for pair in plain]
        case Row(fields):
            return {f.name: _value(plain[f"f{i}"], f.type) for i, f in enumerate(fields)}
        case Varbinary():
            return base64.b64decode(plain)
        case Decimal():
            return decimal.Decimal(plain)
        case types.BOOLEAN:
            return plain == "true"
        case types.VARCHAR:
            return plain
    return from_wire(pa.array([plain], pa.string()), type_)[0].as_py()


def _plain(value: Any, type_: Type) -> Any:
    if value is None:
        return None
    match type_:
        case Array(element):
            return [_plain(item, element) for item in value]
        case Map(key, item):
            return [{"f0": _plain(k, key), "f1": _plain(v, item)} for k, v in value]
        case Row(fields):
            return {f"f{i}": _plain(value[f.name], f.type) for i, f in enumerate(fields)}
        case Varbinary():
            return base64.b64encode(value).decode()
        case types.BOOLEAN:
            return "true" if value else "false"
        case Timestamp() | types.DATE:
            return str(pa.scalar(value, types.to_arrow(type_)).cast(_counted(type_)).as_py())
    return _float_text(value) if type_ in types.FLOATS else str(value)


def _counted(type_: Type) -> pa.DataType:
    return pa.int32() if type_ == types.DATE else pa.int64()


def _float_text(value: float | None) -> str | None:
    return None if value is None else _FLOAT.get(str(value), repr(value))


_FLOAT = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
