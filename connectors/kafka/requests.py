"""Awaits, checks and retries requests that a cluster answers per partition.

While a partition has no leader yet, including right after the topic was created or the broker
started, an answer may be a transient error, or neither an error nor an offset. Both are retried; an
invalid offset never becomes the end of a log.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from seamline.connectors.kafka.cluster import named_error
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SeamlineError
from seamline.seam.offsets import Offsets

Answers: TypeAlias = Mapping[TopicPartition, Any]
NO_SUCH_TIME = -1
"""The offset that is returned for a moment after the last record."""

_POLL_S = 0.02
_REQUEST_S_MAX = 10.0
_RETRY_S = 0.05
_Answer = TypeVar("_Answer")

_LEADER_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError._NOENT,  # noqa: SLF001 - librdkafka's name for: no partition has a leader
}
"""Answers while a partition has no leader yet, including right after the topic was created."""


def offsets_of(answers: Answers, topic: str) -> Offsets:
    """Returns the offsets of one topic."""
    return Offsets({p.partition: int(a.offset) for p, a in answers.items() if p.topic == topic})


def epochs_of(answers: Answers, topic: str) -> Offsets:
    """Returns the leader epochs of one topic, where known."""
    known = {p.partition: a.leader_epoch for p, a in answers.items() if p.topic == topic}
    return Offsets({p: epoch for p, epoch in known.items() if epoch is not None and epoch >= 0})


def seconds(deadline: Deadline) -> float:
    """Returns the seconds for one request: what the deadline leaves, within limits."""
    deadline.check()
    return max(0.1, min(_REQUEST_S_MAX, deadline.remaining_s()))


def list_offsets(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    isolation: IsolationLevel,
    deadline: Deadline,
) -> concurrent.futures.Future[Answers]:
    """Requests offsets of partitions; returns one future for all of them.

    The client's own method makes a future, so a lock and a wait, for each partition, which costs
    many times as much as the request.

    Args:
        admin: The client.
        partitions: The partitions; instead of an offset, each has a time in milliseconds,
            `OFFSET_BEGINNING` or `OFFSET_END`.
        isolation: Which records count.
        deadline: Bounds the time.
    """
    future: concurrent.futures.Future[Answers] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    super(AdminClient, admin).list_offsets(
        list(partitions),
        future,
        isolation_level_value=isolation.value,
        request_timeout=seconds(deadline),
    )
    return future


def results(
    future: concurrent.futures.Future[Answers], deadline: Deadline, *, least: int = 0
) -> Answers:
    """Returns the answers for all partitions.

    Args:
        future: The request.
        deadline: Bounds the wait.
        least: The least offset that counts as an answer; `NO_SUCH_TIME` to accept that one.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, also for an answer without an offset.
    """
    answers: Answers = result(future, deadline, "offsets")
    for pair, answer in answers.items():
        if isinstance(answer, KafkaError):
            failure = KafkaException(answer)
            raise named_error(failure, topic=pair.topic) from failure
        if answer.offset < least:
            # librdkafka reports no error here; taken as an end, this would hide the whole tail
            unknown = KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            where = f"partition {pair.partition} of topic {pair.topic}"
            raise named_error(unknown, where) from unknown
    return answers


def result(
    future: concurrent.futures.Future[Any], deadline: Deadline, what: str = "", *, topic: str = ""
) -> Any:
    """Returns a request's answer; its own timeout ends the wait if the deadline does not."""
    while True:
        deadline.check()
        try:
            return future.result(timeout=_POLL_S)
        except KafkaException as error:
            raise named_error(error, what, topic=topic) from error
        except concurrent.futures.TimeoutError:
            continue


def retried(
    request: Callable[[], _Answer], deadline: Deadline, refresh: Callable[[], None]
) -> _Answer:
    """Retries a request while its answer is that a leader is moving, for one request's time.

    Args:
        request: Sends the request and returns its answer.
        deadline: Bounds the time.
        refresh: Looks up the leaders again. The client caches them for minutes, and keeps asking
            with an epoch from before the broker's restart unless it is told to look.
    """
    until = time.monotonic() + seconds(deadline)
    while True:
        try:
            return request()
        except SeamlineError as error:
            cause = error.__cause__
            moving = isinstance(cause, KafkaException) and cause.args[0].code() in _LEADER_MOVING
            if not moving or time.monotonic() > until:
                raise
        refresh()
        time.sleep(_RETRY_S)
