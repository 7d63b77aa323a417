"""Goal: the proxy forwards what it is given, and misbehaves in just the way it is told to.

Method: a real echo server behind it, on loopback.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest
from chaos.proxy import HOST, Mode, Proxy
from chaos.stack import free_ports

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
        (port,) = free_ports(1)
        running = Proxy(port, server.server_address[1])
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
        assert proxy.heal() > 0
        client.settimeout(10)
        with pytest.raises(ConnectionError):  # a torn connection does not go on
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
