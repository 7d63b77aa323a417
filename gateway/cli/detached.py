"""Starts a gateway that outlives the command, and finds and stops it later.

The command returns when the gateway answers, or fails with the error that kept it from starting.
The gateway itself records in its state directory which process it is, before it listens. So it is
found whatever has become of the command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

from seamline.connectors import supervision
from seamline.connectors.files import make_folder
from seamline.errors import INTERNAL_ERROR, SeamlineError
from seamline.gateway import process
from seamline.gateway.app.server import named_state_errors
from seamline.gateway.cli import progress
from seamline.gateway.process import ProcessIdentity

Work = Callable[[Callable[[str], None], Callable[[], None]], None]
"""(called with the address, called once the state directory is the work's own)"""
_FILE = "gateway.json"
_LOG = "gateway.log"


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    """A gateway in its own process."""

    address: str
    process: ProcessIdentity
    log: pathlib.Path


def start(work: Work, directory: pathlib.Path) -> Detached | None:
    """Runs the work in a child process with its own process session.

    Args:
        work: What the child does. It calls its second argument when the state directory is its own,
            and then the first, with the address, once the gateway answers.
        directory: The gateway's state directory.

    Returns:
        In the parent, the child; in the child, None when the work has ended.

    Raises:
        SeamlineError: why the work could not start.
    """
    with named_state_errors(directory):
        make_folder(directory)
        sink = os.open(directory / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    source = os.open(os.devnull, os.O_RDONLY)
    reader, tell = os.pipe()
    pid = os.fork()
    if pid:
        for descriptor in (sink, source, tell):
            os.close(descriptor)
        with process.interrupted_by_signals(), progress.shown("starting the gateway"):
            return _wait(pid, reader, directory)
    os.close(reader)
    os.setsid()
    for opened, standard in ((source, 0), (sink, 1), (sink, 2)):
        os.dup2(opened, standard)
    try:
        work(lambda address: _tell(tell, {"address": address}), lambda: _record(directory))
    except Exception as error:
        _tell(tell, {"error": supervision.named(error).to_json()})
        raise
    return None


def stop(directory: pathlib.Path, grace_s: float) -> bool:
    """Ends the gateway that `start` recorded in a state directory.

    Returns:
        Whether one was running.
    """
    file = directory / _FILE
    try:
        identity = ProcessIdentity(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return False
    was_running = process.is_running(identity)
    process.stop(identity, grace_s)
    file.unlink(missing_ok=True)
    return was_running


def _wait(pid: int, reader: int, directory: pathlib.Path) -> Detached:
    child = process.identify(pid)
    assert child is not None, "a child that has not been waited for keeps its id"
    try:
        with open(reader, encoding="utf-8") as answers:
            answer = json.loads(answers.readline() or "{}")
        if "address" in answer:
            return Detached(answer["address"], child, directory / _LOG)
    except BaseException:
        process.stop(child, 0)
        raise
    if "error" in answer:
        raise SeamlineError.from_json(answer["error"])
    raise SeamlineError(INTERNAL_ERROR, f"the gateway exited; {directory / _LOG} may say why")


def _record(directory: pathlib.Path) -> None:
    """Records this process as the gateway of a state directory, in one step."""
    own = process.identify(os.getpid())
    assert own is not None
    with named_state_errors(directory):
        new = directory / f"{_FILE}.new"
        new.write_text(json.dumps(dataclasses.asdict(own)), encoding="utf-8")
        new.replace(directory / _FILE)


def _tell(tell: int, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent has its answer and has stopped reading
        os.write(tell, json.dumps(answer).encode() + b"\n")
