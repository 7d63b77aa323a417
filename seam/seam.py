"""The seam: where a statement stops reading the cold snapshot and starts reading the log.

A `Seam` is frozen. Its guarantee: for every partition p, the rows of the snapshot are the records
of [table start, boundary[p]) and the hot read takes [boundary[p], end[p]); together every committed
record below `end` once. One seam per table per statement, for both engines.

Everything here is a pure function of facts, and fails closed: where the two tiers cannot be proven
to meet without a hole or an overlap, the answer is a named error, never fewer or more rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.errors import (
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.seam.boundary import Boundary
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState


@dataclasses.dataclass(frozen=True, slots=True)
class Seam:
    """The exact cut of one table in one statement.

    Attributes:
        table: Full name of the table, catalog first.
        table_uuid: Iceberg's id of it.
        snapshot_id: The cold snapshot; None when there is no cold side.
        schema_id: Schema both tiers are read with.
        cluster: Name of the cluster in the configuration; empty when there is no hot side.
        topic: Name of the topic.
        topic_id: Kafka's id of it.
        isolation: What the log is read under.
        boundary: `B`: first offset not in the snapshot, per partition of the log or the table.
        end: `E`: exclusive end of the statement's reading, at least `boundary`.
        pending: Offsets past `end` that open transactions hold back.
        cold_end: When set, cold rows at or past these offsets do not belong to the cut: a later
            snapshot stands in for the one the cut was made with.
        skipped: Bad records the snapshot leaves out under the policy `skip`.
        epochs: Leader epochs the log had at `boundary`, where known.
        end_epochs: Those it had at `end`.
        foreign_change_id: See `Boundary.foreign_change_id`, at the snapshot.
        as_of: What the statement asks of this table's past, as it says it; empty for the present.
    """

    table: tuple[str, ...]
    table_uuid: str
    snapshot_id: int | None
    schema_id: int
    cluster: str = ""
    topic: str = ""
    topic_id: str = ""
    isolation: str = ""
    boundary: Offsets = dataclasses.field(default_factory=Offsets)
    end: Offsets = dataclasses.field(default_factory=Offsets)
    pending: int = 0
    cold_end: Offsets | None = None
    skipped: int = 0
    epochs: Offsets = dataclasses.field(default_factory=Offsets)
    end_epochs: Offsets = dataclasses.field(default_factory=Offsets)
    foreign_change_id: int | None = None
    as_of: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Tells it from the other seams of a statement: a table has one a moment asked for."""
        return (*self.table, self.as_of)

    @property
    def hot_ranges(self) -> tuple[OffsetRange, ...]:
        """The tail: half-open ranges that only the log holds, empty ones left out."""
        return tuple(
            OffsetRange(partition, self.boundary[partition], end)
            for partition, end in self.end.items()
            if end > self.boundary[partition]
        )

    @property
    def display_name(self) -> str:
        """Dotted name for messages."""
        name = ".".join(self.table)
        return f"{name} as of {self.as_of}" if self.as_of else name


@dataclasses.dataclass(frozen=True, slots=True)
class ColdSide:
    """A snapshot that a read may take its cold rows from.

    Attributes:
        snapshot_id: The snapshot.
        boundary: The boundary at it.
        foreign_change_id: See `Boundary.foreign_change_id`, at it.
    """

    snapshot_id: int
    boundary: Boundary
    foreign_change_id: int | None = None


def pin(
    state: TableState,
    cold: ColdSide,
    bounds: LogBounds,
    *,
    cluster: str,
    bounds_are_newer: bool = False,
) -> Seam | None:
    """Places the seam of one table.

    Args:
        state: The table's metadata.
        cold: The snapshot to read.
        bounds: What the log holds, under the boundary's isolation.
        cluster: Name of the cluster in the configuration.
        bounds_are_newer: Whether `bounds` were read after `state`. Ends are read first, so a
            boundary past the log's end may only mean that a commit landed in between; read again
            afterwards, it means that the log has lost records.

    Returns:
        The seam, or None when the bounds are too old to tell and must be read again.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED or LOG_TRUNCATED.
    """
    boundary = cold.boundary
    check_topic(boundary, bounds)
    place = f"of topic {bounds.topic}"
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for partition, end in bounds.end.items():
        start = boundary.next.get(partition, 0)
        kept_from = bounds.start.get(partition, 0)
        if kept_from > start:
            raise SeamlineError(
                LOG_TRIMMED,
                f"partition {partition} {place} starts at {kept_from}, the table at "
                f"{start}: {kept_from - start} offsets are in neither",
                details={"partition": partition, "log_start": kept_from, "boundary": start},
            )
        if start > max(end, bounds.high_watermark.get(partition, end)):
            if not bounds_are_newer:
                return None
            raise SeamlineError(
                LOG_TRUNCATED,
                f"partition {partition} {place} ends at "
                f"{bounds.high_watermark.get(partition, end)}, before the table's boundary {start}",
                details={"partition": partition, "log_end": end, "boundary": start},
            )
        starts[partition] = start
        ends[partition] = max(start, end)
    for partition, start in boundary.next.items():
        if partition not in ends:
            starts[partition] = ends[partition] = start
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        snapshot_id=cold.snapshot_id,
        schema_id=state.current_schema_id,
        cluster=cluster,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        isolation=bounds.isolation,
        boundary=Offsets(starts),
        end=Offsets(ends),
        pending=sum(max(0, bounds.high_watermark.get(p, end) - end) for p, end in ends.items()),
        skipped=boundary.skipped,
        epochs=boundary.epochs,
        end_epochs=bounds.leader_epochs,
        foreign_change_id=cold.foreign_change_id,
    )


def check_topic(boundary: Boundary, bounds: LogBounds) -> None:
    """The boundary must belong to this very log, not to another of the same name.

    Raises:
        SeamlineError: TOPIC_RECREATED.
    """
    if boundary.topic_id != bounds.topic_id:
        raise SeamlineError(
            TOPIC_RECREATED,
            f"topic {bounds.topic} now has id {bounds.topic_id}; the table was tiered from "
            f"{boundary.topic_id}",
        )


def hot_only(name: tuple[str, ...], bounds: LogBounds, *, cluster: str, schema_id: int = 0) -> Seam:
    """The seam of a topic without a table: everything the log holds is the tail."""
    return Seam(
        table=name,
        table_uuid="",
        snapshot_id=None,
        schema_id=schema_id,
        cluster=cluster,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        isolation=bounds.isolation,
        boundary=Offsets({p: bounds.start.get(p, 0) for p in bounds.end}),
        end=bounds.end,
        end_epochs=bounds.leader_epochs,
        pending=bounds.pending,
    )


def cold_only(
    state: TableState, snapshot_id: int | None, *, schema_id: int | None = None, as_of: str = ""
) -> Seam:
    """The seam of an Iceberg table without a topic: the snapshot is everything."""
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        snapshot_id=snapshot_id,
        schema_id=state.current_schema_id if schema_id is None else schema_id,
        as_of=as_of,
    )


def invisible(bounds: LogBounds, wanted: Mapping[int, int]) -> str | None:
    """Why the log does not show every partition up to a wanted exclusive end yet; None if it does.

    Args:
        bounds: What the log holds.
        wanted: Exclusive ends that must be readable.
    """
    for partition, stop in wanted.items():
        end = bounds.end.get(partition)
        if end is None:
            return f"topic {bounds.topic} has no partition {partition}"
        if end >= stop:
            continue
        held = bounds.high_watermark.get(partition, end)
        if held >= stop:
            return (
                f"offset {stop - 1} of partition {partition} of topic {bounds.topic} is there, but "
                f"a transaction that began at offset {end} is still open"
            )
        return (
            f"partition {partition} of topic {bounds.topic} ends at {held}: it does not hold "
            f"offset {stop - 1}"
        )
    return None
