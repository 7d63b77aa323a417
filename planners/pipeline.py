"""The pipeline: RULES in order, then estimate, route and the physical plan.

    BoundQuery + facts → bind → RULES → (files are planned) → estimate → route → PhysicalPlan

Every rule is a pure function from plan to plan, in a file of its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seamline.planners.estimate import estimate
from seamline.planners.logical import LogicalPlan
from seamline.planners.physical import PhysicalPlan, physical_plan
from seamline.planners.route import Limits, route
from seamline.planners.rules.prune_tail_by_key import prune_tail_by_key
from seamline.planners.rules.prune_tail_by_position import prune_tail_by_position
from seamline.planners.rules.prune_tail_by_time import prune_tail_by_time
from seamline.planners.rules.push_predicates import push_predicates
from seamline.seam.files import ColdPlan

Rule = Callable[[LogicalPlan], LogicalPlan]

RULES: tuple[Rule, ...] = (
    push_predicates,
    prune_tail_by_position,
    prune_tail_by_time,
    prune_tail_by_key,
)


def optimize(plan: LogicalPlan, rules: tuple[Rule, ...] = RULES) -> LogicalPlan:
    """The plan after the rules."""
    for rule in rules:
        plan = rule(plan)
    return plan


def finish(
    plan: LogicalPlan, cold: Mapping[str, ColdPlan], *, engine: str, limits: Limits
) -> PhysicalPlan:
    """The physical plan of an optimized one.

    Args:
        plan: The plan after the rules.
        cold: Files by scan id.
        engine: What the request asks for.
        limits: What is large.

    Raises:
        SeamlineError: see `route`.
    """
    estimated = estimate(plan, cold)
    return physical_plan(plan, cold, estimated, route(engine, estimated, cold, limits))
