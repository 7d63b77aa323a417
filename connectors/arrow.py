"""Conversion of Arrow batches to one exact schema, whichever engine produced them."""

from __future__ import annotations

import datetime

import pyarrow as pa

from seamline.sql import intervals, time_zones
from seamline.sql.slices import list_like, map_like
from seamline.sql.types import INTERVAL_OF, TIME_AT


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
    form = (field.metadata or {}).get(TIME_AT)
    if form is not None and not pa.types.is_string(array.type):
        return _times_as_text(array, form.decode())
    unit = (field.metadata or {}).get(INTERVAL_OF)
    if unit is None or not pa.types.is_integer(array.type):
        return _as_type(array, field.type)
    name = unit.decode()
    values = array.to_pylist()
    texts = [None if value is None else intervals.text_of(value, name) for value in values]
    return pa.array(texts, pa.string())


def _times_as_text(array: pa.Array, form: str) -> pa.Array:
    """Returns times in UTC as texts of the local times at an offset, with the offset.

    Args:
        array: The times, as times or as microseconds since midnight.
        form: The digits of a second, and the offset.
    """
    digits, zone = form.split(" ")
    offset = time_zones.written_offset(zone)
    ahead = datetime.timedelta(minutes=time_zones.offset_of(time_zones.named(offset)) or 0)
    end = len("01:02:03") + (int(digits) + 1 if int(digits) else 0)
    values = array.cast(pa.int64()).to_pylist()
    texts = [
        None
        if value is None
        else (_MIDNIGHT + datetime.timedelta(microseconds=value) + ahead)
        .time()
        .isoformat("microseconds")[:end]
        + offset
        for value in values
    ]
    return pa.array(texts, pa.string())


_MIDNIGHT = datetime.datetime(2000, 1, 2, tzinfo=datetime.UTC)


def _as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type.equals(type_):
        return array
    if pa.types.is_null(type_):
        return pa.nulls(len(array))
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)  # engines type all-null columns as they like
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        children = [
            _as_type(child, type_.field(position).type)
            for position, child in enumerate(_fields(array))
        ]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        items = _as_type(array.values, type_.value_type)
        return list_like(array, items, type_)
    if pa.types.is_map(type_) and pa.types.is_map(array.type):
        keys, items = _as_type(array.keys, type_.key_type), _as_type(array.items, type_.item_type)
        return map_like(array, keys, items, type_)
    return array.cast(type_)


def _fields(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(position) for position in range(array.type.num_fields)]
