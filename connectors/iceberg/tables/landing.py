"""Lands a batch on the table as it is by then, without writing the batch's files again.

Spark writes a batch to a branch that begins at the snapshot the batch was made for. If `main` is
still there, it moves to the branch. If others have committed meanwhile, the batch becomes a
snapshot on top of theirs, made of the files that Spark has written, provided that the outcome is
the same as if the batch had only been written now. It may not be the same, so the batch has to
start again, if

- the boundary has moved, or the columns have changed (`overtaken`);
- a data file is gone in which the batch deletes rows: these rows are in another file now;
- others have added rows that may have keys of the batch, or that may be newer versions of rows
  which the batch deletes.

What others have deleted stays deleted, and may be deleted twice. A data file has only one deletion
vector, so theirs and ours are united.

The snapshot on the branch is removed in the same commit. Otherwise its expiry would delete the
files that it has added, as it is not an ancestor of `main`.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
)
from pyiceberg.types import NestedField

from seamline.connectors.iceberg.boundary_commits import moved_ref
from seamline.connectors.iceberg.equality_deletes import FileBounds
from seamline.connectors.iceberg.errors import manifest_errors, storage_errors
from seamline.connectors.iceberg.file_contents import read_vector
from seamline.connectors.iceberg.position_deletes import (
    PATH_ID,
    VECTORS,
    DeletedRows,
    plan_deletes,
    write_deletes,
)
from seamline.connectors.iceberg.pyiceberg_internals import inheriting_entries, live_entries
from seamline.connectors.iceberg.row_ids import CONTENT_OFFSET, CONTENT_SIZE, REFERENCED_FILE
from seamline.connectors.iceberg.snapshots import NewSnapshot
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.seam.boundary import REWRITE
from seamline.seam.tiering import Batch, overtaken, since

_VERSION_MIN = 2
_ROUNDS = 5


class Landing:
    """The landing of a batch that has been written to a branch; tried as often as need be.

    Args:
        load: Loads the table.
        branch: A branch of one snapshot on top of the batch's own.
        batch: The batch.
    """

    def __init__(self, load: Callable[[], IcebergTable], branch: str, batch: Batch) -> None:
        self._load = load
        self._branch = branch
        self._batch = batch
        self._known: dict[int, _Changes] = {}

    def attempt(self) -> SeamlineError | None:
        """Tries to land the batch, once.

        Returns:
            Why the batch has to start again; None once it has landed.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another commit got in first, and this may be tried
                again; COLD_FILE_MISSING, STORAGE_UNAVAILABLE, CATALOG_UNAVAILABLE, ….
        """
        for _ in range(_ROUNDS):
            table = self._load()
            state = table.state
            if self._branch not in state.refs:
                return _conflict(table, "the branch of a batch is gone")
            if state.current_snapshot_id == self._batch.snapshot_id:
                commits.adopt_branch(table, self._branch, self._batch.snapshot_id)
                return None
            error = overtaken(state, self._batch)
            if error is not None:
                return error
            if not self._learn(table):
                break
        return self._commit(table)

    def _learn(self, table: IcebergTable) -> bool:
        """Reads what snapshots have changed; returns whether that took so long as to look again.

        Only what has been read before can be committed on in time if others never pause.
        """
        line = since(table.state, self._batch.snapshot_id) or ()
        ids = [table.state.refs[self._branch].snapshot_id, *(s.snapshot_id for s in line)]
        unknown = [one for one in ids if one not in self._known]
        with storage_errors(f"table {table.state.display_name}"):
            self._known |= {one: _changes(table, one) for one in unknown}
        return len(unknown) > 1

    def _commit(self, table: IcebergTable) -> SeamlineError | None:
        table.require_own_writer()
        line = since(table.state, self._batch.snapshot_id) or ()
        ours = self._known[table.state.refs[self._branch].snapshot_id]
        theirs = [self._known[snapshot.snapshot_id] for snapshot in line]
        problem = _problem(table, ours, theirs, has_keys=self._batch.binding.is_upsert)
        if problem is not None:
            return _conflict(table, problem)
        with storage_errors(f"table {table.state.display_name}"):
            _Attempt(table, self._branch, ours, theirs).commit()
        return None


def _conflict(table: IcebergTable, why: str) -> SeamlineError:
    return SeamlineError(COMMIT_CONFLICT, f"table {table.state.display_name}: {why}")


# --- What a snapshot has changed -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Changes:
    """The files that a snapshot has added to the table and removed from it."""

    snapshot_id: int
    is_rewrite: bool
    data: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    removed_data: tuple[DataFile, ...]
    removed_deletes: tuple[DataFile, ...]


def _changes(table: IcebergTable, snapshot_id: int) -> _Changes:
    files: dict[tuple[ManifestEntryStatus, bool], list[DataFile]] = {}
    for manifest in table.manifests(snapshot_id):
        if manifest.added_snapshot_id != snapshot_id:
            continue
        with manifest_errors("manifest", manifest.manifest_path):
            for entry in inheriting_entries(table.iceberg.io, manifest):
                if entry.snapshot_id == snapshot_id:
                    is_data = entry.data_file.content == DataFileContent.DATA
                    files.setdefault((entry.status, is_data), []).append(entry.data_file)
    added, deleted = ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED
    return _Changes(
        snapshot_id,
        table.state.snapshots[snapshot_id].operation == REWRITE,
        tuple(files.get((added, True), ())),
        tuple(files.get((added, False), ())),
        tuple(files.get((deleted, True), ())),
        tuple(files.get((deleted, False), ())),
    )


def _name(file: DataFile) -> tuple[str, str | None]:
    """Returns what identifies a file; the vectors of several data files share one Puffin file."""
    return file.file_path, file[REFERENCED_FILE]


def _is_vector(delete: DataFile) -> bool:
    return bool(delete.file_format == FileFormat.PUFFIN)


def _may_delete_from(delete: DataFile, paths: set[str]) -> bool:
    """Whether a delete file may delete rows of one of some data files."""
    if delete.content == DataFileContent.EQUALITY_DELETES:
        return bool(paths)
    referenced = delete[REFERENCED_FILE]
    if referenced is not None:
        return referenced in paths
    lower = (delete.lower_bounds or {}).get(PATH_ID)
    upper = (delete.upper_bounds or {}).get(PATH_ID)
    return any(
        (lower is None or lower <= path.encode()) and (upper is None or path.encode() <= upper)
        for path in paths
    )


# --- Whether they go together --------------------------------------------------------------------


def _problem(
    table: IcebergTable, ours: _Changes, theirs: Sequence[_Changes], *, has_keys: bool
) -> str | None:
    """Returns why a batch's files cannot be added to what others have made of the table."""
    metadata = table.iceberg.metadata
    if metadata.format_version < _VERSION_MIN:
        return "others have committed while a batch was written"
    if not has_keys and not ours.deletes and not ours.removed_data:
        return None  # it only adds rows, whatever others have done with theirs
    if ours.removed_data:
        return "others have committed while a batch rewrote files"
    if metadata.format_version >= VECTORS and not all(map(_is_vector, ours.deletes)):
        return "it was upgraded while a batch was written"
    gone = {file.file_path for change in theirs for file in change.removed_data}
    if any(_may_delete_from(delete, gone) for delete in ours.deletes):
        return "files were rewritten in which a batch deletes rows"
    keys = _key_columns(table)
    for change in theirs:
        if change.is_rewrite or not change.data:
            continue
        if any(_is_shared(delete, ours.deletes) for delete in change.deletes):
            return "rows were changed that a batch may delete"
        if any(_may_share_keys(one, other, keys) for one in change.data for other in ours.data):
            return "rows were added that may have the keys of a batch"
    return None


def _is_shared(delete: DataFile, ours: Iterable[DataFile]) -> bool:
    """Whether a delete file may delete rows from a data file from which ours do."""
    if delete.content == DataFileContent.EQUALITY_DELETES:
        return True
    referenced = {path for path in (one[REFERENCED_FILE] for one in ours) if path is not None}
    return any(one[REFERENCED_FILE] is None for one in ours) or _may_delete_from(delete, referenced)


def _key_columns(table: IcebergTable) -> tuple[NestedField, ...]:
    schema = table.iceberg.schema()
    return tuple(schema.find_field(number) for number in sorted(schema.identifier_field_ids))


def _may_share_keys(one: DataFile, other: DataFile, keys: Sequence[NestedField]) -> bool:
    """Whether there may be rows of one key in both files, by the bounds of the key's columns."""
    ours, theirs = FileBounds(one), FileBounds(other)
    for column in keys:
        (low, high, _), (other_low, other_high, _) = ours.of(column), theirs.of(column)
        if None not in (low, high, other_low, other_high) and (
            high < other_low or other_high < low
        ):
            return False
    return True


# --- The commit ----------------------------------------------------------------------------------


class _Attempt:
    """One attempt to commit a batch's files on top of the loaded head."""

    def __init__(
        self, table: IcebergTable, branch: str, ours: _Changes, theirs: Sequence[_Changes]
    ) -> None:
        self._table = table
        self._branch = branch
        self._ours = ours
        self._theirs = theirs
        self._io = table.iceberg.io
        self._metadata = table.iceberg.metadata
        self._new = NewSnapshot(table.iceberg, self._metadata)
        assert self._new.parent is not None
        self._head = self._new.parent

    def commit(self) -> None:
        """Commits; if another commit gets in first, no file is left behind."""
        own = self._metadata.snapshot_by_id(self._ours.snapshot_id)
        assert own is not None
        try:
            deletes, removed = self._united()
            snapshot = self._snapshot(own, [*self._ours.data, *deletes], removed)
            commits.commit(
                self._table,
                (
                    AssertTableUUID(uuid=self._metadata.table_uuid),
                    AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=self._head.snapshot_id),
                    AssertRefSnapshotId(ref=self._branch, snapshot_id=own.snapshot_id),
                ),
                (
                    AddSnapshotUpdate(snapshot=snapshot),
                    moved_ref(
                        self._metadata, MAIN_BRANCH, SnapshotRefType.BRANCH, snapshot.snapshot_id
                    ),
                    RemoveSnapshotRefUpdate(ref_name=self._branch),
                    RemoveSnapshotsUpdate(snapshot_ids=[own.snapshot_id]),
                ),
            )
        except SeamlineError as error:
            if error.code is COMMIT_CONFLICT:
                self._new.remove()
            raise
        kept = {file.file_path for file in deletes}
        self._new.remove(  # what no snapshot names any more
            [
                *(m.manifest_path for m in self._own_manifests()),
                *{f.file_path for f in self._ours.deletes if f.file_path not in kept},
                own.manifest_list,
            ]
        )

    def _own_manifests(self) -> list[ManifestFile]:
        own_id = self._ours.snapshot_id
        return [m for m in self._table.manifests(own_id) if m.added_snapshot_id == own_id]

    def _united(self) -> tuple[list[DataFile], list[DataFile]]:
        """Returns the delete files to add to the head, and those to remove from it."""
        vectors: dict[str, DataFile] = {}
        gone: set[tuple[str, str | None]] = set()
        for change in self._theirs:
            for delete in change.removed_deletes:
                gone.add(_name(delete))
                vectors.pop(delete[REFERENCED_FILE], None)
            vectors |= {d[REFERENCED_FILE]: d for d in change.deletes if _is_vector(d)}
        added, removed = [], [d for d in self._ours.removed_deletes if _name(d) not in gone]
        pairs = []
        for delete in self._ours.deletes:
            other = vectors.get(delete[REFERENCED_FILE])
            if other is None:
                added.append(delete)
            else:
                pairs.append((delete, other))
                removed.append(other)
        planned = plan_deletes(
            [self._union(*pair) for pair in pairs], has_vectors=True, folder=self._data_folder()
        )
        self._new.written += [one.path for one in planned]
        return [*added, *write_deletes(self._io, planned)], removed

    def _union(self, ours: DataFile, theirs: DataFile) -> DeletedRows:
        positions = [
            np.array(read_vector(self._io, v.file_path, v[CONTENT_OFFSET], v[CONTENT_SIZE]), int)
            for v in (ours, theirs)
        ]
        of = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=ours[REFERENCED_FILE],
            partition=ours.partition,
        )
        of.spec_id = ours.spec_id
        return DeletedRows(of, np.unique(np.concatenate(positions)))

    def _data_folder(self) -> str:
        return self._table.iceberg.location_provider().new_data_location(uuid.uuid4().hex)

    def _snapshot(
        self, own: Snapshot, added: Sequence[DataFile], removed: Sequence[DataFile]
    ) -> Snapshot:
        kept, remade = self._without(removed)
        made = [*self._new.added(added), *remade]
        return self._new.finish(kept, made, _summary(own, self._head, added, removed))

    def _without(
        self, removed: Sequence[DataFile]
    ) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """Returns the head's manifests that stay, and those made of the ones that do not."""
        head = self._table.manifests(self._head.snapshot_id)
        names = set(map(_name, removed))
        kept: list[ManifestFile] = []
        remade: list[ManifestFile] = []
        for manifest in head:
            rest: list[ManifestEntry] = []
            gone: list[ManifestEntry] = []
            if names and manifest.content == ManifestContent.DELETES:
                with manifest_errors("manifest", manifest.manifest_path):
                    for entry in live_entries(self._io, manifest):
                        (gone if _name(entry.data_file) in names else rest).append(entry)
            if gone:
                remade.append(self._new.without(manifest, rest, gone))
            else:
                kept.append(manifest)
        return kept, remade


def _summary(
    own: Snapshot, head: Snapshot, added: Sequence[DataFile], removed: Sequence[DataFile]
) -> Summary:
    """Returns the summary of the batch's snapshot, with the totals of the new head."""
    assert own.summary is not None
    ours = own.summary.additional_properties
    before = head.summary.additional_properties if head.summary is not None else {}
    more, less = _numbers(added), _numbers(removed)
    body = {name: value for name, value in ours.items() if not name.startswith("total-")}
    body |= {f"added-{name}": str(number) for name, number in more.items() if number}
    body |= {f"removed-{name}": str(number) for name, number in less.items() if number}
    for name in more:
        if f"total-{name}" in before:
            total = int(before[f"total-{name}"]) + more[name] - less[name]
            body[f"total-{name}"] = str(total)
    if "total-equality-deletes" in before:
        body["total-equality-deletes"] = before["total-equality-deletes"]
    return Summary(own.summary.operation, **body)


def _numbers(files: Sequence[DataFile]) -> dict[str, int]:
    data = [file for file in files if file.content == DataFileContent.DATA]
    deletes = [file for file in files if file.content != DataFileContent.DATA]
    return {
        "data-files": len(data),
        "records": sum(file.record_count for file in data),
        "delete-files": len(deletes),
        "position-deletes": sum(file.record_count for file in deletes),
        "files-size": sum(map(_size, files)),
    }


def _size(file: DataFile) -> int:
    return int(file[CONTENT_SIZE] if _is_vector(file) else file.file_size_in_bytes)
