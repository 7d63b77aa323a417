"""Tiering's decisions: which batch continues a table, and whether one that landed may stand."""

from __future__ import annotations

import dataclasses
import enum

from seamline.errors import COMMIT_CONFLICT, TIERING_GAP, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of, foreign_change, kept_side
from seamline.seam.checks import moved_back, recreated, require, trimmed, truncated
from seamline.seam.evolution import Change
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
        boundary: The boundary that its commit writes.
        base_epochs: Leader epochs the log had when the boundary it starts at was chosen.
    """

    binding: TopicBinding
    snapshot_id: int
    schema_id: int
    ranges: tuple[OffsetRange, ...]
    boundary: Boundary
    base_epochs: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def batch_id(self) -> int:
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
    EVOLVED = "evolved"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The report of one step.

    Attributes:
        outcome: Nothing to do, rows committed, progress without rows, or columns changed, which the
            next batch needs.
        offsets: Offsets the step covered.
        lag: Offsets between the table's boundary and the log's end, after the step.
        boundary: The table's boundary after the step.
        changes: What has been changed of the columns.
    """

    outcome: Outcome
    offsets: int
    lag: int
    boundary: Offsets
    changes: tuple[Change, ...] = ()


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
        records_max: Offsets it covers at most, shared among partitions by what each has waiting.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED, LOG_TRUNCATED.
    """
    assert state.current_snapshot_id is not None
    starts = {p: before.next.get(p, 0) for p in sorted({*before.next, *bounds.end})}
    require(
        recreated(bounds.topic, bounds.topic_id, before.topic_id),
        trimmed(bounds, starts),
        truncated(bounds, {p: start for p, start in starts.items() if p in bounds.end}),
    )
    waiting = {p: max(0, bounds.end.get(p, 0) - start) for p, start in starts.items()}
    total = sum(waiting.values())
    if total == 0:
        return None
    taken = _shares(waiting, total, records_max)
    ranges = tuple(OffsetRange(p, starts[p], starts[p] + n) for p, n in taken.items() if n)
    format_ = str(binding.encoding)
    how = (format_, binding.on_error, state.current_schema_id)
    is_same = how == (before.format, before.on_error, before.schema_id)
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
            format=format_,
            on_error=binding.on_error,
            decoded_from=before.decoded_from if is_same else Offsets(starts),
            epochs=bounds.leader_epochs,
            base_id=state.current_snapshot_id,
            foreign_change_id=foreign_change(state, state.current_snapshot_id),
            handed_to="",
        ),
    )


def _shares(waiting: dict[int, int], total: int, records_max: int) -> dict[int, int]:
    """How many offsets to take of each partition: all, or a fair share of the most allowed."""
    if total <= records_max:
        return waiting
    return {p: min(n, -(-n * records_max // total)) for p, n in waiting.items()}


def lag(boundary: Boundary, bounds: LogBounds) -> int:
    """Offsets between a boundary and the log's end."""
    return sum(max(0, end - boundary.next.get(p, 0)) for p, end in bounds.end.items())


def misplaced(after: TableState, batch: Batch, bounds: LogBounds) -> SeamlineError | None:
    """Why a batch that has landed may not stand: it is not what its boundary says.

    Args:
        after: The table with the batch's commit as its newest boundary.
        batch: The batch.
        bounds: What the log holds, read after the batch was.
    """
    landed = boundary_of(after, after.current_snapshot_id)
    snapshot = after.snapshots[landed.snapshot_id]
    another = recreated(bounds.topic, bounds.topic_id, batch.boundary.topic_id)
    if another is not None:
        return another
    if snapshot.schema_id is not None and snapshot.schema_id != batch.schema_id:
        return SeamlineError(
            COMMIT_CONFLICT,
            f"the schema of table {after.display_name} changed while a batch was written",
        )
    previous = _boundary_before(after, snapshot)
    if previous is None:
        return None
    if previous.taken_id != landed.taken_id:
        return SeamlineError(
            COMMIT_CONFLICT,
            f"table {after.display_name} changed hands while a batch was written",
        )
    return _discontinued(after, previous, landed)


def _boundary_before(state: TableState, snapshot: Snapshot) -> Boundary | None:
    """The boundary below a commit; None when what carried it has expired since."""
    found = kept_side(state, snapshot.parent_id)
    return found.boundary if found is not None else None


def _discontinued(state: TableState, previous: Boundary, landed: Boundary) -> SeamlineError | None:
    """Whether a batch does not continue what it landed on.

    A batch lands on another boundary than the one it started from only after progress without
    rows, since no row then shows that the offsets were passed already.
    """
    if moved_back(previous.next, landed.start):
        return SeamlineError(
            TIERING_GAP,
            f"a batch of table {state.display_name} starts above the boundary before it",
        )
    if moved_back(landed.next, previous.next):
        return SeamlineError(
            COMMIT_CONFLICT,
            f"a batch of table {state.display_name} ends before the boundary before it",
        )
    return None
