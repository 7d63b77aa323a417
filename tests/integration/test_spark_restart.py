"""Tiering continues after the Spark server it uses was killed and started again.

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
from support.ports import reserved_port
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.settings import environment
from seamline.gateway.app.spark import settings
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.tiering.tables import SparkTables, start_spark


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def spark_server(server: ConnectServer, folder: pathlib.Path) -> Iterator[None]:
    folder.mkdir()
    with (folder / "spark.log").open("ab") as output:
        process = subprocess.Popen(
            server._command(folder),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: listens(server._port), 120)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_a_new_session_follows_a_restart(stack: Stack, scratch: pathlib.Path) -> None:
    file = stack.directory / FILE_NAME
    flags = {"spark.driver_memory": "700m", "state_directory": str(scratch)}
    plain = load(file, environment={}, flags=flags).config
    server = ConnectServer(settings(plain))
    server._port = reserved_port()  # the same at every start, as a cluster's is
    flags["spark.remote"] = server._address
    connections = Connections(load(file, environment={}, flags=flags).config)
    with spark_server(server, scratch / "first"):
        tables = SparkTables(connections, start_spark(connections))
        for _ in range(2):
            with tables._sessions.session() as old:
                assert old.sql("SELECT 1").collect()[0][0] == 1
    with spark_server(server, scratch / "second"):
        with pytest.raises(Exception, match=r"session|Session"):
            old.sql("SELECT 1").collect()
        with tables._sessions.session() as new:
            assert new.sql("SELECT 2").collect()[0][0] == 2
    connections.close()
