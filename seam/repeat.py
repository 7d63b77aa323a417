"""Repeats an earlier seam by its token, and keeps sessions from falling behind their seams.

Pure, and fails closed: if the rows can no longer be shown to be the same, the read is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from seamline.errors import (
    INVALID_TOKEN,
    TOKEN_EXPIRED,
    SeamlineError,
)
from seamline.seam.boundary import ColdSide
from seamline.seam.gaps import below, same_below
from seamline.seam.history_checks import (
    dropped,
    history_changed,
    recreated,
    require,
    trimmed,
    truncated,
)
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam, cold_only
from seamline.seam.table import TableState


def of_table(seams: Sequence[Seam], state: TableState) -> tuple[Seam, ...]:
    """Returns the seams of a table, matched by the table's id, whatever its name was then.

    Seams with the same name but another id belong to a dropped table. They come last, so that a
    check reports it.
    """
    name = [part.lower() for part in state.name]
    of_id = [seam for seam in seams if seam.table_uuid == state.uuid]
    of_name = [s for s in seams if s.table_uuid and [part.lower() for part in s.table] == name]
    both = [seam for seam in of_id if seam in of_name]
    return tuple(dict.fromkeys((*both, *of_id, *of_name)))


def of_topic(seams: Sequence[Seam], name: tuple[str, ...]) -> tuple[Seam, ...]:
    """Returns the seams of a topic without a table."""
    return tuple(seam for seam in seams if not seam.table_uuid and seam.table == name)


def repeat_cold(state: TableState, earlier: Seam) -> Seam:
    """Pins a table to the snapshot of an earlier seam.

    Raises:
        SeamlineError: HISTORY_CHANGED, TOKEN_EXPIRED.
    """
    require(dropped(state, earlier.table_uuid))
    if earlier.cold.snapshot_id is not None and earlier.cold.snapshot_id not in state.snapshots:
        raise SeamlineError(
            TOKEN_EXPIRED,
            f"snapshot {earlier.cold.snapshot_id} of {state.display_name} has expired",
        )
    return cold_only(state, earlier.cold.snapshot_id, schema_id=earlier.schema_id)


def repeat_topic(name: tuple[str, ...], earlier: Seam, bounds: LogBounds, *, cluster: str) -> Seam:
    """Pins a topic without a table to the offsets of an earlier seam.

    Raises:
        SeamlineError: HISTORY_CHANGED, TOKEN_EXPIRED.
    """
    check_same_log(earlier, bounds)
    check_kept(bounds, {r.partition: r.start for r in earlier.hot_ranges})
    return Seam(
        table=name,
        table_uuid="",
        schema_id=earlier.schema_id,
        log=LogPart.of(bounds, cluster),
        boundary=earlier.boundary,
        end=earlier.end,
    )


def repeat_errors(earlier: Seam, bounds: LogBounds, cluster: str) -> Seam:
    """Pins the part of a log in which bad records are looked for to that of an earlier seam.

    Args:
        earlier: The earlier seam: of the bad records, or of their table.
        bounds: What the log holds now; the log is the same.
        cluster: Name of the cluster in the configuration.

    Raises:
        SeamlineError: TOKEN_EXPIRED; INVALID_TOKEN when the seam has no log.
    """
    if not earlier.log.topic_id:
        message = f"the token is for the snapshot of {earlier.display_name} alone"
        raise SeamlineError(INVALID_TOKEN, message, hint="Omit it to read its bad records.")
    check_kept(bounds, {r.partition: r.start for r in earlier.hot_ranges})
    log = LogPart.of(bounds, cluster)
    log = dataclasses.replace(log, format=earlier.log.format, on_error=earlier.log.on_error)
    return dataclasses.replace(earlier, log=log)


def check_kept(bounds: LogBounds, starts: Mapping[int, int]) -> None:
    """Checks that the log still holds what a token stands for, from these offsets onwards.

    Raises:
        SeamlineError: TOKEN_EXPIRED.
    """
    gone = trimmed(bounds, starts)
    if gone is not None:
        raise SeamlineError(TOKEN_EXPIRED, gone.message, details=gone.details)


def repeat(
    state: TableState,
    earlier: Seam,
    sides: Sequence[ColdSide],
    bounds: LogBounds,
    *,
    cluster: str,
) -> Seam:
    """Pins a table to one of its earlier seams.

    Args:
        state: The table's metadata now.
        earlier: The seam to repeat.
        sides: Snapshots that may serve, best first: the seam's own if it is kept, then later
            ones, which hold its rows and more.
        bounds: What the log holds now.
        cluster: Name of the cluster in the configuration.

    Raises:
        SeamlineError: HISTORY_CHANGED when the table or topic is no longer the same, TOKEN_EXPIRED
            when rows the seam stands for are no longer kept; INVALID_TOKEN when the seam has no
            log.
    """
    if not earlier.log.topic_id:
        message = f"the token is for the snapshot of {state.display_name} alone"
        raise SeamlineError(INVALID_TOKEN, message, hint='Use it with "t$cold", or omit it.')
    check_same_history(state, earlier, bounds)
    is_kept = earlier.cold.snapshot_id in state.snapshots
    problem = "has lost the snapshots before it" if is_kept else "has expired"
    reason = f"snapshot {earlier.cold.snapshot_id} of {state.display_name} {problem}"
    for side in sides:
        later = side.snapshot_id != earlier.cold.snapshot_id
        if side.boundary.topic_id != earlier.log.topic_id:
            reason += ", and the table has continued another log since"
            continue
        if later and side.foreign_change_id != earlier.cold.foreign_change_id:
            reason += ", and rows have been changed since"
            continue
        if _decoded_otherwise(side, earlier):
            reason += ", and its tail has been tiered under another schema, format or on_error"
            continue
        if not same_below(side.boundary.gaps, earlier.log.gaps, bounds.topic_id, earlier.end):
            reason += ", and a loss has been accepted of records that the token covers"
            continue
        gone = missing_between(side, earlier.end, bounds)
        if gone is not None:
            reason = gone.message
            continue
        seam = seam_up_to(
            state, side, earlier.end, bounds, cluster=cluster, schema_id=earlier.schema_id
        )
        return seam.decoded_by(earlier.log.format, earlier.log.on_error)
    raise SeamlineError(TOKEN_EXPIRED, reason)


def _decoded_otherwise(side: ColdSide, earlier: Seam) -> bool:
    """Whether a snapshot may hold different rows for a tail than those read from the tail."""
    held = side.boundary
    tiered = {
        r.partition: r.start for r in earlier.hot_ranges if r.start < held.next.get(r.partition, 0)
    }
    now = (held.format, held.on_error, held.schema_id)
    is_same = now == (earlier.log.format, earlier.log.on_error, earlier.schema_id)
    begun = held.decoded_from
    return any(not is_same or start < begun.get(p, 0) for p, start in tiered.items())


def missing_between(side: ColdSide, end: Offsets, bounds: LogBounds) -> SeamlineError | None:
    """Returns an error if rows between a snapshot and an end are no longer in the log."""
    held = side.boundary.next
    starts = {p: held.get(p, 0) for p, stop in end.items() if held.get(p, 0) < stop}
    return trimmed(bounds, starts)


def seam_up_to(
    state: TableState,
    side: ColdSide,
    end: Offsets,
    bounds: LogBounds,
    *,
    cluster: str,
    schema_id: int,
    as_of: str = "",
) -> Seam:
    """Returns the seam that ends at the given end, whatever the snapshot holds past it."""
    held = side.boundary.next
    everything = Offsets({**dict.fromkeys(held, 0), **end})  # nothing of partitions added since
    past = any(offset > everything[partition] for partition, offset in held.items())
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        schema_id=schema_id,
        cold=ColdPart.of(state, side),
        log=LogPart.of(bounds, cluster, gaps=below(side.boundary.gaps, bounds.topic_id, end)),
        boundary=Offsets({p: min(stop, held.get(p, 0)) for p, stop in end.items()}),
        end=end,
        cold_end=everything if past else None,
        as_of=as_of,
    )


def check_same_history(state: TableState, earlier: Seam, bounds: LogBounds) -> None:
    """Checks that table and topic are those of an earlier seam; without a log, only the table.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    require(dropped(state, earlier.table_uuid))
    if earlier.log.topic_id:
        check_same_log(earlier, bounds)


def check_same_log(earlier: Seam, bounds: LogBounds) -> None:
    """Checks that the topic is that of an earlier seam, and has not lost what was read from it.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    read = {r.partition: r.end_exclusive for r in earlier.hot_ranges}
    require(
        history_changed(recreated(bounds.topic, bounds.topic_id, earlier.log.topic_id)),
        history_changed(truncated(bounds, read)),
    )
