"""Writes records in one transaction: afterwards, either all of them are read or none."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from seamline.connectors.kafka.clients import login_as_cause, properties_of, require_login
from seamline.connectors.kafka.cluster import Cluster, named_error
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import INVALID_ARGUMENT, SeamlineError

PARTITIONERS = {"murmur2": "murmur2_random", "crc32": "consistent_random"}
"""librdkafka's names for the functions that spread keys over partitions."""
_WAIT_S = 10.0
_POLL_S = 0.05
RECORD_BYTES_MAX = 3 * PART_BYTES_MAX
"""Of a key, a value and headers: the cluster and the topic decide what they take of it."""
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


def write(
    cluster: Cluster,
    topic: str,
    batches: Iterable[list[NewRecord]],
    partitioner: str | None,
    deadline: Deadline,
) -> dict[int, int]:
    """Writes records in one transaction.

    Args:
        cluster: The cluster.
        topic: The topic.
        batches: The records.
        partitioner: `murmur2` or `crc32`; None means `murmur2`.
        deadline: The statement's deadline; nothing is written if it passes before all rows have
            arrived.

    Returns:
        The last offset of each partition that was written to.

    Raises:
        SeamlineError: what the batches raise, INVALID_ARGUMENT for a row too large for a record,
            DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE.
    """
    transaction = _Transaction(cluster, topic, PARTITIONERS[partitioner or "murmur2"], deadline)
    try:
        with login_as_cause(cluster.config):
            transaction.begin()
            for records in batches:
                transaction.add(records)
            transaction.flush()
        return transaction.commit()
    except BaseException:
        transaction.abort()
        raise


class _Transaction:
    def __init__(self, cluster: Cluster, topic: str, partitioner: str, deadline: Deadline) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitioner = partitioner
        self._deadline = deadline
        self._failures: list[KafkaError] = []
        self._last: dict[int, int] = {}
        self._is_open = False

    def begin(self) -> None:
        """Starts the transaction, with a producer that has committed others, if there is one."""
        while not self._is_open:
            idle = self._cluster.idle_producer(self._partitioner)
            self._producer = self._new_producer() if idle is None else idle
            try:
                self._producer.begin_transaction()
                self._is_open = True
            except KafkaException as error:
                if idle is None:
                    raise named_error(error, topic=self._topic) from error

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "message.max.bytes": RECORD_BYTES_MAX,
                **properties_of(self._cluster.config),
                "transactional.id": f"seamline-{uuid.uuid4()}",
                "partitioner": self._partitioner,
                "linger.ms": 5,
            }
        )
        self._insist(producer, lambda: producer.init_transactions(_WAIT_S))
        return producer

    def add(self, records: list[NewRecord]) -> None:
        """Adds records to it."""
        for key, value, headers in records:
            while True:
                try:
                    self._producer.produce(
                        self._topic, value, key, headers=list(headers), on_delivery=self._note
                    )
                    break
                except BufferError:
                    self._deadline.check()
                    self._producer.poll(_POLL_S)
                except KafkaException as error:
                    raise self._named(error.args[0]) from error
            self._producer.poll(0)
        self._deadline.check()
        self._require_delivered()

    def _named(self, error: KafkaError) -> SeamlineError:
        """Returns our error for the failure to add a record."""
        if error.code() not in _TOO_LARGE:
            return named_error(error, topic=self._topic)
        return SeamlineError(
            INVALID_ARGUMENT,
            f"a row is too large for a record of topic {self._topic}: {error.str()}",
            hint="Raise max.message.bytes of the topic, which is 1 MiB if it was never set.",
        )

    def flush(self) -> None:
        """Waits until the cluster has all records."""
        patient_until = time.monotonic() + _WAIT_S
        while self._producer.flush(_POLL_S):
            self._deadline.check()
            self._require_delivered()
            if time.monotonic() > patient_until:
                require_login(self._cluster.config)
        self._require_delivered()

    def commit(self) -> dict[int, int]:
        """Commits it; returns the last offset of each partition."""
        self._is_open = False  # from here on only the cluster knows how it ends
        try:
            with login_as_cause(self._cluster.config):
                self._insist(self._producer, lambda: self._producer.commit_transaction(_WAIT_S))
        except SeamlineError as error:
            raise SeamlineError(
                error.code,
                f"it is not known whether the rows were written: {error.message}",
                hint="Read the table before you write them again.",
            ) from error
        self._cluster.keep_producer(self._partitioner, self._producer)
        return dict(self._last)

    def abort(self) -> None:
        """Discards what was added, unless it is being committed."""
        if self._is_open:
            self._is_open = False
            self._producer.purge()
            try:
                self._producer.abort_transaction(_WAIT_S)
            except KafkaException:
                return  # the cluster aborts it when it times out

    def _insist(self, producer: Producer, work: Callable[[], object]) -> None:
        done = False
        while not done:
            self._deadline.check()
            try:
                work()
                done = True
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise named_error(error, topic=self._topic) from error
                producer.poll(0)  # which calls `error_cb`
                require_login(self._cluster.config)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)
            return
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            self._last[partition] = max(offset, self._last.get(partition, -1))

    def _require_delivered(self) -> None:
        if self._failures:
            raise self._named(self._failures[0])
