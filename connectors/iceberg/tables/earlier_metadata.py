"""Finds the boundary of a table whose snapshots have expired in its earlier metadata files.

A commit that does not carry a boundary inherits that of its parent. If others commit several times
and expire what is older, the parents are no longer listed. The files that the metadata log names
still list them. A snapshot never changes, so what an earlier file says about it is as exact as if
it were listed now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyiceberg.table import Table as PyTable

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.boundaries.second_writer import may_have_copied
from seamline.connectors.iceberg.metadata_files import MetadataFiles
from seamline.connectors.iceberg.virtual import Json
from seamline.seam.binding import PROPERTY_PREFIX
from seamline.seam.boundary import SUMMARY_KEY
from seamline.seam.table import Snapshot, TableState

TABLES_CACHED_MAX = 256


class EarlierMetadata:
    """Completes the states of tables. Safe to share between threads."""

    def __init__(self) -> None:
        self._files = MetadataFiles()
        self._expired: Cache[tuple[str, str, int | None], Mapping[int, Snapshot]] = Cache(
            TABLES_CACHED_MAX
        )

    def completed(self, state: TableState, table: PyTable) -> TableState:
        """Returns the state with the expired snapshots that lead from the head to its boundary.

        It is the same state if the head's boundary is known anyway, if the earlier files do not
        lead to it, or if a snapshot on the way may have added records of the topic, which only its
        files would tell.

        Args:
            state: A table that no other writer fills.
            table: The same table.

        Raises:
            OSError, ValueError, EOFError, zlib.error: when a file that exists cannot be read.
        """
        key = (state.uuid, state.metadata_location, state.current_snapshot_id)
        expired = self._expired.get_or_make(key, lambda: _expired(state, table, self._files))
        return dataclasses.replace(state, expired=expired) if expired else state


def _expired(state: TableState, table: PyTable, files: MetadataFiles) -> Mapping[int, Snapshot]:
    if f"{PROPERTY_PREFIX}topic" not in state.properties:
        return {}
    line: list[Snapshot] = []
    for snapshot in state.lineage(state.current_snapshot_id):
        if SUMMARY_KEY in snapshot.summary:
            return {}
        line.append(snapshot)
    if not line:
        return {}
    oldest, expired = line[-1], dict[int, Snapshot]()
    for entry in reversed(table.metadata.metadata_log):
        try:
            body = files.read(table.io, entry.metadata_file, state.uuid).body
        except FileNotFoundError:  # the log outlives the files
            continue
        if body.get("table-uuid") != state.uuid:
            continue
        listed = {one["snapshot-id"]: _snapshot(one) for one in body.get("snapshots") or ()}
        while (parent := _parent(oldest, listed)) is not None:
            # some writers forget the parent of a snapshot when they expire it
            expired[oldest.snapshot_id] = dataclasses.replace(oldest, parent_id=parent.snapshot_id)
            if SUMMARY_KEY in parent.summary:
                expired[parent.snapshot_id] = parent
                return expired
            if may_have_copied(parent):
                return {}
            oldest = parent
    return {}


def _parent(snapshot: Snapshot, listed: Mapping[int, Snapshot]) -> Snapshot | None:
    entry = listed.get(snapshot.snapshot_id, snapshot)
    parent_id = entry.parent_id if snapshot.parent_id is None else snapshot.parent_id
    return None if parent_id is None else listed.get(parent_id)


def _snapshot(body: Json) -> Snapshot:
    summary = {str(name): str(value) for name, value in (body.get("summary") or {}).items()}
    return Snapshot(
        snapshot_id=body["snapshot-id"],
        parent_id=body.get("parent-snapshot-id"),
        timestamp_ms=body["timestamp-ms"],
        operation=summary.pop("operation", ""),
        summary=summary,
        schema_id=body.get("schema-id"),
        sequence_number=body.get("sequence-number", 0),
    )
