"""Goal: what goes wrong around a command is reported in one line, whichever command it is.

Method: real processes over a configuration that needs no broker, one thing wrong with each: ports,
addresses, files, disks, Java, and Ctrl-C while Spark starts. A script where JAVA_HOME points does
what Java would do.
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess

import psutil
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from support import offline, programs
from support.waiting import wait_until

NO_ROOM = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]
"""Runs a command that can make files and write nothing into them."""
STARTING = """#!/bin/sh
case "$*" in
  *-version*) echo 'openjdk version "17.0.1" 2021-10-19' >&2;;
  *org.apache.spark.launcher.Main*) printf '\\0\\n%s\\0' "$0" starting;;
  *) exec sleep 600;;
esac
"""
"""A Java that is asked for Spark and never gets there."""
OLD = """#!/bin/sh
echo 'openjdk version "11.0.2" 2019-01-15' >&2
"""


def java(folder: pathlib.Path, script: str) -> dict[str, str]:
    """Variables that make a script the Java."""
    path = folder / "java" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(script)
    path.chmod(0o755)
    return {**os.environ, "JAVA_HOME": str(folder / "java")}


def with_table(folder: pathlib.Path) -> pathlib.Path:
    """A configuration whose catalog has the table `plain`."""
    file = offline.write(folder)
    address = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    catalog = SqlCatalog("lake", **address)
    catalog.create_namespace("default")
    catalog.create_table("default.plain", Schema())
    catalog.close()
    return file


def failure(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What a command said that failed as it should: no traceback, no more than three lines."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("Usage")]
    assert 1 <= len(said) <= 3, done.stderr
    return done.stderr


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--port", "80000"], 2, "80000 is not in the range 0<=x<=65535"),
        (["--set", "http.port=80000"], 1, "INVALID_CONFIG: http.port '80000'"),
        (["--host", "192.0.2.1"], 1, "INVALID_CONFIG: http.host '192.0.2.1' is not an address"),
        (["--host", "a" * 70], 1, "INVALID_CONFIG: http.host"),
        (["--set", "state_directory="], 1, "INVALID_CONFIG: state_directory"),
        (["--set", "state_directory=/dev/null/x"], 1, "INVALID_CONFIG"),
    ],
)
def test_a_gateway_that_cannot_start_says_why(
    arguments: list[str], code: int, said: str, tmp_path: pathlib.Path
) -> None:
    auth = "auth: {tokens: [{name: ada, sha256: " + "0" * 64 + "}]}"
    file = offline.write(tmp_path, f"http: {{port: 0}}\n{auth}\n")
    command = programs.seamline("serve", "--config", str(file), *arguments)
    assert said in " ".join(failure(programs.run(command, os.environ), code).split())


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize(
    "command",
    [
        "table describe plein",
        "table alter Plein --on-error skip",
        "table maintain plein",
        "tier plein",
    ],
)
def test_a_table_is_looked_up_as_statements_look_it_up(
    tmp_path: pathlib.Path, command: str
) -> None:
    config = ["--config", str(with_table(tmp_path))]
    done = programs.run(programs.seamline("table", "describe", "PLAIN", *config), os.environ)
    assert done.returncode == 0, done.stderr
    said = failure(programs.run(programs.seamline(*command.split(), *config), os.environ), 1)
    assert said.startswith("error: TABLE_NOT_FOUND: "), said
    assert "\nhint: Did you mean plain?" in said


@pytest.mark.prove
def test_serving_on_a_full_disk_is_named(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    command = programs.seamline("serve", "--config", str(file), "--port", "0")
    done = programs.run([*NO_ROOM, *command], os.environ)
    assert failure(done, 1).startswith("error: DISK_FULL: ")


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize(
    "command", [["tier", "plain", "--once", "--engine", "spark"], ["table", "maintain", "plain"]]
)
@pytest.mark.prove
def test_a_java_that_is_too_old_is_named(command: list[str], tmp_path: pathlib.Path) -> None:
    file = with_table(tmp_path)
    done = programs.run(programs.seamline(*command, "--config", str(file)), java(tmp_path, OLD))
    assert "error: JAVA_UNSUPPORTED: " in failure(done, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.prove
def test_a_signal_gives_the_start_of_spark_up(
    number: signal.Signals, tmp_path: pathlib.Path
) -> None:
    file = with_table(tmp_path)
    command = programs.seamline("tier", "plain", "--engine", "spark", "--config", str(file))
    log = tmp_path / "log"
    with programs.running(command, java(tmp_path, STARTING), log) as process:
        started = psutil.Process(process.pid)
        (child,) = wait_until(lambda: programs.named(started, "sleep"), 60, "Spark to start")
        process.send_signal(number)
        assert process.wait(60) == 130
        psutil.wait_procs([child], 10)
        assert not programs.lives(child)
    said = log.read_text()
    assert re.fullmatch(r"starting Spark local\[[^]]*\]\n(WARNING.*\n)*canceled\n", said), said
