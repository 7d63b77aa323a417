"""Goal: callers share requests that begin after they asked, and nothing else.

Method: a request that waits at a gate while others ask, and counts how often it is made.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator

import pytest
from fakes.memory import MemoryLog
from support.waiting import wait_until

from seamline.connectors import shared_requests
from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.shared_requests import SharedRequests
from seamline.errors import (
    CANCELED,
    DEADLINE_EXCEEDED,
    KAFKA_UNAVAILABLE,
    TOPIC_NOT_FOUND,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.log import READ_COMMITTED, LogBounds

TOPIC = "orders"
CALLERS = 32
Outcome = concurrent.futures.Future[int]


class Gate:
    """A request for a number that rises; the first one waits until it is let through.

    Attributes:
        number: The number.
        made: How often the request was made.
    """

    def __init__(self, fail: Callable[[int, Deadline], None] = lambda *_: None) -> None:
        self.number = 0
        self.made = 0
        self._fail = fail
        self._open = threading.Event()
        self._lock = threading.Lock()

    def request(self, deadline: Deadline) -> int:
        with self._lock:
            self.made += 1
            made, number = self.made, self.number
        if made == 1:
            assert self._open.wait(60)
        else:
            self._fail(made, deadline)
        return number

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def pool() -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    with concurrent.futures.ThreadPoolExecutor(CALLERS + 1) as made:
        yield made


@pytest.fixture
def ask(pool: concurrent.futures.ThreadPoolExecutor) -> Callable[..., Outcome]:
    """Asks in a thread of its own, and returns once the request is made or waits for another."""
    shared: SharedRequests[str, int] = SharedRequests()

    def asked(gate: Gate, deadline: Deadline | None = None) -> Outcome:
        line = shared._lines.get("n")
        before = line.callers if line is not None else 0
        own = deadline or NoDeadline()
        future = pool.submit(shared.get, "n", lambda: gate.request(own), own)
        wait_until(lambda: future.done() or shared._lines["n"].callers > before)
        if before == 0:
            wait_until(lambda: gate.made == 1)
        return future

    return asked


def code_of(outcome: Outcome) -> ErrorCode:
    with pytest.raises(SeamlineError) as caught:
        outcome.result(60)
    return caught.value.code


def test_many_callers_cause_two_requests(ask: Callable[..., Outcome]) -> None:
    gate = Gate()
    outcomes = [ask(gate) for _ in range(CALLERS)]
    gate.open()
    assert [outcome.result(60) for outcome in outcomes] == [0] * CALLERS
    assert gate.made == 2


def test_a_caller_gets_what_was_there_before_it_asked(ask: Callable[..., Outcome]) -> None:
    gate = Gate()
    outcomes = {}
    for number in range(CALLERS):
        gate.number = number
        outcomes[number] = ask(gate)
    gate.open()
    assert all(outcome.result(60) >= number for number, outcome in outcomes.items() if number)


def test_who_ends_early_fails_alone(ask: Callable[..., Outcome]) -> None:
    gate, canceled = Gate(), StatementDeadline(600)
    first = ask(gate)
    early = [ask(gate, StatementDeadline(0.05)), ask(gate, canceled)]
    others = [ask(gate) for _ in range(3)]
    canceled.cancel()
    assert [code_of(each) for each in early] == [DEADLINE_EXCEEDED, CANCELED]
    gate.open()
    assert [each.result(60) for each in (first, *others)] == [0] * 4
    assert gate.made == 2


def test_a_request_whose_caller_ends_is_made_by_another(ask: Callable[..., Outcome]) -> None:
    def cancel(made: int, _: Deadline) -> None:
        if made == 2:
            raise SeamlineError(CANCELED, "whoever makes the second one")

    gate = Gate(cancel)
    outcomes = [ask(gate) for _ in range(4)]
    gate.open()
    codes = [outcome.exception(60) for outcome in outcomes]
    assert sum(error is None for error in codes) == 3
    assert gate.made == 3


def test_a_failure_is_that_of_each(ask: Callable[..., Outcome]) -> None:
    def fail(*_: object) -> None:
        raise SeamlineError(TOPIC_NOT_FOUND, "there is none", subject=TOPIC)

    gate = Gate(fail)
    first, *others = [ask(gate) for _ in range(5)]
    gate.open()
    errors = [other.exception(60) for other in others]
    assert first.result(60) == 0
    assert len({id(error) for error in errors}) == len(others), "each is located by its statement"
    assert {(e.code, e.subject) for e in errors if isinstance(e, SeamlineError)} == {
        (TOPIC_NOT_FOUND, TOPIC)
    }
    assert gate.made == 2


def test_a_deadline_that_cuts_a_request_short_fails_one_caller(ask: Callable[..., Outcome]) -> None:
    def fail(made: int, deadline: Deadline) -> None:
        if made == 2:
            assert isinstance(deadline, StatementDeadline)
            deadline._ends_at = 0.0
            raise SeamlineError(KAFKA_UNAVAILABLE, "timed out")

    gate = Gate(fail)
    outcomes = [ask(gate, StatementDeadline(600)) for _ in range(4)]
    gate.open()
    errors = [outcome.exception(60) for outcome in outcomes]
    assert sum(error is None for error in errors) == 3
    assert gate.made == 3


def test_a_slow_request_keeps_nobody_waiting(
    ask: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    slow = ask(gate)
    monkeypatch.setattr(shared_requests, "SLOW_S", 0.0)
    assert ask(gate).result(60) == 0
    gate.open()
    assert slow.result(60) == 0


# --- The ends of a topic -------------------------------------------------------------------------


class GatedLog(KafkaLog):
    """A cluster whose requests are answered by a log in memory; the first waits at the gate."""

    def __init__(self) -> None:
        super().__init__(Cluster(ClusterConfig(name="any", bootstrap_servers="127.0.0.1:1")))
        self.memory = MemoryLog()
        self.memory.create_topic(TOPIC, 1)
        self.gate = Gate()

    def _stable_bounds(self, topics, isolation, deadline):  # type: ignore[no-untyped-def]
        self.gate.request(deadline)
        return self.memory.bounds(topics, isolation, deadline)


def test_an_acknowledged_record_is_visible_to_all_who_ask(
    pool: concurrent.futures.ThreadPoolExecutor,
) -> None:
    log = GatedLog()

    def ask() -> dict[str, LogBounds]:
        return log.bounds([TOPIC], READ_COMMITTED, NoDeadline())

    first = pool.submit(ask)
    wait_until(lambda: log.gate.made == 1)
    outcomes = []
    for number in range(1, 6):
        log.memory.produce(TOPIC, 0, b"{}")
        outcomes.append((number, pool.submit(ask)))
        (line,) = log._bounds_requests._lines.values()
        wait_until(lambda line=line, number=number: line.callers == number + 1)  # type: ignore[misc]
    log.gate.open()
    first.result(60)
    assert all(outcome.result(60)[TOPIC].end[0] >= number for number, outcome in outcomes)
    assert log.gate.made == 2
