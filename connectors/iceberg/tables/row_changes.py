"""Commits changed rows of a plain table: rows added and deleted, or all replaced, in one snapshot.

A row is deleted by its position, in a delete file or a deletion vector; a data file with no rows
left is removed instead. The snapshot lands only if the head of `main` is still the one whose rows
were read, so what a statement read is what it changed. PyIceberg writes neither position deletes
nor format version 3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    PartitionSpec,
    assign_fresh_partition_spec_ids,
)
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.sorting import SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    update_table_metadata,
)

from seamline.connectors.iceberg.boundary_commits import moved_ref
from seamline.connectors.iceberg.errors import commit_errors, manifest_errors
from seamline.connectors.iceberg.partitions import schema_for
from seamline.connectors.iceberg.position_deletes import (
    VECTORS,
    DeletedRows,
    plan_deletes,
    write_deletes,
)
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.row_ids import REFERENCED_FILE, inherit_row_ids
from seamline.connectors.iceberg.snapshots import NewSnapshot
from seamline.connectors.iceberg.tables import commits, writing
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tables.scan import FileTask
from seamline.connectors.iceberg.update_ids import LAST_ADDED, renumbered
from seamline.errors import (
    COMMIT_CONFLICT,
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    SeamlineError,
)
from seamline.seam.files import ScanRequest

_DATA_PATH = "write.data.path"


def require_row_changes(table: IcebergTable) -> None:
    """Requires a table whose rows can be deleted here.

    Raises:
        SeamlineError: NOT_SUPPORTED, PROPERTY_NOT_ALLOWED.
    """
    table.require_own_writer()
    if table.state.format_version < 2:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"table {table.state.display_name} has format version 1, which cannot delete rows",
            hint="ALTER TABLE … SET PROPERTIES format_version = 2; every engine can read that.",
        )


def commit_changes(
    table: IcebergTable,
    rows: Iterable[pa.RecordBatch],
    deleted: Callable[[], Mapping[str, np.ndarray]],
) -> None:
    """Adds and deletes rows of a table as it was loaded, in one commit.

    Args:
        table: The table.
        rows: The rows to add, with the table's columns in order.
        deleted: Returns the positions of the rows to delete, by the paths of their files; called
            once all rows have been taken.

    Raises:
        SeamlineError: COMMIT_CONFLICT if the head of `main` is another snapshot by now,
            STORAGE_UNAVAILABLE, …; whatever the rows raise.
    """
    table.require_own_manifests(table.state.current_snapshot_id)
    with _landing(table) as change:
        change.write(rows)
        change.delete(deleted())
        change.commit()


def commit_append(load: Callable[[], IcebergTable], rows: Iterable[pa.RecordBatch]) -> None:
    """Adds rows to a table in one commit, on top of whatever other commits get in first.

    Args:
        load: Loads the table.
        rows: The rows, with the table's columns in order.

    Raises:
        SeamlineError: as `commit_changes`.
    """
    table = load()
    table.require_own_writer()
    with commit_errors(table.state.display_name):
        files = list(writing.write_files(table.iceberg.metadata, table.iceberg.io, rows))
    layout = layout_of(table)

    def commit() -> None:
        now = load()
        if layout_of(now) != layout:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the columns or partitions of {now.state.display_name} have changed meanwhile",
                hint="Run the statement again.",
            )
        now.require_own_manifests(now.state.current_snapshot_id)
        with _landing(now) as change:
            change.add(files)
            change.commit()

    commits.insist(commit)


def commit_batch(
    table: IcebergTable,
    files: Sequence[DataFile],
    deleted: Mapping[str, np.ndarray],
    summary: Mapping[str, str],
) -> None:
    """Adds files with a batch of rows, and deletes rows, in one commit to a table as it was loaded.

    The snapshot is an overwrite even if it only adds rows, since an append could be cherry-picked
    into the table again.

    Args:
        table: The table.
        files: Data files of its current schema and partition spec, which stay if it fails.
        deleted: The positions of the rows to delete, by the paths of their files.
        summary: Further properties of the snapshot's summary.

    Raises:
        SeamlineError: as `commit_changes`.
    """
    with _landing(table) as change:
        change.add(files)
        change.delete(deleted)
        change.commit(Operation.OVERWRITE, summary)


def layout_of(table: IcebergTable) -> tuple[object, ...]:
    """Returns what determines the files that rows of a table are written to."""
    metadata = table.iceberg.metadata
    return metadata.table_uuid, metadata.current_schema_id, metadata.default_spec_id


def commit_replacement(
    table: IcebergTable,
    schema: Schema,
    rows: Iterable[pa.RecordBatch],
    *,
    spec: PartitionSpec,
    order: SortOrder,
    properties: Mapping[str, str],
) -> None:
    """Replaces a table's columns and all of its rows, in one commit.

    Its history stays, so its snapshots can still be read, with the columns that they had.

    Args:
        table: The table as it was loaded.
        schema: Its new columns, with any ids.
        rows: Its new rows, with these columns in order.
        spec: How it is partitioned, by these ids.
        order: How it is sorted, by these ids.
        properties: The properties it gets.

    Raises:
        SeamlineError: as `commit_changes`.
    """
    metadata = table.iceberg.metadata
    updates = renumbered(_redefining(metadata, schema, spec, order, properties), metadata)
    redefined = update_table_metadata(metadata, updates)
    table.require_own_manifests(table.state.current_snapshot_id)
    with _landing(table, redefined, updates) as change:
        change.write(rows)
        change.drop(task.file for task in change.tasks)
        change.commit()


def _redefining(
    metadata: TableMetadata,
    schema: Schema,
    spec: PartitionSpec,
    order: SortOrder,
    properties: Mapping[str, str],
) -> Iterator[TableUpdate]:
    """Yields the updates that redefine a table; none of its columns keeps its id."""
    ids = itertools.count(metadata.last_column_id + 1)
    fresh = assign_fresh_schema_ids(schema, lambda: next(ids))
    yield AddSchemaUpdate(schema_=fresh)
    yield SetCurrentSchemaUpdate(schema_id=LAST_ADDED)
    first = (metadata.last_partition_id or PARTITION_FIELD_ID_START - 1) + 1
    by_name = assign_fresh_partition_spec_ids(spec, schema, fresh)
    fields = [
        field.model_copy(update={"field_id": first + place})
        for place, field in enumerate(by_name.fields)
    ]
    yield AddPartitionSpecUpdate(spec=PartitionSpec(*fields))
    yield SetDefaultSpecUpdate(spec_id=LAST_ADDED)
    yield AddSortOrderUpdate(
        sort_order=assign_fresh_sort_order_ids(order, schema, fresh, sort_order_id=1)
    )
    yield SetDefaultSortOrderUpdate(sort_order_id=LAST_ADDED)
    gone = [name for name in _OF_COLUMNS if name in metadata.properties and name not in properties]
    if gone:
        yield RemovePropertiesUpdate(removals=gone)
    yield SetPropertiesUpdate(updates=dict(properties))


_OF_COLUMNS = ("comment", TableProperties.DEFAULT_NAME_MAPPING)
"""Properties that refer to the former columns."""


def commit_truncate(table: IcebergTable) -> None:
    """Removes all rows of a table as it was loaded, in one commit.

    Raises:
        SeamlineError: as `commit_changes`.
    """
    with _landing(table) as change:
        change.drop(task.file for task in change.tasks)
        change.commit()


@contextlib.contextmanager
def _landing(
    table: IcebergTable,
    redefined: TableMetadata | None = None,
    updates: Sequence[TableUpdate] = (),
) -> Iterator[_Change]:
    """Yields a change, and removes its files if it certainly does not land."""
    change = _Change(table, redefined or table.iceberg.metadata, updates)
    try:
        with commit_errors(table.state.display_name):
            yield change
    except BaseException as error:
        is_refused = isinstance(error, SeamlineError) and error.code is COMMIT_CONFLICT
        if is_refused or not change.may_have_landed:
            change.remove_files()
        raise


@dataclasses.dataclass(frozen=True, slots=True)
class _Rewritten:
    """A manifest from which some entries are removed."""

    manifest: ManifestFile
    kept: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]


class _Change:
    """One snapshot in the making.

    Args:
        table: The table as it was loaded.
        metadata: Its metadata, or what other updates of the same commit make of it.
        updates: These updates.
    """

    def __init__(
        self, table: IcebergTable, metadata: TableMetadata, updates: Sequence[TableUpdate]
    ) -> None:
        self._table = table
        self._metadata = metadata
        self._updates = updates
        self._io: FileIO = table.iceberg.io
        self._new = NewSnapshot(table.iceberg, metadata)
        self._base = self._new.parent
        self._version = self._metadata.format_version
        self._added: list[DataFile] = []
        self._deletes: list[DataFile] = []
        self._dropped: set[str] = set()
        self._replaced: set[str] = set()
        self.may_have_landed = False

    @property
    def tasks(self) -> list[FileTask]:
        """The files of the table, and their deletes."""
        if self._base is None:
            return []
        everything = Pruner(self._table.iceberg.metadata, AlwaysTrue())
        return self._table.tasks(self._base.snapshot_id, everything)

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Adds rows, in new data files."""
        for file in writing.write_files(self._metadata, self._io, rows):
            self._added.append(file)
            self._new.written.append(file.file_path)

    def add(self, files: Iterable[DataFile]) -> None:
        """Adds data files that already exist."""
        self._added += files

    def drop(self, files: Iterable[DataFile]) -> None:
        """Removes data files."""
        self._dropped.update(file.file_path for file in files)

    def delete(self, deleted: Mapping[str, np.ndarray]) -> None:
        """Deletes rows by their positions in the files of the table."""
        tasks = {t.file.file_path: t for t in self.tasks if t.file.file_path in deleted}
        if len(tasks) != len(deleted):
            raise AssertionError("rows are deleted from files that the table does not have")
        has_vectors = self._version >= VECTORS  # a file has at most one, for all its deletes
        marked = [path for path, task in tasks.items() if task.deletes and has_vectors]
        before = self._deleted_before(marked)
        rows = []
        for path, task in tasks.items():
            gone = np.union1d(deleted[path], before.get(path, _NONE))
            if len(gone) == task.file.record_count:
                self._dropped.add(path)
                continue
            if has_vectors:
                self._replaced.add(path)
            rows.append(DeletedRows(task.file, gone))
        planned = plan_deletes(rows, has_vectors=has_vectors, folder=self._folder())
        self._new.written += [one.path for one in planned]
        self._deletes = write_deletes(self._io, planned)

    def commit(
        self, operation: Operation | None = None, summary: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Commits the snapshot, if there are changes for one, and what comes with it.

        Args:
            operation: What the snapshot says that it does; there is one then, whatever changes.
            summary: Further properties of its summary.
        """
        if operation is None and not (self._added or self._deletes or self._dropped):
            if self._updates:
                self._commit(self._base.snapshot_id if self._base else None, self._updates)
            return
        removed: list[DataFile] = []
        kept: list[ManifestFile] = []
        made: list[ManifestFile] = []
        for manifest in self._table.manifests(self._base.snapshot_id) if self._base else ():
            found = self._rewritten(manifest)
            if found is None:
                kept.append(manifest)
            else:
                removed += [entry.data_file for entry in found.removed]
                made.append(self._new.without(found.manifest, found.kept, found.removed))
        made += self._new.added([*self._added, *self._deletes])
        snapshot = self._new.finish(kept, made, self._summary(removed, operation, summary))
        moved = moved_ref(self._metadata, MAIN_BRANCH, SnapshotRefType.BRANCH, snapshot.snapshot_id)
        updates = (*self._updates, AddSnapshotUpdate(snapshot=snapshot), moved)
        self._commit(snapshot.parent_snapshot_id, updates)

    def _commit(self, base_id: int | None, updates: Sequence[TableUpdate]) -> None:
        metadata = self._table.iceberg.metadata
        requirements = (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=base_id),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        )
        self.may_have_landed = True
        self._table.iceberg.catalog.commit_table(self._table.iceberg, requirements, tuple(updates))

    def remove_files(self) -> None:
        """Removes what was written for a snapshot that did not land, as far as possible."""
        self._new.remove()

    # --- Parts of the snapshot ---------------------------------------------------------------

    def _deleted_before(self, paths: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the positions that the table's own deletes mark in some of its files."""
        if not paths or self._base is None:
            return {}
        request = ScanRequest(self._table.state.current_schema_id, ())
        plan = self._table.plan(self._base.snapshot_id, request)
        changed = frozenset(paths)
        files = tuple(file for file in plan.files if file.path in changed)
        plan = self._table.inspect(dataclasses.replace(plan, files=files))
        deleted = self._table.deleted_rows(plan)
        if deleted is None:
            return {}
        names = deleted.column("path").to_numpy()
        positions = deleted.column("position").to_numpy()
        return {path: np.unique(positions[names == path]) for path in paths}

    def _rewritten(self, manifest: ManifestFile) -> _Rewritten | None:
        """Returns which entries of a manifest are removed; None if none is."""
        is_data = manifest.content == ManifestContent.DATA
        if not (self._dropped if is_data else self._replaced):
            return None
        with manifest_errors("manifest", manifest.manifest_path):
            entries = live_entries(self._io, manifest)
        if is_data:
            inherit_row_ids(entries, manifest)
        removed = tuple(entry for entry in entries if self._is_removed(entry.data_file))
        if not removed:
            return None
        kept = tuple(entry for entry in entries if not self._is_removed(entry.data_file))
        return _Rewritten(manifest, kept, removed)

    def _is_removed(self, file: DataFile) -> bool:
        if file.content == DataFileContent.DATA:
            return file.file_path in self._dropped
        return self._version >= VECTORS and file[REFERENCED_FILE] in self._replaced

    def _summary(
        self,
        removed: Sequence[DataFile],
        operation: Operation | None,
        properties: Mapping[str, str],
    ) -> Summary:
        counted = SnapshotSummaryCollector()
        specs = self._metadata.specs()
        schemas = {spec_id: schema_for(self._metadata, spec) for spec_id, spec in specs.items()}
        for file in (*self._added, *self._deletes):
            counted.add_file(file, schemas[file.spec_id], specs[file.spec_id])
        for file in removed:
            counted.remove_file(file, schemas[file.spec_id], specs[file.spec_id])
        if operation is None:
            operation = self._operation
        before = self._base.summary if self._base is not None else None
        return update_snapshot_summaries(
            Summary(operation, **counted.build(), **properties),
            before.additional_properties if before is not None else None,
        )

    @property
    def _operation(self) -> Operation:
        if not (self._deletes or self._dropped):
            return Operation.APPEND
        return Operation.OVERWRITE if self._added else Operation.DELETE

    def _folder(self) -> str:
        location = self._metadata.location.rstrip("/")
        return self._metadata.properties.get(_DATA_PATH, f"{location}/data").rstrip("/")


_NONE = np.empty(0, np.int64)
