"""What Spark keeps for statements: few sessions, few Python processes, nothing of the last one.

Goal: statements one after the other cost Spark no more processes and no more memory than one does;
a session that its server forgot is replaced unseen.
Method: statements with kernels, which need Python workers, and the processes below Spark counted.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.jvm.java import find_java
from seamline.connectors.spark.sessions import Sessions
from seamline.errors import SeamlineError

DAEMON = "seamline.connectors.spark.daemon"
SPARK = [pytest.mark.spark, pytest.mark.integration]
WITH_KERNELS = "SELECT soundex(x) FROM (VALUES ('Robert'), ('Rupert')) AS v(x)"


def daemons() -> list[psutil.Process]:
    """The processes below this one that Spark forks its workers from."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            is_worker = parent is not None and DAEMON in parent.cmdline()
            if DAEMON in process.cmdline() and not is_worker:
                found.append(process)
    return found


def views(session: Any) -> list[str]:
    return [row["viewName"] for row in session.sql("SHOW VIEWS").collect()]


@pytest.fixture
def sessions(stack: Stack) -> Iterator[Sessions]:
    with contextlib.closing(Sessions.on_server(lambda: stack.spark_url, 3)) as kept:
        yield kept


class TestSessions:
    """Sessions, and what statements leave in them."""

    pytestmark = SPARK

    @pytest.mark.soak
    def test_statements_share_one(self, gateway: Gateway) -> None:
        for _ in range(4):
            assert gateway.rows(WITH_KERNELS, "spark") == [("R163",), ("R163",)]
        before = {process.pid for process in daemons()}
        assert before
        for _ in range(8):
            assert gateway.rows(WITH_KERNELS, "spark") == [("R163",), ("R163",)]
            with pytest.raises(SeamlineError, match="DIVISION_BY_ZERO"):
                gateway.rows("SELECT 1 / x FROM (VALUES (0)) AS v(x)", "spark")
        assert {process.pid for process in daemons()} <= before

    def test_what_fails_is_not_written_out(
        self, gateway: Gateway, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SeamlineError, match="NUMERIC_OVERFLOW"):
            gateway.rows(
                "SELECT x + 9223372036854775807 FROM (VALUES (CAST(1 AS bigint))) AS v(x)", "spark"
            )
        assert "9223372036854775807" not in capfd.readouterr().err

    def test_nothing_of_the_last_statement_is_left(self, sessions: Sessions) -> None:
        session = sessions.take("first")
        session.view("s0", session.spark.range(3))
        assert views(session.spark) == ["s0"]
        sessions.give_back(session)
        wait_until(lambda: sessions.idle == 1)
        again = sessions.take("second")
        assert again is session
        assert views(again.spark) == []
        assert again.spark.getTags() == {"second"}
        sessions.give_back(again)

    def test_two_at_once_are_two(self, sessions: Sessions) -> None:
        one, other = sessions.take("one"), sessions.take("other")
        assert one.spark.session_id != other.spark.session_id
        sessions.give_back(one)
        sessions.give_back(other)
        wait_until(lambda: sessions.idle == 2)

    def test_one_that_the_server_forgot_is_replaced(self, sessions: Sessions) -> None:
        session = sessions.take("first")
        sessions.give_back(session)
        wait_until(lambda: sessions.idle == 1)
        session.spark.client.release_session()
        again = sessions.take("second")
        assert again is not session
        assert again.spark.range(2).count() == 2
        sessions.give_back(again)

    def test_one_that_was_closed_keeps_none(self, stack: Stack) -> None:
        sessions = Sessions.on_server(lambda: stack.spark_url, 3)
        session = sessions.take("first")
        sessions.close()
        sessions.give_back(session)
        wait_until(lambda: session.spark.client._closed)
        assert sessions.idle == 0


RUN = f"""
import sys
from {DAEMON.rpartition(".")[0]} import daemon
daemon.MODULES = ()
daemon._IDLE_S = 0.3
sys.argv = ["daemon", "pyspark.worker"]
daemon.main()
"""


class TestDaemon:
    """The process that workers are forked from."""

    @pytest.mark.parametrize("end", ["a connection", "closed input"])
    def test_without_workers_it_only_keeps_its_port(self, end: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            (port,) = struct.unpack(">i", process.stdout.read(4))
            address = ("127.0.0.1", port)
            with socket.create_connection(address) as asked:
                (worker,) = struct.unpack(">i", asked.recv(4))
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(2.5)  # longer than it waits without a worker
                assert RUN in psutil.Process(process.pid).cmdline()
                os.kill(worker, signal.SIGKILL)
            wait_until(lambda: RUN not in psutil.Process(process.pid).cmdline(), 30)
            self.told(process, worker)  # Spark may be late in having a worker killed
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(address)
            if end == "closed input":
                process.communicate(timeout=30)
            else:
                with socket.create_connection(address) as asked, pytest.raises(ConnectionError):
                    asked.recv(4)  # on which Spark starts a daemon
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()

    def told(self, process: subprocess.Popen[bytes], worker: int) -> None:
        """Tells the daemon to kill a worker."""
        assert process.stdin is not None
        process.stdin.write(struct.pack(">i", worker))
        process.stdin.flush()


class TestEarlyStart:
    """A Spark that starts with its gateway."""

    pytestmark = SPARK

    def test_it_starts_before_a_statement_needs_it(
        self, stack: Stack, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "java.log"
        java = tmp_path / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f'#!/bin/sh\necho $* >> {log}\nexec {find_java(os.environ).path} "$@"\n')
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
        flags = {"spark.start_early": "true", "state_directory": str(tmp_path)}
        config = stack.configured(flags)
        assert config.spark.remote is None
        with contextlib.closing(Gateway(config)) as early:
            wait_until(lambda: [*tmp_path.rglob("connect.log")], what="Spark to start")
            assert early.rows("SELECT 1", "spark") == [(1,)]
            assert len([*tmp_path.rglob("connect.log")]) == 1
        assert log.read_text().splitlines().count("-version") == 1, "its version is asked for once"
