"""Goal: a statement ends in one state, by its deadline, and lets go of what it held.

Method: real statements on a gateway without a broker: quick ones, ones that would take forever,
and more of them than may run or wait.
"""

from __future__ import annotations

import gc
import pathlib
import queue
import threading
import weakref
from collections.abc import Iterator

import pytest
from support import offline
from support.gateway import Gateway
from support.waiting import wait_until

from seamline.connectors.duckdb.engine import Statement as EngineStatement
from seamline.errors import CANCELED, DEADLINE_EXCEEDED, READ_CONFLICT, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.statements.statement import State, Statement, StatementRequest
from seamline.sql import types
from seamline.sql.binder.scope import Output

FOR_EVER = "SELECT count(*) FROM " + ", ".join(
    f"UNNEST(ARRAY[{', '.join(map(str, range(90)))}]) AS t{n}(x)" for n in range(9)
)


@pytest.fixture
def small(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway that runs one statement at a time and lets one wait."""
    flags = {"limits__statements_running_max": "1", "limits__statements_queued_max": "1"}
    running = Gateway(offline.config(tmp_path, **flags))
    yield running
    running.close()


def submit(gateway: Gateway, sql: str, timeout_s: float | None = None) -> Statement:
    return gateway.service.submit(StatementRequest(sql, timeout_s=timeout_s), Principal("ann"))


def started(gateway: Gateway) -> Statement:
    statement = submit(gateway, FOR_EVER)
    wait_until(lambda: statement.spool is not None or statement.state is not State.PENDING)
    return statement


# --- Columns ---------------------------------------------------------------------------------


def test_columns_that_a_client_knows_do_not_change() -> None:
    first, other = (Output("a", types.BIGINT),), (Output("b", types.BIGINT),)
    statement = Statement(StatementRequest("SELECT 1"), Principal("ann"), 60.0)
    assert statement.tell_columns() == ()
    statement.planned(other)
    statement.planned(first)  # planned again, before anybody has been told
    assert statement.tell_columns() == first
    statement.planned(first)
    with pytest.raises(SeamlineError, match="columns of the result have changed") as caught:
        statement.planned(other)
    assert caught.value.code is READ_CONFLICT
    assert statement.tell_columns() == first


# --- Deadlines -----------------------------------------------------------------------------------


def code_of(deadline: StatementDeadline) -> str | None:
    try:
        deadline.check()
    except SeamlineError as error:
        return error.code.name
    return None


def test_a_deadline_passes_and_stops_what_waits_for_it() -> None:
    long = StatementDeadline(60)
    assert code_of(long) is None
    assert 0 < long.remaining_s() <= 60
    long.close()
    stopped = threading.Event()
    deadline = StatementDeadline(0.05)
    deadline.on_end(stopped.set)
    assert stopped.wait(60)
    assert code_of(deadline) == "DEADLINE_EXCEEDED"
    assert deadline.remaining_s() == 0


def test_what_registers_too_late_is_stopped_at_once_and_what_left_is_not() -> None:
    early, late = threading.Event(), threading.Event()
    deadline = StatementDeadline(60)
    forget = deadline.on_end(early.set)
    forget()
    forget()
    deadline.cancel()
    deadline.on_end(late.set)
    assert late.wait(60)
    assert not early.is_set()
    assert code_of(deadline) == "CANCELED"
    deadline.close()


def test_whoever_cancels_does_not_stop_anything_themselves() -> None:
    stopped_by: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
    deadline = StatementDeadline(60)
    forget = deadline.on_end(lambda: stopped_by.put(threading.current_thread()))
    deadline.cancel()
    assert stopped_by.get(timeout=60) is not threading.current_thread()
    forget()
    deadline.close()


# --- Ends ----------------------------------------------------------------------------------------


def test_a_statement_succeeds_once_and_keeps_its_result(offline_gateway: Gateway) -> None:
    statement = submit(offline_gateway, "SELECT 1 AS a")
    assert statement.wait(60) is State.SUCCEEDED
    assert [column.name for column in statement.output] == ["a"]
    statement.cancel()
    assert statement.wait(0) is State.SUCCEEDED
    statement.close()
    assert statement.wait(0) is State.CLOSED


@pytest.mark.parametrize("statement", ["SELECT ?", "SELECT no FROM nowhere WHERE id = ?"])
def test_a_statement_that_has_ended_keeps_no_parameters(
    offline_gateway: Gateway, statement: str
) -> None:
    ended = offline_gateway.statement(
        statement, parameters=["x" * 1000], prepared={"p": "SELECT 1"}
    )
    ended.wait(60)
    assert (ended.request.parameters, ended.request.prepared) == ((), {})
    assert ended.size_bytes >= len(statement)


def test_a_failure_carries_its_name_and_the_statement(offline_gateway: Gateway) -> None:
    statement = submit(offline_gateway, "SELECT nope")
    assert statement.wait(60) is State.FAILED
    assert statement.error is not None
    assert statement.error.query_id == statement.statement_id


def test_a_running_statement_ends_when_it_is_canceled(small: Gateway) -> None:
    statement = started(small)
    statement.cancel()
    assert statement.wait(60) is State.CANCELED
    assert statement.error is not None
    assert statement.error.code is CANCELED
    assert submit(small, "SELECT 1").wait(60) is State.SUCCEEDED, "its runner is free again"


def test_a_running_statement_ends_by_its_deadline(small: Gateway) -> None:
    statement = submit(small, FOR_EVER, timeout_s=0.3)
    assert statement.wait(60) is State.FAILED
    assert statement.error is not None
    assert statement.error.code is DEADLINE_EXCEEDED


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("end", ["deadline", "cancel"])
def test_a_waiting_statement_ends_without_a_runner(small: Gateway, end: str) -> None:
    first = started(small)
    waiting = submit(small, "SELECT 1", timeout_s=0.2 if end == "deadline" else None)
    if end == "cancel":
        waiting.cancel()
    expected = State.FAILED if end == "deadline" else State.CANCELED
    assert waiting.wait(60) is expected
    assert first.state is State.RUNNING
    first.cancel()


def test_rows_past_the_limit_are_cut_off_and_it_says_so(offline_gateway: Gateway) -> None:
    whole = offline_gateway.statement("VALUES 1, 2, 3", row_limit=3)
    cut = offline_gateway.statement("VALUES 1, 2, 3", row_limit=2)
    assert (whole.truncated, cut.truncated) == (False, True)
    assert cut.spool is not None
    assert cut.spool.row_count == 2


# --- The door ------------------------------------------------------------------------------------


def refused(gateway: Gateway, **options: object) -> str:
    with pytest.raises(SeamlineError) as caught:
        gateway.service.submit(StatementRequest("SELECT 1", **options), Principal("ann"))  # type: ignore[arg-type]
    return caught.value.code.name


@pytest.mark.parametrize("options", [{"engine": "oracle"}, {"timeout_s": 0}, {"timeout_s": -1}])
def test_a_wrong_request_is_refused(offline_gateway: Gateway, options: dict[str, object]) -> None:
    assert refused(offline_gateway, **options) == "INVALID_REQUEST"


def test_more_than_may_wait_are_refused_and_leave_nothing_behind(small: Gateway) -> None:
    first, second = started(small), submit(small, "SELECT 1")
    threads = threading.active_count()
    assert [refused(small) for _ in range(20)] == ["TOO_MANY_STATEMENTS"] * 20
    assert threading.active_count() < threads + 20  # that which runs may begin some
    first.cancel()
    assert second.wait(60) is State.SUCCEEDED


def test_somebody_elses_statement_does_not_exist(offline_gateway: Gateway) -> None:
    statement = submit(offline_gateway, "SELECT 1")
    assert offline_gateway.service.statement(statement.statement_id, Principal("ann")) is statement
    assert statement not in offline_gateway.service.statements(Principal("bob"))
    with pytest.raises(SeamlineError) as caught:
        offline_gateway.service.statement(statement.statement_id, Principal("bob"))
    assert caught.value.code.name == "STATEMENT_NOT_FOUND"


def test_a_gateway_that_closes_ends_what_runs_and_takes_nothing_new(
    tmp_path: pathlib.Path,
) -> None:
    gateway = Gateway(offline.config(tmp_path))
    statement = started(gateway)
    gateway.close()
    assert statement.state is State.CANCELED
    assert refused(gateway) == "SHUTTING_DOWN"


# --- Memory ----------------------------------------------------------------------------------


def test_a_statement_and_the_tails_it_read_do_not_wait_for_the_garbage_collector(
    small: Gateway,
) -> None:
    before = _statements()
    gc.set_debug(gc.DEBUG_SAVEALL)  # what is left to the collector stays
    try:
        statement = small.statement("SELECT 1", "duckdb")
        assert statement.state is State.SUCCEEDED
        made = _statements() - before
        assert id(statement) in made
        small.service.forget(statement)
        del statement
        wait_until(lambda: not made & _statements())
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def _statements() -> set[int]:
    """Returns the ids of all statements in this process, and of what an engine holds of them."""
    things = gc.get_objects()
    return {id(thing) for thing in things if isinstance(thing, Statement | EngineStatement)}


def test_a_deadline_holds_no_callback_that_was_unregistered() -> None:
    class Owner:
        def stop(self) -> None:
            """Would stop its work."""

    deadline = StatementDeadline(60.0)
    try:
        owner = Owner()
        forget = deadline.on_end(owner.stop)
        left = weakref.ref(owner)
        forget()
        forget()
        del owner
        assert left() is None
    finally:
        deadline.close()
