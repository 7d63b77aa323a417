"""The pipeline: what scans ask for, the facts of that, then RULES, estimate, route and plan.

    BoundQuery + tables → bind → ASKS → (files and moments are looked up) → RULES → estimate
        → route → PhysicalPlan

Every rule is a pure function from plan to plan, in a file of its own name, and runs once. Those of
ASKS come before the facts of a scan, because these are asked for with what it may leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seamline.planners.bind import bind
from seamline.planners.estimate import estimate
from seamline.planners.logical import LogicalPlan, TableFacts
from seamline.planners.physical import PhysicalPlan, physical_plan
from seamline.planners.route import Limits, route
from seamline.planners.rules.prune_tail_by_key import prune_tail_by_key
from seamline.planners.rules.prune_tail_by_position import prune_tail_by_position
from seamline.planners.rules.prune_tail_by_time import prune_tail_by_time
from seamline.planners.rules.push_predicates import push_predicates
from seamline.sql.qualify import BoundQuery

Rule = Callable[[LogicalPlan], LogicalPlan]

ASKS: tuple[Rule, ...] = (push_predicates,)
RULES: tuple[Rule, ...] = (prune_tail_by_position, prune_tail_by_time, prune_tail_by_key)


def apply(rules: Sequence[Rule], plan: LogicalPlan) -> LogicalPlan:
    """The plan after some rules."""
    for rule in rules:
        plan = rule(plan)
    return plan


def asked(query: BoundQuery, tables: Sequence[TableFacts]) -> LogicalPlan:
    """What each scan of a query asks for, still without the facts of that.

    Args:
        query: The query.
        tables: The table of each scan, in the order of the query's own list.
    """
    return apply(ASKS, bind(query, tables))


def plan(asked_for: LogicalPlan, *, engine: str, limits: Limits) -> PhysicalPlan:
    """The physical plan.

    Args:
        asked_for: What scans ask for, with the files and moments of that.
        engine: What the request asks for.
        limits: What is large.

    Raises:
        SeamlineError: see `route`.
    """
    logical = apply(RULES, asked_for)
    estimated = estimate(logical)
    return physical_plan(logical, estimated, route(engine, estimated, logical.files, limits))
