"""The state of a table as a frozen value, taken from PyIceberg's metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.heads import HEADS_BYTES_MAX, bytes_of
from seamline.connectors.iceberg.type_conversion import table_schema
from seamline.seam.binding import PROPERTY_PREFIX
from seamline.seam.table import Snapshot, SnapshotRef, TableState


class _Made(NamedTuple):
    metadata: TableMetadata
    state: TableState


class States:
    """The states of a catalog's tables, made anew when their metadata changes.

    A metadata file does not change, but its location does not identify it for good: some catalogs
    give a table that was created again the locations of its predecessor, or none to any table.
    Safe to share between threads.
    """

    def __init__(self, catalog: str, configured: Mapping[str, Mapping[str, str]]) -> None:
        self._catalog = catalog
        self._configured = {name.lower(): own for name, own in configured.items()}
        self._last: Cache[tuple[str, ...], _Made] = Cache(
            HEADS_BYTES_MAX, weight=lambda made: bytes_of(made.metadata)
        )

    def of(self, identifier: tuple[str, ...], table: PyTable) -> TableState:
        """Returns the state of a table that was loaded under a name."""
        last = self._last.get(identifier)
        location = table.metadata_location
        if last and last.state.metadata_location == location and last.metadata == table.metadata:
            table.metadata = last.metadata  # what is the same object is compared at once
            return last.state
        state = table_state((self._catalog, *identifier), table, last)
        configured = self._configured.get(state.display_name.lower())
        if configured is not None:
            own = {PROPERTY_PREFIX + k.replace("_", "-"): v for k, v in configured.items()}
            state = dataclasses.replace(state, properties={**state.properties, **own})
        self._last.put(identifier, _Made(table.metadata, state))
        return state


def table_state(name: tuple[str, ...], table: PyTable, last: _Made | None = None) -> TableState:
    """Returns the frozen state of a loaded table.

    Args:
        name: The full name.
        table: The table.
        last: An earlier state, whose snapshots are shared.
    """
    metadata = table.metadata
    mapping = metadata.name_mapping()
    return TableState(
        name=name,
        uuid=str(metadata.table_uuid),
        properties=dict(metadata.properties),
        schemas={
            s.schema_id: table_schema(s, mapping, metadata.properties) for s in metadata.schemas
        },
        current_schema_id=metadata.current_schema_id,
        snapshots=_snapshots(metadata, last),
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
        snapshot_log=_snapshot_log(metadata, last),
        location=metadata.location,
        metadata_location=table.metadata_location,
        format_version=metadata.format_version,
    )


def _snapshots(metadata: TableMetadata, last: _Made | None) -> Mapping[int, Snapshot]:
    listed, earlier = metadata.snapshots, last.metadata.snapshots if last else []
    if last is not None and earlier and listed[: len(earlier)] == earlier:
        new = {s.snapshot_id: _snapshot(s) for s in listed[len(earlier) :]}
        return {**last.state.snapshots, **new}
    shared = {id(s): last.state.snapshots[s.snapshot_id] for s in earlier} if last else {}
    return {s.snapshot_id: shared.get(id(s)) or _snapshot(s) for s in listed}


def _snapshot_log(metadata: TableMetadata, last: _Made | None) -> tuple[tuple[int, int], ...]:
    listed, earlier = metadata.snapshot_log, last.metadata.snapshot_log if last else []
    shared = last.state.snapshot_log if last and listed[: len(earlier)] == earlier else ()
    return (*shared, *((e.timestamp_ms, e.snapshot_id) for e in listed[len(shared) :]))


def _snapshot(snapshot: Any) -> Snapshot:
    summary = snapshot.summary
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        operation=summary.operation.value if summary else "",
        summary=summary.additional_properties if summary else {},
        schema_id=snapshot.schema_id,
        sequence_number=snapshot.sequence_number or 0,
    )
