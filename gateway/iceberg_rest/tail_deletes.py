"""Position deletes for the snapshot rows that the tails of upsert tables hide.

Every reader applies position deletes, or says that it cannot. Their files belong to one snapshot
and one tail; they are leased like the files of the tail, and can always be written again. In
format version 3, a data file has at most one deletion vector. So an existing vector is merged into
the new one, and the manifest that names it is replaced by one without it.
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
from seamline.connectors.iceberg.position_deletes import (
    VECTORS,
    DeletedRows,
    plan_deletes,
    write_deletes,
)
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.row_ids import REFERENCED_FILE
from seamline.connectors.protocols.deadlines import Deadline
from seamline.gateway.iceberg_rest.hidden_rows import HiddenRowsFinder
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.served_table import ServedTable

KIND = "deletes"


@dataclasses.dataclass(frozen=True, slots=True)
class TailDeletes:
    """The rows of a snapshot that a tail hides, in files.

    Attributes:
        lease_id: Their name.
        key: Digest of the snapshot and tail that they belong to.
        manifests: Manifests that a virtual snapshot has in addition.
        replaced: Paths of the snapshot's own manifests that it omits in return.
        added: The numbers of new delete files and of the rows they mark, by their names in snapshot
            summaries.
        removed: The same for the delete files of the snapshot that they replace.
    """

    lease_id: str
    key: str
    manifests: tuple[ManifestFile, ...] = dataclasses.field(hash=False)
    replaced: tuple[str, ...]
    added: Mapping[str, int] = dataclasses.field(hash=False)
    removed: Mapping[str, int] = dataclasses.field(hash=False)

    def to_json(self) -> dict[str, Any]:
        """Returns everything except its name, JSON-ready."""
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[1:]}
        entries = [manifests.entry_to_json(entry) for entry in self.manifests]
        return {**body, "manifests": entries, "replaced": list(self.replaced)}

    @classmethod
    def from_json(cls, lease_id: str, body: Mapping[str, Any]) -> TailDeletes:
        """Returns the inverse of `to_json`."""
        entries = tuple(manifests.entry_from_json(entry) for entry in body["manifests"])
        given = {**body, "manifests": entries, "replaced": tuple(body["replaced"])}
        return cls(lease_id, **given)


class TailDeletesStore:
    """The deletes of any tables' tails. Safe to share between threads.

    Args:
        leases: Leases on their files.
        memory_bytes: The memory that finding the rows of one table may use.
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
                deletes = TailDeletes.from_json(lease.lease_id, lease.body)
                self._known[deletes.key] = deletes

    def cover(
        self,
        table: ServedTable,
        io: FileIO,
        folder: str,
        newest: Callable[[], pa.Table],
        deadline: Deadline,
    ) -> TailDeletes:
        """Returns the deletes of a table's tail, and writes them unless they exist.

        Args:
            table: An upsert table with a tail.
            io: Writes the files.
            folder: Location that they are stored under.
            newest: Returns the newest row of each key of the tail.
            deadline: The deadline of the request.

        Raises:
            SeamlineError: NOT_SUPPORTED if its rows cannot be identified by position;
                UPSERT_ORDER_UNKNOWN, COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE, …
            OSError: when a file cannot be written.
        """
        key = _key(table)
        with self._lock:
            finding = self._finding[table.uuid]
        with finding:
            existing = self._known.get(key)
            if existing is not None and not self._leases.renew([existing.lease_id]):
                return existing
            rows = self._finder.find(table, newest, deadline, whole_files=table.version >= VECTORS)
            written = self._write(table, key, rows, io, folder)
            with self._lock:
                self._known[key] = written
            return written

    def drop(self, lease_id: str) -> None:
        """Forgets the deletes whose lease has ended."""
        with self._lock:
            for key, deletes in list(self._known.items()):
                if deletes.lease_id == lease_id:
                    del self._known[key]

    def _write(
        self, table: ServedTable, key: str, rows: Sequence[DeletedRows], io: FileIO, folder: str
    ) -> TailDeletes:
        lease_id = uuid.uuid4().hex
        folder = f"{folder}/{lease_id}"
        old = _replaced(table, rows) if table.version >= VECTORS else []
        specs = sorted({one.file.spec_id for one in rows})
        lists = {spec_id: f"{folder}/d{spec_id}.avro" for spec_id in specs}
        rests = {one.manifest.manifest_path: f"{folder}/k{n}.avro" for n, one in enumerate(old)}
        planned = plan_deletes(rows, has_vectors=table.version >= VECTORS, folder=folder)
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
        deletes = TailDeletes(
            lease_id,
            key,
            tuple(made),
            tuple(one.manifest.manifest_path for one in old),
            _numbers(files),
            _numbers(removed),
        )
        self._leases.hold(lease_id, KIND, paths, deletes.to_json())
        return deletes


@dataclasses.dataclass(frozen=True, slots=True)
class _Replaced:
    """A manifest of the snapshot, some of whose deletion vectors are replaced.

    Attributes:
        manifest: The manifest.
        removed: Its entries that are replaced.
        rest: Its entries that are kept.
    """

    manifest: ManifestFile
    removed: tuple[ManifestEntry, ...]
    rest: tuple[ManifestEntry, ...]

    def write_rest(self, table: ServedTable, io: FileIO, path: str) -> ManifestFile:
        """Writes the manifest that takes its place."""
        return manifests.write_kept(
            io, path, self.rest, *_spec(table, self.manifest.partition_spec_id)
        )


def _replaced(table: ServedTable, rows: Sequence[DeletedRows]) -> list[_Replaced]:
    """Returns the manifests with vectors to be replaced, as a file has at most one vector."""
    assert table.tail is not None
    assert table.tail.seam.cold.snapshot_id is not None
    paths = {one.file.file_path for one in rows}
    replaced = []
    for manifest in table.cold.manifests(table.tail.seam.cold.snapshot_id):
        if manifest.content == ManifestContent.DELETES:
            removed: list[ManifestEntry] = []
            rest: list[ManifestEntry] = []
            with manifest_errors("manifest", manifest.manifest_path):
                for entry in live_entries(table.cold.iceberg.io, manifest):
                    is_replaced = entry.data_file[REFERENCED_FILE] in paths
                    (removed if is_replaced else rest).append(entry)
            if removed:
                replaced.append(_Replaced(manifest, tuple(removed), tuple(rest)))
    return replaced


def _numbers(deletes: Sequence[DataFile]) -> dict[str, int]:
    rows = sum(file.record_count for file in deletes)
    return {"delete-files": len(deletes), "position-deletes": rows}


def _spec(table: ServedTable, spec_id: int) -> tuple[PartitionSpec, Schema, TableVersion]:
    """Returns what is needed to write a manifest of a partition spec's files."""
    metadata = table.cold.iceberg.metadata
    spec = metadata.specs()[spec_id]
    return spec, schema_for(metadata, spec), table.version


def _key(table: ServedTable) -> str:
    """Returns a digest that is equal if the deletes are the same."""
    assert table.tail is not None
    seam = table.tail.seam
    ranges = [(r.partition, r.start, r.end_exclusive) for r in seam.hot_ranges]
    parts = (table.source(), seam.cold.snapshot_id, ranges, table.version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
