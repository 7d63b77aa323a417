"""Tiering decisions: which batch continues a table, and whether a committed batch may stand."""

from __future__ import annotations

import dataclasses
import enum

from seamline.errors import COMMIT_CONFLICT, TIERING_GAP, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of, decode, foreign_change, kept_side
from seamline.seam.evolution import Change
from seamline.seam.history_checks import moved_back, recreated, require, trimmed, truncated
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import Snapshot, TableState


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """The work of one tiering step.

    Attributes:
        binding: The topic behind the table.
        snapshot_id: The snapshot whose boundary it starts at.
        schema_id: Schema its rows are decoded with.
        ranges: The ranges it reads; partitions without new offsets are absent.
        boundary: The boundary that its commit writes.
        base_epochs: Leader epochs the log had when the starting boundary was chosen.
    """

    binding: TopicBinding
    snapshot_id: int
    schema_id: int
    ranges: tuple[OffsetRange, ...]
    boundary: Boundary
    base_epochs: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def batch_id(self) -> int:
        """The `_kafka_batch` value of its rows."""
        return self.boundary.batch_id(self.boundary.start)

    @property
    def offsets(self) -> int:
        """Offsets it covers; there are at most as many records."""
        return sum(len(r) for r in self.ranges)

    def boundary_with(self, skipped: int) -> Boundary:
        """Returns the boundary that its commit writes if so many of its records are left out."""
        return dataclasses.replace(self.boundary, skipped=self.boundary.skipped + skipped)


class Outcome(enum.Enum):
    """The outcome of a step."""

    IDLE = "idle"
    ROWS = "rows"
    PROGRESS = "progress"
    EVOLVED = "evolved"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The report of one step.

    Attributes:
        outcome: Nothing to do, rows committed, progress without rows, or columns changed as the
            next batch needs.
        offsets: Offsets the step covered.
        lag: Offsets between the table's boundary and the log's end, after the step.
        boundary: The table's boundary after the step.
        changes: The changes made to the columns.
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
    """Returns the batch that continues a table; None when there is nothing new.

    Args:
        state: The table's metadata.
        binding: The topic behind it.
        before: The boundary at its current snapshot.
        bounds: What the log holds, under the boundary's isolation.
        records_max: Most offsets to cover, shared among partitions in proportion to what each has
            waiting.

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
    """Returns how many offsets to take from each partition: all, or a fair share of the maximum."""
    if total <= records_max:
        return waiting
    return {p: min(n, -(-n * records_max // total)) for p, n in waiting.items()}


def lag(boundary: Boundary, bounds: LogBounds) -> int:
    """Returns the number of offsets between a boundary and the log's end."""
    return sum(max(0, end - boundary.next.get(p, 0)) for p, end in bounds.end.items())


def since(state: TableState, snapshot_id: int) -> tuple[Snapshot, ...] | None:
    """Returns the commits after a snapshot up to the head, oldest first.

    None if the snapshot is not, or no longer, in the history of the head.
    """
    newer: list[Snapshot] = []
    for snapshot in state.ancestors(state.current_snapshot_id):
        if snapshot.snapshot_id == snapshot_id:
            return tuple(reversed(newer))
        newer.append(snapshot)
    return None


def overtaken(state: TableState, batch: Batch) -> SeamlineError | None:
    """Returns an error if what others have committed keeps a batch from landing on the head.

    Args:
        state: The table as it is now.
        batch: A batch that was made for an earlier snapshot of the table.
    """
    newer = since(state, batch.snapshot_id)
    if newer is None:
        why = "the snapshot that a batch was made for is not in its history any more"
    elif any(_has_moved(decode(snapshot), batch) for snapshot in newer):
        why = "another batch has landed, or the table has changed hands"
    elif state.current_schema_id != batch.schema_id:
        why = "its schema changed while a batch was written"
    else:
        return None
    return SeamlineError(COMMIT_CONFLICT, f"table {state.display_name}: {why}")


def _has_moved(boundary: Boundary | None, batch: Batch) -> bool:
    """Whether a boundary is any other than the one that a batch starts from, said again."""
    if boundary is None:
        return False
    starts = batch.boundary.start
    is_same = boundary.next.keys() <= starts.keys() and all(
        boundary.next.get(partition, 0) == start for partition, start in starts.items()
    )
    is_ours = (boundary.topic_id, boundary.taken_id) == (
        batch.boundary.topic_id,
        batch.boundary.taken_id,
    )
    return not is_same or not is_ours or bool(boundary.handed_to)


def misplaced(after: TableState, batch: Batch, bounds: LogBounds) -> SeamlineError | None:
    """Returns an error if a committed batch may not stand, as it is not what its boundary says.

    Args:
        after: The table with the batch's commit as its newest boundary.
        batch: The batch.
        bounds: What the log holds, read after the batch.
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
    if (previous.gaps, previous.earlier_logs) != (landed.gaps, landed.earlier_logs):
        return SeamlineError(
            COMMIT_CONFLICT,
            f"a loss of table {after.display_name} was accepted while a batch was written",
        )
    return _discontinued(after, previous, landed)


def _boundary_before(state: TableState, snapshot: Snapshot) -> Boundary | None:
    """Returns the boundary before a commit; None if the snapshot that carried it has expired."""
    side = kept_side(state, snapshot.parent_id)
    return side.boundary if side is not None else None


def _discontinued(state: TableState, previous: Boundary, landed: Boundary) -> SeamlineError | None:
    """Returns an error if a batch does not continue the boundary it landed on.

    A batch lands on a boundary other than the one it started from only after progress without rows,
    because then no row shows that the offsets were already passed.
    """
    if moved_back(previous.next, landed.start):
        return SeamlineError(
            TIERING_GAP,
            f"a batch of table {state.display_name} starts above the preceding boundary",
        )
    if moved_back(landed.next, previous.next):
        return SeamlineError(
            COMMIT_CONFLICT,
            f"a batch of table {state.display_name} ends before the preceding boundary",
        )
    return None
