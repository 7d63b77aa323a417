"""How much a plan would read, from facts alone: files planned, offsets in the tail."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.connectors.base import ColdPlan
from seamline.planners.logical import LogicalPlan, Scan

BYTES_PER_TAIL_RECORD = 300
"""Taken for a record of the log until it has been read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """Rows and bytes to read; tail rows are offsets, so never fewer than there are records.

    Attributes:
        cold_rows: Rows of the files planned.
        cold_bytes: Bytes of those files.
        hot_rows: Offsets of the tails, each table's counted once however often it is scanned.
    """

    cold_rows: int
    cold_bytes: int
    hot_rows: int

    @property
    def hot_bytes(self) -> int:
        """Rough size of the tails."""
        return self.hot_rows * BYTES_PER_TAIL_RECORD


def estimate(plan: LogicalPlan, cold: Mapping[str, ColdPlan]) -> Estimate:
    """What the plan reads.

    Args:
        plan: The plan after the rules.
        cold: Files by scan id; scans without a cold side are absent.
    """
    tails: dict[tuple[str, ...], dict[int, tuple[int, int]]] = {}
    for scan in plan.scans:
        merge_ranges(tails.setdefault(scan.seam.key, {}), scan)
    return Estimate(
        cold_rows=sum(plan_.rows for plan_ in cold.values()),
        cold_bytes=sum(plan_.size_bytes for plan_ in cold.values()),
        hot_rows=sum(end - start for t in tails.values() for start, end in t.values()),
    )


def merge_ranges(merged: dict[int, tuple[int, int]], scan: Scan) -> None:
    """Widens `merged` (partition to start and end) by what the scan reads."""
    for r in scan.hot_ranges:
        start, end = merged.get(r.partition, (r.start, r.end_exclusive))
        merged[r.partition] = (min(start, r.start), max(end, r.end_exclusive))
