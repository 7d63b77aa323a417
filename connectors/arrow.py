"""Conversion of Arrow batches to one exact schema, whichever engine produced them."""

from __future__ import annotations

import pyarrow as pa

from seamline.sql import intervals
from seamline.sql.slices import list_like, map_like
from seamline.sql.types import INTERVAL_OF


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch in `schema`: columns by position, types converted where they differ.

    Raises:
        pyarrow.ArrowInvalid: when a value does not fit; no value is ever changed to make it fit.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = [_as_field(batch.column(position), field) for position, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_field(array: pa.Array, field: pa.Field) -> pa.Array:
    unit = (field.metadata or {}).get(INTERVAL_OF)
    if unit is None or not pa.types.is_integer(array.type):
        return _as_type(array, field.type)
    name = unit.decode()
    values = array.to_pylist()
    texts = [None if value is None else intervals.text_of(value, name) for value in values]
    return pa.array(texts, pa.string())


def _as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted):
        return pa.nulls(len(array))
    if array.null_count == len(array):
        return pa.nulls(len(array), wanted)  # engines type all-null columns as they like
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        children = [
            _as_type(child, wanted.field(position).type)
            for position, child in enumerate(_fields(array))
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted) and pa.types.is_list(array.type):
        items = _as_type(array.values, wanted.value_type)
        return list_like(array, items, wanted)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        keys, items = _as_type(array.keys, wanted.key_type), _as_type(array.items, wanted.item_type)
        return map_like(array, keys, items, wanted)
    return array.cast(wanted)


def _fields(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(position) for position in range(array.type.num_fields)]
