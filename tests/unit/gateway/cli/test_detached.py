"""Goal: a gateway that says where it answers does; one that is detached is found and stopped.

Method: real commands on loopback, over a catalog in a file and a cluster that is away. The first
thing asked after the greeting must be answered; what cannot start says why, and leaves no process.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
from collections.abc import Iterator

import psutil
import pytest
import urllib3
from support import offline, programs
from support.waiting import wait_until

import seamline

STATE = "state_directory: {}/state\n"


@pytest.fixture
def file(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A configuration; no process that works in its folder is left."""
    yield offline.write(tmp_path, STATE.format(tmp_path))
    own = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in _command(p)]
    _, left = psutil.wait_procs(own, timeout=60)
    for process in left:
        process.kill()
    assert left == []


def _command(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or ())


def serve(file: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    return programs.run(programs.seamline("serve", "--config", str(file), *options), os.environ)


def address(text: str) -> str:
    found = re.search(r"Seamline gateway on (http://\S+) ", text)
    assert found is not None, text
    return found[1]


@pytest.mark.prove
def test_serve_says_where_it_answers_when_it_does(file: pathlib.Path) -> None:
    log = file.parent / "log"
    command = programs.seamline("serve", "--config", str(file), "--port", "0")
    with programs.running(command, os.environ, log) as process:
        wait_until(lambda: "\n" in log.read_text(), 120, "the greeting")
        pool = urllib3.PoolManager(retries=False, timeout=30)
        assert pool.request("GET", address(log.read_text()) + "/readyz").status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.prove
def test_a_detached_gateway_answers_and_is_stopped(file: pathlib.Path) -> None:
    done = serve(file, "--detach", "--port", "0")
    try:
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "`seamline serve --stop` stops it" in done.stderr
        with seamline.connect(address(done.stderr)) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
        another = serve(file, "--detach", "--port", "0")
        assert another.returncode == 1
        assert another.stderr.startswith("error: STATE_DIRECTORY_TAKEN: ")
    finally:
        stopped = serve(file, "--stop")
    assert (stopped.returncode, stopped.stderr) == (0, "stopped\n")
    with pytest.raises(seamline.OperationalError):
        seamline.connect(address(done.stderr)).execute("SELECT 1")
    again = serve(file, "--stop")
    assert (again.returncode, again.stderr) == (0, "nothing is running\n")


@pytest.mark.prove
def test_a_detached_gateway_that_was_killed_is_nothing_to_stop(
    file: pathlib.Path,
) -> None:
    assert serve(file, "--detach", "--port", "0").returncode == 0
    known = json.loads((file.parent / "state" / "gateway.json").read_text())
    process = psutil.Process(known["pid"])
    family = [process, *process.children(recursive=True)]
    for one in family:
        one.kill()
    wait_until(lambda: not any(map(programs.lives, family)), what="the gateway to be gone")
    assert serve(file, "--stop").stderr == "nothing is running\n"


@pytest.mark.one_in(prove=4)
@pytest.mark.prove
@pytest.mark.parametrize("ended_by", ["KILL", "TERM", "HUP", "INT"])
def test_a_gateway_whose_starter_was_ended_is_stopped_or_found(
    file: pathlib.Path, ended_by: str
) -> None:
    known = file.parent / "state" / "gateway.json"
    command = programs.seamline("serve", "--config", str(file), "--detach", "--port", "0")
    with programs.running(command, os.environ, file.parent / "log") as starter:
        wait_until(lambda: known.exists() or starter.poll() is not None, 120, "the gateway's id")
        assert starter.poll() is None, (file.parent / "log").read_text()
        gateway = psutil.Process(json.loads(known.read_text())["pid"])
        starter.send_signal(getattr(signal, f"SIG{ended_by}"))
        starter.wait(60)
        stopped = serve(file, "--stop")
    assert stopped.returncode == 0
    if ended_by == "KILL":
        assert stopped.stderr == "stopped\n"
    wait_until(lambda: not programs.lives(gateway), 60, "the gateway to be gone")
    assert serve(file, "--stop").stderr == "nothing is running\n"


@pytest.mark.parametrize("obstacle", ["port", "state"])
def test_what_keeps_it_from_starting_is_said_to_who_started_it(
    file: pathlib.Path, obstacle: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options, code = {
            "port": (("--port", str(taken.getsockname()[1])), "PORT_TAKEN"),
            "state": (("--set", "state_directory=/dev/null/x"), "INVALID_CONFIG"),
        }[obstacle]
        done = serve(file, "--detach", *options)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {code}: "), done.stderr
    assert "Traceback" not in done.stderr
    assert ("`seamline serve --stop`" in done.stderr) == (obstacle == "port")


def test_stop_and_detach_are_one_or_the_other(file: pathlib.Path) -> None:
    assert serve(file, "--detach", "--stop").returncode == 2
