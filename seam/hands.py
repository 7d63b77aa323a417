"""Handing a table over: the boundary at which one writer ends and the other begins.

The boundary is committed only if the head of the table is still the snapshot it was made for. From
then on it determines which writer owns a commit; a commit that contradicts it is a named error.
Pure.
"""

from __future__ import annotations

import dataclasses

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.seam.boundary import EXACT, Boundary, boundary_of, foreign_change
from seamline.seam.history_checks import recreated, require, truncated
from seamline.seam.log import LogBounds
from seamline.seam.table import TableState


def taken_over(state: TableState, bounds: LogBounds) -> Boundary:
    """Returns the boundary at which Seamline takes over a table that another writer has filled.

    What left the log before that writer read it can then be accepted as lost; its own commits
    could not say so.

    Args:
        state: The table, with that writer's provider.
        bounds: What the log holds.

    Raises:
        SeamlineError: LOG_TRUNCATED, TOPIC_RECREATED; BOUNDARY_MISSING, ….
    """
    head = state.current_snapshot_id
    boundary = boundary_of(state, head)
    starts = {p: boundary.next.get(p, 0) for p in bounds.end}
    require(recreated(bounds.topic, bounds.topic_id, boundary.topic_id), truncated(bounds, starts))
    return dataclasses.replace(
        boundary,
        cluster_id=bounds.cluster_id,
        start=boundary.next,
        provider="",
        trust=EXACT,
        epochs=bounds.leader_epochs if starts == dict(bounds.end) else boundary.epochs,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
        taken_id=head,
        handed_to="",
    )


def handed_over(state: TableState, bounds: LogBounds, provider: str) -> Boundary:
    """Returns the boundary at which another writer takes over a table that Seamline has filled.

    Args:
        state: The table.
        bounds: What the log holds.
        provider: The boundary provider that is responsible for the table from then on.

    Raises:
        SeamlineError: NOT_SUPPORTED if the table holds rows of earlier logs; TOPIC_RECREATED;
            BOUNDARY_MISSING, ….
    """
    head = state.current_snapshot_id
    boundary = boundary_of(state, head)
    require(recreated(bounds.topic, bounds.topic_id, boundary.topic_id))
    if boundary.earlier_logs:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"table {state.display_name} holds rows from before topic {bounds.topic} was "
            "recreated: no other writer tells their offsets from those of this log",
            hint="Let the other writer fill a new table.",
        )
    return dataclasses.replace(
        boundary,
        start=boundary.next,
        base_id=head,
        foreign_change_id=foreign_change(state, head),
        handed_to=provider,
    )
