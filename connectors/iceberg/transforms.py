"""Applies Iceberg's partition transforms to Arrow columns, with results as manifests store them.

Arrow itself truncates times. Transforms that Arrow has no function for are computed once per
distinct value, by PyIceberg. Results are plain numbers, strings and bytes, as in a manifest: days
and microseconds since the epoch, the 16 bytes of a UUID.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, NestedField, StructType

_EPOCH_YEAR = 1970
_HOUR_S = 3_600
_ROW = "row"


def can_compute(transforms: Sequence[Any]) -> bool:
    """Whether all of the transforms can be computed here."""
    return not any(isinstance(transform, UnknownTransform) for transform in transforms)


def partitions(
    rows: pa.Table, schema: Schema, fields: Sequence[PartitionField]
) -> list[tuple[Record, pa.Array]]:
    """Splits rows by partition.

    Values are equal if they are the same to the last bit: NaN is a partition, 0.0 and -0.0 are two.

    Args:
        rows: The rows, with the schema's columns by name.
        schema: The table's schema.
        fields: The fields of its partition spec, whose transforms can be computed.

    Returns:
        Each partition, as manifests store it, with the positions of its rows.

    Raises:
        ArithmeticError: when a truncated value is below the minimum of its type.
    """
    columns = {
        str(position): transformed(
            leaf(rows, schema, field.source_id), field.transform, schema.find_type(field.source_id)
        )
        for position, field in enumerate(fields)
    }
    keyed = pa.table({**columns, _ROW: pa.array(range(rows.num_rows), pa.int64())})
    groups = keyed.group_by(list(columns), use_threads=False).aggregate([(_ROW, "list")])
    places = groups.column(f"{_ROW}_list").combine_chunks()
    keys = groups.select(list(columns)).to_pylist()
    return [(Record(*key.values()), places[n].values) for n, key in enumerate(keys)]


def transformed(values: Any, transform: Transform[Any, Any], source: IcebergType) -> Any:
    """Applies a transform to a column.

    Args:
        values: Arrow array or chunked array.
        transform: The transform.
        source: The column's Iceberg type.

    Raises:
        ArithmeticError: when a truncated value is below the minimum of its type.
    """
    match transform:
        case IdentityTransform():
            return stored(values)
        case VoidTransform():
            return pa.nulls(len(values), stored(values).type)
        case YearTransform():
            return pc.subtract(pc.year(values), _EPOCH_YEAR).cast(pa.int32())
        case MonthTransform():
            years = pc.multiply(pc.subtract(pc.year(values), _EPOCH_YEAR), 12)
            return pc.add(years, pc.subtract(pc.month(values), 1)).cast(pa.int32())
        case DayTransform():
            return values.cast(pa.date32()).cast(pa.int32())
        case HourTransform():
            hours = pc.floor_temporal(values, unit="hour").cast(pa.timestamp("s", values.type.tz))
            return pc.divide(hours.cast(pa.int64()), _HOUR_S).cast(pa.int32())
    result = pa.int32() if isinstance(transform, BucketTransform) else stored(values).type
    return _by_distinct_value(stored(values), transform.transform(source), result)


def stored(values: Any) -> Any:
    """Returns the column's values as manifests store them."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return values.cast(kind.storage_type)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return values.cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32())
    return values


def leaf(rows: pa.Table, schema: Schema, field_id: int) -> Any:
    """Returns the column of a field, at any depth of structs; null where an outer struct is."""
    first, *inside = path_to(schema.fields, field_id)
    column = rows.column(first)
    return pc.struct_field(column, inside) if inside else column


def path_to(fields: Sequence[NestedField], field_id: int) -> list[str]:
    """Returns the names that lead to a field, at any depth of structs; an empty list if none do."""
    for field in fields:
        if field.field_id == field_id:
            return [field.name]
        if isinstance(field.field_type, StructType):
            inside = path_to(field.field_type.fields, field_id)
            if inside:
                return [field.name, *inside]
    return []


def _by_distinct_value(values: Any, function: Any, result: pa.DataType) -> Any:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = array.dictionary_encode()
    found = [function(value) for value in encoded.dictionary.to_pylist()]
    try:
        return pa.array(found, result).take(encoded.indices)
    except pa.ArrowInvalid as error:
        raise ArithmeticError(f"values of type {result} have no order") from error
