"""Goal: a read of a log says what became of the log, however the reader noticed it first.

Method: the log in memory is changed between the moment it was asked for its bounds and the read.
What was found intact under a leader is not read again: reads are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from fakes.faulty import BehindLog
from fakes.memory import MemoryLog, Untimed

from seamline.connectors.kafka.continuity import check_not_truncated, check_read, checked
from seamline.errors import LOG_TRIMMED, LOG_TRUNCATED, TOPIC_RECREATED, ErrorCode, SeamlineError
from seamline.seam.history_checks import LogRead
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange

TOPIC = "orders"


def create_again(log: MemoryLog) -> None:
    log.create_topic(TOPIC, 1)


def create_again_and_trim(log: MemoryLog) -> None:
    log.create_topic(TOPIC, 1)
    for _ in range(20):
        log.produce(TOPIC, 0, b"{}")
    log.delete_records(TOPIC, 0, 15)


def trim(log: MemoryLog) -> None:
    log.delete_records(TOPIC, 0, 5)


def truncate(log: MemoryLog) -> None:
    log.truncate(TOPIC, 0, 3)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (create_again, TOPIC_RECREATED),
        (create_again_and_trim, TOPIC_RECREATED),
        (trim, LOG_TRIMMED),
        (truncate, LOG_TRUNCATED),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_read_says_what_became_of_the_log(
    change: Callable[[MemoryLog], None], code: ErrorCode, when: str
) -> None:
    log = MemoryLog()
    log.create_topic(TOPIC, 1)
    for _ in range(10):
        log.produce(TOPIC, 0, b"{}")
    bounds = log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]
    wanted = (OffsetRange(0, 2, 10),)
    read = LogRead(TOPIC, bounds.topic_id, READ_COMMITTED, wanted, bounds.end, bounds.leader_epochs)
    with pytest.raises(SeamlineError) as caught, checked(log, read, Untimed()):  # noqa: PT012
        if when == "before":
            change(log)
        for _ in log.read(TOPIC, wanted, READ_COMMITTED, Untimed()):
            pass
        if when == "after":
            change(log)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("requests", "code"), [(0, TOPIC_RECREATED), (3, TOPIC_RECREATED), (99, LOG_TRUNCATED)]
)
def test_a_log_is_asked_again_before_it_is_called_truncated(requests: int, code: ErrorCode) -> None:
    log = MemoryLog()
    log.create_topic(TOPIC, 1)
    for _ in range(10):
        log.produce(TOPIC, 0, b"{}")
    bounds = log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]
    read = LogRead.within(bounds, (OffsetRange(0, 2, 10),))
    create_again(log)
    behind = BehindLog(log, bounds.topic_id, requests)
    with pytest.raises(SeamlineError) as caught:
        check_read(behind, read, Untimed())
    assert caught.value.code is code


# --- Ends that were confirmed --------------------------------------------------------------------


class CountingLog(MemoryLog):
    """Counts the ranges that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges_read = 0
        self.create_topic(TOPIC, 2)
        for partition in (0, 1):
            for _ in range(10):
                self.produce(TOPIC, partition, b"{}")

    def read(self, topic: str, ranges: Sequence[OffsetRange], *args: Any, **how: Any) -> Any:
        self.ranges_read += len(ranges)
        return super().read(topic, ranges, *args, **how)

    def elect(self, partition: int = 0) -> None:
        """A clean election: the next leader has everything."""
        self.truncate(TOPIC, partition, 1_000)


def reads_to_check(log: CountingLog, ends: Mapping[int, int], epoch: int = 0) -> int:
    """How many ranges a check of ends that were seen under an epoch reads."""
    before = log.ranges_read
    bounds = log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]
    check_not_truncated(log, bounds, ends, dict.fromkeys(ends, epoch), Untimed())
    return log.ranges_read - before


def test_an_end_is_read_once_after_a_change_of_leader() -> None:
    log = CountingLog()
    assert reads_to_check(log, {0: 8, 1: 9}) == 0, "under its own leader"
    log.elect(0)
    assert [reads_to_check(log, {0: 8, 1: 9}) for _ in range(3)] == [1, 0, 0]
    log.elect(1)
    assert [reads_to_check(log, {0: 8, 1: 9}) for _ in range(3)] == [1, 0, 0]
    log.elect(0)
    assert [reads_to_check(log, {0: 8, 1: 9}) for _ in range(2)] == [1, 0], "another leader"


def test_a_confirmed_end_confirms_earlier_ones_of_its_epoch_alone() -> None:
    log = CountingLog()
    log.elect()
    log.elect()
    assert reads_to_check(log, {0: 8}) == 1
    assert reads_to_check(log, {0: 7}) == 0
    assert reads_to_check(log, {0: 9}) == 1, "a later end may have been lost"
    assert reads_to_check(log, {0: 9}, epoch=1) == 1, "epochs end at different offsets"


@pytest.mark.parametrize("confirmed", [0, 1, 2])
def test_a_truncation_after_a_confirmation_is_noticed(confirmed: int) -> None:
    log = CountingLog()
    log.elect()
    for _ in range(confirmed):
        reads_to_check(log, {0: 8})
    log.truncate(TOPIC, 0, 5)
    for _ in range(10):
        log.produce(TOPIC, 0, b"{}")
    for _ in range(2):
        with pytest.raises(SeamlineError) as caught:
            reads_to_check(log, {0: 8})
        assert caught.value.code is LOG_TRUNCATED


def test_a_later_end_that_was_lost_is_noticed_after_an_earlier_one_was_confirmed() -> None:
    log = CountingLog()
    log.truncate(TOPIC, 0, 6)
    for _ in range(10):
        log.produce(TOPIC, 0, b"{}")
    assert reads_to_check(log, {0: 6}) == 1
    with pytest.raises(SeamlineError) as caught:
        reads_to_check(log, {0: 7})
    assert caught.value.code is LOG_TRUNCATED


def test_another_topic_of_the_name_is_checked_for_itself() -> None:
    log = CountingLog()
    log.elect()
    assert reads_to_check(log, {0: 8}) == 1
    log.create_topic(TOPIC, 2)
    for _ in range(5):
        log.produce(TOPIC, 0, b"{}")
    log.elect()
    with pytest.raises(SeamlineError) as caught:
        reads_to_check(log, {0: 8})
    assert caught.value.code is LOG_TRUNCATED
