"""A network between a client and a gateway that cuts answers off, as a failing one does."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

_PIECE = 16_384
_RESET = struct.pack("ii", 1, 0)


class Cutting:
    """Forwards connections; what has been answered in all is counted, and cut off somewhere.

    Args:
        url: The gateway.
        after: How many bytes of answers arrive before the cut.
        times: How many connections are cut, each by its next piece of an answer.
        is_reset: Whether a cut connection is reset; otherwise it ends as if that were all.

    Attributes:
        url: Where clients connect.
        cut: How many connections have been cut.
    """

    def __init__(self, url: str, after: int, times: int, *, is_reset: bool) -> None:
        gateway = urlsplit(url)
        self._gateway = (gateway.hostname, gateway.port)
        self._left = after
        self._times = times
        self._is_reset = is_reset
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = 0
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def break_down(self) -> None:
        """Cuts every connection from now on."""
        with self._lock:
            self._left, self._times = 0, sys.maxsize

    def mend(self) -> None:
        """Cuts no further connection."""
        with self._lock:
            self._times = self.cut

    def close(self) -> None:
        """Ends every connection."""
        _end(self._listener)
        self._threads[0].join()
        self._listener.close()
        for each in self._sockets:
            _end(each)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(self._gateway)
                self._sockets += [client, gateway]
                self._begin(self._ask, client, gateway)
                self._begin(self._answer, client, gateway)

    def _begin(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ask(self, client: socket.socket, gateway: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(_PIECE):
                gateway.sendall(piece)
        _end(gateway)

    def _answer(self, client: socket.socket, gateway: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := gateway.recv(_PIECE):
                passed = self._passed(piece)
                client.sendall(passed)
                if len(passed) < len(piece):
                    if self._is_reset:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        client.shutdown(socket.SHUT_RD)
                    break
        if self._is_reset:
            client.close()
        _end(client)
        _end(gateway)

    def _passed(self, piece: bytes) -> bytes:
        """What of the next piece of an answer arrives."""
        with self._lock:
            passed = piece[: self._left]
            self._left -= len(passed)
            if len(passed) == len(piece) or self.cut == self._times:
                return piece
            self.cut += 1
            return passed


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cutting(url: str, after: int, times: int = 1, *, is_reset: bool = False) -> Iterator[Cutting]:
    """A network in front of a gateway, until the block ends."""
    network = Cutting(url, after, times, is_reset=is_reset)
    with contextlib.closing(network):
        yield network
