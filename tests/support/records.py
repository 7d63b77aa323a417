"""What the log itself holds, by an independent consumer: the oracle of what a table must hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from seamline.seam.boundary import boundary_of
from support.gateway import Gateway, statement_rows
from support.stack import Stack
from support.waiting import wait_until

Position = tuple[int, int]
"""(partition, offset)"""


def consumed(
    stack: Stack, topic: str, isolation: str = "read_committed"
) -> tuple[dict[Position, bytes | None], dict[int, int]]:
    """Every record of a topic by its position, and the exclusive end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.bootstrap_servers,
            "group.id": "oracle",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        pairs = [TopicPartition(topic, number) for number in sorted(numbers)]
        bounds = {p.partition: consumer.get_watermark_offsets(p, 30) for p in pairs}
        consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in bounds.items()])
        return _drain(consumer, len(bounds)), {p: high for p, (_, high) in bounds.items()}
    finally:
        consumer.close()


def _drain(consumer: Consumer, partitions: int) -> dict[Position, bytes | None]:
    records: dict[Position, bytes | None] = {}
    at_end: set[int] = set()

    def step() -> bool:
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                records[message.partition(), message.offset()] = message.value()
            else:
                at_end.add(message.partition())
        return len(at_end) == partitions

    wait_until(step, what="the consumer at the end of every partition")
    return records


def by_position(rows: list[tuple[Any, ...]]) -> Mapping[Position, tuple[Any, ...]]:
    """Rows that begin with partition and offset, each position once.

    Raises:
        AssertionError: when a position occurs twice.
    """
    found: dict[Position, tuple[Any, ...]] = {}
    for partition, offset, *rest in rows:
        assert (partition, offset) not in found, f"{partition}:{offset} is there twice"
        found[partition, offset] = tuple(rest)
    return found


def assert_tiered_exactly_once(stack: Stack, gateway: Gateway, name: str) -> None:
    """The cold rows of a table of (id, text) are the log's records, each once, up to its end."""
    records, ends = consumed(stack, name)
    state = stack.load(name).state
    assert dict(boundary_of(state, state.current_snapshot_id).next) == ends
    expected = {
        position: (body["id"], body["text"])
        for position, value in records.items()
        if (body := json.loads(value or b"null"))
    }
    columns = "_kafka_partition, _kafka_offset, id, text"
    of_the_log = "WHERE _kafka_offset IS NOT NULL"
    cold = gateway.rows(f'SELECT {columns} FROM "{name}$cold" {of_the_log}')
    assert by_position(cold) == expected
    read = gateway.statement(f"SELECT {columns} FROM {name} {of_the_log}")
    assert by_position(statement_rows(read)) == expected
    assert read.receipt["tables"][0]["offsets_hot"] == 0
