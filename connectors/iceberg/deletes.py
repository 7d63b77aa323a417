"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.transforms import VoidTransform

from seamline.connectors.iceberg.row_ids import CONTENT_OFFSET, CONTENT_SIZE, REFERENCED_FILE
from seamline.errors import COLD_FILE_INVALID, SeamlineError
from seamline.seam.files import DeleteFile


class DeleteIndex:
    """The delete files of a snapshot.

    Args:
        table: The table.
        entries: The entries of its delete manifests.
    """

    def __init__(self, table: Table, entries: Iterable[ManifestEntry]) -> None:
        self._specs = table.metadata.specs()
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
                self._positions.add_delete_file(entry, partition_key=file.partition)

    @property
    def equality_files(self) -> int:
        """How many equality delete files there are."""
        return len(self._equality)

    def files_for(self, entry: ManifestEntry) -> tuple[DataFile, ...]:
        """Returns the delete files that apply to a data file."""
        equality = (d.data_file for d in self._equality if self._is_deleted_by(entry, d))
        return (*self._positional(entry), *equality)

    def for_entry(self, entry: ManifestEntry) -> tuple[DeleteFile, ...]:
        """Returns the same as our own plans hold them, without the equality delete files."""
        return tuple(_delete_file(delete) for delete in self._positional(entry))

    def _positional(self, entry: ManifestEntry) -> list[DataFile]:
        file = entry.data_file
        vector = self._vectors.get(file.file_path)
        if vector is not None:  # a deletion vector replaces every position delete of its file
            return [vector]
        found = self._positions.for_data_file(
            entry.sequence_number or 0, file, partition_key=file.partition
        )
        return sorted(found, key=lambda delete: str(delete.file_path))

    def _is_deleted_by(self, entry: ManifestEntry, delete: ManifestEntry) -> bool:
        """Whether an equality delete applies to a file, which must be older than the delete.

        It applies to the files of its partition, or to all files if it has none.
        """
        if (entry.sequence_number or 0) >= (delete.sequence_number or 0):
            return False
        one, other = entry.data_file, delete.data_file
        fields = self._specs[other.spec_id].fields
        if all(isinstance(field.transform, VoidTransform) for field in fields):
            return True
        return one.spec_id == other.spec_id and one.partition == other.partition


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
