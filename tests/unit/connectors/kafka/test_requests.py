"""Answers of a cluster, checked before they are believed.

Goal: an answer without an offset never becomes the end of a log, and is asked for again.
Method: answers in the client's own types, already there.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from seamline.connectors.kafka.requests import NO_SUCH_TIME, results, retried
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.deadline import no_deadline

NO_OFFSET = -1001


def answered(offset: int) -> dict[TopicPartition, concurrent.futures.Future[Any]]:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result(ListOffsetsResultInfo(offset, -1, -1))
    return {TopicPartition("t", 0): future}


def test_an_answer_without_an_offset_is_no_end() -> None:
    """A broker that has just started gives neither an error nor an offset."""
    with pytest.raises(SeamlineError) as caught:
        results(answered(NO_OFFSET), no_deadline())
    assert caught.value.code is KAFKA_UNAVAILABLE
    with pytest.raises(SeamlineError):
        results(answered(NO_SUCH_TIME), no_deadline())


def test_a_moment_after_the_last_record_has_no_offset() -> None:
    (answer,) = results(answered(NO_SUCH_TIME), no_deadline(), least=NO_SUCH_TIME).values()
    assert answer.offset == NO_SUCH_TIME
    with pytest.raises(SeamlineError):
        results(answered(NO_OFFSET), no_deadline(), least=NO_SUCH_TIME)


def test_it_is_asked_for_again() -> None:
    offsets = iter([NO_OFFSET, NO_OFFSET, 7])

    def ask() -> list[int]:
        found = results(answered(next(offsets)), no_deadline())
        return [answer.offset for answer in found.values()]

    refreshed: list[int] = []
    assert retried(ask, no_deadline(), lambda: refreshed.append(1)) == [7]
    assert len(refreshed) == 2, "the client looks up the leaders before each new try"
