"""Going on after a loss: the boundary from which a table continues, and what it says is missing.

Records that left the log before they were tiered are in neither tier. Every read that needs them
is refused, until the table's owner accepts their loss. That is a commit without rows, which lands
only if the head of the table is still the snapshot it was made for: it raises the boundary to where
the log begins, and names what lies between as a gap. Pure.
"""

from __future__ import annotations

import dataclasses

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.seam.boundary import Boundary, boundary_of, foreign_change
from seamline.seam.checks import recreated, require, truncated
from seamline.seam.gaps import Gap, merged
from seamline.seam.log import LogBounds
from seamline.seam.table import TableState


def resumed(state: TableState, bounds: LogBounds, *, now_ms: int, by: str) -> Boundary:
    """Returns the boundary with which a table goes on after its log has lost records.

    Args:
        state: The table.
        bounds: What the log holds, read after the table.
        now_ms: The time, in milliseconds since the epoch.
        by: Who accepts the loss.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED when nothing is lost, NOT_SUPPORTED when another
            writer fills the table; TOPIC_RECREATED, LOG_TRUNCATED, BOUNDARY_MISSING, ….
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
    require(
        recreated(bounds.topic, bounds.topic_id, before.topic_id),
        truncated(bounds, {p: o for p, o in before.next.items() if p in bounds.end}),
    )
    lost = losses(before, bounds, now_ms=now_ms, by=by)
    if not lost:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"topic {bounds.topic} holds every record that table {state.display_name} lacks: "
            "nothing is lost",
            hint="",
        )
    starts = {gap.partition: gap.end_exclusive for gap in lost}
    begin = before.next.replace(starts)
    return dataclasses.replace(
        before,
        cluster_id=bounds.cluster_id,
        topic=bounds.topic,
        start=begin,
        next=begin,
        gaps=merged((*before.gaps, *lost)),
        epochs=bounds.leader_epochs,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
        handed_to="",
    )


def losses(before: Boundary, bounds: LogBounds, *, now_ms: int = 0, by: str = "") -> list[Gap]:
    """Returns what the log no longer holds of the records past a boundary, per partition."""
    found = []
    for partition, log_start in bounds.start.items():
        boundary = before.next.get(partition, 0)
        if log_start > boundary:
            lost = log_start - boundary
            found.append(Gap(bounds.topic_id, partition, boundary, log_start, lost, now_ms, by))
    return found


def not_accepted(state: TableState, lost: list[Gap]) -> SeamlineError:
    """Returns the error for a table that is to go on, if nobody has accepted what that costs."""
    places = ", ".join(
        f"[{gap.start}, {gap.end_exclusive}) of partition {gap.partition}" for gap in lost
    )
    return SeamlineError(
        INVALID_ARGUMENT,
        f"table {state.display_name} can only go on without the offsets {places}, which are lost",
        hint="Accept that with --accept-loss, or in SQL with resume(accept_loss => true).",
        details={"gaps": [gap.to_json() for gap in lost]},
    )
