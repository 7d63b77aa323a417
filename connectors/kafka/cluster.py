"""One Kafka cluster: its clients, and what its errors mean.

Librdkafka's clients are expensive to create and do not survive a fork, so a `Cluster` creates them
on first use, pools its consumers, and must be created after any fork. Consumers never join a group:
they are assigned partitions and offsets, read, and go back to the pool.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from seamline.connectors.config import ClusterConfig
from seamline.connectors.dependencies import Dependency
from seamline.connectors.kafka.clients import login_as_cause, properties_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    DEADLINE_EXCEEDED,
    KAFKA_UNAVAILABLE,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TAIL_TOO_LARGE,
    TOPIC_NOT_FOUND,
    ErrorCode,
    SeamlineError,
)
from seamline.seam.log import READ_COMMITTED

POOL_SIZE_MAX = 16
_PRODUCERS_MAX = 4
_PRODUCER_IDLE_S = 300.0
"""How long an idle producer is kept. Brokers end idle connections after ten minutes."""
_LOOKS_MAX = 10
_LOOK_S = 2.0
_LOOKING_S = 8.0
_QUEUE_KILOBYTES_MAX = 2048
FETCH_BYTES = 16 << 10
"""How much compressed data a broker may return at once. The client decompresses all of an answer
before anybody can look at it, so that this is what a few bytes of a codec can turn into memory."""
_BATCH_ALONE_BYTES = 1000
"""The least that the client can be set to: an answer then is little more than one batch, as a
broker returns a whole batch however large it is."""
BATCH_BYTES_MAX = (1 << 31) - 1
"""The most that the client can be set to decompress one batch into."""
READ_WAIT_MS = 1
FOLLOW_WAIT_MS = 50
PATIENT_WAIT_MS = 500
"""How long the broker may hold a fetch at the end of the log, during which it answers nothing else
on that connection; records that arrive end the wait. A read of existing records leaves such a fetch
behind, because the client fetches ahead; the next user of the pooled consumer would wait for it. A
follower asks again after each wait, and learns only then that a marker is the last thing there. A
patient one also waits for more bytes than come to a quiet topic, as each answer costs a request for
all partitions of the connection."""
SILENT_S = 10.0
"""Seconds after which a consumer is replaced that returns nothing of what the log holds; the next
one has twice as long, as records of aborted transactions take time."""


class LostConsumerError(Exception):
    """Ends the block of `Cluster.consumer`: the consumer is closed, and nothing else happens.

    It may wait for an answer on a connection that is lost, until its broker closes it.
    """


class Cluster:
    """Clients of one cluster. Safe to share between threads.

    Args:
        config: How to reach it.
        batch_bytes_max: The most bytes that a batch compressed with zstd may have. Of the other
            codecs, the client decompresses any batch.

    Attributes:
        config: How to reach it.
        dependency: What requests to it are calls to.
    """

    def __init__(self, config: ClusterConfig, batch_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self.config = config
        self.dependency = Dependency(
            "cluster", config.name, KAFKA_UNAVAILABLE, answers=self._answers
        )
        self.batch_bytes_max = batch_bytes_max
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._other: tuple[AdminClient, AdminClient | None] | None = None
        self._idle: dict[tuple[str, int, bool], list[Consumer]] = {}
        self._producers: dict[str, list[tuple[Producer, float]]] = {}
        self._closed = False

    @property
    def admin(self) -> AdminClient:
        """The admin client, created on first use."""
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient(properties_of(self.config))
            return self._admin

    def _answers(self) -> bool:
        """Whether any broker answers; the one that leads a topic may be away all the same."""
        try:
            self.admin.list_topics(timeout=_LOOK_S)
        except KafkaException:
            return False
        return True

    @contextlib.contextmanager
    def asking(self) -> Iterator[AdminClient]:
        """Yields the admin client for one request, and replaces it if the request fails.

        It is replaced after KAFKA_UNAVAILABLE and DEADLINE_EXCEEDED: such a client may have looked
        for the cluster's leader while there was none, and never looks again.
        """
        admin = self.admin
        try:
            with login_as_cause(self.config):
                try:
                    yield admin
                except SeamlineError:
                    admin.poll(0)  # which calls `error_cb`
                    raise
        except SeamlineError as error:
            if error.code in (KAFKA_UNAVAILABLE, DEADLINE_EXCEEDED):
                with self._lock:
                    if self._admin is admin:
                        self._admin = None
            raise

    def other(self, admin: AdminClient, purpose: str, deadline: Deadline) -> AdminClient | None:
        """Returns an admin client that asks another broker than `admin`; None if there is none.

        A client asks the broker that it was told is the controller. With KRaft that may be any
        broker, a different one each time. If all name the same one, as with ZooKeeper, that one
        decides.

        Args:
            admin: The first client.
            purpose: What the client is for; errors name it.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE.
        """
        known = self._other
        if known is None or known[0] is not admin:
            known = self._other = (admin, self._other_than(admin, purpose, deadline))
        return known[1]

    def _other_than(
        self, admin: AdminClient, purpose: str, deadline: Deadline
    ) -> AdminClient | None:
        first = _brokers(admin, purpose, deadline)
        for _ in range(_LOOKS_MAX if len(first.brokers) > 1 else 0):
            other = AdminClient(properties_of(self.config))
            if _brokers(other, purpose, deadline).controller_id != first.controller_id:
                return other
        return None

    def look_again(self) -> None:
        """Forgets which second broker to ask, since the brokers may have changed."""
        self._other = None

    @contextlib.contextmanager
    def consumer(
        self,
        isolation: str = READ_COMMITTED,
        *,
        wait_ms: int = READ_WAIT_MS,
        by_batch: bool = False,
    ) -> Iterator[Consumer]:
        """Yields a consumer with nothing assigned, then pools it, or closes it after an error.

        `LostConsumerError` is not passed on.

        Args:
            isolation: The isolation it reads with.
            wait_ms: How long it waits at the end of the log before it asks again, in milliseconds.
            by_batch: Whether it fetches batches one by one, up to the largest, because they are
                large once they are decompressed.
        """
        with self._lock:
            idle = self._idle.setdefault((isolation, wait_ms, by_batch), [])
            consumer = idle.pop() if idle else None
        if consumer is None:
            consumer = Consumer(self.consumer_properties(isolation, wait_ms, by_batch=by_batch))
        try:
            with login_as_cause(self.config):
                yield consumer
            consumer.unassign()
        except LostConsumerError:
            consumer.close()
            return
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            if not self._closed and len(idle) < POOL_SIZE_MAX:
                idle.append(consumer)
                return
        consumer.close()

    def idle_producer(self, kind: str) -> Producer | None:
        """Returns a producer that `keep_producer` got lately; None if there is none."""
        with self._lock:
            producers = self._producers.pop(kind, [])
            fresh = [one for one in producers if one[1] > time.monotonic() - _PRODUCER_IDLE_S]
            producer = fresh.pop()[0] if fresh else None
            self._producers[kind] = fresh
        return producer

    def keep_producer(self, kind: str, producer: Producer) -> None:
        """Keeps a producer with nothing left to send or commit for the next one of its kind.

        A new one costs a connection and an id; with a login, also a second that the client sleeps.
        """
        with self._lock:
            idle = self._producers.setdefault(kind, [])
            if not self._closed and len(idle) < _PRODUCERS_MAX:
                idle.append((producer, time.monotonic()))

    def close(self) -> None:
        """Closes idle clients; those in use are closed when they are returned."""
        with self._lock:
            self._closed = True
            idle = [consumer for consumers in self._idle.values() for consumer in consumers]
            self._idle.clear()
            self._producers.clear()
            self._admin = None
            self._other = None
        for consumer in idle:
            consumer.close()

    def consumer_properties(
        self, isolation: str, wait_ms: int, *, by_batch: bool = False
    ) -> dict[str, Any]:
        """Returns the properties of a consumer; see `consumer`."""
        fetch_bytes = _BATCH_ALONE_BYTES if by_batch else FETCH_BYTES
        whole = {"receive.message.max.bytes": self.batch_bytes_max} if by_batch else {}
        return {
            **properties_of(self.config),
            "group.id": "seamline-reader",  # required by the client; never joined
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": wait_ms,
            "fetch.min.bytes": fetch_bytes if wait_ms == PATIENT_WAIT_MS else 1,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": _QUEUE_KILOBYTES_MAX,
            "fetch.message.max.bytes": 1 if by_batch else fetch_bytes,
            "fetch.max.bytes": fetch_bytes,
            "message.max.bytes": fetch_bytes,  # fetch.max.bytes is never less
            **whole,
        }


def _brokers(client: AdminClient, purpose: str, deadline: Deadline) -> ClusterMetadata:
    """Returns the metadata of the brokers; uses short timeouts, so that a statement can end."""
    until = time.monotonic() + _LOOKING_S
    while True:
        deadline.check()
        try:
            return client.list_topics(timeout=max(0.1, min(_LOOK_S, deadline.remaining_s())))
        except KafkaException as error:
            if time.monotonic() > until:
                raise named_error(error, purpose) from error


_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's name for a local error
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}
_OUT_OF_RANGE = {
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
}
_TRUNCATED = {KafkaError._LOG_TRUNCATION}  # noqa: SLF001


_PASSING = {
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
}


def is_undecompressed(error: KafkaError) -> bool:
    """Whether the client could not decompress a batch, because it is too large or damaged."""
    return bool(error.code() == KafkaError._BAD_COMPRESSION)  # noqa: SLF001 - librdkafka's name


def batch_too_large(topic: str, event: Message, bytes_max: int) -> SeamlineError:
    """Returns the error for a batch that the client could not decompress."""
    partition, offset = event.partition(), event.offset()
    return SeamlineError(
        TAIL_TOO_LARGE,
        f"topic {topic}, partition {partition}: the batch at offset {offset} cannot be decompressed"
        f" within {bytes_max:,} bytes",
        hint="Raise tail.memory_bytes, or let Spark read it (engine = 'spark', or tiering).",
        details={"topic": topic, "partition": partition, "offset": offset},
    )


def passes(error: KafkaError) -> bool:
    """Whether a consumer recovers from an error by itself; a deadline must bound the wait."""
    return error.retriable() or (not error.fatal() and error.code() in _PASSING)


def named_error(
    error: KafkaError | KafkaException | Exception, what: str = "", *, topic: str = ""
) -> SeamlineError:
    """Returns our error for one of Kafka's.

    Args:
        error: What the client raised or reported.
        what: What was being done or asked for; by default, the topic.
        topic: The topic, which is the subject of the error.
    """
    if isinstance(error, SeamlineError):
        return error
    what = what or f"topic {topic}"
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if not isinstance(cause, KafkaError):
        return SeamlineError(KAFKA_UNAVAILABLE, f"{what}: {cause}")
    code: ErrorCode = KAFKA_UNAVAILABLE
    if cause.code() in _UNKNOWN_TOPIC:
        code = TOPIC_NOT_FOUND
    elif cause.code() in _OUT_OF_RANGE:
        # a truncated log is reported as an offset out of range; only the text shows it
        code = LOG_TRUNCATED if "truncation" in cause.str() else LOG_TRIMMED
    elif cause.code() in _TRUNCATED:
        code = LOG_TRUNCATED
    return SeamlineError(code, f"{what}: {cause.str()}", subject=topic)
