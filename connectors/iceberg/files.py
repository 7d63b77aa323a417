"""What the files of a plan hold: their own schemas, and the rows deleted from them.

Files are immutable, so a schema is read once per file and kept; equal schemas are kept once.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.pyiceberg_internals import vector_positions
from seamline.errors import COLD_FILE_INVALID, COLD_FILE_MISSING, SeamlineError
from seamline.seam.files import ColdPlan, DataFile, DeleteFile

SCHEMAS_CACHED_MAX = 100_000
_READERS = 8
_FIELD_ID = b"PARQUET:field_id"
POSITION = "file_row_number"
"""DuckDB's name for the position of a row in its file; it has no other for it."""


class FileReader:
    """Reads footers and delete files of a catalog's tables. Safe to share between threads."""

    def __init__(self) -> None:
        self._by_path: Cache[str, pa.Schema] = Cache(SCHEMAS_CACHED_MAX)
        self._by_text: Cache[str, pa.Schema] = Cache(SCHEMAS_CACHED_MAX)
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "seamline-files")

    def inspect(self, io: FileIO, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        if plan.unsupported is not None or not plan.files:
            return plan
        schemas = self._pool.map(lambda file: self._schema(io, file.path), plan.files)
        files = tuple(
            dataclasses.replace(file, physical=schema)
            for file, schema in zip(plan.files, schemas, strict=True)
        )
        return dataclasses.replace(plan, files=files, unsupported=_unsupported(files))

    def deleted_rows(self, io: FileIO, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        wanted = {file.path for file in plan.files if file.deletes}
        if not wanted:
            return None
        position_files = {
            delete.path: delete
            for file in plan.files
            for delete in file.deletes
            if delete.content == "position"
        }
        tables = [
            _only(self._read_positions(io, path), wanted, plan, path) for path in position_files
        ]
        for file in plan.files:
            tables += [
                _read_vector(io, file, delete)
                for delete in file.deletes
                if delete.content == "vector"
            ]
        return pa.concat_tables(tables)

    def _schema(self, io: FileIO, path: str) -> pa.Schema:
        def read() -> pa.Schema:
            schema = _read_schema(io, path)
            text = schema.to_string(show_field_metadata=True, show_schema_metadata=False)
            return self._by_text.get_or_make(text, lambda: schema)

        return self._by_path.get_or_make(path, read)

    def _read_positions(self, io: FileIO, path: str) -> pa.Table:
        with _file_errors(path), io.new_input(path).open() as stream:
            table = pq.read_table(stream, columns=["file_path", "pos"])
        return table.rename_columns(["path", "position"]).cast(_DELETES)


_DELETES = pa.schema([("path", pa.string()), ("position", pa.int64())])


def _only(table: pa.Table, wanted: Iterable[str], plan: ColdPlan, delete_path: str) -> pa.Table:
    """The deletes of a file for the data files it applies to, which later ones are not."""
    applies = {
        file.path
        for file in plan.files
        if file.path in wanted and any(delete.path == delete_path for delete in file.deletes)
    }
    keep = pa.compute.is_in(table.column("path"), pa.array(sorted(applies), pa.string()))
    return table.filter(keep)


def _read_vector(io: FileIO, file: DataFile, delete: DeleteFile) -> pa.Table:
    """The positions of a deletion vector: a blob inside a Puffin file."""
    assert delete.offset is not None
    assert delete.length is not None
    with _file_errors(delete.path), io.new_input(delete.path).open() as stream:
        stream.seek(delete.offset)
        blob = stream.read(delete.length)
    size = int.from_bytes(blob[:4], "big")
    checksum = int.from_bytes(blob[4 + size : 8 + size], "big")
    if zlib.crc32(blob[4 : 4 + size]) != checksum:
        raise SeamlineError(COLD_FILE_INVALID, f"{delete.path}: a deletion vector is damaged")
    positions = vector_positions(blob)
    return pa.table({"path": [file.path] * len(positions), "position": positions}, schema=_DELETES)


def _read_schema(io: FileIO, path: str) -> pa.Schema:
    with _file_errors(path), io.new_input(path).open() as stream:
        return pq.read_schema(stream)


def _unsupported(files: Iterable[DataFile]) -> str | None:
    """Why DuckDB cannot read the files exactly; None when it can."""
    for file in files:
        assert file.physical is not None
        if not _has_ids(file):
            return "data files without field ids"
        if file.deletes and POSITION in map(str.lower, file.physical.names):
            return f"deletes from files with a column {POSITION}"
    return None


def _has_ids(file: DataFile) -> bool:
    assert file.physical is not None
    return all(_field_has_ids(field) for field in file.physical)


def _field_has_ids(field: pa.Field) -> bool:
    if field_id(field) is None:
        return False
    inside = [field.type.field(i) for i in range(field.type.num_fields)]
    if pa.types.is_map(field.type):
        inside = [field.type.key_field, field.type.item_field]
    return all(_field_has_ids(child) for child in inside)


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    """Turns failures of reading one file into named errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise SeamlineError(COLD_FILE_MISSING, f"{path} does not exist") from error
    except pa.ArrowInvalid as error:
        raise SeamlineError(COLD_FILE_INVALID, f"{path}: {error}") from error


def field_id(field: pa.Field) -> int | None:
    """Iceberg's id of a field of a file, None when it has none."""
    metadata = field.metadata or {}
    return int(metadata[_FIELD_ID]) if _FIELD_ID in metadata else None
