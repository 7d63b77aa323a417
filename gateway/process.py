"""Processes that outlive the one that started them, and are never mistaken for others.

A process is identified by its id and its start time. An id that the system has since given to
another process does not match, so no unrelated process is ever signalled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType

from seamline.connectors import supervision

_KILLED_S_MAX = 10.0
_LOOK_EVERY_S = 0.05
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The permanent identity of one process.

    Attributes:
        pid: Its id, which the system may later give to another process.
        started: When it started, in a form that can only be compared for equality.
    """

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Returns the process that has this id now; None when there is none."""
    seen = _look(pid)
    return None if seen is None else ProcessIdentity(pid, seen.started)


def is_running(process: ProcessIdentity) -> bool:
    """Whether that very process still runs. Reaps it if it is an ended child of ours."""
    seen = _look(process.pid)
    if seen is None or seen.started != process.started:
        return False
    if seen.has_ended:
        with contextlib.suppress(ChildProcessError):  # not our child: its parent reaps it
            os.waitpid(process.pid, os.WNOHANG)
        return False
    return True


def spawn_detached(
    command: list[str], log: pathlib.Path, inherited: Sequence[int] = ()
) -> ProcessIdentity:
    """Starts a process in its own session, which our Ctrl-C does not reach.

    Args:
        command: An absolute path and its arguments.
        log: File that its output is appended to.
        inherited: Open file descriptors that it inherits, such as one that holds a lock.
    """
    for descriptor in inherited:
        os.set_inheritable(descriptor, True)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=_STOPPING,
    )
    process = identify(pid)
    assert process is not None, "a child that has not been waited for keeps its id"
    return process


def stop(process: ProcessIdentity, grace_s: float) -> bool:
    """Asks the process to end, and kills it if it has not ended after the grace period.

    An exception that interrupts the wait, such as a second Ctrl-C, kills it at once.

    Returns:
        Whether it is gone.
    """
    try:
        _send(process, signal.SIGTERM)
        _wait_until_gone(process, grace_s)
    finally:
        _send(process, signal.SIGKILL)
        gone = _wait_until_gone(process, _KILLED_S_MAX)
    return gone


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Makes SIGTERM and a closed terminal interrupt the block as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ends = (signal.SIGTERM, signal.SIGHUP)
    # under nohup, a closed terminal must not stop anything
    with _handled([n for n in ends if not _is_ignored(n)], interrupt):
        yield


def tell_of_signals(numbers: Iterable[signal.Signals], receive: Callable[[int], None]) -> None:
    """Has a function called at the first of each signal; further ones have their usual effect.

    A closed terminal that is to be ignored, as under nohup, stays ignored.

    The function gets the signal's number in a thread of its own: a handler interrupts the main
    thread anywhere, even where it holds a lock that the function needs.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    came: queue.SimpleQueue[int] = queue.SimpleQueue()

    def tell() -> None:
        while True:
            supervision.attempt("signals", functools.partial(receive, came.get()))

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        came.put(number)

    supervision.start("signals", tell)
    for number in numbers:
        if number != signal.SIGHUP or not _is_ignored(number):
            signal.signal(number, handle)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds back the signals that stop a command until the block has ended."""
    held: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        held.append(number)

    try:
        with _handled(_STOPPING, hold):
            yield
    finally:
        for number in held:
            signal.raise_signal(number)


@contextlib.contextmanager
def _handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handles signals in the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _send(process: ProcessIdentity, number: signal.Signals) -> None:
    if is_running(process):
        with contextlib.suppress(ProcessLookupError):  # it ended in between
            os.kill(process.pid, number)


def _wait_until_gone(process: ProcessIdentity, seconds_max: float) -> bool:
    deadline = time.monotonic() + seconds_max
    while is_running(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    started: str
    has_ended: bool


def _look(pid: int) -> _Seen | None:
    return _look_in_proc(pid) if pathlib.Path("/proc/self/stat").exists() else _look_with_ps(pid)


def _look_in_proc(pid: int) -> _Seen | None:
    """Uses ticks since boot and the id of the boot: ticks alone may repeat after a reboot."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may contain anything
    threads, ticks = int(fields[16]), fields[18]
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    # While other threads are still ending, files stay open and locks stay held, although the first
    # thread is already a zombie.
    return _Seen(started=f"{boot}/{ticks}", has_ended=state in "ZX" and threads <= 1)


def _look_with_ps(pid: int) -> _Seen | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return _Seen(started=started.strip(), has_ended="Z" in state) if state else None
