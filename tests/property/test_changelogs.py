"""Goal: a table over captured changes is the database that they are of.

Method: random statements run in SQLite, their changes are written as Debezium, Maxwell and Canal
write them, with schemas and without, tiered at random places and read at random moments, with a
cached tail and without; the table must be what SQLite says there is. What an envelope cannot tell
is refused by name.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import pathlib
import random
import tempfile
from collections.abc import Sequence
from typing import Any

import fastavro
import pytest
from google.protobuf import json_format, message_factory
from support.captured import AVRO_KEY, AVRO_VALUE, ENCODINGS, KEYS, CapturedUsers
from support.upserts import Users, in_order

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.envelopes import ENVELOPES, path_of, rows_of
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import (
    BAD_RECORD,
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    UPSERT_ORDER_UNKNOWN,
    ErrorCode,
    SeamlineError,
)
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.types import BIGINT, VARCHAR, Field

ALL = "SELECT id, name, score FROM users"


AVRO = {
    "format": "avro",
    "value_schema": json.dumps(AVRO_VALUE),
    "key_format": "avro",
    "key_schema": json.dumps(AVRO_KEY),
}
"""What a table says of changes in Avro without a registry."""


def play(seed: int, folder: pathlib.Path, reads: int, envelope: str = "") -> None:
    """One history, read that many times."""
    dice = random.Random(seed)
    envelope = envelope or ["debezium", "maxwell", "debezium", "canal"][seed % 4]
    encoding = dice.choice(ENCODINGS) if envelope == "debezium" else "json"
    partitions = dice.choice([1, 1, 3])
    captured = CapturedUsers(dice, envelope, encoding=encoding, partitions=partitions)
    said: dict[str, Any] = {
        "mode": "changelog",
        "envelope": envelope,
        "key": None,
        **({"spellings": ("text_numbers",)} if encoding != "avro" else AVRO),
    }
    users = Users(folder, partitions, is_followed=dice.random() < 0.5, **said)

    def write(records: Any) -> None:
        for key, value, id_ in records:
            users.produce(key, value, id_ % users.partitions)

    write(captured.snapshot())
    for _ in range(reads):
        write(captured.happen(dice.randrange(8)))
        if dice.random() < 0.4:
            low = users.boundary().next
            users.tier({p: dice.randint(low[p], end) for p, end in users.end().items()})
        compare(users, captured, dice)
    is_drop = envelope == "maxwell"
    if not captured.is_truncated and (ENVELOPES[envelope].truncates or is_drop):
        write([captured.truncate()])
        with pytest.raises(SeamlineError) as caught:
            users.ask(ALL)
        assert caught.value.code is (NOT_SUPPORTED if is_drop else UPSERT_ORDER_UNKNOWN)
    users.close()


def compare(users: Users, captured: CapturedUsers, dice: random.Random) -> None:
    """The table is the database, however it is asked."""
    rows = captured.rows()
    assert users.ask(ALL) == in_order(rows)
    assert users.ask("SELECT count(*) FROM users") == [(len(rows),)]
    id_, name = dice.randrange(KEYS), dice.choice(["b", ""])
    conditions = [
        (f"id = {id_}", [row for row in rows if row[0] == id_]),
        (f"id IN ({id_}, 3)", [row for row in rows if row[0] in (id_, 3)]),
        (f"id < {id_}", [row for row in rows if row[0] < id_]),
        (f"name = '{name}'", [row for row in rows if row[1] == name]),
        (f"id = {id_} AND name = '{name}'", [r for r in rows if r[:2] == (id_, name)]),
    ]
    for condition, wanted in dice.sample(conditions, 2):
        assert users.ask(f"{ALL} WHERE {condition}") == in_order(wanted), condition
    joined = "SELECT a.id FROM users a JOIN users b ON a.id = b.id"
    assert users.ask(f"{joined} WHERE b.id = {id_}") == [row[:1] for row in rows if row[0] == id_]
    assert set(users.ask('SELECT id, name, score FROM "users$hot"')) <= set(rows)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("seed", range(5))
def test_a_change_log_is_its_database(seed: int, tmp_path: pathlib.Path) -> None:
    play(seed, tmp_path, 6)


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("envelope", [*ENVELOPES][3:])
def test_a_change_log_of_any_source_is_its_database(envelope: str, tmp_path: pathlib.Path) -> None:
    play(len(envelope), tmp_path, 4, envelope)


@pytest.mark.soak
def test_a_change_log_is_its_database_at_many_seams() -> None:
    for seed in range(100, 107):
        for envelope in ("", *ENVELOPES):
            with tempfile.TemporaryDirectory() as folder:
                play(seed, pathlib.Path(folder), 10, envelope)


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_truncate_is_a_change_without_a_key(is_followed: bool, tmp_path: pathlib.Path) -> None:
    said: dict[str, Any] = {"mode": "changelog", "envelope": "debezium", "key": None}
    users = Users(tmp_path, 1, is_followed=is_followed, **said)
    users.put(1, "a", 1)
    users.put(2, "b", 1)
    users.tier()
    before = users.pin().facts.seam
    users.put(1, "c", 2)
    users.truncate()
    users.produce(None, b'{"op": "m", "message": {}}', 0)
    users.put(2, "d", 3)
    every = 'SELECT id, name, _kafka_deleted, _kafka_offset FROM "users$changes"'
    changes = [
        (1, "a", False, 0),
        (2, "b", False, 1),
        (1, "c", False, 2),
        (None, None, True, 3),
        (None, None, None, 4),
        (2, "d", False, 5),
    ]
    for _ in range(2):  # in the tail, and tiered
        assert users.ask(every) == in_order(changes)
        assert users.ask(f"{every} WHERE id IS NULL AND _kafka_deleted") == [changes[3]]
        assert users.ask(f"{every} WHERE id = 2") == in_order([changes[1], changes[5]])
        assert users.ask(ALL) == [(2, "d", 3)]
        assert users.ask(f"{ALL} WHERE id = 1") == []
        assert users.ask(f"{ALL} WHERE name = 'b'") == []
        users.tier()
    since = "SELECT id FROM TABLE(changes(table => 'users', from_token => 'x')) WHERE id IS NULL"
    assert users.ask(since, changed_from=[before]) == [(None,), (None,)]
    users.close()


# --- What is refused -----------------------------------------------------------------------------

FIELDS = (Field("id", BIGINT, required=True), Field("name", VARCHAR, required=True))


def decoded(
    envelope: str,
    body: Any,
    key: bytes | None = b'{"id": 1}',
    fields: tuple[Field, ...] = FIELDS,
    **said: Any,
) -> Any:
    """The rows of one record."""
    binding = TopicBinding(
        *("c", "t"),
        mode="changelog",
        envelope=envelope,
        **{"primary_key": ("id",), "key_format": "json", **said},
    )
    assert TopicBinding.from_properties(binding.to_properties()) == binding
    spec = DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS))
    value = None if body is None else json.dumps(body).encode()
    batch = RawBatch([0], [0], [0], [key], [value], [None])
    return Decoder(spec).decode(batch).rows.to_pylist()


ROW = {"id": 1, "name": "a"}


def nested(body: dict[str, Any]) -> dict[str, Any]:
    """What is named by paths, at the places to which they lead."""
    whole: dict[str, Any] = {}
    for names, part in body.items():
        *outer, last = path_of(names)
        place = whole
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = part
    return whole


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_columns_may_be_called_as_parts_of_an_envelope_are(envelope: str) -> None:
    kind = ENVELOPES[envelope]
    called = {path_of(n)[0] for n in (kind.row, kind.before, kind.old, kind.operation)}
    fields = [Field("id", BIGINT, required=True)]
    fields += [Field(name, VARCHAR) for name in sorted(called)]
    row = {field.name: f"of {field.name}" for field in fields} | {"id": 1}
    body = {kind.operation: min(kind.writes), kind.row: [row] if kind.is_listed else row}
    binding = TopicBinding(
        *("c", "t"),
        mode="changelog",
        envelope=envelope,
        primary_key=("id",),
        key_format="json",
    )
    spec = DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS))
    batch = RawBatch([0], [0], [0], [None], [json.dumps(nested(body)).encode()], [None])
    (found,) = Decoder(spec).decode(batch).rows.to_pylist()
    assert {name: found[name] for name in row} == row


@pytest.mark.parametrize(
    ("envelope", "body", "code"),
    [
        ("debezium", {"op": "t", "before": None, "after": None}, UPSERT_ORDER_UNKNOWN),
        ("debezium", {"op": "x", "after": ROW}, BAD_RECORD),
        ("debezium", {"after": ROW}, BAD_RECORD),
        ("debezium", {"op": "c", "after": None}, BAD_RECORD),
        ("debezium", {"op": "c", "after": {"id": 1}}, BAD_RECORD),
        ("debezium", {"op": "c", "after": {"name": "a"}}, BAD_RECORD),
        (
            "debezium",
            {"op": "u", "after": {"id": 1, "name": "__debezium_unavailable_value"}},
            BAD_RECORD,
        ),
        ("debezium", ROW, BAD_RECORD),
        ("maxwell", {"type": "table-drop"}, NOT_SUPPORTED),
        ("maxwell", {"type": "database-drop"}, NOT_SUPPORTED),
        ("canal", {"type": "TRUNCATE", "isDdl": True, "data": None}, UPSERT_ORDER_UNKNOWN),
        ("canal", {"type": "ALTER", "isDdl": True, "data": None}, NOT_SUPPORTED),
        ("maxwell", {"type": "delete", "data": {}}, BAD_RECORD),
    ],
)
def test_what_an_envelope_does_not_tell_is_refused(
    envelope: str, body: dict[str, Any], code: ErrorCode
) -> None:
    with pytest.raises(SeamlineError) as caught:
        decoded(envelope, body, key=None)
    assert caught.value.code is code


def test_what_changes_unnamed_rows_is_refused_whatever_the_policy() -> None:
    with pytest.raises(SeamlineError) as caught:
        decoded("debezium", {"op": "t"}, on_error="skip")
    assert caught.value.code is UPSERT_ORDER_UNKNOWN
    assert decoded("debezium", {"op": "x"}, on_error="skip") == []


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"op": "d", "before": ROW, "after": None}, None),
        ({"op": "d", "before": None, "after": None}, b'{"id": 1}'),
        ({"schema": {}, "payload": {"op": "d", "before": {"id": 1}}}, None),
        (None, b'{"id": 1}'),
        (None, b'{"schema": {}, "payload": {"id": 1}}'),
    ],
)
def test_a_delete_names_its_row(body: Any, key: bytes | None) -> None:
    (row,) = decoded("debezium", body, key)
    assert (row["id"], row["name"], row[columns.DELETED]) == (1, None, True)


MOVED = [
    ("debezium", {"op": "u", "before": {"id": 2, "name": "b"}, "after": ROW}),
    ("maxwell", {"type": "update", "data": ROW, "old": {"id": 2}}),
    ("canal", {"type": "UPDATE", "data": [ROW], "old": [{"id": 2}]}),
    ("canal", {"type": "UPDATE", "data": [ROW], "old": [{"id": 2, "name": "b"}]}),
]


@pytest.mark.parametrize(("envelope", "body"), MOVED)
def test_an_update_of_a_key_ends_the_former_row(envelope: str, body: Any) -> None:
    former, row = decoded(envelope, body, key=None)
    assert (former["id"], former["name"], former[columns.DELETED]) == (2, None, True)
    assert (row["id"], row["name"], row[columns.DELETED]) == (1, "a", False)
    assert former[columns.OFFSET] == row[columns.OFFSET]


@pytest.mark.parametrize(
    "before",
    [
        None,
        {},
        {"id": 1},
        {"id": None, "name": None},
        {"id": 1, "name": "__debezium_unavailable_value"},
        {"name": "a"},
    ],
)
def test_what_a_source_keeps_of_a_former_row_is_no_other_key(before: Any) -> None:
    body = {"op": "u", "before": before, "after": ROW}
    (row,) = decoded("debezium", body, primary_key=("id", "name"))
    assert (row["id"], row["name"], row[columns.DELETED]) == (1, "a", False)


def test_a_placeholder_is_no_key_of_a_delete() -> None:
    body = {"op": "d", "before": {"id": 1, "name": "__debezium_unavailable_value"}}
    (row,) = decoded("debezium", body, b'{"id": 1, "name": "a"}', primary_key=("id", "name"))
    assert (row["id"], row["name"], row[columns.DELETED]) == (1, "a", True)


def test_a_former_row_says_nothing_of_a_key_from_elsewhere() -> None:
    body = {"op": "u", "before": {"id": 5, "name": "a"}, "after": {"id": 5, "name": "b"}}
    (row,) = decoded("debezium", body, b'{"shard": 9}', columns_from=("id = key.shard",))
    assert (row["id"], row["name"], row[columns.DELETED]) == (9, "b", False)


def test_a_ghost_does_not_stay_where_a_key_has_changed(tmp_path: pathlib.Path) -> None:
    said: dict[str, Any] = {"mode": "changelog", "envelope": "debezium", "key": None}
    users = Users(tmp_path, 1, **said)
    for is_update in (False, True):
        before = ROW if is_update else None
        after = {"id": 2, "name": "a"} if is_update else ROW
        body = {"op": "u" if is_update else "c", "before": before, "after": after}
        users.produce(None, json.dumps(body).encode(), 0)
    assert users.ask("SELECT id, name FROM users") == [(2, "a")]
    users.close()


@pytest.mark.parametrize("envelope", ["maxwell", "canal"])
def test_an_update_of_a_part_of_a_key_ends_the_whole_former_key(envelope: str) -> None:
    row: Any = {"id": 1, "name": "a"}
    old: Any = {"id": 2}
    if envelope == "canal":
        row, old = [row], [old]
    word = "UPDATE" if envelope == "canal" else "update"
    body = {"type": word, "data": row, "old": old}
    found = decoded(envelope, body, key=None, primary_key=("id", "name"))
    assert [(r["id"], r["name"], r[columns.DELETED]) for r in found] == [
        (2, "a", True),
        (1, "a", False),
    ]


def test_what_stays_the_same_is_no_other_key() -> None:
    body = {"type": "UPDATE", "data": [ROW], "old": [{"id": 1, "name": "b"}]}
    (row,) = decoded("canal", body, key=None)
    assert (row["id"], row[columns.DELETED]) == (1, False)


@pytest.mark.parametrize(("envelope", "body"), MOVED)
def test_a_former_row_in_another_partition_is_no_guess(
    envelope: str, body: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(SeamlineError) as caught:
        decoded(envelope, body, key=None, key_partitioner="murmur2", key_partitions=2)
    assert caught.value.code is UPSERT_ORDER_UNKNOWN
    said: dict[str, Any] = {"mode": "changelog", "envelope": envelope, "key": None}
    users = Users(tmp_path, 2, **said)
    first = {"id": 2, "name": "b"}
    inserted = {
        "debezium": {"op": "c", "before": None, "after": first},
        "maxwell": {"type": "insert", "data": first},
        "canal": {"type": "INSERT", "data": [first]},
    }
    users.produce(None, json.dumps(inserted[envelope]).encode(), 0)
    users.tier()
    users.produce(None, json.dumps(body).encode(), 1)
    with pytest.raises(SeamlineError) as caught:
        users.ask(ALL)
    assert caught.value.code is UPSERT_ORDER_UNKNOWN
    users.close()


TENANTS = (Field("tenant", BIGINT, required=True, write_default=0), *FIELDS)
OF_TENANT: dict[str, Any] = {"fields": TENANTS, "primary_key": ("tenant", "id")}


def test_the_default_of_a_column_is_no_former_key() -> None:
    row = {"tenant": 7, "id": 1, "name": "b"}
    for envelope, body in (
        ("maxwell", {"type": "update", "data": row, "old": {"name": "a"}}),
        ("canal", {"type": "UPDATE", "data": [row], "old": [{"name": "a"}]}),
    ):
        (found,) = decoded(envelope, body, key=None, **OF_TENANT)
        assert (found["tenant"], found["id"], found[columns.DELETED]) == (7, 1, False)


@pytest.mark.parametrize("body", [None, {"op": "d", "before": {"id": 1}}, {"op": "d"}])
def test_the_default_of_a_column_is_no_key_of_a_delete(body: Any) -> None:
    with pytest.raises(SeamlineError) as caught:
        decoded("debezium", body, b'{"id": 1}', **OF_TENANT)
    assert caught.value.code is BAD_RECORD
    (found,) = decoded("debezium", body, b'{"tenant": 7, "id": 1}', **OF_TENANT)
    assert (found["tenant"], found["id"], found[columns.DELETED]) == (7, 1, True)


def test_what_was_left_out_does_not_end_a_row() -> None:
    body = {"type": "update", "data": {"id": 1}, "old": {"id": 2}}
    assert decoded("maxwell", body, key=None, on_error="skip") == []


def test_a_message_is_of_no_row() -> None:
    (row,) = decoded("debezium", {"op": "m", "message": {"content": "x"}})
    assert (row["id"], row[columns.DELETED]) == (None, None)


TRUNCATES = [
    ("debezium", {"op": "t", "before": None, "after": None, "source": {"table": "users"}}),
    ("canal", {"type": "TRUNCATE", "isDdl": True, "data": None, "old": None}),
]


@pytest.mark.parametrize(("envelope", "body"), TRUNCATES)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize(
    ("key", "columns_from"),
    [
        (None, ()),
        (None, ("id = key.id",)),
        (None, ("id = key.id", "name = key.name")),
        (b'{"id": 7}', ("id = key.id",)),
        (b"no JSON", ("id = key.id",)),
    ],
)
def test_a_truncate_is_a_delete_of_no_key(
    envelope: str, body: Any, on_error: str, key: bytes | None, columns_from: tuple[str, ...]
) -> None:
    (row,) = decoded(
        envelope, body, key, on_error=on_error, columns_from=columns_from, key_partitions=1
    )
    assert (row["id"], row["name"], row[columns.DELETED]) == (None, None, True)
    assert row[columns.ERROR] is None


def test_a_watermark_is_of_no_row() -> None:
    body = {"type": "TIDB_WATERMARK", "isDdl": False, "data": None, "old": None}
    (row,) = decoded("canal", {**body, "_tidb": {"watermarkTs": 1}}, key=None)
    assert (row["id"], row[columns.DELETED]) == (None, None)


def test_columns_may_come_from_beside_the_row() -> None:
    (row,) = decoded(
        "debezium",
        {"op": "c", "after": {"id": 1}, "source": {"table": "users"}},
        columns_from=("name = value.source.table",),
    )
    assert (row["id"], row["name"]) == (1, "users")


STRUCT: dict[str, Any] = {
    "type": "struct",
    "fields": [{"type": "int64", "optional": False, "field": "id"}],
}


@pytest.mark.parametrize("schema", [None, STRUCT])
@pytest.mark.parametrize("source", ["key.id", "key.payload.id"])
def test_a_column_comes_from_a_key_that_is_wrapped(source: str, schema: Any) -> None:
    key = json.dumps({"schema": schema, "payload": {"id": 1}}).encode()
    said: dict[str, Any] = {"columns_from": (f"id = {source}",)}
    (row,) = decoded("debezium", {"op": "c", "after": {"name": "a"}}, key, **said)
    assert (row["id"], row["name"], row[columns.DELETED]) == (1, "a", False)
    (row,) = decoded("debezium", None, key, **said)
    assert (row["id"], row[columns.DELETED]) == (1, True)


def test_another_column_comes_from_a_key_that_is_wrapped() -> None:
    key = json.dumps({"schema": STRUCT, "payload": {"id": 1, "of": "a"}}).encode()
    body = {"op": "c", "after": {"id": 1}}
    (row,) = decoded("debezium", body, key, columns_from=("name = key.of",))
    assert (row["id"], row["name"]) == (1, "a")


@pytest.mark.parametrize(
    "definition",
    [
        {"mode": "changelog"},
        {"mode": "changelog", "envelope": "unknown"},
        {"mode": "upsert", "envelope": "debezium"},
        {"mode": "append", "envelope": "debezium", "primary_key": ()},
        {"mode": "changelog", "envelope": "debezium", "primary_key": ()},
    ],
)
def test_what_cannot_be_a_change_log_is_refused(
    definition: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(SeamlineError) as caught:
        Users(tmp_path, **definition)
    assert caught.value.code is INVALID_TABLE_DEFINITION


USER = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", USER], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"op": "c", "after": {"id": 1, "name": "a"}}, (1, "a", False)),
        ({"op": "d", "before": {"id": 1, "name": "a"}}, (1, None, True)),
    ],
)
def test_changes_may_be_avro(body: dict[str, Any], found: tuple[Any, ...]) -> None:
    binding = TopicBinding(
        *("c", "t", "avro"),
        mode="changelog",
        envelope="debezium",
        primary_key=("id",),
        value_schema=json.dumps(ENVELOPE),
        key_format="json",
    )
    value = io.BytesIO()
    fastavro.schemaless_writer(value, fastavro.parse_schema(ENVELOPE), body)
    spec = DecoderSpec.of(binding, (*FIELDS, *columns.METADATA_FIELDS))
    batch = RawBatch([0], [0], [0], [b'{"id": 1}'], [value.getvalue()], [None])
    (row,) = Decoder(spec).decode(batch).rows.to_pylist()
    assert (row["id"], row["name"], row[columns.DELETED]) == found


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_columns_are_inferred_from_the_rows(envelope: str) -> None:
    captured = CapturedUsers(random.Random(3), envelope)
    values = [value for _, value, _ in captured.happen(20)]
    own = {"_id"} if envelope.endswith("mongodb") else set()
    columns_ = infer_json(rows_of(envelope, values)).columns
    assert {c.name for c in columns_} == {"id", "name", "score"} | own


# --- What a record lacks -------------------------------------------------------------------------

NULLABLE = (Field("id", BIGINT, required=True), Field("name", VARCHAR))
MISSING = "missing"
"""A part that a record does not have; None is one that is null."""
BODY_FORMATS = ("json", "wrapped", "json_schema", "avro", "protobuf")
FORMATS_OF = {
    "canal": ("json", "json_schema", "avro", "protobuf"),
    **dict.fromkeys(("mongodb", "debezium_mongodb"), ("json", "wrapped")),
    **dict.fromkeys(("dms", "qlik", "qlik_data"), ("json", "wrapped", "json_schema")),
}
"""Those of the envelopes that are not written in all."""


class Changes:
    """Writes records of an envelope in a format, as far as the format can tell them apart."""

    def __init__(self, envelope: str, format_: str) -> None:
        self.kind = ENVELOPES[envelope]
        self.format = "json" if format_ == "wrapped" else format_
        self._is_wrapped = format_ == "wrapped"
        self.schema: str | None = None
        rows = list(dict.fromkeys((self.kind.row, self.kind.before, self.kind.old)))
        if format_ == "avro":
            self.schema = json.dumps(self._avro(rows))
        elif format_ == "protobuf":
            many = "repeated" if self.kind.is_listed else "optional"
            fields = [f"{many} User {name} = {place};" for place, name in enumerate(rows, 2)]
            self.schema = (
                'syntax = "proto3"; message Change { optional string '
                f"{self.kind.operation} = 1; {' '.join(fields)} }} "
                "message User { optional int64 id = 1; optional string name = 2; }"
            )

    def _avro(self, rows: list[str]) -> dict[str, Any]:
        types: list[Any] = [USER, *["Value"] * (len(rows) - 1)]
        if self.kind.is_listed:
            types = [{"type": "array", "items": ["null", type_]} for type_ in types]
        fields: list[Any] = [
            {"name": name, "type": ["null", type_], "default": None}
            for name, type_ in zip(rows, types, strict=True)
        ]
        fields.append({"name": self.kind.operation, "type": ["null", "string"]})
        return {"type": "record", "name": "Envelope", "fields": fields}

    @functools.cached_property
    def _parsed(self) -> Any:
        assert self.schema is not None
        if self.format == "avro":
            return fastavro.parse_schema(json.loads(self.schema))
        file = protobuf_schema.compiled(Schema("PROTOBUF", self.schema))
        return message_factory.GetMessageClass(protobuf_schema.message_at(file, (0,)))

    def written(self, body: dict[str, Any]) -> bytes:
        """The bytes of a change."""
        body = {name: part for name, part in body.items() if part != MISSING}
        if self.schema is None:
            body = nested(body)
            whole = {"schema": None, "payload": body} if self._is_wrapped else body
            return json.dumps(whole).encode()
        if self.format == "avro":
            written = io.BytesIO()
            fastavro.schemaless_writer(written, self._parsed, body)
            return written.getvalue()
        message = self._parsed()
        json_format.ParseDict({n: part for n, part in body.items() if part != [None]}, message)
        return bytes(message.SerializeToString())


def bodies(kind: Any, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes of every kind, with each of their parts there, null and missing."""
    there = [row] if kind.is_listed else row
    lacking: list[Any] = [None, MISSING, *([[], [None]] if kind.is_listed else [])]
    words = [*sorted(kind.writes | kind.deletes | kind.nothing), "other", None, MISSING]
    olds = {kind.before, kind.old} - {kind.row}
    return [
        {kind.operation: word, kind.row: part, **dict.fromkeys(olds, old)}
        for word, part, old in itertools.product(words, [there, *lacking], [there, *lacking])
    ]


def judged(kind: Any, body: dict[str, Any], key: dict[str, Any] | None, *, of_key: bool) -> Any:
    """What a change is: (id, name, is deleted), or the name of the part that makes it bad."""

    def row(name: str) -> Any:
        part = body[name]
        if kind.is_listed:
            part = part[0] if isinstance(part, list) and part else None
        return part if isinstance(part, dict) else None

    word = body[kind.operation]
    if word in kind.nothing:
        return None, None, None
    own, before = row(kind.row), row(kind.before)
    if word in kind.writes:
        if own is None:
            return kind.row
        id_ = key and key["id"] if of_key else own["id"]
        return (id_, own["name"], False) if id_ is not None else "id"
    if word in kind.deletes:
        if kind.deletes_may_have_row and before is None:
            before = own
        known = before if before is not None and not of_key else key
        return (known["id"], None, True) if known is not None else "id"
    return kind.operation if word not in (None, MISSING) else "it contains no change"


def batch_of(records: Sequence[tuple[bytes | None, bytes | None]]) -> RawBatch:
    count = len(records)
    keys, values = [key for key, _ in records], [value for _, value in records]
    return RawBatch([0] * count, list(range(count)), [0] * count, keys, values, [None] * count)


@pytest.mark.one_in(test=6)
@pytest.mark.parametrize("of_key", [False, True], ids=["key in the row", "key beside it"])
@pytest.mark.parametrize(
    ("envelope", "format_"),
    [
        (envelope, format_)
        for envelope, format_ in itertools.product(ENVELOPES, BODY_FORMATS)
        if format_ in FORMATS_OF.get(envelope, BODY_FORMATS)
    ],
)
def test_a_change_without_its_row_is_a_bad_record(
    envelope: str, format_: str, of_key: bool
) -> None:
    changes = Changes(envelope, format_)
    every = bodies(changes.kind, {"id": 1, "name": "a"})
    cases = list(itertools.product(every, (None, {"id": 1})))
    records = [(json.dumps(key).encode() if key else None, changes.written(b)) for b, key in cases]
    binding = TopicBinding(
        *("c", "t", changes.format),
        mode="changelog",
        envelope=envelope,
        primary_key=("id",),
        key_format="json",
        columns_from=("id = key.id",) if of_key else (),
        value_schema=changes.schema,
        on_error="skip",
    )
    spec = DecoderSpec.of(binding, (*NULLABLE, *columns.METADATA_FIELDS))
    rows, bad = Decoder(spec).decode_all(batch_of(records))
    left = iter(rows.to_pylist())
    for index, (body, key) in enumerate(cases):
        wanted = judged(changes.kind, body, key, of_key=of_key)
        if isinstance(wanted, str):
            assert wanted in bad[index], (body, key)
        else:
            row = next(left)
            name = row["name"] if row[columns.DELETED] is False else None
            assert (row["id"], name, row[columns.DELETED]) == wanted, (body, key)
    assert next(left, None) is None
    alone = [len(Decoder(spec).decode(batch_of([record])).rows) for record in records[::7]]
    assert alone == [int(index not in bad) for index in range(0, len(records), 7)]


def test_a_table_whose_columns_are_all_beside_the_row_needs_the_row() -> None:
    beside: dict[str, Any] = {"columns_from": ("id = key.id", "name = value.source.table")}
    body = {"op": "u", "after": {"id": 1}, "source": {"table": "users"}}
    (row,) = decoded("debezium", body, **beside)
    assert (row["id"], row["name"]) == (1, "users")
    for after in ({}, {"after": None}):
        with pytest.raises(SeamlineError, match="after: null or missing, but op is 'u'"):
            decoded("debezium", {"op": "u", "source": {"table": "users"}, **after}, **beside)


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_row_that_was_not_sent_changes_nothing_in_either_tier(
    envelope: str, tmp_path: pathlib.Path
) -> None:
    kind = ENVELOPES[envelope]
    said: dict[str, Any] = {"mode": "changelog", "envelope": envelope, "key": None}
    said |= {"on_error": "skip", "key_format": "json", "columns_from": ("id = key.id",)}
    users = Users(tmp_path, 1, **said)
    row = {"id": 1, "name": "a", "score": 2}
    for part in ([row] if kind.is_listed else row, None):
        body = {kind.operation: max(kind.writes), kind.row: part}
        users.produce(b'{"id": 1}', json.dumps(nested(body)).encode(), 0)
    assert users.ask(ALL) == [(1, "a", 2)]
    users.tier()
    assert users.ask(ALL) == [(1, "a", 2)]
    users.close()
