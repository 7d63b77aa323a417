"""Goal: the service keeps its limits, and every statement ends with a result or a named error.

Method: the service over an answer that the test holds in its hand; no engine, no table.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry
from support.waiting import wait_until

from seamline.errors import (
    CANCELED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    READ_CONFLICT,
    SHUTTING_DOWN,
    STATEMENT_NOT_FOUND,
    STATEMENT_TOO_LARGE,
    TOO_MANY_STATEMENTS,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import LimitsConfig
from seamline.gateway.statements import service as module
from seamline.gateway.statements.metrics import Metrics
from seamline.gateway.statements.rates import ProcessLoad
from seamline.gateway.statements.service import (
    _HELD_MAX,
    ABANDONED_S,
    CROWDED_ABANDONED_S,
    Service,
)
from seamline.gateway.statements.statement import State, Statement, StatementRequest

ADA, BOB = Principal("ada"), Principal("bob")
ONE = StatementRequest("SELECT 1")
LIMITS = LimitsConfig(statements_running_max=1, statements_queued_max=2, result_seconds=60)


class Answers:
    """An answer for every statement: it waits while it is held, then does what it is told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held = False
        self.ends_with: BaseException | None = None
        self.begun = 0

    def hold(self, held: bool = True) -> None:
        """Holds statements from now on, or lets them all continue."""
        with self._changed:
            self._held = held
            self._changed.notify_all()

    def run(self, statement: Statement) -> None:
        """Implements what the service calls."""
        self.begun += 1
        forget = statement.deadline.on_end(self._look)
        with self._changed:
            self._changed.wait_for(lambda: not self._held or statement.deadline.canceled)
        forget()
        statement.deadline.check()
        if self.ends_with is not None:
            raise self.ends_with

    def _look(self) -> None:
        with self._changed:
            self._changed.notify_all()


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def service(answers: Answers) -> Iterator[Service]:
    running = Service(LIMITS, answers.run, Metrics(CollectorRegistry()))
    yield running
    answers.hold(False)
    running.close()


def refused(call: Callable[[], object], code: ErrorCode) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        call()
    assert caught.value.code is code
    return caught.value


def test_a_statement_runs_and_is_its_principals_alone(service: Service) -> None:
    statement = service.submit(ONE, ADA)
    assert statement.wait(60) is State.SUCCEEDED
    assert service.statement(statement.statement_id, ADA) is statement
    assert service.statements(ADA) == [statement]
    refused(lambda: service.statement(statement.statement_id, BOB), STATEMENT_NOT_FOUND)
    assert service.statements(BOB) == []
    statement.close()
    refused(lambda: service.statement(statement.statement_id, ADA), STATEMENT_NOT_FOUND)


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (SeamlineError(READ_CONFLICT, "moved"), READ_CONFLICT),
        (RecursionError(), STATEMENT_TOO_LARGE),
        (ValueError("what nobody foresaw"), INTERNAL_ERROR),
        (MemoryError(), None),
        (SystemExit(3), INTERNAL_ERROR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_goes_wrong_is_a_named_error_of_the_statement(
    service: Service, answers: Answers, raised: BaseException, code: ErrorCode | None
) -> None:
    answers.ends_with = raised
    statement = service.submit(ONE, ADA)
    assert statement.wait(60) is State.FAILED
    assert statement.error is not None
    assert code is None or statement.error.code is code
    assert statement.error.query_id == statement.statement_id
    answers.ends_with = None
    assert service.submit(ONE, ADA).wait(60) is State.SUCCEEDED, "the runner lives on"


def test_nobody_waits_for_the_many_of_somebody_else(answers: Answers) -> None:
    limits = LIMITS.model_copy(
        update={
            "statements_running_max": 3,
            "statements_queued_max": 100,
            "principal_running_max": 2,
            "principal_queued_max": 10,
        }
    )
    service = Service(limits, answers.run, Metrics(CollectorRegistry()))
    answers.hold()
    many = [service.submit(ONE, ADA) for _ in range(12)]
    wait_until(lambda: answers.begun == 2, what="the two that may run")
    refused(lambda: service.submit(ONE, ADA), TOO_MANY_STATEMENTS)
    one = service.submit(ONE, BOB)
    wait_until(lambda: one.state is State.RUNNING, what="the statement of somebody else")
    assert [s.state for s in many] == [State.RUNNING] * 2 + [State.PENDING] * 10
    answers.hold(False)
    assert [s.wait(60) for s in (one, *many)] == [State.SUCCEEDED] * 13
    service.close()


def test_the_next_to_run_is_of_who_has_fewest_running(answers: Answers) -> None:
    limits = LIMITS.model_copy(update={"statements_running_max": 2, "statements_queued_max": 100})
    service = Service(limits, answers.run, Metrics(CollectorRegistry()))
    answers.hold()
    many = [service.submit(ONE, ADA) for _ in range(5)]
    wait_until(lambda: answers.begun == 2, what="the first two")
    last = service.submit(ONE, BOB)
    many[0].cancel()
    wait_until(lambda: answers.begun == 3, what="the next")
    assert last.state is State.RUNNING, "it came last, and its principal has none running"
    answers.hold(False)
    assert {s.wait(60) for s in (*many[1:], last)} == {State.SUCCEEDED}
    service.close()


class Load(ProcessLoad):
    """As high as the test says."""

    is_high = False


def test_many_of_one_principal_go_one_by_one_beside_others_while_much_is_to_do(
    answers: Answers,
) -> None:
    limits = LIMITS.model_copy(
        update={
            "statements_running_max": 8,
            "statements_queued_max": 100,
            "principal_running_max": 3,
        }
    )
    load = Load()
    service = Service(limits, answers.run, Metrics(CollectorRegistry()), load=load)
    answers.hold()
    many = [service.submit(ONE, ADA) for _ in range(12)]
    wait_until(lambda: answers.begun == 3, what="as many as one may have")

    def running() -> int:
        return sum(s.state is State.RUNNING for s in many)

    def end(statement: Statement) -> None:
        statement.cancel()
        wait_until(lambda: statement.state is State.CANCELED, what="its end")

    load.is_high = True
    end(many[0])
    wait_until(lambda: running() == 3, what="another one: nobody else is there")
    few = [service.submit(ONE, BOB) for _ in range(2)]
    wait_until(lambda: all(s.state is State.RUNNING for s in few), what="those of somebody else")
    for left in (2, 1, 1, 1):
        end(next(s for s in many if s.state is State.RUNNING))
        wait_until(lambda left=left: running() == left, what=f"{left} of many")  # type: ignore[misc]
    load.is_high = False
    end(next(s for s in many if s.state is State.RUNNING))
    wait_until(lambda: running() == 3, what="as many as before")
    answers.hold(False)
    assert [s.wait(60) for s in few] == [State.SUCCEEDED] * 2
    service.close()


def test_long_ones_of_one_principal_go_one_by_one_beside_others_while_much_is_to_do(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside those that others had just before: their next one comes any moment."""
    monkeypatch.setattr(module, "_LATELY_S", 600.0)
    limits = LIMITS.model_copy(update={"statements_running_max": 8, "principal_running_max": 3})
    load = Load()
    service = Service(limits, answers.run, Metrics(CollectorRegistry()), load=load)
    assert service.submit(ONE, BOB).wait(60) is State.SUCCEEDED
    load.is_high = True
    answers.hold()
    long = StatementRequest(f"SELECT {' + '.join('1' for _ in range(900))}")
    first, second = service.submit(long, ADA), service.submit(long, ADA)
    wait_until(lambda: first.state is State.RUNNING, what="the first")
    third = service.submit(ONE, BOB)
    wait_until(lambda: third.state is State.RUNNING, what="that of somebody else")
    assert second.state is State.PENDING
    first.cancel()
    wait_until(lambda: second.state is State.RUNNING, what="the second")
    answers.hold(False)
    assert {s.wait(60) for s in (second, third)} == {State.SUCCEEDED}
    service.close()


def test_the_oldest_results_of_many_are_released(answers: Answers) -> None:
    limits = LIMITS.model_copy(update={"principal_results_max": 2, "statements_queued_max": 9})
    service = Service(limits, answers.run, Metrics(CollectorRegistry()))
    ended = [service.submit(ONE, ADA) for _ in range(4)]
    other = service.submit(ONE, BOB)
    assert {s.wait(60) for s in (*ended, other)} == {State.SUCCEEDED}
    service.sweep()
    assert len(service.statements(ADA)) == 2
    assert service.statements(BOB) == [other]
    assert sum(s.state is State.CLOSED for s in ended) == 2
    service.close()


def test_results_that_are_too_large_together_are_released(answers: Answers) -> None:
    """The oldest of whoever has most: nobody's result makes way for what others have."""

    class Sized(Statement):
        @property
        def size_bytes(self) -> int:
            return int(self.request.statement)

    def kept(*found: Statement) -> list[int]:
        return [s.size_bytes for s in found if s.state is not State.CLOSED]

    limits = LIMITS.model_copy(
        update={
            "principal_results_bytes": 60,
            "results_bytes": 100,
            "statements_queued_max": 99,
        }
    )
    service = Service(limits, answers.run, Metrics(CollectorRegistry()))

    def ended(who: Principal, *sizes: int) -> list[Statement]:
        found = [service.submit(StatementRequest(str(size)), who) for size in sizes]
        for statement in found:
            assert statement.wait(60) is State.SUCCEEDED
            statement.__class__ = Sized
        return found

    bob, ada = ended(BOB, 5), ended(ADA, 10, 30, 10, 20)
    service.sweep()
    assert (kept(*bob), kept(*ada)) == ([5], [30, 10, 20])
    eve = ended(Principal("eve"), 20, 30)
    service.sweep()
    assert (kept(*bob), kept(*ada), kept(*eve)) == ([5], [10, 20], [20, 30])
    service.close()


def test_so_many_run_so_many_wait_and_no_more_are_taken(service: Service, answers: Answers) -> None:
    answers.hold()
    running = service.submit(ONE, ADA)
    wait_until(lambda: running.state is State.RUNNING, what="the first statement")
    waiting = [service.submit(ONE, ADA) for _ in range(2)]
    refused(lambda: service.submit(ONE, BOB), TOO_MANY_STATEMENTS)
    assert answers.begun == 1
    waiting[0].cancel()
    assert waiting[0].wait(60) is State.CANCELED, "one that waits ends at once"
    waiting.append(service.submit(ONE, BOB))
    answers.hold(False)
    assert [s.wait(60) for s in (running, *waiting[1:])] == [State.SUCCEEDED] * 3
    assert answers.begun == 3, "what was canceled while it waited never began"


@pytest.mark.parametrize(
    "request_", [StatementRequest("SELECT 1", engine="trino"), StatementRequest("", timeout_s=0)]
)
def test_what_cannot_be_is_refused_before_anything_runs(
    service: Service, answers: Answers, request_: StatementRequest
) -> None:
    refused(lambda: service.submit(request_, ADA), INVALID_REQUEST)
    assert answers.begun == 0


def test_the_gateways_limit_bounds_what_a_statement_asks_for(service: Service) -> None:
    long = service.submit(StatementRequest("SELECT 1", timeout_s=1e9), ADA)
    assert long.deadline.remaining_s() <= LIMITS.statement_seconds_max
    short = service.submit(StatementRequest("SELECT 1", timeout_s=5), ADA)
    assert short.deadline.remaining_s() <= 5


def test_a_short_statement_runs_where_it_is_submitted_unless_others_come_first() -> None:
    threads: dict[str, threading.Thread] = {}
    held, short = Answers(), StatementRequest("SELECT 2")

    def run(statement: Statement) -> None:
        threads[statement.statement_id] = threading.current_thread()
        if statement.request is not short:
            held.run(statement)

    metrics = Metrics(CollectorRegistry())
    with contextlib.closing(
        Service(LIMITS, run, metrics, is_short=lambda request, _: request is short)
    ) as service:
        first = service.submit(short, ADA)
        assert first.state is State.SUCCEEDED
        assert threads[first.statement_id] is threading.current_thread()
        held.hold()
        long = service.submit(ONE, ADA)
        wait_until(lambda: held.begun, what="the long one")
        second = service.submit(short, BOB)
        assert second.state is State.PENDING
        held.hold(False)
        assert [s.wait(60) for s in (long, second)] == [State.SUCCEEDED] * 2
        assert threads[second.statement_id] is not threading.current_thread()


def test_draining_refuses_new_statements_and_lets_the_others_end(
    service: Service, answers: Answers
) -> None:
    answers.hold()
    statement = service.submit(ONE, ADA)
    drained = threading.Thread(target=service.drain, args=(60.0,))
    drained.start()
    wait_until(lambda: not service.accepts_statements, what="draining")
    refused(lambda: service.submit(ONE, ADA), SHUTTING_DOWN)
    answers.hold(False)
    assert statement.wait(60) is State.SUCCEEDED
    drained.join(60)
    assert not drained.is_alive()


def test_closing_cancels_what_runs_and_what_waits(service: Service, answers: Answers) -> None:
    answers.hold()
    statements = [service.submit(ONE, ADA) for _ in range(3)]
    service.close()
    assert [s.state for s in statements] == [State.CANCELED] * 3
    assert all(s.error is not None and s.error.code is CANCELED for s in statements)


def test_what_nobody_asks_for_any_more_is_released_or_canceled(
    service: Service, answers: Answers
) -> None:
    ended, lately = service.submit(ONE, ADA), service.submit(ONE, ADA)
    assert [s.wait(60) for s in (ended, lately)] == [State.SUCCEEDED] * 2
    answers.hold()
    abandoned = service.submit(ONE, ADA)
    ended.touched_at -= LIMITS.result_seconds + 1
    abandoned.touched_at -= ABANDONED_S + 1
    service.sweep()
    assert ended.state is State.CLOSED
    assert abandoned.wait(60) is State.CANCELED
    assert set(service.statements(ADA)) == {lately, abandoned}


def test_statements_that_nobody_follows_hold_no_place_against_others(
    service: Service, answers: Answers
) -> None:
    unfollowed = [service.submit(ONE, ADA, held=True) for _ in range(400)]
    for caller in (ADA, BOB):
        assert service.submit(ONE, caller).wait(60) is State.SUCCEEDED
    kept = [each for each in unfollowed if each.state is State.PENDING]
    assert kept == unfollowed[-_HELD_MAX:], "the oldest ones end"
    assert answers.begun == 2
    service.start(kept[-1])
    assert kept[-1].wait(60) is State.SUCCEEDED


def test_a_held_statement_that_starts_when_too_many_wait_ends_by_name(
    service: Service, answers: Answers
) -> None:
    answers.hold()
    running = service.submit(ONE, ADA)
    wait_until(lambda: running.state is State.RUNNING, what="the first statement")
    held = [service.submit(ONE, ADA, held=True) for _ in range(3)]
    for each in held:
        service.start(each)
    assert [each.state for each in held] == [State.PENDING, State.PENDING, State.FAILED]
    assert held[-1].error is not None
    assert held[-1].error.code is TOO_MANY_STATEMENTS


def test_while_others_wait_a_client_that_is_gone_keeps_its_runner_for_less_time(
    service: Service, answers: Answers
) -> None:
    answers.hold()
    gone = service.submit(ONE, ADA)
    wait_until(lambda: gone.state is State.RUNNING, what="the first statement")
    gone.touched_at -= CROWDED_ABANDONED_S + 1
    service.sweep()
    assert gone.state is State.RUNNING, "nobody else needs the runner"
    other = service.submit(ONE, BOB)
    service.sweep()
    assert gone.wait(60) is State.CANCELED
    answers.hold(False)
    assert other.wait(60) is State.SUCCEEDED
