"""Goal: an address or an access token that cannot be used is named before anything is sent.

Method: invalid texts of every kind; and servers that are no gateways.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest
from support.gateway import Gateway

import seamline

ADDRESSES = (
    "localhost:8474",
    "ftp://localhost",
    "http://",
    "http://localhost:0",
    "http://localhost:80000",
    "http://localhost:port",
    "http://[::1",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_fault_24_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(seamline.ProgrammingError, match="INVALID_ARGUMENT"):
        seamline.connect(address)


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """The port of a server that closes each connection once it is asked something."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        yield server.server_address[1]
        server.shutdown()


def cause(url: str) -> str:
    with (
        seamline.connect(url) as connection,
        pytest.raises(seamline.OperationalError, match="GATEWAY_UNAVAILABLE: ") as caught,
    ):
        connection.execute("SELECT 1")
    return caught.value.message.removeprefix(f"{url}: ")


def test_what_is_no_gateway_is_told_apart(offline_gateway: Gateway, hanging_up: int) -> None:
    tls = offline_gateway.url.replace("http://", "https://")
    assert cause(tls) == "what listens there does not speak TLS"
    assert cause("http://host.invalid") == "its name cannot be resolved"
    hung_up = "the connection was closed without an answer"
    assert cause(f"http://127.0.0.1:{hanging_up}") == hung_up


@pytest.mark.parametrize("token", ["a\nb", "“quoted”", "\x00"])
def test_fault_24_an_access_token_that_no_header_carries_is_named(token: str) -> None:
    with pytest.raises(seamline.ProgrammingError, match="INVALID_ARGUMENT") as caught:
        seamline.connect("http://127.0.0.1:1", access_token=token)
    assert token not in str(caught.value)
