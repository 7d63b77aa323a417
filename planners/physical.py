"""The physical plan: everything an engine needs to run a statement, as a frozen value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from seamline.planners.estimate import Estimate, merge_ranges
from seamline.planners.logical import LogicalPlan, Scan
from seamline.planners.route import Route
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam, SeamKey
from seamline.sql.predicates import Or, Predicate


@dataclasses.dataclass(frozen=True, slots=True)
class TailRead:
    """One reading of a table's tail, shared by every scan of that table.

    Attributes:
        seam: The seam of the table.
        ranges: What any scan needs, within the seam's tail.
        decoder: What makes rows of the records.
        columns: Names of the columns to keep.
        predicate: Rows for which it is not true may be left out; None keeps all.
        present: Whether the seam is the table's present one.
        known_at: A moment on the monotonic clock before the table was loaded.
        asked_at: A moment before the log was asked for the ends; None when it was not.
    """

    seam: Seam
    ranges: tuple[OffsetRange, ...]
    decoder: DecoderSpec
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    present: bool = False
    known_at: float = 0.0
    asked_at: float | None = None

    @property
    def offsets(self) -> int:
        """Offsets to read; records are at most as many."""
        return sum(len(r) for r in self.ranges)

    @property
    def is_whole(self) -> bool:
        """Whether it is every record of the seam's tail."""
        return self.predicate is None and self.ranges == self.seam.hot_ranges

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
        tails: Tail readings by the key of their seam; tables without a hot side are absent.
        estimate: How much that is.
        route: The engine and the reason.
    """

    logical: LogicalPlan
    tails: Mapping[SeamKey, TailRead] = dataclasses.field(hash=False)
    estimate: Estimate
    route: Route

    @property
    def seams(self) -> tuple[Seam, ...]:
        """Each seam once, in the order of the statement.

        A table that is also read without its tail has its whole seam here.
        """
        found: dict[SeamKey, Seam] = {}
        for scan in self.logical.scans:
            known = found.get(scan.seam.key)
            if known is None or not known.topic:
                found[scan.seam.key] = scan.seam
        return tuple(found.values())


def physical_plan(plan: LogicalPlan, estimate: Estimate, route: Route) -> PhysicalPlan:
    """Puts the parts together; scans of one seam share one reading of its tail."""
    tables: dict[SeamKey, list[Scan]] = {}
    for scan in plan.scans:
        if scan.facts.reads_hot:
            tables.setdefault(scan.seam.key, []).append(scan)
    tails = {key: _tail_read(scans) for key, scans in tables.items()}
    return PhysicalPlan(plan, tails, estimate, route)


def _tail_read(scans: Sequence[Scan]) -> TailRead:
    facts = scans[0].facts
    assert all(scan.seam == facts.seam for scan in scans), "a table has one seam in a statement"
    assert facts.decoder is not None
    merged: dict[int, tuple[int, int]] = {}
    for scan in scans:
        merge_ranges(merged, scan)
    filters = [scan.tail_predicate for scan in scans]
    return TailRead(
        seam=facts.seam,
        ranges=tuple(OffsetRange(p, start, end) for p, (start, end) in sorted(merged.items())),
        decoder=facts.decoder,
        columns=tuple(sorted(frozenset[str]().union(*(scan.tail_columns for scan in scans)))),
        predicate=None if None in filters else Or(tuple(f for f in filters if f is not None)),
        present=facts.present,
        known_at=facts.known_at,
        asked_at=facts.asked_at,
    )
