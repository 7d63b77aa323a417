"""Goal: a command's Spark says nothing of its own accord, and leaves no Java behind.

Method: a real Spark in a process of its own. For its end, a session whose Java is another program,
one that ends when nobody can write to it any more and one that does not.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import types

import pytest

from seamline.connectors.spark import submission


@pytest.mark.parametrize(("program", "killed"), [(["cat"], False), (["sleep", "1000"], True)])
def test_the_java_of_a_stopped_session_is_gone(
    program: list[str], killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if killed:
        monkeypatch.setattr(submission, "_STOP_S", 0.1)
    stopped = []
    with subprocess.Popen(program, stdin=subprocess.PIPE) as java:
        context = types.SimpleNamespace(_gateway=types.SimpleNamespace(proc=java))
        session = types.SimpleNamespace(_sc=context, stop=lambda: stopped.append(java.poll()))
        submission.stop(session)
        assert java.returncode == (-9 if killed else 0)
    assert stopped == [None]


def test_a_session_of_spark_connect_has_no_java() -> None:
    stopped = []
    submission.stop(types.SimpleNamespace(stop=lambda: stopped.append(True)))
    assert stopped == [True]


START = """
import pathlib, sys
from seamline.connectors.spark import submission
from seamline.connectors.spark.settings import SparkSettings

settings = SparkSettings(
    master="local[1]",
    driver_memory="512m",
    catalogs=(),
    jars=(),
    conf={"spark.sql.extensions": ""},
    directory=pathlib.Path(sys.argv[1]),
)
session = submission.start_in_process(settings, is_quiet=True)
print(session.range(3).count())
submission.stop(session)
"""
OF_JAVA = ("WARNING: Using incubator modules", "NOTE: Picked up JDK_JAVA_OPTIONS")
"""What Java itself prints about the options it was started with."""


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_a_quiet_spark_prints_nothing(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "3\n"
    assert [line for line in done.stderr.splitlines() if not line.startswith(OF_JAVA)] == []
