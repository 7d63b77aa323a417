"""Messages that arrive are handed on, all of them and in order, whatever their sizes are."""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import Message

from seamline.connectors.kafka.messages import PIECE_BYTES, Arrivals

SIZES = {"no value": None, "an empty value": 0, "a small one": 10, "a large one": PIECE_BYTES}


@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("kinds", list(itertools.product(SIZES, repeat=3)))
def test_all_messages_are_handed_on(kinds: tuple[str, ...], key: bytes | None) -> None:
    values = [None if (size := SIZES[kind]) is None else bytes(size) for kind in kinds]
    messages = [Message(topic="t", offset=n, key=key, value=v) for n, v in enumerate(values)]
    arrivals = Arrivals()
    pieces = [arrivals.add(messages)]
    while arrivals:
        pieces.append(arrivals.take())
    assert list(itertools.chain(*pieces)) == messages
    assert all(len(piece) == 1 or sum(map(len, piece)) <= PIECE_BYTES for piece in pieces)
    assert arrivals.count_max(by_batch=True) >= 1


def test_none_may_have_arrived() -> None:
    assert Arrivals().add([]) == []
