"""Arrow as DuckDB reads it right.

DuckDB 1.5 forgets where a slice begins in a row that is a field of a row, and gives the values of
other rows. So these are copied when they are a slice; nothing else is.
"""

from __future__ import annotations

import pyarrow as pa


def unsliced(table: pa.Table) -> pa.Table:
    """The table without slices of rows in rows."""
    for place, column in enumerate(table.columns):
        if _is_row_of_rows(column.type) and any(map(_is_sliced, column.chunks)):
            chunks = [pa.concat_arrays([chunk]) for chunk in column.chunks]
            table = table.set_column(
                place, table.schema.field(place), pa.chunked_array(chunks, column.type)
            )
    return table


def _is_row_of_rows(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) and any(pa.types.is_struct(field.type) for field in type_)


def _is_sliced(array: pa.Array) -> bool:
    if not pa.types.is_struct(array.type):
        return False
    children = (array.field(place) for place in range(array.type.num_fields))
    return array.offset != 0 or any(child.offset or _is_sliced(child) for child in children)
