"""Cuts the tail by comparisons on `_kafka_partition` and `_kafka_offset`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.tail import EVERYTHING, NOTHING, Interval, Leaf, narrow
from seamline.sql.columns import OFFSET, PARTITION
from seamline.sql.predicates import Comparison, In, IsNull

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def prune_tail_by_position(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    return narrow(plan, _interval, "position")


def _interval(_: Scan, leaf: Leaf, partition: int) -> Interval:
    match leaf:
        case Comparison(column, sign, int(value)) if column == PARTITION:
            return EVERYTHING if _COMPARE[sign](partition, value) else NOTHING
        case In(column, values) if column == PARTITION:
            return EVERYTHING if partition in values else NOTHING
        case Comparison(column, sign, int(value)) if column == OFFSET:
            return _offsets(sign, value)
        case In(column, values) if column == OFFSET and all(isinstance(v, int) for v in values):
            offsets = [value for value in values if isinstance(value, int)]
            return (max(0, min(offsets)), max(offsets) + 1) if offsets else NOTHING
        case IsNull(column, negated) if column in {PARTITION, OFFSET}:
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
