"""The state of a table as a frozen value, taken from PyIceberg's metadata."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table as PyTable

from seamline.connectors.iceberg.types import table_schema
from seamline.seam.table import Snapshot, SnapshotRef, TableState


def table_state(name: tuple[str, ...], table: PyTable) -> TableState:
    """Returns the frozen state of a loaded table."""
    metadata = table.metadata
    mapping = metadata.name_mapping()
    return TableState(
        name=name,
        uuid=str(metadata.table_uuid),
        properties=dict(metadata.properties),
        schemas={s.schema_id: table_schema(s, mapping) for s in metadata.schemas},
        current_schema_id=metadata.current_schema_id,
        snapshots={s.snapshot_id: _snapshot(s) for s in metadata.snapshots},
        refs={
            ref_name: SnapshotRef(
                ref.snapshot_id,
                str(ref.snapshot_ref_type.value),
                ref.max_ref_age_ms,
                ref.min_snapshots_to_keep,
                ref.max_snapshot_age_ms,
            )
            for ref_name, ref in metadata.refs.items()
        },
        current_snapshot_id=metadata.current_snapshot_id,
        snapshot_log=tuple((e.timestamp_ms, e.snapshot_id) for e in metadata.snapshot_log),
        location=metadata.location,
        metadata_location=table.metadata_location,
        format_version=metadata.format_version,
    )


def _snapshot(snapshot: Any) -> Snapshot:
    summary = snapshot.summary
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        operation=summary.operation.value if summary else "",
        summary=dict(summary.additional_properties) if summary else {},
        schema_id=snapshot.schema_id,
        sequence_number=snapshot.sequence_number or 0,
    )
