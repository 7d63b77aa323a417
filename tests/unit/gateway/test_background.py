"""Goal: what others' code raises in the background of a gateway loses nothing that can continue.

Method: the product's own loops over fakes of what they call, raising what other people's code
raises: followers, the end of statements, sweepers, statements themselves, leases, draining.
"""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from fakes.memory import MemoryLog
from gunicorn.workers.gthread import PollableMethodQueue
from support import offline
from support.gateway import Gateway
from support.raised import FOREIGN, PanicError, kind
from support.tails import TOPIC, MemoryTail, value
from support.waiting import wait_until

from seamline.connectors import supervision
from seamline.connectors.duckdb.instances import Instances
from seamline.connectors.protocols.hot_logs import Polled, Subscription
from seamline.errors import SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.app.server import DrainingWorker
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.iceberg_rest.scan_plans import ScanPlans
from seamline.gateway.statements.statement import State as Ended
from seamline.gateway.tail import follower as follower_module
from seamline.gateway.tail.follower import State
from seamline.seam.offsets import Offsets

foreign = pytest.mark.parametrize("make", FOREIGN, ids=kind)


# --- Followers -----------------------------------------------------------------------------------


class BrokenLog(MemoryLog):
    """A log in memory whose subscriptions raise until it is mended."""

    def __init__(self, where: str, make: Callable[[], BaseException]) -> None:
        super().__init__()
        self.make = make
        self.where = where
        self.mended = threading.Event()

    def at(self, where: str) -> None:
        """Raises, if it is here that it does."""
        if where == self.where and not self.mended.is_set():
            raise self.make()

    def follow(  # type: ignore[override]
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        self.at("follow")
        return _Broken(self, super().follow(topic, starts, isolation, epochs, patient))


@dataclasses.dataclass
class _Broken:
    log: BrokenLog
    inner: Subscription

    def poll(self, wait_s: float) -> Polled:
        self.log.at("poll")
        polled = self.inner.poll(wait_s)
        self.log.at("close")  # is called when something else has failed
        return polled

    def close(self, *, lost: bool = False) -> None:
        self.log.at("close")
        self.inner.close(lost=lost)


@pytest.mark.one_in(test=4)
@foreign
@pytest.mark.parametrize(
    "where", ["poll", *(pytest.param(w, marks=pytest.mark.prove) for w in ("follow", "close"))]
)
def test_a_follower_goes_on_and_nobody_waits_for_it_meanwhile(
    scratch: pathlib.Path,
    where: str,
    make: Callable[[], BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower_module, "STALLED_S", 3600.0)  # who waited for it would be late
    log = BrokenLog(where, make)
    log.create_topic(TOPIC, 2)
    for number in range(5):
        log.produce(TOPIC, number % 2, value(number))
    tail = MemoryTail(scratch, log=log, readers=2)
    try:
        assert tail.followers is not None
        assert len(tail.rows()) == 5
        follower = tail.followers.find(f"uuid-{TOPIC}")
        assert follower is not None
        wait_until(lambda: follower.state is State.RETRYING, what="the trouble")
        assert type(make()).__name__ in str(follower.error)
        assert len(tail.rows()) == 5
        log.mended.set()
        wait_until(lambda: follower.state is State.FOLLOWING, what="the follower")
        assert follower.error is None
        assert len(tail.rows()) == 5
    finally:
        tail.close()


# --- Statements ----------------------------------------------------------------------------------


@foreign
def test_a_deadline_stops_what_it_can(make: Callable[[], BaseException]) -> None:
    def broken() -> None:
        raise make()

    stopped = threading.Event()
    deadline = StatementDeadline(0.01)
    forget = [deadline.on_end(broken), deadline.on_end(stopped.set)]
    assert stopped.wait(60)
    for one in forget:
        one()
    again = threading.Event()
    deadline.on_end(again.set)
    assert again.wait(60)


class Broken(str):
    """A text that cannot be looked at."""

    __slots__ = ("make",)
    make: Callable[[], BaseException]

    def __len__(self) -> int:
        raise self.make()


@foreign
def test_a_statement_ends_whatever_is_raised(
    offline_gateway: Gateway, make: Callable[[], BaseException]
) -> None:
    text = Broken("SELECT 2")
    text.make = make
    statement = offline_gateway.statement(text)
    assert statement.state is Ended.FAILED
    assert statement.error is not None
    wanted = "STATEMENT_TOO_LARGE" if isinstance(make(), RecursionError) else "INTERNAL_ERROR"
    assert statement.error.code.name == wanted
    offline_gateway.service.forget(statement)  # nobody can look at it, nor at a list with it
    assert offline_gateway.rows("SELECT 1") == [(1,)]


@foreign
def test_a_plan_fails_by_name(make: Callable[[], BaseException]) -> None:
    def broken(_: StatementDeadline) -> Any:
        raise make()

    planning = ScanPlans(60.0)
    try:
        with pytest.raises(Exception, match=r"(?s).*") as caught:
            planning.submit("ann", ("t",), broken)
        assert isinstance(caught.value, type(make()) | SeamlineError)
    finally:
        planning.close()


# --- Looking after things ------------------------------------------------------------------------


@pytest.fixture
def gateway(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path))
    yield running
    running.close()


def test_files_that_cannot_be_removed_keep_no_other(
    gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    tables = gateway.parts.iceberg.catalog.tables
    good = [tmp_path / "good" / name for name in ("a", "b")]
    for path in good:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    tables._leases.hold("a", "", [good[0].as_uri()], {})
    tables._leases.hold("broken", "", ["nowhere://is/this"], {})  # PyIceberg knows no such storage
    tables._leases.hold("b", "", [good[1].as_uri()], {})
    for lease in ("a", "broken", "b"):
        tables._leases.release(lease)
    before = supervision.failures().get(("leases", "INTERNAL_ERROR"), 0)
    assert tables.collect() == 3
    assert not any(path.exists() for path in good)
    assert tables.collect() == 1, "what could not be removed is tried again"
    assert supervision.failures()["leases", "INTERNAL_ERROR"] == before + 2


def test_a_result_that_cannot_be_released_keeps_no_other(
    tmp_path: pathlib.Path,
) -> None:
    config = offline.config(tmp_path)
    limits = config.limits.model_copy(update={"result_seconds": 0})
    running = Gateway(config.model_copy(update={"limits": limits}))
    try:
        service = running.service
        statements = [running.statement("SELECT 1") for _ in range(3)]
        broken = statements[1].spool
        assert broken is not None
        broken._files.add(str(tmp_path))  # which is a folder, and cannot be unlinked
        before = sum(supervision.failures().values())
        service.sweep()
        assert sum(supervision.failures().values()) > before
        assert service.statements(Principal("tests")) == []
        assert [s.state for s in (statements[0], statements[2])] == [Ended.CLOSED] * 2
    finally:
        running.close()


def test_instances_that_cannot_be_made_ahead_are_reported() -> None:
    before = supervision.failures().get(("duckdb", "INTERNAL_ERROR"), 0)
    instances = Instances({"no_such_setting": "1"})
    instances.warm_up()
    wait_until(lambda: supervision.failures().get(("duckdb", "INTERNAL_ERROR"), 0) > before)
    instances.close()


class _Application:
    def drain(self) -> None:
        raise PanicError


class _Settings:
    def set(self, name: str, value: int) -> None:
        """Takes a setting."""


def test_a_worker_ends_when_draining_fails() -> None:
    worker = DrainingWorker.__new__(DrainingWorker)
    worker.app, worker.cfg, worker.alive = _Application(), _Settings(), True
    worker.method_queue = PollableMethodQueue()
    worker.method_queue.init()
    worker.handle_exit(15, None)
    assert worker.alive
    worker.method_queue.run_callbacks(None)
    wait_until(lambda: not worker.alive, what="the worker to end")


def test_metrics_of_a_gateway_tell_of_its_loops(gateway: Gateway) -> None:
    answer = gateway.app.test_client().get("/metrics", headers={"Host": "127.0.0.1"})
    text = answer.get_data(as_text=True)
    assert 'seamline_background_quiet_seconds{name="sweeper"}' in text
    assert 'seamline_background_quiet_seconds{name="leases"}' in text
