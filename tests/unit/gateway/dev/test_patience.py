"""Goal: waiting ends when nothing goes on any more, and not a moment before.

Method: a clock and signs that the test sets; then real processes that work and that sleep.
"""

from __future__ import annotations

import functools
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until

from seamline.gateway.dev.demo.patience import IDLE_S_MAX, Patience, signs_of

WORKING = "while True: pass"


class World:
    """A clock, and signs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sign = 0
        self.patience = Patience(lambda: self.sign, clock=lambda: self.now)


@given(st.lists(st.floats(0, IDLE_S_MAX), max_size=50))
def test_what_goes_on_is_waited_for_however_long(pauses: Sequence[float]) -> None:
    world = World()
    for pause in pauses:
        world.now += pause
        world.sign += 1
        assert not world.patience.is_over
    world.now += IDLE_S_MAX + 1
    assert world.patience.is_over


def test_how_long_it_has_been_is_counted() -> None:
    world = World()
    world.now = 25.0
    assert world.patience.elapsed_s == 25


@pytest.mark.parametrize(
    "code", [WORKING, f"import subprocess; subprocess.run({[sys.executable, '-c', WORKING]!r})"]
)
def test_work_of_a_session_is_a_sign(code: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        for _ in range(3):
            seen = signs_of(process.pid, log)
            wait_until(functools.partial(has_changed, process.pid, log, seen), 30, "progress")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def has_changed(session: int, log: pathlib.Path, seen: object) -> bool:
    return signs_of(session, log) != seen


def test_a_line_in_the_log_is_a_sign(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    before = signs_of(0, log)
    log.write_text("a line\n")
    assert signs_of(0, log) != before
