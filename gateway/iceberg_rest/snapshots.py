"""The virtual snapshots a gateway has given out, each for as long as its lease.

A record says what a snapshot holds, so that it can be read by its id: by an engine from its files,
by our own SQL and by a planned scan from its cut.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from seamline.connectors.iceberg.virtual import VirtualSnapshot
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.seam.seam import Seam

KIND = "snapshot"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One virtual snapshot.

    Attributes:
        source: What decided its rows, as text: another text means that they would be others now.
        snapshot: The snapshot.
        written: Whether its tail and its list of manifests are files; else only a planned scan
            can read it.
        segments: Leases of its tail's files.
        spec_ids: Partition specs its tail's files are written with.
    """

    source: str
    snapshot: VirtualSnapshot
    written: bool = False
    segments: tuple[str, ...] = ()
    spec_ids: tuple[int, ...] = ()

    @property
    def seam(self) -> Seam:
        """Its seam."""
        return self.snapshot.seam

    @property
    def leases(self) -> tuple[str, ...]:
        """Everything that must be held for it to be read; first its own."""
        return (f"snapshot-{self.snapshot.snapshot_id}", *self.segments)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON."""
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**body, "snapshot": self.snapshot.to_json()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`."""
        tuples = {name: tuple(body[name]) for name in ("segments", "spec_ids")}
        return cls(**{**body, **tuples, "snapshot": VirtualSnapshot.from_json(body["snapshot"])})


class SnapshotRecords:
    """The records of one gateway. Safe to share between threads.

    Args:
        leases: Holds them.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._lock = threading.Lock()
        self._tables: defaultdict[str, dict[int, Record]] = defaultdict(dict)
        known = [Record.from_json(lease.body) for lease in leases.held(KIND)]
        for record in sorted(known, key=lambda r: r.snapshot.timestamp_ms):
            self._add(record)

    def keep(self, record: Record) -> None:
        """Holds a record, in the place of an earlier one of the same snapshot."""
        paths = [record.snapshot.manifest_list]
        self._leases.hold(record.leases[0], KIND, paths, record.to_json())
        self._add(record)

    def find(self, table_uuid: str, snapshot_id: int) -> Record | None:
        """The record of a snapshot of a table."""
        with self._lock:
            record = self._tables[table_uuid].get(snapshot_id)
        return record if record is not None and self._is_held(record) else None

    def newest(self, table_uuid: str, count: int, *, written: bool) -> list[Record]:
        """The newest records of a table, newest first.

        Args:
            table_uuid: The table.
            count: How many at most.
            written: Whether to leave out those that are not files.
        """
        with self._lock:
            known = list(self._tables[table_uuid].values())
        found: list[Record] = []
        for record in reversed(known):
            if len(found) == count:
                break
            if (record.written or not written) and self._is_held(record):
                found.append(record)
        return found

    def drop(self, body: Mapping[str, Any]) -> None:
        """Forgets the record with that body: its lease has ended."""
        snapshot = body["snapshot"]
        with self._lock:
            records = self._tables[snapshot["seam"]["table_uuid"]]
            records.pop(snapshot["snapshot_id"], None)

    def _add(self, record: Record) -> None:
        with self._lock:
            self._tables[record.seam.table_uuid][record.snapshot.snapshot_id] = record

    def _is_held(self, record: Record) -> bool:
        return self._leases.get(record.leases[0]) is not None
