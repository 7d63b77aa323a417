"""Writes rows to plain Iceberg tables through PyIceberg, one commit per statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder

from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.errors import catalog_errors, commit_errors, storage_errors
from seamline.connectors.iceberg.parquet_types import as_stored
from seamline.connectors.iceberg.row_ids import with_fields_of_version_3
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.iceberg.transforms import can_compute
from seamline.connectors.iceberg.type_conversion import table_schema
from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError

_FORMAT = "write.format.default"


def create(
    catalog: IcebergCatalog,
    identifier: tuple[str, ...],
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    spec: PartitionSpec,
    order: SortOrder,
    properties: Mapping[str, str],
) -> None:
    """Creates a table and writes its rows in one commit.

    Args:
        catalog: The catalog.
        identifier: The name of the table.
        schema: Its columns.
        batches: Its rows, with these columns in order.
        spec: Its partitioning.
        order: Its sort order.
        properties: Its properties.

    Raises:
        SeamlineError: TABLE_EXISTS, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE; whatever the batches
            raise.
    """
    with catalog_errors(catalog.name, identifier), storage_errors(f"warehouse of {catalog.name}"):
        catalog.require_namespace(identifier[:-1])
        transaction = catalog.pyiceberg.create_table_transaction(
            identifier,
            schema,
            location=pyiceberg_internals.new_location(catalog.pyiceberg, identifier),
            partition_spec=spec,
            sort_order=order,
            properties=dict(properties),
        )
        _append(transaction, batches)
        transaction.commit_transaction()


def append(table: IcebergTable, batches: Iterable[pa.RecordBatch]) -> None:
    """Adds rows to a table of format version 1 or 2 in one commit.

    Args:
        table: The table.
        batches: The rows, with the table's columns in order.

    Raises:
        SeamlineError: COMMIT_CONFLICT, PROPERTY_NOT_ALLOWED, NOT_SUPPORTED, STORAGE_UNAVAILABLE;
            whatever the batches raise.
    """
    table.require_own_writer()
    table.require_own_manifests(table.state.current_snapshot_id)
    name = table.state.display_name
    with (
        commit_errors(name),
        storage_errors(f"table {name}"),
        table.iceberg.transaction() as transaction,
    ):
        _append(transaction, batches)


def _append(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> None:
    rows = _rows(transaction.table_metadata, batches)
    if not _is_empty(rows):
        transaction.append(rows)


def write_files(
    metadata: TableMetadata, io: FileIO, batches: Iterable[pa.RecordBatch]
) -> Iterator[DataFile]:
    """Writes rows to new data files of a table, which are still to be committed.

    Args:
        metadata: The table's metadata.
        io: Writes the files.
        batches: The rows, with the table's columns in order.

    Raises:
        SeamlineError: NOT_SUPPORTED; whatever the batches raise.
        OSError: when a file cannot be written.
    """
    rows = _rows(metadata, batches)
    if not _is_empty(rows):
        files = pyiceberg_internals.write_files(metadata, rows, io)
        yield from map(with_fields_of_version_3, files)


def _is_empty(rows: pa.Table | pa.RecordBatchReader) -> bool:
    """Whether there are certainly no rows, which PyIceberg cannot partition."""
    return isinstance(rows, pa.Table) and not rows.num_rows


def _rows(
    metadata: TableMetadata, batches: Iterable[pa.RecordBatch]
) -> pa.Table | pa.RecordBatchReader:
    """Returns rows in the types that files store, all at once if they are to be partitioned."""
    format_ = metadata.properties.get(_FORMAT, "parquet")
    if format_.lower() != "parquet":
        raise SeamlineError(NOT_SUPPORTED, f"the table's files are to be {format_} ({_FORMAT})")
    schema = metadata.schema()
    arrow_schema = schema_to_pyarrow(schema, include_field_ids=False)
    converted = (_converted(batch, schema, arrow_schema) for batch in batches)
    if metadata.spec().is_unpartitioned():
        return pa.RecordBatchReader.from_batches(arrow_schema, converted)
    for field in metadata.spec().fields:
        if not can_compute([field.transform]):
            raise SeamlineError(
                NOT_SUPPORTED, f"the transform {field.transform} of partition field {field.name}"
            )
    return pa.Table.from_batches(list(converted), arrow_schema)  # PyIceberg partitions whole tables


def _converted(batch: pa.RecordBatch, schema: Schema, arrow_schema: pa.Schema) -> pa.RecordBatch:
    for column, field in zip(batch.columns, schema.fields, strict=True):
        if field.required and column.null_count:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"column {field.name} is NOT NULL, but a row has no value",
                hint="",
            )
    stored = as_stored(pa.Table.from_batches([batch]), table_schema(schema).columns)
    arrays = []
    for column, own in zip(stored.columns, arrow_schema, strict=True):
        array = pa.concat_arrays(column.chunks)
        arrays.append(array if array.type == own.type else array.cast(own.type))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def _keep_nulls() -> None:
    """Patches PyIceberg to write nulls in lists and maps of structs; it writes empty ones."""
    writer: Any = ArrowProjectionVisitor
    of_list, of_map = writer.list, writer.map

    def kept(array: Any, converted: Any) -> Any:
        if converted is None or not array.null_count:
            return converted
        # unlike if_else, which forgets the ids of a map's fields
        places = pa.array(range(len(converted)), pa.int64())
        return converted.take(pc.if_else(array.is_valid(), places, None))

    writer.list = lambda self, kind, array, *parts: kept(array, of_list(self, kind, array, *parts))
    writer.map = lambda self, kind, array, *parts: kept(array, of_map(self, kind, array, *parts))


_keep_nulls()
