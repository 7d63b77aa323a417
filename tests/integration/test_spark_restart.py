"""Tiering goes on after the Spark server it uses was killed and started again.

Goal: a session that died with its server is replaced; the pipeline need not be started again.
Method: a real Spark Connect server on a fixed port, killed and started between two steps.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.settings import environment
from seamline.gateway import config
from seamline.gateway.connections import Connections
from seamline.gateway.spark import settings
from seamline.gateway.tiering import SparkTables, start_spark


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def spark_server(plain: config.Config, port: int, log: pathlib.Path) -> Iterator[None]:
    server = ConnectServer(settings(plain))
    server._port = port  # the same at every start, as a cluster's is
    with log.open("ab") as output:
        process = subprocess.Popen(
            server._command(),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: listens(port), 120)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.integration
@pytest.mark.spark
def test_a_new_session_follows_a_restart(stack: Stack, scratch: pathlib.Path) -> None:
    port = free_port()
    file = stack.directory / config.FILE_NAME
    flags = {"spark.driver_memory": "700m", "state_directory": str(scratch)}
    plain = config.load(file, environment={}, flags=flags).config
    flags["spark.remote"] = f"sc://127.0.0.1:{port}"
    connections = Connections(config.load(file, environment={}, flags=flags).config)
    log = scratch / "spark.log"
    with spark_server(plain, port, log):
        tables = SparkTables(connections, start_spark(connections))
        old = tables._session()
        assert old.sql("SELECT 1").collect()[0][0] == 1
        assert tables._session() is old
    with spark_server(plain, port, log):
        with pytest.raises(Exception, match=r"session|Session"):
            old.sql("SELECT 1").collect()
        assert tables._session().sql("SELECT 2").collect()[0][0] == 2
    connections.close()
