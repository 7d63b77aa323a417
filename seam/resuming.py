"""Going on after a loss: the boundary from which a table continues, and what it says is missing.

Records that left the log before they were tiered are in neither tier. Every read that needs them
is refused, until the table's owner accepts their loss. That is a commit without rows, which lands
only if the head of the table is still the snapshot it was made for: it raises the boundary to where
the log begins, and names what lies between as a gap.

If the topic was recreated, everything of the earlier log that was not tiered is lost. The boundary
then names that log, and begins anew in the current one. Offsets of the two say nothing about each
other, so rows of the earlier log are told by their batches, which are before `first_batch`. Pure.
"""

from __future__ import annotations

import dataclasses

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.seam.boundary import (
    TAG,
    Boundary,
    EarlierLog,
    boundary_of,
    decode,
    foreign_change,
)
from seamline.seam.gaps import Gap, merged
from seamline.seam.history_checks import require, truncated
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState

EARLIER_LOGS_MAX = 16
"""A boundary names no more logs than this: the newest."""


def resumed(state: TableState, bounds: LogBounds, *, now_ms: int, by: str) -> Boundary:
    """Returns the boundary with which a table goes on after its log has lost records.

    Args:
        state: The table.
        bounds: What the log holds, read after the table.
        now_ms: The time, in milliseconds since the epoch.
        by: Who accepts the loss.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED when nothing is lost, NOT_SUPPORTED when another
            writer fills the table; LOG_TRUNCATED, BOUNDARY_MISSING, ….
    """
    head = state.current_snapshot_id
    before = boundary_of(state, head)
    if state.provider is not None or before.provider:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"table {state.display_name} is filled by another writer, whose commits say how far it "
            "got: a loss cannot be recorded in them",
            hint="Let Seamline's pipeline take the table over with `seamline table take-over`, or "
            "adopt the table again once its writer has continued past the loss.",
        )
    begun = begun_in(before, bounds, now_ms=now_ms, by=by)
    require(truncated(bounds, {p: o for p, o in begun.next.items() if p in bounds.end}))
    lost = losses(begun, bounds, now_ms=now_ms, by=by)
    if not lost and begun is before:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"topic {bounds.topic} holds every record that table {state.display_name} lacks: "
            "nothing is lost",
            hint="",
        )
    starts = {gap.partition: gap.end_exclusive for gap in lost}
    begin = begun.next.replace(starts)
    return dataclasses.replace(
        begun,
        cluster_id=bounds.cluster_id,
        topic=bounds.topic,
        start=begin,
        next=begin,
        gaps=merged((*begun.gaps, *lost)),
        epochs=bounds.leader_epochs,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
        handed_to="",
    )


def begun_in(before: Boundary, bounds: LogBounds, *, now_ms: int = 0, by: str = "") -> Boundary:
    """Returns the boundary, or where the table begins in the log if that is another one."""
    if bounds.topic_id == before.topic_id:
        return before
    closed = EarlierLog(before.topic_id, before.next, now_ms, by)
    begin = Offsets(dict.fromkeys(bounds.end, 0))
    return dataclasses.replace(
        before,
        topic_id=bounds.topic_id,
        next=begin,
        max_timestamp_ms=Offsets(),
        decoded_from=begin if before.format else Offsets(),
        earlier_logs=(*before.earlier_logs, closed)[-EARLIER_LOGS_MAX:],
        first_batch=before.batch_id(before.next),
    )


def unverified(state: TableState) -> Snapshot | None:
    """Returns the newest batch if nothing shows that it was checked after it had landed; else None.

    Spark reads a batch and commits it in one action, and only then is the log asked whether it was
    still the same: if a topic is recreated meanwhile, records of one log may for a moment pass for
    those of the other. Whoever checks a batch tags it, or goes on from it.
    """
    since = set()
    for snapshot in state.lineage(state.current_snapshot_id):
        since.add(snapshot.snapshot_id)
        own = decode(snapshot)
        if own is not None and own.start != own.next:
            break
    else:
        return None
    tag = state.refs.get(TAG)
    if tag is not None and tag.snapshot_id in since:
        return None
    continued = (decode(other) for other in state.snapshots.values())
    is_continued = any(
        other is not None
        and other.base_id in since
        and (other.start != other.next or other.topic_id != own.topic_id)
        for other in continued
    )
    return None if is_continued else snapshot


def lost_with(log: EarlierLog, topic: str) -> str:
    """Returns what was lost when a topic was recreated, for messages."""
    past = ", ".join(f"{offset} of partition {p}" for p, offset in log.next.items())
    return (
        f"whatever topic {topic} (id {log.topic_id}) had from the offsets {past} on, before it was "
        "recreated"
    )


def losses(before: Boundary, bounds: LogBounds, *, now_ms: int = 0, by: str = "") -> list[Gap]:
    """Returns what the log no longer holds of the records past a boundary, per partition."""
    gaps = []
    for partition, log_start in bounds.start.items():
        boundary = before.next.get(partition, 0)
        if log_start > boundary:
            lost = log_start - boundary
            gaps.append(Gap(bounds.topic_id, partition, boundary, log_start, lost, now_ms, by))
    return gaps


def not_accepted(state: TableState, before: Boundary, bounds: LogBounds) -> SeamlineError:
    """Returns the error for a table that is to go on, if nobody has accepted what that costs."""
    begun = begun_in(before, bounds)
    lost = losses(begun, bounds)
    what = [] if begun is before else [lost_with(begun.earlier_logs[-1], before.topic)]
    if lost:
        offsets = ", ".join(
            f"[{gap.start}, {gap.end_exclusive}) of partition {gap.partition}" for gap in lost
        )
        what.append(f"the offsets {offsets}")
    return SeamlineError(
        INVALID_ARGUMENT,
        f"table {state.display_name} can only go on without {' and '.join(what)}, which is lost",
        hint="Accept that with --accept-loss, or in SQL with resume(accept_loss => true).",
        details={
            "gaps": [gap.to_json() for gap in lost],
            "earlier_logs": [log.to_json() for log in begun.earlier_logs],
        },
    )
