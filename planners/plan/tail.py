"""Narrows a scan's tail to the offsets that can hold rows a predicate keeps.

The result is one half-open interval per partition, and it is never too small. Each rule supplies
the interval for a single comparison. How comparisons combine is common to all rules and lives here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.seam.offsets import OffsetRange
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith

Leaf = Comparison | In | IsNull | StartsWith
Interval = tuple[int, int]
EVERYTHING: Interval = (0, 2**63)
NOTHING: Interval = (0, 0)

Narrower = Callable[[Scan, Leaf, int], Interval]
"""Maps (scan, comparison, partition) to the offsets that may satisfy the comparison.

EVERYTHING if the comparison does not restrict the offsets.
"""


def narrow(plan: LogicalPlan, narrower: Narrower, rule: str) -> LogicalPlan:
    """Returns the plan with every tail cut to the offsets the predicates allow under that rule."""
    return dataclasses.replace(
        plan, scans=tuple(_narrow_scan(scan, narrower, rule) for scan in plan.scans)
    )


def _narrow_scan(scan: Scan, narrower: Narrower, rule: str) -> Scan:
    predicate = scan.tail_predicate
    if predicate is None or not scan.hot_ranges:
        return scan
    ranges = []
    for current in scan.hot_ranges:
        low, high = _interval(scan, predicate, current.partition, narrower)
        start, end = max(current.start, low), min(current.end_exclusive, high)
        if start < end:
            ranges.append(OffsetRange(current.partition, start, end))
    if tuple(ranges) == scan.hot_ranges:
        return scan
    return dataclasses.replace(scan, hot_ranges=tuple(ranges), pruned_by=(*scan.pruned_by, rule))


def _interval(scan: Scan, predicate: Predicate, partition: int, narrower: Narrower) -> Interval:
    match predicate:
        case And(parts):
            low, high = EVERYTHING
            for part in parts:
                part_low, part_high = _interval(scan, part, partition, narrower)
                low, high = max(low, part_low), min(high, part_high)
            return (low, high) if low < high else NOTHING
        case Or(parts):
            intervals = [_interval(scan, part, partition, narrower) for part in parts]
            kept = [(low, high) for low, high in intervals if low < high]
            if not kept:
                return NOTHING
            return min(low for low, _ in kept), max(high for _, high in kept)
        case _:
            return narrower(scan, predicate, partition)
