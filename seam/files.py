"""What a scan of a snapshot reads: data files, and the deletes that apply to them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from seamline.sql.predicates import Predicate

POSITION = "file_row_number"
"""DuckDB's name for the position of a row in its file; DuckDB offers no other name for it."""
FILE = "file_index"
"""DuckDB's name for the index of a row's file among the files read together."""
FIELD_ID = b"PARQUET:field_id"
"""The metadata key under which Parquet files keep the ids of their fields."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan requests from a tier: its columns, and the rows it must at least return.

    Attributes:
        schema_id: The version of the table's schema that the names belong to.
        columns: Names of the columns that are used.
        predicate: Rows for which this is not true may be left out.
    """

    schema_id: int
    columns: tuple[str, ...]
    predicate: Predicate | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that lists deleted rows of data files.

    Attributes:
        path: Location.
        content: `position`, `vector` (a Puffin deletion vector) or `equality`.
        size_bytes: Length of the file.
        offset: Start of the blob inside a Puffin file.
        length: Length of that blob.
    """

    path: str
    content: str
    size_bytes: int
    offset: int | None = None
    length: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a scan and the deletes that apply to it."""

    path: str
    format: str
    size_bytes: int
    record_count: int
    deletes: tuple[DeleteFile, ...] = ()
    partition: tuple[tuple[int, Any], ...] = ()
    """Identity-partition values by source field id, for files that do not store the column."""
    physical: pa.Schema | None = dataclasses.field(default=None, compare=False)
    """The file's own schema, with field ids in its metadata, once `inspect` has read it."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Its path, and those of the deletes."""
        return (self.path, *(delete.path for delete in self.deletes))


@dataclasses.dataclass(frozen=True, slots=True)
class ColdPlan:
    """The files a scan of one snapshot must read.

    Attributes:
        snapshot_id: The snapshot; None for a table without one.
        files: The files left after pruning.
        total_files: How many files the snapshot has.
        total_rows: Records in all files of the snapshot, deletes not subtracted.
        unsupported: Why only Spark can read it exactly; None when DuckDB can.
        only_duckdb: Why only DuckDB can read it; None when Spark can.
        wanted: Ids of the requested columns.
    """

    snapshot_id: int | None
    files: tuple[DataFile, ...]
    total_files: int = 0
    total_rows: int = 0
    unsupported: str | None = None
    only_duckdb: str | None = None
    wanted: frozenset[int] = frozenset()

    @property
    def rows(self) -> int:
        """Records in the files to read, deletes not subtracted."""
        return sum(file.record_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


def field_id(field: pa.Field) -> int | None:
    """Returns the Iceberg id of a field of a file; None if it has none."""
    metadata = field.metadata or {}
    return int(metadata[FIELD_ID]) if FIELD_ID in metadata else None
