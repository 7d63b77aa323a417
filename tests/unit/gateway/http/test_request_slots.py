"""Goal: as many requests as may are worked on at once, and who waits is not one of them.

Method: applications that stop in the midst of their work until the test lets them continue.
"""

from __future__ import annotations

import concurrent.futures
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from support.waiting import wait_until

from seamline.gateway.http.request_slots import PROBES, RequestSlots

WORKING, WAITING = 2, 3


class Application:
    """Counts who works and who waits; nobody continues before it is told to."""

    def __init__(self, slots: RequestSlots) -> None:
        self._slots = slots
        self._go_on = threading.Event()
        self.working = 0
        self.waiting = 0

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Works, or waits, as its path says."""
        if environ["PATH_INFO"] in PROBES:
            return [b"ok"]
        if environ["PATH_INFO"] == "/wait":
            with self._slots.waiting(60.0) as left_s:
                self.waiting += left_s > 0
                self._go_on.wait(left_s)
            return [b"waited" if left_s else b"at once"]
        self.working += 1
        self._go_on.wait(60.0)
        return [environ["wsgi.input"].read()]

    def go_on(self) -> None:
        """Lets everybody continue."""
        self._go_on.set()


@pytest.fixture
def pool() -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        yield threads


def heard(status: str, headers: Any, failure: Any = None, /) -> Callable[[bytes], object]:
    """A `start_response` that nobody asks."""
    return bytes


def asked(path: str, body: bytes = b"") -> dict[str, Any]:
    return {"PATH_INFO": path, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}


def test_no_more_are_worked_on_than_may_and_probes_all_the_same(
    pool: concurrent.futures.ThreadPoolExecutor,
) -> None:
    slots = RequestSlots(WORKING, WAITING)
    application = Application(slots)
    served = slots.limiting(application, 10)
    bodies = [str(number).encode() for number in range(8)]
    answers = [pool.submit(served, asked("/work", body), heard) for body in bodies]
    wait_until(lambda: application.working == WORKING, what="work")
    for path in PROBES:
        assert list(served(asked(path), heard)) == [b"ok"]
    assert application.working == WORKING
    application.go_on()
    assert [b"".join(answer.result(10)) for answer in answers] == bodies


def test_who_waits_has_no_turn_and_too_many_do_not_wait(
    pool: concurrent.futures.ThreadPoolExecutor,
) -> None:
    slots = RequestSlots(WORKING, WAITING)
    application = Application(slots)
    served = slots.limiting(application, 10)
    answers = [pool.submit(served, asked("/wait"), heard) for _ in range(WAITING)]
    wait_until(lambda: application.waiting == WAITING, what="waiting")
    assert list(served(asked("/wait"), heard)) == [b"at once"]
    working = [pool.submit(served, asked("/work"), heard) for _ in range(WORKING)]
    wait_until(lambda: application.working == WORKING, what="work")
    application.go_on()
    assert [list(answer.result(10)) for answer in answers] == [[b"waited"]] * WAITING
    assert all(answer.result(10) == [b""] for answer in working)


def test_of_a_body_that_is_too_long_no_more_is_read_than_shows_it() -> None:
    slots = RequestSlots(WORKING, WAITING)
    application = Application(slots)
    application.go_on()
    found = slots.limiting(application, 10)(asked("/work", b"x" * 99), heard)
    assert list(found) == [b"x" * 11]
