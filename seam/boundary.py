"""The boundary of a snapshot: read from its summary, or from its nearest ancestor that has one.

The summary property `seamline.boundary` is one JSON value, written in every tiering commit.
Commits that do not carry it (compaction, deletes, schema changes, foreign appends) inherit it, and
a rollback takes it back with the data, because only ancestry decides.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from seamline.errors import (
    BOUNDARY_INVALID,
    BOUNDARY_MISSING,
    INVALID_TABLE_DEFINITION,
    SeamlineError,
)
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState
from seamline.sql import columns

SUMMARY_KEY = "seamline.boundary"
TAG = "seamline-boundary"
"""Tag on the newest snapshot with a boundary of its own, so that no expiry drops it."""

_VERSION = 1
REWRITE = "replace"
"""Operation of a commit that rewrites rows into other files and changes none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """How far a snapshot holds the log: `next` is `B`, and every range is half-open.

    Guarantee: for each partition p in `next`, the snapshot holds exactly the records that
    `isolation` shows below `next[p]` of the log `topic_id` (from where the table began), and none
    at or above it.

    Attributes:
        snapshot_id: The snapshot that carries it; a descendant inherits it.
        cluster_id: Kafka's id of the cluster.
        topic: Name of the topic when it was written.
        topic_id: Kafka's id of the topic.
        isolation: What tiering read under; a stitched read must use the same.
        start: Where the batch of this commit began.
        next: First offset not in the snapshot.
        max_timestamp_ms: Greatest record time seen per partition, milliseconds; absent if none.
        skipped: Bad records left out under the policy `skip`, since the table began.
        schema_id: Schema the rows of this commit were decoded with.
        format: How they were decoded; empty when no rows were.
        on_error: What became of the bad ones among them.
        decoded_from: The offset from which on all rows have been decoded so, per partition.
        epochs: Leader epoch each partition had when `next` was chosen, where the log gives it: a
            log that has lost records below `next` and grown again has a later one there.
        base_id: The snapshot the batch of this commit started from; None for the first.
        foreign_change_id: The newest snapshot up to `base_id` in which somebody else changed
            rows; None when nobody has. Two snapshots with the same one hold the same rows of the
            log below a common offset.
    """

    snapshot_id: int
    cluster_id: str
    topic: str
    topic_id: str
    isolation: str
    start: Offsets
    next: Offsets
    max_timestamp_ms: Offsets = dataclasses.field(default_factory=Offsets)
    skipped: int = 0
    schema_id: int | None = None
    format: str = ""
    on_error: str = ""
    decoded_from: Offsets = dataclasses.field(default_factory=Offsets)
    epochs: Offsets = dataclasses.field(default_factory=Offsets)
    base_id: int | None = None
    foreign_change_id: int | None = None


def encode(boundary: Boundary) -> str:
    """The summary value of a boundary. The snapshot id is not part of it: it is not known yet."""
    body: dict[str, Any] = {
        "v": _VERSION,
        "cluster_id": boundary.cluster_id,
        "topic": boundary.topic,
        "topic_id": boundary.topic_id,
        "isolation": boundary.isolation,
        "start": boundary.start.to_json(),
        "next": boundary.next.to_json(),
        "max_ts": boundary.max_timestamp_ms.to_json(),
    }
    if boundary.skipped:
        body["skipped"] = boundary.skipped
    if boundary.schema_id is not None:
        body["schema_id"] = boundary.schema_id
    if boundary.format:
        body["format"] = boundary.format
        body["on_error"] = boundary.on_error
        body["decoded_from"] = boundary.decoded_from.to_json()
    if boundary.epochs:
        body["epochs"] = boundary.epochs.to_json()
    if boundary.base_id is not None:
        body["base"] = boundary.base_id
    if boundary.foreign_change_id is not None:
        body["foreign_change"] = boundary.foreign_change_id
    return json.dumps(body, separators=(",", ":"))


def decode(snapshot: Snapshot) -> Boundary | None:
    """The boundary a snapshot itself carries, None when it carries none.

    Raises:
        SeamlineError: BOUNDARY_INVALID when it carries one that cannot be understood.
    """
    text = snapshot.summary.get(SUMMARY_KEY)
    return None if text is None else _decoded(snapshot.snapshot_id, text)


@functools.lru_cache(maxsize=1024)
def _decoded(snapshot_id: int, text: str) -> Boundary:
    """A snapshot never changes, and a statement asks for its boundary several times."""
    try:
        body = json.loads(text)
        if body["v"] != _VERSION:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"snapshot {snapshot_id} carries a boundary of version {body['v']!r}",
                hint="A newer Seamline wrote it: upgrade this one.",
            )
        return Boundary(
            snapshot_id=snapshot_id,
            cluster_id=str(body["cluster_id"]),
            topic=str(body["topic"]),
            topic_id=str(body["topic_id"]),
            isolation=str(body["isolation"]),
            start=Offsets.from_json(body["start"]),
            next=Offsets.from_json(body["next"]),
            max_timestamp_ms=Offsets.from_json(body.get("max_ts", {})),
            skipped=int(body.get("skipped", 0)),
            schema_id=body.get("schema_id"),
            format=str(body.get("format", "")),
            on_error=str(body.get("on_error", "")),
            decoded_from=Offsets.from_json(body.get("decoded_from", {})),
            epochs=Offsets.from_json(body.get("epochs", {})),
            base_id=body.get("base"),
            foreign_change_id=body.get("foreign_change"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SeamlineError(
            BOUNDARY_INVALID,
            f"snapshot {snapshot_id} carries a broken boundary: {error!r}",
        ) from error


def boundary_of(state: TableState, snapshot_id: int | None) -> Boundary:
    """The boundary that holds at `snapshot_id`: its own, or that of its nearest ancestor with one.

    Raises:
        SeamlineError: BOUNDARY_MISSING when ancestry ends, or has expired, before one is found.
    """
    seen = None
    for snapshot in state.ancestors(snapshot_id):
        boundary = decode(snapshot)
        if boundary is not None:
            return boundary
        seen = snapshot
    why = "it has no snapshot yet"
    if seen is not None:
        why = (
            f"parent {seen.parent_id} of snapshot {seen.snapshot_id} has expired"
            if seen.parent_id is not None
            else f"its first snapshot, {seen.snapshot_id}, carries none"
        )
    raise SeamlineError(BOUNDARY_MISSING, f"table {state.display_name} has no boundary: {why}")


def renewed(state: TableState) -> Boundary | None:
    """The boundary that a commit on top of the head repeats; None when the head carries its own.

    The commits between a head without one and its boundary are anybody's, and may expire: then
    ancestry no longer leads there.

    Raises:
        SeamlineError: BOUNDARY_MISSING, BOUNDARY_INVALID.
    """
    head = state.current_snapshot_id
    boundary = boundary_of(state, head)
    if boundary.snapshot_id == head:
        return None
    return dataclasses.replace(
        boundary,
        start=boundary.next,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
    )


def check_columns(state: TableState) -> None:
    """The columns that say which record a row is must be the ones the table began with.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    first = state.schemas[min(state.schemas)]
    began = {field.name: field.field_id for field in first.columns}
    now = {field.name: field.field_id for field in state.schema.columns}
    for name in columns.POSITION_NAMES:
        if name in now and now[name] == began.get(name, now[name]):
            continue
        problem = (
            f"a column {name} that is not the one it began with"
            if name in now
            else f"no column {name}"
        )
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"table {state.display_name} has {problem}: which record a row is cannot be told",
            hint="Rename the column back, or create the table anew.",
        )


def foreign_change(state: TableState, snapshot_id: int | None) -> int | None:
    """The newest snapshot, up to `snapshot_id`, in which somebody else changed rows; or None.

    Tiering only adds records of the log, and a rewrite changes no row. Where a part of the line
    has expired unseen, the commit after it stands for whatever may have happened in it.
    """
    for snapshot in state.ancestors(snapshot_id):
        boundary = decode(snapshot)
        if boundary is not None:
            return _change_while_written(state, snapshot, boundary) or boundary.foreign_change_id
        if snapshot.operation != REWRITE:
            return snapshot.snapshot_id
    return None


def _change_while_written(state: TableState, carrier: Snapshot, boundary: Boundary) -> int | None:
    """A change that landed between the snapshot a batch started from and the batch's commit."""
    between = carrier.parent_id
    while between != boundary.base_id:
        snapshot = state.snapshots.get(between) if between is not None else None
        if snapshot is None:
            return carrier.snapshot_id
        if snapshot.operation != REWRITE and SUMMARY_KEY not in snapshot.summary:
            return snapshot.snapshot_id
        between = snapshot.parent_id
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class ColdSide:
    """A snapshot that a read may take its cold rows from.

    Attributes:
        snapshot_id: The snapshot.
        boundary: The boundary at it.
        foreign_change_id: See `Boundary.foreign_change_id`, at it.
    """

    snapshot_id: int
    boundary: Boundary
    foreign_change_id: int | None = None


def cold_side(state: TableState, snapshot_id: int | None) -> ColdSide:
    """A snapshot with the boundary at it.

    Raises:
        SeamlineError: BOUNDARY_MISSING, BOUNDARY_INVALID.
    """
    boundary = boundary_of(state, snapshot_id)
    assert snapshot_id is not None
    return ColdSide(snapshot_id, boundary, foreign_change(state, snapshot_id))


def kept_side(state: TableState, snapshot_id: int | None) -> ColdSide | None:
    """A snapshot with the boundary at it; None once it, or what it inherits that from, has expired.

    A tag or branch keeps one snapshot, not those before it.

    Raises:
        SeamlineError: BOUNDARY_INVALID.
    """
    if snapshot_id not in state.snapshots:
        return None
    try:
        return cold_side(state, snapshot_id)
    except SeamlineError as error:
        if error.code is not BOUNDARY_MISSING:
            raise
        return None
