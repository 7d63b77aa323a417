"""What others fell into, each shown not to happen here.

Method: the shortest story of each pitfall, told with a `World` and the product's own functions; the
rows of the answer are compared with what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes.faulty import Fault, FaultyLog, FaultyTierTable
from fakes.memory import Untimed

from seamline.errors import (
    CATALOG_UNAVAILABLE,
    HISTORY_CHANGED,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TOPIC_RECREATED,
    WRITE_NOT_VISIBLE,
    SeamlineError,
)
from seamline.gateway.query.tokens import NOTHING, After, Write
from seamline.gateway.statements.freshness import CACHED
from seamline.gateway.tiering.step import tier_once
from seamline.seam.offsets import Offsets
from seamline.seam.tiering import Outcome, Step
from simulation import oracle
from simulation.following import OneThread
from simulation.reading import ALL, FROM_1, Answer, Sources, at_moment, read
from simulation.simulator import Patience
from simulation.world import World


def ask(world: World, statement: str = ALL, *, after: After = NOTHING) -> Answer:
    """The answer to a statement, already judged."""
    begun = oracle.started(world)
    sources = Sources(world.catalog, world.log)
    answer = read(sources, world.table.open, statement, after=after, deadline=Patience())
    oracle.check_answer(world, answer, begun, statement)
    return answer


def tier(world: World) -> Step:
    """One step of tiering."""
    step = tier_once(world.table, world.log, Untimed(), records_max=100)
    world.note_commits()
    oracle.check_table(world)
    return step


def places(answer: Answer) -> list[tuple[int | None, int | None]]:
    """Partition and offset of each row, sorted."""
    return sorted((row[0], row[1]) for row in answer.rows)


# pitfall: a predicate that prunes every cold file made the hot read start at earliest
def test_a_predicate_that_prunes_every_file() -> None:
    world = World(1)
    world.append(0)
    tier(world)
    world.append(0)
    answer = ask(world, FROM_1)
    assert places(answer) == [(0, 1)]
    assert dict(answer.seam.boundary) == {0: 1}


# pitfall: offsets committed, but not yet readable with that snapshot
def test_the_boundary_comes_with_its_rows() -> None:
    world = World(1)
    world.append(0)
    before = world.save()
    tier(world)
    for moment in (before, world.save()):
        world.restore(moment)
        assert places(ask(world)) == [(0, 0)]


# pitfall: partitions only in the log were missed
def test_a_partition_that_is_only_in_the_log() -> None:
    world = World(1)
    world.append(0)
    tier(world)
    world.add_partition()
    world.append(1)
    assert places(ask(world)) == [(0, 0), (1, 0)]


# pitfall: partitions only in the lake were missed
def test_a_partition_that_is_only_in_the_table() -> None:
    world = World(2)
    world.append(1)
    tier(world)
    world.trim(1, 1)
    assert places(ask(world)) == [(1, 0)]


# pitfall: control markers, hang at an undeliverable end, at `B`, at `E - 1`, in the middle
@pytest.mark.parametrize("steps_before", [0, 1, 2, 3])
def test_markers_wherever_they_lie(steps_before: int) -> None:
    world = World(1)

    def abort_another() -> None:
        world.append_in_transaction(0)
        world.end_transaction(commit=False)

    story: list[Callable[[], object]] = [
        lambda: world.append_in_transaction(0),
        lambda: world.end_transaction(commit=True),
        lambda: world.append(0),
        abort_another,
    ]
    for step in story[:steps_before]:
        step()
    tier(world)
    for step in story[steps_before:]:
        step()
    assert places(ask(world)) == [(0, 0), (0, 2)]
    assert tier(world).lag == 0
    assert places(ask(world)) == [(0, 0), (0, 2)]


# pitfall: a range that is only markers; progress without rows not published, so read forever
def test_a_range_without_rows_is_progress() -> None:
    world = World(1)
    world.append_in_transaction(0)
    world.end_transaction(commit=False)
    assert tier(world).outcome is Outcome.PROGRESS
    assert tier(world).outcome is Outcome.IDLE
    answer = ask(world)
    assert answer.rows == ()
    assert answer.seam.hot_ranges == ()


# pitfall: an open transaction holds the stable end back, and nobody says so
def test_an_open_transaction_is_said() -> None:
    world = World(1)
    world.append_in_transaction(0)
    world.append(0)
    assert ask(world).seam.log.pending == 2
    with pytest.raises(SeamlineError) as caught:
        ask(world, after=After(writes=(Write(None, Offsets({0: 2})),)))
    assert caught.value.code is WRITE_NOT_VISIBLE
    assert "transaction" in caught.value.message


# pitfall: markers lost to snapshot expiry, or hidden by foreign commits
def test_the_boundary_survives_foreign_commits_and_expiry() -> None:
    world = World(1)
    world.append(0)
    tier(world)
    for _ in range(3):
        world.append_foreign()
        world.compact_table()
        tier(world)
        world.expire()
        oracle.check_maintained(world)
    world.append(0)
    answer = ask(world)
    assert sum(row[0] is not None for row in answer.rows) == 2
    assert sum(row[0] is None for row in answer.rows) == 3


# pitfall: a topic recreated under the same name, and grown past the boundary
def test_only_the_topic_id_tells() -> None:
    world = World(1)
    world.append(0)
    tier(world)
    world.recreate_topic(1)
    for _ in range(3):
        world.append(0)
    with pytest.raises(SeamlineError) as caught:
        ask(world)
    assert caught.value.code is TOPIC_RECREATED
    with pytest.raises(SeamlineError) as caught:
        tier(world)
    assert caught.value.code is TOPIC_RECREATED


# pitfall: a micro-batch replayed after the sink's commit; nothing is kept beside the table
def test_a_step_that_dies_after_its_commit_is_run_again() -> None:
    world = World(1)
    world.append(0)
    before = world.save()
    tier(world)
    lost = world.table.save()
    world.restore(before)
    world.table.restore(lost)  # the tierer remembers nothing; the table does
    world.note_commits()
    assert tier(world).outcome is Outcome.IDLE
    assert places(ask(world)) == [(0, 0)]


class _ReplyLost:
    """A plan that loses the reply of the first commit."""

    def __init__(self) -> None:
        self.left = 1

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        if call == "commit" and self.left:
            self.left -= 1
            return Fault.LOST_REPLY
        return Fault.NONE

    def later(self, effect: object) -> None:
        """Nothing is late here."""
        raise AssertionError


# pitfall: a commit accepted, its reply lost, retried under a new job id
def test_a_lost_reply_is_not_a_lost_commit() -> None:
    world = World(1)
    world.append(0)
    table = FaultyTierTable(world.table, _ReplyLost())
    step = tier_once(table, world.log, Untimed(), records_max=100)
    world.note_commits()
    assert step.outcome is Outcome.ROWS
    assert tier(world).outcome is Outcome.IDLE
    assert places(ask(world)) == [(0, 0)]


# pitfall: time used as a cut hides or duplicates rows; record times are not monotonic
def test_a_late_record_is_neither_hidden_nor_doubled() -> None:
    world = World(1)
    world.clock.advance(1000)
    world.append(0)
    tier(world)
    world.append(0, age_ms=900)
    assert places(ask(world)) == [(0, 0), (0, 1)]
    tier(world)
    assert places(ask(world)) == [(0, 0), (0, 1)]


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_fast_clock_ends_a_moment_at_the_same_record_for_ever(
    tiered: bool, forgotten: bool
) -> None:
    """Records past it belong to the moment only if the snapshot of that time has them."""
    world = World(1)
    world.clock.advance(1000)
    tier(world)
    world.append(0)
    world.append(0, age_ms=-86_400_000)
    world.append(0)
    if tiered:
        tier(world)
        world.append(0)
    moment_ms = world.clock.now_ms
    then = places(ask(world)) if tiered else [(0, 0)]
    world.clock.advance(1000)
    world.append(0)
    world.append(0, age_ms=900)
    tier(world)
    if forgotten:
        world.trim(0, 2)
    sentence = at_moment(moment_ms)
    sources = Sources(world.catalog, world.log)
    for _ in range(2):
        begun = oracle.started(world)
        answer = read(sources, world.table.open, sentence, now_ms=world.clock.now_ms)
        oracle.check_past(world, answer, moment_ms, begun)
        assert places(answer) == then
        world.clock.advance(2 * 86_400_000)


# pitfall: consumer-group offsets, which run ahead of the table, taken as the boundary
def test_only_what_is_committed_with_the_rows_is_the_boundary() -> None:
    world = World(1)
    world.append(0)

    class Refused(_ReplyLost):
        def at(self, call: str) -> Fault:
            return Fault.FAIL if call == "commit" else Fault.NONE

    with pytest.raises(SeamlineError) as caught:
        tier_once(FaultyTierTable(world.table, Refused()), world.log, Untimed(), records_max=9)
    assert caught.value.code is CATALOG_UNAVAILABLE
    answer = ask(world)
    assert dict(answer.seam.boundary) == {0: 0}
    assert places(answer) == [(0, 0)]


# pitfall: records that retention removed before they were tiered, skipped silently
def test_a_hole_is_refused_by_both_sides() -> None:
    world = World(1)
    world.append(0)
    world.append(0)
    world.trim(0, 1)
    both: list[Callable[[], object]] = [lambda: ask(world), lambda: tier(world)]
    for work in both:
        with pytest.raises(SeamlineError) as caught:
            work()
        assert caught.value.code is LOG_TRIMMED


# pitfall: a token of what is cached, which nobody compares with the log
@pytest.mark.parametrize("again", [0, 1])
def test_a_token_of_cached_rows_tells_that_the_log_has_lost_them(again: int) -> None:
    world = World(1)
    world.append(0)
    world.append(0)
    sources, followers = Sources(world.catalog, world.log), OneThread(world.log)

    def answer(**how: Any) -> Answer:
        return read(sources, world.table.open, ALL, deadline=Patience(), **how)

    answer(followers=followers)
    cached = answer(followers=followers, freshness=CACHED)
    assert places(answer(token=cached.seams)) == places(cached) == [(0, 0), (0, 1)]
    world.truncate(0, 1)
    for _ in range(1 + again):
        world.append(0)
    hows: list[dict[str, Any]] = [{"token": cached.seams}, {"after": After(seen=cached.seams)}]
    for how in hows:
        with pytest.raises(SeamlineError) as caught:
            answer(**how)
        assert caught.value.code is HISTORY_CHANGED


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_token_of_cached_rows_outlives_a_clean_election(is_followed: bool) -> None:
    """Also where the table has gone on, under the new leader, past what was cached."""
    world = World(1)
    world.append(0)
    sources, followers = Sources(world.catalog, world.log), OneThread(world.log)
    read(sources, world.table.open, ALL, followers=followers)
    world.truncate(0, 1)
    world.append(0)
    if is_followed:
        read(sources, world.table.open, ALL, followers=followers)
    tier(world)
    cached = read(sources, world.table.open, ALL, followers=followers, freshness=CACHED)
    world.append(0)
    again = read(sources, world.table.open, ALL, token=cached.seams)
    assert places(again) == places(cached) == [(0, 0), (0, 1)]


class _Calls:
    """A plan without faults, which notes the calls."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        self.made.append(call)
        return Fault.NONE

    def later(self, effect: object) -> None:
        """Nothing is late here."""
        raise AssertionError


def test_a_change_of_leader_costs_one_statement_a_read_of_the_log() -> None:
    """And what was confirmed then does not hide what the next leader lost."""
    world, calls = World(1), _Calls()
    world.append(0)
    tier(world)
    sources = Sources(world.catalog, FaultyLog(world.log, calls))
    world.truncate(0, world.ends()[0])
    for _ in range(3):
        assert places(read(sources, world.table.open, ALL)) == [(0, 0)]
    assert calls.made.count("read") == 1
    world.truncate(0, 0)
    for _ in range(2):
        world.append(0)
    with pytest.raises(SeamlineError) as caught:
        read(sources, world.table.open, ALL)
    assert caught.value.code is LOG_TRUNCATED
