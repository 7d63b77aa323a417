"""Goal: an upsert table is the newest record of each key, wherever its records are.

Method: random histories of writes and deletes, tiered at random places, are read by random queries
on DuckDB, through the product's own pinning and planning; plain DuckDB answers the same queries
over a dictionary's content. Conditions are on keys, on other columns, on both and on neither, so
that one which is pushed too far gives another answer.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import random
import tempfile
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import seams
from support.examples import examples
from support.upserts import MARK, TOPIC, Row, Users, in_order, model

from seamline.connectors.duckdb.relation import newest_rows_sql
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.newest import newest_rows
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import (
    BAD_RECORD,
    INVALID_TABLE_DEFINITION,
    LOG_TRIMMED,
    TOKEN_EXPIRED,
    UPSERT_ORDER_UNKNOWN,
    SeamlineError,
)
from seamline.gateway.catalogs.resolution import session
from seamline.gateway.commands import alterations, tables
from seamline.gateway.commands.auditing import Kind, audit
from seamline.gateway.statements.freshness import CACHED
from seamline.planners.rules.prune_tail_by_key import murmur2
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.upserts import Newest, over
from seamline.sql import columns, types
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import AlterTable
from seamline.sql.predicates import And, Comparison, In, IsNull, Or
from seamline.sql.types import BIGINT, VARCHAR, Field

KEYS = 9
QUERIES = (
    "SELECT id, name, score FROM users",
    "SELECT count(*) FROM users",
    "SELECT name FROM users WHERE {}",
    "SELECT id, score FROM users WHERE {}",
    "SELECT count(*), sum(score), count(DISTINCT name) FROM users WHERE {}",
    "SELECT score, count(*) FROM users WHERE {} GROUP BY score",
    "SELECT a.id, b.name FROM users a JOIN users b ON a.score = b.score WHERE a.{}",
    "SELECT a.id, b.name FROM users a LEFT JOIN users b ON a.id = b.id AND b.{}",
    "SELECT id FROM users WHERE id IN (SELECT id FROM users WHERE {})",
    "SELECT id FROM users WHERE {} UNION ALL SELECT score FROM users",
)
CONDITIONS = (
    "id = {0}",
    "id IN ({0}, {1})",
    "id > {0}",
    "id BETWEEN {0} AND {1}",
    "score = {0}",
    "score <> {0}",
    "name = 'n{0}'",
    "name LIKE 'n%'",
    "name IS NULL",
    "score IS NOT NULL",
    "id = {0} AND score > {1}",
    "id = {0} OR score = {1}",
    "NOT (id = {0} OR score > {1})",
    "id + 0 = {0}",
    "coalesce(score, 0) < {0}",
)
SETTLED = {"key_partitioner": "murmur2", "key_format": "int64"}
"""What makes it certain that a key is in one partition."""


def happen(users: Users, dice: random.Random, count: int) -> None:
    """So many writes and deletes."""
    for _ in range(count):
        id_ = dice.randrange(KEYS)
        if dice.random() < 0.3:
            users.delete(id_)
        else:
            name = dice.choice([None, f"n{dice.randrange(4)}", "other"])
            users.put(id_, name, dice.choice([None, *range(6)]))


def expected(rows: dict[int, Row], sql: str) -> list[Row]:
    """What plain DuckDB answers."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE users (id bigint, name varchar, score integer)")
        for id_, (name, score) in rows.items():
            connection.execute("INSERT INTO users VALUES (?, ?, ?)", [id_, name, score])
        return in_order(connection.execute(sql).fetchall())


def query(dice: random.Random) -> str:
    """A query."""
    condition = dice.choice(CONDITIONS).format(dice.randrange(KEYS), dice.randrange(KEYS))
    template = dice.choice(QUERIES)
    if "a.{}" in template or "b.{}" in template:
        condition = dice.choice(CONDITIONS[:5]).format(dice.randrange(KEYS), dice.randrange(KEYS))
    return template.format(condition)


def play(seed: int, folder: pathlib.Path) -> None:
    """One history, and what is asked on its way."""
    dice = random.Random(seed)
    placed = dice.choice([{}, {"key_partitioner": "murmur2"}, SETTLED])
    marked = dice.choice([{}, {"deleted_by": MARK}])
    users = Users(folder, dice.choice([1, 3]), is_followed=dice.random() < 0.7, **placed, **marked)
    for _ in range(3):
        happen(users, dice, dice.randrange(20))
        if dice.random() < 0.7:
            low = users.boundary().next
            users.tier({p: dice.randint(low[p], end) for p, end in users.end().items()})
        happen(users, dice, dice.randrange(12))
        for sql in (QUERIES[0], query(dice), query(dice), query(dice)):
            assert users.ask(sql) == expected(model(users.log), sql), (seed, sql)
    users.close()


@pytest.mark.one_in(test=6)
@pytest.mark.parametrize("seed", range(6))
def test_every_query_sees_the_newest_of_each_key(seed: int, tmp_path: pathlib.Path) -> None:
    play(seed, tmp_path)


@pytest.mark.soak
def test_every_query_sees_the_newest_of_each_key_in_many_histories() -> None:
    for seed in range(100, 112):
        with tempfile.TemporaryDirectory() as folder:
            play(seed, pathlib.Path(folder))


def test_an_audit_counts_keys(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path)
    for round_ in range(3):
        for id_ in range(KEYS):
            users.put(id_, f"n{round_}", round_)
        users.delete(round_)
        users.tier()
    users.put(1, "hot", 1)
    found = audit(users.connections, users.name, NoDeadline(), lambda _: None)
    assert (found.found, found.is_clean) == ((), True)
    assert found.to_json()["rows"] == KEYS - 1
    table = users.table().iceberg
    again = table.scan(row_filter="id = 5").to_arrow().to_pylist()[0]
    schema = table.scan().to_arrow().schema
    table.append(pa.Table.from_pylist([{**again, "_kafka_offset": 0}], schema=schema))
    found = audit(users.connections, users.name, NoDeadline(), lambda _: None)
    assert [(f.kind, f.records) for f in found.found] == [(Kind.KEY, 1)]
    assert not found.is_clean
    users.close()


def test_cold_and_hot_alone(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    for id_ in range(4):
        users.put(id_, "cold", id_)
    users.tier()
    users.put(1, "hot", 10)
    users.delete(2)
    users.put(7, "hot", 7)
    users.delete(7)
    assert users.ask('SELECT id FROM "users$cold"') == [(0,), (1,), (2,), (3,)]
    assert users.ask('SELECT id, name FROM "users$hot"') == [(1, "hot")]
    assert users.ask("SELECT id, name FROM users") == [(0, "cold"), (1, "hot"), (3, "cold")]
    hidden = "SELECT id, _kafka_offset FROM users WHERE _kafka_offset > 3"
    assert users.ask(hidden) == [(1, 4)]
    users.close()


# --- Order ---------------------------------------------------------------------------------------


def test_a_key_in_two_partitions_is_an_error_wherever_its_records_are(
    tmp_path: pathlib.Path,
) -> None:
    users = Users(tmp_path, 2)
    users.put(1, "here", 1, partition=0)
    users.tier()
    users.put(2, "fine", 2, partition=0)
    assert users.ask("SELECT id FROM users") == [(1,), (2,)]
    users.put(1, "there", 1, partition=1)
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT count(*) FROM users"))
    users.put(3, "here", 3, partition=0)
    users.delete(3, partition=1)
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask('SELECT * FROM "users$hot"'))
    users.close()


def elsewhere(key: bytes) -> bytes:
    """The same number, spelt so that it is in the other of two partitions."""
    spellings = (b"0" * zeros + key for zeros in range(9))
    return next(other for other in spellings if murmur2(other) % 2 != murmur2(key) % 2)


@pytest.mark.parametrize("is_tiered", [False, True])
@pytest.mark.parametrize("is_followed", [False, True])
def test_two_spellings_of_a_key_are_two_places(
    is_tiered: bool, is_followed: bool, tmp_path: pathlib.Path
) -> None:
    """What the owner says of the partitioner is true, and yet the key is in both partitions."""
    users = Users(tmp_path, 2, is_followed=is_followed, key_partitioner="murmur2")
    for key in (b"7", elsewhere(b"7")):
        users.produce(key, b'{"id": 7, "name": "a", "score": 1}', murmur2(key) % 2)
        if is_tiered and key == b"7":
            users.tier()
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT id, name FROM users"))
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT id, name FROM users WHERE id = 7"))
    users.close()


def test_a_filter_on_a_key_finds_all_its_spellings(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 2, key_partitioner="murmur2")
    key = elsewhere(b"7")
    users.produce(key, b'{"id": 7, "name": "a", "score": 1}', murmur2(key) % 2)
    assert users.ask("SELECT name FROM users WHERE id = 7") == [("a",)]
    users.close()


@pytest.mark.parametrize(
    ("type_", "said", "is_settled"),
    [
        ("varchar", {"key_partitioner": "murmur2"}, True),
        ("varbinary", {"key_partitioner": "murmur2", "key_format": "bytes"}, True),
        ("integer", {"key_partitioner": "crc32", "key_format": "int32"}, True),
        ("bigint", {"key_partitioner": "murmur2", "key_format": "int64"}, True),
        ("bigint", {"key_partitioner": "murmur2"}, False),
        ("boolean", {"key_partitioner": "murmur2"}, False),
        ("uuid", {"key_partitioner": "murmur2"}, False),
        ("date", {"key_partitioner": "murmur2"}, False),
        ("varchar", {"key_partitioner": "crc32"}, False),
        ("varbinary", {"key_partitioner": "crc32", "key_format": "bytes"}, False),
        ("varchar", {"key_partitioner": "murmur2", "key_format": "json"}, False),
        ("bigint", {"key_partitioner": "murmur2", "key_format": "json", "key": None}, False),
        ("bigint", {"key_format": "int64"}, False),
    ],
)
def test_a_partitioner_settles_what_has_one_encoding(
    type_: str, said: dict[str, Any], is_settled: bool
) -> None:
    fields = (Field("id", types.parse(type_), required=True), *columns.METADATA_FIELDS)
    binding = TopicBinding(
        *("c", "t"), **{"mode": "upsert", "primary_key": ("id",), "key": "id", **said}
    )
    for count in (1, 2):
        counted = dataclasses.replace(binding, key_partitions=count)
        newest = Newest.of(counted, DecoderSpec.of(counted, fields))
        assert newest is not None
        assert newest.is_settled == (is_settled or count == 1)


def test_an_empty_key_has_no_place_under_crc32(tmp_path: pathlib.Path) -> None:
    said: dict[str, Any] = {"columns": tables.parse_fields("id varchar, name varchar")}
    users = Users(tmp_path, 2, key_partitioner="crc32", **said)
    users.produce(b"", b'{"id": "", "name": "a"}', 0)
    users.tier()
    assert users.ask("SELECT name FROM users WHERE id = ''") == [("a",)]
    users.produce(b"", b'{"id": "", "name": "b"}', 1)
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT name FROM users"))
    users.close()


def test_a_partition_that_was_added_is_an_error(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 2)
    users.put(1, "a", 1)
    users.log.add_partitions(TOPIC)
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT * FROM users"))
    assert users.ask('SELECT id FROM "users$cold"') == []
    users.close()


def test_the_owner_may_say_that_no_key_has_moved(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 2, key_partitioner="murmur2")
    users.put(1, "a", 1)
    users.tier()
    users.log.add_partitions(TOPIC)
    alter(users, "key_partitions = 3")
    users.put(2, "b", 2, partition=2)
    assert users.ask("SELECT id FROM users") == [(1,), (2,)]
    users.put(1, "moved all the same", 1, partition=2)
    fails(UPSERT_ORDER_UNKNOWN, lambda: users.ask("SELECT id FROM users"))
    users.close()


@pytest.mark.parametrize("change", ["on_error = 'null'", "key_partitions = 'many'", "mode = 'x'"])
def test_what_would_make_it_wrong_is_not_set(change: str, tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    fails(INVALID_TABLE_DEFINITION, lambda: alter(users, change))
    alter(users, "on_error = 'skip'")
    users.close()


def alter(users: Users, change: str) -> None:
    """Sets a property of the table."""
    statement = parse.parse(f"ALTER TABLE users SET PROPERTIES {change}")
    assert isinstance(statement, AlterTable)
    alterations.alter(users.connections, statement, session(users.connections.config), NoDeadline())


# --- The past ------------------------------------------------------------------------------------


def test_a_token_repeats_from_its_own_snapshot_only(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    users.put(1, "a", 1)
    users.tier()
    users.put(1, "b", 2)
    seam = users.pin().facts.seam
    users.put(1, "c", 3)
    users.tier()
    assert users.ask("SELECT name FROM users") == [("c",)]
    assert users.ask("SELECT name FROM users", [seam]) == [("b",)]
    users.table().iceberg.maintenance.expire_snapshots().by_id(seam.cold.snapshot_id or 0).commit()
    fails(TOKEN_EXPIRED, lambda: users.ask("SELECT name FROM users", [seam]))
    users.close()


def test_the_past_of_a_compacted_topic_is_not_guessed(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    users.put(1, "a", 1)
    seam = users.pin().facts.seam
    users.put(2, "b", 2)
    users.put(1, "c", 3)
    assert users.ask("SELECT name FROM users", [seam]) == [("a",)]
    users.log.compact(TOPIC)
    assert users.ask("SELECT id, name FROM users") == [(1, "c"), (2, "b")]
    fails(TOKEN_EXPIRED, lambda: users.ask("SELECT name FROM users", [seam]))
    users.tier()
    assert users.ask("SELECT id, name FROM users") == [(1, "c"), (2, "b")]
    whole = users.pin().facts.seam
    users.put(1, "d", 4)
    assert users.ask("SELECT id, name FROM users", [whole]) == [(1, "c"), (2, "b")]
    users.close()


def test_ends_from_before_a_batch_are_not_read_with_it(tmp_path: pathlib.Path) -> None:
    """What compaction had removed before the batch was read has been replaced past them."""
    users = Users(tmp_path, 1, is_followed=True)
    users.put(1, "a", 1)
    sql = "SELECT name FROM users"
    for _ in range(2):
        assert users.ask(sql, freshness=CACHED) == [("a",)]
    users.put(1, "b", 2)
    assert users.ask(sql, freshness=CACHED) == [("a",)], "nobody has asked the log"
    users.log.compact(TOPIC)
    users.tier({0: 1})
    assert users.ask(sql, freshness=CACHED) == [("b",)]
    users.put(2, "c", 3)
    assert users.ask(sql, freshness=CACHED) == [("b",)]
    users.close()


def test_time_travel_reads_the_snapshot_of_then_and_the_log_up_to_then(
    tmp_path: pathlib.Path,
) -> None:
    users = Users(tmp_path, 1)
    users.put(1, "a", 1)
    users.tier()
    committed_ms = users.table().state.snapshot_log[-1][0]
    users.log.clock.now_ms = committed_ms - 999
    users.put(1, "b", 2)
    then = datetime.datetime.fromtimestamp(users.log.clock.now_ms / 1000, datetime.UTC)
    users.log.clock.now_ms -= 998
    users.put(1, "c", 3)
    now = then + datetime.timedelta(seconds=5)
    asked = (
        f"SELECT name FROM users FOR TIMESTAMP AS OF TIMESTAMP '{then:%Y-%m-%d %H:%M:%S.%f} UTC'"
    )
    assert users.ask("SELECT name FROM users") == [("c",)]
    assert users.ask(asked, now=now) == [("b",)]
    users.tier()
    assert users.ask(asked, now=now) == [("b",)]
    users.log.delete_records(TOPIC, 0, 2)
    fails(LOG_TRIMMED, lambda: users.ask(asked, now=now))
    users.close()


CHANGES = "SELECT id, name, _kafka_deleted, _kafka_offset FROM {} ORDER BY _kafka_offset"
CHANGED = "TABLE(changes(table => 'users', from_token => '{}'))"
LOGGED = [(1, "a", False, 0), (1, "b", False, 1), (1, None, True, 2), (2, "c", False, 3)]
"""Sorted, as answers are."""


@pytest.mark.parametrize("is_followed", [False, True])
def test_every_change_is_read_from_the_log(is_followed: bool, tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1, is_followed=is_followed)
    users.put(1, "a", 1)
    users.put(1, "b", 2)
    users.tier()
    assert users.ask("SELECT name FROM users") == [("b",)]
    users.delete(1)
    users.put(2, "c", 3)
    every = CHANGES.format('"users$changes"')
    assert users.ask(every) == LOGGED
    assert users.ask(CHANGES.format(CHANGED.format("beginning"))) == LOGGED
    assert users.ask(every.replace("ORDER", "WHERE id = 2 ORDER")) == LOGGED[3:]
    users.tier()
    assert users.ask(every) == LOGGED
    assert users.ask("SELECT id FROM users") == [(2,)]
    users.log.delete_records(TOPIC, 0, 1)
    fails(LOG_TRIMMED, lambda: users.ask(every))
    users.close()


def test_changes_go_on_from_a_read(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    users.put(1, "a", 1)
    seam = users.pin().facts.seam
    users.put(1, "b", 2)
    users.delete(1)
    users.tier()
    users.put(2, "c", 3)
    sql = CHANGES.format(CHANGED.format("t"))
    assert users.ask(sql, changed_from=[seam]) == LOGGED[1:]
    bounded = sql.replace("'t')", "'t', offsets_max => 1)")
    assert users.ask(bounded, changed_from=[seam]) == LOGGED[1:2]
    between = seams.replace(seam, end=Offsets({0: 2}), snapshot_id=users.head)
    fails(TOKEN_EXPIRED, lambda: users.ask("SELECT id FROM users", [between]))
    users.log.delete_records(TOPIC, 0, 1)
    assert users.ask(sql, changed_from=[seam]) == LOGGED[1:]
    users.log.delete_records(TOPIC, 0, 2)
    fails(LOG_TRIMMED, lambda: users.ask(sql, changed_from=[seam]))
    users.close()


def test_changes_of_a_compacted_topic_are_not_guessed(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    users.put(1, "a", 1)
    users.put(1, "b", 2)
    users.log.compact(TOPIC)
    fails(LOG_TRIMMED, lambda: users.ask('SELECT * FROM "users$changes"'))
    users.close()


# --- Definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        {"primary_key": ()},
        {"primary_key": ("nothing",)},
        {"primary_key": ("id", "ID")},
        {"primary_key": ("score", "id")},  # which record keys do not repeat
        {"key": None},
        {"on_error": "null"},
        {"mode": "append"},
    ],
)
def test_what_cannot_be_an_upsert_table_is_refused(
    definition: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    fails(INVALID_TABLE_DEFINITION, lambda: Users(tmp_path, **definition))


def test_the_key_is_required_and_iceberg_knows_it(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, 1)
    schema = users.table().iceberg.schema()
    assert schema.identifier_field_names() == {"id"}
    assert schema.find_field("id").required
    users.close()


# --- Records -------------------------------------------------------------------------------------

PAIR = (Field("a", BIGINT, required=True), Field("b", VARCHAR, required=True), Field("c", BIGINT))


WHOLE = {"key": "a"}


@pytest.mark.parametrize(
    ("said", "primary_key", "key", "found"),
    [
        (WHOLE, ("a",), b"17", {"a": 17}),
        (WHOLE, ("a",), b"x", None),
        (WHOLE, ("a",), None, None),
        ({"key": "b"}, ("b",), 'ä"'.encode(), {"b": 'ä"'}),
        ({**WHOLE, "key_format": "json"}, ("a",), b"17", {"a": 17}),
        ({**WHOLE, "key_format": "json"}, ("a",), b'17, "c": 5', None),
        ({"key_format": "json"}, ("a",), b'{"a": 17}', {"a": 17}),
        ({"key_format": "json"}, ("a", "b"), b'{"b": "x", "a": 17}', {"a": 17, "b": "x"}),
        ({"key_format": "json"}, ("a", "b"), b'{"a": 17}', None),
        ({**WHOLE, "key_format": "int32"}, ("a",), (17).to_bytes(4, "big"), {"a": 17}),
        (
            {**WHOLE, "key_format": "int64"},
            ("a",),
            (-17).to_bytes(8, "big", signed=True),
            {"a": -17},
        ),
        ({**WHOLE, "key_format": "int64"}, ("a",), b"\0", None),
        ({"columns_from": ("a = key",)}, ("a",), b"17", {"a": 17}),
        (
            {"columns_from": ("a = key.x", "b = value.b"), "key_format": "json"},
            ("a", "b"),
            b'{"x": 17, "b": "y"}',
            {"a": 17, "b": "y"},
        ),
    ],
)
def test_a_delete_is_of_its_records_key(
    said: dict[str, Any],
    primary_key: tuple[str, ...],
    key: bytes | None,
    found: dict[str, object] | None,
) -> None:
    spec = spec_of(PAIR, primary_key, **said)
    value = b'{"a": 1, "b": "y", "c": 3}'
    first_key = b'{"x": 1}' if "key.x" in str(said) else b"1"
    batch = RawBatch([0, 0], [0, 1], [0, 0], [first_key, key], [value, None], [None, None])
    if found is None:
        fails(BAD_RECORD, lambda: Decoder(spec).decode(batch))
        return
    first, second = Decoder(spec).decode(batch).rows.to_pylist()
    assert (first["a"], first["b"], first["c"], first[columns.DELETED]) == (1, "y", 3, False)
    assert {name: second[name] for name in primary_key} == found
    assert second["c"] is None
    assert second[columns.DELETED]


@pytest.mark.parametrize(
    "value",
    [
        b"null",
        b" null\n",
        b'{"schema":null,"payload":null}',
        b'{"payload" : null, "schema": {"type": "struct", "fields": []}}',
    ],
)
def test_a_null_of_json_is_a_delete(value: bytes) -> None:
    spec = spec_of(PAIR[:1], ("a",), key="a")
    other = b'{"a": 2, "payload": null}'
    batch = RawBatch([0, 0], [0, 1], [0, 0], [b"1", b"2"], [value, other], [None, None])
    gone, there = Decoder(spec).decode(batch).rows.to_pylist()
    assert (gone["a"], gone[columns.DELETED]) == (1, True)
    assert (there["a"], there[columns.DELETED]) == (2, False)


def test_a_record_whose_key_is_null_is_a_bad_one() -> None:
    spec = spec_of((Field("a", BIGINT),), ("a",), key="a", on_error="skip")
    batch = RawBatch([0, 0], [0, 1], [0, 0], [b"1", b"2"], [b"{}", b'{"a": 2}'], [None, None])
    decoded = Decoder(spec).decode(batch)
    assert decoded.skipped == 1
    assert decoded.rows.column("a").to_pylist() == [2]


def spec_of(fields: tuple[Field, ...], primary_key: tuple[str, ...], **said: Any) -> DecoderSpec:
    """How records of such a table are decoded."""
    binding = TopicBinding("c", "t", mode="upsert", primary_key=primary_key, **said)
    assert TopicBinding.from_properties(binding.to_properties()) == binding
    return DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS))


@examples(120)
@given(
    st.lists(
        st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from("xyz"), st.integers(0, 2)),
        max_size=30,
    ),
    st.permutations(range(30)),
    st.sampled_from([1, -(2**61)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_arrow_and_duckdb_find_the_same_newest_rows(
    keys: list[tuple[int | None, str, int]],
    offsets: list[int],
    factor: int,
    is_pair: bool,
    is_settled: bool,
    is_truncated: bool,
) -> None:
    names = ("a", "b")[: 1 + is_pair]
    rows = pa.table(
        {
            "a": pa.array([a and a * factor for a, _, _ in keys], pa.int64()),
            "b": pa.array([b if a else None for a, b, _ in keys], pa.string()),
            "_kafka_partition": pa.array(
                [0 if is_settled else (a or 0) * p // 3 for a, _, p in keys], pa.int32()
            ),
            "_kafka_offset": pa.array(offsets[: len(keys)], pa.int64()),
            "_kafka_deleted": pa.array(
                [[True, None, a is None][p] for a, _, p in keys], pa.bool_()
            ),
        }
    )
    newest = Newest(
        tuple(Field(name, BIGINT) for name in names),
        Field("_kafka_partition", BIGINT),
        Field("_kafka_offset", BIGINT),
        is_settled,
        takes_truncates=is_settled and is_truncated,
    )
    with duckdb.connect() as connection:
        connection.register("decoded", rows)
        try:
            wanted = connection.sql(newest_rows_sql("SELECT * FROM decoded", newest)).fetchall()
        except duckdb.Error as error:
            assert UPSERT_ORDER_UNKNOWN.name in str(error)
            fails(UPSERT_ORDER_UNKNOWN, lambda: newest_rows(rows, newest))
            return
    found = newest_rows(rows, newest).to_pylist()
    assert in_order(tuple(row.values()) for row in found) == in_order(wanted)


def test_what_a_predicate_says_of_a_key_alone() -> None:
    key, other = Comparison("k", "=", 1), Comparison("x", "=", 2)
    assert over(And((key, other)), ["k"]) == And((key,))
    assert over(Or((key, other)), ["k"]) is None
    assert over(Or((And((key, other)), In("k", (3,)))), ["k"]) == Or((And((key,)), In("k", (3,))))
    assert over(IsNull("x"), ["k"]) is None
    assert over(None, ["k"]) is None


def fails(code: object, work: object) -> None:
    """It must fail with that error."""
    assert callable(work)
    with pytest.raises(SeamlineError) as caught:
        work()
    assert caught.value.code is code
