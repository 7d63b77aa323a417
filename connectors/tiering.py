"""Tiering: the protocol that moves the tail of a log into its table, over any log and any table.

One step: read the table, choose a batch that starts at the boundary of the snapshot just read,
write its rows and its boundary in one commit that lands only if no other batch has started there.
The table is the only checkpoint, so a step can be killed anywhere and run again, and two tierers
at once cannot write a record twice. A range that shows no rows still publishes its progress.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Protocol

from seamline.connectors.base import (
    Boundary,
    Deadline,
    HotLog,
    LogBounds,
    OffsetRange,
    Offsets,
    Snapshot,
    TableState,
    TopicBinding,
)
from seamline.connectors.continuity import check_not_cut
from seamline.connectors.iceberg.boundary import boundary_of, foreign_change, renewed
from seamline.sql.errors import (
    BOUNDARY_MISSING,
    COMMIT_CONFLICT,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    NOT_A_UNIFIED_TABLE,
    TIERING_GAP,
    TOPIC_RECREATED,
    SeamlineError,
)


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


class TierTable(Protocol):
    """A table that can be tiered into."""

    def load(self) -> TableState:
        """The table as it is now."""

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """Whether the batch holds at least one row to write."""

    def commit_rows(self, batch: Batch) -> None:
        """Writes the batch's rows and boundary in one commit.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another batch from the same boundary has landed.
        """

    def commit_mark(self, batch: Batch) -> None:
        """Commits the boundary without rows, only on top of the batch's own snapshot.

        Raises:
            SeamlineError: COMMIT_CONFLICT when the table has changed.
        """

    def keep(self, snapshot_id: int) -> None:
        """Protects the newest marked snapshot from expiry."""

    def take_back(self, snapshot_id: int, to: int) -> None:
        """Moves the head of the table back from a snapshot to its parent, if it is still there."""


def tier_once(table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int) -> Step:
    """One step.

    Args:
        table: The table.
        log: The cluster its topic is in.
        deadline: Bounds requests to the log.
        records_max: Offsets a step covers at most.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED, LOG_TRUNCATED, BAD_RECORD, COMMIT_CONFLICT, …
            Nothing was committed then, or what was committed stands and the next step continues
            after it.
    """
    state = table.load()
    binding = TopicBinding.from_properties(state.properties)
    if binding is None:
        raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {state.display_name} has no topic")
    before = boundary_of(state, state.current_snapshot_id)
    bounds = log.bounds([binding.topic], before.isolation, deadline)[binding.topic]
    batch = next_batch(state, binding, before, bounds, records_max=records_max)
    check_not_cut(log, bounds, before.next, before.epochs, deadline)
    if batch is None:
        _renew_mark(table, state, binding)
        return Step(Outcome.IDLE, 0, lag(before, bounds), before.next)
    rows = table.has_rows(batch, deadline)
    try:
        (table.commit_rows if rows else table.commit_mark)(batch)
    except SeamlineError as error:
        if error.code is COMMIT_CONFLICT or not _has_landed(table, batch):
            _check_same_log(log, batch, deadline, error)
            raise
    after = table.load()
    _check_landed(table, after, batch, log, deadline)
    outcome = Outcome.ROWS if rows else Outcome.PROGRESS
    return Step(outcome, batch.offsets, lag(batch.boundary, bounds), batch.boundary.next)


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


def _renew_mark(table: TierTable, state: TableState, binding: TopicBinding) -> None:
    """Repeats the boundary on top of what others have committed, so that no expiry hides it.

    Whoever is faster in committing is looked at in the next step.
    """
    boundary = renewed(state)
    if boundary is None:
        return
    assert state.current_snapshot_id is not None
    mark = Batch(binding, state.current_snapshot_id, state.current_schema_id, (), boundary)
    try:
        table.commit_mark(mark)
    except SeamlineError as error:
        if error.code is not COMMIT_CONFLICT:
            raise
        return
    after = table.load()
    table.keep(boundary_of(after, after.current_snapshot_id).snapshot_id)


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


def _has_landed(table: TierTable, batch: Batch) -> bool:
    """Whether a commit that failed, or whose answer was lost, is in the table after all."""
    state = table.load()
    found = boundary_of(state, state.current_snapshot_id)
    return found.next == batch.boundary.next and found.topic_id == batch.boundary.topic_id


def _check_same_log(log: HotLog, batch: Batch, deadline: Deadline, because: SeamlineError) -> None:
    """A batch that could not be read because its topic is another one now fails for that reason."""
    if because.code not in (LOG_TRIMMED, LOG_TRUNCATED):
        return
    topic = batch.binding.topic
    bounds = log.bounds([topic], batch.boundary.isolation, deadline)[topic]
    if bounds.topic_id != batch.boundary.topic_id:
        raise _recreated(topic) from because


def _recreated(topic: str) -> SeamlineError:
    return SeamlineError(
        TOPIC_RECREATED, f"topic {topic} was created again while a batch was read from it"
    )


def _check_landed(
    table: TierTable, after: TableState, batch: Batch, log: HotLog, deadline: Deadline
) -> None:
    """The commit must stand on the log and the schema that its rows were read with."""
    landed = boundary_of(after, after.current_snapshot_id)
    if landed.next != batch.boundary.next:
        return  # somebody has already gone on from here
    snapshot = after.snapshots[landed.snapshot_id]
    topic = batch.binding.topic
    bounds = log.bounds([topic], batch.boundary.isolation, deadline)[topic]
    problem = None
    if bounds.topic_id != batch.boundary.topic_id:
        problem = _recreated(topic)
    elif snapshot.schema_id is not None and snapshot.schema_id != batch.schema_id:
        problem = SeamlineError(
            COMMIT_CONFLICT,
            f"the schema of table {after.display_name} changed while a batch was written",
        )
    elif (cut := _cut(log, bounds, landed, deadline)) is not None:
        problem = cut
    elif (previous := _boundary_before(after, snapshot)) is not None:
        problem = _misplaced(after, previous, landed)
    if problem is not None:
        _take_back(table, snapshot, problem)
        raise problem
    table.keep(landed.snapshot_id)


def _cut(
    log: HotLog, bounds: LogBounds, landed: Boundary, deadline: Deadline
) -> SeamlineError | None:
    """Whether the log lost records of a batch while this was read."""
    try:
        check_not_cut(log, bounds, landed.next, landed.epochs, deadline)
    except SeamlineError as error:
        if error.code is LOG_TRUNCATED:
            return error
        raise
    return None


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


def _take_back(table: TierTable, snapshot: Snapshot, problem: SeamlineError) -> None:
    """Undoes a commit; where that cannot be done any more, the problem is still the news."""
    if snapshot.parent_id is None:
        return
    try:
        table.take_back(snapshot.snapshot_id, snapshot.parent_id)
    except SeamlineError as error:
        raise problem from error


def drain(
    step: Callable[[], Step], report: Callable[[Step], None], stopping: Callable[[], bool]
) -> None:
    """Steps until nothing is left, or somebody wants to stop; reports each."""
    while not stopping():
        done = step()
        report(done)
        if done.outcome is Outcome.IDLE:
            return
