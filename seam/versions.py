"""Which snapshot a statement means by `FOR VERSION AS OF` and `FOR TIMESTAMP AS OF`.

Pure: everything is in the table's metadata.
"""

from __future__ import annotations

import datetime

from seamline.errors import TABLE_NOT_FOUND, SeamlineError
from seamline.seam.table import TableState
from seamline.sql.qualify import TableVersion


def version_of(state: TableState, version: TableVersion | None) -> tuple[int | None, int | None]:
    """The snapshot a version means, and its schema: None for the present one.

    Raises:
        SeamlineError: TABLE_NOT_FOUND when there is none, or none any more.
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
                known = ", ".join(sorted(state.refs)) or "none"
                raise SeamlineError(
                    TABLE_NOT_FOUND,
                    f"table {state.display_name} has no tag or branch {version.value!r}",
                    hint=f"It has: {known}.",
                )
            return ref.snapshot_id
        case datetime.datetime():
            return snapshot_at(state, version.value)


def snapshot_at(state: TableState, moment: datetime.datetime) -> int:
    """The snapshot that was the head of the table at a moment.

    Raises:
        SeamlineError: TABLE_NOT_FOUND when none that is known is as old.
    """
    moment_ms = int(moment.timestamp() * 1000)
    earlier = [s for at_ms, s in state.snapshot_log if at_ms <= moment_ms]
    if not earlier or earlier[-1] not in state.snapshots:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"table {state.display_name} has no snapshot as old as {moment}",
            hint="`t$snapshots` lists the snapshots that are kept.",
        )
    return earlier[-1]
