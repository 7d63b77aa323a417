"""Tiering moves the tail into the table and changes nothing that a reader can see.

Goal: whatever the log, the table and its layout look like, the same query answers the same rows
before and after a batch, and the boundary advances exactly over what was moved.
Method: rows are read while they are hot, tiered, and read again on both engines; positions and
values are compared with what an independent consumer reads of the topic.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import NewPartitions
from pyiceberg.types import DecimalType, DoubleType, ListType, LongType, StringType
from support import programs
from support.gateway import Gateway, statement_rows
from support.records import assert_tiered_exactly_once, by_position, consumed
from support.references import retain, retention
from support.stack import Stack

from seamline.connectors.iceberg.tables import commits
from seamline.errors import (
    BAD_RECORD,
    BOUNDARY_MISSING,
    INVALID_TABLE_DEFINITION,
    LOG_TRIMMED,
    SeamlineError,
)
from seamline.seam.boundary import TAG, boundary_of
from seamline.seam.tiering import Outcome

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.usefixtures("tier_engine"),
    pytest.mark.one_in(test=2, prove=1),
]

COLUMNS = "id bigint, text varchar"
POSITION = "_kafka_partition, _kafka_offset"


def produce(stack: Stack, name: str, first: int, count: int, **options: Any) -> None:
    stack.produce(
        name, [{"id": i, "text": f"t{i}"} for i in range(first, first + count)], **options
    )


def boundary(stack: Stack, name: str) -> dict[int, int]:
    state = stack.load(name).state
    return dict(boundary_of(state, state.current_snapshot_id).next)


def rows_of(gateway: Gateway, sql: str, engine: str = "duckdb") -> list[str]:
    """The rows as a multiset: sorted by their text, which distinguishes 1, 1.0 and true."""
    return sorted(map(repr, gateway.rows(sql, engine)))


def tier_and_compare(stack: Stack, gateway: Gateway, name: str, wanted: str = "*") -> list[str]:
    """Tiers a table that has a tail; its rows must be the same before and after."""
    sql = f"SELECT {POSITION}, _kafka_timestamp, _kafka_error, {wanted} FROM {name}"
    read = gateway.statement(sql, "duckdb")
    assert read.error is None, read.error
    assert read.receipt["tables"][0]["offsets_hot"] > 0
    before = sorted(map(repr, statement_rows(read)))
    assert rows_of(gateway, sql, "spark") == before
    stack.tier(name)
    after = gateway.statement(sql, "duckdb")
    assert after.error is None, after.error
    assert after.receipt["tables"][0]["offsets_hot"] == 0
    assert sorted(map(repr, statement_rows(after))) == before
    assert rows_of(gateway, sql, "spark") == before
    return before


# --- Where it begins and how far it goes ---------------------------------------------------------


@pytest.mark.soak
@pytest.mark.prove
def test_partitions_that_appear_are_read_from_their_first_record(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """pitfall: partitions only in the log were missed."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, start="latest")
    produce(stack, name, 0, 10)
    stack.tier(name)
    for future in stack.admin.create_partitions([NewPartitions(name, 3)]).values():
        future.result(30)
    produce(stack, name, 10, 5, partition=1)
    produce(stack, name, 15, 5, partition=0)
    assert len(tier_and_compare(stack, gateway, name)) == 20
    assert boundary(stack, name) == {0: 15, 1: 5, 2: 0}
    produce(stack, name, 20, 1, partition=2)
    stack.tier(name)
    assert_tiered_exactly_once(stack, gateway, name)


STARTS: Mapping[str, Sequence[tuple[int, int]]] = {
    "earliest": [(0, 2), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2)],
    "latest": [],
    "2": [(0, 2), (0, 3), (0, 4), (0, 5), (1, 2)],
    "0:5, 1:1": [(0, 5), (1, 1), (1, 2)],
    "1:3": [(0, 2), (0, 3), (0, 4), (0, 5)],
    "2024-01-01T00:00:04Z": [(0, 4), (0, 5)],
    "2024-01-01T02:00:01.500+02:00": [(0, 2), (0, 3), (0, 4), (0, 5), (1, 2)],
    "2030-01-01": [],
}
"""What a table over a log of [2, 6) and [0, 3) with a record a second holds, by its start."""


@pytest.mark.soak
def test_start(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    first = int(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).timestamp())
    producer = stack.producer()
    for partition, count in ((0, 6), (1, 3)):
        for number in range(count):
            moment = (first + number) * 1000
            producer.produce(name, b'{"id": 1}', partition=partition, timestamp=moment)
    assert producer.flush(30) == 0
    stack.trim(name, {0: 2})
    for number, (start, expected) in enumerate(STARTS.items()):
        table = f"{name}_{number}"
        stack.create_table(table, COLUMNS, topic=name, start=start)
        sql = f"SELECT {POSITION} FROM {table} ORDER BY 1, 2"
        assert gateway.rows(sql) == expected, start
        steps = stack.tier(table)
        assert (steps[0].outcome is Outcome.IDLE) == (not expected), start
        assert gateway.rows(sql.replace(table, f'"{table}$cold"')) == expected, start
        assert boundary(stack, table) == {0: 6, 1: 3}
    for start in ("1", "7", "2:0", "yesterday"):
        with pytest.raises(SeamlineError) as caught:
            stack.create_table(f"{name}_none", COLUMNS, topic=name, start=start)
        assert caught.value.code is INVALID_TABLE_DEFINITION


@pytest.mark.soak
@pytest.mark.prove
def test_batches_are_no_larger_than_asked(stack: Stack, gateway: Gateway, name: str) -> None:
    """Each partition gives its share, so none falls behind; every batch has an id of its own."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 90, partition=0)
    produce(stack, name, 90, 10, partition=1)
    steps = stack.tier(name, records_max=20)
    assert [step.offsets for step in steps] == [20] * 5
    assert [step.lag for step in steps] == [80, 60, 40, 20, 0]
    assert [dict(step.boundary)[1] for step in steps] == [2, 4, 6, 8, 10]
    batches = f'SELECT _kafka_batch, count(*) FROM "{name}$cold" GROUP BY 1 ORDER BY 1'
    assert gateway.rows(batches) == [(batch_id, 20) for batch_id in range(0, 100, 20)]
    assert_tiered_exactly_once(stack, gateway, name)


def test_a_log_trimmed_past_the_boundary_is_no_batch(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 10)
    stack.tier(name)
    produce(stack, name, 10, 10)
    stack.trim(name, {0: 10})  # up to the boundary nothing is lost
    assert len(gateway.rows(f"SELECT * FROM {name}")) == 20
    stack.trim(name, {0: 12})
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name)
    assert caught.value.code is LOG_TRIMMED
    assert "2 offsets are gone" in caught.value.message
    assert boundary(stack, name) == {0: 10}
    error = gateway.statement(f"SELECT * FROM {name}").error
    assert error is not None
    assert error.code is LOG_TRIMMED
    assert len(gateway.rows(f'SELECT * FROM "{name}$cold"')) == 10


# --- Transactions --------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.prove
def test_a_range_of_markers_only_is_progress(stack: Stack, gateway: Gateway, name: str) -> None:
    """pitfalls: hang at an end that is never delivered; a tail without rows read again forever."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 4, partition=0)
    stack.tier(name)
    for _ in range(2):  # the second begins at a marker
        stack.transact(name, [{"id": 100, "text": "aborted"}], commit=False, partition=0)
        stack.transact(name, [], commit=True, partition=0)
        assert gateway.rows(f"SELECT count(*) FROM {name}") == [(4,)]
        (step,) = stack.tier(name)
        assert step.outcome is Outcome.PROGRESS
        assert step.lag == 0
        assert stack.tier(name)[0].outcome is Outcome.IDLE
    assert_tiered_exactly_once(stack, gateway, name)


@pytest.mark.prove
def test_aborted_records_are_in_neither_tier(stack: Stack, gateway: Gateway, name: str) -> None:
    """Markers are at the boundary, in the middle, and at the last offset of a batch."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    numbers = itertools.count()
    for round_ in range(3):
        for partition, commit in (
            (0, True),
            (0, False),
            (1, False),
            (1, True),
            (round_ % 2, False),
        ):
            values = [{"id": next(numbers), "text": str(commit)} for _ in range(3)]
            stack.transact(name, values, commit=commit, partition=partition)
        if round_ == 1:
            produce(stack, name, next(numbers) + 1000, 2, partition=0)
        rows = tier_and_compare(stack, gateway, name)
        assert not any("False" in row for row in rows)
    assert_tiered_exactly_once(stack, gateway, name)


def test_an_open_transaction_holds_the_end_back(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 3)
    producer = stack.producer(**{"transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(name, b'{"id": 3, "text": "t3"}')
    assert producer.flush(30) == 0
    produce(stack, name, 4, 2)
    statement = gateway.statement(f"SELECT count(*) FROM {name}")
    assert statement_rows(statement) == [(3,)]
    assert statement.receipt["tables"][0]["pending_offsets"] == 3
    assert [step.offsets for step in stack.tier(name)] == [3]
    assert stack.tier(name)[0].outcome is Outcome.IDLE
    producer.commit_transaction(60)
    stack.wait_for_markers(name)
    stack.tier(name)
    assert_tiered_exactly_once(stack, gateway, name)


# --- Layouts and schemas -------------------------------------------------------------------------


KINDS = ["a", "b c/d+%2F=", None, "null", "007", "", "2024-01-01", "é"]
"""Partition values that look like something else once they are part of a path."""


@pytest.mark.soak
def test_partitioned_and_sorted(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(
        name,
        "id bigint, at timestamp with time zone, kind varchar, price decimal(10, 2)",
        partitioning=("kind", "day(at)"),
        sorted_by=("price DESC NULLS LAST", "id"),
    )
    values: list[dict[str, Any]] = [
        {
            "id": i,
            "at": f"2024-01-0{1 + i // 8 % 2}T0{i % 10}:00:00Z" if i % 7 else None,
            "kind": KINDS[i % len(KINDS)],
            "price": f"{i * 37 % 100}.5",
        }
        for i in range(48)
    ]
    for half in (values[:32], values[32:]):
        stack.produce(name, half)
        tier_and_compare(stack, gateway, name)
    for path in stack.data_files(name):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        assert len({(row["at"] and row["at"].date(), row["kind"]) for row in rows}) == 1, path
        assert rows == sorted(rows, key=lambda row: (-row["price"], row["id"])), path
    assert len(stack.data_files(name)) > 10
    sql = f"SELECT id FROM {name} WHERE at >= TIMESTAMP '2024-01-02 00:00:00 UTC' AND kind = 'a'"
    expected = [v["id"] for v in values if (v["at"] or "") >= "2024-01-02" and v["kind"] == "a"]
    statement = gateway.statement(sql)
    assert sorted(row[0] for row in statement_rows(statement)) == expected != []
    receipt = statement.receipt["tables"][0]
    assert receipt["files_read"] < receipt["files_total"]


@pytest.mark.soak
@pytest.mark.prove
def test_a_row_whose_partition_value_spark_would_get_wrong_is_named(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, n integer", partitioning=("truncate(10, n)",))
    first = -(2**31) + 8
    stack.produce(name, [{"id": 1, "n": first}, {"id": 2, "n": -1}])
    tier_and_compare(stack, gateway, name)
    stack.produce(name, [{"id": 3, "n": first - 1}])
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name)
    assert caught.value.code is INVALID_TABLE_DEFINITION
    assert "partition the table by another width" in caught.value.message
    assert gateway.rows(f"SELECT id FROM {name} WHERE n < {first}") == [(3,)]
    assert boundary(stack, name) == {0: 2}


EVOLVING = """
    id integer, f real, n decimal(9, 2), gone varchar, old varchar, again varchar,
    r row(a integer, b varchar, dropped bigint), l array(integer)
"""


def evolving(number: int) -> dict[str, Any]:
    """A record with all that the producers ever wrote, under old and new names."""
    return {
        "id": number,
        "f": number + 0.5,
        "n": f"{number}.25",
        "gone": f"gone{number}",
        "old": f"old{number}",
        "new": f"new{number}" if number % 2 else None,
        "again": f"again{number}",
        "r": {"a": number, "b": "x", "dropped": 1, "c": "added", "renamed": f"y{number}"},
        "l": [number, None],
        "extra": f"extra{number}",
    }


def rename(update: Any) -> None:
    update.rename_column("old", "new").rename_column(("r", "b"), "renamed")


def drop(update: Any) -> None:
    update.delete_column("gone").delete_column(("r", "dropped"))


def add(update: Any) -> None:
    update.add_column("extra", StringType()).add_column(("r", "c"), StringType())
    update.add_column("never", ListType(100, LongType(), element_required=False))


def promote(update: Any) -> None:
    update.update_column("id", LongType()).update_column("f", DoubleType())
    update.update_column("n", DecimalType(18, 2)).update_column(("r", "a"), LongType())
    update.update_column(("l", "element"), LongType())


def reorder(update: Any) -> None:
    update.move_first("l").move_after("id", "old")


@pytest.mark.one_in(prove=5)
@pytest.mark.parametrize(
    "change",
    [rename, *(pytest.param(c, marks=pytest.mark.prove) for c in (add, drop, promote, reorder))],
)
@pytest.mark.prove
def test_evolved_schema(
    stack: Stack, gateway: Gateway, name: str, change: Callable[[Any], None]
) -> None:
    """Cold rows of the old schema, a tail from before the change, and one from after it."""
    stack.create_topic(name, 1)
    stack.create_table(name, EVOLVING)
    stack.produce(name, map(evolving, range(5)))
    stack.tier(name)
    stack.produce(name, map(evolving, range(5, 10)))
    with stack.load(name).iceberg.update_schema() as update:
        change(update)
    assert len(tier_and_compare(stack, gateway, name)) == 10
    stack.produce(name, map(evolving, range(10, 15)))
    assert len(tier_and_compare(stack, gateway, name)) == 15


@pytest.mark.soak
@pytest.mark.prove
def test_dropped_and_added_again_is_another_column(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """The old column's cold values do not come back; what the log still holds is the new one's."""
    stack.create_topic(name, 1)
    stack.create_table(name, EVOLVING)
    stack.produce(name, map(evolving, range(2)))
    stack.tier(name)
    stack.produce(name, map(evolving, range(2, 4)))
    for change in ("delete", "add"):
        with stack.load(name).iceberg.update_schema() as update:
            if change == "delete":
                update.delete_column("again")
            else:
                update.add_column("again", StringType())
    sql = f"SELECT again FROM {name} ORDER BY _kafka_offset"
    expected = [(None,), (None,), ("again2",), ("again3",)]
    assert gateway.rows(sql) == expected
    tier_and_compare(stack, gateway, name)
    assert gateway.rows(sql) == expected == gateway.rows(sql, "spark")


DELETES = {
    "copy": (2, {"write.delete.mode": "copy-on-write", "write.update.mode": "copy-on-write"}),
    "positions": (2, {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}),
    "vectors": (3, {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}),
}


@pytest.mark.one_in(prove=3)
@pytest.mark.prove
@pytest.mark.parametrize("kind", DELETES)
def test_foreign_deletes(stack: Stack, gateway: Gateway, name: str, kind: str) -> None:
    """They take cold rows away, forever, and never a hot one; the boundary is inherited."""
    format_version, properties = DELETES[kind]
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS, format_version=format_version, properties=properties)
    produce(stack, name, 0, 30)
    stack.tier(name, records_max=20)
    produce(stack, name, 30, 30)
    ends = boundary(stack, name)
    stack.spark.sql(f"DELETE FROM lake.default.{name} WHERE id % 3 = 0")
    stack.spark.sql(f"UPDATE lake.default.{name} SET text = 'changed' WHERE id % 3 = 1").collect()
    assert boundary(stack, name) == ends
    tier_and_compare(stack, gateway, name)
    by_id = gateway.rows(f"SELECT id, text FROM {name} ORDER BY id")
    expected = [(i, "changed" if i % 3 == 1 else f"t{i}") for i in range(30) if i % 3]
    assert by_id == expected + [(i, f"t{i}") for i in range(30, 60)]
    stack.spark.sql(f"DELETE FROM lake.default.{name} WHERE id < 15 OR id = 40")
    left = [row for row in by_id if row[0] >= 15 and row[0] != 40]
    for engine in ("duckdb", "spark"):
        assert gateway.rows(f"SELECT id, text FROM {name} ORDER BY id", engine) == left
    deletes = stack.spark.sql(f"SELECT * FROM lake.default.{name}.delete_files").count()
    assert (deletes > 0) == (kind != "copy")


@pytest.mark.soak
@pytest.mark.prove
def test_deletes_from_files_with_columns_of_odd_names(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """Names that an engine uses for a file and a position in it are columns like others."""
    for column in ("filename", "file_row_number"):
        table = f"{name}_{column}"
        stack.create_topic(table, 1)
        stack.create_table(
            table, f"id bigint, {column} varchar", properties=DELETES["positions"][1]
        )
        stack.produce(table, [{"id": i, column: "f"} for i in range(9)])
        stack.tier(table)
        stack.spark.sql(f"DELETE FROM lake.default.{table} WHERE id = 4")
        rows = gateway.rows(f"SELECT id, {column} FROM {table} ORDER BY id")
        assert rows == [(i, "f") for i in range(9) if i != 4]


# --- Poison --------------------------------------------------------------------------------------


@pytest.mark.prove
def test_poison_stops_tiering_until_the_policy_lets_it_pass(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """What came before it lands; the policy that is set then decides for both tiers alike."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 10)
    stack.produce(name, [b"poison", b'{"id": "text"}'])
    produce(stack, name, 12, 8)
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name, records_max=5)
    assert caught.value.code is BAD_RECORD
    assert "partition 0, offset 10" in caught.value.message
    assert boundary(stack, name) == {0: 10}
    alter(stack, name, "skip")
    statement = gateway.statement(f"SELECT id FROM {name} ORDER BY id")
    assert [row[0] for row in statement_rows(statement)] == [*range(10), *range(12, 20)]
    assert skipped(statement.receipt) == (0, 2)
    tier_and_compare(stack, gateway, name)
    assert skipped(gateway.statement(f"SELECT id FROM {name}").receipt) == (2, 0)
    alter(stack, name, "null")
    stack.produce(name, [b"more poison"])
    statement = gateway.statement(f"SELECT id, _kafka_error FROM {name} WHERE id IS NULL")
    (row,) = statement_rows(statement)
    assert row[1]
    assert skipped(statement.receipt) == (2, 0)
    tier_and_compare(stack, gateway, name)
    assert boundary(stack, name) == {0: 21}


@pytest.mark.prove
def test_bad_records_are_shown_and_written_to_another_topic(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    letters = f"{name}.dlq"
    stack.create_topic(name, 1)
    stack.create_topic(letters, 1)
    options = f"topic = '{name}', on_error = 'skip', dead_letter_topic = '{letters}'"
    gateway.rows(f"CREATE TABLE {name} (id bigint, name varchar) WITH ({options})")
    stack.produce(name, [{"id": 1, "name": "a"}, b"poison", {"id": 2, "name": "b"}, b"{"])
    sql = f'SELECT "offset", code, reason, key, value, headers FROM "{name}$errors"'
    bad = rows_of(gateway, sql)
    assert len(bad) == 2
    stack.tier(name)
    for engine in ("duckdb", "spark"):
        assert rows_of(gateway, sql, engine) == bad
    rows = gateway.rows(
        f'SELECT value, _kafka_headers FROM default.default."{letters}" ORDER BY _kafka_offset'
    )
    assert [value for value, _ in rows] == [b"poison", b"{"]
    for (_, headers), offset in zip(rows, (1, 3), strict=True):
        said = {header["key"]: header["value"].decode() for header in headers}
        assert said["__connect.errors.topic"] == name
        assert said["__connect.errors.partition"] == "0"
        assert said["__connect.errors.offset"] == str(offset)
        assert said["__connect.errors.exception.message"]
    stack.produce(name, [b"nothing but poison"])
    stack.tier(name)
    assert gateway.rows(f'SELECT count(*) FROM default.default."{letters}"') == [(3,)]


def alter(stack: Stack, name: str, policy: str) -> None:
    """Sets the policy with the command that an operator uses."""
    command = programs.seamline("table", "alter", name, "--on-error", policy)
    done = programs.run(command, stack.environment)
    assert done.returncode == 0, done.stderr


def skipped(receipt: Mapping[str, Any]) -> tuple[int, int]:
    table = receipt["tables"][0]
    return table["skipped_cold"], table["skipped_hot"]


@pytest.mark.parametrize("policy", ["null", pytest.param("skip", marks=pytest.mark.prove)])
@pytest.mark.soak
def test_poison_over_many_batches_is_counted_once(
    stack: Stack, gateway: Gateway, name: str, policy: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS, on_error=policy)
    for partition in (0, 1):
        values = [b"poison" if i % 5 == 2 else {"id": i, "text": "x"} for i in range(20)]
        stack.produce(name, values, partition=partition)
    steps = stack.tier(name, records_max=10)
    assert len(steps) == 4
    rows = by_position(gateway.rows(f'SELECT {POSITION}, id, _kafka_error FROM "{name}$cold"'))
    records, _ = consumed(stack, name)
    bad = {position for position, value in records.items() if value == b"poison"}
    assert len(bad) == 8
    if policy == "null":
        assert set(rows) == set(records)
        assert {position for position, row in rows.items() if row[1]} == bad
    else:
        assert set(rows) == set(records) - bad
    receipt = gateway.statement(f"SELECT count(*) FROM {name}").receipt
    assert skipped(receipt) == ((8, 0) if policy == "skip" else (0, 0))


# --- Maintenance ---------------------------------------------------------------------------------


@pytest.mark.prove
def test_expiry_keeps_the_boundary(stack: Stack, gateway: Gateway, name: str) -> None:
    """pitfall: markers lost to expiry, or hidden by foreign commits."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    for first in range(0, 50, 10):
        produce(stack, name, first, 10)
        stack.tier(name)
    delete_twice(stack, name)
    produce(stack, name, 50, 10)
    before = rows_of(gateway, f"SELECT {POSITION}, id FROM {name}")
    assert len(before) == 58
    stack.maintain(name)
    state = stack.load(name).state
    assert boundary_of(state, state.current_snapshot_id).snapshot_id == state.current_snapshot_id
    assert len(state.snapshots) < 5
    assert state.refs[TAG].snapshot_id == state.current_snapshot_id
    for engine in ("duckdb", "spark"):
        assert rows_of(gateway, f"SELECT {POSITION}, id FROM {name}", engine) == before
    stack.tier(name)
    assert rows_of(gateway, f"SELECT {POSITION}, id FROM {name}") == before


def delete_twice(stack: Stack, name: str, numbers: Sequence[int] = (7, 8)) -> None:
    """Two foreign commits: the first is between the second and the boundary."""
    for number in numbers:
        stack.spark.sql(f"DELETE FROM lake.default.{name} WHERE id = {number}")


def expire_by_hand(stack: Stack, name: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    stack.spark.sql(
        f"CALL lake.system.expire_snapshots('default.{name}', TIMESTAMP '{now:%F %T.%f}', 1)"
    ).collect()


@pytest.mark.soak
def test_a_tierer_with_nothing_to_do_keeps_the_boundary_in_reach(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """On a topic where nothing comes any more, others may rewrite and expire as they like."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, on_error="skip")
    produce(stack, name, 0, 10)
    stack.tier(name)
    delete_twice(stack, name)
    assert [step.outcome for step in stack.tier(name)] == [Outcome.IDLE]
    state = stack.load(name).state
    assert boundary_of(state, state.current_snapshot_id).snapshot_id == state.current_snapshot_id
    assert state.refs[TAG].snapshot_id == state.current_snapshot_id
    stack.tier(name)
    assert stack.load(name).state.current_snapshot_id == state.current_snapshot_id
    expire_by_hand(stack, name)
    assert boundary(stack, name) == {0: 10}
    assert gateway.rows(f"SELECT count(*) FROM {name}") == [(8,)]
    produce(stack, name, 10, 10)
    tier_and_compare(stack, gateway, name)
    assert gateway.rows(f'SELECT count(*) FROM "{name}$cold"') == [(18,)]


@pytest.mark.soak
@pytest.mark.parametrize("is_tag_kept", [True, False])
def test_a_boundary_that_others_have_buried_and_expired_is_found(
    stack: Stack, gateway: Gateway, name: str, is_tag_kept: bool
) -> None:
    """The earlier metadata files tell it; once they are gone, too, nothing is guessed."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0, 10)
    stack.tier(name)
    delete_twice(stack, name)
    if not is_tag_kept:
        commits.remove_refs(stack.load(name), [TAG])
    expire_by_hand(stack, name)
    optimize = f"CALL lake.system.rewrite_data_files('default.{name}')"
    stack.spark.sql(optimize).collect()
    expire_by_hand(stack, name)
    produce(stack, name, 10, 10)
    assert gateway.rows(f"SELECT count(*) FROM {name}") == [(18,)]
    tier_and_compare(stack, gateway, name)
    delete_twice(stack, name, (11, 12))
    expire_by_hand(stack, name)
    for entry in stack.load(name).iceberg.metadata.metadata_log:
        pathlib.Path(entry.metadata_file.removeprefix("file:").replace("///", "/")).unlink()
    with contextlib.closing(Gateway(stack.config)) as another:  # it has not read these
        error = another.statement(f"SELECT count(*) FROM {name}").error
        assert error is not None
        assert error.code is BOUNDARY_MISSING
        assert another.rows(f'SELECT count(*) FROM "{name}$cold"') == [(16,)]


@pytest.mark.soak
@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.soak), 3])
@pytest.mark.prove
def test_a_table_keeps_its_owners_retention(
    stack: Stack, gateway: Gateway, name: str, version: int
) -> None:
    """Through batches with and without rows, through compaction, expiry and a batch on a branch."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, format_version=version)
    produce(stack, name, 0, 10)
    stack.tier(name)
    retain(stack.load(name), "main", TAG)
    wanted = retention(stack.load(name))
    assert all(map(any, wanted.values()))
    for deed in (
        lambda: stack.tier(name),
        lambda: stack.transact(name, [{"id": 1}], commit=False, partition=0),
        lambda: stack.tier(name),
        lambda: stack.maintain(name),
        lambda: stack.spark.sql(f"ALTER TABLE lake.default.{name} ADD COLUMN more bigint"),
        lambda: stack.tier(name),
    ):
        deed()
        produce(stack, name, 100, 5)
        assert gateway.rows(f"SELECT count(*) > 0 FROM {name}") == [(True,)]
        kept = {ref: said for ref, said in retention(stack.load(name)).items() if ref in wanted}
        assert kept == wanted


@pytest.mark.soak
@pytest.mark.prove
def test_compaction_keeps_every_row_and_where_it_came_from(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    for first in range(0, 60, 10):
        produce(stack, name, first, 10)
        stack.tier(name)
    sql = f"SELECT *, {POSITION}, _kafka_batch, _kafka_timestamp FROM {name}"
    before = rows_of(gateway, sql)
    files = gateway.statement(sql).receipt["tables"][0]["files_total"]
    stack.maintain(name)
    after = gateway.statement(sql)
    assert collections.Counter(map(repr, statement_rows(after))) == collections.Counter(before)
    assert after.receipt["tables"][0]["files_total"] < files
    paths = {pathlib.Path(p).name for p in stack.data_files(name)}
    assert len(paths) == after.receipt["tables"][0]["files_total"]  # nothing is left behind
    produce(stack, name, 60, 10)
    stack.tier(name)
    assert_tiered_exactly_once(stack, gateway, name)
