"""Goal: ports are free when they are chosen, stay the same when they can, and a taken one is named.

Method: real sockets on loopback.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from seamline.errors import PORT_TAKEN, SeamlineError
from seamline.gateway.dev.local.ports import Ports, choose, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that a server listens on, on all addresses."""
    with socket.socket() as server:
        server.bind(("", 0))
        server.listen()
        yield server.getsockname()[1]


def test_chosen_ports_are_free_and_differ() -> None:
    chosen = choose(None, None)
    assert chosen.kafka != chosen.controller
    assert is_free(chosen.kafka)
    assert is_free(chosen.controller)
    assert chosen.bootstrap_servers == f"127.0.0.1:{chosen.kafka}"


def test_ports_of_the_last_time_come_first() -> None:
    last = choose(None, Ports(19500, 19501))
    assert choose(None, last) == last


def test_port_asked_for_wins() -> None:
    last = choose(None, None)
    assert choose(last.controller, last).kafka == last.controller
    assert choose(last.controller, last).controller != last.controller


def test_taken_port_of_the_last_time_is_replaced(taken: int) -> None:
    chosen = choose(None, Ports(taken, taken))
    assert taken not in (chosen.kafka, chosen.controller)


def test_taken_port_asked_for_is_named(taken: int) -> None:
    assert not is_free(taken)
    with pytest.raises(SeamlineError, match=f"port {taken} is taken") as caught:
        choose(taken, None)
    assert caught.value.code is PORT_TAKEN
    assert "--kafka-port" in caught.value.hint


def test_bound_port_is_taken_although_nobody_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert not is_free(server.getsockname()[1])


def test_whoever_lost_a_port_looks_for_others_than_everybody_else() -> None:
    assert len({choose(None, None, in_order=False) for _ in range(8)}) > 1
