"""Every read is exact while everything moves.

Goal: no row lost or doubled at the seam, by (partition, offset), whatever goes on.
Method: a producer, tiering, compaction and expiry run while a reader reads many times, and
until each of them has done something; each answer must hold exactly the offsets below the ends of
its own receipt, once each, and ends never go back.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest
from support.gateway import Gateway, statement_rows
from support.stack import Stack

from seamline.errors import COMMIT_CONFLICT, SeamlineError

SECONDS_MAX = 240.0
PAUSE_S = 0.2
"""Between two reads, and between two writes: the others need the processor, too."""
COLUMNS = "id bigint, text varchar"


def offsets_read(rows: list[tuple[int, ...]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition, offset, *_ in rows:
        found.setdefault(partition, []).append(offset)
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def below(end: dict[str, int]) -> dict[int, list[int]]:
    return {int(p): list(range(e)) for p, e in end.items() if e}


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.parametrize("reads_min", [4, pytest.param(200, marks=pytest.mark.soak)])
def test_reads_while_everything_moves(
    stack: Stack, gateway: Gateway, name: str, reads_min: int
) -> None:
    stack.create_topic(name, 3)
    stack.create_table(name, COLUMNS)
    stop = threading.Event()
    failures: list[BaseException] = []
    done = {"tiered": 0, "compacted": 0, "expired": 0}

    def forever(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001 - reported by the test
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    numbers = itertools.count()

    def produce() -> None:
        stack.produce(name, [{"id": next(numbers), "text": "x" * 20} for _ in range(40)])
        stop.wait(PAUSE_S)

    def tier() -> None:
        try:
            done["tiered"] += sum(step.offsets for step in stack.tier(name, records_max=3000))
        except SeamlineError as error:
            assert error.code is COMMIT_CONFLICT, error

    def look_after() -> None:
        try:
            result = stack.maintain(name, files_min=2)
        except SeamlineError as error:
            assert error.code is COMMIT_CONFLICT, error
        else:
            done["compacted"] += result.files_rewritten
            done["expired"] += result.snapshots_expired

    stack.spark  # started before the clock of anything else runs
    threads = [forever(work) for work in (produce, tier, look_after)]
    last_end: dict[str, int] = {}
    reads = hot = cold = 0
    try:
        ends_at = time.monotonic() + SECONDS_MAX
        while reads < reads_min or not cold or not all(done.values()):
            assert not failures, failures[0]
            assert time.monotonic() < ends_at, (reads, cold, done)
            reads += 1
            statement = gateway.statement(f"SELECT _kafka_partition, _kafka_offset FROM {name}")
            assert statement.error is None, statement.error
            receipt = statement.receipt
            end = receipt["tables"][0]["end"]
            assert offsets_read(statement_rows(statement)) == below(end)
            assert all(end[p] >= offset for p, offset in last_end.items())
            last_end = end
            hot += receipt["rows_hot"]
            cold += receipt["rows_cold"]
            stop.wait(PAUSE_S)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
    assert hot > 0
    stack.tier(name)
    rows = gateway.rows(f'SELECT count(*), count(DISTINCT id) FROM "{name}$cold"')
    produced = next(numbers)
    assert rows == [(produced, produced)]


@pytest.mark.integration
@pytest.mark.spark
def test_same_token_same_rows_on_both_engines(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [{"id": i, "text": f"t{i % 7}"} for i in range(3000)])
    stack.tier(name)
    stack.produce(name, [{"id": i, "text": f"t{i % 7}"} for i in range(3000, 4000)])
    sql = f"SELECT id, text, _kafka_partition, _kafka_offset, _kafka_timestamp FROM {name}"
    first = gateway.statement(sql, "duckdb")
    token = first.receipt["token"]
    stack.produce(name, [{"id": i, "text": "late"} for i in range(4000, 4500)])
    stack.tier(name)
    repeated = {
        engine: sorted(gateway.rows(sql, engine, token=token)) for engine in ("duckdb", "spark")
    }
    assert sorted(statement_rows(first)) == repeated["duckdb"] == repeated["spark"]
    assert len(repeated["spark"]) == 4000
    now = {engine: sorted(gateway.rows(sql, engine)) for engine in ("duckdb", "spark")}
    assert now["duckdb"] == now["spark"]
    assert len(now["spark"]) == 4500


@pytest.mark.prove
@pytest.mark.integration
@pytest.mark.spark
def test_a_large_tail_is_read_by_sparks_executors(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [{"id": i, "text": "cold"} for i in range(500)])
    stack.tier(name)
    stack.produce(name, [{"id": i, "text": "hot"} for i in range(500, 1500)])
    sql = f"SELECT text, count(*), sum(id) FROM {name} GROUP BY text"
    executor = gateway.parts.executor
    usual = executor._tail_rows_max
    executor._tail_rows_max = 100
    try:
        statement = gateway.statement(sql, "spark")
    finally:
        executor._tail_rows_max = usual
    assert statement.error is None, statement.error
    assert statement.receipt["tables"][0]["rows_hot"] is None
    assert sorted(statement_rows(statement)) == sorted(gateway.rows(sql, "duckdb"))


@pytest.mark.integration
def test_an_acknowledged_record_is_in_the_next_answer(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    for expected in range(1, 30):
        stack.produce(name, [{"id": expected, "text": "x"}])
        assert gateway.rows(f"SELECT count(*), max(id) FROM {name}") == [(expected, expected)]
