"""Writes virtual snapshots: the files of the tail and the manifest list.

A snapshot is remembered before its first file is written and again when all of them are, so that
what is left of one that was never finished is found and removed.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestFile

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg import manifests, virtual
from seamline.connectors.iceberg.errors import manifest_errors, storage_errors
from seamline.connectors.iceberg.virtual import VirtualSnapshot
from seamline.connectors.protocols import Deadline
from seamline.errors import NOT_SUPPORTED, TAIL_TOO_LARGE, SeamlineError
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.snapshots import ServedSnapshot, ServedSnapshots
from seamline.gateway.iceberg_rest.storage import SnapshotStorage
from seamline.gateway.iceberg_rest.table import ServedTable, ServedTail
from seamline.gateway.iceberg_rest.tail_store import TailSegment, TailStore, TailTable
from seamline.seam.offsets import OffsetRange

Rows = Callable[[ServedTable, Sequence[OffsetRange], Sequence[str], Deadline], pa.Table]
"""Decoded rows of ranges of a table's tail, with the columns named."""

_LISTS_CACHED_MAX = 64
_UNWRITTEN = "this-catalog-plans-scans-and-only-reads"
"""Names the manifest list of a snapshot that has none; whoever looks for it reads why."""


class SnapshotWriter:
    """Writes virtual snapshots. Safe to share between threads.

    Args:
        leases: Leases on what is written.
        snapshots: Where they are remembered.
        storage: Where their files are put.
        rows: Gives the rows of tails.
        tail_offsets_max: A longer tail is not written.
    """

    def __init__(
        self,
        leases: Leases,
        snapshots: ServedSnapshots,
        storage: SnapshotStorage,
        rows: Rows,
        *,
        tail_offsets_max: int,
    ) -> None:
        self._leases = leases
        self._storage = storage
        self._rows = rows
        self._tail_offsets_max = tail_offsets_max
        self._snapshots = snapshots
        self.store = TailStore(leases)
        self._lists: Cache[str, tuple[ManifestFile, ...]] = Cache(_LISTS_CACHED_MAX)

    def written(self, table: ServedTable, deadline: Deadline) -> ServedSnapshot:
        """The virtual snapshot of the table, its tail written as files.

        Raises:
            SeamlineError: named after the cause.
        """
        tail = table.tail
        assert tail is not None
        known = self._snapshots.find(table.uuid, tail.snapshot_id)
        if known is not None and known.written and not self._leases.renew(known.leases):
            return known
        with storage_errors(f"table {table.name.display}"):
            segments = self._segments(table, tail, deadline)
            served = self._list(table, tail, segments)
        self._snapshots.keep(served)
        return served

    def announced(self, table: ServedTable) -> ServedSnapshot:
        """The virtual snapshot of the table, of which no file need exist.

        Raises:
            SeamlineError: NOT_SUPPORTED.
        """
        tail = table.tail
        assert tail is not None
        if table.newest() is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"scans of {table.name.display}, an upsert table with a tail, are not planned here",
                hint="Read it through /iceberg, where its snapshots are written whole.",
            )
        known = self._snapshots.find(table.uuid, tail.snapshot_id)
        if known is not None:
            return known
        summary = virtual.summary(
            table.base, tail.seam, files=0, rows=tail.seam.hot_offsets, size_bytes=0
        )
        row_id = table.base.get("next-row-id")
        snapshot = self._snapshot(table, tail, summary, row_id, tail.seam.hot_offsets, _UNWRITTEN)
        served = ServedSnapshot(table.source(), snapshot)
        self._snapshots.keep(served)
        return served

    def segments(self, table: ServedTable) -> list[TailSegment] | None:
        """The files of the table's whole tail, None unless all are written."""
        assert table.tail is not None
        return self.store.covered(self._table(table), table.tail.seam.hot_ranges)

    def _table(self, table: ServedTable) -> TailTable:
        """How the table's tail files are written."""
        return TailTable(
            self._storage.io_of(table),
            f"{self._storage.folder_of(table)}/tail",
            table.layout(),
            table.source(),
            table.newest(),
        )

    def _segments(
        self, table: ServedTable, tail: ServedTail, deadline: Deadline
    ) -> list[TailSegment]:
        if tail.seam.hot_offsets > self._tail_offsets_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"the tail of {table.name.display} has {tail.seam.hot_offsets:,} offsets, more "
                f"than {self._tail_offsets_max:,}",
                hint="Tier more often, or raise iceberg.tail_offsets_max.",
            )
        decoder = tail.decoder
        # of an upsert table also the mark that says what is a delete
        wanted = decoder.stored if table.newest() is None else decoder.columns
        names = [column.name for column in wanted]
        return self.store.cover(
            self._table(table),
            tail.seam.hot_ranges,
            lambda ranges: self._rows(table, ranges, names, deadline),
        )

    def _list(
        self, table: ServedTable, tail: ServedTail, segments: Sequence[TailSegment]
    ) -> ServedSnapshot:
        """Writes the snapshot's manifest list."""
        io = self._storage.io_of(table)
        added = [manifest for segment in segments for manifest in segment.manifests]
        cold = virtual.cold_snapshot(table.base, tail.seam.snapshot_id)
        content = manifests.new_list(
            self._cold_list(table, cold["manifest-list"]),
            added,
            snapshot_id=tail.snapshot_id,
            parent_id=cold["snapshot-id"],
            sequence_number=table.base["last-sequence-number"] + 1,
            version=table.version,
            next_row_id=table.base.get("next-row-id") or 0,
        )
        summary = virtual.summary(
            table.base,
            tail.seam,
            files=sum(len(segment.data_paths) for segment in segments),
            rows=sum(segment.rows for segment in segments),
            size_bytes=sum(segment.size_bytes for segment in segments),
            deletes=sum(
                manifest.added_rows_count or 0
                for manifest in added
                if manifest.content == ManifestContent.DELETES
            ),
        )
        row_id, name = content.first_row_id, f"snap-{uuid.uuid4().hex[:8]}"
        snapshot = self._snapshot(table, tail, summary, row_id, content.added_rows, name)
        served = ServedSnapshot(table.source(), snapshot)
        self._snapshots.keep(served)
        manifests.write_list(io, snapshot.manifest_list, content)
        return dataclasses.replace(
            served,
            written=True,
            segments=tuple(segment.segment_id for segment in segments),
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
        """The snapshot, with a manifest list of that name."""
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
