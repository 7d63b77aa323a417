"""Checks unified tables: whether each can be read now, and whether it can be read tomorrow.

A finding is `wrong` if a statement over the table would fail, and says what the statement would
say. It is a `warning` if something will go wrong next: retention is about to overtake tiering, or
nobody tiers the records.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.doctor.findings import Finding, Level, of_error, ok, skipped, warning
from seamline.gateway.system import listings
from seamline.gateway.system.listings import Waiting
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, cold_side
from seamline.seam.log import LogBounds
from seamline.seam.now import pin
from seamline.seam.table import TableState

_IDLE_S = 15 * 60
"""Seconds without a commit after which untiered records suggest that no writer runs."""
_NEAR = 0.2
"""Fraction of the log's length; a boundary this close to the log's start may soon be below it."""


def look(connections: Connections, away: Collection[str], deadline: Deadline) -> Iterator[Finding]:
    """Checks every unified table.

    Args:
        connections: Catalogs and clusters.
        away: The catalogs and clusters that do not answer.
        deadline: Limits the time.
    """
    number = 0
    for entry in listings.unified(connections, deadline):
        binding = entry.table.binding
        if entry.table.source in away:
            continue  # there is already a finding about its catalog
        number += 1
        if binding is not None and binding.cluster in away:
            yield skipped(f"{entry.table.display}: its cluster {binding.cluster} does not answer")
        elif entry.error is not None:
            yield of_error(entry.error, Level.WRONG, entry.table.display)
        else:
            yield _table(connections, entry, deadline)
    if not number:
        yield skipped("there are no unified tables; `seamline table create` creates one")


def _table(connections: Connections, entry: Waiting, deadline: Deadline) -> Finding:
    state, binding = entry.table.state, entry.table.binding
    assert state is not None
    assert binding is not None
    try:
        side = cold_side(state, state.current_snapshot_id)
        log = connections.log(binding.cluster)
        bounds = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
        pin(state, side, bounds, cluster=binding.cluster, bounds_are_newer=True)
    except SeamlineError as error:
        return of_error(error, Level.WRONG, entry.table.display)
    return _aging(entry, state, binding, side.boundary, bounds)


def _aging(
    entry: Waiting, state: TableState, binding: TopicBinding, boundary: Boundary, bounds: LogBounds
) -> Finding:
    """Returns how far a readable table has been tiered, or a warning of what goes wrong next."""
    name, lag = entry.table.display, entry.offsets or 0
    held = {p: bounds.end.get(p, 0) - start for p, start in bounds.start.items()}
    near = [
        p
        for p, start in bounds.start.items()
        if start > 0 and boundary.next.get(p, 0) - start < _NEAR * held[p]
    ]
    if near and lag:
        return warning(
            f"{name}: the log of partition {near[0]} begins at {bounds.start[near[0]]:,}, and the "
            f"table ends at {boundary.next.get(near[0], 0):,}: records are lost when retention "
            "passes tiering",
            f"Tier more often, or raise retention.ms of topic {binding.topic}.",
        )
    committed_ms = _committed_ms(state)
    age_s = time.time() - committed_ms / 1000 if committed_ms is not None else None
    since = (
        "nothing has been tiered yet" if age_s is None else f"the last commit is {_age(age_s)} old"
    )
    if lag and (age_s is None or age_s > _IDLE_S):
        filler = "`seamline tier`" if state.provider is None else "the writer that fills it"
        return warning(
            f"{name}: {lag:,} offsets are only in the log, and {since}",
            f"Every statement sees them; check whether {filler} runs.",
        )
    return ok(f"{name}: boundary and log agree, {lag:,} offsets only in the log, {since}")


def _committed_ms(state: TableState) -> int | None:
    """Returns when rows or a boundary were last committed; None if the table was only created."""
    if len(state.snapshots) < 2 or state.current_snapshot_id is None:
        return None
    return state.snapshots[state.current_snapshot_id].timestamp_ms


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
