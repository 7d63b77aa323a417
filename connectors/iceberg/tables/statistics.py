"""Column statistics of a snapshot, aggregated from what the writers of its data files recorded.

They are only as good as their writers: a statistic of a column is missing if any file lacks it, and
deleted rows still count.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    TimestampType,
    TimestamptzType,
)

from seamline.connectors.iceberg.bounds import bound
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.tables.catalog import IcebergTable

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BOUNDED = (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    TimestampType,
    TimestamptzType,
)
"""Types whose bounds are exact; bounds of strings may be truncated."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The statistics of a column; None for those that some file lacks.

    Attributes:
        nulls: How many values are null.
        low: The least value, for numbers and times.
        high: The greatest value, likewise.
        size_bytes: The column's size in the files, in bytes.
    """

    nulls: int | None
    low: Any
    high: Any
    size_bytes: float | None


def column_bounds(
    table: IcebergTable, snapshot_id: int | None
) -> tuple[int, dict[int, ColumnBounds]]:
    """Returns the row count of a snapshot, and its column statistics by field id.

    Raises:
        SeamlineError: COLD_FILE_MISSING, STORAGE_UNAVAILABLE, LOCATION_NOT_ALLOWED.
    """
    if snapshot_id is None:
        return 0, {}
    iceberg = table.iceberg
    pruner = Pruner(iceberg.metadata, AlwaysTrue())
    files = [task.file for task in table.tasks(snapshot_id, pruner)]
    rows = sum(file.record_count for file in files)
    fields = iceberg.schema().fields
    return rows, {field.field_id: _bounds_of(field, files) for field in fields}


def _bounds_of(field: NestedField, files: Sequence[DataFile]) -> ColumnBounds:
    full = [file for file in files if not _is_empty(field, file)]
    return ColumnBounds(
        nulls=_folded(sum, [(f.null_value_counts or {}).get(field.field_id) for f in files]),
        low=_shown(field, _folded(min, [_bound(field, f.lower_bounds) for f in full])),
        high=_shown(field, _folded(max, [_bound(field, f.upper_bounds) for f in full])),
        size_bytes=_folded(sum, [(f.column_sizes or {}).get(field.field_id) for f in files]),
    )


def _is_empty(field: NestedField, file: DataFile) -> bool:
    """Whether a column of a file is all nulls, and so has no bounds."""
    return (file.null_value_counts or {}).get(field.field_id) == file.record_count


def _bound(field: NestedField, bounds: dict[int, bytes] | None) -> Any:
    return bound(field, bounds) if isinstance(field.field_type, _BOUNDED) else None


def _folded(fold: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    return fold(values) if values and None not in values else None


def _shown(field: NestedField, value: Any) -> Any:
    """Makes a bound readable: those of times are days or microseconds since 1970."""
    if value is None or not isinstance(
        field.field_type, (DateType, TimestampType, TimestamptzType)
    ):
        return value
    try:
        if isinstance(field.field_type, DateType):
            return (_EPOCH + datetime.timedelta(days=value)).date()
        moment = _EPOCH + datetime.timedelta(microseconds=value)
    except OverflowError:
        return None
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
    return f"{text} UTC" if isinstance(field.field_type, TimestamptzType) else text
