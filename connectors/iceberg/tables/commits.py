"""Makes small commits to an Iceberg table, such as boundaries without rows and their tag.

Each commit goes directly to the catalog, once, as a compare-and-swap: a boundary lands only if the
head of `main` is still the snapshot that it was made for.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeVar

from pyiceberg.exceptions import BadRequestError, ValidationError
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.table.update.schema import UpdateSchema

from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.boundary_commits import moved_ref, new_ref, prepare_boundary
from seamline.connectors.iceberg.errors import commit_errors, storage_errors
from seamline.connectors.iceberg.schema_changes import (
    apply_changes,
    text_of,
    with_former_names,
)
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import JSON_FIELDS, json_fields
from seamline.errors import (
    COMMIT_CONFLICT,
    INVALID_TABLE_DEFINITION,
    SCHEMA_INCOMPATIBLE,
    SNAPSHOT_GONE,
    SeamlineError,
)
from seamline.seam.binding import PROPERTY_PREFIX
from seamline.seam.boundary import TAG, Boundary
from seamline.seam.encoding import Path
from seamline.seam.evolution import Change, KnowColumn
from seamline.seam.history_checks import require
from seamline.sql.types import Type

T = TypeVar("T")
ATTEMPTS = 8
_PAUSE_MS_MIN, _PAUSE_MS_MAX = 20, 1_000


def insist(
    work: Callable[[], T],
    report: Callable[[str], None] = lambda _: None,
    *,
    patience_s: float = 0.0,
) -> T:
    """Does the work, and retries it while other commits, such as tiering's, get in first.

    Args:
        work: Loads the table and commits.
        report: Called before each retry.
        patience_s: Seconds during which it is retried however often it fails.

    Raises:
        SeamlineError: what the work raises; COMMIT_CONFLICT after `ATTEMPTS` attempts, or when the
            patience has ended, whichever is later.
    """
    patient_until = time.monotonic() + patience_s
    pause_ms = _PAUSE_MS_MIN
    for attempt in itertools.count(1):
        try:
            return work()
        except SeamlineError as error:
            is_last = attempt >= ATTEMPTS and time.monotonic() >= patient_until
            if error.code is not COMMIT_CONFLICT or is_last:
                raise
        report("the table changed meanwhile: trying again")
        time.sleep(secrets.randbelow(pause_ms) / 1000)
        pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)
    raise AssertionError


def insist_on_head(
    load: Callable[[], IcebergTable], head_id: int | None, work: Callable[[IcebergTable], object]
) -> None:
    """Commits what may land only while the head of `main` stays; retries after other commits.

    Args:
        load: Loads the table.
        head_id: The expected head.
        work: Commits on top of the loaded table.

    Raises:
        SeamlineError: what the work raises; COMMIT_CONFLICT when the head is another snapshot.
    """

    def once() -> SeamlineError | None:
        table = load()
        if table.state.current_snapshot_id == head_id:
            work(table)
            return None
        name = table.state.display_name
        return SeamlineError(COMMIT_CONFLICT, f"table {name} has changed since it was read")

    require(insist(once))


def commit_boundary(
    table: IcebergTable,
    boundary: Boundary,
    *,
    properties: Mapping[str, str] = MappingProxyType({}),
    without: Sequence[str] = (),
) -> int:
    """Commits a snapshot without rows that carries the boundary, on top of the loaded state.

    Returns:
        Id of the new snapshot.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the table has changed since it was loaded,
            PROPERTY_NOT_ALLOWED.
    """
    table.require_own_writer()
    with storage_errors(f"table {table.state.display_name}"):
        prepared = prepare_boundary(table.iceberg, boundary)
    updates = prepared.updates
    if properties:
        updates = (*updates, SetPropertiesUpdate(updates=dict(properties)))
    if without:
        updates = (*updates, RemovePropertiesUpdate(removals=list(without)))
    commit(table, prepared.requirements, updates)
    return prepared.snapshot_id


def tag_boundary(table: IcebergTable, snapshot_id: int) -> None:
    """Moves the tag that keeps the newest snapshot with a boundary of its own from expiring.

    Raises:
        SeamlineError: COMMIT_CONFLICT when another process moved it meanwhile.
    """
    tag = table.state.refs.get(TAG)
    _commit_to_same(
        table,
        (moved_ref(table.iceberg.metadata, TAG, SnapshotRefType.TAG, snapshot_id),),
        AssertRefSnapshotId(ref=TAG, snapshot_id=tag.snapshot_id if tag else None),
    )


def create_branch(table: IcebergTable, name: str, snapshot_id: int, keep_ms: int) -> None:
    """Creates a branch at a snapshot; expiry removes it after `keep_ms`.

    Raises:
        SeamlineError: SNAPSHOT_GONE when the snapshot has expired, COMMIT_CONFLICT.
    """
    _create_ref(table, name, SnapshotRefType.BRANCH, snapshot_id, keep_ms)


def adopt_branch(table: IcebergTable, name: str, base_id: int) -> None:
    """Moves `main` to the head of a branch, only if it is still where the branch began.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the head of `main` is another snapshot by now.
    """
    to = table.state.refs[name].snapshot_id
    move_head(table, base_id, to, RemoveSnapshotRefUpdate(ref_name=name))


def create_tag(
    table: IcebergTable,
    name: str,
    snapshot_id: int,
    keep_ms: int,
    *,
    instead_of: Sequence[str] = (),
) -> None:
    """Tags a snapshot, and removes other tags in the same commit.

    Expiry removes the tag after `keep_ms`.

    Raises:
        SeamlineError: SNAPSHOT_GONE when the snapshot has expired, COMMIT_CONFLICT,
            CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
    """
    _create_ref(table, name, SnapshotRefType.TAG, snapshot_id, keep_ms, instead_of)


def remove_refs(table: IcebergTable, names: Sequence[str]) -> None:
    """Removes branches or tags; missing ones are not an error.

    Raises:
        SeamlineError: COMMIT_CONFLICT, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
    """
    updates = _removed(table, names)
    if updates:
        _commit_to_same(table, updates)


def _removed(table: IcebergTable, names: Sequence[str]) -> tuple[TableUpdate, ...]:
    there = [name for name in names if name in table.state.refs]
    return tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in there)


def _create_ref(
    table: IcebergTable,
    name: str,
    kind: SnapshotRefType,
    snapshot_id: int,
    keep_ms: int,
    instead_of: Sequence[str] = (),
) -> None:
    """Creates a reference; Iceberg counts its age from its snapshot's time, not from its own."""
    snapshot = table.state.snapshots.get(snapshot_id)
    if snapshot is None:
        raise _gone(table, snapshot_id)
    age_ms = max(0, int(time.time() * 1000) - snapshot.timestamp_ms)
    try:
        _commit_to_same(
            table,
            (new_ref(name, kind, snapshot_id, age_ms + keep_ms), *_removed(table, instead_of)),
            AssertRefSnapshotId(ref=name, snapshot_id=None),
        )
    except ValueError as error:  # it expired since the table was loaded
        raise _gone(table, snapshot_id) from error
    except SeamlineError as error:
        if isinstance(error.__cause__, BadRequestError):  # the same, as a REST catalog reports it
            raise _gone(table, snapshot_id) from error
        raise


def _gone(table: IcebergTable, snapshot_id: int) -> SeamlineError:
    return SeamlineError(
        SNAPSHOT_GONE, f"snapshot {snapshot_id} of {table.state.display_name} has expired"
    )


def set_properties(
    table: IcebergTable, properties: dict[str, str], *, without: Sequence[str] = ()
) -> None:
    """Sets table properties, and removes others in the same commit.

    Raises:
        SeamlineError: COMMIT_CONFLICT.
    """
    removed = [name for name in without if name in table.state.properties]
    removals = (RemovePropertiesUpdate(removals=removed),) if removed else ()
    _commit_to_same(table, (SetPropertiesUpdate(updates=properties), *removals))


def remove_properties(table: IcebergTable, names: Sequence[str]) -> None:
    """Removes table properties; missing ones are not an error.

    Raises:
        SeamlineError: COMMIT_CONFLICT.
    """
    _commit_to_same(table, (RemovePropertiesUpdate(removals=list(names)),))


def change_schema(
    table: IcebergTable,
    change: Callable[[UpdateSchema], object],
    known: Sequence[Change] = (),
    added: Mapping[Path, Type] = MappingProxyType({}),
) -> None:
    """Changes the columns of a table, and what its properties say of them.

    A unified table that another writer created may lack a mapping. It gets one, so that records
    still reach a column under the name it had.

    Args:
        table: The table.
        change: Adds the changes to a schema update.
        known: Changes, some of which may be further names for the mapping.
        added: The types of new columns, by path.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION if the change is not possible, COMMIT_CONFLICT.
    """
    schema_id = table.iceberg.schema().schema_id
    try:
        with commit_errors(table.state.display_name), table.iceberg.transaction() as transaction:
            is_unified = f"{PROPERTY_PREFIX}topic" in table.state.properties
            if is_unified and table.iceberg.name_mapping() is None:
                mapping = table.iceberg.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            with transaction.update_schema() as update:
                change(update)
            if any(isinstance(one, KnowColumn) for one in known):
                _know(transaction, schema_id, known)
            before = table.state.properties.get(JSON_FIELDS, "")
            jsons = json_fields(transaction.table_metadata.schema(), added, before)
            if jsons:
                transaction.set_properties(jsons)
    except (ValueError, ValidationError) as error:
        raise SeamlineError(INVALID_TABLE_DEFINITION, str(error)) from error


def _know(transaction: Transaction, schema_id: int, known: Sequence[Change]) -> None:
    """Adds further names of the current columns to the name mapping."""
    metadata = transaction.table_metadata
    mapping = metadata.name_mapping()
    assert mapping is not None, "a unified table has one"
    text = text_of(with_former_names(mapping, metadata.schema(), known))
    update = SetPropertiesUpdate(updates={TableProperties.DEFAULT_NAME_MAPPING: text})
    is_same = metadata.current_schema_id == schema_id  # else it requires the old one
    requirements = (AssertCurrentSchemaId(current_schema_id=schema_id),) if is_same else ()
    pyiceberg_internals.stage(transaction, lambda _: (update,), requirements)


def evolve(table: IcebergTable, changes: Sequence[Change]) -> None:
    """Changes the columns of a table to what records of another schema need, in one commit.

    Raises:
        SeamlineError: COMMIT_CONFLICT; SCHEMA_INCOMPATIBLE if Iceberg rejects a change.
    """
    try:
        change_schema(table, lambda update: apply_changes(update, changes), changes)
    except SeamlineError as error:
        if error.code is not INVALID_TABLE_DEFINITION:
            raise
        name = table.state.display_name
        raise SeamlineError(SCHEMA_INCOMPATIBLE, f"table {name}: {error.message}") from error


def upgrade(table: IcebergTable, version: Literal[1, 2]) -> None:
    """Upgrades a table's format version.

    Raises:
        SeamlineError: COMMIT_CONFLICT.
    """
    _commit_to_same(table, (UpgradeFormatVersionUpdate(format_version=version),))


def move_head(table: IcebergTable, snapshot_id: int, to: int, *further: TableUpdate) -> None:
    """Moves the head of `main` from one snapshot to another, only if it is still the first.

    The same commit makes further updates.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the head is another snapshot by now.
    """
    moved = moved_ref(table.iceberg.metadata, MAIN_BRANCH, SnapshotRefType.BRANCH, to)
    _commit_to_same(
        table, (moved, *further), AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot_id)
    )


def _commit_to_same(
    table: IcebergTable, updates: tuple[TableUpdate, ...], *further: TableRequirement
) -> None:
    """Commits updates, if the name still leads to the table that was loaded."""
    commit(table, (AssertTableUUID(uuid=table.iceberg.metadata.table_uuid), *further), updates)


def commit(
    table: IcebergTable,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> None:
    """Commits updates, once, if the requirements hold.

    Raises:
        SeamlineError: COMMIT_CONFLICT, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
    """
    with commit_errors(table.state.display_name):
        table.iceberg.catalog.commit_table(table.iceberg, requirements, updates)
