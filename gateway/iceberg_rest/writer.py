"""Writes virtual snapshots: the files of the tail, deletes of rows it hides, and the manifest list.

A snapshot is recorded before its first file is written and again when all of them are, so that the
remains of an unfinished one are found and removed.
"""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.manifest import ManifestEntry, ManifestFile

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg import manifests, virtual
from seamline.connectors.iceberg.errors import manifest_errors, storage_errors
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.virtual import VirtualSnapshot
from seamline.connectors.newest import newest_rows, without_deletes
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.served_table import ServedTable, ServedTail
from seamline.gateway.iceberg_rest.snapshots import ServedSnapshot, ServedSnapshots
from seamline.gateway.iceberg_rest.storage import SnapshotStorage
from seamline.gateway.iceberg_rest.tail_deletes import TailDeletes, TailDeletesStore
from seamline.gateway.iceberg_rest.tail_store import TailSegment, TailStore, TailTable
from seamline.gateway.tail.requests import TailRows
from seamline.seam.offsets import OffsetRange

_LISTS_CACHED_MAX = 64
_UNWRITTEN = "this-catalog-plans-scans-and-only-reads"
"""Name for the manifest list of a snapshot that has none; it explains why to anyone who tries to
open it."""


class SnapshotWriter:
    """Writes virtual snapshots. Safe to share between threads.

    Args:
        leases: Leases on what is written.
        snapshots: Where the snapshots are recorded.
        storage: Where their files are stored.
        tails: Reads the rows of tails.
        tail_offsets_max: The number of offsets beyond which a tail is not written.
        memory_bytes: The memory that finding the rows that a tail hides may use.
    """

    def __init__(
        self,
        leases: Leases,
        snapshots: ServedSnapshots,
        storage: SnapshotStorage,
        tails: TailRows,
        *,
        tail_offsets_max: int,
        memory_bytes: int,
    ) -> None:
        self._leases = leases
        self._storage = storage
        self._tails = tails
        self._tail_offsets_max = tail_offsets_max
        self._snapshots = snapshots
        self.store = TailStore(leases)
        self.deletes = TailDeletesStore(leases, memory_bytes=memory_bytes)
        self._lists: Cache[str, tuple[ManifestFile, ...]] = Cache(_LISTS_CACHED_MAX)

    def written(self, table: ServedTable, deadline: Deadline) -> ServedSnapshot:
        """Returns the virtual snapshot of the table, with its tail written as files.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        tail = table.tail
        assert tail is not None
        served = self._known(table, tail)
        if served is not None and served.written and not self._leases.renew(served.leases):
            return served
        with storage_errors(f"table {table.name.display}"):
            newest = self._newest(table, tail, deadline)
            segments = self._segments(table, tail, newest, deadline)
            hidden = None if newest is None else self._hidden(table, newest, deadline)
            served = self._list(table, tail, segments, hidden)
        self._snapshots.keep(served)
        return served

    def announced(self, table: ServedTable) -> ServedSnapshot:
        """Returns the virtual snapshot of the table, without writing any of its files."""
        tail = table.tail
        assert tail is not None
        served = self._known(table, tail)
        if served is not None:
            return served
        is_overwrite = table.newest() is not None
        added = {"records": tail.seam.hot_offsets}
        summary = virtual.summary(table.base, tail.seam, added, {}, is_overwrite=is_overwrite)
        row_id = table.base.get("next-row-id")
        snapshot = self._snapshot(table, tail, summary, row_id, tail.seam.hot_offsets, _UNWRITTEN)
        served = ServedSnapshot(table.source(), snapshot)
        self._snapshots.keep(served)
        return served

    def _known(self, table: ServedTable, tail: ServedTail) -> ServedSnapshot | None:
        """Returns the snapshot that was served before, if its rows still have the same source."""
        served = self._snapshots.find(table.uuid, tail.snapshot_id)
        return served if served is not None and served.source == table.source() else None

    def segments(self, table: ServedTable) -> list[TailSegment] | None:
        """Returns the files of the table's whole tail, or None unless all of them are written."""
        assert table.tail is not None
        return self.store.covered(self._table(table), table.tail.seam.hot_ranges)

    def _table(self, table: ServedTable) -> TailTable:
        """Returns how the table's tail files are written."""
        return TailTable(
            self._storage.io_of(table),
            f"{self._storage.folder_of(table)}/tail",
            table.layout(),
            table.source(),
            is_whole=table.newest() is not None,
        )

    def hidden(self, table: ServedTable, deadline: Deadline) -> tuple[ManifestEntry, ...]:
        """Returns the deletes of the table's tail; none unless it is an upsert table.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        tail = table.tail
        assert tail is not None
        with storage_errors(f"table {table.name.display}"):
            newest = self._newest(table, tail, deadline)
            if newest is None:
                return ()
            deletes = self._hidden(table, newest, deadline)
            io, number = self._storage.io_of(table), table.base["last-sequence-number"] + 1
            added = (manifests.added_by(tail.snapshot_id, number, m) for m in deletes.manifests)
            return tuple(entry for manifest in added for entry in live_entries(io, manifest))

    def _newest(
        self, table: ServedTable, tail: ServedTail, deadline: Deadline
    ) -> Callable[[], pa.Table] | None:
        """Returns a reader, which reads once, of each key's newest tail row; None if all count."""
        newest = table.newest()
        if newest is None:
            return None
        names = [column.name for column in tail.decoder.columns]

        @functools.cache
        def found() -> pa.Table:
            self._require_short(table, tail)
            read = table.tail_read(tail.seam.hot_ranges, names)
            return newest_rows(self._tails.read(read, deadline).rows, newest)

        return found

    def _hidden(
        self, table: ServedTable, newest: Callable[[], pa.Table], deadline: Deadline
    ) -> TailDeletes:
        io, folder = self._storage.io_of(table), f"{self._storage.folder_of(table)}/tail"
        return self.deletes.cover(table, io, folder, newest, deadline)

    def _segments(
        self,
        table: ServedTable,
        tail: ServedTail,
        newest: Callable[[], pa.Table] | None,
        deadline: Deadline,
    ) -> list[TailSegment]:
        self._require_short(table, tail)
        names = [column.name for column in tail.decoder.stored]

        def read(ranges: Sequence[OffsetRange]) -> pa.Table:
            if newest is not None:
                return without_deletes(newest())
            return self._tails.read(table.tail_read(ranges, names), deadline).rows

        return self.store.cover(self._table(table), tail.seam.hot_ranges, read)

    def _require_short(self, table: ServedTable, tail: ServedTail) -> None:
        if tail.seam.hot_offsets > self._tail_offsets_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"the tail of {table.name.display} has {tail.seam.hot_offsets:,} offsets, more "
                f"than {self._tail_offsets_max:,}",
                hint="Tier more often, or raise iceberg.tail_offsets_max.",
            )

    def _list(
        self,
        table: ServedTable,
        tail: ServedTail,
        segments: Sequence[TailSegment],
        hidden: TailDeletes | None,
    ) -> ServedSnapshot:
        """Writes the snapshot's manifest list."""
        io = self._storage.io_of(table)
        added = [manifest for segment in segments for manifest in segment.manifests]
        added += hidden.manifests if hidden is not None else ()
        replaced = hidden.replaced if hidden is not None else ()
        cold = virtual.cold_snapshot(table.base, tail.seam.cold.snapshot_id)
        listed = self._cold_list(table, cold["manifest-list"])
        content = manifests.new_list(
            [manifest for manifest in listed if manifest.manifest_path not in replaced],
            added,
            snapshot_id=tail.snapshot_id,
            parent_id=cold["snapshot-id"],
            sequence_number=table.base["last-sequence-number"] + 1,
            version=table.version,
            next_row_id=table.base.get("next-row-id") or 0,
        )
        numbers = {
            "data-files": sum(len(segment.data_paths) for segment in segments),
            "records": sum(segment.rows for segment in segments),
            "files-size": sum(segment.size_bytes for segment in segments),
            **(hidden.added if hidden is not None else {}),
        }
        summary = virtual.summary(
            table.base,
            tail.seam,
            numbers,
            hidden.removed if hidden is not None else {},
            is_overwrite=hidden is not None,
        )
        leases = [segment.segment_id for segment in segments]
        leases += [hidden.lease_id] if hidden is not None else []
        row_id, name = content.first_row_id, f"snap-{uuid.uuid4().hex[:8]}"
        snapshot = self._snapshot(table, tail, summary, row_id, content.added_rows, name)
        served = ServedSnapshot(table.source(), snapshot)
        self._snapshots.keep(served)
        manifests.write_list(io, snapshot.manifest_list, content)
        return dataclasses.replace(
            served,
            written=True,
            segments=tuple(leases),
            spec_ids=tuple(sorted({manifest.partition_spec_id for manifest in added})),
        )

    def _snapshot(
        self,
        table: ServedTable,
        tail: ServedTail,
        summary: dict[str, str],
        first_row_id: int | None,
        added_rows: int,
        name: str,
    ) -> VirtualSnapshot:
        """Returns the snapshot, with the given name in the path of its manifest list."""
        has_row_ids = table.version >= 3
        assert table.moment_ms is not None
        return VirtualSnapshot(
            seam=tail.seam,
            snapshot_id=tail.snapshot_id,
            sequence_number=table.base["last-sequence-number"] + 1,
            timestamp_ms=table.moment_ms,
            manifest_list=f"{self._storage.folder_of(table)}/metadata/{name}-{tail.snapshot_id}.avro",
            summary=summary,
            first_row_id=(first_row_id or 0) if has_row_ids else None,
            added_rows=added_rows if has_row_ids else None,
        )

    def _cold_list(self, table: ServedTable, path: str) -> tuple[ManifestFile, ...]:
        io = table.cold.iceberg.io
        with manifest_errors("manifest list", path):
            return self._lists.get_or_make(path, lambda: manifests.read_list(io, path))
