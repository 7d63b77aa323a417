"""Reads integers out of data files, by the ids of their columns: Parquet, ORC and Avro.

This is for what manifests do not say. Their counts and bounds are optional: writers leave them out
for Avro, for columns after the first hundred, and wherever a table's properties tell them to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.name_mapping import NameMapping

from seamline.connectors.iceberg.errors import storage_errors
from seamline.connectors.iceberg.file_contents import file_errors, has_some_ids, with_ids
from seamline.errors import COLD_FILE_INVALID, NOT_SUPPORTED, SeamlineError
from seamline.seam.files import field_id

_ORC_ID = b"iceberg.id"
Path = tuple[str, ...]


def has_value(io: FileIO, file: DataFile, column: int, mapping: NameMapping | None) -> bool:
    """Whether a column of integers is not null in some row of a file.

    Args:
        io: Opens the file.
        file: The file.
        column: Field id of the column.
        mapping: As in `column_values`.

    Raises:
        SeamlineError: as `column_values`.
    """
    if not file.record_count:
        return False
    nulls = (file.null_value_counts or {}).get(column)
    if nulls is not None:
        return bool(nulls < file.record_count)
    if column in (file.lower_bounds or {}):
        return True
    (values,) = column_values(io, file, {"values": column}, mapping).columns
    return bool(values.null_count < len(values))


def column_values(
    io: FileIO, file: DataFile, columns: Mapping[str, int], mapping: NameMapping | None
) -> pa.Table:
    """Reads columns of a file, found by field id, as 64-bit integers; nulls if it lacks one.

    Args:
        io: Opens the file.
        file: The file.
        columns: The field ids, by the columns' names in the result.
        mapping: The table's name mapping, which identifies the columns of files without ids.

    Raises:
        SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE, NOT_SUPPORTED for
            files whose format is not known, or whose columns nothing identifies.
    """
    read = _READ.get(file.file_format)
    path = file.file_path
    if read is None:
        raise SeamlineError(
            NOT_SUPPORTED, f"offsets cannot be read from {path}, which is {file.file_format.value}"
        )
    with storage_errors(path), file_errors(path), io.new_input(path).open() as stream:
        return read(stream, path, columns, mapping)


def _parquet(
    stream: Any, path: str, columns: Mapping[str, int], mapping: NameMapping | None
) -> pa.Table:
    parquet = pq.ParquetFile(stream)
    paths = _identified(list(parquet.schema_arrow), path, mapping)
    leaves = {paths[c] for c in columns.values() if c in paths}
    table = parquet.read(columns=[".".join(p) for p in leaves])
    return _chosen(table, parquet.metadata.num_rows, columns, paths)


def _orc(
    stream: Any, path: str, columns: Mapping[str, int], mapping: NameMapping | None
) -> pa.Table:
    from pyarrow import orc  # few tables have such files

    file = orc.ORCFile(stream)
    paths = _identified([_with_parquet_id(field) for field in file.schema], path, mapping)
    roots = {paths[c][0] for c in columns.values() if c in paths}
    return _chosen(file.read(columns=sorted(roots)), file.nrows, columns, paths)


def _avro(
    stream: Any, path: str, columns: Mapping[str, int], mapping: NameMapping | None
) -> pa.Table:
    import fastavro  # few tables have such files

    try:
        rows = fastavro.reader(stream)
        schema: Any = rows.writer_schema
        fields = [_avro_field(field) for field in schema["fields"]]
        paths = _identified(fields, path, mapping)
        cells = [[_within(row, paths.get(c, ())) for c in columns.values()] for row in rows]
    except (ValueError, KeyError, TypeError, EOFError, IndexError) as error:
        raise SeamlineError(COLD_FILE_INVALID, f"{path}: {error!r}") from error
    return pa.table(
        {
            name: pa.array([row[index] for row in cells], pa.int64())
            for index, name in enumerate(columns)
        }
    )


_READ = {FileFormat.PARQUET: _parquet, FileFormat.ORC: _orc, FileFormat.AVRO: _avro}


def _identified(
    fields: Sequence[pa.Field], path: str, mapping: NameMapping | None
) -> Mapping[int, Path]:
    """Returns the path of each field, also inside rows, by its id."""
    if not has_some_ids(fields):
        if mapping is None:
            raise SeamlineError(
                NOT_SUPPORTED, f"offsets cannot be read from {path}: its fields have no ids"
            )
        fields = with_ids(fields, mapping.root)
    return {number: p for p, number in _leaves(fields, ()) if number is not None}


def _leaves(fields: Iterable[pa.Field], above: Path) -> list[tuple[Path, int | None]]:
    """Returns the paths and ids of all fields, including those inside rows."""
    leaves = []
    for field in fields:
        path = (*above, field.name)
        leaves.append((path, field_id(field)))
        if pa.types.is_struct(field.type):
            leaves += _leaves(field.type.fields, path)
    return leaves


def _chosen(
    table: pa.Table, rows: int, columns: Mapping[str, int], paths: Mapping[int, Path]
) -> pa.Table:
    return pa.table(
        {
            name: _leaf(table, paths[column]).cast(pa.int64())
            if column in paths
            else pa.nulls(rows, pa.int64())
            for name, column in columns.items()
        }
    )


def _leaf(table: pa.Table, path: Path) -> pa.ChunkedArray:
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _identified_field(name: str, type_: pa.DataType, number: object) -> pa.Field:
    metadata = {} if number is None else {b"PARQUET:field_id": str(number).encode()}
    return pa.field(name, type_, metadata=metadata)


def _with_parquet_id(field: pa.Field) -> pa.Field:
    """A field of an ORC file, its id where Parquet has it."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_with_parquet_id(inner) for inner in type_.fields])
    number = (field.metadata or {}).get(_ORC_ID)
    return _identified_field(field.name, type_, None if number is None else number.decode())


def _avro_field(field: Mapping[str, Any]) -> pa.Field:
    """A field of an Avro schema, its id where Parquet has it; only rows have a type."""
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    rows = [t for t in types if isinstance(t, dict) and t.get("type") == "record"]
    type_ = pa.struct([_avro_field(inner) for inner in rows[0]["fields"]]) if rows else pa.int64()
    return _identified_field(field["name"], type_, field.get("field-id"))


def _within(row: Any, path: Path) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row if path else None
