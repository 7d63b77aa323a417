"""Goal: no principal takes all of any of a gateway's resources: others are always answered.

Method: one principal takes as much as they can get of requests that are worked on, of waiting, of
plans and of calls, and releases nothing; another then asks, and is answered. What is refused says
by name that it is too much, and when to come again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import io
import pathlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight
import pytest
from support import offline
from support.flight import RawFlight
from support.gateway import Gateway
from support.waiting import wait_until

from seamline.errors import TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.flight import callers, messages
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.iceberg_rest import scan_plans
from seamline.gateway.iceberg_rest.scan_plans import ScanPlans

TOKENS = "".join(
    f"  - {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}}}\n"
    for name in ("ann", "bob")
)


class Application:
    """Requests of somebody, `/ann/work` and `/ann/wait`, which end when they are told to."""

    def __init__(self, slots: RequestSlots) -> None:
        self._slots = slots
        self.go_on = threading.Event()
        self.busy: set[str] = set()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answers a request."""
        _, name, what, number = environ["PATH_INFO"].split("/")
        try:
            self._slots.belong_to(name)
        except SeamlineError as error:
            assert error.code is TOO_MANY_STATEMENTS
            assert error.details["retry_after_s"] == 1
            return [b"refused"]
        if what == "wait":
            with self._slots.waiting(60.0) as left_s:
                self.busy.add(f"{name} {number}")
                self.go_on.wait(left_s)
            return [b"waited" if left_s else b"at once"]
        self.busy.add(f"{name} {number}")
        self.go_on.wait(0 if name == "bob" else 60.0)
        return [b"worked"]


@pytest.fixture
def pool() -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        yield threads


def served(slots: RequestSlots, application: Application, path: str) -> bytes:
    asked = {"PATH_INFO": path, "CONTENT_LENGTH": "0", "wsgi.input": io.BytesIO()}
    return b"".join(slots.limiting(application, 10)(asked, lambda *_: bytes))


@pytest.mark.parametrize("working", [2, 4, 7])
def test_slots(pool: concurrent.futures.ThreadPoolExecutor, working: int) -> None:
    """Half of them; what comes on top waits without a slot, up to half of the waiting."""
    slots = RequestSlots(working, 8, shared=True)
    application = Application(slots)
    asked = [pool.submit(served, slots, application, f"/ann/work/{n}") for n in range(working + 4)]
    try:
        wait_until(lambda: len(application.busy) == working // 2, what="work")
        too_many = working - working // 2
        wait_until(lambda: sum(f.done() for f in asked) == too_many, what="refusals")
        done = served(slots, application, "/bob/work/0")
    finally:
        application.go_on.set()
    assert done == b"worked"
    answers = [future.result(30) for future in asked]
    assert answers.count(b"worked") == working // 2 + 4
    assert answers.count(b"refused") == too_many
    assert served(slots, application, "/ann/work/9") == b"worked"


def test_waiting(pool: concurrent.futures.ThreadPoolExecutor) -> None:
    slots = RequestSlots(4, 8, shared=True)
    application = Application(slots)
    asked = [pool.submit(served, slots, application, f"/ann/wait/{n}") for n in range(6)]
    other = pool.submit(served, slots, application, "/bob/wait/0")
    try:
        wait_until(lambda: len(application.busy) == 7, what="all of them")
    finally:
        application.go_on.set()
    answers = [future.result(30) for future in asked]
    assert sorted(set(answers)) == [b"at once", b"waited"]
    assert answers.count(b"waited") == 4
    assert other.result(30) == b"waited"


def test_alone_somebody_has_all_of_it(pool: concurrent.futures.ThreadPoolExecutor) -> None:
    slots = RequestSlots(4, 8)
    application = Application(slots)
    asked = [pool.submit(served, slots, application, f"/ann/work/{n}") for n in range(4)]
    try:
        wait_until(lambda: len(application.busy) == 4, what="work")
    finally:
        application.go_on.set()
    assert {future.result(30) for future in asked} == {b"worked"}


# --- Plans of the Iceberg catalog ----------------------------------------------------------------


def test_plans_in_the_making(
    pool: concurrent.futures.ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_plans, "WAIT_S", 0.01)
    go_on, busy = threading.Event(), []

    def slow(deadline: StatementDeadline) -> Any:
        busy.append(deadline)
        assert go_on.wait(60)
        return "slow"

    plans: Any = ScanPlans(60.0, shared=True)
    with contextlib.closing(plans):
        asked = [plans.submit("ann", ("t",), slow) for _ in range(20)]
        wait_until(lambda: len(busy) >= scan_plans._OWN_WORKERS, what="plans in the making")
        made = plans.submit("bob", ("t",), lambda _: "fast")
        assert made.result.result(30) == "fast"
        assert len(busy) == scan_plans._OWN_WORKERS
        go_on.set()
        assert {plan.result.result(30) for plan in asked} == {"slow"}


def test_plans_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_plans, "PLANS_MAX", 10)
    plans = ScanPlans(60.0, shared=True)
    with contextlib.closing(plans):
        own = plans.submit("bob", ("t",), lambda _: "own")  # type: ignore[arg-type, return-value]
        for _ in range(30):
            plans.submit("ann", ("t",), lambda _: "other")  # type: ignore[arg-type, return-value]
        assert plans.find(own.plan_id, "bob", ("t",)) is own
        assert len(plans._plans) == 10


# --- Flight SQL ----------------------------------------------------------------------------------


@pytest.fixture
def gateway(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(callers, "OWN_CALLS_MAX", 4)
    config = offline.load_config(tmp_path, f"auth:\n  tokens:\n{TOKENS}")
    with contextlib.closing(Gateway(config)) as running:
        yield running


@pytest.mark.prove
def test_calls_of_flight(gateway: Gateway) -> None:
    """Each is a call that has begun to send, and sends no more."""
    ann = RawFlight.at(gateway.flight_url, authorization="Bearer ann")
    bob = RawFlight.at(gateway.flight_url, authorization="Bearer bob")
    handle = ann.prepare("SELECT CAST(? AS bigint)").prepared_statement_handle
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    schema = pa.schema([("0", pa.int64())])
    descriptor = pa.flight.FlightDescriptor.for_command(command)
    opened = []

    def refused() -> bool:
        try:
            ann.query("SELECT 1")
        except pa.ArrowException as error:
            return "TOO_MANY_STATEMENTS" in str(error)
        return False

    def refused_after_another() -> bool:
        """Opens one more: an earlier one is refused if the call before it had not ended yet."""
        opened.append(ann.client.do_put(descriptor, schema, ann.options))
        return refused()

    wait_until(refused_after_another, what="a call to be refused")
    assert bob.query("SELECT 1 AS a").to_pylist() == [{"a": 1}]
    for writer, _ in opened:
        with contextlib.suppress(pa.ArrowException):
            writer.close()
    wait_until(lambda: not refused(), what="calls to end")
