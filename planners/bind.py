"""A bound query and the facts of its tables as a logical plan, before any rule."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.planners.logical import LogicalPlan, Scan, TableFacts
from seamline.sql.qualify import BoundQuery


def bind(query: BoundQuery, tables: Sequence[TableFacts]) -> LogicalPlan:
    """Gives every scan its table; a fresh scan reads its whole tail.

    Args:
        query: The query.
        tables: The table of each scan, in the order of the query's own list.
    """
    scans = tuple(
        Scan(
            scan_id=bound.scan_id,
            facts=facts,
            columns=bound.columns,
            hot_ranges=facts.seam.hot_ranges if facts.reads_hot else (),
        )
        for bound, facts in zip(query.scans, tables, strict=True)
    )
    return LogicalPlan(query, scans)
