"""Creates topics and produces records on the embedded stack, as your own producer would."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from seamline.connectors.kafka.cluster import named_error
from seamline.errors import INVALID_ARGUMENT, KAFKA_UNAVAILABLE, SeamlineError

_WAIT_S = 30.0
_LOOK_EVERY_S = 0.05


def make_topic(bootstrap_servers: str, name: str, partitions: int) -> bool:
    """Creates a topic, and returns when the broker lists it.

    Returns:
        Whether it was created; False if it already existed.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, also for an invalid name.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    (future,) = admin.create_topics([NewTopic(name, partitions)]).values()
    try:
        future.result(_WAIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise named_error(error, topic=name) from error
        return False
    until = time.monotonic() + _WAIT_S
    while not _is_known(admin, name, partitions) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    return True


def _is_known(admin: AdminClient, name: str, partitions: int) -> bool:
    """Returns whether the broker lists a topic; it may learn of one after acknowledging it."""
    try:
        topic = admin.list_topics(name, _WAIT_S).topics[name]
    except KafkaException as error:
        raise named_error(error, topic=name) from error
    return topic.error is None and len(topic.partitions) == partitions


def produce_lines(
    bootstrap_servers: str, topic: str, lines: Iterable[bytes], key: str | None
) -> int:
    """Produces each line of JSON as a record, and returns when all are acknowledged.

    Keys are spread over partitions as Java's producers do.

    Args:
        bootstrap_servers: The broker.
        topic: The topic.
        lines: The records; empty lines are skipped.
        key: Name of the member that the record key repeats.

    Returns:
        The number of records.

    Raises:
        SeamlineError: INVALID_ARGUMENT for a line that is not JSON or lacks that member; the lines
            before it are produced. KAFKA_UNAVAILABLE.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    count = 0
    try:
        for number, line in enumerate(lines, start=1):
            value = line.strip()
            if not value:
                continue
            key_bytes = _key(value, key, number)
            while True:
                try:
                    producer.produce(topic, value, key_bytes, on_delivery=note)
                    break
                except BufferError:
                    producer.poll(_LOOK_EVERY_S)
            producer.poll(0)
            count += 1
    finally:
        left = producer.flush(_WAIT_S)
    if failures:
        raise named_error(failures[0], topic=topic)
    if left:
        raise SeamlineError(
            KAFKA_UNAVAILABLE, f"topic {topic}: {left} records were not acknowledged"
        )
    return count


def _key(value: bytes, name: str | None, number: int) -> bytes | None:
    try:
        record: Any = json.loads(value)
    except ValueError as error:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"line {number} is not JSON: {error}",
            hint="Write one object per line.",
        ) from error
    if name is None:
        return None
    if not isinstance(record, dict) or record.get(name) is None:
        raise SeamlineError(
            INVALID_ARGUMENT, f"line {number} has no {name!r}", hint="Correct it, or --key."
        )
    key = record[name]
    return (key if isinstance(key, str) else json.dumps(key)).encode()
