"""Cuts the tail by comparisons on the columns with the partition and the offset of a record."""

from __future__ import annotations

from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.tail import EVERYTHING, NOTHING, Interval, Leaf, narrow
from seamline.sql.predicates import Comparison, In, IsNull, holds


def prune_tail_by_position(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    return narrow(plan, _interval, "position")


def _interval(scan: Scan, leaf: Leaf, partition: int) -> Interval:
    partitions, offsets = map(scan.facts.columns_of, ("partition", "offset"))
    match leaf:
        case Comparison(column, _, int()) | In(column, _) if column in partitions:
            return EVERYTHING if holds(leaf, partition) else NOTHING
        case Comparison(column, sign, int(value)) if column in offsets:
            return _offsets(sign, value)
        case In(column, values) if column in offsets and all(isinstance(v, int) for v in values):
            chosen = [value for value in values if isinstance(value, int)]
            return (max(0, min(chosen)), max(chosen) + 1) if chosen else NOTHING
        case IsNull(column, negated) if column in partitions | offsets:
            return EVERYTHING if negated else NOTHING
    return EVERYTHING


def _offsets(sign: str, value: int) -> Interval:
    low, high = EVERYTHING
    match sign:
        case "=":
            low, high = value, value + 1
        case "<":
            high = value
        case "<=":
            high = value + 1
        case ">":
            low = value + 1
        case ">=":
            low = value
    return max(0, low), max(0, high)
