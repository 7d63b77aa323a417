"""From a snapshot to the exact list of files to read: manifests, pruning, deletes.

Manifests are immutable and kept, parsed, by path; a new snapshot reads only its new ones. Pruning
uses PyIceberg's own evaluators for partitions and column statistics, and may keep too many files,
never too few. What DuckDB cannot read exactly (equality deletes, formats other than Parquet,
encryption) is said in the plan, so that the statement goes to Spark.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import datetime
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)
from pyiceberg.manifest import DataFile as PyDataFile
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table import Table as PyTable
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.base import (
    ColdPlan,
    DataFile,
    DeleteFile,
    OffsetRange,
    Offsets,
    ScanRequest,
    TableState,
)
from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.connectors.iceberg.manifests import read_list
from seamline.sql import columns as names
from seamline.sql.errors import (
    COLD_FILE_INVALID,
    COLD_FILE_MISSING,
    SNAPSHOT_GONE,
    SeamlineError,
)
from seamline.sql.predicates import And, Comparison, Or, conjunction

ENTRIES_CACHED_MAX = 200_000
MANIFEST_FIRST_ROW_ID = 15
FILE_FIRST_ROW_ID, REFERENCED_FILE, CONTENT_OFFSET, CONTENT_SIZE = 16, 17, 18, 19
"""Positions of the fields that version 3 adds, which PyIceberg reads but does not name."""
_READ_VERSION = 3
_READERS = 8


class ScanPlanner:
    """Plans scans over any tables of a catalog. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: collections.OrderedDict[str, tuple[ManifestEntry, ...]] = (
            collections.OrderedDict()
        )
        self._entry_count = 0
        self._manifest_lists: collections.OrderedDict[int, tuple[ManifestFile, ...]] = (
            collections.OrderedDict()
        )
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "seamline-manifests")

    def plan(
        self, table: PyTable, state: TableState, snapshot_id: int | None, request: ScanRequest
    ) -> ColdPlan:
        """See `ColdTable.plan`."""
        if snapshot_id is None:
            return ColdPlan(None, ())
        pruner = Pruner(table.metadata, table.io, _filter(state, request))
        entries, index = self._entries_and_deletes(table, snapshot_id, pruner)
        manifests = self._manifests(table, snapshot_id)
        data = [m for m in manifests if m.content == ManifestContent.DATA]
        return ColdPlan(
            snapshot_id=snapshot_id,
            files=tuple(_data_file(table, entry, index) for entry in entries),
            total_files=sum(_count(m.added_files_count, m.existing_files_count) for m in data),
            total_rows=sum(_count(m.added_rows_count, m.existing_rows_count) for m in data),
            unsupported=_unsupported(entries, index),
        )

    def tasks(self, table: PyTable, snapshot_id: int, pruner: Pruner) -> list[FileTask]:
        """The files a scan of a snapshot must read, as Iceberg describes them.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING.
        """
        entries, index = self._entries_and_deletes(table, snapshot_id, pruner)
        return [FileTask(entry.data_file, index.files_for(entry)) for entry in entries]

    def _entries_and_deletes(
        self, table: PyTable, snapshot_id: int, pruner: Pruner
    ) -> tuple[list[ManifestEntry], _DeleteIndex]:
        manifests = self._manifests(table, snapshot_id)
        wanted = [
            m for m in manifests if m.content == ManifestContent.DATA and pruner.keeps_manifest(m)
        ]
        entries = [
            entry
            for manifest_entries in self._read_all(table, wanted)
            for entry in manifest_entries
            if pruner.keeps_file(entry.data_file)
        ]
        deletes = [m for m in manifests if m.content == ManifestContent.DELETES]
        index = _DeleteIndex(
            table,
            (e for found in self._read_all(table, deletes if entries else []) for e in found),
        )
        return entries, index

    def _manifests(self, table: PyTable, snapshot_id: int) -> tuple[ManifestFile, ...]:
        with self._lock:
            known = self._manifest_lists.get(snapshot_id)
        if known is not None:
            return known
        snapshot = table.metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise SeamlineError(
                SNAPSHOT_GONE, f"snapshot {snapshot_id} of {'.'.join(table.name())} is not kept"
            )
        try:
            manifests = read_list(table.io, snapshot.manifest_list)
        except FileNotFoundError as error:
            raise SeamlineError(
                COLD_FILE_MISSING, f"manifest list {snapshot.manifest_list} does not exist"
            ) from error
        with self._lock:
            self._manifest_lists[snapshot_id] = manifests
            while len(self._manifest_lists) > 512:
                self._manifest_lists.popitem(last=False)
        return manifests

    def _read_all(
        self, table: PyTable, manifests: Sequence[ManifestFile]
    ) -> Iterable[tuple[ManifestEntry, ...]]:
        if len(manifests) == 1:
            return [self._read(table, manifests[0])]
        return self._pool.map(lambda manifest: self._read(table, manifest), manifests)

    def _read(self, table: PyTable, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
        with self._lock:
            known = self._entries.get(manifest.manifest_path)
            if known is not None:
                self._entries.move_to_end(manifest.manifest_path)
                return known
        entries = _live_entries(table, manifest)
        with self._lock:
            if manifest.manifest_path not in self._entries:
                self._entries[manifest.manifest_path] = entries
                self._entry_count += len(entries)
            while self._entry_count > ENTRIES_CACHED_MAX and len(self._entries) > 1:
                self._entry_count -= len(self._entries.popitem(last=False)[1])
        return entries


def _live_entries(table: PyTable, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """The entries of a manifest that are not deleted, with the fields of format version 3."""
    try:
        with AvroFile[ManifestEntry](
            table.io.new_input(manifest.manifest_path),
            MANIFEST_ENTRY_SCHEMAS[_READ_VERSION],
            read_types={-1: ManifestEntry, 2: PyDataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader:
            entries = tuple(
                _inherit_from_manifest(entry, manifest)
                for entry in reader
                if entry.status != ManifestEntryStatus.DELETED
            )
    except FileNotFoundError as error:
        raise SeamlineError(
            COLD_FILE_MISSING, f"manifest {manifest.manifest_path} does not exist"
        ) from error
    _inherit_row_ids(entries, manifest)
    return entries


def _inherit_row_ids(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> None:
    """Files without row ids of their own take the next ones of their manifest."""
    row_id = manifest[MANIFEST_FIRST_ROW_ID]
    if row_id is None or manifest.content != ManifestContent.DATA:
        return
    for entry in entries:
        file = entry.data_file
        if file[FILE_FIRST_ROW_ID] is None:
            file[FILE_FIRST_ROW_ID] = row_id
            row_id += file.record_count


def with_first_row_id(file: PyDataFile, row_id: int) -> PyDataFile:
    """The file with its rows numbered from `row_id` on, unless they are numbered already."""
    values = [file[position] for position in range(len(file))]
    values += [None] * (CONTENT_SIZE + 1 - len(values))
    if values[FILE_FIRST_ROW_ID] is None:
        values[FILE_FIRST_ROW_ID] = row_id
    numbered = PyDataFile(*values)
    numbered.spec_id = file.spec_id
    return numbered


def _filter(state: TableState, request: ScanRequest) -> BooleanExpression:
    """The request's predicate, on the columns as they are named now."""
    now = {field.field_id: field for field in state.schema.columns}
    fields = {
        field.name: now[field.field_id]
        for field in state.schemas[request.schema_id].columns
        if field.field_id in now
    }
    return to_iceberg(request.predicate, fields)


@dataclasses.dataclass(frozen=True, slots=True)
class FileTask:
    """A data file to read, and the delete files that apply to it."""

    file: PyDataFile
    deletes: tuple[PyDataFile, ...] = ()


class Pruner:
    """Which manifests and files of one scan may hold rows that a filter keeps.

    Args:
        metadata: The table's; the filter speaks of its current schema.
        io: The table's.
        row_filter: The filter.
        case_sensitive: Whether its names are.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._filter = row_filter
        self._planner = ManifestGroupPlanner(
            table_metadata=metadata, io=io, row_filter=row_filter, case_sensitive=case_sensitive
        )
        self._manifest_evaluators: dict[int, Any] = {}
        self._partition_evaluators: dict[int, Any] = {}
        self._metrics = self._planner._build_metrics_evaluator()  # noqa: SLF001 - PyIceberg's own

    @property
    def _keeps_all(self) -> bool:
        return isinstance(self._filter, AlwaysTrue)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any of its files may."""
        if self._keeps_all:
            return True
        spec_id = manifest.partition_spec_id
        if spec_id not in self._manifest_evaluators:
            self._manifest_evaluators[spec_id] = self._planner._build_manifest_evaluator(spec_id)  # noqa: SLF001
        return bool(self._manifest_evaluators[spec_id](manifest))

    def keeps_file(self, file: PyDataFile) -> bool:
        """Whether the file may."""
        if self._keeps_all:
            return True
        if file.spec_id not in self._partition_evaluators:
            self._partition_evaluators[file.spec_id] = self._planner._build_partition_evaluator(  # noqa: SLF001
                file.spec_id
            )
        return bool(self._partition_evaluators[file.spec_id](file)) and bool(self._metrics(file))


class _DeleteIndex:
    """Which deletes apply to which data file."""

    def __init__(self, table: PyTable, entries: Iterable[ManifestEntry]) -> None:
        self._specs = table.metadata.specs()
        self._positions = DeleteFileIndex()
        self._vectors: dict[str, PyDataFile] = {}
        self._equality: list[ManifestEntry] = []
        for entry in entries:
            file = entry.data_file
            if file.content == DataFileContent.EQUALITY_DELETES:
                self._equality.append(entry)
            elif file.file_format == FileFormat.PUFFIN:
                self._vectors[_referenced_file(file)] = file
            else:
                self._positions.add_delete_file(entry, partition_key=file.partition)

    @property
    def equality_files(self) -> int:
        """How many equality delete files there are."""
        return len(self._equality)

    def files_for(self, entry: ManifestEntry) -> tuple[PyDataFile, ...]:
        """The delete files that apply to a data file."""
        equality = (d.data_file for d in self._equality if self._is_deleted_by(entry, d))
        return (*self._positional(entry), *equality)

    def for_entry(self, entry: ManifestEntry) -> tuple[DeleteFile, ...]:
        """The same as our own plans name them, equality deletes left out."""
        return tuple(_delete_file(delete) for delete in self._positional(entry))

    def _positional(self, entry: ManifestEntry) -> list[PyDataFile]:
        file = entry.data_file
        vector = self._vectors.get(file.file_path)
        if vector is not None:  # a deletion vector replaces every position delete of its file
            return [vector]
        found = self._positions.for_data_file(
            entry.sequence_number or 0, file, partition_key=file.partition
        )
        return sorted(found, key=lambda delete: str(delete.file_path))

    def _is_deleted_by(self, entry: ManifestEntry, delete: ManifestEntry) -> bool:
        """Equality deletes apply to older files of their partition; without one, to all."""
        if (entry.sequence_number or 0) >= (delete.sequence_number or 0):
            return False
        one, other = entry.data_file, delete.data_file
        if not self._specs[other.spec_id].fields:
            return True
        return one.spec_id == other.spec_id and one.partition == other.partition


def _delete_file(delete: PyDataFile) -> DeleteFile:
    if delete.file_format == FileFormat.PUFFIN:
        offset, length = delete[CONTENT_OFFSET], delete[CONTENT_SIZE]
        return DeleteFile(delete.file_path, "vector", delete.file_size_in_bytes, offset, length)
    return DeleteFile(delete.file_path, "position", delete.file_size_in_bytes)


def _referenced_file(vector: PyDataFile) -> str:
    path = vector[REFERENCED_FILE]
    if not path:
        raise SeamlineError(
            COLD_FILE_INVALID, f"deletion vector {vector.file_path} names no data file"
        )
    return str(path)


def _data_file(table: PyTable, entry: ManifestEntry, index: _DeleteIndex) -> DataFile:
    file = entry.data_file
    return DataFile(
        path=file.file_path,
        format=file.file_format.value,
        size_bytes=file.file_size_in_bytes,
        record_count=file.record_count,
        deletes=index.for_entry(entry),
        partition=_identity_values(table, file),
    )


def _identity_values(table: PyTable, file: PyDataFile) -> tuple[tuple[int, Any], ...]:
    spec = table.metadata.specs()[file.spec_id]
    return tuple(
        (field.source_id, file.partition[position])
        for position, field in enumerate(spec.fields)
        if str(field.transform) == "identity"
    )


def _unsupported(entries: Sequence[ManifestEntry], index: _DeleteIndex) -> str | None:
    if not entries:
        return None
    if index.equality_files:
        return f"{index.equality_files} equality delete files"
    for entry in entries:
        file = entry.data_file
        if file.file_format != FileFormat.PARQUET:
            return f"data files in {file.file_format.value}"
        if file.key_metadata:
            return "encrypted data files"
        if any(symbol in file.file_path for symbol in "*?["):
            return "a data file whose path holds a wildcard"
    return None


def _count(*numbers: int | None) -> int:
    return sum(number or 0 for number in numbers)


def first_offsets(
    table: PyTable, snapshot_id: int | None, timestamp_ms: int, ranges: Sequence[OffsetRange]
) -> Offsets:
    """See `ColdTable.offsets_at`."""
    if snapshot_id is None or not ranges:
        return Offsets()
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    wanted = conjunction(
        Comparison(names.TIMESTAMP, ">=", moment), Or(tuple(_lies_in(r) for r in ranges))
    )
    rows = table.scan(
        row_filter=to_iceberg(wanted, {f.name: f for f in names.METADATA_FIELDS}),
        selected_fields=(names.PARTITION, names.OFFSET),
        snapshot_id=snapshot_id,
    ).to_arrow()
    first = rows.group_by(names.PARTITION).aggregate([(names.OFFSET, "min")])
    return Offsets(
        zip(
            first[names.PARTITION].to_pylist(),
            first[f"{names.OFFSET}_min"].to_pylist(),
            strict=True,
        )
    )


def _lies_in(wanted: OffsetRange) -> And:
    return And(
        (
            Comparison(names.PARTITION, "=", wanted.partition),
            Comparison(names.OFFSET, ">=", wanted.start),
            Comparison(names.OFFSET, "<", wanted.end_exclusive),
        )
    )
