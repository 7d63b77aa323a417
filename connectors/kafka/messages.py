"""Turns the client's messages into records: touches each message once, in loops that run in C."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)

from seamline.connectors.protocols import NOT_TEXT, Headers, RawBatch

_time_of = itemgetter(1)
_TIME_TYPES = {TIMESTAMP_NOT_AVAILABLE: -1, TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
"""Kafka's own numbers for the client's timestamp types."""


def raw_batch(partitions: Any, offsets: Sequence[int], messages: Sequence[Message]) -> RawBatch:
    """Returns the records of messages that have no error.

    Args:
        partitions: The partition of each message.
        offsets: The offset of each message.
        messages: The messages.
    """
    times = list(map(Message.timestamp, messages))
    return RawBatch(
        partitions=partitions,
        offsets=offsets,
        timestamps_ms=list(map(_time_of, times)),
        keys=list(map(Message.key, messages)),
        values=list(map(Message.value, messages)),
        headers=_headers(messages),
        timestamp_types=[_TIME_TYPES[kind] for kind, _ in times],
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
