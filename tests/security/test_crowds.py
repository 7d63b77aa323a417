"""Goal: however many connect without asking, whoever asks is answered.

Method: a gateway as a process that may open few files, as processes usually may; over a thousand
connections of a kind are held open, by somebody who has no token.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import resource
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest
import urllib3
from support.served import Served, serving

import seamline
from seamline.gateway.http import unauthenticated_connections
from seamline.gateway.http.unauthenticated_connections import UnauthenticatedConnections

TOKEN = "open sesame"
MORE = f"""
tail: {{follow: false}}
auth: {{tokens: [{{name: ada, sha256: {hashlib.sha256(TOKEN.encode()).hexdigest()}}}]}}
"""
CROWD = 1100
"""More than a gateway serves at once."""
HEAD = b"POST /api/v1/statements HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
KINDS = {
    "says nothing": b"",
    "begins a request": HEAD,
    "begins a body": HEAD + b"\r\n{",
    "asked once": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "was refused once": b"GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "takes no answer": b"GET /console.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30,
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with serving(tmp_path_factory.mktemp("crowds"), MORE) as found:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            yield found
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.prove
@pytest.mark.one_in(prove=6)
@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_that_does_not_ask_keeps_nobody_out(served: Served, kind: str) -> None:
    url = served.url
    address = "127.0.0.1", int(url.rpartition(":")[2])
    with contextlib.ExitStack() as crowd:
        for number in range(CROWD):
            one = crowd.enter_context(socket.create_connection(address, 30))
            with contextlib.suppress(OSError):
                one.sendall(KINDS[kind])
            if number % 100 == 0:
                answer(url)
        for _ in range(20):
            answer(url)
    answer(url)
    if kind == "says nothing":  # the first of all kinds: threads that were made stay
        assert threads(served.pid) < CROWD // 10


def threads(pid: int) -> int:
    """The number of threads of a process and its children."""
    process = psutil.Process(pid)
    return sum(one.num_threads() for one in (process, *process.children(recursive=True)))


def answer(url: str) -> None:
    """Asks as a probe does, and as a client does, each over a new connection."""
    assert urllib3.request("GET", f"{url}/healthz", timeout=10, retries=False).status == 200
    with seamline.connect(url, access_token=TOKEN) as connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.prove
def test_a_gateway_that_ends_does_not_wait_for_who_says_nothing(tmp_path: pathlib.Path) -> None:
    with serving(tmp_path, MORE) as served:
        address = "127.0.0.1", int(served.url.rpartition(":")[2])
        with socket.create_connection(address, 10) as silent:
            answer(served.url)  # so the other one has been accepted, too
            os.kill(served.pid, signal.SIGTERM)
            assert silent.recv(1) == b""


class _Connection:
    def __init__(self) -> None:
        self.sock, self.other = socket.socketpair()

    def is_ended(self) -> bool:
        self.other.setblocking(False)
        try:
            return self.other.recv(1) == b""
        except BlockingIOError:
            return False


def test_a_stranger_that_takes_too_long_is_ended() -> None:
    now = 0.0
    coming = UnauthenticatedConnections(lambda: now)
    slow, quick, late = _Connection(), _Connection(), _Connection()
    coming.add(slow)
    coming.add(quick)
    now = unauthenticated_connections.SECONDS_MAX - 1
    coming.add(late)
    coming.remove(quick)
    coming.end_late()
    assert not slow.is_ended()
    now = unauthenticated_connections.SECONDS_MAX
    coming.end_late()
    assert slow.is_ended()
    assert not quick.is_ended()
    assert not late.is_ended()
    assert coming.since() == unauthenticated_connections.SECONDS_MAX - 1
    coming.end_first()
    assert late.is_ended()
    assert coming.since() is None
    for one in (slow, quick, late):
        one.sock.close()
        one.other.close()
