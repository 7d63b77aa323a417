"""Tails of an upsert table whose topic is compacted between the question for its ends and the read.

Goal: a tail has the newest record of every key, or the statement is told to start over, and does
not do so for long. Method: over the in-memory log, by a follower and without one.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import pytest
from fakes.memory import MemoryLog
from support.tails import COLUMNS, NEVER, TOPIC, MemoryTail, value

from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import READ_CONFLICT, SeamlineError
from seamline.planners.plan.physical import TailRead
from seamline.seam.binding import TopicBinding
from seamline.seam.log import LogBounds
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names

BINDING = TopicBinding(
    "memory", TOPIC, mode="upsert", primary_key=("id",), key="id", key_partitions=2
)
WANTED = ("id", "text", names.PARTITION, names.OFFSET, names.DELETED)


class AskedLog(MemoryLog):
    """Counts how often it is asked where it ends."""

    asks = 0

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        self.asks += 1
        return super().bounds(topics, isolation, deadline)


def put(log: MemoryLog, id_: int, text: str, transaction: int | None = None) -> None:
    log.produce(TOPIC, 0, value(id_, text), key=str(id_).encode(), transaction=transaction)
    if transaction is not None:
        log.end_transaction(TOPIC, transaction, commit=True)


@pytest.fixture
def log() -> AskedLog:
    made = AskedLog()
    made.create_topic(TOPIC, 2)
    for round_ in "ab":
        for id_ in range(4):
            put(made, id_, round_)
    return made


@pytest.fixture(params=[True, False], ids=["followed", "direct"])
def tail(
    request: pytest.FixtureRequest, scratch: pathlib.Path, log: AskedLog
) -> Iterator[MemoryTail]:
    made = MemoryTail(scratch, log=log, follow=request.param)
    made.spec = DecoderSpec.of(BINDING, (*COLUMNS, *names.METADATA_FIELDS))
    with contextlib.closing(made):
        yield made


def asked(tail: MemoryTail) -> TailRead:
    """The tail up to the present ends."""
    return tail.request(wanted=WANTED)


def texts(tail: MemoryTail, wanted: TailRead) -> Mapping[int, str]:
    """The newest text of each id."""
    return {row["id"]: row["text"] for row in tail.rows(wanted)}


def is_conflict(tail: MemoryTail, wanted: TailRead) -> bool:
    try:
        texts(tail, wanted)
    except SeamlineError as error:
        assert error.code is READ_CONFLICT
        assert error.details == {"partitions": [0]}
        return True
    return False


def test_what_is_replaced_past_the_end_is_a_conflict_once(tail: MemoryTail, log: AskedLog) -> None:
    wanted = asked(tail)
    put(log, 1, "c")
    log.compact(TOPIC)
    assert is_conflict(tail, wanted)
    put(log, 2, "d")
    assert texts(tail, asked(tail)) == {0: "b", 1: "c", 2: "d", 3: "b"}
    put(log, 3, "e")
    wanted = asked(tail)
    put(log, 9, "past the end")
    assert texts(tail, wanted) == {0: "b", 1: "c", 2: "d", 3: "e"}, "nothing has gone since"


def test_what_is_removed_again_is_a_conflict_again(tail: MemoryTail, log: AskedLog) -> None:
    log.compact(TOPIC)
    if tail.followers is not None:
        texts(tail, asked(tail))  # it has its own of what is there by now
    for text in "cd":
        wanted = asked(tail)
        put(log, 1, text)
        log.compact(TOPIC)
        was_read_in_time = tail.followers is not None and text == "c"
        assert is_conflict(tail, wanted) is not was_read_in_time
    assert texts(tail, asked(tail)) == {0: "b", 1: "d", 2: "b", 3: "b"}


def test_what_was_known_of_gaps_is_forgotten_under_another_leader(
    tail: MemoryTail, log: AskedLog
) -> None:
    wanted = asked(tail)
    put(log, 1, "c")
    log.compact(TOPIC)
    assert is_conflict(tail, wanted)
    log.truncate(TOPIC, 0, 8)  # what had replaced a record is gone
    put(log, 2, "d")
    wanted = asked(tail)
    put(log, 1, "e")
    with pytest.raises(SeamlineError) as caught:
        texts(tail, wanted)
    assert caught.value.code is READ_CONFLICT
    assert texts(tail, asked(tail)) == {0: "b", 1: "e", 2: "d", 3: "b"}


def test_gaps_that_are_known_cost_nothing(tail: MemoryTail, log: AskedLog) -> None:
    log.compact(TOPIC)
    texts(tail, asked(tail))
    costs = []
    for text in "cde":
        put(log, 1, text)
        wanted, before = asked(tail), log.asks
        texts(tail, wanted)
        costs.append(log.asks - before)
    assert costs == [1, 1, 1], "whether the topic is the same one"


def test_markers_are_gaps_of_a_log_that_is_not_compacted(tail: MemoryTail, log: AskedLog) -> None:
    put(log, 1, "c", log.begin())
    wanted = asked(tail)
    put(log, 1, "d", log.begin())
    assert texts(tail, wanted)[1] == "c"
    log.compact(TOPIC, before={0: 0, 1: 0})
    assert texts(tail, wanted)[1] == "c", "they were there before it was"


def test_the_lag_of_compaction_proves_it(tail: MemoryTail, log: AskedLog) -> None:
    log.clock.advance(10_000)
    log.compaction_lag_ms = 5_000
    put(log, 1, "c")
    log.clock.advance(1_000)
    wanted = asked(tail)
    put(log, 2, "c")
    log.compact(TOPIC)
    assert texts(tail, wanted) == {0: "b", 1: "c", 2: "b", 3: "b"}


def test_a_tail_that_was_read_elsewhere_is_looked_at(tail: MemoryTail, log: AskedLog) -> None:
    wanted = asked(tail)
    tail.tails.check_left(wanted, NEVER)
    put(log, 1, "c")
    tail.tails.check_left(wanted, NEVER)
    log.compact(TOPIC)
    with pytest.raises(SeamlineError) as caught:
        tail.tails.check_left(wanted, NEVER)
    assert caught.value.code is READ_CONFLICT
    wanted = asked(tail)
    put(log, 2, "d")
    tail.tails.check_left(wanted, NEVER)
    log.compact(TOPIC)
    with pytest.raises(SeamlineError):
        tail.tails.check_left(wanted, NEVER)
