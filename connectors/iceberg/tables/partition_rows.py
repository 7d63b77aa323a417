"""The contents of `$partitions`: what the data files of a snapshot record, summed by partition.

Columns and their meaning are those of Trino's Iceberg connector. Deleted rows still count. A
statistic of a column is null if any file of the partition lacks it, or if it proves nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import (
    IcebergType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from seamline.connectors.iceberg.bounds import bound
from seamline.connectors.iceberg.foreign_metadata import VariantType
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import from_iceberg
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql import types
from seamline.sql.types import Field, Row, Type

_NANOSECONDS = (TimestampNanoType, TimestamptzNanoType)


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A field of the row `partition`."""

    field_id: int
    name: str
    type: IcebergType

    @property
    def field(self) -> Field:
        """This field as one of a row type."""
        return Field(self.name, from_iceberg(self.type, {}))

    def value(self, file: DataFile, fields: Sequence[PartitionField]) -> Any:
        """Returns its value in a file with a partition spec of these fields.

        Raises:
            SeamlineError: NOT_SUPPORTED for a value that needs nanoseconds.
        """
        for position, field in enumerate(fields):
            if field.field_id == self.field_id:
                return _cell(self.type, _stored(file, position))
        return None


def _stored(file: DataFile, place: int) -> Any:
    """Returns a partition value of a file; None if its writer stored fewer than its spec has."""
    return file.partition[place] if place < len(file.partition) else None


def partition_columns(metadata: TableMetadata) -> tuple[PartitionColumn, ...]:
    """Returns the partition fields of all specs whose columns the table still has.

    If fields of several specs have one name, that of the current spec keeps it, and the ids of the
    others are appended to theirs.
    """
    schema = metadata.schema()
    fields: dict[int, PartitionField] = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            earlier = fields.get(field.field_id)
            if earlier is None or isinstance(earlier.transform, VoidTransform):
                fields[field.field_id] = field
    visible = [field for field in fields.values() if field.source_id in schema.field_ids]
    current = {field.field_id for field in metadata.spec().fields}
    names: dict[int, str] = {}
    for field in sorted(visible, key=lambda field: field.field_id not in current):
        is_taken = field.name.lower() in {name.lower() for name in names.values()}
        names[field.field_id] = f"{field.name}_{field.field_id}" if is_taken else field.name
    return tuple(
        PartitionColumn(
            field.field_id,
            names[field.field_id],
            field.transform.result_type(schema.find_type(field.source_id)),
        )
        for field in visible
    )


def partition_row(columns: Iterable[PartitionColumn]) -> dict[str, Type]:
    """Returns the column `partition`; none for a table that was never partitioned."""
    fields = tuple(column.field for column in columns)
    return {"partition": Row(fields)} if fields else {}


def partitions(
    table: IcebergTable, snapshot_id: int | None
) -> tuple[dict[str, Type], list[tuple[Any, ...]]]:
    """Returns the columns and rows of `$partitions`.

    Raises:
        SeamlineError: NOT_SUPPORTED, COLD_FILE_MISSING, STORAGE_UNAVAILABLE, LOCATION_NOT_ALLOWED.
    """
    metadata = table.iceberg.metadata
    keys = partition_columns(metadata)
    measured = _measured(metadata)
    shape: dict[str, Type] = {
        **partition_row(keys),
        **dict.fromkeys(("record_count", "file_count", "total_size"), types.BIGINT),
    }
    if measured:
        shape["data"] = Row(tuple(Field(field.name, _statistics(field)) for field in measured))
    specs = metadata.specs()
    groups: dict[Any, list[DataFile]] = {}
    for file in _files(table, snapshot_id):
        fields = specs[file.spec_id].fields
        ids = tuple(field.field_id for field in fields)
        values = tuple(_key(_stored(file, place)) for place in range(len(fields)))
        groups.setdefault((ids, values), []).append(file)
    rows = []
    for files in groups.values():
        fields = specs[files[0].spec_id].fields
        row: list[Any] = [{key.name: key.value(files[0], fields) for key in keys}] if keys else []
        row += [sum(file.record_count for file in files), len(files)]
        row.append(sum(file.file_size_in_bytes for file in files))
        if measured:
            identities = _identities(metadata, files)
            row.append({f.name: _measures(f, files, identities.get(f.field_id)) for f in measured})
        rows.append(tuple(row))
    return shape, rows


def _files(table: IcebergTable, snapshot_id: int | None) -> list[DataFile]:
    if snapshot_id is None:
        return []
    pruner = Pruner(table.iceberg.metadata, AlwaysTrue())
    return [task.file for task in table.tasks(snapshot_id, pruner)]


def _measured(metadata: TableMetadata) -> list[NestedField]:
    """Returns the columns whose statistics are shown.

    They are those of simple types that can be read, except for those that the current spec has
    unchanged: their values are in `partition`.
    """
    schema: Schema = metadata.schema()
    identities = {f.source_id for f in metadata.spec().fields if _is_identity(f)}
    folded = [field.name.lower() for field in schema.fields]
    return [
        field
        for field in schema.fields
        if isinstance(field.field_type, PrimitiveType)
        and not isinstance(field.field_type, VariantType)
        and field.field_id not in identities
        and folded.count(field.name.lower()) == 1
        and not isinstance(from_iceberg(field.field_type, {}), types.Unsupported)
        and from_iceberg(field.field_type, {}) != types.UNKNOWN
    ]


def _statistics(field: NestedField) -> Row:
    own = from_iceberg(field.field_type, {})
    return Row(
        (
            Field("min", own),
            Field("max", own),
            Field("null_count", types.BIGINT),
            Field("nan_count", types.BIGINT),
        )
    )


def _is_identity(field: PartitionField) -> bool:
    return isinstance(field.transform, IdentityTransform)


def _identities(metadata: TableMetadata, files: Sequence[DataFile]) -> dict[int, Any]:
    """Returns the value that all rows of a partition have in a column, as a tuple of one."""
    fields = metadata.specs()[files[0].spec_id].fields
    return {
        field.source_id: (_stored(files[0], place),)
        for place, field in enumerate(fields)
        if _is_identity(field)
    }


def _measures(
    field: NestedField, files: Sequence[DataFile], identity: tuple[Any] | None
) -> dict[str, Any] | None:
    """Returns the statistics of a column in a partition; None if there are none at all."""
    nans = _total(field, (file.nan_value_counts for file in files))
    if identity is not None:
        (value,) = identity
        rows = sum(file.record_count for file in files)
        nulls: int | None = rows if value is None else 0
        low = high = value
    else:
        nulls = _total(field, (file.null_value_counts for file in files))
        full = [file for file in files if not _is_empty(field, file)]
        low = _folded(min, [bound(field, file.lower_bounds) for file in full])
        high = _folded(max, [bound(field, file.upper_bounds) for file in full])
        if isinstance(field.field_type, UUIDType):  # writers do not agree on their order
            low = high = None
    if low is None and high is None and nulls is None:
        return None
    return {
        "min": _bound_cell(field.field_type, low, up=False),
        "max": _bound_cell(field.field_type, high, up=True),
        "null_count": nulls,
        "nan_count": nans,
    }


def _total(field: NestedField, counts: Iterable[dict[int, int] | None]) -> int | None:
    """Returns the sum of a column's counts; None if a file lacks it."""
    by_file = [(count or {}).get(field.field_id) for count in counts]
    numbers = [number for number in by_file if number is not None]
    return sum(numbers) if len(numbers) == len(by_file) else None


def _is_empty(field: NestedField, file: DataFile) -> bool:
    """Whether a column of a file is all nulls, and so has no bounds."""
    return (file.null_value_counts or {}).get(field.field_id) == file.record_count


def _folded(fold: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    if not values or any(value is None or _is_nan(value) for value in values):
        return None
    return fold(values)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(value: Any) -> Any:
    """Returns a partition's value as a key: NaN equals itself, and zeros differ by their signs."""
    return repr(value) if isinstance(value, float) else value


def _bound_cell(type_: IcebergType, value: Any, *, up: bool) -> Any:
    """Returns a bound in the form Arrow takes; nanoseconds are rounded away from the values."""
    if isinstance(type_, _NANOSECONDS) and value is not None:
        return -(-value // 1000) if up else value // 1000
    return _cell(type_, value)


def _cell(type_: IcebergType, value: Any) -> Any:
    """Returns a value of a partition or a bound in the form Arrow takes: times are numbers.

    Raises:
        SeamlineError: NOT_SUPPORTED for a value that needs nanoseconds.
    """
    if value is None:
        return None
    match type_:
        case TimestampNanoType() | TimestamptzNanoType():
            if value % 1000:
                raise SeamlineError(NOT_SUPPORTED, "a partition has more than 6 digits of a second")
            return value // 1000
        case UUIDType() | StringType():
            return str(value)
    return value
