"""Resolves a snapshot to the exact list of files to read: manifests, pruning, deletes.

Manifests are immutable, so they are cached by path in parsed form; a new snapshot reads only its
new ones. So is a table's metadata, so whole plans are cached, too. Pruning uses PyIceberg's own
evaluators for partitions and column statistics, and may keep too many files, never too few. What
DuckDB cannot read exactly (formats other than Parquet, encryption) is noted in the plan, so that
the statement goes to Spark. Only the table's own files are read or planned.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
from collections.abc import Hashable, Iterable, Iterator, Sequence

from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as PyDataFile
from pyiceberg.manifest import (
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table as PyTable
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.boundaries.column_integers import has_value
from seamline.connectors.iceberg.boundaries.second_writer import filled_since, second_writer
from seamline.connectors.iceberg.deletes import DeleteIndex
from seamline.connectors.iceberg.equality_deletes import EqualityDeletes, scope_of
from seamline.connectors.iceberg.errors import manifest_errors
from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.connectors.iceberg.foreign_metadata import ListingSnapshot, files_of
from seamline.connectors.iceberg.guard import Checks
from seamline.connectors.iceberg.manifest_statistics import ManifestStatistics
from seamline.connectors.iceberg.manifests import list_entry, read_list
from seamline.connectors.iceberg.partition_trust import PartitionTrust, lacks_bounds
from seamline.connectors.iceberg.partitions import identity_values
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.pyiceberg_internals import (
    inheriting_entries,
    live_entries,
    paths_in,
)
from seamline.connectors.iceberg.row_ids import MANIFEST_FIRST_ROW_ID, inherit_row_ids
from seamline.connectors.places import TablePlaces
from seamline.errors import (
    NOT_SUPPORTED,
    SNAPSHOT_GONE,
    SeamlineError,
)
from seamline.seam import table as seam_table
from seamline.seam.boundary import SUMMARY_KEY
from seamline.seam.files import ColdPlan, DataFile, ScanRequest
from seamline.seam.history_checks import require
from seamline.seam.table import TableState
from seamline.sql import types
from seamline.sql.columns import FILE_FIELDS
from seamline.sql.types import Field

ENTRIES_CACHED_MAX = 200_000
LISTS_CACHED_MAX = 512
PLANNED_FILES_MAX = 50_000
"""How many files the cached plans may have together."""
_READERS = 8
_TOTAL_ROWS = "total-records"
"""The property of a snapshot's summary that states the rows in its files."""


class ScanPlanner:
    """Plans scans over any tables of a catalog. Safe to share between threads."""

    def __init__(self) -> None:
        self._entries: Cache[tuple[str, int | None], _Manifest] = Cache(
            ENTRIES_CACHED_MAX, weight=lambda manifest: len(manifest.entries)
        )
        self._lists: Cache[str, tuple[ManifestFile, ...]] = Cache(LISTS_CACHED_MAX)
        self._plans: Cache[tuple[str, int, ScanRequest], ColdPlan] = Cache(
            PLANNED_FILES_MAX, weight=lambda plan: 1 + len(plan.files)
        )
        self._filled_by_us: Cache[tuple[str, str, int], bool] = Cache(LISTS_CACHED_MAX)
        self._checked: Cache[Hashable, seam_table.Snapshot] = Cache(LISTS_CACHED_MAX)
        self._has_values: Cache[tuple[str, int], bool] = Cache(ENTRIES_CACHED_MAX)
        self._misleading: Cache[tuple[str, int], frozenset[int]] = Cache(ENTRIES_CACHED_MAX)
        self._checks = Checks()
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "seamline-manifests")

    def plan(
        self,
        table: PyTable,
        places: TablePlaces,
        state: TableState,
        snapshot_id: int | None,
        request: ScanRequest,
    ) -> ColdPlan:
        """See `ColdTable.plan`."""
        if snapshot_id is None:
            return ColdPlan(None, (), counted=0 if request.is_count else None)
        key = (state.metadata_location, snapshot_id, request)
        found = self._plans.get(key)
        if found is None:
            found = self._planned(table, places, state, snapshot_id, request)
            self._plans.put(key, found)
        elif places.is_local:  # they may have become links since
            places.require(found.paths)
        return found

    def _planned(
        self,
        table: PyTable,
        places: TablePlaces,
        state: TableState,
        snapshot_id: int,
        request: ScanRequest,
    ) -> ColdPlan:
        if request.is_count:
            counted = self._counted(table, places, state, snapshot_id)
            if counted is not None:
                return counted
        pruner = Pruner(table.metadata, _filter(state, request))
        entries, index = self._entries_and_deletes(table, places, snapshot_id, pruner)
        manifests = self.manifests(table, places, snapshot_id)
        data = [m for m in manifests if m.content == ManifestContent.DATA]
        schema = state.schemas[request.schema_id]
        known = (*schema.columns, *FILE_FIELDS)
        columns = [column for column in known if column.name in request.columns]
        equality = index.equality_deletes(entries)
        return ColdPlan(
            snapshot_id=snapshot_id,
            files=tuple(_data_files(table, entries, index, equality)),
            total_files=sum(_count(m.added_files_count, m.existing_files_count) for m in data),
            total_rows=sum(_count(m.added_rows_count, m.existing_rows_count) for m in data),
            unsupported=(_unsupported(entries, index) or equality.problem or _odd_column(columns)),
            wanted=frozenset(column.field_id for column in columns),
            only_duckdb=equality.only_here,
            equality_deletes=equality.files,
        )

    def _counted(
        self, table: PyTable, places: TablePlaces, state: TableState, snapshot_id: int
    ) -> ColdPlan | None:
        """Returns how many rows a snapshot has; None if its metadata does not prove it.

        The manifest list and the snapshot's summary must state the same, and nothing be deleted.
        """
        manifests = self.manifests(table, places, snapshot_id)
        data = [m for m in manifests if m.content == ManifestContent.DATA]
        if any(_live_files(m) != 0 for m in manifests if m.content == ManifestContent.DELETES):
            return None
        rows = [count for m in data for count in (m.added_rows_count, m.existing_rows_count)]
        stated = state.snapshots[snapshot_id].summary.get(_TOTAL_ROWS, "")
        total = _count(*rows)
        if None in rows or stated != str(total):
            return None
        files = sum(_live_files(m) or 0 for m in data)
        return ColdPlan(snapshot_id, (), total_files=files, total_rows=total, counted=total)

    def tasks(
        self,
        table: PyTable,
        places: TablePlaces,
        snapshot_id: int,
        pruner: Pruner,
        besides: Iterable[ManifestEntry] = (),
    ) -> list[FileTask]:
        """Returns the files that a scan of a snapshot must read, as Iceberg describes them.

        Args:
            table: The table.
            places: Where its files may be.
            snapshot_id: The snapshot.
            pruner: Decides which files are left out.
            besides: Deletes that apply in addition to the snapshot's own; a deletion vector
                replaces the snapshot's own one for the same data file.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """
        entries, index = self._entries_and_deletes(table, places, snapshot_id, pruner, besides)
        return [FileTask(entry.data_file, index.files_for(entry)) for entry in entries]

    def require_own_files(
        self, table: PyTable, places: TablePlaces, snapshot_ids: Iterable[int], *, deleted: bool
    ) -> None:
        """Requires all that snapshots name to be the table's own files.

        This is for callers that follow the metadata themselves.

        Args:
            table: The table.
            places: Where its files may be.
            snapshot_ids: The snapshots.
            deleted: Whether to check also what they have deleted, for callers that remove it.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """
        paths = {
            manifest.manifest_path
            for snapshot_id in snapshot_ids
            for manifest in self.manifests(table, places, snapshot_id)
        }

        def look(path: str) -> None:
            with manifest_errors("manifest", path):
                named = functools.partial(paths_in, table.io, path, deleted=deleted)
                self._checks.require(places, (path, deleted), named)

        collections.deque(self._pool.map(look, paths), maxlen=0)

    def require_fit_for_spark(self, table: PyTable, places: TablePlaces, snapshot_id: int) -> None:
        """Requires manifests that Iceberg's Java library reads correctly.

        It assumes that manifests without a manifest list have the first partition spec, and that
        partitions whose bounds a list leaves out have no values.

        Raises:
            SeamlineError: NOT_SUPPORTED; SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """
        is_listed = not isinstance(table.metadata.snapshot_by_id(snapshot_id), ListingSnapshot)
        manifests = self.manifests(table, places, snapshot_id)
        misread = f"Spark misreads snapshot {snapshot_id} of {'.'.join(table.name())}: "
        if not is_listed and any(manifest.partition_spec_id for manifest in manifests):
            misread += "it has no manifest list, but several partition specs"
            raise SeamlineError(NOT_SUPPORTED, misread)
        if any(map(lacks_bounds, manifests)):
            misread += "its manifest list leaves out the bounds of partitions"
            hint = "Read it on DuckDB, or rewrite the table's manifests."
            raise SeamlineError(NOT_SUPPORTED, misread, hint=hint)

    def misleading_columns(
        self, table: PyTable, places: TablePlaces, snapshot_id: int
    ) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        schema = table.metadata.schema()
        trusts = {n: PartitionTrust(spec, schema) for n, spec in table.metadata.specs().items()}
        field_ids: set[int] = set()
        for manifest in self.manifests(table, places, snapshot_id):
            trust = trusts[manifest.partition_spec_id]
            if manifest.content == ManifestContent.DATA and trust.may_mislead(manifest):
                key = (manifest.manifest_path, schema.schema_id)
                of_manifest = functools.partial(self._misleading_in, table, places, manifest, trust)
                field_ids |= self._misleading.get_or_make(key, of_manifest)
        return frozenset(field_ids)

    def _misleading_in(
        self, table: PyTable, places: TablePlaces, manifest: ManifestFile, trust: PartitionTrust
    ) -> frozenset[int]:
        field_ids: set[int] = set()
        for entry in self._read(table, places, manifest).entries:
            column = trust.replaced(entry.data_file)
            if column is not None:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"Spark misreads {entry.data_file.file_path}: its column {column.name} has "
                    "values, but as the value of its partition the manifest says null",
                    hint="Read it on DuckDB, or rewrite the file's rows with SQL.",
                )
            field_ids.update(trust.misleading(entry.data_file))
        return frozenset(field_ids)

    def require_single_writer(
        self, table: PyTable, places: TablePlaces, state: TableState, snapshot_id: int
    ) -> None:
        """Requires that nobody else adds records of the topic to a table that Seamline fills.

        Raises:
            SeamlineError: SECOND_WRITER; COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """
        key = (state.uuid, state.metadata_location, snapshot_id)  # properties tell of writers, too
        if self._filled_by_us.get(key):
            return
        mapping = table.metadata.name_mapping()

        def has_values(manifest: ManifestFile, column: int) -> bool:
            return any(
                has_value(table.io, entry.data_file, column, mapping)
                for entry in self._read(table, places, manifest).entries
                if entry.status == ManifestEntryStatus.ADDED
            )

        def added(snapshot_id: int, column: int) -> bool:
            return any(
                self._has_values.get_or_make(
                    (manifest.manifest_path, column),
                    functools.partial(has_values, manifest, column),
                )
                for manifest in self._added(table, places, snapshot_id)
            )

        since = state.name, state.uuid, filled_since(state, snapshot_id)
        require(second_writer(state, snapshot_id, added, self._checked.get(since)))
        self._filled_by_us.put(key, True)
        if since[-1] is not None and SUMMARY_KEY in state.snapshots[snapshot_id].summary:
            self._checked.put(since, state.snapshots[snapshot_id])

    def _added(
        self, table: PyTable, places: TablePlaces, snapshot_id: int
    ) -> Iterator[ManifestFile]:
        """Yields the manifests of files that a snapshot has added, without those it merged."""
        for manifest in self.manifests(table, places, snapshot_id):
            if (
                manifest.content == ManifestContent.DATA
                and manifest.added_snapshot_id == snapshot_id
            ):
                yield manifest

    def _entries_and_deletes(
        self,
        table: PyTable,
        places: TablePlaces,
        snapshot_id: int,
        pruner: Pruner,
        besides: Iterable[ManifestEntry] = (),
    ) -> tuple[list[ManifestEntry], DeleteIndex]:
        manifests = self.manifests(table, places, snapshot_id)
        wanted = [
            m for m in manifests if m.content == ManifestContent.DATA and pruner.keeps_manifest(m)
        ]
        checked = {m.manifest_path for m in wanted if self._checks.are_done(places, _live(m))}
        entries: list[ManifestEntry] = []
        earlier: list[ManifestEntry] = []
        for listed, manifest in zip(wanted, self._read_all(table, places, wanted), strict=True):
            kept = pruner.kept(manifest.files, manifest.statistics)
            entries += [manifest.entries[number] for number in kept]
            if listed.manifest_path in checked:
                earlier += [manifest.entries[number] for number in kept]
        deletes = [m for m in manifests if m.content == ManifestContent.DELETES]
        found = self._read_all(table, places, deletes if entries else [])
        removing = [entry for manifest in found for entry in manifest.entries]
        if places.is_local:  # they may have become links since they were checked
            places.require(entry.data_file.file_path for entry in (*earlier, *removing))
        return entries, DeleteIndex(table, [*removing, *besides])

    def manifests(
        self, table: PyTable, places: TablePlaces, snapshot_id: int
    ) -> tuple[ManifestFile, ...]:
        """Returns the manifests of a snapshot.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """
        newest_first = reversed(table.metadata.snapshots)  # mostly one of the last is read
        snapshot = next((s for s in newest_first if s.snapshot_id == snapshot_id), None)
        if snapshot is None:
            raise SeamlineError(
                SNAPSHOT_GONE,
                f"snapshot {snapshot_id} of {'.'.join(table.name())} is no longer kept",
            )
        # cached by path, since a copied table has the snapshot ids of its original
        path = "\n".join(files_of(snapshot))
        with manifest_errors("manifest list", path):
            found = self._lists.get_or_make(path, lambda: _list_of(table.io, snapshot))
        self._checks.require(places, path, lambda: (manifest.manifest_path for manifest in found))
        return found

    def every_entry(
        self, table: PyTable, places: TablePlaces, snapshot_id: int
    ) -> list[ManifestEntry]:
        """Returns the entries of a snapshot's manifests, also of files that were deleted.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED.
        """

        def read(manifest: ManifestFile) -> list[ManifestEntry]:
            with manifest_errors("manifest", manifest.manifest_path):
                found = list(inheriting_entries(table.io, manifest))
            places.require(entry.data_file.file_path for entry in found)
            return found

        manifests = self.manifests(table, places, snapshot_id)
        return [entry for found in self._pool.map(read, manifests) for entry in found]

    def _read_all(
        self, table: PyTable, places: TablePlaces, manifests: Sequence[ManifestFile]
    ) -> Iterable[_Manifest]:
        if len(manifests) == 1:
            return [self._read(table, places, manifests[0])]
        return self._pool.map(lambda manifest: self._read(table, places, manifest), manifests)

    def _read(self, table: PyTable, places: TablePlaces, manifest: ManifestFile) -> _Manifest:
        path = manifest.manifest_path
        # after an upgrade to version 3, a list gives row ids to manifests that had none
        key = (path, manifest[MANIFEST_FIRST_ROW_ID])
        found = self._entries.get_or_make(key, lambda: _live_entries(table, manifest))
        named = (file.file_path for file in found.files)
        self._checks.require(places, _live(manifest), lambda: named)
        return found


def _list_of(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    paths = files_of(snapshot)
    if isinstance(snapshot, ListingSnapshot):
        return tuple(list_entry(io, path, snapshot.snapshot_id) for path in paths)
    return read_list(io, *paths)


def _live(manifest: ManifestFile) -> tuple[str, bool]:
    """Returns what identifies the files of a manifest that are not deleted, for checks."""
    return manifest.manifest_path, False


class _Manifest:
    """The entries of a manifest that are not deleted, their files and the statistics of these."""

    def __init__(self, entries: tuple[ManifestEntry, ...]) -> None:
        self.entries = entries
        self.files = [entry.data_file for entry in entries]
        self.statistics = ManifestStatistics(self.files)


def _live_entries(table: PyTable, manifest: ManifestFile) -> _Manifest:
    """Returns the entries of a manifest that are not deleted, with format version 3's fields."""
    with manifest_errors("manifest", manifest.manifest_path):
        entries = live_entries(table.io, manifest)
    inherit_row_ids(entries, manifest)
    return _Manifest(entries)


def _filter(state: TableState, request: ScanRequest) -> BooleanExpression:
    """Translates the request's predicate to the columns as they are now."""
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


def _data_files(
    table: PyTable, entries: Iterable[ManifestEntry], index: DeleteIndex, equality: EqualityDeletes
) -> Iterator[DataFile]:
    specs = table.metadata.specs()
    has_identity = {
        number: any(isinstance(field.transform, IdentityTransform) for field in spec.fields)
        for number, spec in specs.items()
    }
    for entry in entries:
        file = entry.data_file
        yield DataFile(
            path=file.file_path,
            format=file.file_format.value,
            size_bytes=file.file_size_in_bytes,
            record_count=file.record_count,
            deletes=index.for_entry(entry),
            partition=identity_values(table, file) if has_identity[file.spec_id] else (),
            sequence=entry.sequence_number or 0,
            scope=scope_of(file),
            has_equality_deletes=file.file_path in equality.affected,
        )


def _unsupported(entries: Sequence[ManifestEntry], index: DeleteIndex) -> str | None:
    if not entries:
        return None
    if index.unreadable:
        return index.unreadable
    for entry in entries:
        file = entry.data_file
        if file.file_format != FileFormat.PARQUET:
            return f"data files in {file.file_format.value}"
        if file.key_metadata:
            return "encrypted data files"
        if is_no_pattern(file.file_path):
            return NO_PATTERN
    return None


NO_PATTERN = "a data file whose path holds a wildcard and a backslash"


def is_no_pattern(path: str) -> bool:
    """Whether no glob pattern of DuckDB's matches just this path: none can hold a backslash."""
    return "\\" in path and any(symbol in path for symbol in "*?[")


def _odd_column(columns: Iterable[Field]) -> str | None:
    names = [column.name for column in columns if types.holds_variant(column.type)]
    return f"the column {names[0]} of type variant" if names else None


def _count(*numbers: int | None) -> int:
    return sum(number or 0 for number in numbers)


def _live_files(manifest: ManifestFile) -> int | None:
    """Returns how many files of a manifest are not deleted; None if its list does not say."""
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return None if None in counts else _count(*counts)
