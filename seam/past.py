"""Time travel: which snapshot a table version refers to, and the seam at a past moment.

Pure: everything comes from the table's metadata and from what the log reports for the moment.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from seamline.errors import LOG_TRIMMED, TABLE_NOT_FOUND, SeamlineError
from seamline.seam.boundary import ColdSide
from seamline.seam.gaps import same_below
from seamline.seam.history_checks import recreated, require
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.repeat import missing_between, seam_up_to
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql.binder.qualify import TableVersion
from seamline.sql.near import did_you_mean


def version_of(state: TableState, version: TableVersion | None) -> tuple[int | None, int | None]:
    """Returns the snapshot a version refers to, and its schema id: None for the current schema.

    Raises:
        SeamlineError: TABLE_NOT_FOUND when there is no such snapshot, or no longer.
    """
    if version is None:
        return state.current_snapshot_id, None
    snapshot_id = _version_id(state, version)
    snapshot = state.snapshots.get(snapshot_id)
    if snapshot is None:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"table {state.display_name} has no snapshot {snapshot_id}",
            hint="`t$snapshots` lists the snapshots that are kept.",
        )
    is_branch_head = any(
        ref.kind == "branch" and ref.snapshot_id == snapshot_id and name == version.value
        for name, ref in state.refs.items()
    )
    return snapshot_id, None if is_branch_head else snapshot.schema_id


def _version_id(state: TableState, version: TableVersion) -> int:
    match version.value:
        case int():
            return version.value
        case str():
            ref = state.refs.get(version.value)
            if ref is None:
                refs = ", ".join(sorted(state.refs)) or "none"
                raise SeamlineError(
                    TABLE_NOT_FOUND,
                    f"table {state.display_name} has no tag or branch {version.value!r}",
                    hint=did_you_mean(version.value, state.refs) or f"It has: {refs}.",
                )
            return ref.snapshot_id
        case datetime.datetime():
            return snapshot_at(state, version.value)


def milliseconds(moment: datetime.datetime) -> int:
    """Returns whole milliseconds since the epoch, rounded down, as logs and tables count time."""
    return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)


_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def snapshot_at(state: TableState, moment: datetime.datetime) -> int:
    """Returns the snapshot that was the head of the table at a moment.

    Raises:
        SeamlineError: TABLE_NOT_FOUND when no known snapshot is that old.
    """
    moment_ms = milliseconds(moment)
    earlier = [s for at_ms, s in state.snapshot_log if at_ms <= moment_ms]
    if not earlier or earlier[-1] not in state.snapshots:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"table {state.display_name} has no snapshot as old as {moment}",
            hint="`t$snapshots` lists the snapshots that are kept.",
        )
    return earlier[-1]


def travel(
    state: TableState,
    sides: Sequence[ColdSide],
    ends_then: Offsets,
    bounds: LogBounds,
    *,
    cluster: str,
    as_of: str,
) -> Seam:
    """Pins a table to a past moment: its snapshot at that time, and the log up to that time.

    Args:
        state: The table's metadata now.
        sides: The snapshot that was the table's head at the moment, followed by those that may
            stand in for it when the log no longer reaches back to it.
        ends_then: The first offset past the moment, per partition.
        bounds: What the log holds now.
        cluster: Name of the cluster in the configuration.
        as_of: The moment, as written in the statement.

    Raises:
        SeamlineError: TOPIC_RECREATED; LOG_TRIMMED when neither the log nor a later snapshot holds
            what arrived between the moment's snapshot and the moment itself.
    """
    own = sides[0]
    require(recreated(bounds.topic, bounds.topic_id, own.boundary.topic_id))
    snapshot = state.snapshots[own.snapshot_id]
    schema_id = state.current_schema_id if snapshot.schema_id is None else snapshot.schema_id
    ends = {}
    for partition in {**own.boundary.next, **bounds.end}:
        start = own.boundary.next.get(partition, 0)
        stop = min(ends_then.get(partition, start), bounds.end.get(partition, start))
        ends[partition] = max(start, stop)
    end = Offsets(ends)
    for side in sides:
        same = side is own or (
            side.boundary.topic_id == own.boundary.topic_id
            and side.foreign_change_id == own.foreign_change_id
            and same_below(side.boundary.gaps, own.boundary.gaps, bounds.topic_id, end)
        )
        if same and missing_between(side, end, bounds) is None:
            return seam_up_to(
                state, side, end, bounds, cluster=cluster, schema_id=schema_id, as_of=as_of
            )
    raise SeamlineError(
        LOG_TRIMMED,
        f"topic {bounds.topic} no longer reaches back to snapshot {own.snapshot_id}, and no later "
        f"snapshot of {state.display_name} has the same rows",
        hint="Read the snapshot itself with FOR VERSION AS OF; `t$snapshots` lists them.",
    )
