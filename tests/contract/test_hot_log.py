"""Goal: every `FollowableLog`, so every `HotLog`, keeps the promises that the seam relies on.

Method: one suite of behaviours over implementations; `LogSubject` is what a test does to a log. An
implementation that does not do something yet says so in `GAPS`, with the reason, and the test fails
when it does.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable

import pytest
from fakes.memory import ManualClock, MemoryLog

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.hot_logs import FollowableLog
from seamline.errors import TOPIC_RECREATED, SeamlineError
from seamline.seam.log import READ_COMMITTED, READ_UNCOMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets

NOW = NoDeadline()
Found = list[tuple[int, int, bytes | None]]
"""(partition, offset, value)"""


class LogSubject(abc.ABC):
    """A log, and what a test does to it."""

    log: FollowableLog

    @abc.abstractmethod
    def create(self, topic: str, partitions: int) -> None:
        """Creates a topic, replacing one of the same name."""

    @abc.abstractmethod
    def add_partition(self, topic: str) -> None:
        """Adds a partition."""

    @abc.abstractmethod
    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Appends a record."""

    @abc.abstractmethod
    def begin(self, topic: str, partition: int, *values: bytes) -> Callable[[bool], None]:
        """Writes in a transaction; what it returns commits or aborts it."""

    @abc.abstractmethod
    def trim(self, topic: str, partition: int, before: int) -> None:
        """Deletes the records below an offset."""


class MemorySubject(LogSubject):
    """The log in memory."""

    def __init__(self) -> None:
        self.memory = MemoryLog(ManualClock())
        self.log = self.memory

    def create(self, topic: str, partitions: int) -> None:
        self.memory.create_topic(topic, partitions)

    def add_partition(self, topic: str) -> None:
        self.memory.add_partitions(topic)

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        self.memory.produce(topic, partition, value, key=key, timestamp_ms=timestamp_ms)

    def begin(self, topic: str, partition: int, *values: bytes) -> Callable[[bool], None]:
        transaction = self.memory.begin()
        for value in values:
            self.memory.produce(topic, partition, value, transaction=transaction)
        return lambda commit: self.memory.end_transaction(topic, transaction, commit=commit)

    def trim(self, topic: str, partition: int, before: int) -> None:
        self.memory.delete_records(topic, partition, before)


IMPLEMENTATIONS: dict[str, Callable[[], LogSubject]] = {"memory": MemorySubject}
GAPS: dict[tuple[str, str], str] = {}
"""(implementation, test) to why it does not hold there yet."""


@pytest.fixture(params=IMPLEMENTATIONS)
def subject(request: pytest.FixtureRequest) -> LogSubject:
    reason = GAPS.get((request.param, request.node.originalname))
    if reason is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    return IMPLEMENTATIONS[request.param]()


@pytest.fixture
def topic(subject: LogSubject, name: str) -> str:
    """A topic of two partitions."""
    subject.create(name, 2)
    return name


def bounds(subject: LogSubject, topic: str, isolation: str = READ_COMMITTED) -> LogBounds:
    return subject.log.bounds([topic], isolation, NOW)[topic]


def read(
    subject: LogSubject,
    topic: str,
    *ranges: OffsetRange,
    isolation: str = READ_COMMITTED,
    max_records: int | None = None,
) -> Found:
    batches = subject.log.read(topic, ranges, isolation, NOW, max_records=max_records)
    return [
        row
        for batch in batches
        for row in zip(batch.partitions, batch.offsets, batch.values, strict=True)
    ]


def everything(subject: LogSubject, topic: str, isolation: str = READ_COMMITTED) -> Found:
    known = bounds(subject, topic, isolation)
    ranges = [OffsetRange(p, known.start[p], end) for p, end in known.end.items()]
    return sorted(read(subject, topic, *ranges, isolation=isolation))


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


# --- Bounds --------------------------------------------------------------------------------------


def test_an_empty_topic_has_empty_partitions_and_an_id(subject: LogSubject, topic: str) -> None:
    found = bounds(subject, topic)
    assert found.start == found.end == found.high_watermark == Offsets({0: 0, 1: 0})
    assert found.topic_id
    assert found.cluster_id
    assert (found.topic, found.isolation, found.pending) == (topic, READ_COMMITTED, 0)


def test_a_topic_that_is_not_there_is_named(subject: LogSubject, name: str) -> None:
    assert refused(lambda: bounds(subject, name)) == "TOPIC_NOT_FOUND"


def test_several_topics_are_asked_for_at_once(subject: LogSubject, topic: str, name: str) -> None:
    other = f"{name}_2"
    subject.create(other, 1)
    found = subject.log.bounds([topic, other], READ_COMMITTED, NOW)
    assert {key: len(value.end) for key, value in found.items()} == {topic: 2, other: 1}
    assert found[topic].topic_id != found[other].topic_id
    assert found[topic].cluster_id == found[other].cluster_id


def test_a_topic_created_again_is_another_one(subject: LogSubject, topic: str) -> None:
    before = bounds(subject, topic)
    subject.create(topic, 2)
    assert bounds(subject, topic).topic_id != before.topic_id


def test_a_new_partition_is_seen(subject: LogSubject, topic: str) -> None:
    bounds(subject, topic)
    subject.add_partition(topic)
    subject.produce(topic, 2, b"x")
    assert bounds(subject, topic).end == Offsets({0: 0, 1: 0, 2: 1})


# --- Reading -------------------------------------------------------------------------------------


def test_records_are_read_once_in_order_with_what_they_carry(
    subject: LogSubject, topic: str
) -> None:
    subject.produce(topic, 0, b"a", key=b"k", timestamp_ms=1_700_000_000_123)
    subject.produce(topic, 0, None, key=b"k")
    subject.produce(topic, 1, b"")
    (batch,) = subject.log.read(topic, [OffsetRange(0, 0, 2)], READ_COMMITTED, NOW)
    assert list(batch.offsets) == [0, 1]
    assert list(batch.values) == [b"a", None]
    assert list(batch.keys) == [b"k", b"k"]
    assert batch.timestamps_ms[0] == 1_700_000_000_123
    assert everything(subject, topic) == [(0, 0, b"a"), (0, 1, None), (1, 0, b"")]


@pytest.mark.parametrize(
    ("start", "end"), [(a, b) for a, b in itertools.product(range(5), repeat=2) if a <= b]
)
def test_a_range_is_half_open(subject: LogSubject, topic: str, start: int, end: int) -> None:
    for number in range(4):
        subject.produce(topic, 1, str(number).encode())
    found = read(subject, topic, OffsetRange(1, start, end))
    assert [offset for _, offset, _ in found] == list(range(start, end))


def test_reading_stops_after_so_many_records(subject: LogSubject, topic: str) -> None:
    for number in range(6):
        subject.produce(topic, number % 2, b"x")
    ranges = (OffsetRange(0, 0, 3), OffsetRange(1, 0, 3))
    assert len(read(subject, topic, *ranges, max_records=4)) == 4
    assert len(read(subject, topic, *ranges, max_records=99)) == 6


def test_a_start_that_was_trimmed_is_refused_and_never_moved(
    subject: LogSubject, topic: str
) -> None:
    for _ in range(4):
        subject.produce(topic, 0, b"x")
    subject.trim(topic, 0, 2)
    assert bounds(subject, topic).start == Offsets({0: 2, 1: 0})
    assert refused(lambda: read(subject, topic, OffsetRange(0, 1, 4))) == "LOG_TRIMMED"
    assert len(read(subject, topic, OffsetRange(0, 2, 4))) == 2


def test_a_range_past_the_end_is_refused_and_never_cut_short(
    subject: LogSubject, topic: str
) -> None:
    subject.produce(topic, 0, b"x")
    assert refused(lambda: read(subject, topic, OffsetRange(0, 0, 2))) == "LOG_TRUNCATED"


# --- Transactions --------------------------------------------------------------------------------


def test_an_open_transaction_holds_the_stable_end_back(subject: LogSubject, topic: str) -> None:
    subject.produce(topic, 0, b"before")
    end = subject.begin(topic, 0, b"open")
    subject.produce(topic, 0, b"after")
    found = bounds(subject, topic)
    assert (found.end[0], found.high_watermark[0], found.pending) == (1, 3, 2)
    assert bounds(subject, topic, READ_UNCOMMITTED).end[0] == 3
    assert everything(subject, topic) == [(0, 0, b"before")]
    assert len(everything(subject, topic, READ_UNCOMMITTED)) == 3
    end(True)
    assert [value for _, _, value in everything(subject, topic)] == [b"before", b"open", b"after"]


def test_aborted_records_leave_gaps_and_markers_take_offsets(
    subject: LogSubject, topic: str
) -> None:
    subject.begin(topic, 0, b"no", b"no")(False)
    subject.begin(topic, 0, b"yes")(True)
    subject.produce(topic, 0, b"last")
    assert bounds(subject, topic).end[0] == 6
    assert everything(subject, topic) == [(0, 3, b"yes"), (0, 5, b"last")]


@pytest.mark.parametrize(("start", "end"), [(0, 3), (2, 3), (4, 5), (0, 2), (2, 2)])
def test_a_range_without_a_record_ends(
    subject: LogSubject, topic: str, start: int, end: int
) -> None:
    """Aborted records, a marker at the end, a marker alone."""
    subject.begin(topic, 0, b"no", b"no")(False)
    subject.begin(topic, 0, b"yes")(True)
    assert read(subject, topic, OffsetRange(0, start, end)) == []


def test_the_stable_end_is_never_below_the_start(subject: LogSubject, topic: str) -> None:
    """Records of a transaction that is still open can be deleted, too."""
    end = subject.begin(topic, 0, b"a", b"b")
    subject.trim(topic, 0, 2)
    found = bounds(subject, topic)
    assert found.start[0] == 2
    assert found.end[0] >= found.start[0]
    end(True)


# --- Times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment_ms", "expected"), [(0, 0), (200, 1), (201, 1), (300, 1), (301, 3)]
)
def test_a_moment_leads_to_the_first_record_at_or_after_it(
    subject: LogSubject, topic: str, moment_ms: int, expected: int
) -> None:
    """Whatever the order of times; a partition without one answers its end."""
    base = 1_700_000_000_000
    for after in (100, 300, 200):
        subject.produce(topic, 0, b"x", timestamp_ms=base + after)
    held = bounds(subject, topic)
    found = subject.log.offsets_at(topic, held.topic_id, held.end, base + moment_ms, NOW)
    assert found == Offsets({0: expected, 1: 0})


def test_a_moment_leads_nowhere_in_another_topic_of_the_name(
    subject: LogSubject, topic: str
) -> None:
    held = bounds(subject, topic)
    with pytest.raises(SeamlineError) as caught:
        subject.log.offsets_at(topic, "another", held.end, 0, NOW)
    assert caught.value.code is TOPIC_RECREATED


# --- Following -----------------------------------------------------------------------------------


def test_a_subscription_that_was_lost_is_followed_by_another(
    subject: LogSubject, topic: str
) -> None:
    subject.produce(topic, 0, b"a")
    for _ in range(2):
        followed = subject.log.follow(topic, Offsets({0: 0}), READ_COMMITTED, {}, patient=False)
        polled = followed.poll(30)
        followed.close(lost=True)
        assert [list(batch.values) for batch in polled.batches] == [[b"a"]]


@pytest.mark.parametrize("patient", [False, True])
def test_a_subscription_gives_what_has_come_since_and_passes_markers(
    subject: LogSubject, topic: str, patient: bool
) -> None:
    subject.produce(topic, 0, b"a")
    followed = subject.log.follow(topic, Offsets({0: 0, 1: 0}), READ_COMMITTED, {}, patient)
    try:
        first = followed.poll(30)
        assert [list(batch.values) for batch in first.batches] == [[b"a"]]
        assert first.positions == {0: 1}
        subject.begin(topic, 0, b"no")(False)
        subject.produce(topic, 0, b"b")
        values: list[bytes | None] = []
        positions: dict[int, int] = {}
        while positions.get(0) != 4:
            polled = followed.poll(30)
            values += [value for batch in polled.batches for value in batch.values]
            positions.update(polled.positions)
        assert values == [b"b"]
    finally:
        followed.close()


def test_a_subscription_whose_place_was_trimmed_says_so(subject: LogSubject, topic: str) -> None:
    for _ in range(3):
        subject.produce(topic, 0, b"x")
    subject.trim(topic, 0, 2)
    followed = subject.log.follow(topic, Offsets({0: 0}), READ_COMMITTED, {}, patient=False)
    try:
        assert refused(lambda: followed.poll(30)) == "LOG_TRIMMED"
    finally:
        followed.close()
