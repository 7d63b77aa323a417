"""Follows a topic with one assigned consumer, which is polled for whatever has arrived.

Positions count markers, aborted and compacted records as read: they move with every message, and to
the end of the partition when the broker says that there is no more for now. The consumer never
joins a group. A record shows up some milliseconds after its acknowledgement; if many are waiting,
they arrive thousands at a time. So each message is touched once, in loops that run in C.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message

from seamline.connectors.kafka.cluster import (
    FOLLOW_WAIT_MS,
    PATIENT_WAIT_MS,
    Cluster,
    LostConsumerError,
    batch_too_large,
    is_undecompressed,
    named_error,
    passes,
)
from seamline.connectors.kafka.messages import Arrivals, raw_batch
from seamline.connectors.kafka.positions import assign
from seamline.connectors.protocols.hot_logs import Polled
from seamline.connectors.protocols.raw_records import RawBatch

MESSAGES_MAX = 10_000
"""The most that one poll returns: a large batch decodes faster, a small one is shared sooner."""

NOTHING = Polled((), {})


class KafkaSubscription:
    """See `Subscription`.

    Args:
        cluster: The cluster.
        topic: Name of the topic.
        starts: The first offset to read of each partition.
        epochs: Leader epochs below the starts, where known.
        isolation: The isolation to read with.
        patient: See `FollowableLog.follow`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        starts: Mapping[int, int],
        epochs: Mapping[int, int],
        isolation: str,
        *,
        patient: bool,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._isolation = isolation
        self._wait_ms = PATIENT_WAIT_MS if patient else FOLLOW_WAIT_MS
        self._arrived = Arrivals()
        self._positions = dict(starts)
        self._epochs = dict(epochs)
        self._start(by_batch=False)

    def _start(self, *, by_batch: bool) -> None:
        self._by_batch = by_batch
        with contextlib.ExitStack() as started:
            self._consumer = started.enter_context(
                self._cluster.consumer(self._isolation, wait_ms=self._wait_ms, by_batch=by_batch)
            )
            assign(self._consumer, self._topic, self._positions, self._epochs)
            self._held = started.pop_all()

    def poll(self, wait_s: float) -> Polled:
        """See `Subscription.poll`."""
        try:
            if not self._arrived and self._arrived.are_large and not self._by_batch:
                self._held.close()
                self._start(by_batch=True)
            arrived = self._arrived.take() if self._arrived else self._consume(wait_s)
            polled = polled_of(arrived, self._end_of)
        except BaseException as error:
            # pass the error on, so that the client is closed and does not go back to the pool
            self._held.__exit__(type(error), error, error.__traceback__)
            if isinstance(error, KafkaException):
                raise named_error(error, topic=self._topic) from error
            raise
        self._positions.update(polled.positions)
        self._epochs.update(polled.epochs)
        return polled

    def _consume(self, wait_s: float) -> list[Message]:
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        count = min(MESSAGES_MAX, self._arrived.count_max(by_batch=self._by_batch)) - 1
        more = self._consumer.consume(count, 0) if count else []
        return self._arrived.add([first, *more])

    def close(self, *, lost: bool = False) -> None:
        """See `Subscription.close`."""
        if lost:
            self._held.__exit__(LostConsumerError, LostConsumerError(), None)
        else:
            self._held.close()

    def _end_of(self, event: Message) -> tuple[int, int] | None:
        """Returns partition and end if the event says that the end was reached, else None.

        Raises:
            SeamlineError: for an error that is not transient.
        """
        error = event.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
            return event.partition(), event.offset()
        if is_undecompressed(error) and not self._by_batch:
            self._arrived.are_large = True
            return None
        if is_undecompressed(error):
            raise batch_too_large(self._topic, event, self._cluster.batch_bytes_max)
        if passes(error):
            return None
        where = f"partition {event.partition()} of topic {self._topic} at {event.offset()}"
        raise named_error(error, where)


def polled_of(
    messages: Sequence[Message], end_of: Callable[[Message], tuple[int, int] | None]
) -> Polled:
    """Returns what messages of one topic amount to.

    Args:
        messages: The messages, those of each partition in order, and events.
        end_of: Returns partition and end for an event that says that the end was reached.
    """
    if not messages:
        return NOTHING
    ends: dict[int, int] = {}
    if any(map(Message.error, messages)):
        events = [m for m in messages if m.error() is not None]
        messages = [m for m in messages if m.error() is None]
        ends = dict(filter(None, map(end_of, events)))
    runs = _by_partition(messages)
    positions = {partition: run[-1].offset() + 1 for partition, run in runs.items()}
    epochs = {partition: run[-1].leader_epoch() for partition, run in runs.items()}
    for partition, end in ends.items():
        positions[partition] = max(positions.get(partition, 0), end)
    return Polled(
        tuple(_batch(partition, run) for partition, run in runs.items()),
        positions,
        {partition: epoch for partition, epoch in epochs.items() if epoch is not None},
    )


def _by_partition(messages: Sequence[Message]) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {}
    for partition, run in itertools.groupby(messages, Message.partition):
        found.setdefault(partition, []).extend(run)
    return found


def _batch(partition: int, messages: Sequence[Message]) -> RawBatch:
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), len(messages))
    return raw_batch(partitions, list(map(Message.offset, messages)), messages)
