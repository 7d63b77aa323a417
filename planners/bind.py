"""Builds the initial logical plan from a bound query and table facts, before any rule runs."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.planners.plan.logical import LogicalPlan, Scan, TableFacts
from seamline.sql.binder.qualify import BoundQuery


def bind(query: BoundQuery, tables: Sequence[TableFacts]) -> LogicalPlan:
    """Returns a plan that pairs every scan with its table; each scan reads its whole tail.

    Args:
        query: The query.
        tables: The facts of each scan's table, in the order of `query.scans`.
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
