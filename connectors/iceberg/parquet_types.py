"""Converts decoded rows to the types of Iceberg's Parquet files.

Decoded rows already carry field ids and have the types of a file, except for two that SQL
represents differently: a UUID is a string in SQL and 16 bytes in a file, and `fixed(n)` is bytes of
any length in SQL. The result of a query may also have narrower types than the columns, such as
`smallint`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql import types
from seamline.sql.slices import list_like, map_like
from seamline.sql.types import Array, Field, Map, Row, Type, Varbinary

_UUID_BYTES = 16


def as_stored(rows: pa.Table, columns: Sequence[Field]) -> pa.Table:
    """Converts rows to the types of a file.

    Args:
        rows: Decoded rows, or rows that already have these types.
        columns: The fields of their columns, and perhaps more.

    Raises:
        SeamlineError: NOT_SUPPORTED for columns that only other writers can write.
    """
    by_name = {column.name: column for column in columns}
    written = [by_name[name] for name in rows.column_names]
    for column in written:
        _require_writable(column)
    if not any(_differs(column.type) for column in written):
        return rows
    arrays = [_converted(rows.column(column.name), column.type) for column in written]
    return pa.Table.from_arrays(arrays, schema=pa.schema([_field(column) for column in written]))


def _require_writable(column: Field) -> None:
    what = "variant" if types.holds_variant(column.type) else ""
    if types.holds_nanoseconds(column.type):
        what = "nanoseconds"
    if types.contains(column.type, types.UNKNOWN):
        what = "unknown"
    if what:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"rows cannot be written as Iceberg's files: the column {column.name} is stored "
            f"as {what}",
        )


def _differs(type_: Type) -> bool:
    fixed = isinstance(type_, Varbinary) and type_.length is not None
    return fixed or type_ == types.UUID or any(_differs(child) for child in types.children(type_))


def _field(field: Field) -> pa.Field:
    return types.arrow_field(field).with_type(_type(field.type))


def _type(type_: Type) -> pa.DataType:
    arrow_type = types.to_arrow(type_)
    match type_:
        case Varbinary(length) if length is not None:
            return pa.binary(length)
        case types.UUID:
            return pa.uuid()
        case Row(fields):
            return pa.struct([_field(field) for field in fields])
        case Array(element):
            return pa.list_(arrow_type.value_field.with_type(_type(element)))
        case Map(key, value):
            return pa.map_(
                arrow_type.key_field.with_type(_type(key)),
                arrow_type.item_field.with_type(_type(value)),
            )
    return arrow_type


def _converted(column: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    if column.type == _type(type_):
        return column
    chunks = [_array(chunk, type_) for chunk in column.chunks]
    return pa.chunked_array(chunks, _type(type_))


def _array(array: pa.Array, type_: Type) -> pa.Array:
    target = _type(type_)
    if not _differs(type_):
        return array if array.type == target else array.cast(target)
    match type_:
        case types.UUID:
            return target.wrap_array(_uuid_bytes(array))
        case Row(fields):
            children = [
                _array(child, field.type)
                for child, field in zip(array.flatten(), fields, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case Array(element):
            items = _array(array.values, element)
            return list_like(array, items, target)
        case Map(key, value):
            keys, items = _array(array.keys, key), _array(array.items, value)
            return map_like(array, keys, items, target)
    return array.cast(target)


def _uuid_bytes(array: pa.Array) -> pa.Array:
    values = [None if v is None else bytes.fromhex(v.replace("-", "")) for v in array.to_pylist()]
    return pa.array(values, pa.binary(_UUID_BYTES))
