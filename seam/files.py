"""What a scan of a snapshot reads: data files, and the deletes that apply to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from seamline.sql.predicates import Predicate

POSITION = "file_row_number"
"""DuckDB's name for the position of a row in its file; DuckDB offers no other name for it."""
FILE = "file_index"
"""DuckDB's name for the index of a row's file among the files read together."""
FIELD_ID = b"PARQUET:field_id"
"""The metadata key under which Parquet files keep the ids of their fields."""
BLOOM_FILTER = b"seamline.bloom-filter"
"""The metadata key that marks fields of files that are not to be looked up in bloom filters."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan requests from a tier: its columns, and the rows it must at least return.

    Attributes:
        schema_id: The version of the table's schema that the names belong to.
        columns: Names of the columns that are used.
        predicate: Rows for which this is not true may be left out.
        is_count: Whether only the number of rows matters, so that a plan that states it needs no
            files.
    """

    schema_id: int
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    is_count: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that lists deleted rows of data files.

    Attributes:
        path: Location.
        content: `position` or `vector` (a Puffin deletion vector).
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
class EqualityDelete:
    """A file of keys: the older rows that have one of them are deleted.

    Attributes:
        path: Location.
        field_ids: The columns that are the key.
        sequence: Files with lower sequence numbers are older.
        scope: The partition spec and partition of the files that it applies to; empty for all.
    """

    path: str
    field_ids: tuple[int, ...]
    sequence: int
    scope: tuple[Any, ...] = ()

    def applies_to(self, file: DataFile) -> bool:
        """Whether rows of a data file may be deleted."""
        return self.sequence > file.sequence and self.scope in ((), file.scope)


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
    sequence: int = 0
    """Its sequence number."""
    scope: tuple[Any, ...] = ()
    """Its partition spec and partition."""
    has_equality_deletes: bool = False
    """Whether any of the plan's equality deletes may apply to it."""
    physical: pa.Schema | None = dataclasses.field(default=None, compare=False)
    """The file's own schema, with field ids in its metadata, once `inspect` has read it."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Its path, and those of its own deletes."""
        return (self.path, *(delete.path for delete in self.deletes))

    @property
    def has_deletes(self) -> bool:
        """Whether any of its rows may be deleted."""
        return bool(self.deletes) or self.has_equality_deletes


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
        equality_deletes: Those that apply to any of the files.
        counted: How many rows the snapshot has, if the metadata states it and nothing else was
            requested; then there are no files.
    """

    snapshot_id: int | None
    files: tuple[DataFile, ...]
    total_files: int = 0
    total_rows: int = 0
    unsupported: str | None = None
    only_duckdb: str | None = None
    wanted: frozenset[int] = frozenset()
    equality_deletes: tuple[EqualityDelete, ...] = ()
    counted: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files and of all deletes."""
        own = [path for file in self.files for path in file.paths]
        return (*own, *(delete.path for delete in self.equality_deletes))

    def deletes_of(self, file: DataFile) -> tuple[DeleteFile | EqualityDelete, ...]:
        """Returns the delete files that apply to one of the files."""
        if not file.has_equality_deletes:
            return file.deletes
        return (*file.deletes, *(d for d in self.equality_deletes if d.applies_to(file)))

    @property
    def rows(self) -> int:
        """Records in the files to read, deletes not subtracted; or the rows that are counted."""
        if self.counted is not None:
            return self.counted
        return sum(file.record_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


def together(
    files: Iterable[DataFile], weight: Callable[[DataFile], int], weight_max: int
) -> Iterator[tuple[DataFile, ...]]:
    """Yields the files, in order, as many together as weigh no more; a heavier one is alone."""
    group, total = list[DataFile](), 0
    for file in files:
        if group and total + weight(file) > weight_max:
            yield tuple(group)
            group, total = [], 0
        group.append(file)
        total += weight(file)
    if group:
        yield tuple(group)


def field_id(field: pa.Field) -> int | None:
    """Returns the Iceberg id of a field of a file; None if it has none."""
    metadata = field.metadata or {}
    return int(metadata[FIELD_ID]) if FIELD_ID in metadata else None
