"""The virtual snapshots that a gateway has served, each for as long as its lease lasts.

A snapshot's content is remembered, so that it can be read by its id: by an engine from its files,
and by Seamline's SQL and planned scans from its seam.
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
class ServedSnapshot:
    """One virtual snapshot that was served.

    Attributes:
        source: A text that describes what determined its rows; if it differs now, the rows may
            differ, too.
        snapshot: The snapshot.
        written: Whether its tail and its manifest list have been written; if not, only a planned
            scan can read it.
        segments: Leases on the files of its tail.
        spec_ids: Ids of the partition specs that these files were written with.
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
        """All leases that it needs to be readable, its own first."""
        return (f"snapshot-{self.snapshot.snapshot_id}", *self.segments)

    def to_json(self) -> dict[str, Any]:
        """Returns the snapshot, JSON-ready."""
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**body, "snapshot": self.snapshot.to_json()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ServedSnapshot:
        """Returns the inverse of `to_json`."""
        tuples = {name: tuple(body[name]) for name in ("segments", "spec_ids")}
        return cls(**{**body, **tuples, "snapshot": VirtualSnapshot.from_json(body["snapshot"])})


class ServedSnapshots:
    """The snapshots that one gateway has served. Safe to share between threads."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._lock = threading.Lock()
        self._tables: defaultdict[str, dict[int, ServedSnapshot]] = defaultdict(dict)
        leased = [ServedSnapshot.from_json(lease.body) for lease in leases.held(KIND)]
        for served in sorted(leased, key=lambda s: s.snapshot.timestamp_ms):
            self._add(served)

    def keep(self, served: ServedSnapshot) -> None:
        """Records a snapshot, replacing what was known about it."""
        paths = [served.snapshot.manifest_list]
        self._leases.hold(served.leases[0], KIND, paths, served.to_json())
        self._add(served)

    def find(self, table_uuid: str, snapshot_id: int) -> ServedSnapshot | None:
        """Returns a snapshot of a table, or None once its lease has ended."""
        with self._lock:
            served = self._tables[table_uuid].get(snapshot_id)
        return served if served is not None and self._is_held(served) else None

    def newest(self, table_uuid: str, count: int, *, written: bool) -> list[ServedSnapshot]:
        """Returns the newest snapshots of a table, newest first.

        Args:
            table_uuid: The table.
            count: The maximum number of snapshots.
            written: Whether to leave out those that were never written.
        """
        with self._lock:
            of_table = list(self._tables[table_uuid].values())
        newest: list[ServedSnapshot] = []
        for served in reversed(of_table):
            if len(newest) == count:
                break
            if (served.written or not written) and self._is_held(served):
                newest.append(served)
        return newest

    def drop(self, body: Mapping[str, Any]) -> None:
        """Forgets the snapshot whose lease had this body and has ended."""
        snapshot = body["snapshot"]
        with self._lock:
            self._tables[snapshot["seam"]["table_uuid"]].pop(snapshot["snapshot_id"], None)

    def _add(self, served: ServedSnapshot) -> None:
        with self._lock:
            self._tables[served.seam.table_uuid][served.snapshot.snapshot_id] = served

    def _is_held(self, served: ServedSnapshot) -> bool:
        return self._leases.get(served.leases[0]) is not None
