"""Prepares the commit of a snapshot that carries a boundary and adds no rows.

The snapshot lists the manifests of its parent in a list of its own, since expiry deletes the list
of every snapshot it drops. PyIceberg's snapshot producers are not used: they rebase and retry,
which a boundary must never do, and they do not support format version 3.
"""

from __future__ import annotations

import dataclasses
import time
import uuid

from pyiceberg.manifest import write_manifest_list
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from seamline.connectors.iceberg.foreign_metadata import require_lists
from seamline.seam.boundary import SUMMARY_KEY, Boundary, encode

_EMPTY_TOTALS = dict.fromkeys(
    (
        "total-records",
        "total-data-files",
        "total-delete-files",
        "total-files-size",
        "total-position-deletes",
        "total-equality-deletes",
    ),
    "0",
)


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryCommit:
    """A commit that adds the snapshot only if the head is still the one it was made for."""

    snapshot_id: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


def prepare_boundary(table: PyTable, boundary: Boundary) -> BoundaryCommit:
    """Writes the manifest list of a snapshot on top of the loaded table, and prepares its commit.

    Raises:
        OSError: The parent's list cannot be read, or the new one cannot be written.
    """
    require_lists(table)
    metadata = table.metadata
    snapshot_id = metadata.new_snapshot_id()
    parent = metadata.current_snapshot()
    manifest_list = table.location_provider().new_metadata_location(
        f"snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
    )
    if parent is None:
        _write_empty_list(table, snapshot_id, manifest_list)
    else:
        _copy(table, parent.manifest_list, manifest_list)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=max(int(time.time() * 1000), metadata.last_updated_ms),
        manifest_list=manifest_list,
        summary=Summary(Operation.APPEND, **_totals(parent), **{SUMMARY_KEY: encode(boundary)}),
        schema_id=metadata.current_schema_id,
        **_row_ids(metadata),
    )
    return BoundaryCommit(
        snapshot_id,
        (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.parent_snapshot_id),
        ),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            moved_ref(metadata, MAIN_BRANCH, SnapshotRefType.BRANCH, snapshot_id),
        ),
    )


def moved_ref(
    metadata: TableMetadata, name: str, kind: SnapshotRefType, snapshot_id: int
) -> SetSnapshotRefUpdate:
    """Returns the update that points a branch or a tag at another snapshot.

    The update replaces the whole reference, so it repeats the retention that its owner has set.

    Args:
        metadata: The table's metadata.
        name: The reference; it is created if it does not exist yet.
        kind: Whether to create it as a branch or as a tag.
        snapshot_id: The snapshot.
    """
    known = metadata.refs.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=known.snapshot_ref_type if known else kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=known.max_ref_age_ms if known else None,
        max_snapshot_age_ms=known.max_snapshot_age_ms if known else None,
        min_snapshots_to_keep=known.min_snapshots_to_keep if known else None,
    )


def new_ref(
    name: str, kind: SnapshotRefType, snapshot_id: int, max_age_ms: int
) -> SetSnapshotRefUpdate:
    """Returns the update that creates a branch or a tag, kept until its snapshot exceeds an age."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=max_age_ms,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _copy(table: PyTable, source_path: str, path: str) -> None:
    with table.io.new_input(source_path).open() as source:
        content = source.read()
    with table.io.new_output(path).create() as target:
        target.write(content)


def _write_empty_list(table: PyTable, snapshot_id: int, path: str) -> None:
    """Writes an empty list; version 2 stands in for 3, which PyIceberg cannot write."""
    with write_manifest_list(
        format_version=1 if table.metadata.format_version == 1 else 2,
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        sequence_number=table.metadata.next_sequence_number(),
        avro_compression="null",
    ):
        pass


def _totals(parent: Snapshot | None) -> dict[str, str]:
    """Returns the totals that a snapshot without rows repeats from its parent's summary."""
    if parent is None:
        return _EMPTY_TOTALS
    known = parent.summary.additional_properties if parent.summary else {}
    return {key: value for key, value in known.items() if key.startswith("total-")}


def _row_ids(metadata: TableMetadata) -> dict[str, int]:
    """Returns the row id fields of a version 3 snapshot: where its ids would start, and no rows."""
    if not isinstance(metadata, TableMetadataV3):
        return {}
    return {"first_row_id": metadata.next_row_id or 0, "added_rows": 0}
