"""A server that answers, or fails in one of the ways in which servers fail; it can change its way.

It answers HTTP with what its owner says; whoever speaks another protocol only meets the failures.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self

Answer = Callable[[str, str], tuple[int, bytes]]
"""(method, path) → status and body."""

_RESET = struct.pack("ii", 1, 0)


class Way(enum.Enum):
    """How a server treats its clients."""

    ANSWERS = "answers"
    NEVER_ACCEPTS = "never accepts"
    SILENT = "accepts and is silent"
    DRIPS = "drips"
    RESETS = "resets"
    FAILS = "answers 500"


HANGING = (Way.NEVER_ACCEPTS, Way.SILENT, Way.DRIPS)
FAULTS = tuple(way for way in Way if way is not Way.ANSWERS)


class Door:
    """A port on loopback. A context: it is closed at its end.

    Attributes:
        port: The port.
        came: How many connections it has accepted.

    Args:
        answer: What it answers.
        drip_s: Seconds between two bytes when it drips.
    """

    def __init__(self, answer: Answer, *, drip_s: float = 0.05) -> None:
        self._answer = answer
        self._drip_s = drip_s
        self._way = Way.ANSWERS
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        self._crowd: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_over = False
        self.port: int = self._server.getsockname()[1]
        self.came = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._is_open.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # wakes `accept`
        self._accepting.join()
        self._leave()
        self._server.close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def turn(self, way: Way) -> None:
        """Changes its way; those who are there are sent away."""
        self._way = way
        if way is Way.NEVER_ACCEPTS:
            self._is_open.clear()
        self._leave()
        if way is Way.NEVER_ACCEPTS:
            self._fill_backlog()
        else:
            self._is_open.set()

    def _fill_backlog(self) -> None:
        """Connects until nobody else can: the one that is being accepted, and the queue."""
        for _ in range(8):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self._crowd.append(sock)

    def _leave(self) -> None:
        with self._lock:
            gone, self._clients, self._crowd = [*self._clients, *self._crowd], [], []
        for sock in gone:
            _reset(sock)

    def _accept(self) -> None:
        while not self._is_over:
            self._is_open.wait()
            with contextlib.suppress(OSError):
                client, _ = self._server.accept()
                self.came += 1
                with self._lock:
                    self._clients.append(client)
                if not self._is_open.is_set():
                    continue  # it came while the way changed, and is not served
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            match self._way:
                case Way.RESETS:
                    _reset(client)
                case Way.DRIPS:
                    self._drip(client)
                case Way.ANSWERS | Way.FAILS:
                    self._answer_all(client)

    def _drip(self, client: socket.socket) -> None:
        _request(client)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while self._way is Way.DRIPS:
            client.sendall(b" ")
            time.sleep(self._drip_s)  # the pace of the fault itself

    def _answer_all(self, client: socket.socket) -> None:
        while (asked := _request(client)) is not None:
            method, path = asked
            status, body = (500, b"{}") if self._way is Way.FAILS else self._answer(method, path)
            head = (
                f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n"
                f'ETag: "1"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n'
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            client.sendall(head.encode() + (b"" if method == "HEAD" else body))


def _request(client: socket.socket) -> tuple[str, str] | None:
    """The method and the path of the next request; None if there is none."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = client.recv(65536)
        if not more:
            return None
        text += more
    head, _, body = text.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    lengths = [int(v) for k, _, v in (x.partition(":") for x in lines) if k.lower() == LENGTH]
    while len(body) < sum(lengths):
        body += client.recv(65536)
    method, path, *_ = lines[0].split()
    return method, path


LENGTH = "content-length"


def _reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with contextlib.suppress(OSError):  # closing alone does not wake a thread that reads
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
