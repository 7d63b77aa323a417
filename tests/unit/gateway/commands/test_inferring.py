"""Goal: a table over a topic with a schema has the columns that the schema says, and says why.

Method: a log in memory, a catalog in one file and a registry over HTTP; records of the official
client's serializers, of one schema or several, of none, and in the envelope of Debezium.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support import offline
from support.creating import World
from support.registry import Registry, registries

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.errors import SeamlineError

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "odd", "type": ["null", "long", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
OTHER = {"type": "record", "name": "shop.Other", "fields": [{"name": "x", "type": "int"}]}
KEY = {"type": "record", "name": "shop.Key", "fields": [{"name": "k", "type": "int"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


@pytest.fixture
def world(tmp_path: pathlib.Path, registry: Registry) -> World:
    found = World(offline.config(tmp_path))
    registered = SchemaRegistry(SchemaRegistryConfig(url=registry.url))
    found.memory.schemas = registered  # type: ignore[attr-defined]
    return found


def avro(registry: Registry, schema: Any, value: Any, part: str = "value", **conf: Any) -> bytes:
    serializer = AvroSerializer(registry.client, json.dumps(schema), conf=conf)
    return serializer(value, SerializationContext("bids", part))  # type: ignore[no-any-return]


def columns(world: World, name: str) -> dict[str, str]:
    schema = world.catalog("lake").load(("default", name)).state.schema
    return {f.name: str(f.type) for f in schema.columns if not f.name.startswith("_kafka")}


def test_the_newest_schema_of_the_topic_has_the_columns(world: World, registry: Registry) -> None:
    registry.register("bids-value", json.dumps(ORDER))
    registry.register("bids-key", json.dumps(KEY))
    notes = world.notes(
        "CREATE TABLE t WITH (topic = 'bids', format = 'avro', key_format = 'avro',"
        " columns_from = ARRAY['k = key.k', 'at_log = timestamp'])"
    )
    assert notes == []
    assert columns(world, "t") == {
        "k": "integer",
        "at_log": "timestamp(6) with time zone",
        "id": "bigint",
        "at": "timestamp(6) with time zone",
        "odd": "row(long bigint, string varchar)",
        "tags": "array(varchar)",
    }


def test_a_union_and_what_has_no_type_may_be_json_text(world: World, registry: Registry) -> None:
    tree = {"name": "inner", "type": ["null", "shop.Order"], "default": None}
    registry.register("bids-value", json.dumps({**ORDER, "fields": [*ORDER["fields"], tree]}))
    said = "topic = 'bids', format = 'avro', evolution = 'manual'"
    world.notes(f"CREATE TABLE t WITH ({said}, spellings = ARRAY['json_text'])")
    assert columns(world, "t")["odd"] == "varchar"
    assert columns(world, "t")["inner"] == "varchar"
    (note,) = world.notes(f"CREATE TABLE u WITH ({said})")
    assert note == "inner: no column type can hold what the schema has there"


def test_a_union_of_records_has_the_fields_of_all(world: World, registry: Registry) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "tags", "type": "string"}]
    other = {**OTHER, "fields": [*OTHER["fields"], *fields]}
    number = registry.register("bids-value", json.dumps([ORDER, other]))
    world.notes("CREATE TABLE t WITH (topic = 'bids', format = 'avro')")
    assert columns(world, "t") == {
        "id": "bigint",
        "at": "timestamp(6) with time zone",
        "odd": "row(long bigint, string varchar)",
        "x": "integer",
        "Order": "row(tags array(varchar))",
        "Other": "row(tags varchar)",
    }
    assert number


def test_without_a_subject_the_records_say_it_and_mixed_ones_are_said(
    world: World, registry: Registry
) -> None:
    strategy = {"subject.name.strategy": record_subject_name_strategy}
    order: Any = {"id": 1, "at": 0, "odd": None, "tags": []}
    for schema, value in ((OTHER, {"x": 1}), (ORDER, order), (ORDER, order)):
        world.memory.produce("bids", 0, avro(registry, schema, value, **strategy))
    (mixed,) = world.notes("CREATE TABLE t WITH (topic = 'bids', format = 'avro')")
    assert "mixed: shop.Order (2), shop.Other (1) of 3 sampled records" in mixed
    assert "the columns are those of all of them" in mixed
    assert set(columns(world, "t")) == {"id", "at", "odd", "tags", "x"}


MESSAGES = """
syntax = "proto3"; package shop;
message Order { int64 id = 1; } message Ping {} message Refund { int64 id = 1; string why = 2; }
"""


def protobuf(registered: int, *messages: bytes) -> list[bytes]:
    return [b"\x00" + registered.to_bytes(4, "big") + message for message in messages]


def test_a_record_that_names_no_message_does_not_hide_those_that_do(
    world: World, registry: Registry
) -> None:
    other = registry.register("other-value", 'syntax = "proto3"; message Far {}', "PROTOBUF")
    known = registry.register("bids-value", MESSAGES, "PROTOBUF")
    bad = protobuf(known, b"", b"\x02\x12", b"\x02\x02") + protobuf(other, b"\x00")
    for value in [*protobuf(known, b"\x02\x04\x08\x05"), *bad]:
        world.memory.produce("bids", 0, value)
    world.notes("CREATE TABLE t WITH (topic = 'bids', format = 'protobuf', on_error = 'null')")
    assert set(columns(world, "t")) == {"id", "why"}


def test_several_messages_of_one_schema_are_said(world: World, registry: Registry) -> None:
    known = registry.register("bids-value", MESSAGES, "PROTOBUF")
    for value in protobuf(known, b"\x02\x04\x08\x05", b"\x00\x08\x05", b"\x00\x08\x06"):
        world.memory.produce("bids", 0, value)
    (mixed,) = world.notes("CREATE TABLE t WITH (topic = 'bids', format = 'protobuf')")
    assert "mixed: shop.Order (2), shop.Refund (1) of 3 sampled records" in mixed
    assert "the columns are those of all of them" in mixed
    assert set(columns(world, "t")) == {"id", "why"}


def test_records_that_name_no_message_are_said(world: World, registry: Registry) -> None:
    known = registry.register("bids-value", MESSAGES, "PROTOBUF")
    for value in protobuf(known, b"", b"\x02\x12"):
        world.memory.produce("bids", 0, value)
    with pytest.raises(SeamlineError, match="no sampled record names a message of the schema"):
        world.notes("CREATE TABLE t WITH (topic = 'bids', format = 'protobuf')")


def test_records_that_do_not_fit_are_said(world: World, registry: Registry) -> None:
    value = avro(registry, OTHER, {"x": 1})
    for body in (value, value[:-1], b"{}"):
        world.memory.produce("bids", 0, body)
    (note,) = world.notes("CREATE TABLE t (x bigint) WITH (topic = 'bids', format = 'avro')")
    assert note == (
        "not Avro: it ends too early (2 of 3 sampled records do not fit): "
        "every query over such a record fails."
    )


def test_a_schema_of_the_table_needs_no_registry(tmp_path: pathlib.Path) -> None:
    world = World(offline.config(tmp_path))
    text = 'syntax = "proto3"; message A { int64 id = 1; optional string s = 2; }'
    assert (
        world.notes(
            f"CREATE TABLE t WITH (topic = 'bids', format = 'protobuf', value_schema = '{text}')"
        )
        == []
    )
    assert columns(world, "t") == {"id": "bigint", "s": "varchar"}
    assert world.run("CREATE TABLE u WITH (topic = 'bids', format = 'avro')") == (
        "SCHEMA_REGISTRY_UNAVAILABLE"
    )


NO_SCHEMAS = [
    *(("avro", t) for t in ("nonsense", "[", "{}", "7", '{"type": "record"}', '"shop.Order"')),
    ("avro", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}'),
    *(("protobuf", t) for t in ("nonsense", "message {", 'syntax = "proto3";', "{}")),
    ("protobuf", 'syntax = "proto3"; import "none.proto"; message A { int64 id = 1; }'),
]


def test_a_schema_that_is_none_is_named(world: World) -> None:
    """Of values and of keys, whether it is to say the columns or they are stated."""
    for number, (format_, text) in enumerate(NO_SCHEMAS):
        of_values = f"format = '{format_}', value_schema = '{text}'"
        of_keys = (
            f"key_format = '{format_}', key_schema = '{text}', columns_from = ARRAY['k = key.k']"
        )
        options = (of_values, of_keys)[number % 2]
        for declared in ("", "(id bigint, k bigint)"):
            said = world.run(f"CREATE TABLE t {declared} WITH (topic = 'bids', {options})")
            assert said in ("INVALID_TABLE_DEFINITION", "INFERENCE_FAILED"), (format_, text)


def test_what_show_create_table_says_makes_the_same_table(world: World) -> None:
    text = 'syntax = "proto3"; message A { int64 id = 1; }'
    for number, options in enumerate(
        (
            f"format = 'protobuf', value_schema = '{text}', spellings = ARRAY['epoch_seconds']",
            "format = 'csv', csv_separator = ';', csv_quote = '''', on_error = 'skip'",
            "key_format = 'int64', columns_from = ARRAY['id = key', 'x = header.\"a,b\"']",
            "spellings = ARRAY['text_numbers', 'json_text']",
        )
    ):
        sql = f"CREATE TABLE a{number} (id bigint, x varchar) WITH (topic = 'bids', {options})"
        assert world.run(sql) == "done"
        ((again,),) = world.rows(f"SHOW CREATE TABLE a{number}")
        world.rows(str(again).replace(f"a{number}", f"b{number}", 1))
        own, same = (
            {name: value for name, value in found.items() if name.startswith("seamline.")}
            for found in (
                world.catalog("lake").load(("default", f"{name}{number}")).state.properties
                for name in "ab"
            )
        )
        assert own == same
        assert len(own) > 5


@pytest.mark.parametrize("format_", ["string", "int64", "raw"])
def test_what_says_no_columns_is_refused(world: World, format_: str) -> None:
    sql = f"CREATE TABLE t WITH (topic = 'bids', format = '{format_}')"
    assert world.run(sql) == "INFERENCE_FAILED"
    assert world.run("CREATE TABLE t WITH (topic = 'bids', format = 'avro')") == "INFERENCE_FAILED"


def test_changes_of_debezium_in_avro(world: World, registry: Registry) -> None:
    fields = [{"name": "k", "type": "int"}, {"name": "v", "type": ["null", "string"]}]
    row = {"type": "record", "name": "Value", "fields": fields}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    registry.register("bids-key", json.dumps(KEY))
    after = {"before": None, "after": {"k": 1, "v": "x"}, "op": "c"}
    world.memory.produce(
        "bids",
        0,
        avro(registry, envelope, after),
        key=avro(registry, KEY, {"k": 1}, MessageField.KEY),
    )
    assert (
        world.notes(
            "CREATE TABLE t WITH (topic = 'bids', format = 'avro', mode = 'changelog',"
            " envelope = 'debezium', primary_key = ARRAY['k'])"
        )
        == []
    )
    assert columns(world, "t") == {"k": "integer", "v": "varchar"}


UPSERT = "topic = 'bids', mode = 'upsert', primary_key = ARRAY['id'], key = 'id'"


def marks(world: World, name: str) -> str | None:
    state = world.catalog("lake").load(("default", name)).state
    return state.properties.get("seamline.deleted-by")


@pytest.mark.parametrize(
    ("key", "stated"),
    [
        (b'{"id": 1}', "key_format = 'json'"),
        (b'{"other": 1}', "key_format = 'json', columns_from = ARRAY['id = key.other']"),
        (b"1", "key = 'id'"),
    ],
)
def test_where_record_keys_hold_the_primary_key_can_be_stated(
    world: World, key: bytes, stated: str
) -> None:
    world.memory.produce("bids", 0, b'{"id": 1, "n": 2}', key=key)
    world.memory.produce("bids", 0, None, key=key)
    asked = "topic = 'bids', mode = 'upsert', primary_key = ARRAY['id']"
    with pytest.raises(SeamlineError) as caught:
        world.notes(f"CREATE TABLE t (id bigint, n bigint) WITH ({asked})")
    for remedy in stated.split(", "):
        assert remedy in caught.value.hint
    assert world.notes(f"CREATE TABLE t (id bigint, n bigint) WITH ({asked}, {stated})") == []


def test_records_that_only_delete_fit(world: World) -> None:
    deleted = {"op": "d", "before": {"id": 1, "n": 2}, "after": None}
    written = {"op": "c", "before": None, "after": {"id": 1, "n": 2}}
    for value in (json.dumps(written).encode(), json.dumps(deleted).encode(), None):
        world.memory.produce("bids", 0, value, key=b'{"id": 1}')
    asked = "topic = 'bids', mode = 'changelog', envelope = 'debezium', key_format = 'json'"
    columns_ = "(id bigint, n bigint)"
    asked += ", primary_key = ARRAY['id']"
    assert world.notes(f"CREATE TABLE t {columns_} WITH ({asked})") == []
    (note,) = world.notes(f"CREATE TABLE u (id varchar, n bigint) WITH ({asked})")
    assert "(1 of 1 sampled records do not fit)" in note


def test_what_debezium_marks_as_deleted_is_found(world: World) -> None:
    for id_, mark in (("1", "false"), ("2", "true")):
        body = json.dumps({"id": int(id_), "gone": False, "__deleted": mark})
        world.memory.produce("bids", 0, body.encode(), key=id_.encode())
    (note,) = world.notes(f"CREATE TABLE found WITH ({UPSERT})")
    assert note == "__deleted: a record in which it is true deletes its key (deleted_by)"
    assert marks(world, "found") == "__deleted"
    assert columns(world, "found") == {"id": "bigint", "gone": "boolean"}
    ((made,),) = world.rows("SHOW CREATE TABLE found")
    assert "deleted_by = '__deleted'" in str(made)
    (note,) = world.notes(f"CREATE TABLE stated (id bigint, gone boolean) WITH ({UPSERT})")
    assert note.endswith("deleted_by = '__deleted' makes it a delete")
    assert world.notes(f"CREATE TABLE none WITH ({UPSERT}, deleted_by = '')") == []
    assert (marks(world, "none"), set(columns(world, "none"))) == (
        None,
        {"id", "gone", "__deleted"},
    )
    assert world.notes(f"CREATE TABLE own WITH ({UPSERT}, deleted_by = 'gone')") == []
    assert set(columns(world, "own")) == {"id", "__deleted"}
    assert world.notes("CREATE TABLE events WITH (topic = 'bids')") == []
    assert (marks(world, "events"), len(columns(world, "events"))) == (None, 3)


def test_the_mark_of_a_schema_that_is_followed_is_no_column(
    world: World, registry: Registry
) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "__deleted", "type": ["null", "string"]}]
    registry.register("bids-value", json.dumps({"type": "record", "name": "V", "fields": fields}))
    world.notes(f"CREATE TABLE t WITH ({UPSERT}, format = 'avro')")
    assert columns(world, "t") == {"id": "bigint"}
    properties = world.catalog("lake").load(("default", "t")).state.properties
    assert properties["seamline.evolution"] == "auto"
    assert properties["seamline.deleted-by"] == "__deleted"


@pytest.mark.parametrize(
    "options",
    [
        "topic = 'bids', deleted_by = 'gone'",
        "topic = 'bids', mode = 'changelog', envelope = 'debezium', primary_key = ARRAY['id'],"
        " deleted_by = 'gone'",
        f"{UPSERT}, deleted_by = 'gone', format = 'csv'",
        f"{UPSERT}, deleted_by = 'a b'",
    ],
)
def test_marks_where_they_mean_nothing_are_refused(world: World, options: str) -> None:
    assert world.run(f"CREATE TABLE t (id bigint) WITH ({options})") == "INVALID_TABLE_DEFINITION"
