"""Goal: a process is never mistaken for another, ends when told to, and no signal cuts a start.

Method: real processes of the shell.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from seamline.gateway.process import (
    ProcessIdentity,
    _look_in_proc,
    _look_with_ps,
    identify,
    is_running,
    spawn_detached,
    stop,
    tell_of_signals,
    uninterrupted,
)

Spawn = Callable[[str], ProcessIdentity]


@pytest.fixture
def spawn(tmp_path: pathlib.Path) -> Iterator[Spawn]:
    """Starts a shell script detached, and ends it after the test."""
    started: list[ProcessIdentity] = []

    def start(script: str) -> ProcessIdentity:
        started.append(spawn_detached(["/bin/sh", "-c", script], tmp_path / "log"))
        return started[-1]

    yield start
    for process in started:
        stop(process, 0)


def test_process_is_itself_and_no_other(spawn: Spawn) -> None:
    one, two = spawn("sleep 60"), spawn("sleep 60")
    assert identify(one.pid) == one
    assert is_running(one)
    assert one != two


def test_reused_id_is_told_apart_and_never_signalled(spawn: Spawn) -> None:
    stranger = spawn("sleep 60")
    recorded = dataclasses.replace(stranger, started="another boot/1")
    assert not is_running(recorded)
    assert stop(recorded, 0)
    assert is_running(stranger)


def test_detached_process_has_its_own_session_and_log(spawn: Spawn, tmp_path: pathlib.Path) -> None:
    process = spawn("echo out; echo err >&2; read line || echo no input; exec sleep 60")
    assert os.getsid(process.pid) == process.pid
    assert stop(process, 10)
    # The shell may have been ended before its last line, never between the first ones' order.
    assert "out\nerr\nno input\n".startswith((tmp_path / "log").read_text())


def test_inherited_descriptor_stays_open(tmp_path: pathlib.Path) -> None:
    reader, writer = os.pipe()
    script = f"import os; os.write({writer}, b'hello')"
    process = spawn_detached([sys.executable, "-c", script], tmp_path / "log", inherited=[writer])
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == "hello"  # also: it ends when the process does
    assert stop(process, 10)


def test_stop_asks_first(spawn: Spawn, tmp_path: pathlib.Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    process = spawn(f"trap 'echo asked; exit' TERM; echo > {ready}; while :; do sleep 0.05; done")
    ready.read_text()
    assert stop(process, 10)
    assert (tmp_path / "log").read_text() == "asked\n"


def test_stop_ends_what_does_not_listen(spawn: Spawn, tmp_path: pathlib.Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    process = spawn(f"trap '' TERM; echo > {ready}; while :; do sleep 0.05; done")
    ready.read_text()
    assert stop(process, 0.2)
    assert not is_running(process)


def test_stop_of_what_has_ended_is_done_at_once(spawn: Spawn) -> None:
    process = spawn("exit 0")
    assert stop(process, 10)
    assert stop(process, 10)
    assert identify(process.pid) is None, "the child was not reaped"


def test_ended_child_of_another_is_not_running() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        assert process is not None
        assert is_running(process)
    assert not is_running(process)
    assert child.returncode != 0


@pytest.mark.parametrize("look", [_look_in_proc, _look_with_ps])
def test_both_ways_of_looking_agree(spawn: Spawn, look: Callable[[int], object]) -> None:
    process = spawn("sleep 60")
    if look is _look_in_proc and not pathlib.Path("/proc/self/stat").exists():
        return  # this system is looked at with ps
    seen = look(process.pid)
    assert seen is not None
    assert look(process.pid) == seen
    assert not seen.has_ended  # type: ignore[attr-defined]
    assert stop(process, 10)
    assert look(process.pid) is None


@pytest.fixture
def pythons_own_handler() -> Iterator[None]:
    """What a command starts with, whatever ran in this process before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_signals_wait_for_the_end_of_the_block(pythons_own_handler: None) -> None:
    events: list[str] = []

    def interrupted_start() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            events.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted_start()
    assert events == ["the block went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_is_told_though_what_it_interrupts_holds_a_lock() -> None:
    lock, told = threading.Lock(), queue.SimpleQueue[int]()

    def note(number: int) -> None:
        with lock:
            told.put(number)

    before = signal.getsignal(signal.SIGUSR1)
    try:
        tell_of_signals([signal.SIGUSR1], note)
        with lock:
            signal.raise_signal(signal.SIGUSR1)
        assert told.get(timeout=60) == signal.SIGUSR1
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, "another has its usual effect"
    finally:
        signal.signal(signal.SIGUSR1, before)
