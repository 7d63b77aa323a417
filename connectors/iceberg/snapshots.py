"""Writes the files of a snapshot that changes rows: its manifests and the list of them.

Who makes the snapshot decides which files it adds and which entries it removes, and commits it.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Sequence

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.typedef import TableVersion

from seamline.connectors.iceberg import manifests
from seamline.connectors.iceberg.partitions import schema_for


class NewSnapshot:
    """A snapshot in the making, on top of the head.

    Args:
        table: The table as it was loaded.
        metadata: Its metadata, or what other updates of the same commit make of it.

    Attributes:
        snapshot_id: Its id.
        parent: The head; None if the table has no snapshot.
        written: Paths of what has been written for it; whoever writes more adds it.
    """

    def __init__(self, table: PyTable, metadata: TableMetadata) -> None:
        self.snapshot_id = metadata.new_snapshot_id()
        self.parent = metadata.current_snapshot()
        self.written: list[str] = []
        self._io = table.io
        self._locations = table.location_provider()
        self._metadata = metadata

    def added(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        """Writes manifests of new files: one for each content and partition spec."""
        groups: dict[tuple[int, bool], list[DataFile]] = {}
        for file in files:
            is_data = file.content == DataFileContent.DATA
            groups.setdefault((file.spec_id, is_data), []).append(file)
        return [
            manifests.write_manifest(
                self._io, self._new_manifest(), groups[kind], *self._layout(kind[0])
            )
            for kind in sorted(groups)
        ]

    def without(
        self,
        manifest: ManifestFile,
        kept: Sequence[ManifestEntry],
        removed: Sequence[ManifestEntry],
    ) -> ManifestFile:
        """Writes a manifest in place of one of the head's, some of whose entries are removed."""
        return manifests.write_kept(
            self._io,
            self._new_manifest(),
            kept,
            *self._layout(manifest.partition_spec_id),
            removed=removed,
            removed_by=self.snapshot_id,
        )

    def finish(
        self, kept: Iterable[ManifestFile], made: Iterable[ManifestFile], summary: Summary
    ) -> Snapshot:
        """Writes the list of the snapshot's manifests.

        Args:
            kept: Manifests of the head.
            made: Those that were written for the snapshot.
            summary: Its summary.
        """
        metadata = self._metadata
        listed = manifests.new_list(
            kept,
            made,
            snapshot_id=self.snapshot_id,
            parent_id=self.parent.snapshot_id if self.parent else None,
            sequence_number=metadata.next_sequence_number(),
            version=metadata.format_version,
            next_row_id=getattr(metadata, "next_row_id", None) or 0,
        )
        path = self._new_path(f"snap-{self.snapshot_id}-0-{uuid.uuid4()}.avro")
        manifests.write_list(self._io, path, listed)
        row_ids = {}
        if listed.first_row_id is not None:
            row_ids = {"first_row_id": listed.first_row_id, "added_rows": listed.added_rows}
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=listed.parent_id,
            sequence_number=listed.sequence_number,
            timestamp_ms=max(int(time.time() * 1000), metadata.last_updated_ms),
            manifest_list=path,
            summary=summary,
            schema_id=metadata.current_schema_id,
            **row_ids,
        )

    def remove(self, paths: Iterable[str] | None = None) -> None:
        """Removes files, or what was written if it did not land, as far as possible."""
        for path in self.written if paths is None else paths:
            with contextlib.suppress(OSError):
                self._io.delete(path)

    def _layout(self, spec_id: int) -> tuple[PartitionSpec, Schema, TableVersion]:
        spec = self._metadata.specs()[spec_id]
        return spec, schema_for(self._metadata, spec), self._metadata.format_version

    def _new_manifest(self) -> str:
        return self._new_path(f"{uuid.uuid4()}-m0.avro")

    def _new_path(self, name: str) -> str:
        path = self._locations.new_metadata_location(name)
        self.written.append(path)
        return path
