"""Detects whether somebody else adds records of the topic to a table that Seamline fills.

Anybody may add rows of their own, in batches. But a commit by a sink or a stream, or of rows that
say which record they are, means that the table has records that the boundary does not count. They
would be read from the log a second time. The rows of a stream do not show what it has added, so
they count as records of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from seamline.connectors.iceberg.boundaries.stream_loader import offsets_of
from seamline.connectors.iceberg.boundaries.writers import (
    FLINK,
    FLINK_UPSERTS,
    STREAM_LOADER,
    marked_by,
    updating,
)
from seamline.errors import NOT_SUPPORTED, SECOND_WRITER, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, decode, own_of
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState
from seamline.sql import columns

_APPEND = "append"
_ADD_ROWS = (_APPEND, "overwrite")
_REMOVED = ("deleted-data-files", "added-delete-files")


def second_writer(
    state: TableState,
    snapshot_id: int | None,
    added: Callable[[int, int], bool],
    checked: Snapshot | None = None,
) -> SeamlineError | None:
    """Returns the error to raise if a snapshot's history shows that somebody else copies the topic.

    Args:
        state: A table that Seamline fills.
        snapshot_id: The snapshot.
        added: Whether a snapshot has added a row in which a column, by its field id, is not null.
        checked: A snapshot of Seamline's own for which there was no error, with the same
            `filled_since`; None if there is none.
    """
    for snapshot in _since_we_fill_it(state, snapshot_id, checked):
        if SUMMARY_KEY in snapshot.summary:
            continue
        who = _who(state, snapshot, added)
        if who is not None:
            return SeamlineError(
                SECOND_WRITER,
                f"snapshot {snapshot.snapshot_id} of {state.display_name} has records of the topic "
                f"by {who}, but Seamline copies them, too",
                details={"snapshot_id": snapshot.snapshot_id},
            )
    return _by_stream_loader(state, snapshot_id)


def _by_stream_loader(state: TableState, snapshot_id: int | None) -> SeamlineError | None:
    """Returns the error if stream-loader has copied the topic since Seamline began to.

    Its offsets are properties, which stay after Seamline has taken over; only further offsets are
    new.
    """
    copied = list(offsets_of(state))
    if not copied:
        return None
    binding = TopicBinding.from_properties(state.properties)
    begun = _begun(state, snapshot_id)
    for group, topic, partition, end in copied:
        if binding is not None and topic == binding.topic and end > begun.get(partition, 0):
            return SeamlineError(
                SECOND_WRITER,
                f"the properties of {state.display_name} say that {STREAM_LOADER.name} has copied "
                f"partition {partition} of {topic} up to {end} as {group}, but Seamline copies it, "
                "too",
            )
    return None


def _begun(state: TableState, snapshot_id: int | None) -> Offsets:
    """Returns where Seamline began to fill a table: where the table starts, or at the take-over."""
    own = [b for b in map(decode, state.ancestors(snapshot_id)) if b is not None]
    if not own:
        return Offsets()
    if own[0].taken_id is None:
        return own[-1].start
    return [b for b in own if b.taken_id == own[0].taken_id][-1].next


def filled_since(state: TableState, snapshot_id: int) -> tuple[int | None, int] | None:
    """Returns what a check of a snapshot's history depends on, besides its ancestors.

    If it is the same for a snapshot of Seamline's own that has been checked, the check of a later
    one may end there. It is None if Seamline has no snapshot of its own in that history.

    Args:
        state: A table that Seamline fills.
        snapshot_id: The snapshot.
    """
    own = own_of(state, snapshot_id)
    return None if own is None else (own.taken_id, _offset_column(state))


def _since_we_fill_it(
    state: TableState, snapshot_id: int | None, checked: Snapshot | None
) -> list[Snapshot]:
    """Returns the ancestors of a snapshot that nobody else may have filled, newest first.

    They end before one that has been checked with its own ancestors.
    """
    own = own_of(state, snapshot_id)
    taken = own.taken_id if own is not None else None
    line: list[Snapshot] = []
    begun: int | None = None
    for snapshot in state.ancestors(snapshot_id):
        if snapshot == checked:
            return line
        if snapshot.snapshot_id == taken or (taken is None and SUMMARY_KEY in snapshot.summary):
            begun = len(line)
        line.append(snapshot)
    return line if begun is None else line[:begun]


def replaced_rows(state: TableState, snapshot_id: int | None) -> SeamlineError | None:
    """Returns the error to raise if a table's writer updates rows instead of copying every record.

    Such a table holds the newest record of each key, and the records in its log are not further
    rows of it.
    """
    message = next(_replacing(state, snapshot_id), None)
    if message is None:
        return None
    return SeamlineError(
        NOT_SUPPORTED,
        message,
        hint='Only tables that copy every record can be adopted; "t$cold" reads the snapshot.',
    )


def _replacing(state: TableState, snapshot_id: int | None) -> Iterator[str]:
    for snapshot in state.ancestors(snapshot_id):
        writer = updating(snapshot)
        if writer is not None:
            yield (
                f"snapshot {snapshot.snapshot_id} of {state.display_name} replaces rows: "
                f"{writer.name} keeps the newest record of each key there"
            )
    if state.properties.get(FLINK_UPSERTS, "").lower() == "true":  # its commits may have expired
        yield (
            f"the property {FLINK_UPSERTS} of {state.display_name} says that {FLINK.name} keeps "
            "the newest record of each key there"
        )


def _who(state: TableState, snapshot: Snapshot, added: Callable[[int, int], bool]) -> str | None:
    if snapshot.operation not in _ADD_ROWS:
        return None
    writer = marked_by(snapshot)
    if writer is not None:
        return writer.name
    if not _only_adds(snapshot):
        return None  # the rewritten rows may be ours
    return "another writer" if added(snapshot.snapshot_id, _offset_column(state)) else None


def _offset_column(state: TableState) -> int:
    """Returns the field id of the column with the offsets of records."""
    offset = next(field for field in state.schema.columns if field.name == columns.OFFSET)
    return int(offset.field_id)


def may_have_copied(snapshot: Snapshot) -> bool:
    """Whether a commit may have added records of the topic, for all that its summary says."""
    is_marked = marked_by(snapshot) is not None
    return snapshot.operation in _ADD_ROWS and (is_marked or _only_adds(snapshot))


def _only_adds(snapshot: Snapshot) -> bool:
    """Whether a commit has removed no row, as MERGE does when nothing matches."""
    summary = snapshot.summary
    is_counted = "added-data-files" in summary  # by a writer that would count what it removes, too
    return snapshot.operation == _APPEND or (is_counted and not any(map(summary.get, _REMOVED)))
