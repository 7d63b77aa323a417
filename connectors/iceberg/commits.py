"""Small commits of our own to an Iceberg table: marks without rows, and the boundary's tag.

They go to the catalog directly, once, as compare-and-swap: a mark lands only if the head of `main`
is still the snapshot it was made for.
"""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from seamline.connectors.base import Boundary
from seamline.connectors.iceberg.boundary import TAG
from seamline.connectors.iceberg.catalog import IcebergTable, storage_errors
from seamline.connectors.iceberg.marks import prepare_mark, set_ref
from seamline.sql.errors import CATALOG_UNAVAILABLE, COMMIT_CONFLICT, SeamlineError


def commit_mark(table: IcebergTable, boundary: Boundary) -> int:
    """Commits a snapshot without rows that carries the boundary, on top of the loaded state.

    Returns:
        Id of the new snapshot.

    Raises:
        SeamlineError: COMMIT_CONFLICT when the table has changed since it was loaded.
    """
    with storage_errors(f"table {table.state.display_name}"):
        mark = prepare_mark(table.iceberg, boundary)
    _commit(table, mark.requirements, mark.updates)
    return mark.snapshot_id


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
        (set_ref(TAG, SnapshotRefType.TAG, snapshot_id),),
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
        (set_ref("main", SnapshotRefType.BRANCH, to),),
    )
