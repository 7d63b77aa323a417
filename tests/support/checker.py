"""Answers that must agree: DuckDB's, Spark's, and a replay of the log that shares no code.

`agree` reads a table once on DuckDB and again by the token of that reading, on Spark, on DuckDB,
and in a gateway that follows nothing and so reads the log itself: all must give the same multiset
of rows, types and nulls included. `Replay` is a consumer of
its own that decodes values with the plain `json` module; `agree_with_log` compares it, too. It
keeps what it has seen, so records that have left the log since are still known.
"""

from __future__ import annotations

import collections
import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from seamline.errors import SeamlineError
from seamline.gateway.statements.statement import Statement
from seamline.planners.plan.route import AUTO, ENGINES
from support.gateway import Gateway, statement_rows
from support.stack import Stack

Row = tuple[Any, ...]
METADATA = ("_kafka_partition", "_kafka_offset", "_kafka_timestamp", "_kafka_key", "_kafka_headers")
_READ_S = 30.0


class Replay:
    """What a topic has ever shown, in order, seen by a consumer of its own.

    Args:
        stack: Whose broker.
        topic: Name.
        isolation: `read_committed` or `read_uncommitted`.
    """

    def __init__(self, stack: Stack, topic: str, isolation: str = "read_committed") -> None:
        self._bootstrap_servers = stack.bootstrap_servers
        self._topic = topic
        self._isolation = isolation
        self.seen: dict[tuple[int, int], Message] = {}

    def catch_up(self) -> Replay:
        """Reads what has come since the last call, to the end as the isolation shows it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "replay",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": self._isolation,
                "log_level": 0,
            }
        )
        try:
            for message in self._messages(consumer):
                self.seen[(message.partition(), message.offset())] = message
        finally:
            consumer.close()
        return self

    def rows(self, names: Sequence[str]) -> list[Row]:
        """The records as rows: the named fields of their values, then `METADATA`."""
        return [_row(message, names) for _, message in sorted(self.seen.items())]

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        (topic,) = consumer.list_topics(self._topic, 10).topics.values()
        waiting = set(topic.partitions)
        next_offsets: dict[int, int] = {}
        for partition, offset in self.seen:
            next_offsets[partition] = max(offset + 1, next_offsets.get(partition, 0))
        consumer.assign(
            [
                TopicPartition(self._topic, p, next_offsets.get(p, OFFSET_BEGINNING))
                for p in topic.partitions
            ]
        )
        while waiting:
            (message,) = consumer.consume(1, _READ_S) or [None]
            assert message is not None, f"{self._topic} does not end within {_READ_S} s"
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition())


def _row(message: Message, names: Sequence[str]) -> Row:
    value = json.loads(message.value()) if message.value() is not None else {}
    kind, milliseconds = message.timestamp()
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC) if kind else None
    headers = [{"key": key, "value": value} for key, value in message.headers() or []]
    return (
        *(value.get(name) for name in names),
        message.partition(),
        message.offset(),
        moment,
        message.key(),
        headers or None,
    )


def multiset(rows: Sequence[Row]) -> collections.Counter[str]:
    """Rows without their order; Python's text of a value shows its type, too."""
    return collections.Counter(map(repr, rows))


def finished(statement: Statement) -> Statement:
    """The statement, which must have succeeded.

    Raises:
        SeamlineError: what it ended with.
    """
    if statement.error is not None:
        raise statement.error
    return statement


def agree(gateway: Gateway, sql: str, *, engine: str = "duckdb") -> Statement:
    """Runs a query once and again by its token in every way; the answers must be equal.

    Args:
        gateway: The gateway.
        sql: The query.
        engine: What it is first run on.

    Returns:
        The first statement.
    """
    first = finished(gateway.statement(sql, engine))
    expected = multiset(statement_rows(first))
    token = first.receipt["token"]
    own = first.receipt["engine"]
    own = own if own in ENGINES else AUTO
    for way, asked, again in (
        ("spark", gateway, "spark"),
        ("again", gateway, own),
        ("direct", gateway.direct, own),
    ):
        statement = finished(asked.statement(sql, again, token=token))
        assert [c.type for c in statement.output] == [c.type for c in first.output]
        found = multiset(statement_rows(statement))
        assert found == expected, (way, list((expected - found) + (found - expected))[:10])
    return first


def agree_with_log(
    gateway: Gateway, name: str, replay: Replay, columns: Sequence[str] = ("id", "text")
) -> Statement:
    """Reads a table that holds nothing but its log; both engines must return what the log held.

    Args:
        gateway: The gateway.
        name: The table.
        replay: What the log has shown; it is caught up.
        columns: The table's own columns.
    """
    listed = ", ".join((*columns, *METADATA))
    statement = agree(gateway, f"SELECT {listed} FROM {name}")
    expected = multiset(replay.catch_up().rows(columns))
    found = multiset(statement_rows(statement))
    assert found == expected, list((expected - found) + (found - expected))[:10]
    return statement


def failure(gateway: Gateway, sql: str, engine: str = "duckdb", **options: Any) -> SeamlineError:
    """The named error a query ends with."""
    error = gateway.statement(sql, engine, **options).error
    assert error is not None, sql
    return error
