"""Goal: whatever is raised in the background is named and counted, and what runs there continues.

Method: steps that raise what other people's code raises, in every order; pauses are looked at, not
waited for.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import queue
import threading
import time
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.raised import FOREIGN, kind
from support.waiting import wait_until

from seamline.connectors import supervision
from seamline.connectors.supervision import Backoff, Crew, CrewLoop, Loop
from seamline.errors import DISK_FULL, INTERNAL_ERROR, KAFKA_UNAVAILABLE, SeamlineError

SOON = Backoff(first_s=0.001, max_s=0.004)
foreign = pytest.mark.parametrize("make", FOREIGN, ids=kind)


@pytest.fixture
def name() -> str:
    """A name that nothing else in this process counts under."""
    return uuid.uuid4().hex


def told_of(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    """What the log says of work of this name; others in this process have their own."""
    return [record for record in caplog.records if record.getMessage().startswith(f"{name}: ")]


def failures_of(name: str) -> dict[str, int]:
    return {code: n for (owner, code), n in supervision.failures().items() if owner == name}


@foreign
def test_a_loop_goes_on_whatever_is_raised(name: str, make: Callable[[], BaseException]) -> None:
    rounds = itertools.count()
    done = threading.Event()

    def step() -> float | None:
        if next(rounds) < 3:
            raise make()
        done.set()
        return None

    loop = Loop(name, step, backoff=SOON)
    assert done.wait(60)
    loop.join(60)
    assert loop.has_finished
    assert (loop.error, loop.failures_in_a_row) == (None, 0)
    assert sum(failures_of(name).values()) == 3
    assert loop.last_success_at is not None


@foreign
def test_work_done_once_is_reported(
    name: str, make: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise make()

    with caplog.at_level(logging.ERROR, "seamline.background"):
        supervision.start(name, work)
        wait_until(lambda: failures_of(name), what="the failure")
        supervision.later(0.001, name, work)
        assert not supervision.attempt(name, work)
        told = wait_until(lambda: found if len(found := told_of(caplog, name)) > 2 else None)
    assert told is not None
    assert len(told) == sum(failures_of(name).values()) == 3
    assert all(record.exc_info is None for record in told)
    assert type(make()).__name__ in told[0].getMessage()


def test_work_that_is_canceled_is_not_done(name: str) -> None:
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    with supervision._timers._changed:  # nothing becomes due before it is canceled
        supervision.later(0.001, name, lambda: done.put("canceled"))()
        supervision.later(0.002, name, lambda: done.put("kept"))
    assert done.get(timeout=60) == "kept"
    assert done.empty()


def test_work_is_done_when_it_is_due_whatever_waits_besides(name: str) -> None:
    done: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
    held, due_at = threading.Event(), dict[int, float]()

    def work(number: int) -> None:
        done.put((number, time.monotonic()))

    long = supervision.later(3600, name, lambda: work(-1))
    supervision.later(0.001, name, held.wait)  # work that takes its time delays none
    for number in (2, 1, 3):
        due_at[number] = time.monotonic() + number / 50
        supervision.later(number / 50, name, functools.partial(work, number))
    done_at = dict(done.get(timeout=60) for _ in range(3))
    held.set()
    long()
    assert done_at.keys() == due_at.keys()
    assert all(done_at[number] >= due_at[number] for number in due_at)


def test_work_that_is_due_later_takes_no_thread(name: str) -> None:
    supervision.later(3600, name, lambda: None)()
    threads = threading.active_count()
    cancels = [supervision.later(3600, name, lambda: None) for _ in range(100)]
    assert threading.active_count() < threads + len(cancels)  # others may begin some of theirs
    for cancel in cancels:
        cancel()


def test_ctrl_c_is_no_failure(name: str) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervision.attempt(name, interrupted)
    assert failures_of(name) == {}


@examples(50)
@given(outcomes=st.lists(st.booleans(), min_size=1, max_size=12))
def test_pauses_double_in_a_row_of_failures_and_end_with_it(outcomes: list[bool]) -> None:
    backoff = Backoff(first_s=1.0, max_s=10.0)
    pauses: list[float] = []
    left = iter(outcomes)

    def step() -> float | None:
        works = next(left, None)
        if works is False:
            raise RuntimeError
        return None if works is None else 0.0

    def failed(error: SeamlineError, failures: int) -> float:
        pauses.append(backoff.pause_s(failures))
        return 0.0

    loop = Loop("test", step, after_failure=failed)
    loop.join(60)
    wanted = []
    for works, row in itertools.groupby(outcomes):
        if not works:
            wanted += [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0][
                : len(list(row))
            ]
    assert pauses == wanted


def test_a_loop_waits_between_tries_and_ends_in_the_middle_of_it(name: str) -> None:
    tried = queue.SimpleQueue[None]()

    def step() -> float:
        tried.put(None)
        raise SeamlineError(KAFKA_UNAVAILABLE, "away")

    ended = threading.Event()
    loop = Loop(name, step, backoff=Backoff(3600.0, 3600.0), at_end=ended.set)
    tried.get(timeout=60)
    wait_until(lambda: loop.error is not None, what="the failure")
    assert loop in supervision.loops()
    assert loop.error is not None
    assert loop.error.code is KAFKA_UNAVAILABLE
    loop.stop()
    loop.join(60)
    assert ended.is_set()
    assert not loop.is_alive
    assert loop.has_finished
    assert loop not in supervision.loops()
    assert tried.empty()


@foreign
def test_who_cannot_be_told_of_a_failure_does_not_end_the_loop(
    name: str, make: Callable[[], BaseException]
) -> None:
    rounds = itertools.count()

    def step() -> float | None:
        if next(rounds) < 2:
            raise make()
        return None

    def failed(error: SeamlineError, failures: int) -> float:
        raise make()

    loop = Loop(name, step, backoff=SOON, after_failure=failed)
    loop.join(60)
    assert loop.has_finished


def test_a_failure_that_goes_on_is_told_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    rounds = itertools.count()

    def step() -> float | None:
        if next(rounds) < 5:
            raise SeamlineError(KAFKA_UNAVAILABLE, "away")
        return None

    with caplog.at_level(logging.WARNING, "seamline.background"):
        Loop(name, step, backoff=SOON).join(60)
    assert len(told_of(caplog, name)) == 1
    assert failures_of(name) == {"KAFKA_UNAVAILABLE": 5}


def test_names_of_what_is_raised() -> None:
    ours = SeamlineError(KAFKA_UNAVAILABLE, "away")
    assert supervision.named(ours) is ours
    assert supervision.named(OSError(28, "No space left on device")).code is DISK_FULL
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("in\ntwo lines")
    found = supervision.named(caught.value)
    assert found.code is INTERNAL_ERROR
    assert found.message.startswith("RuntimeError: in two lines (test_supervision.py:")


def test_it_is_known_what_failed_and_for_how_long_nothing_worked(name: str) -> None:
    def broken() -> float:
        raise RuntimeError

    loop = Loop(name, broken, backoff=Backoff(3600.0, 3600.0))
    wait_until(lambda: loop.error is not None, what="the failure")
    quiet = supervision.quiet_seconds()
    loop.stop()
    assert supervision.failures()[name, "INTERNAL_ERROR"] == 1
    assert 0.0 <= quiet[name] < 3600.0


# --- Loops that share threads --------------------------------------------------------------------


def test_a_loop_of_a_crew_runs_when_it_is_woken() -> None:
    rounds: queue.SimpleQueue[int] = queue.SimpleQueue()
    counted = itertools.count()

    def step() -> float:
        rounds.put(next(counted))
        return math.inf

    loop = CrewLoop(Crew("crew", 2), "woken", step)
    for number in range(3):
        loop.wake()
        assert rounds.get(timeout=60) == number
    loop.stop()
    loop.join(60)
    assert not loop.is_alive
    assert loop.has_finished
    assert loop not in supervision.loops()
    loop.wake()
    assert rounds.empty()


def test_who_is_woken_while_it_runs_runs_again() -> None:
    rounds: queue.SimpleQueue[str] = queue.SimpleQueue()
    go_on = threading.Event()

    def step() -> float:
        rounds.put("began")
        go_on.wait(60)
        return math.inf

    loop = CrewLoop(Crew("crew", 2), "woken", step)
    loop.wake()
    rounds.get(timeout=60)
    for _ in range(3):
        loop.wake()
    go_on.set()
    rounds.get(timeout=60)
    wait_until(lambda: loop.quiet_s == 0.0, what="the pause")
    assert rounds.empty(), "once is enough"
    loop.stop()


def test_a_crew_has_few_threads_for_many_loops() -> None:
    threads: set[int] = set()
    crew = Crew("crew", 3)
    left = [5] * 50
    done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def step(number: int) -> float | None:
        threads.add(threading.get_ident())
        left[number] -= 1
        if left[number]:
            return 0.0 if number % 2 else 0.001
        done.put(number)
        return None

    for number in range(50):
        CrewLoop(crew, "many", functools.partial(step, number)).wake()
    assert sorted(done.get(timeout=60) for _ in range(50)) == list(range(50))
    assert len(threads) <= 3


@foreign
def test_a_loop_of_a_crew_goes_on_after_a_failure(make: Callable[[], BaseException]) -> None:
    rounds: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended = threading.Event()
    counted = itertools.count()

    def step() -> float | None:
        rounds.put(number := next(counted))
        if number == 0:
            raise make()
        return None

    loop = CrewLoop(Crew("crew", 1), "failing", step, backoff=Backoff(0.0), at_end=ended.set)
    loop.wake()
    assert [rounds.get(timeout=60) for _ in range(2)] == [0, 1]
    loop.join(60)
    assert ended.is_set()
    assert loop.failures_in_a_row == 0
