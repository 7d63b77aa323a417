"""Starts consumers at positions, and checks that the log below is the one that was read before.

A position with a leader epoch makes the broker report where that epoch ended. librdkafka asks this
after a seek, before it fetches. After an assignment alone it asks only when it happens to learn of
a newer leader, and by then may have delivered records or the end of the log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from seamline.connectors.kafka.cluster import named_error

_STARTING = {
    KafkaError._STATE,  # noqa: SLF001 - librdkafka's names for local errors
    KafkaError._PREV_IN_PROGRESS,  # noqa: SLF001
}
"""Answers to a seek while the client is still ending an earlier fetch of the partition."""
_STARTING_S = 10.0
_RETRY_S = 0.002


def assign(
    consumer: Consumer, topic: str, starts: Mapping[int, int], epochs: Mapping[int, int]
) -> None:
    """Starts reading; delivers nothing of a partition whose log was truncated below its start.

    The truncation shows as an error of the partition when the consumer is polled.

    Args:
        consumer: A consumer with nothing assigned.
        topic: Name of the topic.
        starts: The first offset to read, by partition.
        epochs: Leader epochs of the records below the starts, where known.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE.
    """
    consumer.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
    for partition, epoch in epochs.items():
        if starts.get(partition, 0) > 0:
            check_below(consumer, TopicPartition(topic, partition, starts[partition]), epoch)


def check_below(consumer: Consumer, start: TopicPartition, epoch: int) -> None:
    """Makes an assigned partition start after a check of the log below; see `assign`.

    Args:
        consumer: The consumer, which has not been polled since the partition was assigned.
        start: Where the partition starts.
        epoch: Leader epoch of the record below.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE.
    """
    until = time.monotonic() + _STARTING_S
    position = TopicPartition(start.topic, start.partition, start.offset, leader_epoch=epoch)
    while not _sought(consumer, position, last=time.monotonic() > until):
        time.sleep(_RETRY_S)


def _sought(consumer: Consumer, position: TopicPartition, *, last: bool) -> bool:
    try:
        consumer.seek(position)
    except KafkaException as error:
        if last or error.args[0].code() not in _STARTING:
            where = f"partition {position.partition} of topic {position.topic}"
            raise named_error(error, where) from error
        return False
    return True
