"""One follower: what it waits for, what it serves, and when it throws everything away.

Method: over the in-memory log. With threads where waiting is the point, in one thread where the
order of steps is. Logs that misbehave are complete logs that wrap it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest
from fakes.memory import MemoryLog
from support.tails import NEVER, TOPIC, MemoryTail, rows_of, value
from support.waiting import wait_until

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import Polled, Subscription
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import (
    CANCELED,
    DEADLINE_EXCEEDED,
    KAFKA_UNAVAILABLE,
    LOG_TRUNCATED,
    READ_CONFLICT,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.tail import follower as module
from seamline.gateway.tail.follower import QUIET_S, Follower, State
from seamline.gateway.tail.partitions import PartitionRead
from seamline.gateway.tail.reader import Reader
from seamline.planners.plan.physical import TailRead
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.sql import types
from seamline.sql.types import Field


class RestlessLog(MemoryLog):
    """An in-memory log that counts what it is asked for, and whose subscriptions may break."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.reads = 0
        self.subscriptions: list[dict[int, int]] = []
        self.patient: list[bool] = []
        self.breaks: list[int] = []
        self.silent: set[int] = set()
        self.lost: list[bool] = []

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        self.looks += 1
        return super().bounds(topics, isolation, deadline)

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
        self.reads += sum(len(r) for r in ranges)
        return super().read(
            topic, ranges, isolation, deadline, epochs=epochs, max_records=max_records
        )

    def follow(  # type: ignore[override]
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        self.subscriptions.append(dict(starts))
        self.patient.append(patient)
        return _Breaking(self, starts, super().follow(topic, starts, isolation, epochs, patient))


@dataclasses.dataclass
class _Breaking:
    log: RestlessLog
    starts: Offsets
    inner: Subscription

    def poll(self, wait_s: float) -> Polled:
        if self.log.breaks and self.log.breaks[0] in self.starts:
            self.log.breaks.pop(0)
            raise SeamlineError(KAFKA_UNAVAILABLE, "the broker is away")
        polled = self.inner.poll(wait_s)
        batches = (b for b in polled.batches if b.partitions[0] not in self.log.silent)
        positions = {p: o for p, o in polled.positions.items() if p not in self.log.silent}
        return Polled(tuple(batches), positions, polled.epochs)

    def close(self, *, lost: bool = False) -> None:
        self.log.lost.append(lost)
        self.inner.close(lost=lost)


@pytest.fixture(autouse=True)
def nothing_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, so that nothing here is read from the log for that."""
    monkeypatch.setattr(module, "STALLED_S", 60.0)


@pytest.fixture
def log() -> RestlessLog:
    made = RestlessLog()
    made.create_topic(TOPIC, 2)
    return made


@pytest.fixture
def tail(scratch: pathlib.Path, log: RestlessLog) -> Iterator[MemoryTail]:
    """A table whose follower works only when it is waited for."""
    made = MemoryTail(scratch, log=log)
    yield made
    made.close()


@pytest.fixture
def busy(scratch: pathlib.Path, log: RestlessLog) -> Iterator[MemoryTail]:
    """A table whose follower has threads."""
    made = MemoryTail(scratch, log=log, readers=2)
    yield made
    made.close()


def produce(log: MemoryLog, count: int, partition: int = 0, first: int = 0) -> None:
    for number in range(first, first + count):
        log.produce(TOPIC, partition, value(number))


def abort(log: MemoryLog) -> None:
    """An aborted transaction of one record: two offsets without rows."""
    transaction = log.begin()
    log.produce(TOPIC, 0, value(0), transaction=transaction)
    log.end_transaction(TOPIC, transaction, commit=False)


def follower_of(tail: MemoryTail) -> Follower:
    assert tail.followers is not None
    found = tail.followers.find(f"uuid-{TOPIC}")
    assert found is not None
    return found


def ids(tail: MemoryTail) -> list[int]:
    return [row["id"] for row in tail.rows()]


# --- Waiting -------------------------------------------------------------------------------------


def test_what_was_produced_before_the_ends_were_asked_is_there(
    busy: MemoryTail, log: RestlessLog
) -> None:
    for number in range(200):
        log.produce(TOPIC, number % 2, value(number))
        assert sorted(ids(busy)) == list(range(number + 1))
    assert log.reads == 0
    assert log.subscriptions


def test_a_table_that_nobody_asks_for_is_followed_patiently_until_somebody_does(
    busy: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 3)
    assert ids(busy) == [0, 1, 2]
    follower = follower_of(busy)
    for produced in (4, 5):
        follower.last_used -= QUIET_S + 1
        wait_until(lambda: log.patient[-2:] == [True, True], 30)
        produce(log, 1, first=produced - 1)
        wait_until(lambda: follower.positions(0, 1)[0] == produced, 30)  # noqa: B023 - called here
        assert ids(busy) == list(range(produced))
        wait_until(lambda: log.patient[-2:] == [False, False], 30)
    assert log.reads == 0


def test_a_partition_of_which_two_parts_are_missing_is_read_as_one(
    tail: MemoryTail, log: RestlessLog
) -> None:
    """A log is read once of each partition: of two ranges, one would be forgotten."""
    produce(log, 8)
    first = tail.request()
    tail.boundary = tail.boundary.replace({0: 2})
    tail.read().release()
    produce(log, 1, first=8)
    follower = follower_of(tail)
    found = follower.take([OffsetRange(0, 0, 9)])
    assert found.missing == (OffsetRange(0, 0, 9),)
    assert not found.slices
    found.references.release()
    found = follower.take(first.ranges)
    assert found.missing == (OffsetRange(0, 0, 2),)
    found.references.release()


def test_an_end_that_is_a_marker_is_reached(busy: MemoryTail, log: RestlessLog) -> None:
    for outcome in (True, False):
        transaction = log.begin()
        log.produce(TOPIC, 0, value(1), transaction=transaction)
        log.end_transaction(TOPIC, transaction, commit=outcome)
    assert ids(busy) == [1]
    assert follower_of(busy).partitions[0].position == 4
    assert log.reads == 0


def test_a_wait_ends_with_its_statement(busy: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    busy.rows()
    deadline = StatementDeadline(600.0)
    caught: list[SeamlineError] = []

    def wait() -> None:
        try:
            follower_of(busy).wait({0: 100}, deadline)
        except SeamlineError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    deadline.cancel()
    thread.join(60.0)
    assert not thread.is_alive()
    assert [error.code for error in caught] == [CANCELED]
    with pytest.raises(SeamlineError) as late:
        follower_of(busy).wait({0: 100}, StatementDeadline(0.05))
    assert late.value.code is DEADLINE_EXCEEDED


def test_a_wait_ends_with_the_follower(busy: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    busy.rows()
    follower = follower_of(busy)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(follower.wait({0: 100}, NEVER)))
    thread.start()
    follower.close()
    thread.join(60.0)
    assert answers == [False]


def test_new_partitions_are_followed_from_their_beginning(
    busy: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 3)
    assert len(ids(busy)) == 3
    log.add_partitions(TOPIC, 2)
    produce(log, 2, partition=3, first=10)
    assert sorted(ids(busy)) == [0, 1, 2, 10, 11]
    assert log.reads == 0


def test_a_connection_that_breaks_goes_on_where_it_was(busy: MemoryTail, log: RestlessLog) -> None:
    produce(log, 5)
    assert len(ids(busy)) == 5
    log.breaks = [0, 0]
    wait_until(lambda: not log.breaks)
    produce(log, 5, first=5)
    assert ids(busy) == list(range(10))
    assert log.reads == 0
    assert {0: 5} in log.subscriptions


def test_a_subscription_of_which_a_partition_falls_silent_is_replaced(
    tail: MemoryTail, log: RestlessLog
) -> None:
    """A client may wait on a lost connection until its broker closes it, which takes minutes."""
    produce(log, 1)
    produce(log, 1, partition=1, first=1)
    assert ids(tail) == [0, 1]
    reader = Reader(follower_of(tail), log, 0, 1, silent_s=0.0)
    while reader.step(0.0):
        pass
    assert not any(log.lost), "nothing is silent at the end of the log"
    log.silent.add(0)
    produce(log, 1, first=2)
    produce(log, 1, partition=1, first=3)
    follower_of(tail).look(NEVER)
    assert reader.step(0.0)
    assert log.lost[-1]
    log.silent.clear()
    assert reader.step(0.0)
    assert ids(tail) == [0, 2, 1, 3]
    assert log.lost.count(True) == 1


# --- What is kept ------------------------------------------------------------------------------


def test_it_begins_at_the_boundary(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.boundary = Offsets({0: 4, 1: 0})
    assert ids(tail) == [4, 5, 6, 7, 8, 9]
    assert follower_of(tail).partitions[0].cached_from == 4


def test_what_was_tiered_is_let_go(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.rows()
    assert tail.followers is not None
    before = tail.followers.usage.memory_bytes
    assert before > 0
    tail.boundary = Offsets({0: 10, 1: 0})
    assert tail.rows() == []
    assert tail.followers.usage.memory_bytes == 0


def test_what_a_statement_still_reads_is_not_let_go(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    kept = tail.read()
    expected = rows_of(kept)
    tail.boundary = Offsets({0: 10, 1: 0})
    produce(log, 1, first=10)
    assert ids(tail) == [10]
    assert tail.followers is not None
    used = tail.followers.usage.memory_bytes
    assert rows_of(kept) == expected
    kept.release()
    assert tail.followers.usage.memory_bytes < used


def test_what_a_statement_forgets_is_let_go(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    kept = tail.read()
    tail.boundary = Offsets({0: 10, 1: 0})
    tail.rows()
    assert tail.followers is not None
    assert tail.followers.usage.memory_bytes > 0
    del kept
    assert tail.followers.usage.memory_bytes == 0


def test_a_statement_that_waits_holds_trimming_back(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.rows()
    follower = follower_of(tail)
    with follower.keeping(Offsets({0: 0, 1: 0})):
        tail.boundary = Offsets({0: 10, 1: 0})
        tail.rows()
        assert not follower.missing([OffsetRange(0, 0, 10)])
    assert follower.missing([OffsetRange(0, 0, 10)])


def test_it_skips_what_was_tiered_before_it_was_read(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 4)
    tail.rows()
    produce(log, 16, first=4)
    tail.boundary = Offsets({0: 18, 1: 0})
    log.delete_records(TOPIC, 0, 18)
    assert ids(tail) == [18, 19]
    assert log.reads == 0


def test_an_older_seam_gets_what_is_missing_from_the_log(
    tail: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 10)
    older = tail.request()
    tail.boundary = Offsets({0: 6, 1: 0})
    assert ids(tail) == [6, 7, 8, 9]
    assert [row["id"] for row in tail.rows(older)] == list(range(10))
    assert log.reads == 6


def test_a_rollback_starts_over(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.boundary = Offsets({0: 6, 1: 0})
    tail.rows()
    first = follower_of(tail)
    tail.boundary = Offsets({0: 2, 1: 0})
    assert ids(tail) == list(range(2, 10))
    assert follower_of(tail) is not first
    assert first.state is State.STOPPED
    assert log.reads == 0


def test_another_schema_starts_over(tail: MemoryTail, log: RestlessLog) -> None:
    log.produce(TOPIC, 0, b'{"id": 1, "text": "a", "more": 7}')
    kept = tail.read()
    first = follower_of(tail)
    more = Field("more", types.BIGINT, 3)
    tail.spec = dataclasses.replace(tail.spec, columns=(more, *tail.spec.columns))
    tail.schema_id = 1
    wanted = ("more", "_kafka_partition", "_kafka_offset")
    assert tail.rows(tail.request(wanted=wanted))[0]["more"] == 7
    assert follower_of(tail) is not first
    assert rows_of(kept)[0]["text"] == "a"
    kept.release()


def test_a_seam_of_an_older_schema_is_read_from_the_log(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    seam, _ = tail.seam()
    older = tail.request(seam)
    more = Field("more", types.BIGINT, 3)
    tail.spec = dataclasses.replace(tail.spec, columns=(more, *tail.spec.columns))
    tail.schema_id = 1
    tail.rows()
    first = follower_of(tail)
    assert len(tail.rows(older)) == 3
    assert follower_of(tail) is first
    assert log.reads == 3


# --- Another log under the same name ---------------------------------------------------------


def test_rows_of_a_topic_created_again_are_never_served(tail: MemoryTail, log: RestlessLog) -> None:
    """pitfall: recreated and grown past the boundary, so that only the topic id shows it."""
    produce(log, 3)
    tail.rows()
    produce(log, 3, first=3)
    request = tail.request()
    log.create_topic(TOPIC, 2)
    produce(log, 20, first=100)
    with pytest.raises(SeamlineError) as caught:
        tail.read(request)
    assert caught.value.code is READ_CONFLICT
    error = follower_of(tail).error
    assert error is not None
    assert error.code is TOPIC_RECREATED
    assert tail.followers is not None
    assert tail.followers.usage.memory_bytes == 0
    assert ids(tail) == list(range(100, 120))


def test_rows_read_before_the_topic_was_created_again_stay_right(
    tail: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 3)
    tail.rows()
    request = tail.request()
    log.create_topic(TOPIC, 2)
    assert [row["id"] for row in tail.rows(request)] == [0, 1, 2]


def test_a_statement_that_finds_everything_here_asks_no_more(
    tail: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 3)
    tail.rows()
    request = tail.request()
    looks = log.looks
    tail.rows(request)
    assert log.looks == looks


def test_an_end_that_went_back_throws_everything_away(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.rows()
    log.truncate(TOPIC, 0, 6)
    produce(log, 2, first=50)
    assert ids(tail) == [0, 1, 2, 3, 4, 5, 50, 51]
    error = follower_of(tail).error
    assert error is not None
    assert error.code is LOG_TRUNCATED
    assert ids(tail) == [0, 1, 2, 3, 4, 5, 50, 51]
    assert follower_of(tail).error is None


def test_a_log_cut_and_grown_again_is_told_by_its_epoch(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 10)
    tail.rows()
    log.truncate(TOPIC, 0, 6)
    produce(log, 8, first=50)
    assert ids(tail) == [0, 1, 2, 3, 4, 5, *range(50, 58)]


@pytest.mark.parametrize("start", [0, 8])
@pytest.mark.parametrize("kept", [8, 4])
def test_an_end_that_is_where_it_was_is_told_by_its_epoch(
    tail: MemoryTail, log: RestlessLog, kept: int, start: int
) -> None:
    """However well all of it was known, and even where it had no records."""
    produce(log, 8)
    abort(log)
    assert ids(tail) == ids(tail) == list(range(8))
    log.truncate(TOPIC, 0, kept)
    produce(log, 10 - kept, first=50)
    with pytest.raises(SeamlineError) as caught:
        tail.read(tail.request(ranges=[OffsetRange(0, start, 10)]))
    assert caught.value.code is READ_CONFLICT
    assert ids(tail) == [*range(kept), *range(50, 60 - kept)]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_transaction_that_another_leader_ends(
    tail: MemoryTail, log: RestlessLog, is_followed: bool, commit: bool
) -> None:
    """pitfall: its markers lie past the end of the epoch that the newest record is of."""
    produce(log, 2)
    transaction = log.begin()
    log.produce(TOPIC, 0, value(2), transaction=transaction)
    if is_followed:
        assert ids(tail) == [0, 1]
    log.truncate(TOPIC, 0, 3)
    log.end_transaction(TOPIC, transaction, commit=commit)
    for _ in range(2):
        assert ids(tail) == [0, 1, 2][: 2 + commit]
        assert follower_of(tail).error is None


def test_what_was_requested_of_a_former_leader_is_requested_again(
    tail: MemoryTail, log: RestlessLog
) -> None:
    """Its markers may come late, and show no epoch."""
    produce(log, 2)
    assert ids(tail) == [0, 1]
    follower = follower_of(tail)
    former = follower.leaders[0]
    log.truncate(TOPIC, 0, 2)
    produce(log, 2, first=2)
    follower.look(NEVER)
    follower.publish(PartitionRead(OffsetRange(0, 2, 4), None, None, former, gaps=(2, 4)))
    assert ids(tail) == [0, 1, 2, 3]


def test_a_record_of_a_leader_that_nobody_has_told_of_begins_another_subscription(
    tail: MemoryTail, log: RestlessLog
) -> None:
    """What is cached below it, without records, may have been replaced by that leader."""
    produce(log, 1, partition=1)
    assert ids(tail) == [0]
    abort(log)
    assert ids(tail) == [0]
    log.truncate(TOPIC, 0, 0)
    produce(log, 3, first=50)
    assert not follower_of(tail).wait({0: 3}, NEVER)
    error = follower_of(tail).error
    assert error is not None
    assert error.code is LOG_TRUNCATED
    assert ids(tail) == [50, 51, 52, 0]


def test_a_failed_follower_makes_way(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    tail.rows()
    first = follower_of(tail)
    first.fail(SeamlineError(LOG_TRUNCATED, "for the test"))
    assert ids(tail) == [0, 1, 2]
    assert follower_of(tail) is not first


# --- Freshness -----------------------------------------------------------------------------------


def test_a_cut_is_what_the_log_held_when_it_was_last_asked(
    tail: MemoryTail, log: RestlessLog
) -> None:
    produce(log, 3)
    tail.rows()
    follower = follower_of(tail)
    cut = follower.cached_ends(None)
    assert cut is not None
    assert cut[0][0] == 3
    produce(log, 3, first=3)
    later = follower.cached_ends(None)
    assert later is not None
    assert later[0][0] == 3
    assert follower.cached_ends(1e-9) is None
    tail.rows()
    assert follower.cached_ends(600.0) is not None
    newest = follower.cached_ends(600.0)
    assert newest is not None
    assert newest[0][0] == 6


def test_a_follower_that_never_caught_up_has_no_cut(tail: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    request = tail.request()
    follower = tail.tails.follow(request)
    assert follower is not None
    assert follower.cached_ends(None) is None


def test_it_looks_by_itself(busy: MemoryTail, log: RestlessLog) -> None:
    produce(log, 3)
    busy.rows()
    follower = follower_of(busy)
    log.add_partitions(TOPIC)
    produce(log, 5, partition=2)
    wait_until(
        lambda: follower.partitions.get(2) is not None and follower.partitions[2].position == 5
    )
    wait_until(lambda: (cut := follower.cached_ends(None)) is not None and cut[0].get(2) == 5)
    log.create_topic(TOPIC, 2)
    wait_until(lambda: follower.state is State.FAILED)


def test_rows_as_they_are_under_read_committed(tail: MemoryTail, log: RestlessLog) -> None:
    held_back, aborted = log.begin(), log.begin()
    log.produce(TOPIC, 0, value(1), transaction=aborted)
    log.produce(TOPIC, 0, value(2))
    log.end_transaction(TOPIC, aborted, commit=False)
    log.produce(TOPIC, 0, value(3), transaction=held_back)
    log.produce(TOPIC, 0, value(4))
    assert ids(tail) == [2]
    assert follower_of(tail).table.source.isolation == READ_COMMITTED
    log.end_transaction(TOPIC, held_back, commit=True)
    assert ids(tail) == [2, 3, 4]


# --- For the catalog -----------------------------------------------------------------------------


def test_whole_rows_for_the_catalog_from_memory_and_files(
    scratch: pathlib.Path, log: RestlessLog
) -> None:
    produce(log, 30)
    for memory_bytes in (0, 1 << 30):
        tail = MemoryTail(scratch / str(memory_bytes), log=log, memory_bytes=memory_bytes)
        seam, _ = tail.seam()
        wanted = TailRead(seam, (OffsetRange(0, 5, 25),), tail.spec, ("id", "text"))
        found = tail.tails.read(wanted, NEVER)
        assert not found.files
        assert sorted(found.rows.column("id").to_pylist()) == list(range(5, 25))
        nothing = dataclasses.replace(wanted, columns=())
        assert tail.tails.read(nothing, NEVER).rows.num_rows == 20
        tail.close()
    assert log.reads == 0
