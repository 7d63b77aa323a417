"""Whether somebody else adds records of the topic to a table that Seamline fills.

Rows of their own anybody may add. But a commit by a writer that copies topics, or of rows that say
which record they are, means that records are in the table which the boundary does not count, and
which would be read from the log once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyiceberg.manifest import DataFile

from seamline.connectors.iceberg.boundaries.writers import (
    AUTOMQ,
    FLUSS,
    KAFKA_CONNECT,
    REDPANDA,
    marked_by,
    updating,
)
from seamline.errors import NOT_SUPPORTED, SECOND_WRITER, SeamlineError
from seamline.seam.boundary import SUMMARY_KEY, own_of
from seamline.seam.table import Snapshot, TableState
from seamline.sql import columns

_APPEND = "append"
_COPY_TOPICS = (KAFKA_CONNECT, FLUSS, REDPANDA, AUTOMQ)
"""Writers that write nothing else."""


def second_writer(
    state: TableState, snapshot_id: int | None, added: Callable[[int], Sequence[DataFile]]
) -> SeamlineError | None:
    """The error that a commit in a snapshot's line is, if somebody else copies the topic, too.

    Args:
        state: A table that Seamline fills.
        snapshot_id: The snapshot.
        added: Gives the files that a snapshot has added.
    """
    for snapshot in _since_we_fill_it(state, snapshot_id):
        if SUMMARY_KEY in snapshot.summary or snapshot.operation != _APPEND:
            continue
        who = _who(state, snapshot, added)
        if who is not None:
            return SeamlineError(
                SECOND_WRITER,
                f"snapshot {snapshot.snapshot_id} of {state.display_name} has records of the topic "
                f"by {who}, and Seamline copies them, too",
                details={"snapshot_id": snapshot.snapshot_id},
            )
    return None


def _since_we_fill_it(state: TableState, snapshot_id: int | None) -> list[Snapshot]:
    """The snapshots of a line that nobody else may have filled, newest first."""
    line = list(state.ancestors(snapshot_id))
    own = own_of(state, snapshot_id)
    taken = own.taken_id if own is not None else None
    begun = [
        place
        for place, snapshot in enumerate(line)
        if snapshot.snapshot_id == taken or (taken is None and SUMMARY_KEY in snapshot.summary)
    ]
    return line[: begun[-1]] if begun else line


def replaced_rows(state: TableState, snapshot_id: int | None) -> SeamlineError | None:
    """The error that a table is whose writer does not copy every record, but updates rows.

    Such a table is the newest record of each key, and what is in its log is not more rows of it.
    """
    for snapshot in state.ancestors(snapshot_id):
        writer = updating(snapshot)
        if writer is not None:
            return SeamlineError(
                NOT_SUPPORTED,
                f"snapshot {snapshot.snapshot_id} of {state.display_name} replaces rows: "
                f"{writer.name} keeps the newest record of each key there",
                hint="Only tables that are a copy of every record are adopted; "
                '"t$cold" reads the snapshot.',
            )
    return None


def _who(
    state: TableState, snapshot: Snapshot, added: Callable[[int], Sequence[DataFile]]
) -> str | None:
    writer = marked_by(snapshot)
    if writer in _COPY_TOPICS:
        return writer.name
    offset = next(field for field in state.schema.columns if field.name == columns.OFFSET)
    for file in added(snapshot.snapshot_id):
        nulls = (file.null_value_counts or {}).get(offset.field_id)
        has_bounds = offset.field_id in (file.lower_bounds or {})
        if has_bounds and nulls != file.record_count:
            return writer.name if writer is not None else "another writer"
    return None
