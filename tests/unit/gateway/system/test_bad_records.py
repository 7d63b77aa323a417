"""Goal: `"t$errors"` shows exactly the records that a table's decoder cannot decode, and why.

The topic of dead letters gets the same records before their batch is committed.

Method: topics of good and bad records from a seed, in memory, before and after tiering and
trimming, under every policy. What is bad is said by whoever generated it.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fakes.memory import MemoryLog
from support.offline import MemoryWorld

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
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


# --- The topic of dead letters -------------------------------------------------------------------

LETTERS = "WITH (topic = 't', on_error = 'skip', dead_letter_topic = 'dlq')"


def letters(world: MemoryWorld) -> list[Row]:
    """The dead letters: partition and offset of each, its key, value, and its own headers."""
    rows: list[Row] = []
    for key, value, headers in world.rows(
        "SELECT _kafka_key, value, _kafka_headers FROM default.default.dlq"
    ):
        assert isinstance(headers, list)
        said = {h["key"].removeprefix("__connect.errors."): h["value"] for h in headers}
        assert said["topic"] == b"t"
        assert said["connector.name"] == b"lake.default.t"
        assert said["exception.class.name"] == b"BAD_RECORD"
        assert said["exception.message"]
        rows.append((int(said["partition"]), int(said["offset"]), key, value, said.get("own")))
    return sorted(rows, key=lambda row: row[:2])


def test_dead_letters_are_all_bad_records_of_committed_batches(world: MemoryWorld) -> None:
    world.memory.create_topic("t", 2)
    world.memory.create_topic("dlq", 1)
    world.rows(f"CREATE TABLE t (id bigint, name varchar) {LETTERS}")
    bad = produce(world, "t", 60, seed=7)
    at = world.memory.produce("t", 1, b"poison", key=b"k", headers=[("own", b"x")])
    expected: list[Row] = [(p, o, k, v, None) for p, o, _, k, v in bad]
    expected = sorted([*expected, (1, at, b"k", b"poison", b"x")], key=lambda row: row[:2])
    assert letters(world) == []
    while world.rows('SELECT sum(tail) FROM "t$seam"') != [(0,)]:
        tier(world, "t", 7)
    assert letters(world) == expected
    world.memory.produce("t", 0, b"nothing else in its batch")
    tier(world, "t")
    assert len(letters(world)) == len(expected) + 1


def test_a_batch_that_fails_leaves_its_dead_letters(world: MemoryWorld) -> None:
    """They come first: no crash after the commit can lose them."""
    world.memory.create_topic("t", 2)
    world.memory.create_topic("dlq", 1)
    world.rows(f"CREATE TABLE t (id bigint, name varchar) {LETTERS}")
    bad = produce(world, "t", 30, seed=8)
    catalog = world.gateway.parts.connections.catalog("lake")
    table = LocalTierTable(catalog, ("default", "t"), Broken(world.memory, reads=2))
    with pytest.raises(SeamlineError):
        tier_once(table, world.memory, NoDeadline(), records_max=1000)
    assert world.rows('SELECT sum(boundary) FROM "t$seam"') == [(0,)]
    assert len(letters(world)) == len(bad)
    tier(world, "t")
    assert {row[:2] for row in letters(world)} == {row[:2] for row in bad}
    assert len(letters(world)) == 2 * len(bad), "at least once: their positions tell them apart"


class Broken:
    """A log that cannot be read any more after so many reads."""

    def __init__(self, inner: MemoryLog, reads: int) -> None:
        self._inner = inner
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        self._inner.append(topic, records)

    def read(self, *arguments: Any, **options: Any) -> Any:
        self._reads -= 1
        if self._reads < 0:
            raise SeamlineError(KAFKA_UNAVAILABLE, "away")
        return self._inner.read(*arguments, **options)


def test_what_cannot_have_dead_letters(world: MemoryWorld) -> None:
    world.memory.create_topic("t", 1)
    options = "topic = 't', on_error = '{}', dead_letter_topic = '{}'"
    create = f"CREATE TABLE t (id bigint) WITH ({options})"
    assert world.refused(create.format("fail", "dlq")).code.name == "INVALID_TABLE_DEFINITION"
    assert world.refused(create.format("skip", "t")).code.name == "INVALID_TABLE_DEFINITION"
    assert world.refused(create.format("skip", "dlq")).code.name == "TOPIC_NOT_FOUND"
    world.memory.create_topic("dlq", 1)
    world.rows(create.format("skip", "dlq"))
    alter = "ALTER TABLE t SET PROPERTIES {}"
    assert "on_error" in world.refused(alter.format("on_error = 'fail'")).message
    world.rows(alter.format("on_error = 'fail', dead_letter_topic = ''"))
    error = world.refused(alter.format("dead_letter_topic = 'dlq'"))
    assert error.code.name == "INVALID_TABLE_DEFINITION"
