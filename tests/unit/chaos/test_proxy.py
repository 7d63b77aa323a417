"""Goal: the proxy forwards what it is given, and misbehaves in just the way it is told to.

Method: a real echo server behind it, on loopback.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from chaos.proxy import HOST, Mode, Proxy, is_fetch_of
from support.ports import reserved_port
from support.waiting import wait_until

TEXT = b"some words that come back " * 40


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := self.request.recv(65_536):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer((HOST, 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running = Proxy(port := reserved_port(), server.server_address[1])
        running.port = port  # type: ignore[attr-defined]
        yield running
        running.close()
        server.shutdown()


def connected(proxy: Proxy) -> socket.socket:
    client = socket.create_connection((HOST, proxy.port), timeout=10)  # type: ignore[attr-defined]
    client.settimeout(10)
    return client


def echo(client: socket.socket) -> bytes:
    client.sendall(TEXT)
    found = b""
    while len(found) < len(TEXT) and (data := client.recv(65_536)):
        found += data
    return found


def test_it_forwards(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert echo(client) == TEXT
        assert echo(client) == TEXT


@pytest.mark.parametrize(
    "mode", [Mode(swallow_requests=True, swallow_replies=True), Mode(swallow_replies=True)]
)
def test_what_it_swallows_never_comes(proxy: Proxy, mode: Mode) -> None:
    with connected(proxy) as client:
        assert echo(client) == TEXT
        proxy.behave(mode)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            echo(client)
        wait_until(lambda: proxy.hits, what="something to be swallowed")
        proxy.heal()
        client.settimeout(10)
        with pytest.raises(ConnectionError):  # a torn connection does not continue
            echo(client)
    with connected(proxy) as client:
        assert echo(client) == TEXT


def test_a_reply_is_cut_in_the_middle(proxy: Proxy) -> None:
    with connected(proxy) as client:
        proxy.behave(Mode(reset_replies=True))
        try:
            found = echo(client)
        except ConnectionResetError:
            found = b""
        assert len(found) < len(TEXT)
        assert proxy.heal() > 0


@pytest.mark.parametrize("mode", [Mode(delay_s=0.2), Mode(bytes_per_s=4_000)])
def test_a_slow_network_is_slow_and_right(proxy: Proxy, mode: Mode) -> None:
    with connected(proxy) as client:
        proxy.behave(mode)
        started = time.monotonic()
        assert echo(client) == TEXT
        assert time.monotonic() - started > 0.15
        assert proxy.heal() > 0
        assert echo(client) == TEXT


def request(kind: int, body: bytes) -> bytes:
    return struct.pack(">ih", 2 + len(body), kind) + body


def test_fetches_with_a_mark_are_told_from_other_requests() -> None:
    marked, other = request(1, b"...doomed..."), request(1, b"...plain...")
    assert is_fetch_of(marked, [b"doomed"])
    assert is_fetch_of(other + marked, [b"doomed", b"id"])
    assert not is_fetch_of(other, [b"doomed"])
    assert not is_fetch_of(request(3, b"doomed") + other, [b"doomed"]), "metadata is no fetch"
    assert not is_fetch_of(marked, []), "nothing is held"
    assert not is_fetch_of(b"\x00\x00", [b"doomed"])


def test_it_holds_back_what_is_marked(proxy: Proxy) -> None:
    held, free = request(1, b"doomed"), request(1, b"plain")
    proxy.hold(b"doomed")
    with connected(proxy) as one, connected(proxy) as another:
        one.sendall(held)
        wait_until(lambda: proxy.held == 1)
        another.sendall(free)
        assert another.recv(100) == free
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(100)
        proxy.let_go()
        one.settimeout(10)
        assert one.recv(100) == held
        one.sendall(held)
        assert one.recv(100) == held, "it is held no longer"
