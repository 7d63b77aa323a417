"""Estimates how much a plan would read, from facts alone: files planned, offsets in the tail."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.planners.plan.logical import LogicalPlan, Scan

BYTES_PER_TAIL_RECORD = 300
"""The assumed size of a log record that has not been read yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """Rows and bytes to read.

    Tail rows are counted in offsets, so the estimate is never below the number of records.

    Attributes:
        cold_rows: Rows in the planned files.
        cold_bytes: Bytes in the planned files.
        hot_rows: Offsets in the tails. A table counts once, however often it is scanned.
        hot_rows_cached: How many of those offsets are in the gateway's cache.
        hot_fits_cache: Whether every tail that is not fully cached would fit in the cache.
    """

    cold_rows: int
    cold_bytes: int
    hot_rows: int
    hot_rows_cached: int = 0
    hot_fits_cache: bool = False

    @property
    def hot_rows_unread(self) -> int:
        """Offsets that must still be read from the log."""
        return self.hot_rows - self.hot_rows_cached


def estimate(plan: LogicalPlan) -> Estimate:
    """Estimates what the plan reads.

    Args:
        plan: The plan, after the rules have run.
    """
    tails: dict[tuple[str, ...], dict[int, tuple[int, int]]] = {}
    facts = {scan.seam.key: scan.facts for scan in plan.scans}
    for scan in plan.scans:
        merge_ranges(tails.setdefault(scan.seam.key, {}), scan)
    offsets = {key: sum(end - start for start, end in t.values()) for key, t in tails.items()}
    cached = {key: cached_of(t, facts[key].cached) for key, t in tails.items()}
    return Estimate(
        cold_rows=sum(plan_.rows for plan_ in plan.files.values()),
        cold_bytes=sum(plan_.size_bytes for plan_ in plan.files.values()),
        hot_rows=sum(offsets.values()),
        hot_rows_cached=sum(cached.values()),
        hot_fits_cache=all(facts[key].fits_cache for key in tails if cached[key] < offsets[key]),
    )


def cached_of(ranges: Mapping[int, tuple[int, int]], cached: Mapping[int, int]) -> int:
    """Returns how many offsets of `ranges` (partition to start and end) are below cached ends."""
    return sum(
        max(0, min(end, cached.get(partition, 0)) - start)
        for partition, (start, end) in ranges.items()
    )


def merge_ranges(merged: dict[int, tuple[int, int]], scan: Scan) -> None:
    """Widens `merged` (partition to start and end) to include what the scan reads."""
    for r in scan.hot_ranges:
        start, end = merged.get(r.partition, (r.start, r.end_exclusive))
        merged[r.partition] = (min(start, r.start), max(end, r.end_exclusive))
