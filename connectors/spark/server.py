"""A local Spark Connect server: started when first needed, supervised, gone with its owner.

The server runs under a small keeper process that holds one end of a pipe. When the owner closes
the pipe, or dies however suddenly, the keeper ends the server's whole process group. The server
listens on loopback only, and answers only clients that know its token, which is made here and
handed over in a file that is gone once the server runs.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from seamline.connectors import supervision
from seamline.connectors.files import private_folder
from seamline.connectors.jvm.ivy import pyspark_folder
from seamline.connectors.spark import submission
from seamline.connectors.spark.settings import SparkSettings, environment
from seamline.errors import SPARK_UNAVAILABLE, SeamlineError

START_S_MAX = 120.0
_STOP_S = 10.0
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """One local server. Safe to share between threads."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._token = secrets.token_urlsafe(32)

    def url(self) -> str:
        """The server's address, its token included; starts the server if it is not running.

        Raises:
            SeamlineError: SPARK_UNAVAILABLE when it does not come up.
        """
        with self._lock:
            if self._keeper is None or self._keeper.poll() is not None:
                self._start()
            return self._address

    def close(self) -> None:
        """Ends the server and waits until it is gone."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait(_STOP_S + 5)

    @property
    def log_path(self) -> pathlib.Path:
        """The server's log."""
        return self._settings.scratch / "connect.log"

    @property
    def _address(self) -> str:
        # PySpark sends a token over a plain connection to this name only; see `connect`
        return f"sc://localhost:{self._port}/;token={self._token}"

    def _start(self) -> None:
        scratch = self._settings.scratch
        private_folder(scratch)
        self._port = _free_port()
        with tempfile.TemporaryDirectory(prefix="start-", dir=scratch) as folder:
            with self.log_path.open("ab") as log:
                self._keeper = subprocess.Popen(
                    [sys.executable, "-m", __name__, *self._command(pathlib.Path(folder))],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment(self._settings.withheld),
                    start_new_session=True,
                )
            self._wait_until_it_listens(self._keeper)

    def _wait_until_it_listens(self, keeper: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not _listens(self._port):
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise SeamlineError(
                    SPARK_UNAVAILABLE, f"the local Spark did not start; see {self.log_path}"
                )
            time.sleep(0.1)

    def _command(self, folder: pathlib.Path) -> list[str]:
        """Returns the server's command; what it must not show is in files of the folder."""
        conf = {
            **self._settings.static_conf(),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.connect.authenticate.token": self._token,
        }
        program = str(pyspark_folder() / "bin" / "spark-submit")
        return [program, "--class", _MAIN, *submission.options(conf, folder), "spark-internal"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _keep(command: list[str]) -> int:
    """The keeper: runs the server until it ends or the owner's end of the pipe is closed."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def end_with_owner() -> None:
        with contextlib.suppress(OSError):  # a broken pipe is as good as a closed one
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)

    supervision.start("spark-keeper", end_with_owner)
    return server.wait()


if __name__ == "__main__":
    sys.exit(_keep(sys.argv[1:]))
