"""Goal: a read of a log says what became of the log, however the reader noticed it first.

Method: the log in memory is changed between the moment it was asked for its bounds and the read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.memory import MemoryLog

from seamline.connectors.kafka.continuity import checked
from seamline.connectors.protocols.deadlines import NoDeadline
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
    bounds = log.bounds([TOPIC], READ_COMMITTED, NoDeadline())[TOPIC]
    wanted = (OffsetRange(0, 2, 10),)
    read = LogRead(TOPIC, bounds.topic_id, READ_COMMITTED, wanted, bounds.end, bounds.leader_epochs)
    with pytest.raises(SeamlineError) as caught, checked(log, read, NoDeadline()):  # noqa: PT012
        if when == "before":
            change(log)
        for _ in log.read(TOPIC, wanted, READ_COMMITTED, NoDeadline()):
            pass
        if when == "after":
            change(log)
    assert caught.value.code is code
