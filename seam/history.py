"""An earlier cut, asked for again: repeated by its token, travelled to, or not to be fallen behind.

Pure, and fails closed, as the seam itself: what can no longer be shown to be the same is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from seamline.errors import (
    HISTORY_CHANGED,
    INVALID_TOKEN,
    LOG_TRIMMED,
    TOKEN_EXPIRED,
    SeamlineError,
)
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdSide, Seam, check_topic, cold_only, hot_only
from seamline.seam.table import TableState


@dataclasses.dataclass(frozen=True, slots=True)
class TokenSeam:
    """What a token keeps of a seam: enough to place it again, and to see that history changed.

    Attributes:
        table: Full name of the table.
        table_uuid: Its id.
        snapshot_id: The cold snapshot.
        schema_id: The schema it was read with.
        topic_id: Id of the topic; empty without one.
        boundary: First offset not in the snapshot, per partition.
        end: Exclusive ends of the reading.
        foreign_change_id: See `Boundary.foreign_change_id`, at the snapshot.
        epochs: Leader epochs the log had at `end`, where known.
    """

    table: tuple[str, ...]
    table_uuid: str
    snapshot_id: int | None
    schema_id: int
    topic_id: str
    boundary: Offsets
    end: Offsets
    foreign_change_id: int | None = None
    epochs: Offsets = dataclasses.field(default_factory=Offsets)


def remember(seam: Seam) -> TokenSeam:
    """What a token keeps of a seam."""
    return TokenSeam(
        seam.table,
        seam.table_uuid,
        seam.snapshot_id,
        seam.schema_id,
        seam.topic_id,
        seam.boundary,
        seam.end,
        seam.foreign_change_id,
        seam.end_epochs,
    )


def repeat_cold(state: TableState, token: TokenSeam) -> Seam:
    """Places the seam of a snapshot again.

    Raises:
        SeamlineError: HISTORY_CHANGED, TOKEN_EXPIRED.
    """
    check_same_table(state, token)
    if token.snapshot_id is not None and token.snapshot_id not in state.snapshots:
        raise SeamlineError(
            TOKEN_EXPIRED, f"snapshot {token.snapshot_id} of {state.display_name} has expired"
        )
    return cold_only(state, token.snapshot_id, schema_id=token.schema_id)


def repeat_topic(
    name: tuple[str, ...], token: TokenSeam, bounds: LogBounds, *, cluster: str
) -> Seam:
    """Places the seam of a topic without a table again.

    Raises:
        SeamlineError: HISTORY_CHANGED, TOKEN_EXPIRED.
    """
    check_same_topic(token, bounds)
    for partition, start in token.boundary.items():
        if bounds.start.get(partition, 0) > start and token.end[partition] > start:
            raise SeamlineError(
                TOKEN_EXPIRED,
                f"partition {partition} of topic {bounds.topic} was trimmed past offset {start}",
            )
    seam = hot_only(name, bounds, cluster=cluster, schema_id=token.schema_id)
    return dataclasses.replace(seam, boundary=token.boundary, end=token.end, pending=0)


def repeat(
    state: TableState,
    token: TokenSeam,
    sides: Sequence[ColdSide],
    bounds: LogBounds,
    *,
    cluster: str,
) -> Seam:
    """Places a seam again, as a token remembers it.

    Args:
        state: The table's metadata now.
        token: What is remembered.
        sides: Snapshots that may serve, best first: the token's own if it is kept, then later
            ones, which hold the token's rows and more.
        bounds: What the log holds now.
        cluster: Name of the cluster in the configuration.

    Raises:
        SeamlineError: HISTORY_CHANGED when table or topic are no longer the same, TOKEN_EXPIRED
            when rows the token stands for are no longer kept; INVALID_TOKEN without a log.
    """
    if not token.topic_id:
        message = f"the token is of the snapshot of {state.display_name} alone"
        raise SeamlineError(INVALID_TOKEN, message, hint='Give it to "t$cold", or ask without it.')
    check_same_history(state, token, bounds)
    is_kept = token.snapshot_id in state.snapshots
    problem = "has lost the snapshots before it" if is_kept else "has expired"
    reason = f"snapshot {token.snapshot_id} of {state.display_name} {problem}"
    for side in sides:
        later = side.snapshot_id != token.snapshot_id
        if later and side.foreign_change_id != token.foreign_change_id:
            reason += ", and rows have been changed since"
            continue
        trimmed = _trimmed(side, token.end, bounds)
        if trimmed is not None:
            reason = f"partition {trimmed} of topic {bounds.topic} was trimmed past the token"
            continue
        return _cut(state, side, token.end, bounds, cluster=cluster, schema_id=token.schema_id)
    raise SeamlineError(TOKEN_EXPIRED, reason)


def _trimmed(side: ColdSide, end: Mapping[int, int], bounds: LogBounds) -> int | None:
    """A partition whose rows between a snapshot and an end are no longer in the log."""
    for partition, stop in end.items():
        start = side.boundary.next.get(partition, 0)
        if start < stop and bounds.start.get(partition, 0) > start:
            return partition
    return None


def _cut(
    state: TableState,
    side: ColdSide,
    end: Offsets,
    bounds: LogBounds,
    *,
    cluster: str,
    schema_id: int,
    as_of: str = "",
) -> Seam:
    """The seam that ends where it is told to, whatever the snapshot holds past that."""
    held = side.boundary.next
    cut = Offsets({**dict.fromkeys(held, 0), **end})  # of a partition added since, nothing
    past = any(offset > cut[partition] for partition, offset in held.items())
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        snapshot_id=side.snapshot_id,
        schema_id=schema_id,
        cluster=cluster,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        isolation=bounds.isolation,
        boundary=Offsets({p: min(stop, held.get(p, 0)) for p, stop in end.items()}),
        end=end,
        cold_end=cut if past else None,
        skipped=side.boundary.skipped,
        epochs=side.boundary.epochs,
        end_epochs=bounds.leader_epochs,
        foreign_change_id=side.foreign_change_id,
        as_of=as_of,
    )


def travel(
    state: TableState,
    sides: Sequence[ColdSide],
    ends_then: Offsets,
    bounds: LogBounds,
    *,
    cluster: str,
    as_of: str,
) -> Seam:
    """Places the seam of a past moment: the snapshot of then, and the log up to then.

    Args:
        state: The table's metadata now.
        sides: The snapshot that was the table's at the moment, then those that may stand in for
            it when the log no longer reaches back to it.
        ends_then: Per partition the first offset after the moment.
        bounds: What the log holds now.
        cluster: Name of the cluster in the configuration.
        as_of: The moment, as the statement says it.

    Raises:
        SeamlineError: LOG_TRIMMED when neither the log nor a later snapshot holds what came
            between the snapshot of the moment and the moment.
    """
    own = sides[0]
    check_topic(own.boundary, bounds)
    snapshot = state.snapshots[own.snapshot_id]
    schema_id = state.current_schema_id if snapshot.schema_id is None else snapshot.schema_id
    ends = {}
    for partition in {**own.boundary.next, **bounds.end}:
        start = own.boundary.next.get(partition, 0)
        stop = min(ends_then.get(partition, start), bounds.end.get(partition, start))
        ends[partition] = max(start, stop)
    end = Offsets(ends)
    for side in sides:
        same = side is own or side.foreign_change_id == own.foreign_change_id
        if same and _trimmed(side, end, bounds) is None:
            return _cut(state, side, end, bounds, cluster=cluster, schema_id=schema_id, as_of=as_of)
    raise SeamlineError(
        LOG_TRIMMED,
        f"topic {bounds.topic} no longer reaches back to snapshot {own.snapshot_id}, and rows of "
        f"{state.display_name} have been changed since",
        hint="Read the snapshot itself with FOR VERSION AS OF; `t$snapshots` lists them.",
    )


# --- Sessions: what a read must not fall behind ------------------------------------------------


def check_same_history(state: TableState, token: TokenSeam, bounds: LogBounds) -> None:
    """Table and topic must be the ones a token was given for; of a snapshot alone, the table.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    check_same_table(state, token)
    if token.topic_id:
        check_same_topic(token, bounds)


def check_same_table(state: TableState, token: TokenSeam) -> None:
    """The table must be the one a token was given for, not another of the same name.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    if state.uuid != token.table_uuid:
        message = f"table {state.display_name} was dropped and created again"
        raise SeamlineError(HISTORY_CHANGED, message)


def check_same_topic(token: TokenSeam, bounds: LogBounds) -> None:
    """The topic must be the one a token was given for, and still hold what was read of it.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    if bounds.topic_id != token.topic_id:
        raise SeamlineError(HISTORY_CHANGED, f"topic {bounds.topic} was created again")
    for partition, stop in token.end.items():
        held = bounds.high_watermark.get(partition, 0)
        if stop > held and stop > token.boundary.get(partition, 0):
            raise SeamlineError(
                HISTORY_CHANGED,
                f"partition {partition} of topic {bounds.topic} ends at {held}: it lost records "
                f"the token stands for, which ends at {stop}",
            )


def check_not_rolled_back(state: TableState, seam: Seam, token: TokenSeam) -> None:
    """A later read of a session must stand on the line of snapshots the earlier one stood on.

    Where a part of the line has expired, what others changed on it must be what it was: whether a
    later change stands on an earlier one, or replaced it, can no longer be told.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    if token.snapshot_id is None or seam.snapshot_id == token.snapshot_id:
        return
    line = list(state.ancestors(seam.snapshot_id))
    known = {snapshot.snapshot_id for snapshot in line}
    expired = line[-1].parent_id if line else None
    if token.snapshot_id in known or token.snapshot_id == expired:
        return
    fell_back = any(
        seam.boundary.get(partition, 0) < offset for partition, offset in token.boundary.items()
    )
    changed = seam.foreign_change_id != token.foreign_change_id
    if fell_back or expired is None:
        message = f"was rolled back behind snapshot {token.snapshot_id}"
    elif changed and token.foreign_change_id not in (None, expired, *known):
        message = (
            f"was changed since by others, and snapshot {token.snapshot_id} has expired: whether "
            "their changes stand on it can no longer be told"
        )
    else:
        return
    raise SeamlineError(HISTORY_CHANGED, f"table {state.display_name} {message}")
