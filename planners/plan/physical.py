"""The physical plan: everything an engine needs to run a statement, as a frozen value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from seamline.planners.plan.aggregates import PartialFiles
from seamline.planners.plan.estimate import Estimate, merge_ranges
from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.route import Route
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam, SeamKey
from seamline.sql.predicates import Or, Predicate


@dataclasses.dataclass(frozen=True, slots=True)
class TailRead:
    """One read of a table's tail, shared by every scan of that table.

    Attributes:
        seam: The seam of the table.
        ranges: The union of what the scans need, within the seam's tail.
        decoder: How the records are decoded into rows.
        columns: Names of the columns to keep.
        predicate: Rows for which this is not true may be dropped; None keeps all rows.
        present: Whether the seam is the table's current one.
        known_at: A moment before the table was loaded, on the monotonic clock.
        asked_at: A moment before the log was asked for its ends; None if it was not asked.
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
        """Offsets to read; there are at most as many records."""
        return sum(len(r) for r in self.ranges)

    @property
    def log_decoder(self) -> DecoderSpec:
        """How the records are decoded if they are read from the log for this read alone."""
        return self.decoder.narrowed(self.predicate)

    @property
    def is_whole(self) -> bool:
        """Whether it covers every record of the seam's tail."""
        return self.predicate is None and self.ranges == self.seam.hot_ranges

    @property
    def epochs(self) -> Offsets:
        """The known leader epochs at the starts of ranges that start exactly at the boundary."""
        epochs, boundary = self.seam.cold.epochs, self.seam.boundary
        return Offsets(
            {
                r.partition: epochs[r.partition]
                for r in self.ranges
                if r.partition in epochs and r.start == boundary[r.partition]
            }
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """What is read, which engine runs it, and why.

    Attributes:
        logical: The logical plan, after the rules have run.
        tails: Tail reads by seam key; tables without a hot side are absent.
        estimate: How much the plan reads.
        route: The engine, and the reason it was chosen.
        partial: Which files are not read, because their partial aggregates are there; None if all
            are read.
    """

    logical: LogicalPlan
    tails: Mapping[SeamKey, TailRead] = dataclasses.field(hash=False)
    estimate: Estimate
    route: Route
    partial: PartialFiles | None = None

    @property
    def seams(self) -> tuple[Seam, ...]:
        """Each seam once, in statement order.

        If a table is read both with and without its tail, this has the seam with the tail.
        """
        by_key: dict[SeamKey, Seam] = {}
        for scan in self.logical.scans:
            other = by_key.get(scan.seam.key)
            if other is None or not other.log.topic:
                by_key[scan.seam.key] = scan.seam
        return tuple(by_key.values())


def physical_plan(plan: LogicalPlan, estimate: Estimate, route: Route) -> PhysicalPlan:
    """Assembles the physical plan; scans of the same seam share one read of its tail."""
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
