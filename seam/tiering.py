"""Tiering's decisions: which batch continues a table, and whether one that landed may stand."""

from __future__ import annotations

import dataclasses
import enum

from seamline.errors import (
    BOUNDARY_MISSING,
    COMMIT_CONFLICT,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TIERING_GAP,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of, foreign_change
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import Snapshot, TableState


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """One step's work.

    Attributes:
        binding: The topic behind the table.
        snapshot_id: The snapshot whose boundary it starts at.
        schema_id: Schema its rows are decoded with.
        ranges: What it reads; partitions without new offsets are absent.
        boundary: What its commit says.
        base_epochs: Leader epochs the log had when the boundary it starts at was chosen.
    """

    binding: TopicBinding
    snapshot_id: int
    schema_id: int
    ranges: tuple[OffsetRange, ...]
    boundary: Boundary
    base_epochs: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def mark(self) -> int:
        """`_kafka_batch` of its rows: the sum of the start offsets.

        It grows with every batch that holds a row, so no row of an earlier batch reaches it, and a
        second batch from the same boundary has the same one.
        """
        return sum(self.boundary.start.values())

    @property
    def offsets(self) -> int:
        """Offsets it covers; records are at most as many."""
        return sum(len(r) for r in self.ranges)


class Outcome(enum.Enum):
    """What a step did."""

    IDLE = "idle"
    ROWS = "rows"
    PROGRESS = "progress"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The report of one step.

    Attributes:
        outcome: Nothing to do, rows committed, or progress without rows.
        offsets: Offsets the step covered.
        lag: Offsets between the table's boundary and the log's end, after the step.
        boundary: The table's boundary after the step.
    """

    outcome: Outcome
    offsets: int
    lag: int
    boundary: Offsets


def next_batch(
    state: TableState,
    binding: TopicBinding,
    before: Boundary,
    bounds: LogBounds,
    *,
    records_max: int,
) -> Batch | None:
    """The batch that continues a table, None when there is nothing new.

    Args:
        state: The table's metadata.
        binding: The topic behind it.
        before: The boundary at its current snapshot.
        bounds: What the log holds, under the boundary's isolation.
        records_max: Offsets it covers at most, shared over partitions by what each has waiting.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED, LOG_TRUNCATED.
    """
    assert state.current_snapshot_id is not None
    if before.topic_id != bounds.topic_id:
        raise SeamlineError(
            TOPIC_RECREATED,
            f"topic {bounds.topic} now has id {bounds.topic_id}; table {state.display_name} was "
            f"tiered from {before.topic_id}",
        )
    starts = {p: before.next.get(p, 0) for p in sorted({*before.next, *bounds.end})}
    for partition, start in starts.items():
        _check_partition(partition, start, bounds)
    waiting = {p: max(0, bounds.end.get(p, 0) - start) for p, start in starts.items()}
    total = sum(waiting.values())
    if total == 0:
        return None
    taken = _shares(waiting, total, records_max)
    ranges = tuple(OffsetRange(p, starts[p], starts[p] + n) for p, n in taken.items() if n)
    return Batch(
        binding=binding,
        snapshot_id=state.current_snapshot_id,
        schema_id=state.current_schema_id,
        ranges=ranges,
        base_epochs=before.epochs,
        boundary=dataclasses.replace(
            before,
            cluster_id=bounds.cluster_id,
            topic=bounds.topic,
            start=Offsets(starts),
            next=Offsets({p: start + taken[p] for p, start in starts.items()}),
            schema_id=state.current_schema_id,
            epochs=bounds.leader_epochs,
            base_id=state.current_snapshot_id,
            foreign_change_id=foreign_change(state, state.current_snapshot_id),
        ),
    )


def _check_partition(partition: int, start: int, bounds: LogBounds) -> None:
    kept_from = bounds.start.get(partition, 0)
    if kept_from > start:
        raise SeamlineError(
            LOG_TRIMMED,
            f"partition {partition} of topic {bounds.topic} starts at {kept_from}, the table at "
            f"{start}: {kept_from - start} offsets were lost before they were tiered",
            details={"partition": partition, "log_start": kept_from, "boundary": start},
        )
    end = bounds.high_watermark.get(partition)
    if end is not None and start > end:
        raise SeamlineError(
            LOG_TRUNCATED,
            f"partition {partition} of topic {bounds.topic} ends at {end}, before the table's "
            f"boundary {start}",
            details={"partition": partition, "log_end": end, "boundary": start},
        )


def _shares(waiting: dict[int, int], total: int, records_max: int) -> dict[int, int]:
    """How many offsets to take of each partition: all, or a fair share of the most allowed."""
    if total <= records_max:
        return waiting
    return {p: min(n, -(-n * records_max // total)) for p, n in waiting.items()}


def lag(boundary: Boundary, bounds: LogBounds) -> int:
    """Offsets between a boundary and the log's end."""
    return sum(max(0, end - boundary.next.get(p, 0)) for p, end in bounds.end.items())


def _recreated(topic: str) -> SeamlineError:
    return SeamlineError(
        TOPIC_RECREATED, f"topic {topic} was created again while a batch was read from it"
    )


def _boundary_before(state: TableState, snapshot: Snapshot) -> Boundary | None:
    """The boundary a commit stands on; None when what carried it has expired since."""
    try:
        return boundary_of(state, snapshot.parent_id)
    except SeamlineError as error:
        if error.code is BOUNDARY_MISSING:
            return None
        raise


def _misplaced(state: TableState, previous: Boundary, landed: Boundary) -> SeamlineError | None:
    """Whether a batch does not continue what it landed on.

    Only progress without rows, whose offsets no row of the batch tells from its own, lets it land
    on another boundary than the one it started from.
    """
    if any(start > previous.next.get(p, 0) for p, start in landed.start.items()):
        return SeamlineError(
            TIERING_GAP,
            f"a batch of table {state.display_name} starts above the boundary before it",
        )
    if any(landed.next.get(p, 0) < offset for p, offset in previous.next.items()):
        return SeamlineError(
            COMMIT_CONFLICT,
            f"a batch of table {state.display_name} ends before the boundary before it",
        )
    return None
