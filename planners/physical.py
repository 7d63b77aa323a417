"""The physical plan: everything an engine needs to run a statement, as a frozen value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.planners.estimate import Estimate, merge_ranges
from seamline.planners.logical import LogicalPlan, Scan
from seamline.planners.route import Route
from seamline.seam.files import ColdPlan
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import Seam


@dataclasses.dataclass(frozen=True, slots=True)
class TailRead:
    """One reading of a table's tail, shared by every scan of that table.

    Attributes:
        seam: The exact cut of the table.
        ranges: What any scan needs, within the seam's tail.
    """

    seam: Seam
    ranges: tuple[OffsetRange, ...]

    @property
    def offsets(self) -> int:
        """Offsets to read; records are at most as many."""
        return sum(len(r) for r in self.ranges)

    @property
    def epochs(self) -> Offsets:
        """The epochs known of where ranges start: those that start at the boundary itself."""
        known, boundary = self.seam.epochs, self.seam.boundary
        return Offsets(
            {
                r.partition: known[r.partition]
                for r in self.ranges
                if r.partition in known and r.start == boundary[r.partition]
            }
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """What is read, where it is computed, and why there.

    Attributes:
        logical: The plan after the rules.
        cold: Files by scan id; scans without a cold side are absent.
        tails: Tail readings by the key of their seam; tables without a hot side are absent.
        estimate: How much that is.
        route: The engine and the reason.
    """

    logical: LogicalPlan
    cold: Mapping[str, ColdPlan] = dataclasses.field(hash=False)
    tails: Mapping[tuple[str, ...], TailRead] = dataclasses.field(hash=False)
    estimate: Estimate
    route: Route

    @property
    def seams(self) -> tuple[Seam, ...]:
        """Each seam once, in the order of the statement.

        A table that is also read without its tail has its whole seam here.
        """
        found: dict[tuple[str, ...], Seam] = {}
        for scan in self.logical.scans:
            known = found.get(scan.seam.key)
            if known is None or not known.topic:
                found[scan.seam.key] = scan.seam
        return tuple(found.values())


def physical_plan(
    plan: LogicalPlan, cold: Mapping[str, ColdPlan], estimate: Estimate, route: Route
) -> PhysicalPlan:
    """Puts the parts together; scans of one seam share one reading of its tail."""
    tables: dict[tuple[str, ...], list[Scan]] = {}
    for scan in plan.scans:
        if scan.reads_hot:
            tables.setdefault(scan.seam.key, []).append(scan)
    tails = {}
    for name, scans in tables.items():
        merged: dict[int, tuple[int, int]] = {}
        for scan in scans:
            merge_ranges(merged, scan)
        ranges = tuple(OffsetRange(p, start, end) for p, (start, end) in sorted(merged.items()))
        tails[name] = TailRead(scans[0].seam, ranges)
    return PhysicalPlan(plan, dict(cold), tails, estimate, route)
