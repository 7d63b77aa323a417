"""Free ports on loopback for the broker.

They are chosen below the range that systems use for outgoing connections, since any client could
take a port from that range while the broker is down.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import socket
from collections.abc import Sequence

from seamline.errors import PORT_TAKEN, SeamlineError

HOST = "127.0.0.1"
FIRST = 19092
"""The port that the broker takes when it is free: examples and pages name it."""
_SEARCHED = range(FIRST, FIRST + 1000)


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """The ports on which a broker listens: for clients, and for its own controller."""

    kafka: int
    controller: int

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address for clients."""
        return f"{HOST}:{self.kafka}"


def choose(preferred: int | None, previous: Ports | None, *, in_order: bool = True) -> Ports:
    """Returns ports that are free now: the requested one, else the previous ones, else new ones.

    Args:
        preferred: The requested port for clients.
        previous: The ports used last time.
        in_order: Whether to take the first free ports, rather than random ones. After losing a port
            to another program, take random ones: several stacks that start at once would all take
            the first one again.

    Raises:
        SeamlineError: PORT_TAKEN when the requested port is not free, or none is.
    """
    if preferred is not None and not is_free(preferred):
        raise SeamlineError(
            PORT_TAKEN,
            f"port {preferred} is taken by another program",
            hint="Stop the program that listens there, pass another --kafka-port, or leave it out.",
        )
    searched = _SEARCHED if in_order else random.sample(_SEARCHED, len(_SEARCHED))
    last = (previous.kafka, previous.controller) if previous else (None, None)
    kafka = preferred or _first_free(last[0], searched, excluded=None)
    return Ports(kafka, _first_free(last[1], searched, excluded=kafka))


def is_free(port: int) -> bool:
    """Returns whether a server could listen on the port, and none does on a wider address."""
    with socket.socket() as client:
        client.settimeout(1.0)
        if client.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java's server does
        try:
            server.bind((HOST, port))
        except OSError:
            return False
    return True


def _first_free(preferred: int | None, searched: Sequence[int], excluded: int | None) -> int:
    first = () if preferred is None else (preferred,)
    for port in itertools.chain(first, searched):
        if port != excluded and is_free(port):
            return port
    raise SeamlineError(
        PORT_TAKEN, f"no port from {_SEARCHED.start} to {_SEARCHED.stop - 1} is free"
    )


def free_port() -> int:
    """Returns a loopback port on which nobody listens at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
