"""The logical plan: a bound query whose every scan is pinned to its seam.

Frozen values. Rules take a plan and give an equivalent one that reads less; what a rule cannot
prove stays as it is, and the query keeps its own filters whatever a scan has pushed.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Literal, TypeAlias

from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import Seam
from seamline.sql.predicates import Predicate
from seamline.sql.qualify import BoundQuery
from seamline.sql.types import Field

Kind: TypeAlias = Literal["unified", "hot", "cold", "system"]


@dataclasses.dataclass(frozen=True, slots=True)
class ScanFacts:
    """What is known of the table behind one scan, read once per statement.

    Attributes:
        kind: Which tiers it has; `system` for a table made of the gateway's own knowledge.
        seam: The exact cut.
        binding: The topic behind it, None without one.
        offsets_at: Per moment (milliseconds) asked for, the first offset at or after it.
        held: Exclusive ends up to which the gateway holds the tail already, per partition.
        as_of: What moment the ends reflect, when they were not asked of the log.
        can_be_held: Whether the whole tail would fit into what the gateway may hold.
    """

    kind: Kind
    seam: Seam
    binding: TopicBinding | None = None
    offsets_at: Mapping[int, Offsets] = dataclasses.field(default_factory=dict, hash=False)
    held: Offsets = dataclasses.field(default_factory=Offsets)
    can_be_held: bool = False
    as_of: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """One reading of one table.

    Attributes:
        scan_id: Its name in the query's tree.
        facts: The table behind it.
        columns: The columns the query uses.
        predicate: Rows for which it is not true are of no use to the query; None says nothing.
        hot_ranges: What must be read of the log: within the seam's tail.
        pruned_by: What cut the tail, for EXPLAIN.
    """

    scan_id: str
    facts: ScanFacts
    columns: tuple[Field, ...]
    predicate: Predicate | None = None
    hot_ranges: tuple[OffsetRange, ...] = ()
    pruned_by: tuple[str, ...] = ()

    @property
    def seam(self) -> Seam:
        """The exact cut of the table."""
        return self.facts.seam

    @property
    def reads_hot(self) -> bool:
        """Whether the scan has a hot side."""
        return self.facts.kind in {"unified", "hot"}

    @property
    def reads_cold(self) -> bool:
        """Whether the scan has a cold side."""
        return self.facts.kind in {"unified", "cold"}


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalPlan:
    """A query and its scans, in the order of the query's own list."""

    query: BoundQuery
    scans: tuple[Scan, ...]
