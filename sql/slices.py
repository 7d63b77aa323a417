"""Slices of nested Arrow arrays, which libraries mishandle or refuse.

DuckDB 1.5 loses the offset of a slice in a row that is a field of a row, and returns the values of
other rows. So such rows are copied when they are sliced; nothing else is. We and PySpark build
lists and maps from offsets. Arrow refuses to do so if there are nulls and the offsets are sliced,
so these are copied, too. Java writes no offsets for lists that are all empty, as the format allows;
Arrow's C++ library looks for them and ends the process.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def unsliced(table: pa.Table) -> pa.Table:
    """Returns the table without slices of rows nested in rows."""
    for index, column in enumerate(table.columns):
        if _is_row_of_rows(column.type) and any(map(_is_sliced, column.chunks)):
            chunks = [pa.concat_arrays([chunk]) for chunk in column.chunks]
            table = table.set_column(
                index, table.schema.field(index), pa.chunked_array(chunks, column.type)
            )
    return table


def whole(table: pa.Table) -> pa.Table:
    """Returns the table with every list, map and row starting at offset 0, as PySpark requires.

    Each then has offsets, even if its writer left them out.
    """
    columns = [
        pa.chunked_array([pa.concat_arrays([c]) for c in column.chunks], column.type)
        if pa.types.is_nested(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _is_row_of_rows(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) and any(pa.types.is_struct(field.type) for field in type_)


def _is_sliced(array: pa.Array) -> bool:
    if not pa.types.is_struct(array.type):
        return False
    children = (array.field(index) for index in range(array.type.num_fields))
    return array.offset != 0 or any(child.offset or _is_sliced(child) for child in children)


def list_like(array: pa.ListArray, items: pa.Array, type_: pa.ListType) -> pa.ListArray:
    """Returns a list array with other items, one for each of `array.values`."""
    return pa.ListArray.from_arrays(_offsets(array), items, type=type_, mask=_nulls(array))


def map_like(array: pa.MapArray, keys: pa.Array, items: pa.Array, type_: pa.MapType) -> pa.MapArray:
    """Returns a map array with other keys and items, one for each of `array.keys`."""
    return pa.MapArray.from_arrays(_offsets(array), keys, items, type=type_, mask=_nulls(array))


def _offsets(array: pa.Array) -> pa.Array:
    return pc.add(array.offsets, 0) if array.offsets.offset else array.offsets


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
