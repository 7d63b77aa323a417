"""The second oracle: an independent consumer of committed records, from the first to the last.

It shares nothing with the product but the broker. It follows topics by name and records what it
sees under the topic's id; a topic that is to be deleted is first forgotten.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from chaos.brokers import Brokers, direct_client
from chaos.history import BAD_ID, NO_ID, Logged, Recorder

_POLL_S = 0.02
_LOOK_S = 0.5
_REQUEST_S = 5.0
_SILENT_S = 15.0
_ANSWERS_MIN = 2
"""Brokers that must agree on a topic: one may be down."""


@dataclasses.dataclass(slots=True)
class _Followed:
    topic_id: str
    consumer: Consumer
    reached: dict[int, int] = dataclasses.field(default_factory=dict)
    heard_at: dict[int, float] = dataclasses.field(default_factory=dict)
    newest: collections.deque[int] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=500)
    )


class LogFollower:
    """Follows topics on a thread of its own.

    Args:
        brokers: Followed past their proxies.
        recorder: Takes what it sees.
        readers: By topic, the reader of values that are not JSON.
    """

    def __init__(
        self, brokers: Brokers, recorder: Recorder, readers: Mapping[str, Callable[[bytes], Any]]
    ) -> None:
        self._brokers = brokers
        self._readers = readers
        self._servers = brokers.direct_servers
        self._recorder = recorder
        self._known_ids: set[str] = set()
        self._topics: dict[str, _Followed] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oracle", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops following."""
        self._ended.set()
        self._thread.join()
        for followed in self._topics.values():
            followed.consumer.close()

    def follow(self, topic: str) -> str:
        """Follows a topic from its beginning; returns its id, on which all brokers must agree.

        Raises:
            TimeoutError: They do not agree yet, or know one that was followed before.
        """
        topic_ids = self._brokers.topic_ids(topic)
        topic_id = min(topic_ids, default="")
        agree = len(topic_ids) >= _ANSWERS_MIN and len(set(topic_ids)) == 1
        if not agree or not topic_id or topic_id in self._known_ids:
            raise TimeoutError(f"not every broker knows the new topic {topic} yet")
        self._known_ids.add(topic_id)
        with self._lock:
            self._topics[topic] = _Followed(topic_id, self._consumer())
        return topic_id

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **direct_client(self._servers),
                "group.id": "chaos-oracle",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )

    def forget(self, topic: str) -> None:
        """Stops following a topic."""
        with self._lock:
            followed = self._topics.pop(topic)
        followed.consumer.close()

    def follows(self, topic: str) -> bool:
        """Whether a topic is followed."""
        with self._lock:
            return topic in self._topics

    def reached(self, topic: str) -> dict[int, int]:
        """Per partition the offset up to which everything was seen."""
        with self._lock:
            return dict(self._topics[topic].reached)

    def topic_id(self, topic: str) -> str:
        """The id of a topic that is followed."""
        with self._lock:
            return self._topics[topic].topic_id

    def newest_ids(self, topic: str) -> list[int]:
        """Ids of the newest records that were seen."""
        with self._lock:
            return [id_ for id_ in self._topics[topic].newest if id_ >= 0]

    def is_caught_up(self, topic: str) -> bool:
        """Whether everything that can be read now was seen."""
        try:
            ends = self.stable_ends(topic)
        except (KafkaException, TimeoutError):
            return False
        reached = self.reached(topic)
        return all(reached.get(p, 0) >= end for p, end in ends.items())

    def stable_ends(self, topic: str) -> dict[int, int]:
        """Per partition the last stable offset.

        Raises:
            KafkaException: The broker does not answer.
        """
        admin = AdminClient(direct_client(self._servers))  # a new one knows no old leaders
        (future,) = admin.describe_topics(
            TopicCollection([topic]), request_timeout=_REQUEST_S
        ).values()
        partitions = [TopicPartition(topic, p.id) for p in future.result(_REQUEST_S).partitions]
        answers = admin.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.latest()),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_REQUEST_S,
        )
        return {p.partition: int(f.result(_REQUEST_S).offset) for p, f in answers.items()}

    # --- The thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        looked_at = 0.0
        while not self._ended.is_set():
            with self._lock:
                look = time.monotonic() - looked_at > _LOOK_S
                for topic, followed in self._topics.items():
                    if look:
                        self._renew(followed)
                        self._assign(topic, followed)
                    self._poll(topic, followed)
            looked_at = time.monotonic() if look else looked_at
            time.sleep(_POLL_S)  # lets others have the lock

    def _renew(self, followed: _Followed) -> None:
        """Replaces a consumer with a silent partition by another: some never fetch."""
        if any(time.monotonic() - at > _SILENT_S for at in followed.heard_at.values()):
            followed.consumer.close()
            followed.consumer = self._consumer()
            followed.heard_at.clear()

    def _assign(self, topic: str, followed: _Followed) -> None:
        try:
            listing = followed.consumer.list_topics(topic, timeout=1.0).topics[topic]
            fresh = sorted(set(listing.partitions) - set(followed.heard_at))
            if fresh:
                followed.consumer.incremental_assign(
                    [TopicPartition(topic, p, followed.reached.get(p, 0)) for p in fresh]
                )
                followed.heard_at.update(dict.fromkeys(fresh, time.monotonic()))
        except KafkaException:
            return  # the broker is down: looked at again in a moment

    def _poll(self, topic: str, followed: _Followed) -> None:
        if not followed.heard_at:
            return
        seen: dict[int, Logged] = {}
        reached: dict[int, int] = {}
        now = time.monotonic()
        for message in followed.consumer.consume(500, 0.0):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    reached[message.partition()] = message.offset()
                continue
            partition = message.partition()
            body = self._body(topic, message.value())
            id_ = NO_ID if message.value() is None else id_of(body)
            logged = seen.setdefault(
                partition, Logged(topic, followed.topic_id, partition, [], now)
            )
            logged.records.append((message.offset(), id_, (message.key() or b"").decode()))
            logged.timestamps_ms.append(message.timestamp()[1])
            logged.headers.append(headers_of(message))
            if topic in self._readers:
                logged.bodies.append(body)
            followed.newest.append(id_)
            reached[partition] = message.offset() + 1
        self._recorder.record(*seen.values())
        followed.reached.update(reached)
        followed.heard_at.update(dict.fromkeys(reached, now))

    def _body(self, topic: str, value: bytes | None) -> Any:
        """A record's contents; None if it is none of ours."""
        try:
            return None if value is None else self._readers.get(topic, json.loads)(value)
        except ValueError:
            return None


def headers_of(message: Message) -> int:
    """How many headers a record has; one where a name is not UTF-8.

    The client then returns a result, and an exception as well. Called from Python, nobody looks,
    and whatever comes next fails; called from C, it is raised at once.
    """
    try:
        return len(next(map(Message.headers, [message])) or ())
    except (UnicodeDecodeError, SystemError):
        return 1


def id_of(body: Any) -> int:
    """The id in a record, or in a change; `BAD_ID` for one that is none of ours."""
    try:
        return int(body.get("after", body)["id"])
    except (AttributeError, ValueError, TypeError, KeyError):
        return BAD_ID
