"""Cuts the start of the tail by lower bounds on the times of records.

Take the first record at or after a moment: every record before it is earlier than the moment,
however the log orders timestamps. So a lower bound is always safe. An upper bound is not, because a
late record may carry an early timestamp. The offsets of the moments are facts; `moments` returns
the moments to look up. Of records that the log has lost, it cannot know when they were; where there
are any, nothing is cut.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.tail import EVERYTHING, Interval, Leaf, narrow
from seamline.sql.predicates import And, Comparison, In, Or, Predicate

_LOWER_BOUNDS = frozenset({"=", ">", ">="})


def moments(scan: Scan) -> frozenset[int]:
    """Returns the moments (milliseconds since the epoch) whose offsets would help this scan."""
    predicate = scan.tail_predicate
    if predicate is None or not scan.hot_ranges:
        return frozenset()
    return frozenset(_moments(predicate, scan.facts.columns_of("timestamp")))


def prune_tail_by_time(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    return narrow(plan, _interval, "time")


def _moments(predicate: Predicate, times: frozenset[str]) -> Iterator[int]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _moments(part, times)
        case Comparison() | In():
            moment = _lower_bound_ms(predicate, times)
            if moment is not None:
                yield moment


def _lower_bound_ms(leaf: Leaf, times: frozenset[str]) -> int | None:
    """Returns a moment that no record satisfying the comparison predates; None if there is none.

    Args:
        leaf: The comparison.
        times: The columns with the times of records.
    """
    match leaf:
        case Comparison(column, sign, datetime.datetime() as value) if (
            column in times and sign in _LOWER_BOUNDS
        ):
            return _milliseconds(value)
        case In(column, values) if column in times and values:
            times_ms = [_milliseconds(v) for v in values if isinstance(v, datetime.datetime)]
            return min(times_ms) if len(times_ms) == len(values) else None
    return None


def _milliseconds(moment: datetime.datetime) -> int:
    return max(0, int(moment.timestamp() * 1000) - 1)


def _interval(scan: Scan, leaf: Leaf, partition: int) -> Interval:
    moment = _lower_bound_ms(leaf, scan.facts.columns_of("timestamp"))
    is_whole = partition not in scan.facts.log_start
    if not is_whole or moment is None or moment not in scan.offsets_at:
        return EVERYTHING
    return scan.offsets_at[moment].get(partition, 0), EVERYTHING[1]
