"""The logical plan: a bound query whose every scan is pinned to the seam of its table.

Frozen values. Rules take a plan and give an equivalent one that reads less; what a rule cannot
prove stays as it is, and the query keeps its own filters whatever a scan has pushed.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Literal, TypeAlias

import pyarrow as pa

from seamline.seam.binding import TopicBinding
from seamline.seam.files import ColdPlan
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.seam import Seam
from seamline.seam.upserts import Newest, over
from seamline.sql.columns import DELETED
from seamline.sql.predicates import Predicate
from seamline.sql.qualify import BoundQuery
from seamline.sql.types import Field

Kind: TypeAlias = Literal["unified", "hot", "cold", "system"]


@dataclasses.dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of a table that a statement reads, gathered once.

    Attributes:
        kind: Which tiers it has; `system` for a table made of the gateway's own knowledge.
        seam: Where its snapshot ends and its log begins.
        binding: The topic behind it, None without one.
        decoder: What makes rows of its records, None without a hot side.
        stored: Columns of the schema that the snapshot was written with.
        rows: The rows themselves, for tables made of the gateway's own knowledge.
        cached: Exclusive ends up to which the gateway has the tail already, per partition.
        fits_cache: Whether the whole tail would fit into what the gateway may keep.
        as_of: What moment the ends reflect, when they were not asked of the log.
        present: Whether the seam is the table's present one, up to the end of its log.
        known_at: On the monotonic clock, a moment before the table was loaded.
        asked_at: A moment before the log was asked for the ends; None when it was not.
    """

    kind: Kind
    seam: Seam
    binding: TopicBinding | None = None
    decoder: DecoderSpec | None = None
    stored: tuple[Field, ...] = ()
    rows: pa.Table | None = dataclasses.field(default=None, compare=False)
    cached: Offsets = dataclasses.field(default_factory=Offsets)
    fits_cache: bool = False
    as_of: datetime.datetime | None = None
    present: bool = False
    known_at: float = 0.0
    asked_at: float | None = None

    @property
    def places(self) -> Places | None:
        """The table's columns that say which record a row is, if it has any."""
        return self.decoder.places if self.decoder is not None else None

    @property
    def reads_hot(self) -> bool:
        """Whether it has a hot side."""
        return self.kind in {"unified", "hot"}

    @property
    def reads_cold(self) -> bool:
        """Whether it has a cold side that is read."""
        return self.kind in {"unified", "cold"} and not self.seam.is_hot

    @property
    def newest(self) -> Newest | None:
        """What of its rows counts; None when all do, as in a snapshot alone."""
        binding, decoder = self.binding, self.decoder
        if binding is None or decoder is None or not self.reads_hot or self.seam.is_logged:
            return None
        return Newest.of(binding, decoder)


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """One reading of one table.

    Attributes:
        scan_id: Its name in the query's tree.
        facts: The table behind it.
        columns: The columns the query uses.
        predicate: Rows for which it is not true are of no use to the query; None says nothing.
        files: What must be read of the snapshot, None without a cold side.
        offsets_at: Per moment (milliseconds) asked for, the first offset at or after it.
        hot_ranges: What must be read of the log: within the seam's tail.
        pruned_by: What cut the tail, for EXPLAIN.
    """

    scan_id: str
    facts: TableFacts
    columns: tuple[Field, ...]
    predicate: Predicate | None = None
    files: ColdPlan | None = None
    offsets_at: Mapping[int, Offsets] = dataclasses.field(default_factory=dict, hash=False)
    hot_ranges: tuple[OffsetRange, ...] = ()
    pruned_by: tuple[str, ...] = ()

    @property
    def seam(self) -> Seam:
        """The seam of the table."""
        return self.facts.seam

    @property
    def tail_predicate(self) -> Predicate | None:
        """Rows of the tail for which it is not true are of no use to the query.

        Any row of an upsert table may be what hides another of its key, or what that is hidden by:
        so of its tail all rows of a key are read, or none.
        """
        newest = self.facts.newest
        if newest is None:
            return self.predicate
        return over(self.predicate, newest.key_names)

    @property
    def tail_columns(self) -> frozenset[str]:
        """Names of the columns that are read of the tail."""
        wanted = frozenset(column.name for column in self.columns)
        newest = self.facts.newest
        if newest is None:
            return wanted
        deciding = (newest.partition.name, newest.offset.name, DELETED)
        return wanted.union(newest.key_names, deciding)


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalPlan:
    """A query and its scans, in the order of the query's own list."""

    query: BoundQuery
    scans: tuple[Scan, ...]

    @property
    def files(self) -> dict[str, ColdPlan]:
        """What is read of snapshots, by scan id; scans without a cold side are absent."""
        return {scan.scan_id: scan.files for scan in self.scans if scan.files is not None}
