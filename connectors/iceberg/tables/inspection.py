"""The contents of a table's metadata: its manifests, their entries, and its log of metadata files.

Columns and their meaning are those of the metadata tables of Trino's Iceberg connector.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
)

from seamline.connectors.iceberg.bounds import decoded
from seamline.connectors.iceberg.partitions import schema_for
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tables.partition_rows import (
    PartitionColumn,
    partition_columns,
    partition_row,
)
from seamline.sql import types
from seamline.sql.types import Array, Field, Map, Row, Type

Rows = list[tuple[Any, ...]]

_SUMMARIES = Array(
    Row(
        (
            Field("contains_null", types.BOOLEAN),
            Field("contains_nan", types.BOOLEAN),
            Field("lower_bound", types.VARCHAR),
            Field("upper_bound", types.VARCHAR),
        )
    )
)
_MANIFEST: Mapping[str, Type] = {
    "path": types.VARCHAR,
    "length": types.BIGINT,
    "partition_spec_id": types.INTEGER,
    "added_snapshot_id": types.BIGINT,
}
MANIFESTS: Mapping[str, Type] = {
    **_MANIFEST,
    "added_data_files_count": types.INTEGER,
    "added_rows_count": types.BIGINT,
    "existing_data_files_count": types.INTEGER,
    "existing_rows_count": types.BIGINT,
    "deleted_data_files_count": types.INTEGER,
    "deleted_rows_count": types.BIGINT,
    "partition_summaries": _SUMMARIES,
}
ALL_MANIFESTS: Mapping[str, Type] = {
    **_MANIFEST,
    "added_data_files_count": types.INTEGER,
    "existing_data_files_count": types.INTEGER,
    "deleted_data_files_count": types.INTEGER,
    "partition_summaries": _SUMMARIES,
}
METADATA_LOG: Mapping[str, Type] = {
    "timestamp": types.Timestamp(3, zoned=True),
    "file": types.VARCHAR,
    "latest_snapshot_id": types.BIGINT,
    "latest_schema_id": types.INTEGER,
    "latest_sequence_number": types.BIGINT,
}


# --- Manifests -----------------------------------------------------------------------------------


def manifests(table: IcebergTable, snapshot_id: int | None) -> Rows:
    """Returns the manifests of a snapshot; of delete files, too, which are counted like the others.

    Raises:
        SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE,
            LOCATION_NOT_ALLOWED.
    """
    listed = table.manifests(snapshot_id) if snapshot_id is not None else ()
    return [
        (
            *_place(m),
            m.added_files_count,
            m.added_rows_count,
            m.existing_files_count,
            m.existing_rows_count,
            m.deleted_files_count,
            m.deleted_rows_count,
            _summaries(table, m),
        )
        for m in listed
    ]


def all_manifests(table: IcebergTable) -> Rows:
    """Returns the manifests of every snapshot; one that several snapshots have, several times.

    Only data files are counted.

    Raises:
        SeamlineError: as `manifests`.
    """
    rows: Rows = []
    for snapshot_id in table.state.snapshots:
        for manifest in table.manifests(snapshot_id):
            counts: Sequence[int | None] = (0, 0, 0)
            if manifest.content == ManifestContent.DATA:
                counts = (
                    manifest.added_files_count,
                    manifest.existing_files_count,
                    manifest.deleted_files_count,
                )
            rows.append((*_place(manifest), *counts, _summaries(table, manifest)))
    return rows


def _place(manifest: ManifestFile) -> tuple[Any, ...]:
    return (
        manifest.manifest_path,
        manifest.manifest_length,
        manifest.partition_spec_id,
        manifest.added_snapshot_id,
    )


def _summaries(table: IcebergTable, manifest: ManifestFile) -> list[dict[str, Any]]:
    metadata = table.iceberg.metadata
    spec = metadata.specs()[manifest.partition_spec_id]
    of_values = spec.partition_type(schema_for(metadata, spec)).fields
    return [
        _summary(field, value.field_type, summary)
        for field, value, summary in zip(
            spec.fields, of_values, manifest.partitions or (), strict=False
        )
    ]


def _summary(
    field: PartitionField, type_: IcebergType, summary: PartitionFieldSummary
) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": _text(field.transform, type_, summary.lower_bound),
        "upper_bound": _text(field.transform, type_, summary.upper_bound),
    }


def _text(transform: Transform[Any, Any], type_: IcebergType, value: bytes | None) -> str | None:
    """Returns a bound as people read it; None if it cannot be decoded."""
    if value is None or not isinstance(type_, PrimitiveType):
        return None
    bound = decoded(type_, value)
    if bound is None:
        return None
    try:
        return transform.to_human_string(type_, bound)
    except (ValueError, TypeError, ArithmeticError):  # a date that Python cannot represent
        return str(bound)


# --- The log of metadata files -------------------------------------------------------------------


def metadata_log(table: IcebergTable) -> Rows:
    """Returns the metadata files that the table remembers, oldest first, and the present one.

    Each has the snapshot that was current when it was written. Moments are microseconds.
    """
    metadata, state = table.iceberg.metadata, table.state
    written = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    rows: Rows = []
    for moment_ms, file in (*written, (metadata.last_updated_ms, state.metadata_location)):
        earlier = [head for at_ms, head in state.snapshot_log if at_ms <= moment_ms]
        head = earlier[-1] if earlier else None
        snapshot = state.snapshots.get(head) if head is not None else None
        ids = (snapshot.schema_id, snapshot.sequence_number) if snapshot else (None, None)
        rows.append((moment_ms * 1000, file, head, *ids))
    return rows


# --- Entries -------------------------------------------------------------------------------------

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_JSON_TYPES = (BooleanType, IntegerType, LongType, FloatType, DoubleType)
_METRICS = ("column_size", "value_count", "null_value_count", "nan_value_count")


def entries(table: IcebergTable, snapshot_id: int | None) -> tuple[dict[str, Type], Rows]:
    """Returns the columns and rows of `$entries`, with the files that the snapshot has deleted.

    Raises:
        SeamlineError: as `manifests`; NOT_SUPPORTED for a partition in nanoseconds.
    """
    metadata = table.iceberg.metadata
    keys = partition_columns(metadata)
    specs = metadata.specs()
    listed = table.entries(snapshot_id) if snapshot_id is not None else []
    columns = _columns(metadata.schema())
    rows: Rows = [
        (
            int(entry.status),
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            _file(entry, keys, specs[entry.data_file.spec_id].fields, columns),
            _readable(entry.data_file, columns),
        )
        for entry in listed
    ]
    return {
        "status": types.INTEGER,
        "snapshot_id": types.BIGINT,
        "sequence_number": types.BIGINT,
        "file_sequence_number": types.BIGINT,
        "data_file": _file_row(keys),
        "readable_metrics": types.JSON,
    }, rows


def _file_row(keys: Sequence[PartitionColumn]) -> Row:
    counts, bounds = Map(types.INTEGER, types.BIGINT), Map(types.INTEGER, types.VARCHAR)
    shape: dict[str, Type] = {
        "content": types.INTEGER,
        "file_path": types.VARCHAR,
        "file_format": types.VARCHAR,
        "spec_id": types.INTEGER,
        **partition_row(keys),
        "record_count": types.BIGINT,
        "file_size_in_bytes": types.BIGINT,
        **dict.fromkeys(_COUNTS, counts),
        **dict.fromkeys(_BOUNDS, bounds),
        "key_metadata": types.VARBINARY,
        "split_offsets": Array(types.BIGINT),
        "equality_ids": Array(types.INTEGER),
        "sort_order_id": types.INTEGER,
    }
    return Row(tuple(Field(name, type_) for name, type_ in shape.items()))


def _file(
    entry: ManifestEntry,
    keys: Sequence[PartitionColumn],
    fields: Sequence[PartitionField],
    columns: Mapping[int, tuple[str, PrimitiveType]],
) -> dict[str, Any]:
    file = entry.data_file
    row: dict[str, Any] = {
        "content": int(file.content),
        "file_path": file.file_path,
        "file_format": file.file_format.value,
        "spec_id": file.spec_id,
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "key_metadata": file.key_metadata,
        "split_offsets": file.split_offsets,
        "equality_ids": file.equality_ids,
        "sort_order_id": file.sort_order_id,
    }
    for name in _COUNTS:
        counts = getattr(file, name)
        row[name] = None if counts is None else list(counts.items())
    for name in _BOUNDS:
        bounds = getattr(file, name)
        row[name] = None if bounds is None else list(_texts(columns, bounds).items())
    if keys:
        row["partition"] = {key.name: key.value(file, fields) for key in keys}
    return row


def _columns(schema: Schema) -> dict[int, tuple[str, PrimitiveType]]:
    """Returns the full names and types of the columns and fields of simple types, by id."""
    columns = {}
    for field_id in sorted(schema.field_ids):
        type_, name = schema.find_type(field_id), schema.find_column_name(field_id)
        if isinstance(type_, PrimitiveType) and name is not None:
            columns[field_id] = (name, type_)
    return columns


def _texts(
    columns: Mapping[int, tuple[str, PrimitiveType]], bounds: Mapping[int, bytes]
) -> dict[int, str | None]:
    """Returns bounds of columns that the table still has as text."""
    return {
        field_id: _text(IdentityTransform(), columns[field_id][1], value)
        for field_id, value in bounds.items()
        if field_id in columns
    }


def _readable(file: DataFile, columns: Mapping[int, tuple[str, PrimitiveType]]) -> str:
    """Returns the statistics of a file as JSON, by column name."""
    counts = [getattr(file, name) or {} for name in _COUNTS]
    lows, highs = (getattr(file, name) or {} for name in _BOUNDS)
    return json.dumps(
        {
            name: {
                **{key: of.get(field_id) for key, of in zip(_METRICS, counts, strict=True)},
                "lower_bound": _json(type_, lows.get(field_id)),
                "upper_bound": _json(type_, highs.get(field_id)),
            }
            for field_id, (name, type_) in sorted(columns.items(), key=lambda item: item[1][0])
        },
        ensure_ascii=False,
    )


def _json(type_: PrimitiveType, value: bytes | None) -> bool | float | str | None:
    """Returns a bound as JSON: a boolean or a finite number as such, and others as text."""
    if isinstance(type_, _JSON_TYPES) and value is not None:
        bound: bool | float | None = decoded(type_, value)
        if bound is None or math.isfinite(bound):
            return bound
    return _text(IdentityTransform(), type_, value)
