"""Appends records to a topic, in order, each acknowledged by all in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.clients import properties_of
from seamline.connectors.kafka.cluster import named_error
from seamline.connectors.kafka.writing import RECORD_BYTES_MAX
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError

_WAIT_S = 10.0
_POLL_S = 0.05


def idempotent_producer(cluster: ClusterConfig) -> Producer:
    """Returns a new producer for a `TopicAppender`."""
    return Producer(
        {
            "message.max.bytes": RECORD_BYTES_MAX,
            **properties_of(cluster),
            "enable.idempotence": True,
            "message.timeout.ms": int(1000 * _WAIT_S),
        }
    )


class TopicAppender:
    """Appends to one topic; not to be shared between threads, nor is its producer."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._topic = topic
        self._failures: list[KafkaError] = []
        self._producer = producer

    def append(self, values: Sequence[bytes]) -> None:
        """Appends records without keys; see `append_records`."""
        self.append_records([NewRecord(None, value) for value in values])

    def append_records(self, records: Iterable[NewRecord]) -> None:
        """Appends records and waits until they are acknowledged.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE, TOPIC_NOT_FOUND, …; some records may still be there.
        """
        self._failures.clear()
        try:
            for key, value, headers in records:
                self._produce(key, value, list(headers))
                self._producer.poll(0)
        except KafkaException as error:
            self._producer.purge()
            self._producer.flush(_WAIT_S)
            raise named_error(error, topic=self._topic) from error
        if self._producer.flush(2 * _WAIT_S):
            self._producer.purge()
            raise SeamlineError(KAFKA_UNAVAILABLE, f"topic {self._topic}: no acknowledgement")
        if self._failures:
            raise named_error(self._failures[0], topic=self._topic)

    def _produce(self, key: bytes | None, value: bytes | None, headers: list[Any]) -> None:
        is_full = True
        while is_full:
            try:
                self._producer.produce(
                    self._topic, value, key, headers=headers, on_delivery=self._note
                )
                is_full = False
            except BufferError:
                self._producer.poll(_POLL_S)  # each delivery is bounded, so there will be room

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)
