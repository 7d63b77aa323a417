"""Table metadata as it is given out: composed, written to a file of its own, and kept.

Clients tell one state of a table from another by the location of its metadata, so every distinct
metadata has its own, named after what it says. A table without anything virtual keeps its own.
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
from seamline.gateway.iceberg_rest.snapshots import Record
from seamline.gateway.iceberg_rest.table import UNPARTITIONED_SPEC_ID, LiveTable

KIND = "metadata"
_CACHED_MAX = 128


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """Metadata as it is given out.

    Attributes:
        location: The file that holds all of it.
        text: What is given out: all of it, or all but the snapshots nothing refers to.
        etag: Changes with either.
        lease_id: Holds the file; None for the table's own.
    """

    location: str
    text: bytes
    etag: str
    lease_id: str | None


class Documents:
    """Composes and keeps metadata. Safe to share between threads.

    Args:
        leases: Holds the files.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._cached: Cache[Hashable, Document] = Cache(_CACHED_MAX)

    def compose(
        self,
        live: LiveTable,
        current: Record | None,
        others: Sequence[Record],
        io: FileIO,
        folder: str,
        *,
        planned: bool,
        only_referenced: bool,
    ) -> Document:
        """The metadata of a table with virtual snapshots.

        Args:
            live: The table.
            current: The snapshot that is its head; None leaves its own.
            others: Further ones it lists.
            io: Writes the file.
            folder: Location it is put under.
            planned: Whether scans of it are planned here.
            only_referenced: Whether to leave out snapshots that no branch or tag names.

        Raises:
            OSError: when the file cannot be written.
        """
        ids = tuple(record.snapshot for record in others)
        as_of_ms = _as_of_ms(live, current)
        key = (live.file.location, as_of_ms, current, ids, planned, only_referenced)
        known = self._cached.get(key)
        if known is not None and self._is_there(known):
            return known
        found = self._make(
            live, current, others, io, folder, planned=planned, only_referenced=only_referenced
        )
        self._cached.put(key, found)
        return found

    def _is_there(self, document: Document) -> bool:
        return document.lease_id is None or not self._leases.renew([document.lease_id])

    def _make(
        self,
        live: LiveTable,
        current: Record | None,
        others: Sequence[Record],
        io: FileIO,
        folder: str,
        *,
        planned: bool,
        only_referenced: bool,
    ) -> Document:
        if current is None and not others and _as_of_ms(live, current) is None:
            text = live.file.text
            location, lease_id = live.file.location, None
            body = live.file.body
        else:
            body = _composed(live, current, others, planned=planned)
            body["location"] = folder  # some readers want a table's metadata under its location
            text = _text(body)
            lease_id = hashlib.sha256(text).hexdigest()[:32]
            location = f"{folder}/metadata/00000-{uuid.UUID(lease_id)}.metadata.json"
            self._write(io, location, text, lease_id)
        if only_referenced:
            text = _text(virtual.only_referenced(body))
        return Document(location, text, hashlib.sha256(text).hexdigest()[:24], lease_id)

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


def _as_of_ms(live: LiveTable, current: Record | None) -> int | None:
    return virtual.as_of_ms(live.base, current.snapshot if current else None, live.moment_ms)


def _composed(
    live: LiveTable, current: Record | None, others: Sequence[Record], *, planned: bool
) -> Json:
    body = virtual.with_snapshots(
        live.base,
        live.file.location,
        _as_of_ms(live, current),
        current.snapshot if current else None,
        [record.snapshot for record in reversed(others)],
    )
    used = {spec_id for r in (current, *others) if r is not None for spec_id in r.spec_ids}
    if planned:  # a planned scan's tail is never partitioned
        used.add(live.unpartitioned.spec_id)
    if UNPARTITIONED_SPEC_ID in used:
        extra = {"spec-id": UNPARTITIONED_SPEC_ID, "fields": []}
        body["partition-specs"] = [*body["partition-specs"], extra]
    return body


def _text(body: Json) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
