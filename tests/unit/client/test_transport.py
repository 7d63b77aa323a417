"""Goal: what cannot be used is named before it is sent, and no part of an answer passes for all.

Method: invalid texts of every kind; servers that are no gateways; and a network that cuts answers
off at any byte.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest
from support.cutting import cutting
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
def test_what_is_no_address_is_named(address: str) -> None:
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
    hung_up = "the connection was closed without a whole answer"
    assert cause(f"http://127.0.0.1:{hanging_up}") == hung_up


@pytest.mark.parametrize("token", ["a\nb", "“quoted”", "\x00"])
def test_an_access_token_that_no_header_carries_is_named(token: str) -> None:
    with pytest.raises(seamline.ProgrammingError, match="INVALID_ARGUMENT") as caught:
        seamline.connect("http://127.0.0.1:1", access_token=token)
    assert token not in str(caught.value)


MANY = "SELECT a * 1000 + b FROM UNNEST(sequence(0, 299)) x(a), UNNEST(sequence(0, 999)) y(b)"
"""Several chunks."""


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("times", [1, 99])
@pytest.mark.parametrize("after", [*range(0, 400, 40), 1_500, 700_000, 2_000_000])
def test_an_answer_that_breaks_off_is_named_or_fetched_again(
    offline_gateway: Gateway, after: int, times: int, *, is_reset: bool
) -> None:
    """Within the status line, a header, or any part of the rows."""
    with (
        cutting(offline_gateway.url, after, times, is_reset=is_reset) as network,
        seamline.connect(network.url) as connection,
    ):
        try:
            found = connection.execute(MANY).fetchall()
        except seamline.OperationalError as error:
            assert error.code.name == "GATEWAY_UNAVAILABLE"
        else:
            assert sorted(found) == [(number,) for number in range(300_000)]
        assert network.cut


@pytest.mark.parametrize("fetch", ["fetchmany", "fetchmany_arrow"])
def test_after_a_failed_fetch_there_is_no_end_either(offline_gateway: Gateway, fetch: str) -> None:
    with (
        cutting(offline_gateway.url, 0, times=0) as network,
        seamline.connect(network.url) as connection,
    ):
        cursor = connection.execute(f"SELECT n, rpad('x', 400, 'y') FROM ({MANY}) t(n)")
        size = len(getattr(cursor, fetch)(1000))
        network.break_down()
        while True:
            try:
                size += len(found := getattr(cursor, fetch)(1000))
            except seamline.OperationalError:
                break
            assert len(found)
        assert size < cursor.rowcount == 300_000
        for _ in range(2):
            with pytest.raises(seamline.OperationalError, match="GATEWAY_UNAVAILABLE"):
                getattr(cursor, fetch)(1000)
        network.mend()
        cursor.execute("SELECT 1")
        assert len(getattr(cursor, fetch)(1000)) == 1


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "429 Too Many Requests", "502 No"])
@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"error": "no"}', '{"status": "up"}'])
def test_what_something_in_between_answers_is_named(status: str, body: str) -> None:
    text = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nLocation: /\r\n\r\n{body}"

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(text.encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            assert cause(f"http://127.0.0.1:{server.server_address[1]}")
        finally:
            server.shutdown()
