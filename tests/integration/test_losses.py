"""Tables that go on after their log has lost records, or has become another log.

Goal: what was not lost stays readable, whatever else was; the way on is one recorded step, and
every answer after it is exact about what exists and says what does not.
Method: records are deleted from a real broker before they are tiered, topics are deleted and made
anew; answers on both engines are compared with what was sent and not taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from support.checker import finished
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import (
    INVALID_ARGUMENT,
    LOG_TRIMMED,
    STATEMENT_NOT_ALLOWED,
    TOKEN_EXPIRED,
    TOPIC_NOT_FOUND,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.commands import auditing
from seamline.gateway.query.deadline import no_deadline
from seamline.seam.boundary import boundary_of
from seamline.seam.offsets import OffsetRange

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, text varchar"
ENGINES = ("duckdb", "spark")


def rows_of(ids: range) -> list[dict[str, Any]]:
    return [{"id": i, "text": "x"} for i in ids]


def trim(stack: Stack, topic: str, before: Mapping[int, int]) -> None:
    """Lets partitions begin at other offsets."""
    offsets = [TopicPartition(topic, p, offset) for p, offset in before.items()]
    for future in stack.admin.delete_records(offsets).values():
        future.result(30)


def refused(gateway: Gateway, sql: str, code: ErrorCode, **options: Any) -> SeamlineError:
    """The error of a statement, which has this code."""
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, **options)
    assert caught.value.code is code, caught.value
    return caught.value


def ids(gateway: Gateway, sql: str, *options: Any, **named: Any) -> list[int]:
    return sorted(row[0] for row in gateway.rows(sql, *options, **named))


def with_a_gap(stack: Stack, name: str) -> None:
    """A table of two partitions: of 0, the log has lost offsets 4 and 5; of 1, nothing."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(4)), partition=0)
    stack.produce(name, rows_of(range(100, 104)), partition=1)
    stack.tier(name)
    stack.produce(name, rows_of(range(4, 10)), partition=0)
    stack.produce(name, rows_of(range(104, 110)), partition=1)
    trim(stack, name, {0: 6, 1: 3})


def test_reads_that_ask_for_no_lost_record_go_on(stack: Stack, gateway: Gateway, name: str) -> None:
    with_a_gap(stack, name)
    sql = f"SELECT id FROM {name} WHERE "
    intact = {
        "_kafka_partition = 1": [*range(100, 110)],
        "_kafka_partition IN (1, 7)": [*range(100, 110)],
        "_kafka_offset >= 6": [*range(6, 10), *range(106, 110)],
        "_kafka_offset < 4": [*range(4), *range(100, 104)],
        "_kafka_partition = 1 OR _kafka_offset > 7": [8, 9, *range(100, 110)],
    }
    lost = (
        "true",
        "_kafka_offset >= 5",
        "_kafka_offset = 4",
        "_kafka_partition <> 1",
        "id = 105",
        "_kafka_timestamp >= TIMESTAMP '2001-01-01 00:00:00 UTC'",  # nobody knows theirs
    )
    for engine in ENGINES:
        for condition, expected in intact.items():
            assert ids(gateway, sql + condition, engine=engine) == expected, condition
        for condition in lost:
            refused(gateway, sql + condition, LOG_TRIMMED, engine=engine)
    both = f"SELECT count(*) FROM {name} a, {name} b WHERE a._kafka_partition = 1 AND a.id = b.id"
    refused(gateway, both, LOG_TRIMMED)
    assert gateway.rows(both + " AND b._kafka_partition = 1") == [(10,)]
    assert gateway.rows(f'SELECT boundary FROM "{name}$seam" ORDER BY "partition"') == [(4,), (4,)]
    refused(gateway, f"EXPLAIN SELECT * FROM {name}", LOG_TRIMMED)
    explained = gateway.rows(f"EXPLAIN {sql} _kafka_partition = 1")
    assert any("pruned by position" in row[0] for row in explained)


def gaps_of(statement: Any) -> list[tuple[int, int, int]]:
    (table,) = statement.receipt["tables"]
    return [(gap["partition"], gap["start"], gap["end_exclusive"]) for gap in table["gaps"]]


def test_a_table_goes_on_once_its_loss_is_accepted(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(4)), partition=0)
    stack.produce(name, rows_of(range(100, 104)), partition=1)
    stack.tier(name)
    whole = f"SELECT id FROM {name}"
    tiered = finished(gateway.statement(whole)).receipt["token"]
    stack.produce(name, rows_of(range(4, 10)), partition=0)
    stack.produce(name, rows_of(range(104, 110)), partition=1)
    covers = finished(gateway.statement(whole)).receipt["token"]
    resume = f"ALTER TABLE {name} EXECUTE resume"
    before = stack.load(name).state.current_snapshot_id
    refused(gateway, f"{resume}(accept_loss => true)", STATEMENT_NOT_ALLOWED)
    trim(stack, name, {0: 6, 1: 3})
    refused(gateway, whole, LOG_TRIMMED)
    error = refused(gateway, resume, INVALID_ARGUMENT)
    assert "[4, 6) of partition 0" in error.message
    assert stack.load(name).state.current_snapshot_id == before, "nothing was committed"

    assert gateway.rows(f"{resume}(accept_loss => true)") == [
        ("gaps_count", 1),
        ("lost_offsets_count", 2),
    ]
    expected = [*range(4), *range(6, 10), *range(100, 110)]
    for engine in ENGINES:
        assert ids(gateway, whole, engine=engine) == expected
    statement = finished(gateway.statement(whole))
    assert gaps_of(statement) == [(0, 4, 6)]
    again = statement.receipt["token"]
    assert any("lacks 2 offsets" in row[0] for row in gateway.rows(f"EXPLAIN {whole}"))
    assert gateway.rows(f'SELECT lost FROM "{name}$seam" ORDER BY "partition"') == [(2,), (0,)]
    refused(gateway, f"{resume}(accept_loss => true)", STATEMENT_NOT_ALLOWED)
    assert ids(gateway, whole, token=tiered) == [*range(4), *range(100, 104)]
    refused(gateway, whole, TOKEN_EXPIRED, token=covers)

    stack.tier(name)
    assert ids(gateway, whole) == ids(gateway, whole, token=again) == expected
    state = stack.load(name).state
    (gap,) = boundary_of(state, state.current_snapshot_id).gaps
    assert (gap.partition, gap.start, gap.end_exclusive, gap.offsets) == (0, 4, 6, 2)
    assert gap.accepted_by
    assert gap.accepted_ms
    found = auditing.audit(
        stack.connections, stack.resolve(name), no_deadline(), lambda _text: None
    )
    assert found.is_clean
    assert [(f.kind, f.range, f.records) for f in found.found] == [
        (auditing.Kind.GAP, OffsetRange(0, 4, 6), 2)
    ]
    stack.spark.sql(f"CALL lake.system.rollback_to_snapshot('default.{name}', {before})").collect()
    refused(gateway, whole, LOG_TRIMMED)


def test_the_error_of_a_deleted_topic_says_what_can_still_be_read(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(4)))
    stack.tier(name)
    snapshot = stack.load(name).state.current_snapshot_id
    for future in stack.admin.delete_topics([name]).values():
        future.result(30)
    whole = f"SELECT id FROM {name}"
    wait_until(lambda: gateway.statement(whole).error is not None)
    error = refused(gateway, whole, TOPIC_NOT_FOUND)
    assert f'"{name}$cold"' in error.hint
    assert "FOR VERSION AS OF" in error.hint
    for still in (f'SELECT id FROM "{name}$cold"', f"{whole} FOR VERSION AS OF {snapshot}"):
        assert ids(gateway, still) == [*range(4)]
