"""Virtual snapshots: a table's metadata with one more snapshot, which also holds the tail.

The snapshot is never committed. Its id is derived from what it holds, so it is the same whenever
the snapshot is made again. The rest of the metadata says what it would say after a commit of the
snapshot: parent, sequence number, the head of `main`, the snapshot log, row ids in version 3. All
functions here are pure. They take metadata as the JSON of its file and return JSON, so nothing that
a newer version of the format adds is lost.

Some readers resolve a table by time: they take the snapshot that the log names for the start of
their transaction, by their own clock. So a virtual snapshot replaces the table's own head from the
moment at which that became the head, and nothing that is served is younger than `SKEW_MS`. Then a
commit that lands while a statement starts can hide neither the tail nor the rows that it moved out
of the tail.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV1

from seamline.seam.seam import Seam

Json: TypeAlias = dict[str, Any]

SKEW_MS = 60_000
"""How far a reader's clock, or the start of its transaction, may be behind our clock. Iceberg
itself lets the clocks of writers differ by as much."""
END_KEY = "seamline.end"
"""Summary property of a virtual snapshot: the exclusive end of each partition it holds."""


def snapshot_id(
    seam: Seam, taken: Collection[int], on_error: str = "fail", version: int = 2
) -> int:
    """Returns the id of the seam's snapshot: the same for the same rows, and never a taken one.

    Args:
        seam: The seam.
        taken: Ids of other snapshots of the table.
        on_error: How bad records are handled, which also affects rows.
        version: The format version that it is served in; since version 3, its rows have ids.
    """
    rows = {
        "table_uuid": seam.table_uuid,
        "snapshot_id": seam.cold.snapshot_id,
        "schema_id": seam.schema_id,
        "topic_id": seam.log.topic_id,
        "start": seam.boundary.to_json(),
        "end": seam.end.to_json(),
    }
    if on_error != "fail":
        rows["on_error"] = on_error
    if version >= 3:
        rows["format_version"] = version
    if seam.log.end_epochs:  # a new leader may continue at offsets that the log has lost
        rows["leaders"] = seam.log.end_epochs.to_json()
    text = json.dumps(rows, sort_keys=True)
    for attempt in range(1 << 16):
        digest = hashlib.sha256(f"seamline {attempt} {text}".encode()).digest()
        snapshot_id: int = int.from_bytes(digest[:8], "big") >> 1
        if snapshot_id and snapshot_id not in taken:
            return snapshot_id
    raise AssertionError("65,536 ids in a row are taken")


def readable_base(metadata: Json) -> Json:
    """Returns metadata that can have virtual snapshots: version 1 is upgraded to version 2."""
    if metadata["format-version"] != 1:
        return metadata
    parsed = TableMetadataUtil.parse_obj(metadata)
    assert isinstance(parsed, TableMetadataV1)
    lifted: Json = json.loads(parsed.to_v2().model_dump_json())
    return lifted


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualSnapshot:
    """A virtual snapshot, as table metadata lists it.

    Attributes:
        seam: What it holds: a cold snapshot and a tail.
        snapshot_id: Its id.
        sequence_number: One more than the last sequence number of the table it was made for.
        timestamp_ms: The moment it claims to be from: `SKEW_MS` before it was made.
        manifest_list: Where its manifest list is, or would be.
        summary: Its summary.
        first_row_id: Version 3: the first of its own row ids.
        added_rows: Version 3: how many row ids it assigns.
    """

    seam: Seam
    snapshot_id: int
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: Mapping[str, str] = dataclasses.field(hash=False)
    first_row_id: int | None = None
    added_rows: int | None = None

    def to_iceberg(self) -> Json:
        """Returns its entry in table metadata."""
        body: Json = {
            "snapshot-id": self.snapshot_id,
            "parent-snapshot-id": self.seam.cold.snapshot_id,
            "sequence-number": self.sequence_number,
            "timestamp-ms": self.timestamp_ms,
            "manifest-list": self.manifest_list,
            "summary": dict(self.summary),
            "schema-id": self.seam.schema_id,
        }
        if self.first_row_id is not None:
            body["first-row-id"] = self.first_row_id
            body["added-rows"] = self.added_rows or 0
        return body

    def to_json(self) -> Json:
        """Returns all of its fields as JSON, to be stored."""
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**body, "seam": self.seam.to_json(), "summary": {**self.summary}}

    @classmethod
    def from_json(cls, body: Json) -> VirtualSnapshot:
        """The inverse of `to_json`."""
        return cls(**{**body, "seam": Seam.from_json(body["seam"])})


def summary(
    base: Json,
    seam: Seam,
    added: Mapping[str, int],
    removed: Mapping[str, int],
    *,
    is_overwrite: bool,
) -> dict[str, str]:
    """Returns the summary of a virtual snapshot, given what it adds to the cold one and removes.

    Args:
        base: The table's own metadata.
        seam: The seam of the snapshot.
        added: What it adds, by Iceberg's names: `data-files`, `records`, `position-deletes`, …
        removed: What it removes, likewise.
        is_overwrite: Whether it may change existing rows.
    """
    cold = cold_snapshot(base, seam.cold.snapshot_id).get("summary", {})
    operation = "overwrite" if is_overwrite else "append"
    body = {"operation": operation, END_KEY: json.dumps(seam.end.to_json(), separators=(",", ":"))}
    for way, numbers in (("added", added), ("removed", removed)):
        body |= {f"{way}-{name}": str(number) for name, number in numbers.items() if number}
    for name in _TOTALS:
        if f"total-{name}" in cold:
            change = added.get(name, 0) - removed.get(name, 0)
            body[f"total-{name}"] = str(int(cold[f"total-{name}"]) + change)
    return body


_TOTALS = (
    *("data-files", "records", "files-size"),
    *("delete-files", "equality-deletes", "position-deletes"),
)


def cold_snapshot(base: Json, snapshot_id: int | None) -> Json:
    """Returns the entry of a snapshot that the metadata is known to list."""
    entry: Json = next(s for s in base["snapshots"] if s["snapshot-id"] == snapshot_id)
    return entry


def as_of_ms(base: Json, current: VirtualSnapshot | None, moment_ms: int | None) -> int | None:
    """Returns the latest time that served metadata may contain; None when it needs no limit.

    Args:
        base: The table's own metadata.
        current: The virtual snapshot that is its head, if any; its time is then the limit.
        moment_ms: A moment that every reader's clock has passed; None for a plain table.
    """
    if current is not None:
        return current.timestamp_ms
    if moment_ms is None or not base.get("snapshots") or base["last-updated-ms"] <= moment_ms:
        return None
    return moment_ms


def with_snapshots(
    base: Json,
    base_location: str,
    moment_ms: int | None,
    current: VirtualSnapshot | None,
    others: Iterable[VirtualSnapshot],
) -> Json:
    """Returns the metadata with virtual snapshots added.

    Args:
        base: The table's own metadata, of version 2 or later.
        base_location: The location of its metadata file.
        moment_ms: See `as_of_ms`.
        current: The snapshot to make the head of `main`; None keeps the table's own head.
        others: Further snapshots that can be read by their ids.
    """
    listed = [s for s in others if current is None or s.snapshot_id != current.snapshot_id]
    body = _listing(base, listed if current is None else [*listed, current])
    head_ms = head_since_ms(base)
    if current is not None:
        body |= _headed(base, current)
        head_ms += 1
    if moment_ms is not None:
        body |= _times(base, base_location, moment_ms, body["current-snapshot-id"], head_ms)
    return body


def _headed(base: Json, current: VirtualSnapshot) -> Json:
    """Returns the fields that make a virtual snapshot the head."""
    refs = base.get("refs", {})
    main = {**refs.get("main", {"type": "branch"}), "snapshot-id": current.snapshot_id}
    body: Json = {
        "current-snapshot-id": current.snapshot_id,
        "refs": {**refs, "main": main},
    }
    if current.first_row_id is not None:
        taken = current.first_row_id + (current.added_rows or 0)
        body["next-row-id"] = max(base.get("next-row-id", 0), taken)
    return body


def _times(base: Json, base_location: str, moment_ms: int, head: int, head_ms: int) -> Json:
    """Returns the fields that hold times, none of them later than a moment.

    The log's last entry has a time that no other has, since some readers sort the log by time.
    """
    own = {"metadata-file": base_location, "timestamp-ms": base["last-updated-ms"]}
    files = [*base.get("metadata-log", []), own]
    last = {"snapshot-id": head, "timestamp-ms": min(head_ms, moment_ms)}
    log = [e for e in base.get("snapshot-log", []) if e["timestamp-ms"] < last["timestamp-ms"]]
    return {
        "last-updated-ms": moment_ms,
        "metadata-log": [file for file in files if file["timestamp-ms"] <= moment_ms],
        "snapshot-log": [*log, last],
    }


def head_since_ms(base: Json) -> int:
    """Returns when the current snapshot became the head of `main`."""
    logged = [entry["timestamp-ms"] for entry in base.get("snapshot-log", [])]
    head = base.get("current-snapshot-id")
    own = [s["timestamp-ms"] for s in base.get("snapshots", []) if s["snapshot-id"] == head]
    return int(max(logged or own, default=base["last-updated-ms"]))


def _listing(base: Json, listed: list[VirtualSnapshot]) -> Json:
    real = {s["snapshot-id"] for s in base.get("snapshots", [])}
    schemas = {schema["schema-id"] for schema in base["schemas"]}
    added = [s for s in listed if s.snapshot_id not in real and s.seam.schema_id in schemas]
    numbers = [s.sequence_number for s in added]
    return {
        **base,
        "last-sequence-number": max([base["last-sequence-number"], *numbers]),
        "snapshots": [*base.get("snapshots", []), *(s.to_iceberg() for s in added)],
    }


def only_referenced(metadata: Json) -> Json:
    """Returns the metadata with only the current snapshot and those that a branch or tag names."""
    named = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()}
    named.add(metadata.get("current-snapshot-id"))
    kept = [s for s in metadata.get("snapshots", []) if s["snapshot-id"] in named]
    return {**metadata, "snapshots": kept}
