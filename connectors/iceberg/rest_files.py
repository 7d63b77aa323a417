"""Converts the files of a planned scan to the JSON of the REST specification.

Bounds are the bytes stored in manifests, in hexadecimal, as the specification's reference
implementation writes and reads them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from pyiceberg.conversions import to_json
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, PrimitiveType, UnknownType

from seamline.connectors.iceberg.row_ids import (
    CONTENT_OFFSET,
    CONTENT_SIZE,
    FILE_FIRST_ROW_ID,
    REFERENCED_FILE,
)
from seamline.connectors.iceberg.virtual import Json

_CONTENT = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}
_POSITION_FIELDS = (
    ("referenced-data-file", REFERENCED_FILE),
    ("content-offset", CONTENT_OFFSET),
    ("content-size-in-bytes", CONTENT_SIZE),
)


def data_file(file: DataFile, spec: PartitionSpec, schema: Schema, stats: Collection[int]) -> Json:
    """Returns a data file as JSON.

    Args:
        file: The file.
        spec: The partition spec it was written with.
        schema: The table's schema, by which engines know the types of partitions.
        stats: Ids of the fields whose statistics are included.
    """
    body = _content_file(file, spec, schema)
    first_row_id = file[FILE_FIRST_ROW_ID] if len(file) > FILE_FIRST_ROW_ID else None
    if first_row_id is not None:
        body["first-row-id"] = first_row_id
    if stats:
        body.update(_statistics(file, stats))
    return body


def delete_file(file: DataFile, spec: PartitionSpec, schema: Schema) -> Json:
    """Returns a delete file as JSON."""
    body = _content_file(file, spec, schema)
    if file.content == DataFileContent.EQUALITY_DELETES:
        return {**body, "equality-ids": list(file.equality_ids or [])}
    for name, position in _POSITION_FIELDS:
        if len(file) > position and file[position] is not None:
            body[name] = file[position]
    return body


def _content_file(file: DataFile, spec: PartitionSpec, schema: Schema) -> Json:
    body: Json = {
        "spec-id": spec.spec_id,
        "content": _CONTENT[file.content],
        "file-path": file.file_path,
        "file-format": FileFormat(file.file_format).value.lower(),
        "partition": _partition(file, spec, schema),
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    }
    if file.key_metadata is not None:
        body["key-metadata"] = bytes(file.key_metadata).hex().upper()
    if file.split_offsets:
        body["split-offsets"] = list(file.split_offsets)
    if file.sort_order_id is not None:
        body["sort-order-id"] = file.sort_order_id
    return body


def _partition(file: DataFile, spec: PartitionSpec, schema: Schema) -> list[Any]:
    """Returns a file's partition values; null for what JSON has no form for.

    These are NaN and infinities, and values of dropped columns, whose type is unknown.
    """
    types = [field.field_type for field in spec.partition_type(schema).fields]
    return [_value(type_, file.partition[place]) for place, type_ in enumerate(types)]


def _value(type_: IcebergType, value: Any) -> Any:
    if value is None or not isinstance(type_, PrimitiveType) or isinstance(type_, UnknownType):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return to_json(type_, value)


def _statistics(file: DataFile, stats: Collection[int]) -> Json:
    counts: dict[str, Mapping[int, Any] | None] = {
        "column-sizes": file.column_sizes,
        "value-counts": file.value_counts,
        "null-value-counts": file.null_value_counts,
        "nan-value-counts": file.nan_value_counts,
    }
    bounds = {"lower-bounds": file.lower_bounds, "upper-bounds": file.upper_bounds}
    texts = {
        name: {field_id: bytes(value).hex().upper() for field_id, value in (found or {}).items()}
        for name, found in bounds.items()
    }
    everything: dict[str, Mapping[int, Any] | None] = {**counts, **texts}
    return {name: _map(found, stats) for name, found in everything.items() if found}


def _map(found: Mapping[int, Any], stats: Collection[int]) -> Json:
    kept = {field_id: value for field_id, value in found.items() if field_id in stats}
    return {"keys": list(kept), "values": list(kept.values())}
