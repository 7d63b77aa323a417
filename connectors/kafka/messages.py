"""Turns the client's messages into records: touches each message once, in loops that run in C."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)

from seamline.connectors.kafka.formats.large import without_large
from seamline.connectors.protocols.raw_records import NOT_TEXT, Headers, RawBatch

MESSAGES_MAX = 20_000
"""The most that are asked for at once."""
PIECE_BYTES = 16 << 20
"""The most that is decoded at once, but for a single record that is larger."""

_time_of = itemgetter(1)
_TIME_TYPES = {TIMESTAMP_NOT_AVAILABLE: -1, TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
"""Kafka's own numbers for the client's timestamp types."""


class Arrivals:
    """Messages that have arrived, handed on in pieces so that little is decoded at once.

    Attributes:
        are_large: Whether so many bytes arrived at once that batches should be fetched one by one.
    """

    def __init__(self) -> None:
        self._waiting: collections.deque[Message] = collections.deque()
        self._count_max = 1
        self.are_large = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def count_max(self, by_batch: bool) -> int:
        """Returns how many messages to ask for: after large ones, or before they are seen, few."""
        return self._count_max if by_batch else MESSAGES_MAX

    def add(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the first piece of these messages; `take` returns the others."""
        sizes = list(map(len, messages))
        size = sum(sizes) + sum(map(len, filter(None, map(Message.key, messages))))
        self._count_max = max(1, min(MESSAGES_MAX, PIECE_BYTES // max([1, *sizes])))
        self.are_large = self.are_large or size > PIECE_BYTES
        if size <= PIECE_BYTES:
            return list(messages)
        self._waiting.extend(messages)
        return self.take()

    def take(self) -> list[Message]:
        """Returns the next piece: one message, or several that are small together."""
        piece = [self._waiting.popleft()]
        size = _size(piece[0])
        while self._waiting and size + (more := _size(self._waiting[0])) <= PIECE_BYTES:
            size += more
            piece.append(self._waiting.popleft())
        return piece


def _size(message: Message) -> int:
    return len(message) + len(message.key() or b"")


def raw_batch(partitions: Any, offsets: Sequence[int], messages: Sequence[Message]) -> RawBatch:
    """Returns the records of messages that have no error."""
    times = list(map(Message.timestamp, messages))
    return without_large(
        RawBatch(
            partitions=partitions,
            offsets=offsets,
            timestamps_ms=list(map(_time_of, times)),
            keys=list(map(Message.key, messages)),
            values=list(map(Message.value, messages)),
            headers=_headers(messages),
            timestamp_types=[_TIME_TYPES[kind] for kind, _ in times],
        )
    )


def _headers(messages: Sequence[Message]) -> list[Headers | None]:
    """Returns the headers of each message.

    The client decodes names and raises if one is not UTF-8. The names are then lost, and a second
    call would return an incomplete list. So each message is asked only once, and the messages after
    one that raises are taken from the same iterator.
    """
    found: list[Headers | None] = []
    rest = map(Message.headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(rest)
        except (UnicodeDecodeError, SystemError):
            found.append([(NOT_TEXT, None)])
    return found
