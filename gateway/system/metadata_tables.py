"""Metadata tables of a catalog's table, which show what its metadata holds.

    t$snapshots             the retained snapshots
    t$history               which snapshots have been current, and when
    t$refs                  branches and tags
    t$properties            the table's properties
    t$metadata_log_entries  the metadata files that the table remembers
    t$files                 the data files of a snapshot
    t$partitions            what these files contain, summed by partition
    t$manifests             the manifests of a snapshot
    t$all_manifests         the manifests of every snapshot
    t$entries               the entries of a snapshot's manifests

The snapshot is the one that the statement reads. Except for `$snapshots` and `$files`, the columns
and their meanings are those of Trino's Iceberg connector.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from seamline.connectors.iceberg.metadata_properties import readable_by_others
from seamline.connectors.iceberg.tables import inspection
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tables.partition_rows import partitions
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.seam.boundary import decode
from seamline.seam.files import ScanRequest
from seamline.seam.table import TableState
from seamline.sql import types
from seamline.sql.types import Type

Contents = tuple[Mapping[str, Type], list[tuple[Any, ...]]]


def contents(variant: str, table: ColdTable, snapshot_id: int | None) -> Contents:
    """Returns the columns and rows of a metadata table.

    Args:
        variant: One of `METADATA_TABLES`.
        table: The table that it is about.
        snapshot_id: The snapshot that the statement reads; None if there is none.

    Raises:
        SeamlineError: NOT_SUPPORTED for one that Delta tables do not have; COLD_FILE_MISSING,
            COLD_FILE_INVALID, STORAGE_UNAVAILABLE, LOCATION_NOT_ALLOWED.
    """
    state = table.state
    match variant:
        case "snapshots":
            return _snapshots(state)
        case "history":
            return _history(state)
        case "refs":
            return _refs(state)
        case "properties":
            return _properties(state)
        case "files":
            return _files(table, snapshot_id)
    if not isinstance(table, IcebergTable):
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{state.display_name} is not an Iceberg table, and has no ${variant}",
            hint="Every table has $snapshots, $history, $refs, $properties and $files.",
        )
    return _of_iceberg(variant, table, snapshot_id)


def _of_iceberg(variant: str, table: IcebergTable, snapshot_id: int | None) -> Contents:
    match variant:
        case "partitions":
            return partitions(table, snapshot_id)
        case "manifests":
            return inspection.MANIFESTS, inspection.manifests(table, snapshot_id)
        case "all_manifests":
            return inspection.ALL_MANIFESTS, inspection.all_manifests(table)
        case "entries":
            return inspection.entries(table, snapshot_id)
    return inspection.METADATA_LOG, inspection.metadata_log(table)


def _snapshots(state: TableState) -> Contents:
    shape: dict[str, Type] = {
        "snapshot_id": types.BIGINT,
        "parent_id": types.BIGINT,
        "committed_at": types.TIMESTAMP_TZ,
        "operation": types.VARCHAR,
        "boundary": types.VARCHAR,
        "rows_added": types.BIGINT,
        "rows_total": types.BIGINT,
    }
    rows = []
    for snapshot in sorted(state.snapshots.values(), key=lambda s: s.timestamp_ms):
        own = decode(snapshot)
        boundary = str(own.next.to_json()).replace("'", '"') if own is not None else None
        at = datetime.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, datetime.UTC)
        counts = [snapshot.summary.get(key) for key in ("added-records", "total-records")]
        rows.append(
            (
                snapshot.snapshot_id,
                snapshot.parent_id,
                at,
                snapshot.operation,
                boundary,
                *(int(count) if count is not None else None for count in counts),
            )
        )
    return shape, rows


def _history(state: TableState) -> Contents:
    shape: dict[str, Type] = {
        "made_current_at": types.Timestamp(3, zoned=True),
        "snapshot_id": types.BIGINT,
        "parent_id": types.BIGINT,
        "is_current_ancestor": types.BOOLEAN,
    }
    current = {snapshot.snapshot_id for snapshot in state.ancestors(state.current_snapshot_id)}
    rows = []
    for moment_ms, snapshot_id in state.snapshot_log:
        snapshot = state.snapshots.get(snapshot_id)
        parent_id = snapshot.parent_id if snapshot is not None else None
        rows.append((moment_ms * 1000, snapshot_id, parent_id, snapshot_id in current))
    return shape, rows


def _refs(state: TableState) -> Contents:
    shape: dict[str, Type] = {
        "name": types.VARCHAR,
        "type": types.VARCHAR,
        "snapshot_id": types.BIGINT,
        "max_reference_age_in_ms": types.BIGINT,
        "min_snapshots_to_keep": types.INTEGER,
        "max_snapshot_age_in_ms": types.BIGINT,
    }
    return shape, [
        (
            name,
            ref.kind.upper(),
            ref.snapshot_id,
            ref.max_age_ms,
            ref.snapshots_min,
            ref.max_snapshot_age_ms,
        )
        for name, ref in sorted(state.refs.items())
    ]


def _properties(state: TableState) -> Contents:
    """Leaves out client settings, such as keys and addresses, which other engines do not get.

    They belong to whoever wrote them.
    """
    shape: dict[str, Type] = {"key": types.VARCHAR, "value": types.VARCHAR}
    return shape, sorted(readable_by_others(state.properties).items())


def _files(table: ColdTable, snapshot_id: int | None) -> Contents:
    shape: dict[str, Type] = {
        "path": types.VARCHAR,
        "format": types.VARCHAR,
        "rows": types.BIGINT,
        "size_bytes": types.BIGINT,
        "delete_files": types.BIGINT,
    }
    plan = table.plan(snapshot_id, ScanRequest(table.state.current_schema_id, ()))
    return shape, [
        (f.path, f.format, f.record_count, f.size_bytes, len(plan.deletes_of(f)))
        for f in plan.files
    ]
