"""Tables that go on after their log has lost records, or has become another log.

Goal: what was not lost stays readable, whatever else was; the way on is one recorded step, and
every answer after it is exact about what exists and says what does not.
Method: records are deleted from a real broker before they are tiered, topics are deleted and made
anew; answers on both engines are compared with what was sent and not taken away.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.checker import finished
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import (
    HISTORY_CHANGED,
    INVALID_ARGUMENT,
    LOG_TRIMMED,
    STATEMENT_NOT_ALLOWED,
    TOKEN_EXPIRED,
    TOPIC_NOT_FOUND,
    TOPIC_RECREATED,
    UPSERT_ORDER_UNKNOWN,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.commands import auditing
from seamline.gateway.deadline import no_deadline
from seamline.seam.boundary import Boundary, boundary_of
from seamline.seam.offsets import OffsetRange

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, text varchar"
ENGINES = ("duckdb", "spark")


def rows_of(ids: range) -> list[dict[str, Any]]:
    return [{"id": i, "text": "x"} for i in ids]


def refused(gateway: Gateway, sql: str, code: ErrorCode, **options: Any) -> SeamlineError:
    """The error of a statement, which has this code."""
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, **options)
    assert caught.value.code is code, caught.value
    return caught.value


def ids(gateway: Gateway, sql: str, *options: Any, **named: Any) -> list[int]:
    return sorted(row[0] for row in gateway.rows(sql, *options, **named))


def tiered_once(stack: Stack, name: str) -> None:
    """A table of two partitions, with four records of each."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(4)), partition=0)
    stack.produce(name, rows_of(range(100, 104)), partition=1)
    stack.tier(name)


def with_a_gap(stack: Stack, name: str) -> None:
    """A table of two partitions: of 0, the log has lost offsets 4 and 5; of 1, nothing."""
    tiered_once(stack, name)
    stack.produce(name, rows_of(range(4, 10)), partition=0)
    stack.produce(name, rows_of(range(104, 110)), partition=1)
    stack.trim(name, {0: 6, 1: 3})


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
    tiered_once(stack, name)
    whole = f"SELECT id FROM {name}"
    tiered = finished(gateway.statement(whole)).receipt["token"]
    stack.produce(name, rows_of(range(4, 10)), partition=0)
    stack.produce(name, rows_of(range(104, 110)), partition=1)
    covers = finished(gateway.statement(whole)).receipt["token"]
    resume = f"ALTER TABLE {name} EXECUTE resume"
    before = stack.load(name).state.current_snapshot_id
    refused(gateway, f"{resume}(accept_loss => true)", STATEMENT_NOT_ALLOWED)
    stack.trim(name, {0: 6, 1: 3})
    refused(gateway, whole, LOG_TRIMMED)
    error = refused(gateway, resume, INVALID_ARGUMENT)
    assert "[4, 6) of partition 0" in error.message
    assert stack.load(name).state.current_snapshot_id == before, "nothing was committed"

    assert gateway.rows(f"{resume}(accept_loss => true)") == [
        ("gaps_count", 1),
        ("lost_offsets_count", 2),
        ("earlier_logs_count", 0),
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


def of_another_log(stack: Stack, gateway: Gateway, name: str) -> str:
    """A table that goes on after its topic was recreated; returns the id of the earlier log.

    The earlier log had 4 records in each of 2 partitions in the table, and lost 2. The present one
    has 6 records in each of 3 partitions, at the same offsets.
    """
    tiered_once(stack, name)
    stack.produce(name, rows_of(range(4, 6)), partition=0)
    topic_id = str(boundary_of_head(stack, name).topic_id)
    stack.recreate_topic(name, 3)
    for partition in range(3):
        first = 1000 * (partition + 1)
        stack.produce(name, rows_of(range(first, first + 6)), partition=partition)
    refused(gateway, f"SELECT id FROM {name}", TOPIC_RECREATED)
    error = refused(gateway, f"ALTER TABLE {name} EXECUTE resume", INVALID_ARGUMENT)
    assert f"(id {topic_id}) had from the offsets 4 of partition 0, 4 of partition 1" in (
        error.message
    )
    assert gateway.rows(f"ALTER TABLE {name} EXECUTE resume(accept_loss => true)") == [
        ("gaps_count", 0),
        ("lost_offsets_count", 0),
        ("earlier_logs_count", 1),
    ]
    return topic_id


def boundary_of_head(stack: Stack, name: str) -> Boundary:
    state = stack.load(name).state
    return boundary_of(state, state.current_snapshot_id)


EARLIER = [*range(4), *range(100, 104)]
PRESENT = [1000 * p + i for p in (1, 2, 3) for i in range(6)]


def test_a_table_goes_on_with_another_log(stack: Stack, gateway: Gateway, name: str) -> None:
    topic_id = of_another_log(stack, gateway, name)
    whole = f"SELECT id FROM {name}"

    def check(expected: list[int], token: str) -> None:
        for engine in ENGINES:
            assert ids(gateway, whole, engine=engine) == expected
            assert ids(gateway, whole, engine=engine, token=token) == [*EARLIER, *PRESENT]
            some = f"{whole} WHERE _kafka_partition = 0 AND _kafka_offset < 2"
            assert ids(gateway, some, engine=engine) == [0, 1, 1000, 1001]

    statement = finished(gateway.statement(whole))
    (read,) = statement.receipt["tables"]
    assert (read["earlier_logs"], read["rows_cold"]) == (1, 8)
    token = statement.receipt["token"]
    check([*EARLIER, *PRESENT], token)
    (before,) = gateway.rows("SELECT now()")[0]
    wait_until(lambda: gateway.rows("SELECT now()")[0][0] > before)
    stack.produce(name, rows_of(range(1006, 1009)), partition=0)
    stack.tier(name)
    check(sorted([*EARLIER, *PRESENT, 1006, 1007, 1008]), token)
    again = finished(gateway.statement(whole)).receipt["token"]
    stack.produce(name, rows_of(range(2006, 2008)), partition=1)
    stack.tier(name)
    stack.produce(name, rows_of(range(3006, 3008)), partition=2)
    for engine in ENGINES:
        for first, later in ((token, [1006, 1007, 1008]), (again, [])):
            changes = f"SELECT id FROM TABLE(changes('{name}', '{first}'))"
            expected = sorted([*later, 2006, 2007, 3006, 3007])
            assert ids(gateway, changes, engine=engine) == expected
        everything = f"SELECT id FROM TABLE(changes('{name}', 'beginning'))"
        assert ids(gateway, everything, engine=engine) == ids(gateway, whole, engine=engine)
        travel = f"{whole} FOR TIMESTAMP AS OF TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f} UTC'"
        assert ids(gateway, travel, engine=engine) == [*EARLIER, *PRESENT]
    stack.trim(name, {0: 9, 1: 8, 2: 6})  # only the table knows when its records were written
    assert ids(gateway, travel) == [*EARLIER, *PRESENT]
    found = auditing.audit(
        stack.connections, stack.resolve(name), no_deadline(), lambda _text: None
    )
    assert (found.is_clean, found.earlier, found.found) == (True, 8, ())
    boundary = boundary_of_head(stack, name)
    (log,) = boundary.earlier_logs
    assert (log.topic_id, dict(log.next)) == (topic_id, {0: 4, 1: 4})
    assert log.accepted_by
    assert any("rows of a log from before" in row[0] for row in gateway.rows(f"EXPLAIN {whole}"))

    stack.recreate_topic(name, 1)
    stack.produce(name, rows_of(range(7, 9)))
    refused(gateway, whole, TOPIC_RECREATED)
    refused(gateway, whole, HISTORY_CHANGED, token=token)
    gateway.rows(f"ALTER TABLE {name} EXECUTE resume(accept_loss => true)")
    stack.tier(name)
    kept = sorted([*EARLIER, *PRESENT, *range(1006, 1009), 2006, 2007, 7, 8])
    for engine in ENGINES:
        assert ids(gateway, whole, engine=engine) == kept
    assert len(boundary_of_head(stack, name).earlier_logs) == 2


@pytest.mark.soak
def test_an_upsert_table_goes_on_with_another_log(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS, mode="upsert", primary_key=("id",), key="id")

    def produce(numbers: range, text: str) -> None:
        rows = [{"id": i, "text": text} for i in numbers]
        stack.produce(name, rows, keys=[str(i) for i in numbers])

    produce(range(20), "first")
    produce(range(20), "second")
    stack.tier(name)
    stack.recreate_topic(name, 2)
    produce(range(10, 30), "third")
    rows = f"SELECT id, text FROM {name} ORDER BY id"
    refused(gateway, rows, TOPIC_RECREATED)
    gateway.rows(f"ALTER TABLE {name} EXECUTE resume(accept_loss => true)")
    expected = [(i, "second" if i < 10 else "third") for i in range(30)]
    for _ in range(2):
        for engine in ENGINES:
            assert gateway.rows(rows, engine=engine) == expected
        refused(gateway, f"SELECT * FROM TABLE(changes('{name}', 'beginning'))", TOPIC_RECREATED)
        stack.tier(name)
    stack.recreate_topic(name, 3)
    refused(gateway, f"ALTER TABLE {name} EXECUTE resume", UPSERT_ORDER_UNKNOWN)


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
