"""Kafka as a `HotLog`: bounds in a few small requests, and exact reads of ranges of offsets.

Bounds are read ends first. A topic's id identifies its incarnation and is read after the ends: if
the topic is recreated in between, the id is the new one and no longer matches the table's. The id
is trusted when two brokers agree on it, since one may lag behind those that returned the ends.

Reads end by position. A range is closed by a message at its last offset or past it, or by the end
of the partition that the isolation makes visible; control markers, aborted and compacted records
never count.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource

from seamline.connectors.cache import Cache
from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.kafka.appending import TopicAppender, idempotent_producer
from seamline.connectors.kafka.clients import login_as_cause
from seamline.connectors.kafka.cluster import (
    SILENT_S,
    Cluster,
    LostConsumerError,
    batch_too_large,
    is_undecompressed,
    named_error,
    passes,
)
from seamline.connectors.kafka.formats.registries import registry
from seamline.connectors.kafka.formats.schemas import Schemas
from seamline.connectors.kafka.lanes import Lanes, LaneSubscription
from seamline.connectors.kafka.messages import MESSAGES_MAX, Arrivals, raw_batch
from seamline.connectors.kafka.positions import assign
from seamline.connectors.kafka.requests import (
    NO_SUCH_TIME,
    Answers,
    epochs_of,
    list_offsets,
    offsets_of,
    result,
    results,
    retried,
    seconds,
)
from seamline.connectors.kafka.subscription import KafkaSubscription
from seamline.connectors.kafka.topic_descriptions import agreed, partitions_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import NewRecord, RawBatch
from seamline.connectors.shared_requests import SharedRequests
from seamline.errors import TOPIC_NOT_FOUND, SeamlineError
from seamline.seam.history_checks import recreated, require, truncated
from seamline.seam.log import READ_COMMITTED, READ_UNCOMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets

_TOPICS_CACHED_MAX = 10_000
_APPENDING = "appending"
_POLICY, _COMPACTION_LAG = "cleanup.policy", "min.compaction.lag.ms"
_NO_OFFSET = -1
_POLL_S = 0.02
_REFRESH_S = 2.0
_ISOLATION = {
    READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}


class KafkaLog:
    """The topics of one cluster.

    Args:
        cluster: The cluster.
        silent_s: See `SILENT_S`.

    Attributes:
        confirmed_ends: See `HotLog.confirmed_ends`.
    """

    def __init__(self, cluster: Cluster, silent_s: float = SILENT_S) -> None:
        self._cluster = cluster
        self._silent_s = silent_s
        self._partitions: Cache[str, tuple[int, ...]] = Cache(_TOPICS_CACHED_MAX)
        self._cluster_ids: Cache[str, str] = Cache(_TOPICS_CACHED_MAX)
        self._bounds_requests: SharedRequests[tuple[str, ...], dict[str, LogBounds]]
        self._bounds_requests = SharedRequests()
        self._lanes = Lanes(cluster)
        self.confirmed_ends = ConfirmedEnds()

    @property
    def schemas(self) -> Schemas:
        """The registry of its records' schemas."""
        return registry(self._cluster.config.schema_registry)

    def topics(self, deadline: Deadline) -> list[str]:
        """See `HotLog.topics`; leaves out Kafka's own topics."""
        with self._cluster.dependency.call(), self._cluster.asking() as admin:
            try:
                listing = admin.list_topics(timeout=seconds(deadline))
            except KafkaException as error:
                raise named_error(error, "listing topics") from error
        return sorted(name for name in listing.topics if not name.startswith("__"))

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`; callers that wait for the same bounds share the next request."""

        def request() -> dict[str, LogBounds]:
            with self._cluster.dependency.call():
                return self._stable_bounds(topics, isolation, deadline)

        return dict(self._bounds_requests.get((*topics, isolation), request, deadline))

    def _stable_bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        def ask() -> dict[str, LogBounds]:
            return retried(
                lambda: self._bounds(topics, isolation, deadline), deadline, self._refresh_leaders
            )

        try:
            return ask()
        except SeamlineError as error:
            remembered = [self._partitions.pop(topic) for topic in topics]
            if error.code is not TOPIC_NOT_FOUND or not any(remembered):
                raise
        self._refresh_leaders()
        return ask()  # a topic with fewer partitions may have taken the name

    def _bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        requested = {topic: self._partitions.get(topic) or () for topic in topics}
        if not all(requested.values()):
            described = self._describe(topics, deadline)
            requested = {name: partitions_of(topic) for name, topic in described.items()}
        while True:
            offsets = self._offsets(requested, isolation, deadline)
            described = self._describe(topics, deadline)
            partitions_now = {name: partitions_of(topic) for name, topic in described.items()}
            for topic, partitions in partitions_now.items():
                self._partitions.put(topic, partitions)
            if all(set(partitions_now[name]) <= set(requested[name]) for name in topics):
                break
            requested = partitions_now  # partitions were added: their records count too
        return {
            topic: LogBounds(
                topic=topic,
                topic_id=str(described[topic].topic_id),
                cluster_id=self._cluster_id(str(described[topic].topic_id), deadline),
                start=offsets_of(offsets["start"], topic),
                end=offsets_of(offsets["end"], topic),
                high_watermark=offsets_of(offsets["high_watermark"], topic),
                isolation=isolation,
                leader_epochs=epochs_of(offsets["end"], topic),
            )
            for topic in topics
        }

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """See `HotLog.offsets_at`; requests the id after the offsets."""
        request = [TopicPartition(topic, partition, timestamp_ms) for partition in ends]
        with self._cluster.dependency.call():
            offsets = self._offsets_at(topic, topic_id, request, deadline)
        return Offsets({p: offsets[p] if offsets[p] >= 0 else end for p, end in ends.items()})

    def _offsets_at(
        self,
        topic: str,
        topic_id: str,
        request: Sequence[TopicPartition],
        deadline: Deadline,
    ) -> Offsets:
        try:
            answer = retried(
                lambda: results(
                    self._list_offsets(request, READ_COMMITTED, deadline),
                    deadline,
                    least=NO_SUCH_TIME,
                ),
                deadline,
                self._refresh_leaders,
            )
        except SeamlineError as error:
            if error.code is TOPIC_NOT_FOUND:  # perhaps of a topic with fewer partitions
                self._check_same(topic, topic_id, deadline)
            raise
        self._check_same(topic, topic_id, deadline)
        return offsets_of(answer, topic)

    def _check_same(self, topic: str, topic_id: str, deadline: Deadline) -> None:
        description = self._describe([topic], deadline)[topic]
        require(recreated(topic, str(description.topic_id), topic_id))

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """See `HotLog.read`."""
        epochs = dict(epochs or {})
        remaining = [r for r in ranges if len(r) or r.partition in epochs]
        left = MESSAGES_MAX if max_records is None else max_records
        by_batch: int | None = None  # the most bytes of a batch, once they are read one by one
        silent_s_max = self._silent_s
        while remaining and left > 0:
            with self._cluster.consumer(isolation, by_batch=by_batch is not None) as consumer:
                reader = _RangeReader(consumer, topic, remaining, epochs, by_batch)
                while left > 0 and not (reader.done or reader.meets_large_batches):
                    deadline.check()
                    batch = reader.poll(left)
                    if reader.stalled:
                        self._check_not_truncated(topic, reader.open_ranges, isolation, deadline)
                        if reader.silent_s >= silent_s_max:
                            raise LostConsumerError
                    if len(batch):
                        yield batch
                    if max_records is not None:
                        left -= len(batch)
            remaining = reader.remaining
            if reader.meets_large_batches:
                by_batch = self._cluster.batch_bytes_max
            else:
                silent_s_max *= 2
            starts = {r.partition: r.start for r in ranges}
            epochs = {
                r.partition: epochs[r.partition]
                for r in remaining
                if r.partition in epochs and r.start == starts[r.partition]
            }

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """See `AppendsRecords.append`."""
        config = self._cluster.config
        producer = self._cluster.idle_producer(_APPENDING) or idempotent_producer(config)
        with login_as_cause(config):
            TopicAppender(producer, topic).append_records(records)
        self._cluster.keep_producer(_APPENDING, producer)

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> KafkaSubscription:
        """See `FollowableLog.follow`."""
        return KafkaSubscription(self._cluster, topic, starts, epochs, isolation, patient=patient)

    def share(
        self,
        topic: str,
        starts: Offsets,
        isolation: str,
        epochs: Mapping[int, int],
        wake: Callable[[], None],
        *,
        patient: bool,
    ) -> LaneSubscription:
        """See `SharesSubscriptions.share`."""
        subscription = LaneSubscription(topic, starts, epochs, wake)
        self._lanes.join(subscription, isolation, patient=patient)
        return subscription

    def _check_not_truncated(
        self, topic: str, ends: Mapping[int, int], isolation: str, deadline: Deadline
    ) -> None:
        """Checks that the log still reaches the ends of ranges that no records arrive for."""
        require(truncated(self.bounds([topic], isolation, deadline)[topic], ends))

    def _offsets(
        self, partitions: Mapping[str, Sequence[int]], isolation: str, deadline: Deadline
    ) -> dict[str, Answers]:
        """Returns stable ends, high watermarks and starts; requests them together, ends first."""
        asks = [("end", OFFSET_END, isolation)]
        if isolation == READ_COMMITTED:
            asks.append(("high_watermark", OFFSET_END, READ_UNCOMMITTED))
        asks.append(("start", OFFSET_BEGINNING, isolation))
        pending = {
            label: self._list_offsets(
                [TopicPartition(t, p, spec) for t, numbers in partitions.items() for p in numbers],
                level,
                deadline,
            )
            for label, spec, level in asks
        }
        answers = {label: results(future, deadline) for label, future in pending.items()}
        answers.setdefault("high_watermark", answers["end"])
        return answers

    def _list_offsets(
        self, request: Sequence[TopicPartition], isolation: str, deadline: Deadline
    ) -> concurrent.futures.Future[Answers]:
        return list_offsets(self._cluster.admin, request, _ISOLATION[isolation], deadline)

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """See `TellsCompaction.is_compacted`."""
        return "compact" in self.settings(topic, deadline).get(_POLICY, "")

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """See `TellsCompaction.untouched_from`.

        Compaction processes segments in order, up to the first that has a record younger than
        `min.compaction.lag.ms`. Half of that lag is left as a margin for clock differences.
        """
        settings = self.settings(topic, deadline)
        if "compact" not in settings.get(_POLICY, ""):
            return Offsets(dict.fromkeys(ends, 0))
        lag_ms = int(settings.get(_COMPACTION_LAG, 0))
        if not lag_ms:
            return Offsets()
        none = Offsets(dict.fromkeys(ends, _NO_OFFSET))
        young = int(time.time() * 1000) - lag_ms // 2
        first = self.offsets_at(topic, topic_id, none, young, deadline)
        return Offsets({p: offset for p, offset in first.items() if offset != _NO_OFFSET})

    def settings(self, topic: str, deadline: Deadline) -> dict[str, str]:
        """See `TellsSettings.settings`."""
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self._cluster.dependency.call(), self._cluster.asking() as admin:
            (future,) = admin.describe_configs([asked], request_timeout=seconds(deadline)).values()
            entries = result(future, deadline, f"the settings of topic {topic}")
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _describe(self, topics: Sequence[str], deadline: Deadline) -> dict[str, Any]:
        """Returns the topics as the brokers agree on them."""
        return dict(
            retried(lambda: agreed(self._views(topics, deadline)), deadline, self._refresh_leaders)
        )

    def _views(self, topics: Sequence[str], deadline: Deadline) -> list[dict[str, Any]]:
        """Returns how one broker describes the topics, and how another one does if there is one."""
        with self._cluster.asking() as admin:
            purpose = f"topic {', '.join(topics)}"
            other = self._cluster.other(admin, purpose, deadline)
            asked = [
                client.describe_topics(
                    TopicCollection(list(topics)), request_timeout=seconds(deadline)
                )
                for client in (admin, *([other] if other is not None else []))
            ]
            return [
                {t: result(future, deadline, topic=t) for t, future in futures.items()}
                for futures in asked
            ]

    def _refresh_leaders(self) -> None:
        """Makes the client look up the leaders of all topics, as asking for one may create it."""
        with contextlib.suppress(KafkaException):
            self._cluster.admin.list_topics(timeout=_REFRESH_S)
        self._cluster.look_again()

    def _cluster_id(self, topic_id: str, deadline: Deadline) -> str:
        """Returns the cluster's id; asks once per topic, since no topic moves between clusters."""

        def ask() -> str:
            with self._cluster.asking() as admin:
                future = admin.describe_cluster(request_timeout=seconds(deadline))
                return str(result(future, deadline, "the cluster").cluster_id)

        return self._cluster_ids.get_or_make(topic_id, ask)


class _RangeReader:
    """Reads ranges of one topic with an assigned consumer, and knows when each has ended."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        ranges: Sequence[OffsetRange],
        epochs: Mapping[int, int],
        by_batch: int | None,
    ) -> None:
        self._consumer = consumer
        self._by_batch = by_batch
        self._arrived = Arrivals()
        self._undecompressed = False
        self._topic = topic
        self._ends = {r.partition: r.end_exclusive for r in ranges}
        self._positions = {r.partition: r.start for r in ranges}
        self.open_ranges = dict(self._ends)
        self._closed: list[TopicPartition] = []  # and still assigned
        self._last_progress = time.monotonic()
        self.silent_s = 0  # in a row, of those in which it was polled
        assign(consumer, topic, self._positions, epochs)

    @property
    def done(self) -> bool:
        """Whether every range has been read to its end."""
        return not self.open_ranges

    @property
    def remaining(self) -> list[OffsetRange]:
        """What has not been read yet."""
        return [OffsetRange(p, self._positions[p], end) for p, end in self.open_ranges.items()]

    @property
    def meets_large_batches(self) -> bool:
        """Whether another consumer should go on, one that fetches batches one by one."""
        if self._by_batch is not None or self._arrived:
            return False
        return self._undecompressed or self._arrived.are_large

    @property
    def stalled(self) -> bool:
        """Whether a second has passed without a record; if so, the second starts over."""
        if time.monotonic() - self._last_progress < 1.0:
            return False
        self._last_progress = time.monotonic()
        self.silent_s += 1
        return True

    def poll(self, messages_max: int) -> RawBatch:
        """Returns the next records in the ranges; empty if none arrived within the poll time."""
        messages = self._arrived.take() if self._arrived else self._consume(messages_max)
        events = [m for m in messages if m.error() is not None]
        if events:
            messages = [m for m in messages if m.error() is None]
        if messages:
            self._last_progress = time.monotonic()
            self.silent_s = 0
        partitions = [m.partition() for m in messages]
        offsets = [m.offset() for m in messages]
        if self._close_ranges(partitions, offsets):
            ends = self._ends
            messages = [m for m in messages if m.offset() < ends[m.partition()]]
            partitions = [m.partition() for m in messages]
            offsets = [m.offset() for m in messages]
        for event in events:
            self._take_event(event)
        self._unassign()
        return raw_batch(partitions, offsets, messages)

    def _consume(self, messages_max: int) -> list[Message]:
        # `consume` waits until it has as many as requested: never request more than is left.
        left = max(1, sum(end - self._positions[p] for p, end in self.open_ranges.items()))
        count = self._arrived.count_max(by_batch=self._by_batch is not None)
        try:
            messages = self._consumer.consume(min(left, messages_max, count), _POLL_S)
        except KafkaException as error:
            raise named_error(error, topic=self._topic) from error
        return self._arrived.add(messages)

    def _close_ranges(self, partitions: Sequence[int], offsets: Sequence[int]) -> bool:
        """Closes ranges that these messages complete; returns whether any is past its range."""
        past = False
        last = dict(zip(partitions, offsets, strict=True))  # offsets ascend within a partition
        for partition, offset in last.items():
            end = self._ends[partition]
            self._positions[partition] = offset + 1
            if offset >= end - 1:
                past = past or offset >= end
                self._close(partition)
        return past

    def _take_event(self, event: Message) -> None:
        error = event.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
            partition = event.partition()
            if partition in self.open_ranges and event.offset() >= self._ends[partition]:
                self._close(partition)
            return
        if is_undecompressed(error):
            if self._by_batch is not None:
                raise batch_too_large(self._topic, event, self._by_batch)
            self._undecompressed = True
            return
        if passes(error):
            return
        where = f"partition {event.partition()} of topic {self._topic} at {event.offset()}"
        raise named_error(error, where)

    def _close(self, partition: int) -> None:
        if self.open_ranges.pop(partition, None) is not None:
            self._closed.append(TopicPartition(self._topic, partition))

    def _unassign(self) -> None:
        """Ends the fetching of ranges that were closed; the last ones end with the whole read."""
        if self._closed and self.open_ranges:
            self._consumer.incremental_unassign(self._closed)
            self._closed = []
