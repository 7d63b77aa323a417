"""Logs with holes, and logs that are no longer what they were.

Goal: transactions, markers, deleted records, added partitions, odd times and odd
records change no answer; a topic or a broker that lost what the table relies on is a named error,
never fewer or other rows.
Method: every state is read on DuckDB, on Spark and again by its token, and compared with a replay
of the log by a consumer of its own, which remembers what has left the log since.
"""

from __future__ import annotations

import datetime
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    NewPartitions,
)
from support.checker import (
    Replay,
    agree,
    agree_with_log,
    failure,
    finished,
)
from support.gateway import Gateway, statement_rows
from support.stack import Stack

from seamline.errors import SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.spark]
COLUMNS = "id bigint, text varchar"


def rows_of(ids: range, text: str = "x") -> list[dict[str, Any]]:
    return [{"id": i, "text": text} for i in ids]


def table_of(stack: Stack, name: str, partitions: int = 1, **settings: str) -> None:
    stack.create_topic(name, partitions, {k.replace("_", "."): v for k, v in settings.items()})
    stack.create_table(name, COLUMNS)


def boundary(stack: Stack, name: str) -> dict[int, int]:
    state = stack.load(name).state
    return dict(boundary_of(state, state.current_snapshot_id).next)


def tier_step(stack: Stack, name: str, records_max: int) -> Outcome:
    log = stack.connections.log("default")
    step = tier_once(stack.tier_table(name), log, no_deadline(), records_max=records_max)
    return step.outcome


def token_of(statement: Any) -> str:
    return str(statement.receipt["token"])


def ids(gateway: Gateway, sql: str, **options: Any) -> list[int]:
    return sorted(row[0] for row in gateway.rows(sql, **options))


# --- Transactions and their markers --------------------------------------------------------------


@pytest.mark.soak
def test_every_boundary_and_every_end_around_markers(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    # pitfall: control markers: at B, at E-1, in the middle, and as a whole range
    table_of(stack, name)
    replay = Replay(stack, name)
    tokens: list[tuple[str, list[int]]] = []
    events: Sequence[tuple[str, int]] = [
        ("commit", 3), ("abort", 2), ("plain", 2), ("abort", 1), ("commit", 1), ("abort", 0),
    ]  # fmt: skip
    numbers = itertools.count()
    for kind, count in events:
        values = [{"id": next(numbers), "text": kind} for _ in range(count)]
        if kind == "plain":
            stack.produce(name, values, partition=0)
        else:
            stack.transact(name, values, commit=kind == "commit", partition=0)
        statement = finished(gateway.statement(f"SELECT id FROM {name}"))
        tokens.append(
            (statement.receipt["token"], sorted(row[0] for row in statement_rows(statement)))
        )
    end = stack.bounds(name).end[0]
    expected = [row[0] for row in replay.catch_up().rows(["id"])]
    assert tokens[-1][1] == expected == [0, 1, 2, 5, 6, 8]
    boundaries = []
    outcomes = set()
    while (outcome := tier_step(stack, name, 1)) is not Outcome.IDLE:
        outcomes.add(outcome)
        boundaries.append(boundary(stack, name)[0])
        assert ids(gateway, f"SELECT id FROM {name}") == expected
    assert boundaries == list(range(1, end + 1)), "every offset has been the boundary"
    assert outcomes == {Outcome.ROWS, Outcome.PROGRESS}
    for token, then in tokens:
        assert ids(gateway, f"SELECT id FROM {name}", token=token) == then
    stack.transact(name, [{"id": 99, "text": "aborted"}], commit=False, partition=0)
    statement = agree_with_log(gateway, name, replay)
    assert statement.receipt["tables"][0]["offsets_hot"] == 2, "nothing but a hole"
    assert statement.receipt["rows_hot"] == 0


@pytest.mark.soak
def test_open_and_timed_out_transactions(stack: Stack, gateway: Gateway, name: str) -> None:
    # pitfall: an open transaction holds the stable end back: the receipt says so
    table_of(stack, name)
    replay = Replay(stack, name)
    stack.produce(name, rows_of(range(3)))
    dying = stack.producer(**{"transactional.id": name, "transaction.timeout.ms": 8000})
    dying.init_transactions(60)
    dying.begin_transaction()
    dying.produce(name, b'{"id": 90, "text": "timed out"}')
    assert dying.flush(30) == 0
    stack.produce(name, rows_of(range(3, 6)))
    waiting = finished(gateway.statement(f"SELECT id FROM {name}"))
    assert sorted(statement_rows(waiting)) == [(0,), (1,), (2,)]
    assert waiting.receipt["tables"][0]["pending_offsets"] == 4
    stack.tier(name)
    stack.wait_for_markers(name)  # the broker looks for such transactions every ten seconds
    with pytest.raises(KafkaException):
        dying.commit_transaction(10)
    agreed = agree_with_log(gateway, name, replay)
    assert ids(gateway, f"SELECT id FROM {name}") == list(range(6))
    assert agreed.receipt["tables"][0]["pending_offsets"] == 0
    stack.tier(name)
    agree_with_log(gateway, name, replay)
    assert ids(gateway, f"SELECT id FROM {name}", token=token_of(waiting)) == [0, 1, 2]


@pytest.mark.soak
def test_a_table_of_uncommitted_records(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, isolation="read_uncommitted")
    replay = Replay(stack, name, "read_uncommitted")
    stack.transact(name, rows_of(range(3)), commit=False, partition=0)
    producer = stack.producer(**{"transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(name, b'{"id": 3, "text": "open"}')
    assert producer.flush(30) == 0
    agree_with_log(gateway, name, replay)
    stack.tier(name)
    producer.abort_transaction(60)
    stack.wait_for_markers(name)
    agree_with_log(gateway, name, replay)
    assert ids(gateway, f"SELECT id FROM {name}") == [0, 1, 2, 3]


# --- Deleted records -----------------------------------------------------------------------------


def test_records_deleted_below_at_and_beyond_the_boundary(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table_of(stack, name, 2)
    replay = Replay(stack, name)
    for partition in (0, 1):
        stack.produce(
            name, rows_of(range(partition * 100, partition * 100 + 20)), partition=partition
        )
    stack.tier(name)
    for partition in (0, 1):
        stack.produce(
            name, rows_of(range(500 + partition * 100, 510 + partition * 100)), partition=partition
        )
    token = token_of(agree_with_log(gateway, name, replay))
    for below_or_at in (7, 20):
        stack.trim(name, {0: below_or_at})
        assert len(statement_rows(agree_with_log(gateway, name, replay))) == 60
    stack.trim(name, {0: 23})
    for engine in ("duckdb", "spark"):
        error = failure(gateway, f"SELECT count(*) FROM {name}", engine)
        assert error.code.name == "LOG_TRIMMED"
        assert "3 offsets" in error.message
        assert failure(gateway, f"SELECT id FROM {name}", engine, token=token).code.name == (
            "TOKEN_EXPIRED"
        )
    # pitfall: a predicate that prunes every cold file made the hot read start at earliest
    pruned = failure(gateway, f"SELECT count(*) FROM {name} WHERE id > 500")
    assert pruned.code.name == "LOG_TRIMMED"
    present = f"SELECT count(*) FROM {name} WHERE _kafka_offset > 25 AND id > 500"
    assert gateway.rows(present) == [(8,)]
    with pytest.raises(SeamlineError, match="3 offsets"):
        stack.tier(name)
    cold = gateway.rows(f'SELECT count(*), min(id), max(id) FROM "{name}$cold"')
    assert cold == [(40, 0, 119)]


def test_records_are_deleted_while_they_are_read(stack: Stack, gateway: Gateway, name: str) -> None:
    """As soon as they are tiered; whoever still reads them in the log starts over."""
    table_of(stack, name, 2)
    stack.spark  # started before the clock of anything else runs
    stop = threading.Event()
    failures: list[BaseException] = []
    trimmed = 0

    def produce_tier_and_trim() -> None:
        nonlocal trimmed
        numbers = itertools.count()
        try:
            while not stop.is_set():
                stack.produce(name, [{"id": next(numbers), "text": "x" * 500} for _ in range(400)])
                stack.tier(name)
                stack.trim(name, boundary(stack, name))
                trimmed += 1
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    thread = threading.Thread(target=produce_tier_and_trim)
    thread.start()
    reads = retries = 0
    try:
        while trimmed < 5 or reads < 40:
            assert not failures, failures[0]
            statement = finished(
                gateway.statement(f"SELECT _kafka_partition, _kafka_offset FROM {name}")
            )
            end = statement.receipt["tables"][0]["end"]
            expected = [(int(p), offset) for p, e in end.items() for offset in range(e)]
            assert sorted(statement_rows(statement)) == expected
            retries += statement.receipt["retries"]
            reads += 1
    finally:
        stop.set()
        thread.join()
    assert not failures, failures[0]


# --- Partitions ----------------------------------------------------------------------------------


def test_partitions_are_added_while_it_is_read(stack: Stack, gateway: Gateway, name: str) -> None:
    """Where the key's partition was known, it is not any more."""
    # pitfall: partitions only in the table or only in the log were missed
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, key="text", key_partitioner="crc32")
    replay = Replay(stack, name)
    numbers = itertools.count()

    def produce(count: int) -> None:
        values = [{"id": next(numbers), "text": f"k{i % 5}"} for i in range(count)]
        stack.produce(name, values, keys=[str(value["text"]) for value in values])

    produce(10)
    for partitions in (3, 6):
        add_partitions(stack, name, partitions)
        produce(20)
        agree_with_log(gateway, name, replay)
        expected = [row[0] for row in replay.rows(["id", "text"]) if row[1] == "k3"]
        assert ids(gateway, f"SELECT id FROM {name} WHERE text = 'k3'") == sorted(expected)
        if partitions == 3:
            stack.tier(name)
            agree_with_log(gateway, name, replay)

    def read() -> None:
        for count in itertools.count(1):
            statement = finished(
                gateway.statement(f"SELECT _kafka_partition, _kafka_offset FROM {name}")
            )
            end = statement.receipt["tables"][0]["end"]
            found = sorted(statement_rows(statement))
            assert found == [(int(p), o) for p, e in end.items() for o in range(e)]
            if count >= 10 and len(end) == 9:
                return

    readers = [Reader(read) for _ in range(2)]
    for partitions in (7, 8, 9):
        add_partitions(stack, name, partitions)
        produce(20)
    for reader in readers:
        reader.end()
    stack.tier(name)
    agree_with_log(gateway, name, replay)


class Reader(threading.Thread):
    """Work on a thread of its own, whose failure is raised where it is waited for."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._error = error

    def end(self) -> None:
        self.join()
        if self._error is not None:
            raise self._error


def add_partitions(stack: Stack, name: str, count: int) -> None:
    for future in stack.admin.create_partitions([NewPartitions(name, count)]).values():
        future.result(30)


# --- Another log under the same name -------------------------------------------------------------


@pytest.mark.one_in(prove=3)
@pytest.mark.parametrize(
    ("partitions", "records"),
    [(2, 4), (2, 60), (1, 40), (4, 40), (2, 0)],
    ids=["shorter", "grown past the boundary", "fewer", "more", "empty"],
)
def test_the_topic_was_created_again(
    stack: Stack, gateway: Gateway, name: str, partitions: int, records: int
) -> None:
    # pitfall: topic recreated under the same name, also grown past B: only its id shows it
    table_of(stack, name, 2)
    stack.produce(name, rows_of(range(20)))
    stack.tier(name)
    stack.produce(name, rows_of(range(20, 24)))
    with gateway.connect() as connection:
        sql = f"SELECT count(*) FROM {name}"
        assert connection.execute(sql).fetchall() == [(24,)]
        token = gateway.statement(sql).receipt["token"]
        stack.recreate_topic(name, partitions)
        stack.produce(name, rows_of(range(1000, 1000 + records)))
        for engine in ("duckdb", "spark"):
            assert failure(gateway, sql, engine).code.name == "TOPIC_RECREATED"
        assert failure(gateway, sql, token=token).code.name == "HISTORY_CHANGED"
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name)
    assert caught.value.code.name == "TOPIC_RECREATED"
    assert gateway.rows(f'SELECT count(*) FROM "{name}$cold"') == [(20,)]


# --- Time ----------------------------------------------------------------------------------------

START_MS = 1_700_000_000_000
MOMENTS = (0, 1, 3, 6, 9)


@pytest.mark.soak
@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
def test_predicates_on_time(stack: Stack, gateway: Gateway, name: str, stamped: str) -> None:
    # pitfall: time taken for a cut: times are not in the order of offsets; upper bounds cut nothing
    table_of(stack, name, message_timestamp_type=stamped)
    replay = Replay(stack, name)

    def produce(seconds: Sequence[int]) -> None:
        producer = stack.producer()
        for second in seconds:
            value = json.dumps({"id": second, "text": "x"}).encode()
            producer.produce(name, value, timestamp=START_MS + 1000 * second)
            assert producer.flush(30) == 0

    produce([5, 1, 9, 0, 3])
    stack.tier(name)
    produce([8, 2, 9, 1, 6, 0, 3, 3])
    agree_with_log(gateway, name, replay)
    rows = replay.rows(["id", "text"])
    times = sorted({row[4] for row in rows})
    if stamped == "CreateTime":
        times = [
            datetime.datetime.fromtimestamp(START_MS / 1000 + s, datetime.UTC) for s in MOMENTS
        ]
    comparisons: Mapping[str, Callable[[Any, Any], bool]] = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        "=": lambda a, b: a == b,
        ">=": lambda a, b: a >= b,
        ">": lambda a, b: a > b,
    }
    for moment, (sign, holds) in itertools.product(times, comparisons.items()):
        where = f"_kafka_timestamp {sign} TIMESTAMP '{moment.isoformat(' ')}'"
        found = gateway.rows(f"SELECT _kafka_offset FROM {name} WHERE {where}")
        assert sorted(found) == [(row[3],) for row in rows if holds(row[4], moment)], where
    low, high = times[1], times[-2]
    between = f"_kafka_timestamp BETWEEN TIMESTAMP '{low}' AND TIMESTAMP '{high}'"
    agreed = agree(gateway, f"SELECT _kafka_offset FROM {name} WHERE {between}")
    expected = [(row[3],) for row in rows if low <= row[4] <= high]
    assert sorted(statement_rows(agreed)) == expected


# --- Records -------------------------------------------------------------------------------------


@pytest.mark.soak
def test_codecs_headers_nulls_and_the_largest_record(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table_of(stack, name, 2)
    replay = Replay(stack, name)

    def produce() -> None:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = stack.producer(**{"compression.type": codec, "linger.ms": 50})
            for number in range(6):
                produce_odd(producer, name, number, codec)
            assert producer.flush(30) == 0
        large = {"id": 10**6, "text": "é" * ((1_000_000 - 200) // 2)}
        stack.produce(name, [json.dumps(large, ensure_ascii=False).encode()])

    produce()
    agree_with_log(gateway, name, replay)
    stack.tier(name)
    produce()
    agreed = agree_with_log(gateway, name, replay)
    longest = max(len(row[1] or "") for row in statement_rows(agreed))
    assert longest == (1_000_000 - 200) // 2


def produce_odd(producer: Producer, name: str, number: int, codec: str) -> None:
    headers: list[Any] = [
        ("h", b"1"), ("h", None), ("h", b"1"), ("", b""), ("é", b"\xff"), ("codec", codec.encode()),
    ][: number + 1]  # fmt: skip
    value = json.dumps({"id": number, "text": codec * number}).encode() if number != 2 else None
    producer.produce(
        name,
        value,
        key=[None, b"", b"\x00\xff", "é".encode(), b"k", b"k"][number],
        headers=headers if number else None,
        partition=number % 2,
    )
