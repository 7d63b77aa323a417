"""The boundary of a snapshot: its own, or that of its nearest ancestor that has one.

The summary property `seamline.boundary` is a JSON value written in every tiering commit. Commits
that do not carry it (compaction, deletes, schema changes, foreign appends) inherit it. A rollback
also rolls back the boundary, because only ancestry decides.

If another writer copies the topic into the table, a boundary provider derives the boundary from
what that writer records. No other code needs to know who wrote a snapshot.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping
from typing import Any, Protocol

from seamline.errors import (
    BOUNDARY_INVALID,
    BOUNDARY_MISSING,
    INVALID_TABLE_DEFINITION,
    SeamlineError,
)
from seamline.seam.gaps import Gap
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState
from seamline.sql import columns

SUMMARY_KEY = "seamline.boundary"
TAG = "seamline-boundary"
"""Tag on the newest snapshot with its own boundary, so that snapshot expiry never drops it."""

_VERSION = 1
_VERSION_OF_SEVERAL_LOGS = 2
"""What a boundary says whose table holds rows of several logs, which older readers would mix."""
REWRITE = "replace"
"""Operation of a commit that rewrites rows into other files without changing them."""

EXACT, DERIVED, HINT = "exact", "derived", "hint"
"""How far a boundary can be trusted.

`exact`: written together with the rows. `derived`: computed from the rows of the snapshot, and
correct if their writer commits without gaps. `hint`: no more than an indication.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierLog:
    """A log that a table continued until its topic was recreated.

    Attributes:
        topic_id: Kafka's id of the topic then.
        next: First offsets of it that are not in the table; whatever was there is lost.
        accepted_ms: When the loss was accepted, in milliseconds since the epoch.
        accepted_by: Who accepted it.
    """

    topic_id: str
    next: Offsets
    accepted_ms: int = 0
    accepted_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns all fields."""
        return {
            "topic_id": self.topic_id,
            "next": self.next.to_json(),
            "accepted_ms": self.accepted_ms,
            "accepted_by": self.accepted_by,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> EarlierLog:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: when it is not one.
        """
        return cls(
            str(body["topic_id"]),
            Offsets.from_json(body["next"]),
            int(body.get("accepted_ms", 0)),
            str(body.get("accepted_by", "")),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """How much of the log a snapshot holds: `next` is `B`, and every range is half-open.

    Guarantee: for each partition p in `next`, the snapshot holds exactly the records that
    `isolation` shows below `next[p]` of the log `topic_id` (from where the table began, and without
    those in `gaps`), and none at or above it. Rows of earlier logs come on top; `first_batch` tells
    them apart.

    Attributes:
        snapshot_id: The snapshot that carries it; a descendant inherits it.
        cluster_id: Kafka's id of the cluster.
        topic: Name of the topic when the boundary was written.
        topic_id: Kafka's id of the topic.
        isolation: The isolation level tiering used; a stitched read must use the same.
        start: Where the batch of this commit began.
        next: First offset not in the snapshot.
        max_timestamp_ms: Greatest record timestamp per partition, in milliseconds; absent if none.
        skipped: Bad records left out under the policy `skip`, since the table began.
        schema_id: Schema the rows of this commit were decoded with.
        format: How the rows were decoded: the text of an `Encoding`; empty if there were no rows.
        on_error: How the bad records among them were handled.
        decoded_from: Per partition, the offset from which all rows have been decoded this way.
        epochs: Leader epoch of each partition when `next` was chosen, if the log reports it. A log
            that lost records below `next` and grew again has a later epoch there.
        base_id: The snapshot the batch of this commit started from; None for the first.
        foreign_change_id: The newest snapshot up to `base_id` in which another writer changed
            rows; None if there is none. Two snapshots with the same id hold the same log rows
            below a common offset.
        taken_id: The newest snapshot of another writer before Seamline took over the table; None
            if it never did.
        handed_to: The provider of the writer that continues from here; empty if Seamline does.
        gaps: Records below `next` that were lost, and are in no tier.
        earlier_logs: The logs that the table continued before this one, oldest first.
        first_batch: The least `_kafka_batch` that a row of this log can have. Rows with a lesser
            one, or none, are not of this log: their offsets mean nothing in it.
        provider: The provider that reported this boundary; empty for Seamline itself.
        trust: `exact`, `derived` or `hint`.
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
    taken_id: int | None = None
    handed_to: str = ""
    gaps: tuple[Gap, ...] = ()
    earlier_logs: tuple[EarlierLog, ...] = ()
    first_batch: int = 0
    provider: str = ""
    trust: str = EXACT

    def batch_id(self, start: Offsets) -> int:
        """Returns the `_kafka_batch` of the rows of a batch that begins at the given offsets.

        It grows with every batch that holds a row, so every row of an earlier batch has a smaller
        value. A second batch from the same boundary has the same value.
        """
        return self.first_batch + sum(start.values())


class BoundaryProvider(Protocol):
    """Determines how much of the log the snapshots of another writer hold.

    A snapshot never changes, so an answer that depends only on the snapshot is cached forever.
    """

    @property
    def name(self) -> str:
        """The name users know it by."""

    @property
    def start(self) -> Offsets:
        """Where its writer began, if that is not the start of the log."""

    def boundary(self, state: TableState, snapshot: Snapshot) -> Boundary | None:
        """Returns the boundary at a snapshot; None if the snapshot inherits its parent's.

        Raises:
            SeamlineError: BOUNDARY_INVALID, BOUNDARY_MISSING, BOUNDARY_NOT_TRUSTED,
                STORAGE_UNAVAILABLE, KAFKA_UNAVAILABLE, …
        """

    def wrote(self, snapshot: Snapshot) -> bool:
        """Whether that writer made the snapshot, and it only adds records of the log."""


def encode(boundary: Boundary) -> str:
    """Returns the summary value of a boundary, without the snapshot id, which is not known yet."""
    body: dict[str, Any] = {
        "v": _VERSION_OF_SEVERAL_LOGS if boundary.earlier_logs else _VERSION,
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
    if boundary.taken_id is not None:
        body["taken"] = boundary.taken_id
    if boundary.handed_to:
        body["handed_to"] = boundary.handed_to
    if boundary.gaps:
        body["gaps"] = [gap.to_json() for gap in boundary.gaps]
    if boundary.earlier_logs:
        body["earlier_logs"] = [log.to_json() for log in boundary.earlier_logs]
        body["first_batch"] = boundary.first_batch
    return json.dumps(body, separators=(",", ":"))


def decode(snapshot: Snapshot) -> Boundary | None:
    """Returns the boundary a snapshot itself carries; None if it carries none.

    Raises:
        SeamlineError: BOUNDARY_INVALID when the boundary cannot be understood.
    """
    text = snapshot.summary.get(SUMMARY_KEY)
    return None if text is None else _decoded(snapshot.snapshot_id, text)


@functools.lru_cache(maxsize=1024)
def _decoded(snapshot_id: int, text: str) -> Boundary:
    """Decodes a boundary; cached, as snapshots never change and a statement asks several times."""
    try:
        body = json.loads(text)
        is_of_several = body["v"] == _VERSION_OF_SEVERAL_LOGS
        if body["v"] != _VERSION and not is_of_several:
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
            taken_id=body.get("taken"),
            handed_to=str(body.get("handed_to", "")),
            gaps=tuple(Gap.from_json(gap) for gap in body.get("gaps", ())),
            earlier_logs=tuple(map(EarlierLog.from_json, body.get("earlier_logs", ()))),
            first_batch=int(body["first_batch"]) if is_of_several else 0,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SeamlineError(
            BOUNDARY_INVALID,
            f"snapshot {snapshot_id} carries a broken boundary: {error!r}",
        ) from error


def own_of(state: TableState, snapshot_id: int | None) -> Boundary | None:
    """Returns the boundary of Seamline's newest own commit among a snapshot and its ancestors.

    Raises:
        SeamlineError: BOUNDARY_INVALID.
    """
    return next(filter(None, map(decode, state.lineage(snapshot_id))), None)


def boundary_of(state: TableState, snapshot_id: int | None) -> Boundary:
    """Returns the boundary at `snapshot_id`: its own, or that of its nearest ancestor with one.

    In a table that changed hands, each writer accounts only for its own snapshots. The current
    writer says nothing about rows that another writer added.

    Raises:
        SeamlineError: BOUNDARY_MISSING when the ancestry ends, or has expired, before a boundary is
            found, or when rows were added by a writer that no longer fills the table.
    """
    if state.provider is not None and _is_filled_by(state, state.provider, snapshot_id):
        for snapshot in state.ancestors(snapshot_id):
            boundary = state.provider.boundary(state, snapshot) or decode(snapshot)
            if boundary is not None:
                return boundary
        raise _missing(state, snapshot_id)
    own = own_of(state, snapshot_id)
    if own is None:
        raise _missing(state, snapshot_id)
    is_present = state.provider is None and not own.handed_to
    if not is_present and _is_added_to(state, own.snapshot_id, snapshot_id):
        raise SeamlineError(
            BOUNDARY_MISSING,
            f"table {state.display_name} has no boundary at snapshot {snapshot_id}: rows were "
            f"added after {own.snapshot_id} by a writer that no longer fills the table",
            hint="Roll the table back to a snapshot before that, or read a later one.",
        )
    return own


def _missing(state: TableState, snapshot_id: int | None) -> SeamlineError:
    """Returns the error for a snapshot that has no boundary in its ancestry."""
    why, hint = "it has no snapshot yet", None
    for seen in state.ancestors(snapshot_id):
        why = (
            f"parent {seen.parent_id} of snapshot {seen.snapshot_id} has expired"
            if seen.parent_id is not None
            else f"its first snapshot, {seen.snapshot_id}, carries none"
        )
    if state.provider is not None:
        why += f", says the provider {state.provider.name}"
        hint = "Adopt the table again, with another --boundary or with --columns."
    elif (kept := _kept(state)) is not None:
        hint = (
            f"Roll the table back to snapshot {kept}, which the tag {TAG} keeps and which carries "
            "the newest boundary: what others committed since is undone, and the log brings the "
            "rest. Expire snapshots with `seamline table maintain`, which avoids this."
        )
    return SeamlineError(
        BOUNDARY_MISSING, f"table {state.display_name} has no boundary: {why}", hint=hint
    )


def _kept(state: TableState) -> int | None:
    """Returns the snapshot that the tag keeps, if it carries a boundary of Seamline's own."""
    ref = state.refs.get(TAG)
    snapshot = None if ref is None else state.snapshots.get(ref.snapshot_id)
    if snapshot is None or SUMMARY_KEY not in snapshot.summary:
        return None
    return snapshot.snapshot_id


def _is_filled_by(state: TableState, provider: BoundaryProvider, snapshot_id: int | None) -> bool:
    """Whether a snapshot was committed after the provider's writer started filling the table.

    That writer fills it from the handover onwards, on the line of snapshots that leads to the head.
    """
    if not provider.start:
        return True  # this writer has always filled it
    is_there = is_ours = False
    for snapshot in state.ancestors(state.current_snapshot_id):
        is_there |= snapshot.snapshot_id == snapshot_id
        own = decode(snapshot)
        if own is not None and own.handed_to:
            return is_there
        is_ours |= own is not None
    return is_there and not is_ours


def _is_added_to(state: TableState, since: int, snapshot_id: int | None) -> bool:
    """Whether anything but a rewrite was committed after `since`, up to `snapshot_id`."""
    newer = itertools.takewhile(lambda s: s.snapshot_id != since, state.lineage(snapshot_id))
    return any(snapshot.operation != REWRITE for snapshot in newer)


def renewed(state: TableState) -> Boundary | None:
    """Returns the boundary a commit on top of the head must repeat; None if the head has its own.

    A boundary reported by another writer's provider is not repeated. Anyone may have made the
    commits between the head and the snapshot with its boundary. They may expire, and then the
    ancestry no longer leads to the boundary.

    Raises:
        SeamlineError: BOUNDARY_MISSING, BOUNDARY_INVALID.
    """
    head = state.current_snapshot_id
    boundary = boundary_of(state, head)
    if boundary.snapshot_id == head or boundary.provider:
        return None
    return dataclasses.replace(
        boundary,
        start=boundary.next,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
        handed_to="" if state.provider is None else boundary.handed_to,
    )


def check_columns(state: TableState) -> None:
    """Checks that the columns that identify a row's record are the ones the table began with.

    If another writer fills the table, its owner defines these columns and nothing is checked.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if state.provider is not None:
        return
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
            f"table {state.display_name} has {problem}: which record a row belongs to is unknown",
            hint="Rename the column back, or recreate the table.",
        )


def foreign_change(state: TableState, snapshot_id: int | None) -> int | None:
    """Returns the newest snapshot up to `snapshot_id` in which someone else changed rows, or None.

    Tiering only adds records of the log, and a rewrite changes no row. If part of the ancestry has
    expired unseen, the commit after it stands for whatever may have happened in that part.
    """
    if state.provider is not None:
        return _change_by_another(state, state.provider, snapshot_id)
    for snapshot in state.lineage(snapshot_id):
        boundary = decode(snapshot)
        if boundary is not None:
            return _change_while_written(state, snapshot, boundary) or boundary.foreign_change_id
        if snapshot.operation != REWRITE:
            return snapshot.snapshot_id
    return None


def _change_by_another(
    state: TableState, provider: BoundaryProvider, snapshot_id: int | None
) -> int | None:
    """Like `foreign_change`, for a table another writer fills; its own appends are not changes."""
    oldest = None
    for snapshot in state.ancestors(snapshot_id):
        if oldest is None:
            own = provider.boundary(state, snapshot)
            if own is not None and own.foreign_change_id is not None:
                return own.foreign_change_id
        if snapshot.operation != REWRITE and not provider.wrote(snapshot):
            return snapshot.snapshot_id
        oldest = snapshot
    return oldest.snapshot_id if oldest is not None and oldest.parent_id is not None else None


def _change_while_written(state: TableState, carrier: Snapshot, boundary: Boundary) -> int | None:
    """Returns a change that landed between the batch's base snapshot and its commit, or None."""
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
        boundary: The boundary at this snapshot.
        foreign_change_id: See `Boundary.foreign_change_id`; the value at this snapshot.
    """

    snapshot_id: int
    boundary: Boundary
    foreign_change_id: int | None = None


def cold_side(state: TableState, snapshot_id: int | None) -> ColdSide:
    """Returns a snapshot together with its boundary.

    Raises:
        SeamlineError: BOUNDARY_MISSING, BOUNDARY_INVALID.
    """
    boundary = boundary_of(state, snapshot_id)
    assert snapshot_id is not None
    return ColdSide(snapshot_id, boundary, foreign_change(state, snapshot_id))


def kept_side(state: TableState, snapshot_id: int | None) -> ColdSide | None:
    """Returns a snapshot with its boundary; None once it or the boundary's source has expired.

    A tag or branch keeps one snapshot, but not its ancestors.

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
