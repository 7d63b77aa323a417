"""Virtual snapshots made: the tail's files, the list of manifests, and the record of both.

A record is kept before the first file is written and again when all of them are, so that what was
left half done is found and removed.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.manifest import ManifestFile

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg import manifests, virtual
from seamline.connectors.iceberg.errors import manifest_errors, storage_errors
from seamline.connectors.iceberg.virtual import VirtualSnapshot
from seamline.connectors.protocols import Deadline
from seamline.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.snapshots import Record, SnapshotRecords
from seamline.gateway.iceberg_rest.storage import LiveStorage
from seamline.gateway.iceberg_rest.table import LiveTable, LiveTail
from seamline.gateway.iceberg_rest.tail_store import TailSegment, TailStore, TailTable
from seamline.seam.offsets import OffsetRange

Rows = Callable[[LiveTable, Sequence[OffsetRange], Sequence[str], Deadline], pa.Table]
"""Decoded rows of ranges of a table's tail, with the columns named."""

_LISTS_CACHED_MAX = 64
_UNWRITTEN = "this-catalog-plans-scans-and-only-reads"
"""Names the list of a snapshot that has none; who looks for it all the same reads why."""


class SnapshotWriter:
    """Makes virtual snapshots. Safe to share between threads.

    Args:
        leases: Holds what is written.
        records: Where the snapshots are remembered.
        storage: Where their files are put.
        rows: Gives the rows of tails.
        tail_offsets_max: A longer tail is not written.
    """

    def __init__(
        self,
        leases: Leases,
        records: SnapshotRecords,
        storage: LiveStorage,
        rows: Rows,
        *,
        tail_offsets_max: int,
    ) -> None:
        self._leases = leases
        self._storage = storage
        self._rows = rows
        self._tail_offsets_max = tail_offsets_max
        self.records = records
        self.store = TailStore(leases)
        self._lists: Cache[str, tuple[ManifestFile, ...]] = Cache(_LISTS_CACHED_MAX)

    def written(self, live: LiveTable, deadline: Deadline) -> Record:
        """The virtual snapshot of the table, its tail written as files.

        Raises:
            SeamlineError: named after the cause.
        """
        tail = live.tail
        assert tail is not None
        known = self.records.find(live.uuid, tail.snapshot_id)
        if known is not None and known.written and not self._leases.renew(known.leases):
            return known
        with storage_errors(f"table {live.name.display}"):
            segments = self._segments(live, tail, deadline)
            record = self._list(live, tail, segments)
        self.records.keep(record)
        return record

    def announced(self, live: LiveTable) -> Record:
        """The virtual snapshot of the table, of which no file needs to exist."""
        tail = live.tail
        assert tail is not None
        known = self.records.find(live.uuid, tail.snapshot_id)
        if known is not None:
            return known
        summary = virtual.summary(
            live.base, tail.seam, files=0, rows=tail.seam.hot_offsets, size_bytes=0
        )
        row_id = live.base.get("next-row-id")
        snapshot = self._snapshot(live, tail, summary, row_id, tail.seam.hot_offsets, _UNWRITTEN)
        record = Record(live.source(), snapshot)
        self.records.keep(record)
        return record

    def segments(self, live: LiveTable) -> list[TailSegment] | None:
        """The files of the table's whole tail, None when they are not all written."""
        assert live.tail is not None
        return self.store.covered(self._table(live), live.tail.seam.hot_ranges)

    def _table(self, live: LiveTable) -> TailTable:
        """The table as its tail files are written."""
        return TailTable(
            self._storage.io_of(live),
            f"{self._storage.folder_of(live)}/tail",
            live.layout(),
            live.source(),
        )

    def _segments(self, live: LiveTable, tail: LiveTail, deadline: Deadline) -> list[TailSegment]:
        if tail.seam.hot_offsets > self._tail_offsets_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"the tail of {live.name.display} has {tail.seam.hot_offsets:,} offsets, more than "
                f"{self._tail_offsets_max:,}",
                hint="Tier more often, or raise iceberg.tail_offsets_max.",
            )
        names = [column.name for column in tail.decoder.columns]
        return self.store.cover(
            self._table(live),
            tail.seam.hot_ranges,
            lambda ranges: self._rows(live, ranges, names, deadline),
        )

    def _list(self, live: LiveTable, tail: LiveTail, segments: Sequence[TailSegment]) -> Record:
        """Writes the snapshot's list of manifests."""
        io = self._storage.io_of(live)
        added = [manifest for segment in segments for manifest in segment.manifests]
        cold = virtual.cold_snapshot(live.base, tail.seam.snapshot_id)
        content = manifests.new_list(
            self._cold_list(live, cold["manifest-list"]),
            added,
            snapshot_id=tail.snapshot_id,
            parent_id=cold["snapshot-id"],
            sequence_number=live.base["last-sequence-number"] + 1,
            version=live.version,
            next_row_id=live.base.get("next-row-id") or 0,
        )
        summary = virtual.summary(
            live.base,
            tail.seam,
            files=sum(len(segment.data_paths) for segment in segments),
            rows=sum(segment.rows for segment in segments),
            size_bytes=sum(segment.size_bytes for segment in segments),
        )
        row_id, name = content.first_row_id, f"snap-{uuid.uuid4().hex[:8]}"
        snapshot = self._snapshot(live, tail, summary, row_id, content.added_rows, name)
        record = Record(live.source(), snapshot)
        self.records.keep(record)
        manifests.write_list(io, snapshot.manifest_list, content)
        return dataclasses.replace(
            record,
            written=True,
            segments=tuple(segment.segment_id for segment in segments),
            spec_ids=tuple(sorted({manifest.partition_spec_id for manifest in added})),
        )

    def _snapshot(
        self,
        live: LiveTable,
        tail: LiveTail,
        summary: dict[str, str],
        first_row_id: int | None,
        added_rows: int,
        name: str,
    ) -> VirtualSnapshot:
        """The snapshot, its list of manifests under a name."""
        has_row_ids = live.version >= 3
        assert live.moment_ms is not None
        return VirtualSnapshot(
            seam=tail.seam,
            snapshot_id=tail.snapshot_id,
            sequence_number=live.base["last-sequence-number"] + 1,
            timestamp_ms=live.moment_ms,
            manifest_list=f"{self._storage.folder_of(live)}/metadata/{name}-{tail.snapshot_id}.avro",
            summary=summary,
            first_row_id=(first_row_id or 0) if has_row_ids else None,
            added_rows=added_rows if has_row_ids else None,
        )

    def _cold_list(self, live: LiveTable, path: str) -> tuple[ManifestFile, ...]:
        io = live.cold.iceberg.io
        with manifest_errors("manifest list", path):
            return self._lists.get_or_make(path, lambda: manifests.read_list(io, path))
