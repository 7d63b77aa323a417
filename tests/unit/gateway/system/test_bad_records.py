"""Goal: `"t$errors"` shows exactly the records that a table's decoder cannot decode, and why.

Method: topics of good and bad records from a seed, in memory, before and after tiering and
trimming, under every policy. What is bad is said by whoever generated it.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.offline import MemoryWorld

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.tiering.step import tier_once
from seamline.sql.columns import ERROR_FIELDS

Row = tuple[Any, ...]
FIRST_MS = 1_700_000_000_000
SHOWN = 'partition, "offset", code, key, value'
CASES: tuple[tuple[bytes, str], ...] = (
    (b'{"id": 1, "name": "a"}', ""),
    (b'{"id": null}', ""),
    (b"{", "not JSON"),
    (b'{"id": "one"}', "id: "),
    (b'{"id": 99999999999999999999}', "id: "),
    (b"\xff\xfe", "not UTF-8"),
    (b'{"name": {"a": 1}}', "name: "),
)


@pytest.fixture
def world(tmp_path: pathlib.Path) -> MemoryWorld:
    return MemoryWorld(tmp_path)


def tier(world: MemoryWorld, name: str, records_max: int = 10_000) -> None:
    """Moves the tail into the table, in this process."""
    catalog = world.gateway.parts.connections.catalog("lake")
    table = LocalTierTable(catalog, ("default", name), world.memory)
    tier_once(table, world.memory, NoDeadline(), records_max=records_max)


def produce(world: MemoryWorld, topic: str, count: int, seed: int) -> list[Row]:
    """Produces records, and returns the bad ones."""
    chance, bad = random.Random(seed), []
    for number in range(count):
        value, reason = chance.choice(CASES)
        partition, key = chance.randrange(2), f"k{number}".encode()
        at_ms = FIRST_MS + 1000 * number
        offset = world.memory.produce(topic, partition, value, key=key, timestamp_ms=at_ms)
        if reason:
            bad.append((partition, offset, "BAD_RECORD", key, value))
    return sorted(bad)


@pytest.mark.parametrize("policy", ["fail", "null", "skip"])
def test_bad_records_are_shown_wherever_they_are(world: MemoryWorld, policy: str) -> None:
    world.memory.create_topic("t", 2)
    world.rows(
        f"CREATE TABLE t (id bigint, name varchar) WITH (topic = 't', on_error = '{policy}')"
    )
    sql = f'SELECT {SHOWN} FROM "t$errors" ORDER BY 1, 2'
    assert world.rows(sql) == []
    bad = produce(world, "t", 60, seed=1)
    assert world.rows(sql) == bad
    assert world.rows('SELECT count(*) FROM "t$errors"') == [(len(bad),)]
    reasons = dict(CASES)
    for value, reason in world.rows('SELECT value, reason FROM "t$errors"'):
        assert isinstance(value, bytes)
        assert reasons[value] in str(reason)
    if policy == "fail":
        hint = world.refused("SELECT * FROM t")
        assert "$errors" in (hint.hint or "")
    else:
        tier(world, "t")
    bad = sorted(bad + produce(world, "t", 20, seed=2))
    assert world.rows(sql) == bad, "below the boundary as in the tail"
    world.memory.delete_records("t", 0, 15)
    bad = [row for row in bad if row[0] or row[1] >= 15]
    assert world.rows(sql) == bad, "of what the log still has"


def test_a_token_repeats_the_read(world: MemoryWorld) -> None:
    world.memory.create_topic("t", 2)
    world.rows("CREATE TABLE t (id bigint, name varchar) WITH (topic = 't', on_error = 'skip')")
    bad = produce(world, "t", 30, seed=3)
    sql = f'SELECT {SHOWN} FROM "t$errors" ORDER BY 1, 2'
    own = world.gateway.statement(sql).receipt["token"]
    whole = world.gateway.statement("SELECT count(*) FROM t").receipt["token"]
    good = 30 - len(bad)
    produce(world, "t", 30, seed=4)
    tier(world, "t")
    assert world.rows(sql, token=own) == bad
    assert world.rows(sql, token=whole) == bad
    assert world.rows("SELECT count(*) FROM t", token=own) == [(good,)], "it is the table's seam"
    world.memory.delete_records("t", 1, 5)
    with pytest.raises(Exception, match="no longer"):
        world.rows(sql, token=own)


def test_conditions_narrow_what_is_read(world: MemoryWorld) -> None:
    world.memory.create_topic("t", 2)
    world.rows("CREATE TABLE t (id bigint, name varchar) WITH (topic = 't')")
    bad = produce(world, "t", 50, seed=5)
    at = {(p, o): m for (p, o), m in world.memory.times("t").items()}
    moment = datetime.datetime.fromtimestamp(at[0, 12] / 1000, datetime.UTC)
    cases: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
        ("partition = 1", lambda p, o: p == 1),
        ('"offset" BETWEEN 3 AND 9', lambda p, o: 3 <= o <= 9),
        ('partition = 0 AND "offset" IN (2, 4)', lambda p, o: p == 0 and o in {2, 4}),
        (f"\"timestamp\" >= TIMESTAMP '{moment:%F %T} UTC'", lambda p, o: at[p, o] >= at[0, 12]),
    )
    for condition, holds in cases:
        statement = world.gateway.statement(f'SELECT {SHOWN} FROM "t$errors" WHERE {condition}')
        assert statement.error is None, statement.error
        rows = world.rows(f'SELECT {SHOWN} FROM "t$errors" WHERE {condition} ORDER BY 1, 2')
        assert rows == [row for row in bad if holds(row[0], row[1])], condition
        (table,) = statement.receipt["tables"]
        assert table["offsets_hot"] < 50, condition
    plan = "\n".join(
        str(r) for r in world.rows('EXPLAIN SELECT * FROM "t$errors" WHERE partition = 1')
    )
    assert "pruned by position" in plan


def test_changes_that_end_a_read_are_shown_too(world: MemoryWorld) -> None:
    world.memory.create_topic("c", 1)
    world.rows(
        "CREATE TABLE c (id bigint, name varchar) WITH (topic = 'c', mode = 'changelog',"
        " envelope = 'maxwell', primary_key = ARRAY['id'], on_error = 'skip')"
    )
    bodies: list[dict[str, Any]] = [
        {"type": "insert", "data": {"id": n, "name": "a"}} for n in range(9)
    ]
    bodies[3] = {"type": "table-alter", "data": {}}
    bodies[5] = {"type": "update", "data": None}
    bodies[7] = {"type": "insert", "data": {"name": "without its key"}}
    for body in bodies:
        world.memory.produce("c", 0, json.dumps(body).encode())
    assert world.refused("SELECT * FROM c").code.name == "NOT_SUPPORTED"
    assert world.rows('SELECT "offset", code FROM "c$errors" ORDER BY 1') == [
        (3, "NOT_SUPPORTED"),
        (5, "BAD_RECORD"),
        (7, "BAD_RECORD"),
    ]


def test_what_it_is_not(world: MemoryWorld) -> None:
    world.rows("CREATE TABLE plain AS SELECT 1 AS id")
    world.memory.create_topic("t", 1)
    world.rows("CREATE TABLE t (id bigint) WITH (topic = 't')")
    assert world.refused('SELECT * FROM "plain$errors"').code.name == "NOT_SUPPORTED"
    ((snapshot,),) = world.rows('SELECT max(snapshot_id) FROM "t$snapshots"')
    for version in (f"VERSION AS OF {snapshot}", "TIMESTAMP AS OF current_timestamp"):
        assert world.refused(f'SELECT * FROM "t$errors" FOR {version}').code.name == "NOT_SUPPORTED"
    changes = "SELECT * FROM TABLE(changes(table => 't$errors', from_token => 'beginning'))"
    assert world.refused(changes).code.name == "NOT_SUPPORTED"
    shown = [row[0] for row in world.rows('DESCRIBE "t$errors"')]
    assert shown == [field.name for field in ERROR_FIELDS]
    assert world.rows("SHOW TABLES") == [("plain",), ("t",)]
