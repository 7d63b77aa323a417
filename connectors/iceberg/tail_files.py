"""Writes decoded rows as Iceberg data files: partitioned, sorted, with ids, counts and bounds.

The files are what a writer of the table would have written: split by the table's partition spec,
sorted by its order, with field ids, and with the statistics that its properties ask for. Names are
chosen before anything is written, so that unfinished files can be found and removed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import DoubleType, FloatType

from seamline.connectors.iceberg.parquet_types import as_stored
from seamline.connectors.iceberg.parquet_writer import dictionary_columns
from seamline.connectors.iceberg.transforms import can_compute, leaf, partitions, transformed
from seamline.sql.types import Field

PARTITIONS_MAX = 200
"""Rows of one write that would fall into more partitions are written unpartitioned."""


@dataclasses.dataclass(frozen=True, slots=True)
class TailLayout:
    """How rows of a table are laid out in files.

    Attributes:
        schema: The table's schema.
        columns: The same columns as the decoder returns them.
        spec: Its partition spec.
        unpartitioned: The spec for rows that would fall into too many partitions.
        order: Its sort order.
        format_version: 2 or 3.
        properties: Its properties, some of which choose statistics.
    """

    schema: Schema
    columns: tuple[Field, ...]
    spec: PartitionSpec
    unpartitioned: PartitionSpec
    order: SortOrder
    format_version: TableVersion
    properties: Mapping[str, str] = dataclasses.field(hash=False)

    def describe(self) -> str:
        """Returns everything that determines the content of a file of given rows, as text."""
        metrics = {k: v for k, v in self.properties.items() if k.startswith("write.metadata.")}
        parts = (
            self.schema.model_dump_json(),
            repr(self.columns),
            self.spec.model_dump_json(),
            self.unpartitioned.spec_id,
            self.order.model_dump_json(),
            self.format_version,
            sorted(metrics.items()),
        )
        return json.dumps(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is about to be written."""

    path: str
    spec_id: int
    partition: Record
    rows: pa.Table = dataclasses.field(compare=False)


def plan_files(rows: pa.Table, layout: TailLayout, folder: str) -> list[PlannedFile]:
    """Plans the files that hold the rows; an empty list for no rows.

    Args:
        rows: Decoded rows, in the layout's columns or some of them.
        layout: How they are laid out. The rows must have the columns it partitions or sorts by.
        folder: The location to put the files under.
    """
    if not rows.num_rows:
        return []
    parts = _partitions(as_stored(rows, layout.columns), layout)
    name = uuid.uuid4().hex[:12]
    return [
        PlannedFile(f"{folder}/{name}-{number:05d}.parquet", spec_id, partition, part)
        for number, (spec_id, partition, part) in enumerate(parts)
    ]


def write_file(io: FileIO, planned: PlannedFile, layout: TailLayout) -> DataFile:
    """Writes one file and returns its entry in a manifest.

    Raises:
        OSError: when it cannot be written.
    """
    rows, order_id = in_order(planned.rows, layout.schema, layout.order)
    output = io.new_output(planned.path)
    with (
        output.create(overwrite=True) as stream,
        pq.ParquetWriter(
            stream,
            rows.schema,
            compression="zstd",
            use_dictionary=dictionary_columns(rows),
            store_decimal_as_integer=True,
        ) as writer,
    ):
        writer.write_table(rows)
    schema = layout.schema.select(*rows.column_names)
    try:
        statistics = _statistics(writer.writer.metadata, schema, layout.properties)
    except UnicodeEncodeError:  # PyIceberg increments U+D7FF into surrogates
        uncut = {TableProperties.DEFAULT_WRITE_METRICS_MODE: "full"}
        statistics = _statistics(writer.writer.metadata, schema, uncut)
    statistics["nan_value_counts"] = _nan_counts(rows, schema)
    file = DataFile.from_args(
        _table_format_version=layout.format_version,
        content=DataFileContent.DATA,
        file_path=planned.path,
        file_format=FileFormat.PARQUET,
        partition=planned.partition,
        file_size_in_bytes=len(io.new_input(planned.path)),
        sort_order_id=order_id,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    file.spec_id = planned.spec_id
    return file


def _statistics(
    metadata: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]
) -> dict[str, Any]:
    plan = compute_statistics_plan(schema, dict(properties))
    paths = parquet_path_to_id_mapping(schema)
    return data_file_statistics_from_parquet_metadata(metadata, plan, paths).to_serialized_dict()


# --- Partitions ----------------------------------------------------------------------------------


def _partitions(rows: pa.Table, layout: TailLayout) -> Iterator[tuple[int, Record, pa.Table]]:
    """Yields (spec id, partition, rows) for each partition that the rows fall into."""
    spec = layout.spec
    if not spec.fields:
        yield spec.spec_id, Record(), rows
        return
    parts = _split(rows, layout)
    if parts is None or len(parts) > PARTITIONS_MAX:
        yield layout.unpartitioned.spec_id, Record(), rows
        return
    for partition, places in parts:
        yield spec.spec_id, partition, rows if len(parts) == 1 else rows.take(places)


def _split(rows: pa.Table, layout: TailLayout) -> list[tuple[Record, pa.Array]] | None:
    """Splits rows by partition; None if that cannot be computed or expressed."""
    fields = layout.spec.fields
    if not {field.source_id for field in fields} <= layout.schema.field_ids:
        return None  # a column was dropped, so no field of the spec means anything any more
    if not can_compute([field.transform for field in fields]):
        return None
    try:
        return partitions(rows, layout.schema, fields)
    except ArithmeticError:
        return None


# --- Order ---------------------------------------------------------------------------------------


def in_order(rows: pa.Table, schema: Schema, order: SortOrder) -> tuple[pa.Table, int | None]:
    """Returns rows in a sort order, and the order's id.

    If the order cannot be computed, the rows stay as they are and the id is None.

    Args:
        rows: Rows in the types that files store.
        schema: The table's schema.
        order: The order.
    """
    fields = order.fields
    present = set(rows.column_names)
    sources = {schema.find_column_name(field.source_id) for field in fields}
    if not fields or not can_compute([field.transform for field in fields]):
        return rows, 0 if not fields else None
    if not all(name and name.split(".")[0] in present for name in sources):
        return rows, None
    columns: dict[str, Any] = {}
    keys: list[tuple[str, str]] = []
    try:
        for field in fields:
            _add_sort_keys(columns, keys, _sorted_by(rows, schema, field), field)
    except ArithmeticError:
        return rows, None
    return rows.take(pc.sort_indices(pa.table(columns), sort_keys=keys)), order.order_id


def _sorted_by(rows: pa.Table, schema: Schema, field: SortField) -> Any:
    column = leaf(rows, schema, field.source_id)
    return transformed(column, field.transform, schema.find_type(field.source_id))


def _add_sort_keys(
    columns: dict[str, Any], keys: list[tuple[str, str]], values: Any, field: SortField
) -> None:
    """Adds keys that sort nulls first or last, as the order says, and NaN above every number."""
    direction = "descending" if field.direction == SortDirection.DESC else "ascending"
    first = field.null_order == NullOrder.NULLS_FIRST
    additions = [(pc.is_null(values), "descending" if first else "ascending")]
    if pa.types.is_floating(values.type):
        additions.append((pc.fill_null(pc.is_nan(values), False), direction))
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    for column, ordering in (*additions, (values, direction)):
        name = str(len(columns))
        columns[name] = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        keys.append((name, ordering))


# --- Statistics ----------------------------------------------------------------------------------


def _nan_counts(rows: pa.Table, schema: Schema) -> dict[int, int]:
    """Counts the NaNs of each floating-point column, also in structs, but not in lists and maps."""
    counts = {}
    for name in schema.column_names:
        field = schema.find_field(name)
        if isinstance(field.field_type, FloatType | DoubleType) and not (
            {"element", "key", "value"} & set(name.split(".")[1:])
        ):
            field_id = field.field_id
            nan = pc.sum(pc.is_nan(leaf(rows, schema, field_id))).as_py()
            counts[field_id] = int(nan) if nan and not math.isnan(nan) else 0
    return counts
