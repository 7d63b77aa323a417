"""What the owner of a table wants retained of its branches and tags, set and read."""

from __future__ import annotations

from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate

from seamline.connectors.iceberg.tables.catalog import IcebergTable

Retention = tuple[int | None, int | None, int | None]
WANTED: Retention = (3, 500_000_000_000, 900_000_000_000)
"""Snapshots to keep, their age, the reference's own age: none of which is ever reached."""


def retain(table: IcebergTable, *names: str) -> None:
    """Says of references what is to be retained."""
    snapshots, age_ms, ref_age_ms = WANTED
    metadata = table.iceberg.metadata
    updates = tuple(
        SetSnapshotRefUpdate(
            ref_name=name,
            type=metadata.refs[name].snapshot_ref_type,
            snapshot_id=metadata.refs[name].snapshot_id,
            # a tag is of one snapshot, and has neither
            min_snapshots_to_keep=snapshots if name == "main" else None,
            max_snapshot_age_ms=age_ms if name == "main" else None,
            max_ref_age_ms=ref_age_ms,
        )
        for name in names
    )
    requirement = AssertTableUUID(uuid=metadata.table_uuid)
    table.iceberg.catalog.commit_table(table.iceberg, (requirement,), updates)


def retention(table: IcebergTable) -> dict[str, Retention]:
    """What is to be retained of each reference."""
    return {
        name: (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
        for name, ref in table.iceberg.metadata.refs.items()
    }
