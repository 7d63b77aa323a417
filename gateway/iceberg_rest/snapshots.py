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
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam

KIND = "snapshot"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One virtual snapshot.

    Attributes:
        table: Full name of its table, catalog first.
        source: What decided its rows, as text: another text means that they would be others now.
        cluster: Name of the cluster its tail is in.
        topic: Name of the topic.
        isolation: What the tail is read under.
        epochs: Leader epochs the log had where the tail begins.
        foreign_change_id: See `Boundary.foreign_change_id`, at the cold snapshot.
        snapshot: The snapshot.
        written: Whether its tail and its list of manifests are files; else only a planned scan
            can read it.
        segments: Leases of its tail's files.
        spec_ids: Partition specs its tail's files are written with.
    """

    table: tuple[str, ...]
    source: str
    cluster: str
    topic: str
    isolation: str
    epochs: Offsets
    foreign_change_id: int | None
    snapshot: VirtualSnapshot
    written: bool = False
    segments: tuple[str, ...] = ()
    spec_ids: tuple[int, ...] = ()

    @property
    def seam(self) -> Seam:
        """Its seam."""
        cut = self.snapshot.cut
        return Seam(
            table=self.table,
            table_uuid=cut.table_uuid,
            snapshot_id=cut.snapshot_id,
            schema_id=cut.schema_id,
            cluster=self.cluster,
            topic=self.topic,
            topic_id=cut.topic_id,
            isolation=self.isolation,
            boundary=cut.start,
            end=cut.end,
            epochs=self.epochs,
            foreign_change_id=self.foreign_change_id,
        )

    @property
    def leases(self) -> tuple[str, ...]:
        """Everything that must be held for it to be read; first its own."""
        return (f"snapshot-{self.snapshot.snapshot_id}", *self.segments)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON."""
        return {
            **dataclasses.asdict(dataclasses.replace(self, epochs=Offsets())),
            "epochs": self.epochs.to_json(),
            "snapshot": self.snapshot.to_json(),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`."""
        tuples = {name: tuple(body[name]) for name in ("table", "segments", "spec_ids")}
        epochs = Offsets.from_json(body["epochs"])
        snapshot = VirtualSnapshot.from_json(body["snapshot"])
        return cls(**{**body, **tuples, "epochs": epochs, "snapshot": snapshot})


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
            records = self._tables[snapshot["cut"]["table_uuid"]]
            records.pop(snapshot["snapshot_id"], None)

    def _add(self, record: Record) -> None:
        with self._lock:
            self._tables[record.snapshot.cut.table_uuid][record.snapshot.snapshot_id] = record

    def _is_held(self, record: Record) -> bool:
        return self._leases.get(record.leases[0]) is not None
