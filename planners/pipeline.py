"""The planning pipeline: bind, ASKS, fact lookup, RULES, estimate, route, physical plan.

    BoundQuery + tables → bind → ASKS → (files and moments are looked up) → RULES → estimate
        → route → PhysicalPlan

Every rule is a pure function from plan to plan, lives in a module of the same name, and runs once.
The ASKS rules run before a scan's facts are looked up, because the lookup uses their predicates.

A log that no longer reaches back to the boundary fails only those scans that need what it has lost.
No row outside the ranges that the rules leave can meet the scan's predicate, and an upsert table's
tail is cut by nothing but its keys: whatever is gone elsewhere could not have changed the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seamline.planners.bind import bind
from seamline.planners.plan.estimate import estimate
from seamline.planners.plan.logical import LogicalPlan, TableFacts
from seamline.planners.plan.physical import PhysicalPlan, physical_plan
from seamline.planners.plan.route import GATEWAY, Limits, Route, route
from seamline.planners.rules.answer_from_metadata import answer_from_metadata
from seamline.planners.rules.prune_tail_by_key import prune_tail_by_key
from seamline.planners.rules.prune_tail_by_position import prune_tail_by_position
from seamline.planners.rules.prune_tail_by_time import prune_tail_by_time
from seamline.planners.rules.push_predicates import push_predicates
from seamline.planners.rules.stage_aggregation import stage_aggregation
from seamline.seam.history_checks import missing, require
from seamline.sql.binder.qualify import BoundQuery

Rule = Callable[[LogicalPlan], LogicalPlan]

ASKS: tuple[Rule, ...] = (push_predicates, answer_from_metadata)
RULES: tuple[Rule, ...] = (
    prune_tail_by_position,
    prune_tail_by_time,
    prune_tail_by_key,
    stage_aggregation,
)


def apply(rules: Sequence[Rule], plan: LogicalPlan) -> LogicalPlan:
    """Returns the plan after applying the rules in order."""
    for rule in rules:
        plan = rule(plan)
    return plan


def asked(query: BoundQuery, tables: Sequence[TableFacts]) -> LogicalPlan:
    """Returns what each scan of a query asks for, before its files and moments are looked up.

    Args:
        query: The query.
        tables: The facts of each scan's table, in the order of `query.scans`.
    """
    return apply(ASKS, bind(query, tables))


def reduced(asked_for: LogicalPlan) -> LogicalPlan:
    """Returns the plan with its tails cut to what its scans need.

    Raises:
        SeamlineError: LOG_TRIMMED when a scan needs records that the log no longer holds.
    """
    logical = apply(RULES, asked_for)
    for scan in logical.scans:
        starts = {r.partition: r.start for r in scan.hot_ranges}
        require(missing(scan.seam.log.topic, scan.facts.log_start, starts))
    return logical


def plan(asked_for: LogicalPlan, *, engine: str, limits: Limits) -> PhysicalPlan:
    """Returns the physical plan.

    Args:
        asked_for: What the scans ask for, with the files and moments found for it.
        engine: The engine the request asks for.
        limits: The size limits for routing.

    Raises:
        SeamlineError: see `reduced` and `route`.
    """
    logical = reduced(asked_for)
    estimated = estimate(logical)
    if logical.row is not None:
        chosen = Route(GATEWAY, "row counts" if logical.scans else "constants")
    else:
        chosen = route(engine, estimated, logical.files, limits)
    return physical_plan(logical, estimated, chosen)
