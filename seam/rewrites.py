"""Commits that rewrite files without changing a row, as compaction does.

A commit says so itself, with the operation `replace`. It is believed only if its counts agree: as
many records were added as were removed, and there were no deletes before, in or after it.
"""

from __future__ import annotations

from seamline.seam.table import Snapshot, TableState

APPEND, REPLACE = "append", "replace"


def last_rewrite(state: TableState, since: int | None, until: int | None) -> int | None:
    """Returns the sequence number up to which a snapshot has exactly an earlier one's rows.

    Files of `until` with greater sequence numbers hold the rows that were added since, the others
    hold those of `since`. That is known if the commits between are rewrites and then appends.

    Returns:
        The sequence number; None if the commits between may have changed anything else.
    """
    line = list(state.ancestors(until))
    ids = [snapshot.snapshot_id for snapshot in line]
    if since not in ids:
        return None
    before, between = line[ids.index(since)], line[: ids.index(since)][::-1]
    if before.summary.get("total-delete-files") != "0":
        return None
    last = before.sequence_number
    while between and _is_rewrite(between[0]):
        last = between.pop(0).sequence_number
    if last <= 0 or not all(map(_is_append, between)):
        return None
    return last


def _is_rewrite(snapshot: Snapshot) -> bool:
    added, removed = (_count(snapshot, f"{what}-records") for what in ("added", "deleted"))
    return snapshot.operation == REPLACE and added == removed and _has_no_deletes(snapshot)


def _is_append(snapshot: Snapshot) -> bool:
    removed = _count(snapshot, "deleted-data-files"), _count(snapshot, "deleted-records")
    return snapshot.operation == APPEND and removed == (0, 0) and _has_no_deletes(snapshot)


def _has_no_deletes(snapshot: Snapshot) -> bool:
    """Whether a snapshot has no delete files, and its commit neither added nor removed any."""
    counts = ("added-delete-files", "removed-delete-files", "total-delete-files")
    return snapshot.summary.get(counts[-1]) == "0" and not any(
        _count(snapshot, name) for name in counts
    )


def _count(snapshot: Snapshot, name: str) -> int | None:
    """Returns a count of a commit's summary; 0 if it has none, None if that is no number."""
    text = snapshot.summary.get(name, "0")
    return int(text) if text.isdecimal() else None
