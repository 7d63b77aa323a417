"""Goal: a gateway that is told to end does so without losing what it has accepted.

Method: `seamline serve` as a process of its own, on loopback, over clusters and catalogs that do
not exist: statements without tables need neither. It is ended by signals while statements of a
known kind run, and what clients see until it is gone is compared with what is promised. It must
always end with status 0 and without a word, so that a crash on the way out is seen.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import json
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from support.waiting import wait_until

from seamline.connectors.files import exclusive

_CONFIG = """
catalogs:
  lake: {type: sql, uri: "sqlite:///SCRATCH/catalog.db", warehouse: "file://SCRATCH/warehouse"}
clusters:
  main: {bootstrap_servers: "127.0.0.1:1"}
state_directory: SCRATCH/state
limits: {duckdb_threads: 1, statements_running_max: 2}
"""
_API = "/api/v1/statements"


class Served:
    """A running `seamline serve`."""

    def __init__(
        self, scratch: pathlib.Path, config: str, host: str, settings: tuple[str, ...]
    ) -> None:
        file = scratch / "seamline.yaml"
        file.write_text(config.replace("SCRATCH", str(scratch)))
        self.errors = scratch / "stderr"
        command = [sys.executable, "-m", "seamline.cli", "serve", "--config", str(file)]
        command += ["--host", host, "--port", "0"]
        command += [part for setting in settings for part in ("--set", setting)]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stderr=errors)
        self._host = host
        self._pool = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(30))

    @functools.cached_property
    def _base(self) -> str:
        """Its address, once it has said it: it answers by then."""

        def said() -> str | None:
            found = re.search(r"gateway on (\S+)", self.errors.read_text())
            assert found or self.process.poll() is None, self.errors.read_text()
            return found[1] if found else None

        return wait_until(said, 120, "the gateway to answer") or ""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._host, int(self._base.rpartition(":")[2])

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer; status 0 when nothing listens."""
        try:
            answer = self._pool.request(method, self._base + path, json=body, headers=headers)
        except urllib3.exceptions.HTTPError:
            return 0, None
        return answer.status, json.loads(answer.data) if answer.data[:1] == b"{" else answer.data

    def submit(self, digits: int) -> str:
        """Submits a statement that takes ten times as long for each digit; returns its id."""
        aliases = [f"d{number}" for number in range(digits)]
        tables = ", ".join(f"d {alias}" for alias in aliases)
        total = " + ".join(f"{alias}.x" for alias in aliases)
        sql = f"WITH d(x) AS (VALUES 0,1,2,3,4,5,6,7,8,9) SELECT sum({total}) FROM {tables}"
        status, manifest = self.request("POST", _API, {"statement": sql, "wait_timeout": 0})
        assert status == 200, manifest
        return str(manifest["statement_id"])

    def state(self, statement_id: str, wait_s: int = 1) -> str:
        """State of a statement, once it is final or the time is over."""
        return str(self.request("GET", f"{_API}/{statement_id}?wait={wait_s}")[1]["state"])

    def wait_until_running(self, statement_id: str) -> None:
        """Returns as soon as a statement runs; it may not for long."""
        wait_until(lambda: self.state(statement_id, wait_s=0) == "RUNNING", what="it to run")

    def assert_ended_well(self, seconds_max: float) -> None:
        """It ends within that time, with status 0, having said nothing but its greeting."""
        assert self.process.wait(seconds_max) == 0
        lines = self.errors.read_text().splitlines()
        assert len(lines) == 1, lines


@contextlib.contextmanager
def _serving(
    scratch: pathlib.Path, *settings: str, config: str = _CONFIG, host: str = "127.0.0.1"
) -> Iterator[Served]:
    served = Served(scratch, config, host, settings)
    try:
        assert served.request("GET", "/readyz")[0] == 200
        yield served
    finally:
        served.process.kill()
        served.process.wait()


@pytest.mark.prove
def test_sigterm_lets_a_statement_end_and_be_fetched(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served:
        statement = served.submit(digits=8)
        served.wait_until_running(statement)
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: served.request("GET", "/readyz")[0] == 503, what="draining")
        status, refused = served.request("POST", _API, {"statement": "SELECT 1"})
        assert (status, refused["error"]["code"]) == (503, "SHUTTING_DOWN")
        wait_until(lambda: served.state(statement) == "SUCCEEDED", what="the statement")
        path = f"{_API}/{statement}/chunks/0?format=JSON_ARRAY"
        assert served.request("GET", path)[1]["data"] == [[8 * 4.5 * 10**8]]
        served.assert_ended_well(20)


@pytest.mark.soak
def test_a_result_nobody_comes_for_does_not_hold_it(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served:
        statement = served.submit(digits=1)
        wait_until(lambda: served.state(statement) == "SUCCEEDED", what="the statement")
        served.process.send_signal(signal.SIGTERM)
        served.assert_ended_well(30)  # long before the sixty seconds it may drain, and its grace


@pytest.mark.soak
def test_draining_ends_when_its_time_is_over(scratch: pathlib.Path) -> None:
    with _serving(scratch, "http.drain_seconds_max=1") as served:
        statement = served.submit(digits=18)
        served.wait_until_running(statement)
        served.process.send_signal(signal.SIGTERM)
        served.assert_ended_well(20)


@pytest.mark.prove
def test_sigint_ends_it_at_once(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served:
        statement = served.submit(digits=18)
        served.wait_until_running(statement)
        served.process.send_signal(signal.SIGINT)
        served.assert_ended_well(20)


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_comes_while_connections_are_taken(
    scratch: pathlib.Path, number: signal.Signals
) -> None:
    with _serving(scratch, "http.drain_seconds_max=1") as served:
        gone = threading.Event()
        silent: list[socket.socket] = []  # each takes a thread, which the signal finds starting

        def connect() -> None:
            while not gone.is_set() and len(silent) < 800:
                with contextlib.suppress(OSError):
                    silent.append(socket.create_connection(served.address, 5))

        with contextlib.ExitStack() as closed, concurrent.futures.ThreadPoolExecutor(4) as clients:
            connecting = [clients.submit(connect) for _ in range(4)]
            try:
                wait_until(lambda: len(silent) > 20, what="connections")
                served.process.send_signal(number)
                served.assert_ended_well(15)  # sooner than a worker is killed that does not end
            finally:
                gone.set()
                for connected in connecting:
                    connected.result()
                for connection in silent:
                    closed.enter_context(connection)


@pytest.mark.soak
def test_an_idle_gateway_ends(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served:
        assert served.request("POST", _API, {"statement": "SELECT 1"})[1]["inline"]["data"] == [[1]]
        served.process.send_signal(signal.SIGTERM)
        served.assert_ended_well(20)


def _is_free(lock: pathlib.Path) -> bool:
    with contextlib.suppress(BlockingIOError), exclusive(lock, _raise_taken):
        return True
    return False


def _raise_taken() -> None:
    raise BlockingIOError


@pytest.mark.prove
def test_after_its_main_process_was_killed_its_port_is_soon_free(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served, socket.create_connection(served.address):
        served.wait_until_running(served.submit(digits=9))  # nobody comes for it
        served.process.kill()
        wait_until(lambda: _is_bindable(served.address), 15, "the port to be free")
        wait_until(lambda: _is_free(scratch / "state" / "gateway.lock"), 30, "the worker to end")


def _is_bindable(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a gateway does
        with contextlib.suppress(OSError):
            probe.bind(address)
            return True
    return False


@pytest.mark.prove
def test_a_state_directory_has_one_gateway(scratch: pathlib.Path) -> None:
    state = f"state_directory={scratch / 'state'}"
    for folder in ("second", "third"):
        (scratch / folder).mkdir()
    with _serving(scratch, state) as first:
        second = Served(scratch / "second", _CONFIG, "127.0.0.1", (state,))
        assert second.process.wait(60) == 1
        assert "error: STATE_DIRECTORY_TAKEN: another gateway" in second.errors.read_text()
        assert first.request("POST", _API, {"statement": "SELECT 1"})[0] == 200
        first.process.kill()
        # its worker ends by itself then, and lets the directory go
        wait_until(lambda: _is_free(scratch / "state" / "gateway.lock"), 60, "the worker to end")
    with _serving(scratch / "third", state) as third:
        assert third.request("POST", _API, {"statement": "SELECT 1"})[0] == 200


def test_probes_need_no_access_token(scratch: pathlib.Path) -> None:
    digest = hashlib.sha256(b"open sesame").hexdigest()
    tokens = f"auth: {{tokens: [{{name: ada, sha256: {digest}}}]}}\n"
    with _serving(scratch, config=_CONFIG + tokens) as served:
        assert served.request("GET", "/healthz") == (200, {"status": "ok"})
        assert served.request("GET", "/readyz") == (200, {"status": "ok", "away": []})
        assert served.request("GET", "/metrics")[0] == 401
        allowed = {"Authorization": "Bearer open sesame"}
        assert served.request("GET", "/metrics", **allowed)[0] == 200


@pytest.mark.prove
def test_headers_are_bounded_together(scratch: pathlib.Path) -> None:
    with _serving(scratch) as served:
        one = {"X-One": "x" * 60_000}
        assert served.request("GET", "/healthz", **one)[0] == 200
        with socket.create_connection(served.address, timeout=30) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            with contextlib.suppress(ConnectionError):
                for number in range(90):
                    client.sendall(f"X-{number}: {'x' * 60_000}\r\n".encode())
                client.sendall(b"\r\n")
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = client.recv(100)
        assert not answer or answer.startswith(b"HTTP/1.1 431"), answer
        assert served.request("GET", "/healthz")[0] == 200


@pytest.mark.prove
@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_it_listens_on_ipv6(scratch: pathlib.Path) -> None:
    with _serving(scratch, host="::1") as served:
        assert served.request("GET", "/healthz")[0] == 200


class Clients:
    """Connections that each have sent something, and read nothing."""

    def __init__(self, served: Served, count: int, sent: str) -> None:
        self._sockets = [socket.create_connection(served.address) for _ in range(count)]
        for one in self._sockets:
            one.sendall(sent.replace("\n", "\r\n").encode())

    def have_answers(self) -> bool:
        """Whether any of them was answered or hung up on."""
        return bool(select.select(self._sockets, [], [], 0)[0])

    def close(self) -> None:
        """Hangs up."""
        for one in self._sockets:
            one.close()


def _stuck(served: Served, kind: str) -> Clients:
    """Four times as many clients as are worked on at once, of a kind that takes its time."""
    endless = served.submit(digits=18)
    bodies = {
        "waits for a statement": f"GET {_API}/{endless}?wait=60 HTTP/1.1\nHost: localhost\n\n",
        "waits for a chunk": f"GET {_API}/{endless}/chunks/0?wait=60 HTTP/1.1\nHost: localhost\n\n",
        "sends nothing": "",
        "sends half a head": f"POST {_API} HTTP/1.1\nHost: loc",
        "sends half a body": f"POST {_API} HTTP/1.1\nHost: localhost\nContent-Length: 99\n\n{{",
        "sends half a chunk": (
            f"POST {_API} HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n63\n{{"
        ),
    }
    return Clients(served, 8, bodies[kind])


@pytest.mark.one_in(test=2, prove=3)
@pytest.mark.parametrize(
    "kind",
    [
        "waits for a statement",
        pytest.param("waits for a chunk", marks=pytest.mark.prove),
        pytest.param("sends nothing", marks=pytest.mark.prove),
        "sends half a head",
        pytest.param("sends half a body", marks=pytest.mark.prove),
        pytest.param("sends half a chunk", marks=pytest.mark.prove),
    ],
)
@pytest.mark.prove
def test_clients_that_take_their_time_starve_nobody(scratch: pathlib.Path, kind: str) -> None:
    with _serving(scratch, "http.threads=2") as served:
        clients = _stuck(served, kind)
        for _ in range(8):
            assert served.request("GET", "/healthz")[0] == 200
            assert served.request("GET", "/readyz")[0] == 200
            assert served.request("POST", _API, {"statement": "SELECT 1"})[0] == 200
        assert not clients.have_answers()
        clients.close()


@pytest.mark.soak
def test_clients_that_do_not_read_starve_nobody(scratch: pathlib.Path) -> None:
    with _serving(scratch, "http.threads=2") as served:
        sql = (
            "WITH d(x) AS (VALUES 0,1,2,3,4,5,6,7,8,9) "
            "SELECT rpad('', 10000, CAST(a.x AS varchar)) FROM d a, d b, d c, d d"
        )
        status, manifest = served.request("POST", _API, {"statement": sql})
        assert status == 200, manifest
        statement = str(manifest["statement_id"])
        wait_until(lambda: served.state(statement) == "SUCCEEDED", what="the statement")
        path = f"{_API}/{statement}/chunks/0?format=JSON_ARRAY"
        clients = Clients(served, 8, f"GET {path} HTTP/1.1\nHost: localhost\n\n")
        wait_until(clients.have_answers, what="answers that nobody reads")
        for _ in range(8):
            assert served.request("GET", "/healthz")[0] == 200
            assert served.request("POST", _API, {"statement": "SELECT 1"})[0] == 200
        clients.close()


@pytest.mark.prove
def test_a_body_that_is_too_long_ends_its_connection(tmp_path: pathlib.Path) -> None:
    """The rest of it would be read as the next request, so the answer says that there is none."""
    length = (1 << 20) + (1 << 17)
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (length, b"a" * length)
    bodies = {
        b"Content-Length: %d" % length: b"a" * length,
        b"Transfer-Encoding: chunked": chunk,
        b"Content-Length: 8": b"SELECT 1",
    }
    with _serving(tmp_path) as served:
        for header, body in bodies.items():
            head = b"POST /v1/statement HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n\r\n" % header
            with socket.create_connection(served.address, 30) as client:
                client.sendall(head + body)
                answer = client.recv(1 << 16)
            is_long = len(body) > length - 1
            assert answer.startswith(b"HTTP/1.1 413" if is_long else b"HTTP/1.1 200")
            assert (b"\r\nConnection: close\r\n" in answer) == is_long
