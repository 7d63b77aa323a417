"""Goal: calls to what does not answer fail at once until it is tried again, by one probe.

Method: a clock that the test moves, and a registry that stops to answer in every way servers do.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import threading

import pytest
from support.doors import FAULTS, Door, Way
from support.waiting import wait_until

from seamline.connectors import dependencies
from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.dependencies import Caller, Dependency, Opener
from seamline.connectors.kafka.formats import schemas
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.connectors.supervision import Backoff
from seamline.errors import (
    CANCELED,
    CATALOG_UNAVAILABLE,
    DEADLINE_EXCEEDED,
    KAFKA_UNAVAILABLE,
    RETRY_AFTER,
    SCHEMA_REGISTRY_UNAVAILABLE,
    TABLE_NOT_FOUND,
    ErrorCode,
    SeamlineError,
)

SOON_S = 0.3


class Clock:
    """Monotonic seconds that the test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The seconds."""
        return self.now


def _fails(dependency: Dependency, clock: Clock, after_s: float) -> SeamlineError:
    """The error of a call that is not answered."""

    def wait() -> None:
        clock.now += after_s
        raise SeamlineError(CATALOG_UNAVAILABLE, "no answer")

    with pytest.raises(SeamlineError) as caught, dependency.call():
        wait()
    return caught.value


def test_a_breaker_opens_after_silence_lets_one_probe_through_and_closes_after_an_answer() -> None:
    clock = Clock()
    lake = Dependency("catalog", "lake", CATALOG_UNAVAILABLE, clock=clock)
    _fails(lake, clock, after_s=10.0)
    refused = _fails(lake, clock, after_s=0.0)
    assert "catalog lake has not answered since" in refused.message
    assert "is tried again in 2 s; last failure: no answer" in refused.message
    assert refused.details[RETRY_AFTER] == 2
    clock.now += 2.0
    with lake.call():  # the probe
        refused = contextvars.Context().run(lambda: _fails(lake, clock, after_s=0.0))
        assert "at this moment" in refused.message
        with lake.call():  # a part of the probe
            pass
        clock.now += 5.0
    assert lake.outage is None
    with lake.call():
        pass


def test_a_probe_that_fails_doubles_the_pause_and_those_that_waited_together_count_once() -> None:
    clock = Clock()
    lake = Dependency("catalog", "lake", CATALOG_UNAVAILABLE, clock=clock)
    waiting = [(lake.call(), contextvars.Context()) for _ in range(5)]
    for call, caller in waiting:
        caller.run(call.__enter__)
    clock.now += 10.0
    for call, caller in waiting:
        error = SeamlineError(CATALOG_UNAVAILABLE, "no answer")
        assert not caller.run(call.__exit__, type(error), error, None)
    assert "in 2 s" in _fails(lake, clock, after_s=0.0).message
    clock.now += 2.0
    _fails(lake, clock, after_s=0.0)
    assert "in 4 s" in _fails(lake, clock, after_s=0.0).message


def test_a_dependency_that_answers_others_is_not_away() -> None:
    """A topic whose leader is away fails slowly; statements about other topics go on."""
    clock, asked, answers = Clock(), [0], [True]

    def ask() -> bool:
        asked[0] += 1
        return answers[0]

    hot = Dependency("cluster", "hot", KAFKA_UNAVAILABLE, answers=ask, clock=clock)

    def fails(after_s: float) -> SeamlineError:
        def wait() -> None:
            with hot.call():
                clock.now += after_s
                raise SeamlineError(KAFKA_UNAVAILABLE, "no leader")

        with pytest.raises(SeamlineError) as caught:
            wait()
        return caught.value

    assert fails(10.0).message == fails(10.0).message == "no leader"
    assert (asked, hot.outage) == ([2], None)
    answers[0] = False
    fails(10.0)
    assert "has not answered since" in fails(0.0).message
    clock.now += 2.0
    refused = fails(0.0)
    assert "is tried again in 4 s" in refused.message, "it was asked, and nobody's call was tried"
    clock.now += 4.0
    answers[0] = True
    with hot.call():  # of a topic without its leader, which hangs and refuses nobody
        assert hot.outage is None
        assert contextvars.Context().run(fails, 0.0).message == "no leader"
    assert fails(0.0).message == "no leader"
    assert asked == [5]


def test_a_failure_that_comes_at_once_is_reported_and_refuses_nobody() -> None:
    clock = Clock()
    lake = Dependency("catalog", "lake", CATALOG_UNAVAILABLE, clock=clock)
    _fails(lake, clock, after_s=0.0)
    assert lake.outage is not None
    with lake.call():
        pass
    assert lake.outage is None


@pytest.mark.parametrize("code", [CANCELED, DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, TABLE_NOT_FOUND])
def test_only_an_answer_closes_a_breaker(code: ErrorCode) -> None:
    clock = Clock()
    lake = Dependency("catalog", "lake", CATALOG_UNAVAILABLE, clock=clock)
    _fails(lake, clock, after_s=10.0)
    clock.now += 60.0
    with pytest.raises(SeamlineError), lake.call():
        raise SeamlineError(code, "something else")
    assert (lake.outage is None) == (code is TABLE_NOT_FOUND)


def test_all_who_need_a_client_that_does_not_open_share_one_outcome() -> None:
    tries = []
    may_fail = threading.Event()

    def make() -> None:
        tries.append(1)
        may_fail.wait()
        raise SeamlineError(CATALOG_UNAVAILABLE, "no answer")

    opener = Opener(Dependency("catalog", "lake", CATALOG_UNAVAILABLE), make)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(opener.get) for _ in range(8)]
        wait_until(lambda: tries, what="the opener")
        may_fail.set()
        errors = [each.exception() for each in waiting]
    assert {str(error) for error in errors} == {str(errors[0])}
    assert len({id(error) for error in errors}) == len(errors)  # each belongs to its statement


# --- Registries, which are asked in the background -----------------------------------------------


@pytest.mark.parametrize("way", FAULTS)
def test_a_registry_that_is_away_is_used_again_once_it_is_back(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_WAIT_S", "_READ_S", "_CONNECT_S"):
        monkeypatch.setattr(schemas, name, SOON_S)
    monkeypatch.setattr(dependencies, "_RETRIES", Backoff(0.05, 0.05))
    with Door(lambda _method, _path: (200, b'{"schema": "int"}')) as door:
        door.turn(way)
        registry = SchemaRegistry(SchemaRegistryConfig(url=door.url))
        with pytest.raises(SeamlineError) as caught:
            registry.by_id(1)
        assert caught.value.code is SCHEMA_REGISTRY_UNAVAILABLE
        door.turn(Way.ANSWERS)

        def is_back() -> bool:
            with contextlib.suppress(SeamlineError):
                return registry.by_id(1).text == "int"
            return False

        wait_until(is_back, what="the same schema")
        assert registry.dependency.outage is None


class OnePlace(Caller):
    """A caller that counts its places, and whose return can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.places = 1
        self.may_return = threading.Event()
        self.returns = threading.Event()

    def release(self) -> None:
        self.places -= 1

    def regain(self) -> None:
        self.returns.set()
        assert self.may_return.wait(60)
        self.places += 1


def test_slow_calls_of_several_threads_give_up_one_place_and_take_it_again() -> None:
    caller = OnePlace()
    caller.block()
    caller.block()
    assert caller.places == 0
    caller.unblock()
    assert not caller.returns.is_set()
    returning = threading.Thread(target=caller.unblock)
    returning.start()
    assert caller.returns.wait(60)
    caller.block()  # at once, although the place is waited for
    caller.unblock()
    assert caller.places == 0
    caller.may_return.set()
    returning.join(60)
    assert caller.places == 1
    caller.block()
    assert caller.places == 0
