"""Composes the table metadata that is served, writes it to its own file, and caches it.

Clients distinguish states of a table by the location of its metadata, so each version has
its own file, named after its content. A table with nothing virtual keeps its own metadata.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Hashable, Sequence

from pyiceberg.io import FileIO

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.virtual import Json
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.served_table import UNPARTITIONED_SPEC_ID, ServedTable
from seamline.gateway.iceberg_rest.snapshots import ServedSnapshot
from seamline.gateway.iceberg_rest.storage import SnapshotStorage

KIND = "metadata"
_CACHED_BYTES_MAX = 64 << 20
_KEPT = {"gc.enabled": "false"}
"""Iceberg's word for files that others need, too: clients must not collect garbage among them.

The folder holds the files of every leased snapshot, while this metadata names only some of them.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedMetadata:
    """Metadata as it is served.

    Attributes:
        location: The file that holds all of it.
        text: What the client gets: all of it, or all except snapshots that no reference names.
        etag: A tag of the text.
        lease_id: The lease on the file; None for the table's own.
    """

    location: str
    text: bytes
    etag: str
    lease_id: str | None


class MetadataWriter:
    """Composes metadata and writes it. Safe to share between threads."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._cached: Cache[Hashable, ServedMetadata] = Cache(
            _CACHED_BYTES_MAX, weight=lambda served: len(served.text)
        )

    def compose(
        self,
        table: ServedTable,
        current: ServedSnapshot | None,
        others: Sequence[ServedSnapshot],
        storage: SnapshotStorage,
        *,
        planned: bool,
        only_referenced: bool,
    ) -> ServedMetadata:
        """Returns the metadata of a table with virtual snapshots.

        Args:
            table: The table.
            current: The virtual snapshot that becomes its head; None keeps its own head.
            others: Further snapshots that it lists.
            storage: Where the file is written, if one is needed.
            planned: Whether its scans are planned here.
            only_referenced: Whether to leave out snapshots that no branch or tag names.

        Raises:
            OSError: when the file cannot be written.
        """
        ids = tuple(served.snapshot for served in others)
        as_of_ms = _as_of_ms(table, current)
        key = (table.file.location, as_of_ms, current, ids, planned, only_referenced)
        cached = self._cached.get(key)
        if cached is not None and self._is_there(cached):
            return cached
        location, text, lease_id = table.file.location, table.file.text, None
        body = table.file.body
        if current is not None or others or as_of_ms is not None:
            body = _composed(table, current, others, planned=planned)
            folder = storage.folder_of(table)
            body["location"] = folder  # some readers expect the metadata under it
            body["properties"] = {**body.get("properties", {}), **_KEPT}
            text = _text(body)
            lease_id = hashlib.sha256(text).hexdigest()[:32]
            location = f"{folder}/metadata/00000-{uuid.UUID(lease_id)}.metadata.json"
            self._write(storage.io_of(table), location, text, lease_id)
        if only_referenced:
            text = _text(virtual.only_referenced(body))
        etag = hashlib.sha256(text).hexdigest()[:24]
        metadata = ServedMetadata(location, text, etag, lease_id)
        self._cached.put(key, metadata)
        return metadata

    def _is_there(self, metadata: ServedMetadata) -> bool:
        return metadata.lease_id is None or not self._leases.renew([metadata.lease_id])

    def _write(self, io: FileIO, location: str, text: bytes, lease_id: str) -> None:
        if not self._leases.renew([lease_id]):
            return
        self._leases.hold(lease_id, KIND, [location], {})
        try:
            with io.new_output(location).create(overwrite=True) as stream:
                stream.write(text)
        except BaseException:
            self._leases.release(lease_id)
            raise


def _as_of_ms(table: ServedTable, current: ServedSnapshot | None) -> int | None:
    return virtual.as_of_ms(table.base, current.snapshot if current else None, table.moment_ms)


def _composed(
    table: ServedTable,
    current: ServedSnapshot | None,
    others: Sequence[ServedSnapshot],
    *,
    planned: bool,
) -> Json:
    body = virtual.with_snapshots(
        table.base,
        table.file.location,
        _as_of_ms(table, current),
        current.snapshot if current else None,
        [served.snapshot for served in reversed(others)],
    )
    used = {spec_id for s in (current, *others) if s is not None for spec_id in s.spec_ids}
    if planned:  # a planned scan's tail is never partitioned
        used.add(table.unpartitioned.spec_id)
    if UNPARTITIONED_SPEC_ID in used:
        extra = {"spec-id": UNPARTITIONED_SPEC_ID, "fields": []}
        body["partition-specs"] = [*body["partition-specs"], extra]
    return body


def _text(body: Json) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
