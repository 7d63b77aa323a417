"""One look for all topics of a cluster: few requests, and the error of one is not the others'.

Method: followers without threads over the in-memory log, whose requests are counted.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence

import pytest
from fakes.memory import MemoryLog
from support.tails import NEVER, decoder, value

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.supervision import Crew
from seamline.errors import KAFKA_UNAVAILABLE, TOPIC_RECREATED, SeamlineError
from seamline.gateway.tail.follower import LOOK_EVERY_S, Follower
from seamline.gateway.tail.looks import Looks
from seamline.gateway.tail.own_consumers import OwnConsumers
from seamline.gateway.tail.reader import Reader
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.source import FollowedTable, RowSource
from seamline.gateway.tail.store import SegmentStore
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets

TOPICS = tuple(f"t{number}" for number in range(20))


class CountedLog(MemoryLog):
    """A log that counts requests, and fails those for some topics."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, ...]] = []
        self.refused: dict[str, bool] = {}

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        self.requests.append(tuple(topics))
        for topic in topics:
            if topic in self.refused:
                subject = topic if self.refused[topic] else ""
                raise SeamlineError(KAFKA_UNAVAILABLE, "not for you", subject=subject)
        return super().bounds(topics, isolation, deadline)


class Idle(Crew):
    """A crew that does nothing, so that only looks happen."""

    def __init__(self) -> None:
        super().__init__("idle", 0)
        self.work: list[Callable[[], None]] = []

    def run(self, work: Callable[[], None]) -> None:
        """Notes the work."""
        self.work.append(work)


@pytest.fixture
def log() -> CountedLog:
    made = CountedLog()
    for topic in TOPICS:
        made.create_topic(topic, 1)
    return made


@pytest.fixture
def followers(scratch: pathlib.Path, log: CountedLog) -> Iterator[list[Follower]]:
    """Followers that have looked, each alone, and whose next look is due."""
    store = SegmentStore(memory_bytes_max=1 << 30, disk_bytes_max=0, directory=scratch / "tail")
    made = []
    for topic in TOPICS:
        bounds = log.bounds([topic], READ_COMMITTED, NEVER)[topic]
        source = RowSource(
            bounds.topic_id, READ_COMMITTED, dataclasses.replace(decoder(), topic=topic), 0
        )
        table = FollowedTable((topic,), topic, source)
        retention = Retention(Offsets({0: 0}), {}, 0.0)
        made.append(
            Follower(
                table,
                log,
                retention,
                store,
                lambda _: True,
                readers=1,
                crew=Idle(),
                consumers=OwnConsumers(),
                look_every_s=0.0,
            )
        )
        assert made[-1].looks_alone
        made[-1].look(NEVER)
        assert not made[-1].looks_alone
    log.requests.clear()
    yield made
    store.close()


def test_all_are_looked_at_with_one_request(log: CountedLog, followers: list[Follower]) -> None:
    log.produce("t3", 0, value(1))
    log.add_partitions("t4")
    assert Looks(log, lambda: followers).look() == LOOK_EVERY_S
    assert [len(topics) for topics in log.requests] == [len(TOPICS)]
    assert followers[3].ends == Offsets({0: 1})
    assert set(followers[4].partitions) == {0, 1}


def test_another_topic_of_the_name_ends_its_own_follower(
    log: CountedLog, followers: list[Follower]
) -> None:
    log.create_topic("t5", 1)
    Looks(log, lambda: followers).look()
    assert [follower.table.topic for follower in followers if follower.over] == ["t5"]
    assert followers[5].error is not None
    assert followers[5].error.code is TOPIC_RECREATED


def test_who_has_an_error_is_looked_at_alone_until_it_has_none(
    log: CountedLog, followers: list[Follower]
) -> None:
    log.refused["t6"] = True
    log.produce("t7", 0, value(1))
    Looks(log, lambda: followers).look()
    assert [len(topics) for topics in log.requests] == [len(TOPICS), len(TOPICS) - 1]
    assert [follower.table.topic for follower in followers if follower.looks_alone] == ["t6"]
    assert followers[6].look_is_due
    assert followers[7].ends == Offsets({0: 1})
    del log.refused["t6"]
    followers[6].look(NEVER)
    Looks(log, lambda: followers).look()
    assert len(log.requests[-1]) == len(TOPICS)


def test_an_error_of_nobody_in_particular_lets_each_look_alone(
    log: CountedLog, followers: list[Follower]
) -> None:
    log.refused["t6"] = False
    Looks(log, lambda: followers).look()
    assert len(log.requests) == 1
    assert all(follower.looks_alone for follower in followers)


def test_another_leader_lets_its_own_follower_look_alone(
    log: CountedLog, followers: list[Follower]
) -> None:
    """What was read is compared with what the new leader has, which takes a read of the log."""
    log.produce("t8", 0, value(1))
    reader = Reader(followers[8], log, 0, 1)
    assert reader.step(0.0)
    log.truncate("t8", 0, 1)
    Looks(log, lambda: followers).look()
    assert [follower.table.topic for follower in followers if follower.looks_alone] == ["t8"]
    followers[8].look(NEVER)
    assert not followers[8].over
