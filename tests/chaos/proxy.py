"""A TCP proxy in front of a broker, which can misbehave as networks do.

It is advertised as the broker's listener, so that clients cannot pass it by. A mode applies to
every connection, old and new, until it is withdrawn; connections whose bytes were swallowed are
then reset, since they could never make sense again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import struct
import threading
import time
from collections.abc import Collection

HOST = "127.0.0.1"
_CHUNK = 16_384
_LOOK_S = 0.05
_HEADER = struct.Struct(">ih")
_FETCH = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """How the network behaves.

    Attributes:
        swallow_requests: Bytes to the broker vanish.
        swallow_replies: Bytes from the broker vanish.
        delay_s: Time each piece is held back.
        bytes_per_s: Speed of each connection; 0 for no limit.
        reset_replies: A reply is cut in the middle by a reset.
    """

    swallow_requests: bool = False
    swallow_replies: bool = False
    delay_s: float = 0.0
    bytes_per_s: int = 0
    reset_replies: bool = False


HEALTHY = Mode()


class Proxy:
    """Forwards connections to one port.

    Args:
        port: Where it listens.
        target: Port of the broker.
    """

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._mode = HEALTHY
        self._lock = threading.Lock()
        self._open: set[_Link] = set()
        self._closed = threading.Event()
        self._marks: tuple[bytes, ...] = ()
        self._let_go = threading.Event()
        self._let_go.set()
        self.hits = 0
        self.held = 0
        self._server = socket.create_server((HOST, port), backlog=128)
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def behave(self, mode: Mode) -> None:
        """Changes how all connections behave."""
        with self._lock:
            self._mode = mode
            self.hits = 0

    def heal(self) -> int:
        """Behaves well again; returns how many pieces the last mode touched."""
        with self._lock:
            hits, self._mode = self.hits, HEALTHY
            torn = [link for link in self._open if link.torn]
        for link in torn:
            link.reset()
        return hits

    def hold(self, *marks: bytes) -> None:
        """Holds back every fetch that contains one of the marks, until they are released.

        So a reader is stopped when it knows what to read, and has read nothing of it.
        """
        with self._lock:
            self._marks, self.held = marks, 0
            self._let_go.clear()

    def let_go(self) -> None:
        """Passes on what was held back."""
        with self._lock:
            self._marks, self.held = (), 0
            self._let_go.set()

    def wait_to_pass(self, data: bytes) -> None:
        """Waits while requests are held back that are like these."""
        with self._lock:
            if not is_fetch_of(data, self._marks):
                return
            self.held += 1
        self._let_go.wait()

    def close(self) -> None:
        """Stops forwarding."""
        self._closed.set()
        self._let_go.set()
        self._server.close()
        with self._lock:
            links = list(self._open)
        for link in links:
            link.reset()

    def mode_for(self, link: _Link, *, reply: bool) -> Mode:
        """How one piece is to be treated; counts what is touched."""
        with self._lock:
            mode = self._mode
            if mode is not HEALTHY:
                touched = mode.delay_s or mode.bytes_per_s
                swallows = mode.swallow_replies if reply else mode.swallow_requests
                link.torn |= swallows
                self.hits += bool(touched or swallows or (reply and mode.reset_replies))
            return mode

    def forget(self, link: _Link) -> None:
        """A connection has ended."""
        with self._lock:
            self._open.discard(link)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((HOST, self._target), timeout=5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            link = _Link(self, client, broker)
            with self._lock:
                self._open.add(link)
            link.start()


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self.torn = False
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Begins to forward both ways."""
        ways = ((self._client, self._broker, False), (self._broker, self._client, True))
        for source, target, reply in ways:
            arguments = (source, target, reply)
            threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def reset(self) -> None:
        """Resets it."""
        linger = struct.pack("ii", 1, 0)
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes the reader here, and notifies nobody
            with contextlib.suppress(OSError):
                end.close()
        self._proxy.forget(self)

    def _forward(self, source: socket.socket, target: socket.socket, reply: bool) -> None:
        try:
            while data := source.recv(_CHUNK):
                mode = self._proxy.mode_for(self, reply=reply)
                if mode.swallow_replies if reply else mode.swallow_requests:
                    continue
                if not reply:
                    self._proxy.wait_to_pass(data)
                if reply and mode.reset_replies:
                    target.sendall(data[: len(data) // 2])
                    break
                self._send(target, data, mode)
        except OSError:
            pass  # one end is gone: the other soon is, too
        if not self.torn:  # half open: the other end is not told before the network is well again
            self.reset()

    def _send(self, target: socket.socket, data: bytes, mode: Mode) -> None:
        if mode.delay_s:
            time.sleep(mode.delay_s)
        if not mode.bytes_per_s:
            target.sendall(data)
            return
        piece = max(1, int(mode.bytes_per_s * _LOOK_S))
        for start in range(0, len(data), piece):
            target.sendall(data[start : start + piece])
            if self._proxy.mode_for(self, reply=False) is HEALTHY:
                target.sendall(data[start + piece :])
                return
            time.sleep(_LOOK_S)


def is_fetch_of(data: bytes, marks: Collection[bytes]) -> bool:
    """Whether a piece that begins with a request of Kafka's protocol holds a fetch with a mark.

    Each request begins with its length and the number of its kind.
    """
    at = 0
    while marks and at + _HEADER.size <= len(data):
        length, kind = _HEADER.unpack_from(data, at)
        body = data[at : at + 4 + length]
        if kind == _FETCH and any(mark in body for mark in marks):
            return True
        if length <= 0:
            return False
        at += 4 + length
    return False
