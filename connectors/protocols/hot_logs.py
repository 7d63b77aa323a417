"""The hot side of a table: a log of records, and how it is read and followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import NewRecord, RawBatch
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets


class HotLog(Protocol):
    """A Kafka cluster, or anything that keeps records by topic, partition and offset."""

    @property
    def confirmed_ends(self) -> ConfirmedEnds:
        """What `continuity` has found intact; a wrapper returns that of the log it wraps."""

    def topics(self, deadline: Deadline) -> list[str]:
        """Returns the names of the topics that are not internal to the log, sorted.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE.
        """

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """Returns what each topic's log holds now; ends are read before ids and starts.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """Returns, per partition, the first offset whose record time is at or after a moment.

        Args:
            topic: Name of the topic.
            topic_id: Its id, since the offsets of another topic of that name mean nothing.
            ends: The partitions to look up, and the offset for one without such a record.
            timestamp_ms: The moment.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: TOPIC_RECREATED, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """

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
        """Yields the records of the ranges that the isolation makes visible, each exactly once.

        Ends by position, never by count: markers, aborted and compacted records leave gaps.

        Args:
            topic: Name of the topic.
            ranges: What to read, at most one of each partition.
            isolation: `read_committed` or `read_uncommitted`.
            deadline: The statement's deadline.
            epochs: Leader epoch under which the record below a range's start was seen. It shows
                whether the log was truncated there since. An empty range with one is only checked.
            max_records: Stops after this many.

        Raises:
            SeamlineError: LOG_TRIMMED when a start is no longer kept; LOG_TRUNCATED when the log
                was truncated below a start, or ends before a range does; KAFKA_UNAVAILABLE.
        """


@runtime_checkable
class AppendsRecords(Protocol):
    """A log that records can be appended to."""

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Appends records to a topic; returns once they are acknowledged.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE, TOPIC_NOT_FOUND, …; some records may still be there.
        """


@runtime_checkable
class TellsCompaction(Protocol):
    """A log that tells how compaction affects its topics."""

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """Whether records of a topic may be removed because newer ones have the same keys.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """Returns, per partition, an offset that compaction has not reached yet.

        No record at or past it has been removed or has caused another to be removed. It is 0 if
        the topic is not compacted; a partition is absent if its offset cannot be determined.

        Raises:
            SeamlineError: TOPIC_RECREATED, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """


@runtime_checkable
class TellsSettings(Protocol):
    """A log that tells how its topics are configured."""

    def settings(self, topic: str, deadline: Deadline) -> Mapping[str, str]:
        """Returns a topic's configuration, by the names that its brokers use.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of a subscription returns.

    Attributes:
        batches: The records, each batch of one partition.
        positions: Per partition that advanced, the first offset not read yet. All records below it
            that the isolation makes visible have been returned; markers and gaps are skipped.
        epochs: Leader epochs of the newest records, where the log reports them.
    """

    batches: tuple[RawBatch, ...]
    positions: Mapping[int, int] = dataclasses.field(hash=False)
    epochs: Mapping[int, int] = dataclasses.field(default_factory=dict, hash=False)


class Subscription(Protocol):
    """An endless read of a topic. For use by one thread at a time."""

    def poll(self, wait_s: float) -> Polled:
        """Returns what has arrived since the last call; waits at most `wait_s` for the first.

        Raises:
            SeamlineError: LOG_TRIMMED when a position is no longer kept, LOG_TRUNCATED,
                TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE. Each of them ends the subscription.
        """

    def close(self, *, lost: bool = False) -> None:
        """Ends the subscription; if its connections are lost, nothing uses them again."""


class SharedSubscription(Subscription, Protocol):
    """A subscription that shares its connections with others, so that it costs little at rest.

    `poll` does not wait. Whatever would slow the others down ends it, and so does every error.
    """

    @property
    def has_ended(self) -> bool:
        """Whether it returns nothing more, so that the topic must be followed in another way."""


class FollowableLog(HotLog, Protocol):
    """A log that can also be followed."""

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        """Returns a subscription to the partitions of `starts`, from those offsets on.

        It identifies the topic by name: the caller must check that it is still the same topic.
        `epochs` are as for `HotLog.read`. A `patient` one costs brokers less, but half a second may
        pass until it knows that only markers follow.
        """


@runtime_checkable
class SharesSubscriptions(Protocol):
    """A log whose subscriptions can share connections."""

    def share(
        self,
        topic: str,
        starts: Offsets,
        isolation: str,
        epochs: Mapping[int, int],
        wake: Callable[[], None],
        *,
        patient: bool,
    ) -> SharedSubscription:
        """Returns a subscription for what is added to a topic from now on.

        Args:
            topic: Name of the topic.
            starts: The first offset to read of each partition, which should be near its end.
            isolation: The isolation to read with.
            epochs: See `HotLog.read`.
            wake: Called when `poll` would return something, or the subscription has ended; must
                not block.
            patient: See `FollowableLog.follow`.
        """
