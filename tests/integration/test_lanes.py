"""Subscriptions that share a consumer: each gets what is its own, and none hurts the others.

Method: a real broker, and one log whose subscriptions come and go between polls of the others.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

import pytest
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.kafka.lanes import LaneSubscription
from seamline.connectors.kafka.log import KafkaLog
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import Offsets

FLOOD = 10_000


class Shared:
    """A shared subscription, and what has come of it."""

    def __init__(
        self,
        log: KafkaLog,
        topic: str,
        starts: Mapping[int, int],
        *,
        epochs: Mapping[int, int] | None = None,
        patient: bool = False,
    ) -> None:
        self.offsets: dict[int, list[int]] = {partition: [] for partition in starts}
        self.positions = dict(starts)
        self._woken = threading.Event()
        self.subscription: LaneSubscription = log.share(
            topic,
            Offsets(starts),
            READ_COMMITTED,
            epochs or {},
            self._woken.set,
            patient=patient,
        )

    def poll_until(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        """The offsets that come until the positions reach the ends."""
        while any(self.positions[partition] < end for partition, end in ends.items()):
            assert self._woken.wait(30), f"{self.positions} of {ends}"
            assert not self.subscription.has_ended
            self._woken.clear()
            polled = self.subscription.poll()
            for batch in polled.batches:
                self.offsets[int(batch.partitions[0])] += map(int, batch.offsets)
            self.positions.update(polled.positions)
        return self.offsets

    def ends(self) -> bool:
        """Whether it ends before long."""
        wait_until(lambda: self.subscription.has_ended)
        return self.subscription.poll().positions == {}

    def close(self) -> None:
        """Closes it."""
        self.subscription.close()


@pytest.fixture
def log(stack: Stack) -> KafkaLog:
    """The log of the stack."""
    return stack.connections.log("default")


@pytest.mark.integration
@pytest.mark.parametrize("patient", [False, True])
def test_each_gets_every_record_from_its_start_once(
    stack: Stack, log: KafkaLog, name: str, patient: bool
) -> None:
    """However they come and go, and whatever of them the client has fetched by then."""
    drawn = random.Random(f"lanes {patient}")
    ends = {0: 120, 1: 80, 2: 40}
    stack.create_topic(name, len(ends))
    for partition, end in ends.items():
        stack.produce(name, [{"id": i} for i in range(end)], partition=partition)
    for _ in range(8 if patient else 40):
        starts = {p: drawn.randrange(end) for p, end in ends.items() if drawn.random() < 0.7}
        shared = Shared(log, name, starts, patient=patient)
        if drawn.random() < 0.3:
            shared.close()
            continue
        wanted = {p: drawn.randint(start, ends[p]) for p, start in starts.items()}
        found = shared.poll_until(wanted)
        shared.close()
        assert {p: (offsets or [starts[p]])[0] for p, offsets in found.items()} == starts
        for partition, offsets in found.items():
            stop = shared.positions[partition]
            assert offsets == list(range(starts[partition], stop))


@pytest.mark.integration
def test_two_tables_over_one_topic_get_the_same(stack: Stack, log: KafkaLog, name: str) -> None:
    stack.create_topic(name, 1)
    both = [Shared(log, name, {0: 0}) for _ in range(2)]
    stack.produce(name, [{"id": i} for i in range(5)])
    for shared in both:
        assert shared.poll_until({0: 5}) == {0: [0, 1, 2, 3, 4]}
        shared.close()


@pytest.mark.integration
def test_markers_and_aborted_records_are_passed(stack: Stack, log: KafkaLog, name: str) -> None:
    stack.create_topic(name, 1)
    shared = Shared(log, name, {0: 0})
    stack.transact(name, [{"id": 0}, {"id": 1}], commit=False, partition=0)
    assert shared.poll_until({0: 3}) == {0: []}
    stack.transact(name, [{"id": 2}], commit=True, partition=0)
    assert shared.poll_until({0: 5}) == {0: [3]}
    shared.close()


@pytest.mark.integration
def test_a_topic_that_gets_much_leaves_the_others_alone(
    stack: Stack, log: KafkaLog, name: str
) -> None:
    flooded = f"{name}_flooded"
    for topic in (name, flooded):
        stack.create_topic(topic, 1)
    slow, other = Shared(log, flooded, {0: 0}), Shared(log, name, {0: 0})
    stack.produce(flooded, [{"id": i} for i in range(FLOOD)])
    assert slow.ends()
    stack.produce(name, [{"id": 0}])
    assert other.poll_until({0: 1}) == {0: [0]}
    other.close()


@pytest.mark.integration
def test_what_is_wrong_with_a_topic_ends_its_own_alone(
    stack: Stack, log: KafkaLog, name: str
) -> None:
    """A place that was trimmed away, and records below it that another leader had."""
    trimmed = f"{name}_trimmed"
    for topic in (name, trimmed):
        stack.create_topic(topic, 1)
    stack.produce(trimmed, [{"id": i} for i in range(4)])
    stack.trim(trimmed, {0: 2})
    other = Shared(log, name, {0: 0})
    assert Shared(log, trimmed, {0: 1}).ends()
    assert Shared(log, trimmed, {0: 9}).ends()
    stack.produce(name, [{"id": 0}])
    assert other.poll_until({0: 1}) == {0: [0]}
    other.close()


@pytest.mark.integration
def test_a_lost_consumer_is_replaced_for_all(stack: Stack, log: KafkaLog, name: str) -> None:
    lost = f"{name}_lost"
    for topic in (name, lost):
        stack.create_topic(topic, 1)
        stack.produce(topic, [{"id": 0}])
    shared, other = Shared(log, lost, {0: 0}), Shared(log, name, {0: 0})
    for one in (shared, other):
        one.poll_until({0: 1})
    shared.subscription.close(lost=True)
    stack.produce(name, [{"id": 1}])
    assert other.poll_until({0: 2}) == {0: [0, 1]}
    other.close()
