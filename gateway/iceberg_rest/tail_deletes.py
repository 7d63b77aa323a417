"""What tails of upsert tables hide of their snapshots' rows, as deletes by position.

Every reader applies these, or says that it cannot. Their files are of one snapshot and one tail;
they are leased as the files of the tail are, and can always be written again. In version 3 a data
file has one deletion vector at most: one that it has already is merged into the new one, and the
manifest that names it makes room for one that does not.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion

from seamline.connectors.iceberg import manifests
from seamline.connectors.iceberg.errors import manifest_errors
from seamline.connectors.iceberg.partitions import schema_for
from seamline.connectors.iceberg.position_deletes import DeletedRows, plan_deletes, write_deletes
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.row_ids import REFERENCED_FILE
from seamline.connectors.protocols import Deadline
from seamline.gateway.iceberg_rest.hidden_rows import HiddenRowsFinder
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.table import ServedTable

KIND = "deletes"
_VECTORS = 3
"""From this version of the format on, deletes are deletion vectors."""


@dataclasses.dataclass(frozen=True, slots=True)
class TailDeletes:
    """The rows of a snapshot that a tail hides, in files.

    Attributes:
        lease_id: Its name.
        key: Digest of what they are of.
        manifests: Manifests that a virtual snapshot has besides.
        replaced: Paths of the snapshot's own manifests that it does not have for that.
        added: How many deletes are new and how many rows they mark, as summaries of snapshots call
            that.
        removed: Likewise what of the snapshot they replace.
    """

    lease_id: str
    key: str
    manifests: tuple[ManifestFile, ...] = dataclasses.field(hash=False)
    replaced: tuple[str, ...]
    added: Mapping[str, int] = dataclasses.field(hash=False)
    removed: Mapping[str, int] = dataclasses.field(hash=False)

    def to_json(self) -> dict[str, Any]:
        """It as JSON, but for its name."""
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[1:]}
        entries = [manifests.entry_to_json(entry) for entry in self.manifests]
        return {**body, "manifests": entries, "replaced": list(self.replaced)}

    @classmethod
    def from_json(cls, lease_id: str, body: Mapping[str, Any]) -> TailDeletes:
        """The inverse of `to_json`."""
        entries = tuple(manifests.entry_from_json(entry) for entry in body["manifests"])
        given = {**body, "manifests": entries, "replaced": tuple(body["replaced"])}
        return cls(lease_id, **given)


class TailDeletesStore:
    """The deletes of any tables' tails. Safe to share between threads.

    Args:
        leases: Leases on their files.
        memory_bytes: What finding the rows of one may use.
    """

    def __init__(self, leases: Leases, *, memory_bytes: int) -> None:
        self._leases = leases
        self._finder = HiddenRowsFinder(memory_bytes=memory_bytes)
        self._lock = threading.Lock()
        self._finding: collections.defaultdict[str, threading.Lock] = collections.defaultdict(
            threading.Lock
        )
        self._known: dict[str, TailDeletes] = {}
        for lease in leases.held(KIND):
            if lease.body:
                known = TailDeletes.from_json(lease.lease_id, lease.body)
                self._known[known.key] = known

    def cover(
        self,
        table: ServedTable,
        io: FileIO,
        folder: str,
        newest: Callable[[], pa.Table],
        deadline: Deadline,
    ) -> TailDeletes:
        """The deletes of a table's tail, written unless they are there.

        Args:
            table: An upsert table with a tail.
            io: Writes the files.
            folder: Location they are put under.
            newest: Gives the newest row of each key of the tail.
            deadline: The request's.

        Raises:
            SeamlineError: NOT_SUPPORTED where its rows cannot be told by their positions;
                UPSERT_ORDER_UNKNOWN, COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE, …
            OSError: when a file cannot be written.
        """
        key = _key(table)
        with self._lock:
            finding = self._finding[table.uuid]
        with finding:
            known = self._known.get(key)
            if known is not None and not self._leases.renew([known.lease_id]):
                return known
            rows = self._finder.find(table, newest, deadline, whole_files=table.version >= _VECTORS)
            found = self._write(table, key, rows, io, folder)
            with self._lock:
                self._known[key] = found
            return found

    def drop(self, lease_id: str) -> None:
        """Forgets the deletes whose lease has ended."""
        with self._lock:
            for key, known in list(self._known.items()):
                if known.lease_id == lease_id:
                    del self._known[key]

    def _write(
        self, table: ServedTable, key: str, rows: Sequence[DeletedRows], io: FileIO, folder: str
    ) -> TailDeletes:
        lease_id = uuid.uuid4().hex
        folder = f"{folder}/{lease_id}"
        old = _replaced(table, rows) if table.version >= _VECTORS else []
        specs = sorted({one.file.spec_id for one in rows})
        lists = {spec_id: f"{folder}/d{spec_id}.avro" for spec_id in specs}
        rests = {one.manifest.manifest_path: f"{folder}/k{n}.avro" for n, one in enumerate(old)}
        planned = plan_deletes(rows, has_vectors=table.version >= _VECTORS, folder=folder)
        paths = [*(file.path for file in planned), *lists.values(), *rests.values()]
        self._leases.hold(lease_id, KIND, paths, {})
        files = write_deletes(io, planned)
        made = [
            manifests.write_manifest(
                io, path, [f for f in files if f.spec_id == spec_id], *_spec(table, spec_id)
            )
            for spec_id, path in lists.items()
        ]
        made += [
            one.write_rest(table, io, rests[one.manifest.manifest_path]) for one in old if one.rest
        ]
        removed = [entry.data_file for one in old for entry in one.removed]
        found = TailDeletes(
            lease_id,
            key,
            tuple(made),
            tuple(one.manifest.manifest_path for one in old),
            _numbers(files),
            _numbers(removed),
        )
        self._leases.hold(lease_id, KIND, paths, found.to_json())
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Replaced:
    """A manifest of the snapshot of whose deletion vectors some are replaced.

    Attributes:
        manifest: The manifest.
        removed: What is replaced of it.
        rest: What is not.
    """

    manifest: ManifestFile
    removed: tuple[ManifestEntry, ...]
    rest: tuple[ManifestEntry, ...]

    def write_rest(self, table: ServedTable, io: FileIO, path: str) -> ManifestFile:
        """What stands in its place."""
        return manifests.write_kept(
            io, path, self.rest, *_spec(table, self.manifest.partition_spec_id)
        )


def _replaced(table: ServedTable, rows: Sequence[DeletedRows]) -> list[_Replaced]:
    """The manifests with vectors of files that have new ones: a file has one vector at most."""
    assert table.tail is not None
    assert table.tail.seam.snapshot_id is not None
    paths = {one.file.file_path for one in rows}
    found = []
    for manifest in table.cold.manifests(table.tail.seam.snapshot_id):
        if manifest.content == ManifestContent.DELETES:
            removed: list[ManifestEntry] = []
            rest: list[ManifestEntry] = []
            with manifest_errors("manifest", manifest.manifest_path):
                for entry in live_entries(table.cold.iceberg.io, manifest):
                    is_replaced = entry.data_file[REFERENCED_FILE] in paths
                    (removed if is_replaced else rest).append(entry)
            if removed:
                found.append(_Replaced(manifest, tuple(removed), tuple(rest)))
    return found


def _numbers(deletes: Sequence[DataFile]) -> dict[str, int]:
    rows = sum(file.record_count for file in deletes)
    return {"delete-files": len(deletes), "position-deletes": rows}


def _spec(table: ServedTable, spec_id: int) -> tuple[PartitionSpec, Schema, TableVersion]:
    """What a manifest of files of a partition spec is written with."""
    metadata = table.cold.iceberg.metadata
    spec = metadata.specs()[spec_id]
    return spec, schema_for(metadata, spec), table.version


def _key(table: ServedTable) -> str:
    """Equal where the deletes are the same."""
    assert table.tail is not None
    seam = table.tail.seam
    ranges = [(r.partition, r.start, r.end_exclusive) for r in seam.hot_ranges]
    parts = (table.source(), seam.snapshot_id, ranges, table.version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
