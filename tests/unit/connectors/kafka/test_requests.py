"""Answers of a cluster, checked before they are believed.

Goal: an answer without an offset never becomes the end of a log, and is asked for again.
Method: answers in the client's own types, already there.
"""

from __future__ import annotations

import concurrent.futures

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from seamline.connectors.kafka.requests import NO_SUCH_TIME, Answers, offsets_of, results, retried
from seamline.errors import KAFKA_UNAVAILABLE, TOPIC_NOT_FOUND, ErrorCode, SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.seam.offsets import Offsets

NO_OFFSET = -1001


def answered(*answers: int | KafkaError) -> concurrent.futures.Future[Answers]:
    """What the client gives for the first partitions of a topic: offsets or errors."""
    future: concurrent.futures.Future[Answers] = concurrent.futures.Future()
    future.set_result(
        {
            TopicPartition("t", partition): answer
            if isinstance(answer, KafkaError)
            else ListOffsetsResultInfo(answer, -1, -1)
            for partition, answer in enumerate(answers)
        }
    )
    return future


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


@pytest.mark.parametrize(
    ("kafka_code", "code"),
    [
        (KafkaError._UNKNOWN_PARTITION, TOPIC_NOT_FOUND),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KAFKA_UNAVAILABLE),
    ],
)
def test_an_error_of_one_partition_is_an_error_of_all(kafka_code: int, code: ErrorCode) -> None:
    with pytest.raises(SeamlineError) as caught:
        results(answered(3, KafkaError(kafka_code), 5), no_deadline())
    assert caught.value.code is code


def test_a_leader_that_moves_is_asked_for_again() -> None:
    moving = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    left = [answered(1, 2), answered(1, moving), answered(moving, 2)]
    answers = retried(lambda: results(left.pop(), no_deadline()), no_deadline(), lambda: None)
    assert offsets_of(answers, "t") == Offsets({0: 1, 1: 2})


def test_it_is_asked_for_again() -> None:
    offsets = iter([NO_OFFSET, NO_OFFSET, 7])

    def ask() -> list[int]:
        found = results(answered(next(offsets)), no_deadline())
        return [answer.offset for answer in found.values()]

    refreshed: list[int] = []
    assert retried(ask, no_deadline(), lambda: refreshed.append(1)) == [7]
    assert len(refreshed) == 2, "the client looks up the leaders before each new try"
