"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record

from seamline.connectors.iceberg.equality_deletes import (
    EqualityDeletes,
    FileBounds,
    Keys,
    columns_of,
    scope_of,
)
from seamline.connectors.iceberg.row_ids import CONTENT_OFFSET, CONTENT_SIZE, REFERENCED_FILE
from seamline.errors import COLD_FILE_INVALID, SeamlineError
from seamline.seam.files import DeleteFile, EqualityDelete


class DeleteIndex:
    """The delete files of a snapshot."""

    def __init__(self, table: Table, entries: Iterable[ManifestEntry]) -> None:
        self._specs = table.metadata.specs()
        self._columns = columns_of(table.metadata)
        self._positions = DeleteFileIndex()
        self._vectors: dict[str, DataFile] = {}
        self._equality: list[ManifestEntry] = []
        self.unreadable: str | None = None
        """Why DuckDB cannot be given the position deletes; None when it can."""
        for entry in entries:
            file = entry.data_file
            if file.content == DataFileContent.EQUALITY_DELETES:
                self._equality.append(entry)
            elif file.file_format == FileFormat.PUFFIN:
                self._vectors[_referenced_file(file)] = file
            else:
                if file.file_format != FileFormat.PARQUET:
                    self.unreadable = f"position deletes in {file.file_format.value}"
                self._positions.add_delete_file(entry, partition_key=_partition_of(file))

    def equality_deletes(self, entries: Sequence[ManifestEntry]) -> EqualityDeletes:
        """Returns the equality deletes that may apply to any of some data files."""
        known = [Keys.of(delete.data_file, self._columns) for delete in self._equality]
        applied: set[int] = set()
        affected: set[str] = set()
        for entry in entries if known else ():
            bounds = FileBounds(entry.data_file)
            applying = [
                number
                for number, keys in enumerate(known)
                if self._is_deleted_by(entry, self._equality[number]) and keys.may_be_in(bounds)
            ]
            if applying:
                applied.update(applying)
                affected.add(entry.data_file.file_path)
        chosen = [known[number] for number in sorted(applied)]
        return EqualityDeletes(
            tuple(self._equality_delete(self._equality[number]) for number in sorted(applied)),
            frozenset(affected),
            next((keys.problem for keys in chosen if keys.problem is not None), None),
            next((keys.only_here for keys in chosen if keys.only_here is not None), None),
        )

    def _equality_delete(self, entry: ManifestEntry) -> EqualityDelete:
        file = entry.data_file
        return EqualityDelete(
            file.file_path,
            tuple(file.equality_ids or ()),
            entry.sequence_number or 0,
            () if self._is_global(file) else scope_of(file),
        )

    def files_for(self, entry: ManifestEntry) -> tuple[DataFile, ...]:
        """Returns the delete files that apply to a data file."""
        equality = (d.data_file for d in self._equality if self._is_deleted_by(entry, d))
        return (*self._positional(entry), *equality)

    def for_entry(self, entry: ManifestEntry) -> tuple[DeleteFile, ...]:
        """Returns the same as our own plans hold them, without the equality deletes."""
        return tuple(_delete_file(delete) for delete in self._positional(entry))

    def _positional(self, entry: ManifestEntry) -> list[DataFile]:
        if not self._vectors and self._positions.is_empty():
            return []
        file = entry.data_file
        vector = self._vectors.get(file.file_path)
        if vector is not None:  # a deletion vector replaces every position delete of its file
            return [vector]
        found = self._positions.for_data_file(
            entry.sequence_number or 0, file, partition_key=_partition_of(file)
        )
        return sorted(found, key=lambda delete: str(delete.file_path))

    def _is_deleted_by(self, entry: ManifestEntry, delete: ManifestEntry) -> bool:
        """Whether an equality delete applies to a file, which must be older than the delete.

        It applies to the files of its partition, or to all files if it has none.
        """
        if (entry.sequence_number or 0) >= (delete.sequence_number or 0):
            return False
        one, other = entry.data_file, delete.data_file
        return self._is_global(other) or scope_of(one) == scope_of(other)

    def _is_global(self, delete: DataFile) -> bool:
        fields = self._specs[delete.spec_id].fields
        return all(isinstance(field.transform, VoidTransform) for field in fields)


def _partition_of(file: DataFile) -> Record:
    _, *values = scope_of(file)
    return Record(*values)


def _delete_file(delete: DataFile) -> DeleteFile:
    if delete.file_format == FileFormat.PUFFIN:
        offset, length = delete[CONTENT_OFFSET], delete[CONTENT_SIZE]
        return DeleteFile(delete.file_path, "vector", delete.file_size_in_bytes, offset, length)
    return DeleteFile(delete.file_path, "position", delete.file_size_in_bytes)


def _referenced_file(vector: DataFile) -> str:
    path = vector[REFERENCED_FILE]
    if not path:
        raise SeamlineError(
            COLD_FILE_INVALID, f"deletion vector {vector.file_path} names no data file"
        )
    return str(path)
