"""What the product's own Kafka clients do and do not do.

Goal: a read ends when it has what it asked for, leaves no trace in the broker, and works in a
process that was forked from one whose clients are in use.
Method: a few records in a real topic; deadlines that a read which waits for more would overrun.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from support.stack import Stack

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange

pytestmark = pytest.mark.integration
RECORDS = 3
READ_S = 20.0
SILENT_S = 3


def read(cluster: Cluster, topic: str) -> int:
    """How many records a read of all of them gives, within a deadline."""
    ranges = [OffsetRange(0, 0, RECORDS)]
    log = KafkaLog(cluster, silent_s=SILENT_S)
    batches = log.read(topic, ranges, READ_COMMITTED, StatementDeadline(READ_S))
    return sum(len(batch) for batch in batches)


def test_a_read_waits_for_no_more_than_it_asked_for(stack: Stack, name: str) -> None:
    """pitfall: `consume(n, timeout)` waits for n."""
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i} for i in range(RECORDS)])
    cluster = Cluster(stack.config.clusters["default"])
    for _ in range(10):  # every one from the pool, with the same deadline for all
        assert read(cluster, name) == RECORDS
    cluster.close()


class Silent:
    """A consumer that gives a record, and from then on nothing."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._given = False

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._consumer, attribute)

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        messages = [] if self._given else self._consumer.consume(1, timeout_s)
        self._given = self._given or any(message.error() is None for message in messages)
        return messages


class FirstIsSilent(Cluster):
    """A cluster whose first consumer falls silent."""

    made = 0

    @contextlib.contextmanager
    def consumer(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with super().consumer(*arguments, **options) as consumer:
            self.made += 1
            yield Silent(consumer) if self.made == 1 else consumer


def test_a_read_goes_on_with_another_consumer_when_one_falls_silent(
    stack: Stack, name: str
) -> None:
    """A client may wait on a lost connection until its broker closes it, which takes minutes."""
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i} for i in range(RECORDS)])
    cluster = FirstIsSilent(stack.config.clusters["default"])
    assert read(cluster, name) == RECORDS
    assert cluster.made == 2
    assert read(cluster, name) == RECORDS, "the silent one is not in the pool"
    cluster.close()


def test_readers_join_no_group(stack: Stack, name: str) -> None:
    """pitfall: readers that join a group are rebalanced, fenced, and commit offsets."""
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i} for i in range(RECORDS)])
    cluster = Cluster(stack.config.clusters["default"])
    assert read(cluster, name) == RECORDS
    groups = stack.admin.list_consumer_groups().result(30)
    assert not groups.errors
    assert "seamline-reader" not in {group.group_id for group in groups.valid}
    cluster.close()


def _read_in_child(config: ClusterConfig, topic: str, answer: Connection) -> None:
    answer.send(read(Cluster(config), topic))


def test_a_forked_process_reads_with_clients_of_its_own(stack: Stack, name: str) -> None:
    """pitfall: librdkafka's clients do not survive a fork."""
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i} for i in range(RECORDS)])
    config = stack.config.clusters["default"]
    cluster = Cluster(config)
    assert read(cluster, name) == RECORDS
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_read_in_child, args=(config, name, theirs))
    child.start()
    assert ours.poll(6 * READ_S)
    assert ours.recv() == RECORDS
    child.join()
    assert child.exitcode == 0
    assert read(cluster, name) == RECORDS, "the parent's go on"
    cluster.close()
