"""Small commits of our own to an Iceberg table: marks without rows, and the boundary's tag.

A mark is committed by strict compare-and-swap: it lands only if the head of `main` is still the
snapshot it was made for. PyIceberg's own transactions rebase and try again, which a boundary must
never do, so the commit goes to the catalog directly, once.
"""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from seamline.connectors.base import Boundary
from seamline.connectors.iceberg.boundary import SUMMARY_KEY, TAG, encode
from seamline.connectors.iceberg.catalog import IcebergTable, storage_errors
from seamline.sql.errors import CATALOG_UNAVAILABLE, COMMIT_CONFLICT, SeamlineError


def commit_mark(table: IcebergTable, boundary: Boundary) -> int:
    """Commits a snapshot without rows that carries the boundary, on top of the loaded state.

    Returns:
        Id of the new snapshot.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the table has changed since it was loaded.
    """
    transaction = table.iceberg.transaction()
    with (
        storage_errors(f"table {table.state.display_name}"),
        transaction.update_snapshot({SUMMARY_KEY: encode(boundary)}).fast_append() as producer,
    ):
        snapshot_id = producer.snapshot_id
    requirements = (
        *transaction._requirements,  # noqa: SLF001 - see the module's docstring
        AssertTableUUID(uuid=table.iceberg.metadata.table_uuid),
    )
    _commit(table, requirements, transaction._updates)  # noqa: SLF001 - see the module's docstring
    return snapshot_id


def tag_boundary(table: IcebergTable, snapshot_id: int) -> None:
    """Moves the tag that keeps the newest marked snapshot from expiring.

    Raises:
        SeamlineError: COMMIT_CONFLICT when another process moved it meanwhile.
    """
    known = table.state.refs.get(TAG)
    _commit(
        table,
        (
            AssertTableUUID(uuid=table.iceberg.metadata.table_uuid),
            AssertRefSnapshotId(ref=TAG, snapshot_id=known.snapshot_id if known else None),
        ),
        (
            SetSnapshotRefUpdate(
                ref_name=TAG,
                type=SnapshotRefType.TAG,
                snapshot_id=snapshot_id,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
        ),
    )


def set_properties(table: IcebergTable, properties: dict[str, str]) -> None:
    """Sets table properties.

    Raises:
        SeamlineError: COMMIT_CONFLICT.
    """
    _commit(
        table,
        (AssertTableUUID(uuid=table.iceberg.metadata.table_uuid),),
        (SetPropertiesUpdate(updates=properties),),
    )


def _commit(
    table: IcebergTable,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> None:
    name = table.state.display_name
    try:
        with storage_errors(f"table {name}"):
            table.iceberg.catalog.commit_table(table.iceberg, requirements, updates)
    except CommitFailedException as error:
        raise SeamlineError(COMMIT_CONFLICT, f"table {name}: {error}") from error
    except CommitStateUnknownException as error:
        raise SeamlineError(
            CATALOG_UNAVAILABLE, f"table {name}: whether the commit landed is unknown: {error}"
        ) from error


def move_head(table: IcebergTable, snapshot_id: int, to: int) -> None:
    """Moves the head of `main` from one snapshot to another, only if it still is the first.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the head is another snapshot by now.
    """
    _commit(
        table,
        (
            AssertTableUUID(uuid=table.iceberg.metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=snapshot_id),
        ),
        (
            SetSnapshotRefUpdate(
                ref_name="main",
                type=SnapshotRefType.BRANCH,
                snapshot_id=to,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
        ),
    )
