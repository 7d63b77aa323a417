"""Goal: a command that has stopped its Spark leaves no Java behind, whatever that Java does.

Method: a session whose Java is another program, one that ends when nobody can write to it any more
and one that does not.
"""

from __future__ import annotations

import subprocess
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
