"""Partition values that a file need not store, and the schema that a spec belongs to."""

from __future__ import annotations

import datetime
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DateType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from seamline.errors import NOT_SUPPORTED, SeamlineError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def identity_values(table: PyTable, file: DataFile) -> tuple[tuple[int, Any], ...]:
    """Returns (field id, value) for each identity-partitioned column: all rows have that value."""
    spec = table.metadata.specs()[file.spec_id]
    return tuple(
        (field.source_id, _constant(file.partition[position], _type_of(table, field.source_id)))
        for position, field in enumerate(spec.fields)
        if str(field.transform) == "identity"
    )


def schema_for(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Returns the newest schema that has the columns of a partition spec.

    If no kept schema has all of them, it is made of the columns of all schemas.
    """
    sources = {field.source_id for field in spec.fields}
    newest_first = [metadata.schema(), *reversed(metadata.schemas)]
    found = next((schema for schema in newest_first if sources <= schema.field_ids), None)
    if found is not None:
        return found
    fields = {field.field_id: field for schema in metadata.schemas for field in schema.fields}
    named = (f.model_copy(update={"name": f"{f.name}_{f.field_id}"}) for f in fields.values())
    return Schema(*named)


def _type_of(table: PyTable, field_id: int) -> IcebergType | None:
    """Returns the newest type of a column, even if dropped; None if no kept schema has it."""
    for schema in (table.schema(), *reversed(table.metadata.schemas)):
        if field_id in schema.field_ids:
            return schema.find_type(field_id)
    return None


def _constant(value: Any, type_: IcebergType | None) -> Any:
    """Converts a partition value to Python; manifests count days, micro- or nanoseconds."""
    if not isinstance(value, int):
        return value
    match type_:
        case DateType():
            return _EPOCH.date() + datetime.timedelta(days=value)
        case TimestampType():
            return _EPOCH.replace(tzinfo=None) + datetime.timedelta(microseconds=value)
        case TimestamptzType():
            return _EPOCH + datetime.timedelta(microseconds=value)
        case TimestampNanoType() | TimestamptzNanoType():
            if value % 1000:
                raise SeamlineError(NOT_SUPPORTED, "a partition has more than 6 digits of a second")
            moment = _EPOCH + datetime.timedelta(microseconds=value // 1000)
            return moment if isinstance(type_, TimestamptzNanoType) else moment.replace(tzinfo=None)
        case TimeType():
            return (_EPOCH + datetime.timedelta(microseconds=value)).time()
    return value
