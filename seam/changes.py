"""Changes: the part of a seam that an earlier seam of the same table does not have.

Records of a log are added and never changed. So the difference between two seams is, per partition,
the offsets from the end of the earlier seam to the end of the later one. Those below the boundary
are rows of the snapshot, which keep their offsets; the others are in the log. As multisets of rows,
whatever is tiered in between:

    rows(later) - rows(earlier) = rows(between(later, earlier))

This holds as long as only the pipeline has changed rows; anything else is refused. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.errors import (
    HISTORY_CHANGED,
    INVALID_ARGUMENT,
    INVALID_TOKEN,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.seam.boundary import kept_side
from seamline.seam.gaps import past
from seamline.seam.history_checks import require, trimmed
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.records import Places
from seamline.seam.seam import ChangeRange, Seam
from seamline.seam.table import TableState
from seamline.sql.predicates import And, Comparison, Or, Predicate

_PARTITIONS_SAID_MAX = 64
"""With more partitions than this, a predicate tests only the smallest start offset."""


def between(later: Seam, earlier: Seam | None, *, offsets_max: int | None = None) -> Seam:
    """Returns the seam of the rows that a later seam has and an earlier one does not.

    Args:
        later: Where the changes end. Both seams are of the same table and of the current log.
        earlier: Where the changes begin; None for the first record there is.
        offsets_max: Ends the changes earlier, after this many offsets.

    Raises:
        SeamlineError: INVALID_TOKEN when the earlier seam is of a snapshot alone, HISTORY_CHANGED
            when another writer changed rows in between, INVALID_ARGUMENT when `earlier` is in fact
            the later of the two.
    """
    starts: Mapping[int, int] = {}
    if earlier is not None:
        starts = earlier.end
        _check_rows(later, earlier)
    for partition, start in starts.items():
        end = later.end.get(partition, 0)
        if start > end:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"from_token is later than the end of the changes: partition {partition} was read "
                f"up to offset {start}, and they end at {end}",
                hint="Pass the token of the earlier read as from_token.",
            )
    since = Offsets({p: past(later.log.gaps, p, starts.get(p, 0)) for p in later.end})
    begin = ChangeRange(since, begins_first=earlier is None)
    changes = dataclasses.replace(later, changes=begin)
    return changes if offsets_max is None else _first(changes, since, offsets_max)


def logged(changes: Seam, bounds: LogBounds) -> Seam:
    """Returns the changes of an upsert table, with every record read from the log.

    A snapshot no longer has rows that were replaced or deleted, so the log must still hold them.

    Raises:
        SeamlineError: LOG_TRIMMED, TOPIC_RECREATED.
    """
    begin = changes.changes
    assert begin is not None
    if begin.begins_first and changes.cold.first_batch:
        raise SeamlineError(
            TOPIC_RECREATED,
            f"{changes.display_name} cannot be read from the beginning: the topic "
            f"{changes.log.topic} was recreated since, and the earlier log is gone",
            hint="Read the table, and its changes from the token of that read on.",
        )
    end = changes.end
    require(trimmed(bounds, {p: start for p, start in begin.since.items() if start < end[p]}))
    return dataclasses.replace(changes, changes=dataclasses.replace(begin, is_logged=True))


def as_known_now(state: TableState, earlier: Seam, *later: Seam) -> Seam:
    """Returns an earlier seam whose `foreign_change_id` identifies the change as a later one does.

    A change whose snapshot has expired is identified by another id than before: that of the next
    commit, which stands for whatever may have happened. While the earlier seam's snapshot is kept,
    both ids are known.

    Args:
        state: The table's metadata now.
        earlier: The earlier seam.
        later: The later seam: as its token has it, and as it is now.
    """
    own = kept_side(state, earlier.cold.snapshot_id)
    before = {
        earlier.cold.foreign_change_id,
        own.foreign_change_id if own else earlier.cold.foreign_change_id,
    }
    if before.isdisjoint(seam.cold.foreign_change_id for seam in later):
        return earlier
    change_id = later[-1].cold.foreign_change_id
    return dataclasses.replace(
        earlier, cold=dataclasses.replace(earlier.cold, foreign_change_id=change_id)
    )


def _check_rows(later: Seam, earlier: Seam) -> None:
    """Checks that below the earlier seam's end, the later seam has the same rows."""
    if not earlier.log.topic_id:
        raise SeamlineError(
            INVALID_TOKEN,
            f"from_token is for the snapshot of {later.display_name} alone",
            hint="Pass the token of a read of the table itself.",
        )
    if later.cold.foreign_change_id != earlier.cold.foreign_change_id:
        raise SeamlineError(
            HISTORY_CHANGED,
            f"rows of {later.display_name} have been changed by others since from_token was "
            "issued, so the difference is more than what has arrived",
            hint="Read the table again, and continue from the token of that read.",
        )


def _first(changes: Seam, since: Offsets, offsets_max: int) -> Seam:
    """Returns the first changes: a fair share of each partition, and at least one offset if any."""
    waiting = {partition: end - since[partition] for partition, end in changes.end.items()}
    total = sum(waiting.values())
    if total <= offsets_max:
        return changes
    ends, left = {}, offsets_max
    for partition, count in waiting.items():
        taken = min(count, left, -(-count * offsets_max // total))
        ends[partition] = since[partition] + taken
        left -= taken
    end = Offsets(ends)
    cold_end = changes.cold_end
    if cold_end is not None or any(end[p] < b for p, b in changes.boundary.items()):
        first = cold_end if cold_end is not None else changes.boundary
        cold_end = Offsets({**dict.fromkeys(first, 0), **end})
    boundary = Offsets({p: min(start, end[p]) for p, start in changes.boundary.items()})
    return dataclasses.replace(changes, boundary=boundary, end=end, cold_end=cold_end)


def cold_predicate(seam: Seam, places: Places | None) -> Predicate | None:
    """Returns a predicate that every snapshot row among the changes meets; None for whole seams.

    Also None if the changes begin with the first row, or the partition or the offset is a field
    nested inside another column.
    """
    if seam.changes is None or seam.changes.begins_first:
        return None
    if places is None or places.names is None:
        return None
    partition_name, offset_name = places.names
    needed = {p: start for p, start in seam.changes.since.items() if start < seam.boundary[p]}
    if len(needed) > _PARTITIONS_SAID_MAX:
        return Comparison(offset_name, ">=", min(needed.values()))
    return Or(
        tuple(
            And(
                (
                    Comparison(partition_name, "=", partition),
                    Comparison(offset_name, ">=", start),
                )
            )
            for partition, start in needed.items()
        )
    )
