"""Reads what the files of a plan hold: their own schemas, and the rows deleted from them.

Files are immutable, so a schema is read once per file and cached; equal schemas are cached once.
Columns are marked in it if DuckDB would miss rows of theirs by the bloom filters of the file.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.equality_deletes import (
    EqualityDeletesFinder,
    KeyColumns,
    columns_of,
)
from seamline.connectors.iceberg.pyiceberg_internals import vector_positions
from seamline.errors import COLD_FILE_INVALID, COLD_FILE_MISSING, SeamlineError
from seamline.seam.files import (
    BLOOM_FILTER,
    FIELD_ID,
    FILE,
    POSITION,
    ColdPlan,
    DataFile,
    DeleteFile,
    field_id,
)
from seamline.sql.columns import FILE_FIELDS

SCHEMAS_CACHED_MAX = 100_000
_READERS = 8


class FileReader:
    """Reads footers and delete files of a catalog's tables. Safe to share between threads."""

    def __init__(self) -> None:
        self._by_path: Cache[str, pa.Schema] = Cache(SCHEMAS_CACHED_MAX)
        self._by_text: Cache[str, pa.Schema] = Cache(SCHEMAS_CACHED_MAX)
        self._inspected: Cache[tuple[ColdPlan, str, bool], ColdPlan] = Cache(
            SCHEMAS_CACHED_MAX, weight=lambda plan: 1 + len(plan.files)
        )
        self._kept: Cache[tuple[str, str], bool] = Cache(SCHEMAS_CACHED_MAX)
        self._equality_deletes = EqualityDeletesFinder()
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "seamline-files")

    def inspect(
        self,
        io: FileIO,
        plan: ColdPlan,
        mapping: NameMapping | None = None,
        *,
        by_name: bool = False,
    ) -> ColdPlan:
        """See `ColdTable.inspect`.

        Args:
            io: Opens the files.
            plan: The plan.
            mapping: The table's name mapping, which identifies the columns of files without ids.
            by_name: Whether to ignore ids in the files, because their writer's ids mean nothing.
        """
        if plan.unsupported is not None or not plan.files:
            return plan
        text = "" if mapping is None else mapping.model_dump_json()
        return self._inspected.get_or_make(
            (plan, text, by_name), lambda: self._inspect(io, plan, mapping, text, by_name=by_name)
        )

    def _inspect(
        self, io: FileIO, plan: ColdPlan, mapping: NameMapping | None, text: str, *, by_name: bool
    ) -> ColdPlan:
        schemas = {file.path: self._by_path.get(file.path) for file in plan.files}
        unread = [path for path, schema in schemas.items() if schema is None]
        read = self._pool.map(lambda path: self._read(io, path), unread)
        schemas.update(zip(unread, read, strict=True))
        if mapping is not None:
            schemas = {
                path: self._identified(schema, mapping, text, by_name=by_name)
                for path, schema in schemas.items()
            }
        files = tuple(dataclasses.replace(file, physical=schemas[file.path]) for file in plan.files)
        unsupported = _unsupported(files, plan.wanted) or self._cut_moments(io, plan.wanted, files)
        return dataclasses.replace(plan, files=files, unsupported=unsupported)

    def _cut_moments(
        self, io: FileIO, field_ids: frozenset[int], files: Iterable[DataFile]
    ) -> str | None:
        """Returns what DuckDB would truncate: it silently drops the last digits of nanoseconds."""
        for file in files:
            assert file.physical is not None
            for field in file.physical:
                if field_id(field) in field_ids and not self._is_kept(io, file.path, field):
                    return f"instants in nanoseconds in the column {field.name}"
        return None

    def _is_kept(self, io: FileIO, path: str, field: pa.Field) -> bool:
        if not _holds_fine_instants(field.type):
            return True
        if not pa.types.is_timestamp(field.type):
            return False
        return self._kept.get_or_make((path, field.name), lambda: _is_whole(io, path, field.name))

    def missing(self, io: FileIO, paths: Iterable[str]) -> list[str]:
        """Returns those of the files that do not exist."""
        checked = list(paths)
        there = self._pool.map(lambda path: io.new_input(path).exists(), checked)
        return [path for path, is_there in zip(checked, there, strict=True) if not is_there]

    def deleted_rows(self, io: FileIO, plan: ColdPlan, metadata: TableMetadata) -> pa.Table | None:
        """See `ColdTable.deleted_rows`.

        Args:
            io: Opens the files.
            plan: The plan, inspected.
            metadata: The table's, which says what the columns of keys are.
        """
        targets = {file.path for file in plan.files if file.deletes}
        if not targets and not plan.equality_deletes:
            return None
        position_files = {
            delete.path: delete
            for file in plan.files
            for delete in file.deletes
            if delete.content == "position"
        }
        tables = [
            _only(self._read_positions(io, path), targets, plan, path) for path in position_files
        ]
        for file in plan.files:
            tables += [
                _read_vector(io, file, delete)
                for delete in file.deletes
                if delete.content == "vector"
            ]
        if plan.equality_deletes:
            deleted = self._equality_deletes.find(plan, self._key_columns(io, metadata))
            tables += [_table(path, positions) for path, positions in deleted.items()]
        return pa.concat_tables(tables)

    def _key_columns(self, io: FileIO, metadata: TableMetadata) -> KeyColumns:
        mapping = metadata.name_mapping()
        text = "" if mapping is None else mapping.model_dump_json()

        def schema_of(path: str) -> pa.Schema:
            schema = self._by_path.get(path) or self._read(io, path)
            if mapping is None:
                return schema
            return self._identified(schema, mapping, text, by_name=False)

        columns = columns_of(metadata)
        return KeyColumns(columns, schema_of, lambda path, names: _read_columns(io, path, names))

    def _identified(
        self, schema: pa.Schema | None, mapping: NameMapping, text: str, *, by_name: bool
    ) -> pa.Schema:
        """Returns the schema with a mapping's ids if it has none at all, or if `by_name` is set."""
        assert schema is not None
        if not by_name and has_some_ids(schema):
            return schema
        key = f"{_text_of(schema)}\n{text}"
        return self._by_text.get_or_make(key, lambda: pa.schema(with_ids(schema, mapping.root)))

    def _read(self, io: FileIO, path: str) -> pa.Schema:
        schema = _read_schema(io, path)
        schema = self._by_text.get_or_make(_text_of(schema), lambda: schema)
        self._by_path.put(path, schema)
        return schema

    def _read_positions(self, io: FileIO, path: str) -> pa.Table:
        table = _read_columns(io, path, ["file_path", "pos"])
        return table.rename_columns(["path", "position"]).cast(_DELETES)


_DELETES = pa.schema([("path", pa.string()), ("position", pa.int64())])


def _only(table: pa.Table, targets: Iterable[str], plan: ColdPlan, delete_path: str) -> pa.Table:
    """Keeps the deletes of the data files that a delete file applies to; later ones are not."""
    applies = {
        file.path
        for file in plan.files
        if file.path in targets and any(delete.path == delete_path for delete in file.deletes)
    }
    keep = pa.compute.is_in(table.column("path"), pa.array(sorted(applies), pa.string()))
    return table.filter(keep)


def _read_vector(io: FileIO, file: DataFile, delete: DeleteFile) -> pa.Table:
    assert delete.offset is not None
    assert delete.length is not None
    return _table(file.path, read_vector(io, delete.path, delete.offset, delete.length))


def read_vector(io: FileIO, path: str, offset: int, length: int) -> list[int]:
    """Reads the positions in a deletion vector, which is a blob inside a Puffin file.

    Raises:
        SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
    """
    with file_errors(path), io.new_input(path).open() as stream:
        stream.seek(offset)
        blob = stream.read(length)
    size = int.from_bytes(blob[:4], "big")
    checksum = int.from_bytes(blob[4 + size : 8 + size], "big")
    if zlib.crc32(blob[4 : 4 + size]) != checksum:
        raise SeamlineError(COLD_FILE_INVALID, f"{path}: a deletion vector is damaged")
    return vector_positions(blob)


def _table(path: str, positions: Sequence[int] | np.ndarray) -> pa.Table:
    paths = pa.repeat(pa.scalar(path), len(positions))
    return pa.table([paths, pa.array(positions, pa.int64())], schema=_DELETES)


def _read_columns(io: FileIO, path: str, names: Sequence[str]) -> pa.Table:
    with file_errors(path), io.new_input(path).open() as stream:
        return pq.read_table(stream, columns=list(names), coerce_int96_timestamp_unit="us")


def _read_schema(io: FileIO, path: str) -> pa.Schema:
    with file_errors(path), io.new_input(path).open() as stream, pq.ParquetFile(stream) as file:
        return schema_of(file)


def schema_of(file: pq.ParquetFile) -> pa.Schema:
    """Returns the schema of a file, with marks at columns whose bloom filters mislead DuckDB.

    DuckDB hashes 0.0 where a file holds -0.0, and looks up bytes by another text.
    """
    schema, metadata = file.schema_arrow, file.metadata
    for number, column in enumerate(file.schema):
        name = column.path.partition(".")[0]
        field = schema.field(name)
        if not _is_hashed_otherwise(field.type) or BLOOM_FILTER in (field.metadata or {}):
            continue
        groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
        if any(group.column(number).bloom_filter_offset is not None for group in groups):
            marked = field.with_metadata({**(field.metadata or {}), BLOOM_FILTER: b""})
            schema = schema.set(schema.get_field_index(name), marked)
    return schema


def _is_hashed_otherwise(type_: pa.DataType) -> bool:
    """Whether DuckDB may hash a value of a type, or a part of one, otherwise than files do."""
    return bool(
        pa.types.is_nested(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def _holds_fine_instants(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.unit == "ns" and type_.tz is not None
    return any(_holds_fine_instants(type_.field(i).type) for i in range(type_.num_fields))


def _is_whole(io: FileIO, path: str, column: str) -> bool:
    """Whether no instant of a column needs more precision than microseconds."""
    with file_errors(path), io.new_input(path).open() as stream:
        values = pq.read_table(stream, columns=[column]).column(column)
    try:
        values.cast(pa.timestamp("us", values.type.tz))
    except pa.ArrowInvalid:
        return False
    return True


def _unsupported(files: Iterable[DataFile], field_ids: frozenset[int]) -> str | None:
    """Why DuckDB cannot read the files exactly; None when it can."""
    schemas: dict[int, pa.Schema] = {id(file.physical): file.physical for file in files}
    if not all(_field_has_ids(field) for schema in schemas.values() for field in schema):
        return "data files without field ids"
    needs_places = not field_ids.isdisjoint(_PLACES)
    located = {id(file.physical) for file in files if needs_places or file.has_deletes}
    taken = {name.lower() for one in located for name in schemas[one].names}
    if POSITION in taken:
        return f"row positions in files with a column {POSITION}"
    if needs_places and FILE in taken:
        return f"row positions in files with a column {FILE}"
    return None


_PLACES = frozenset(field.field_id for field in FILE_FIELDS)


def _text_of(schema: pa.Schema) -> str:
    return str(schema.to_string(show_field_metadata=True, show_schema_metadata=False))


def with_ids(fields: Iterable[pa.Field], mapping: Iterable[MappedField]) -> list[pa.Field]:
    """Returns the fields with the ids that a name mapping gives them.

    A field that the mapping does not know gets an id that no column has. Elements of lists, and
    keys and values of maps, have fixed names in a mapping, whatever the file calls them.
    """
    by_name = {name: mapped for mapped in mapping for name in mapped.names}
    return [_with_id(field, by_name.get(field.name, _NOBODY)) for field in fields]


def _with_id(field: pa.Field, mapped: MappedField) -> pa.Field:
    inside = {name: child for child in mapped.fields for name in child.names}
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct(with_ids(type_, mapped.fields))
    elif pa.types.is_map(type_):
        key = _with_id(type_.key_field, inside.get("key", _NOBODY))
        type_ = pa.map_(key, _with_id(type_.item_field, inside.get("value", _NOBODY)))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_with_id(type_.value_field, inside.get("element", _NOBODY)))
    number = _NOBODY.field_id if mapped.field_id is None else mapped.field_id
    marks = {key: b"" for key in field.metadata or {} if key == BLOOM_FILTER}
    return field.with_type(type_).with_metadata({FIELD_ID: str(number), **marks})


_NOBODY = MappedField(**{"field-id": -2, "names": []})
"""Stands for a field that is not a column of the table; no column has its id."""


def has_some_ids(fields: Iterable[pa.Field]) -> bool:
    """Whether any of the fields has an id, or any field inside them."""
    return any(
        field_id(field) is not None
        or has_some_ids(field.type.field(i) for i in range(field.type.num_fields))
        for field in fields
    )


def _field_has_ids(field: pa.Field) -> bool:
    if field_id(field) is None:
        return False
    inside = [field.type.field(i) for i in range(field.type.num_fields)]
    if pa.types.is_map(field.type):
        inside = [field.type.key_field, field.type.item_field]
    if _is_variant(field.type):
        return True
    return all(_field_has_ids(child) for child in inside)


def _is_variant(type_: pa.DataType) -> bool:
    """Whether a type is a variant: to Arrow a struct, whose fields have no ids in Iceberg."""
    if not pa.types.is_struct(type_):
        return False
    inside = {type_.field(i).name: type_.field(i) for i in range(type_.num_fields)}
    return (
        {"metadata"} < inside.keys() <= {"metadata", "value", "typed_value"}
        and pa.types.is_binary(inside["metadata"].type)
        and field_id(inside["metadata"]) is None
    )


@contextlib.contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turns failures of reading one file into named errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise SeamlineError(COLD_FILE_MISSING, f"{path} does not exist") from error
    except pa.ArrowInvalid as error:
        raise SeamlineError(COLD_FILE_INVALID, f"{path}: {error}") from error
