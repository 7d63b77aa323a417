"""The metadata of a table as commits of every kind leave it behind, at times that are chosen.

Written from the specification, so that any order of commits can be told, quickly: what real engines
write is in the integration tests.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.virtual import Json, VirtualSnapshot
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam

MAIN = {"type": "branch", "min-snapshots-to-keep": 3, "max-snapshot-age-ms": 5, "max-ref-age-ms": 7}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


class MetadataStory:
    """A table and a gateway that hands it out.

    Attributes:
        now_ms: The gateway's clock.
        skew_ms: How far ahead of it the clock of whoever commits next is.
        base: The table's metadata.
        end: Where its log ends; each tiering commit takes all of it.
    """

    def __init__(self, version: int) -> None:
        self.now_ms = 1_700_000_000_000
        self.skew_ms = 0
        self.end = 0
        self._tiered: dict[int, int] = {}
        self._made: dict[int, VirtualSnapshot] = {}
        self._numbers = itertools.count(1)
        self.base: Json = {
            "format-version": version,
            "table-uuid": UUID,
            "location": "file:///warehouse/t",
            "last-sequence-number": 0,
            "last-updated-ms": self.now_ms,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [_schema(0)],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": -1,
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
        }
        if version >= 3:
            self.base["next-row-id"] = 0
        self.tier()

    @property
    def head(self) -> int:
        """The head of `main`."""
        found: int = self.base["current-snapshot-id"]
        return found

    @property
    def tail(self) -> int:
        """Records that are in the log alone."""
        return self.end - self._tiered[self.head]

    # --- Commits -------------------------------------------------------------------------------

    def commit(self, change: Callable[[Json, int], None]) -> None:
        """Commits a change, given the metadata and the time the committer's clock shows."""
        before = {
            "metadata-file": f"file:///warehouse/t/metadata/{next(self._numbers)}.metadata.json",
            "timestamp-ms": self.base["last-updated-ms"],
        }
        body = copy.deepcopy(self.base)
        body["metadata-log"] = [*body["metadata-log"], before][-5:]
        body["last-updated-ms"] = max(self.now_ms + self.skew_ms, body["last-updated-ms"])
        change(body, body["last-updated-ms"])
        self.base = body

    def add(self, branch: str = "main", **summary: str) -> int:
        """Commits a snapshot to a branch."""
        snapshot_id = 1000 + next(self._numbers)

        def change(body: Json, at_ms: int) -> None:
            parent = body["refs"].get(branch, {}).get("snapshot-id")
            body["last-sequence-number"] += 1
            snapshot = {
                "snapshot-id": snapshot_id,
                "sequence-number": body["last-sequence-number"],
                "timestamp-ms": at_ms,
                "manifest-list": f"file:///warehouse/t/metadata/{snapshot_id}.avro",
                "summary": {"operation": "append", **summary},
                "schema-id": body["current-schema-id"],
            }
            if parent is not None:
                snapshot["parent-snapshot-id"] = parent
            if body["format-version"] >= 3:
                snapshot |= {"first-row-id": body["next-row-id"], "added-rows": 10}
                body["next-row-id"] += 10
            body["snapshots"].append(snapshot)
            known = body["refs"].get(branch, MAIN if branch == "main" else {"type": "branch"})
            body["refs"][branch] = {**known, "snapshot-id": snapshot_id}
            if branch == "main":
                _move(body, snapshot_id, at_ms)

        self.commit(change)
        return snapshot_id

    def tier(self) -> None:
        """Commits the whole tail."""
        self._tiered[self.add()] = self.end

    def rewrite(self) -> None:
        """Commits what changes no boundary, such as a compaction."""
        tiered = self._tiered[self.head]
        self._tiered[self.add()] = tiered

    def roll_back(self, number: int) -> None:
        """Moves `main` to a snapshot it once was at."""
        ids = [s["snapshot-id"] for s in self.base["snapshots"]]
        known = [snapshot_id for snapshot_id in ids if snapshot_id in self._tiered]
        to = known[number % len(known)]

        def change(body: Json, at_ms: int) -> None:
            body["refs"]["main"] = {**body["refs"]["main"], "snapshot-id": to}
            _move(body, to, at_ms)

        self.commit(change)

    def expire(self) -> None:
        """Removes what no branch or tag names, and the log before the first gap, as Java does."""

        def change(body: Json, _: int) -> None:
            named = {ref["snapshot-id"] for ref in body["refs"].values()}
            body["snapshots"] = [s for s in body["snapshots"] if s["snapshot-id"] in named]
            log: list[Json] = []
            for entry in body["snapshot-log"]:
                log = [*log, entry] if entry["snapshot-id"] in named else []
            body["snapshot-log"] = log

        self.commit(change)

    def name(self, name: str, kind: str) -> None:
        """Makes a branch or a tag of the head."""
        ref = {"type": kind, "snapshot-id": self.head}
        self.commit(lambda body, _: body["refs"].update({name: ref}))

    def change_schema(self) -> None:
        """Adds a column."""

        def change(body: Json, _: int) -> None:
            number = len(body["schemas"])
            body["schemas"].append(_schema(number))
            body |= {"current-schema-id": number, "last-column-id": number + 1}

        self.commit(change)

    def upgrade(self) -> None:
        """Lifts the table to version 3."""

        def change(body: Json, _: int) -> None:
            body["format-version"] = 3
            body.setdefault("next-row-id", 0)

        self.commit(change)

    # --- Given out -----------------------------------------------------------------------------

    def given_out(self) -> tuple[Json, int]:
        """The metadata a reader gets now, and the snapshot it is to read."""
        current = self._virtual() if self.tail else None
        moment_ms = virtual.as_of_ms(self.base, current, self.now_ms - virtual.SKEW_MS)
        body = virtual.with_snapshots(
            self.base, "file:///warehouse/t/own.json", moment_ms, current, self._made.values()
        )
        if current is not None:
            self._made[current.snapshot_id] = current
        return body, current.snapshot_id if current else self.head

    def _virtual(self) -> VirtualSnapshot:
        schema_id = self.base["current-schema-id"]
        start, end = Offsets({0: self._tiered[self.head]}), Offsets({0: self.end})
        seam = Seam(
            table=("lake", "t"),
            table_uuid=UUID,
            schema_id=schema_id,
            cold=ColdPart(self.head),
            log=LogPart(topic_id="topic"),
            boundary=start,
            end=end,
        )
        found = virtual.snapshot_id(seam, [s["snapshot-id"] for s in self.base["snapshots"]])
        if found in self._made:
            return self._made[found]
        has_row_ids = self.base["format-version"] >= 3
        return VirtualSnapshot(
            seam=seam,
            snapshot_id=found,
            sequence_number=self.base["last-sequence-number"] + 1,
            timestamp_ms=self.now_ms - virtual.SKEW_MS,
            manifest_list=f"file:///live/{found}.avro",
            summary=virtual.summary(
                self.base,
                seam,
                {"data-files": 1, "records": self.tail, "files-size": 10},
                {},
                is_overwrite=False,
            ),
            first_row_id=self.base["next-row-id"] if has_row_ids else None,
            added_rows=self.tail if has_row_ids else None,
        )


EVENTS: Mapping[str, Callable[[MetadataStory, int], Any]] = {
    "produce": lambda story, number: setattr(story, "end", story.end + number % 5 + 1),
    "tier": lambda story, _: story.tier(),
    "compact": lambda story, _: story.rewrite(),
    "set a property": lambda story, n: story.commit(lambda b, _: b["properties"].update(p=str(n))),
    "tag": lambda story, number: story.name(f"tag{number % 3}", "tag"),
    "branch": lambda story, number: story.name(f"branch{number % 3}", "branch"),
    "commit to a branch": lambda story, number: story.add(f"branch{number % 3}"),
    "expire": lambda story, _: story.expire(),
    "roll back": lambda story, number: story.roll_back(number),
    "change the schema": lambda story, _: story.change_schema(),
    "upgrade": lambda story, _: story.upgrade(),
    "statistics": lambda story, _: story.commit(_add_statistics),
}


def _add_statistics(body: Json, _: int) -> None:
    body["statistics"] = [
        {
            "snapshot-id": body["current-snapshot-id"],
            "statistics-path": "file:///warehouse/t/metadata/s.puffin",
            "file-size-in-bytes": 10,
            "file-footer-size-in-bytes": 5,
            "blob-metadata": [],
        }
    ]


def _move(body: Json, snapshot_id: int, at_ms: int) -> None:
    body["current-snapshot-id"] = snapshot_id
    body["snapshot-log"].append({"snapshot-id": snapshot_id, "timestamp-ms": at_ms})


def _schema(number: int) -> Json:
    fields = [
        {"id": i + 1, "name": f"c{i}", "required": False, "type": "long"} for i in range(number + 1)
    ]
    return {"type": "struct", "schema-id": number, "fields": fields}
