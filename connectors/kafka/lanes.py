"""Consumers that many subscriptions share: what comes is handed out, and whoever is slow leaves.

A consumer of its own has threads, connections and a fetch under way for each subscription. A lane
has one consumer for all that are at the end of their topics. Its thread alone assigns partitions,
polls and hands out, so no message of an earlier assignment reaches a later one. It never waits for
anybody: a subscription that gets much at once, or an event that is not transient, is ended, and its
owner follows the topic by a consumer of its own, which catches up or says what is wrong. So neither
a backlog nor an error of one topic affects the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from seamline.connectors.kafka.cluster import (
    FOLLOW_WAIT_MS,
    PATIENT_WAIT_MS,
    Cluster,
    LostConsumerError,
    passes,
)
from seamline.connectors.kafka.positions import check_below
from seamline.connectors.kafka.subscription import MESSAGES_MAX, NOTHING, polled_of
from seamline.connectors.protocols.hot_logs import Polled
from seamline.connectors.supervision import Loop
from seamline.errors import SeamlineError

_MESSAGES_WAITING_MAX = 5_000
_BYTES_WAITING_MAX = 4 << 20
_MESSAGES_PER_S_MAX = 2_000
_ADDED_AT_ONCE_MAX = 50
"""Partitions that are assigned between two polls: those already there should not wait long."""
_WAIT_S = 0.05
_PATIENT_WAIT_S = 0.2

_Key = tuple[str, int]
"""Topic and partition."""


class LaneSubscription:
    """See `SharedSubscription`.

    Args:
        topic: Name of the topic.
        starts: The first offset to read of each partition.
        epochs: Leader epochs below the starts, where known.
        wake: See `SharesSubscriptions.share`.

    Attributes:
        keys: The partitions.
    """

    def __init__(
        self,
        topic: str,
        starts: Mapping[int, int],
        epochs: Mapping[int, int],
        wake: Callable[[], None],
    ) -> None:
        self.keys: tuple[_Key, ...] = tuple((topic, partition) for partition in starts)
        self._topic = topic
        self._positions = dict(starts)
        self._epochs = dict(epochs)
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: list[Message] = []
        self._bytes = 0
        self._second, self._in_second = 0.0, 0
        self._leave: Callable[[bool], None] = lambda _: None
        self._has_ended = False

    @property
    def has_ended(self) -> bool:
        """See `SharedSubscription.has_ended`."""
        return self._has_ended

    def poll(self, wait_s: float = 0.0) -> Polled:  # noqa: ARG002 - it does not wait
        """See `Subscription.poll`."""
        with self._lock:
            messages, self._waiting, self._bytes = self._waiting, [], 0
        return polled_of(messages, _end_of) if messages else NOTHING

    def close(self, *, lost: bool = False) -> None:
        """See `Subscription.close`."""
        self._has_ended = True
        self._leave(lost)
        with self._lock:
            self._waiting.clear()

    def joined(self, leave: Callable[[bool], None]) -> None:
        """Notes how to leave the lane; the argument says whether its consumer is lost."""
        self._leave = leave

    def start_of(self, partition: int) -> tuple[TopicPartition, int | None]:
        """Returns where a partition continues, and the leader epoch below, where known."""
        start = self._positions[partition]
        return TopicPartition(self._topic, partition, start), self._epochs.get(partition)

    def take(self, partition: int, messages: Sequence[Message]) -> bool:
        """Takes what has come of a partition; returns whether its owner needs to look at it."""
        if self._has_ended:
            return False
        kept = []
        for message in messages:
            error = message.error()
            if error is None:
                kept.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                if message.offset() > self._positions[partition]:
                    kept.append(message)
            elif not passes(error):
                self.end()
                return False
        return bool(kept) and self._keep(partition, kept)

    def wake(self) -> None:
        """Lets its owner look at what has come."""
        self._wake()

    def end(self) -> None:
        """Ends it, and lets its owner know."""
        self.close()
        self._wake()

    def _keep(self, partition: int, messages: list[Message]) -> bool:
        now = time.monotonic()
        if now - self._second > 1.0:
            self._second, self._in_second = now, 0
        self._in_second += len(messages)
        with self._lock:
            self._waiting += messages
            self._bytes += sum(len(m) for m in messages if m.error() is None)
            is_slow = len(self._waiting) > _MESSAGES_WAITING_MAX or self._bytes > _BYTES_WAITING_MAX
        if is_slow or self._in_second > _MESSAGES_PER_S_MAX:
            self.end()
            return False
        last = messages[-1]
        is_end = last.error() is not None
        self._positions[partition] = last.offset() if is_end else last.offset() + 1
        epochs = (m.leader_epoch() for m in reversed(messages) if m.error() is None)
        if (epoch := next(epochs, None)) is not None:
            self._epochs[partition] = epoch
        return True


def _end_of(event: Message) -> tuple[int, int]:
    return event.partition(), event.offset()


class Lanes:
    """The lanes of one cluster. Safe to share between threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._lanes: dict[tuple[str, bool], list[_Lane]] = {}

    def join(self, subscription: LaneSubscription, isolation: str, *, patient: bool) -> None:
        """Lets a subscription share the consumer of others.

        Those to the same partition, of two tables over one topic, are in different lanes.
        """
        with self._lock:
            lanes = self._lanes.setdefault((isolation, patient), [])
            if not any(lane.join(subscription) for lane in lanes):
                lane = _Lane(self._cluster, isolation, patient=patient)
                lane.join(subscription)
                lanes.append(lane)


class _Lane:
    """One consumer, and the thread that polls it while there are subscriptions."""

    def __init__(self, cluster: Cluster, isolation: str, *, patient: bool) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._wait_ms = PATIENT_WAIT_MS if patient else FOLLOW_WAIT_MS
        self._wait_s = _PATIENT_WAIT_S if patient else _WAIT_S
        self._lock = threading.Lock()
        self._members: dict[_Key, LaneSubscription] = {}
        self._changed: dict[_Key, None] = {}
        self._is_running = self._is_lost = False
        # of its thread alone
        self._assigned: dict[_Key, LaneSubscription] = {}
        self._consumer: Consumer | None = None
        self._held = contextlib.ExitStack()

    def join(self, subscription: LaneSubscription) -> bool:
        """Adds a subscription, unless there is one to any of its partitions."""
        with self._lock:
            if any(key in self._members for key in subscription.keys):
                return False
            subscription.joined(lambda lost: self._leave(subscription, lost))
            self._members.update(dict.fromkeys(subscription.keys, subscription))
            self._changed.update(dict.fromkeys(subscription.keys))
            if not self._is_running:
                self._is_running = True
                Loop("tail lane", self._step, after_failure=self._failed)
        return True

    def _leave(self, subscription: LaneSubscription, lost: bool) -> None:
        with self._lock:
            own = [key for key in subscription.keys if self._members.get(key) is subscription]
            for key in own:
                del self._members[key]
                self._changed[key] = None
            self._is_lost = self._is_lost or (lost and bool(own))

    def _step(self) -> float | None:
        if self._is_lost or not self._members:
            self._close_consumer()
        with self._lock:
            if not self._members:
                self._is_running = False
                return None
        consumer = self._adjusted()
        first = consumer.poll(self._wait_s)
        if first is not None:
            self._hand_out([first, *consumer.consume(MESSAGES_MAX, 0)])
        return 0.0

    def _adjusted(self) -> Consumer:
        """Returns the consumer, with what was added assigned, and what has left unassigned."""
        gone: list[_Key] = []
        added: dict[_Key, LaneSubscription] = {}
        with self._lock:
            for key in list(self._changed):
                member = self._members.get(key)
                if key in self._assigned and self._assigned[key] is not member:
                    gone.append(key)
                if member is not None and self._assigned.get(key) is not member:
                    if len(added) == _ADDED_AT_ONCE_MAX:
                        continue
                    added[key] = member
                del self._changed[key]
        consumer = self._consumer
        if consumer is None:
            consumer = self._consumer = self._held.enter_context(
                self._cluster.consumer(self._isolation, wait_ms=self._wait_ms)
            )
        if gone:
            consumer.incremental_unassign([TopicPartition(*key) for key in gone])
            for key in gone:
                del self._assigned[key]
        if added:
            self._assign(consumer, added)
        return consumer

    def _assign(self, consumer: Consumer, added: Mapping[_Key, LaneSubscription]) -> None:
        starts = {key: member.start_of(key[1]) for key, member in added.items()}
        consumer.incremental_assign([start for start, _ in starts.values()])
        self._assigned.update(added)
        for key, (start, epoch) in starts.items():
            if epoch is not None and start.offset > 0:
                try:
                    check_below(consumer, start, epoch)
                except SeamlineError:
                    added[key].end()

    def _hand_out(self, messages: Sequence[Message]) -> None:
        runs: dict[_Key, list[Message]] = {}
        for message in messages:
            topic, partition = message.topic(), message.partition()
            if topic is None or partition is None or partition < 0:
                error = message.error()
                if error is not None and not passes(error):
                    raise KafkaException(error)
                continue
            runs.setdefault((topic, partition), []).append(message)
        woken: dict[LaneSubscription, None] = {}
        for key, run in runs.items():
            member = self._assigned.get(key)
            if member is not None and member.take(key[1], run):
                woken[member] = None
        for member in woken:
            member.wake()

    def _close_consumer(self, error: BaseException | None = None) -> None:
        """Closes the consumer, or returns it to the pool if neither it nor a connection is lost."""
        with self._lock:
            error = LostConsumerError() if self._is_lost and error is None else error
            self._is_lost = False
            self._changed = dict.fromkeys(self._members)
        self._assigned.clear()
        self._consumer = None
        self._held.__exit__(type(error) if error else None, error, None)

    def _failed(self, error: SeamlineError, failures: int) -> float:  # noqa: ARG002 - others retry
        """Ends all subscriptions: their owners' consumers show what is wrong, and whose it is."""
        with self._lock:
            members = list(dict.fromkeys(self._members.values()))
        for member in members:
            member.end()
        self._close_consumer(error)
        return 0.0
