"""Real programs of the project, run in processes of their own against the test's stack."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import psutil

from seamline.connectors.duckdb.processes import MODULE

TESTS = pathlib.Path(__file__).parents[1]
_END_S = 60.0


def seamline(*arguments: str) -> list[str]:
    """The command `seamline …`, in this interpreter."""
    return [sys.executable, "-P", "-m", "seamline.cli", *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """A module of `support`, as a program."""
    return [sys.executable, "-P", "-m", f"support.{name}", *arguments]


def run(
    command: list[str], environment: Mapping[str, str], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    return subprocess.run(
        command,
        env=environment_of(environment),
        capture_output=True,
        text=True,
        check=False,
        **{"stdin": subprocess.DEVNULL, "timeout": 120, **options},
    )


@contextlib.contextmanager
def running(
    command: list[str], environment: Mapping[str, str], log: pathlib.Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A program in a process group of its own; whatever is left of it afterwards is killed."""
    with contextlib.ExitStack() as files:
        sink: Any = subprocess.PIPE
        if log is not None:
            sink = files.enter_context(log.open("w"))
        process = subprocess.Popen(
            command,
            env=environment_of(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a program and all that it started, and waits until they are gone."""
    started: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(started, _END_S)
    process.wait(_END_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def lives(process: psutil.Process) -> bool:
    """Whether a process runs still: neither gone nor a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> str:
    """What a process was started with; nothing once it has ended, even if it ends meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def named(process: psutil.Process, name: str) -> list[psutil.Process]:
    """The descendants of a process of that name; those that end while it looks are left out."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == name:
                found.append(child)
    return found


def serving(pid: int) -> list[psutil.Process]:
    """A gateway's own processes: the one that was started, and its worker that answers.

    Two processes are equal if they have the same id and began at the same time.
    """
    first = psutil.Process(pid)
    return [first, *(child for child in children(first) if not is_forking(child))]


def children(process: psutil.Process) -> list[psutil.Process]:
    """The processes that a process has started; none once it has ended."""
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def is_forking(process: psutil.Process) -> bool:
    """Whether a process forks those that run statements."""
    return MODULE in command_line(process)


def environment_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with which a program finds the modules of the tests."""
    path = os.pathsep.join(filter(None, (str(TESTS), environment.get("PYTHONPATH"))))
    return {**environment, "PYTHONPATH": path}
