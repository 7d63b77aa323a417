"""Appends records to a topic, in order, each acknowledged by all in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from seamline.connectors.kafka.clients import properties_of
from seamline.connectors.kafka.cluster import Cluster, named_error
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError

_WAIT_S = 10.0


class TopicAppender:
    """Appends to one topic; not to be shared between threads."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                **properties_of(cluster.config),
                "enable.idempotence": True,
                "message.timeout.ms": int(1000 * _WAIT_S),
            }
        )

    def append(self, values: Sequence[bytes]) -> None:
        """Appends records without keys and waits until they are acknowledged.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE, TOPIC_NOT_FOUND, …; some records may still be there.
        """
        self._failures.clear()
        try:
            for value in values:
                self._producer.produce(self._topic, value, on_delivery=self._note)
                self._producer.poll(0)
        except (BufferError, KafkaException) as error:
            self._producer.purge()
            self._producer.flush(_WAIT_S)
            raise named_error(error, topic=self._topic) from error
        if self._producer.flush(2 * _WAIT_S):
            self._producer.purge()
            raise SeamlineError(KAFKA_UNAVAILABLE, f"topic {self._topic}: no acknowledgement")
        if self._failures:
            raise named_error(self._failures[0], topic=self._topic)

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)
