"""A bound query and the facts of its tables as a logical plan."""

from __future__ import annotations

from collections.abc import Mapping

from seamline.planners.logical import LogicalPlan, Scan, ScanFacts
from seamline.sql.qualify import BoundQuery


def bind(query: BoundQuery, facts: Mapping[str, ScanFacts]) -> LogicalPlan:
    """Pins every scan to its facts; a fresh scan reads its whole tail.

    Args:
        query: The query.
        facts: By scan id; complete.
    """
    scans = []
    for bound in query.scans:
        known = facts[bound.scan_id]
        hot = known.kind in {"unified", "hot"}
        scans.append(
            Scan(
                scan_id=bound.scan_id,
                facts=known,
                columns=bound.columns,
                hot_ranges=known.seam.hot_ranges if hot else (),
            )
        )
    return LogicalPlan(query, tuple(scans))
