"""Tiering: the protocol that moves the tail of a log into its table, for any log and any table.

One step reads the table, chooses a batch that starts at the boundary of the snapshot just read, and
writes its rows and its boundary in one commit, which lands only if no other batch has started
there. The table is the only checkpoint, so a step can be killed anywhere and run again, and two
tierers at once cannot write a record twice. A range without rows still publishes its progress.
Records whose schema needs other columns wait until the columns have been changed, in a separate
step. After a loss, `resume` is the step with which a table goes on.
"""

from __future__ import annotations

import functools

from seamline.connectors.kafka.continuity import check_not_truncated, settled
from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import (
    COMMIT_CONFLICT,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    SCHEMA_NOT_EVOLVED,
    SECOND_WRITER,
    SeamlineError,
)
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of, renewed
from seamline.seam.history_checks import recreated, require, tiered_elsewhere
from seamline.seam.log import LogBounds
from seamline.seam.resuming import not_accepted, resumed, unverified
from seamline.seam.table import Snapshot, TableState
from seamline.seam.tiering import Batch, Outcome, Step, lag, misplaced, next_batch
from seamline.seam.upserts import check_partitions


def tier_once(table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int) -> Step:
    """Runs one step.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED, LOG_TRUNCATED, BAD_RECORD, COMMIT_CONFLICT,
            TABLE_TIERED_ELSEWHERE, SECOND_WRITER, … In each case, either nothing was committed, or
            what was committed stands and the next step continues after it.
    """
    state = table.load()
    binding = TopicBinding.required(state.properties, state.display_name)
    require(tiered_elsewhere(state))
    table.require_single_writer(state.current_snapshot_id)
    before = boundary_of(state, state.current_snapshot_id)
    bounds = log.bounds([binding.topic], before.isolation, deadline)[binding.topic]
    check_partitions(binding, len(bounds.end))
    binding = pinned(binding, schemas_of(log, deadline))
    plan = functools.partial(next_batch, state, binding, before, records_max=records_max)
    batch, bounds = settled(log, bounds, plan, deadline)
    check_not_truncated(log, bounds, before.next, before.epochs, deadline)
    if batch is None:
        _renew_boundary(table, state, binding)
        return Step(Outcome.IDLE, 0, lag(before, bounds), before.next)
    try:
        rows = table.has_rows(batch, deadline)
        _commit(table, batch, rows, log, deadline)
    except SeamlineError as error:
        if error.code is not SCHEMA_NOT_EVOLVED:
            raise
        changes = table.evolve(batch, deadline)
        if not changes and table.load().current_schema_id == batch.schema_id:
            raise
        return Step(Outcome.EVOLVED, 0, lag(before, bounds), before.next, changes)
    after = table.load()
    _check_landed(table, after, batch, log, deadline)
    outcome = Outcome.ROWS if rows else Outcome.PROGRESS
    return Step(outcome, batch.offsets, lag(batch.boundary, bounds), batch.boundary.next)


def _commit(table: TierTable, batch: Batch, rows: bool, log: HotLog, deadline: Deadline) -> None:
    try:
        (table.commit_rows if rows else table.commit_boundary)(batch)
    except SeamlineError as error:
        if error.code is COMMIT_CONFLICT or not _has_landed(table, batch):
            _check_same_log(log, batch, deadline, error)
            raise


def _renew_boundary(table: TierTable, state: TableState, binding: TopicBinding) -> None:
    """Repeats the boundary on top of what others have committed, so that no expiry hides it.

    If another commit gets in first, the next step sees it. A batch that is not tagged, since others
    committed too fast, is tagged now: the topic still is the one that its boundary names.
    """
    boundary, head = renewed(state), state.current_snapshot_id
    if boundary is None:
        if head is not None and unverified(state) is not None:
            table.keep(head)
        return
    assert head is not None
    batch = Batch(binding, head, state.current_schema_id, (), boundary)
    try:
        table.commit_boundary(batch)
    except SeamlineError as error:
        if error.code is not COMMIT_CONFLICT:
            raise
        return
    after = table.load()
    table.keep(boundary_of(after, after.current_snapshot_id).snapshot_id)


def resume(
    table: TierTable, log: HotLog, deadline: Deadline, *, now_ms: int, by: str, accept_loss: bool
) -> Boundary:
    """Lets a table go on after records were lost that were not tiered; see `resumed`.

    Args:
        table: The table.
        log: The cluster its topic is in.
        deadline: Bounds requests to the log.
        now_ms: The time, in milliseconds since the epoch.
        by: Who accepts the loss.
        accept_loss: Whether it is accepted; if not, the error says what would be lost.

    Returns:
        The boundary from which it goes on.

    Raises:
        SeamlineError: as `resumed`; INVALID_ARGUMENT when the loss is not accepted, COMMIT_CONFLICT
            when somebody else has committed meanwhile, SECOND_WRITER, ….
    """
    state = table.load()
    binding = TopicBinding.required(state.properties, state.display_name)
    table.require_single_writer(state.current_snapshot_id)
    before = boundary_of(state, state.current_snapshot_id)
    bounds = log.bounds([binding.topic], before.isolation, deadline)[binding.topic]
    check_partitions(binding, len(bounds.end))
    resume = functools.partial(resumed, state, now_ms=now_ms, by=by)
    boundary, bounds = settled(log, bounds, resume, deadline)
    if not accept_loss:
        raise not_accepted(state, before, bounds)
    if boundary.topic_id == before.topic_id:
        check_not_truncated(log, bounds, before.next, before.epochs, deadline)
    elif (doubted := unverified(state)) is not None:
        state = _without(table, doubted)
        left = boundary_of(state, state.current_snapshot_id)
        if left.topic_id == bounds.topic_id:
            return left
        boundary = resumed(state, bounds, now_ms=now_ms, by=by)
    assert state.current_snapshot_id is not None
    table.commit_boundary(
        Batch(binding, state.current_snapshot_id, state.current_schema_id, (), boundary)
    )
    after = table.load()
    table.keep(boundary_of(after, after.current_snapshot_id).snapshot_id)
    return boundary


def _without(table: TierTable, doubted: Snapshot) -> TableState:
    """Undoes a batch that may hold records of another log than it says.

    Raises:
        SeamlineError: COMMIT_CONFLICT when others have committed since.
    """
    if doubted.parent_id is not None:
        try:
            table.take_back(doubted.snapshot_id, doubted.parent_id)
        except SeamlineError as error:
            if error.code is not COMMIT_CONFLICT:
                raise
            raise SeamlineError(
                COMMIT_CONFLICT,
                f"snapshot {doubted.snapshot_id} may hold records of the recreated topic, as it "
                "was never checked, and others have committed since",
                hint=f"Roll the table back to snapshot {doubted.parent_id}, and try again.",
            ) from error
    return table.load()


def _has_landed(table: TierTable, batch: Batch) -> bool:
    """Whether a commit that failed, or whose answer was lost, is in the table after all."""
    state = table.load()
    boundary = boundary_of(state, state.current_snapshot_id)
    return _is_of(batch, boundary) and boundary.topic_id == batch.boundary.topic_id


def _is_of(batch: Batch, boundary: Boundary) -> bool:
    """Whether a boundary was written by a batch or a rival tierer, and not by another writer."""
    is_hands = (
        boundary.provider or boundary.handed_to or boundary.taken_id != batch.boundary.taken_id
    )
    return boundary.next == batch.boundary.next and not is_hands


def _check_same_log(log: HotLog, batch: Batch, deadline: Deadline, because: SeamlineError) -> None:
    """Raises the true error if a batch could not be read because its topic is now another one."""
    if because.code not in (LOG_TRIMMED, LOG_TRUNCATED):
        return
    topic = batch.binding.topic
    bounds = log.bounds([topic], batch.boundary.isolation, deadline)[topic]
    former_id = batch.boundary.topic_id
    settled(
        log,
        bounds,
        lambda current: require(recreated(topic, current.topic_id, former_id), because),
        deadline,
    )


def _check_landed(
    table: TierTable, after: TableState, batch: Batch, log: HotLog, deadline: Deadline
) -> None:
    """Checks that the commit agrees with the log and the schema that its rows were read with."""
    landed = boundary_of(after, after.current_snapshot_id)
    if not _is_of(batch, landed):
        return  # another tierer has already continued from here
    topic = batch.binding.topic
    bounds = log.bounds([topic], batch.boundary.isolation, deadline)[topic]
    problem = (
        misplaced(after, batch, bounds)
        or _truncation(log, bounds, landed, deadline)
        or _second_writer(table, after)
    )
    if problem is not None:
        _take_back(table, after.snapshots[landed.snapshot_id], problem)
        raise problem
    table.keep(landed.snapshot_id)


def _truncation(
    log: HotLog, bounds: LogBounds, landed: Boundary, deadline: Deadline
) -> SeamlineError | None:
    """Returns an error if the log lost records of a batch while they were read."""
    try:
        check_not_truncated(log, bounds, landed.next, landed.epochs, deadline)
    except SeamlineError as error:
        if error.code is LOG_TRUNCATED:
            return error
        raise
    return None


def _second_writer(table: TierTable, after: TableState) -> SeamlineError | None:
    """Returns an error if another writer added records while a batch was written.

    The batch would hide which one.
    """
    try:
        table.require_single_writer(after.current_snapshot_id)
    except SeamlineError as error:
        if error.code is SECOND_WRITER:
            return error
        raise
    return None


def _take_back(table: TierTable, snapshot: Snapshot, problem: SeamlineError) -> None:
    """Undoes a commit; if that is no longer possible, raises the problem all the same."""
    if snapshot.parent_id is None:
        return
    try:
        table.take_back(snapshot.snapshot_id, snapshot.parent_id)
    except SeamlineError as error:
        raise problem from error
