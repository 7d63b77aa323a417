"""Goal: parts are decoded with the schema they were written with, and a lost one is said by name.

Method: the official client's serializers write to a registry over HTTP, under the subject
strategies and framings they have; then the registry is taken away, or knows nothing, or refuses.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from support.registry import Registry, guid_of, registries, silent

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats import schemas as schema_of
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.connectors.protocols.raw_records import Headers, RawBatch
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.binding import TopicBinding
from seamline.seam.evolution import Watch
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 0}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


def schemas(registry: Registry, **config: Any) -> SchemaRegistry:
    return SchemaRegistry(SchemaRegistryConfig(url=registry.url, **config))


def decoder(registry: SchemaRegistry, declared: str, **binding: Any) -> Decoder:
    made = TopicBinding("c", "orders", **{"format": "avro", **binding})
    fields = (*parse_fields(declared), *columns.METADATA_FIELDS)
    return Decoder(DecoderSpec.of(made, fields), registry)


def batch(*values: bytes | None, key: bytes | None = None, headers: Headers = ()) -> RawBatch:
    count = len(values)
    numbers = list(range(count))
    return RawBatch([0] * count, numbers, numbers, [key] * count, values, [headers] * count)


def rows(found: Decoder, records: RawBatch) -> list[dict[str, Any]]:
    read = found.decode(records).rows
    own = [name for name in read.schema.names if name not in columns.METADATA_NAMES]
    return read.select(own).to_pylist()  # type: ignore[no-any-return]


def avro(registry: Registry, schema: Any, value: Any, field: str = MessageField.VALUE) -> bytes:
    serializer = AvroSerializer(registry.client, json.dumps(schema))
    return serializer(value, SerializationContext("orders", field))  # type: ignore[no-any-return]


def test_versions_of_a_schema_stand_side_by_side(registry: Registry) -> None:
    values = [
        avro(registry, ORDER, {"id": 1, "note": None}),
        avro(registry, LATER, {"id": 2, "note": "n", "price": 2.5}),
        None,
        avro(registry, ORDER, {"id": 3, "note": "x"}),
    ]
    found = decoder(schemas(registry), "id bigint, price double, note varchar")
    expected = [(1, None, None), (2, 2.5, "n"), (None, None, None), (3, None, "x")]
    for _ in range(3):
        assert [tuple(row.values()) for row in rows(found, batch(*values))] == expected
    asked = [path for path in registry.asked if path.startswith("/schemas/ids")]
    assert asked == ["/schemas/ids/1", "/schemas/ids/2"], "each id is asked for once"


def test_keys_and_values_have_schemas_of_their_own(registry: Registry) -> None:
    of_key = {"type": "record", "name": "K", "fields": [{"name": "k", "type": "string"}]}
    key = avro(registry, of_key, {"k": "a"}, MessageField.KEY)
    value = avro(registry, ORDER, {"id": 1, "note": None})
    found = decoder(
        schemas(registry), "k varchar, id bigint", key_format="avro", columns_from=("k = key.k",)
    )
    assert rows(found, batch(value, key=key)) == [{"k": "a", "id": 1}]
    plain = avro(registry, "long", 7, MessageField.KEY)
    found = decoder(
        schemas(registry), "k bigint, id bigint", key_format="avro", columns_from=("k = key",)
    )
    assert rows(found, batch(value, key=plain)) == [{"k": 7, "id": 1}]


@pytest.mark.parametrize("strategy", [None, record_subject_name_strategy])
def test_ids_in_headers(registry: Registry, strategy: Any) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer}
    if strategy is not None:
        conf["subject.name.strategy"] = strategy
    serializer = AvroSerializer(registry.client, json.dumps(ORDER), conf=conf)
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    value = serializer({"id": 5, "note": "h"}, context)
    assert headers
    found = decoder(schemas(registry), "id bigint, note varchar")
    assert rows(found, batch(value, headers=headers)) == [{"id": 5, "note": "h"}]
    assert f"/schemas/guids/{guid_of(1)}" in registry.asked


def apicurio(number: int, *, part: str = "value", **others: bytes) -> list[tuple[str, bytes]]:
    known = {"contentId": number.to_bytes(8, "big"), "encoding": b"BINARY", **others}
    return [(f"apicurio.{part}.{name}", content) for name, content in known.items()]


def test_ids_in_headers_of_apicurio(registry: Registry) -> None:
    key = avro(registry, "long", 7, MessageField.KEY)[5:]
    value = avro(registry, ORDER, {"id": 5, "note": "h"})[5:]
    found = decoder(
        schemas(registry), "k bigint, id bigint", key_format="avro", columns_from=("k = key",)
    )
    headers = [("trace", b"a"), *apicurio(1, part="key"), *apicurio(2)]
    assert rows(found, batch(value, key=key, headers=headers)) == [{"k": 7, "id": 5}]


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([("apicurio.value.globalId", b"\0" * 7 + b"\1")], "no content id"),
        (apicurio(1, contentId=b"\1"), "no content id"),
        (apicurio(1, encoding=b"JSON"), "can be read only by Apicurio's own deserializer"),
    ],
)
def test_headers_that_name_no_schema_are_said(
    registry: Registry, headers: list[tuple[str, bytes]], said: str
) -> None:
    value = avro(registry, ORDER, {"id": 5, "note": "h"})[5:]
    with pytest.raises(SeamlineError, match=said) as caught:
        rows(decoder(schemas(registry), "id bigint"), batch(value, headers=headers))
    assert caught.value.code.name == "BAD_RECORD"


class Elsewhere(Registry):
    """A registry with another context, in which the schemas have the ids of others here."""

    def answer(self, method: str, path: str, body: Any) -> Any:
        found = super().answer(method, path, body)
        is_guids = path.endswith("/ids") and isinstance(found, list)
        return [{"context": ".other", "id": 1}, *found] if is_guids else found


@pytest.mark.parametrize(
    ("kind", "lacks_ids", "note"),
    [(Registry, False, "new"), (Elsewhere, False, "new"), (Registry, True, None)],
)
def test_the_versions_before_a_guid_say_what_a_field_was_called(
    kind: type[Registry], lacks_ids: bool, note: str | None
) -> None:
    with kind() as registry:
        registry.lacks_ids_of_guids = lacks_ids
        registry.register("another-value", json.dumps(ORDER))
        for name in ("note", "remark"):
            text = f'syntax = "proto3"; message Order {{ int64 id = 1; string {name} = 2; }}'
            file = protobuf_schema.compiled(schema_of.Schema("PROTOBUF", text))
            make = message_factory.GetMessageClass(file.message_types_by_name["Order"])
            conf = {
                "use.deprecated.format": False,
                "schema.id.serializer": header_schema_id_serializer,
            }
            serializer = ProtobufSerializer(make, registry.client, conf)
            headers: list[tuple[str, bytes]] = []
            context = SerializationContext("orders", MessageField.VALUE, headers)
            value = serializer(make(**{"id": 5, name: "new"}), context)
        found = decoder(schemas(registry), "id bigint, note varchar", format="protobuf")
        assert rows(found, batch(value, headers=headers)) == [{"id": 5, "note": note}]


def test_schemas_refer_to_others(registry: Registry) -> None:
    inner = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    outer = {"type": "record", "name": "shop.Bill", "fields": [{"name": "sum", "type": "Money"}]}
    made = registry.client
    made.register_schema("money", Schema(json.dumps(inner), "AVRO"))
    schema = Schema(json.dumps(outer), "AVRO", [SchemaReference("shop.Money", "money", 1)])
    value = AvroSerializer(made, schema)(
        {"sum": {"cents": 5}}, SerializationContext("orders", MessageField.VALUE)
    )
    found = decoder(schemas(registry), "sum row(cents bigint)")
    assert rows(found, batch(value)) == [{"sum": {"cents": 5}}]


def bill_of_money(registry: Registry) -> tuple[int, bytes]:
    inner = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    outer = {"type": "record", "name": "shop.Bill", "fields": [{"name": "sum", "type": "Money"}]}
    registry.register("money", json.dumps(inner))
    reference = {"name": "shop.Money", "subject": "money", "version": 1}
    number = registry.register("orders-value", json.dumps(outer), references=[reference])
    return number, b"\0" + number.to_bytes(4, "big") + b"\x0a"


def test_what_a_schema_refers_to_may_be_deleted(registry: Registry) -> None:
    number, value = bill_of_money(registry)
    registry.deleted.add("/subjects/money/versions/1")
    found = decoder(schemas(registry), "sum row(cents bigint)")
    assert rows(found, batch(value)) == [{"sum": {"cents": 5}}]
    registry.register("orders-value", json.dumps(ORDER))
    newest = registry.register("orders-value", json.dumps(LATER))
    assert [bool(schema.references) for schema in schemas(registry).earlier(newest)] == [
        False,
        True,
    ]
    registry.gone.add("/subjects/money/versions/1")
    known = [schema.text for schema in schemas(registry).earlier(newest)]
    assert known == [json.dumps(ORDER)], "what cannot be read any more is left out"
    with pytest.raises(SeamlineError, match="version 1 of money is referred to") as caught:
        schemas(registry).by_id(number)
    assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"


def test_json_with_a_schema(registry: Registry) -> None:
    schema = {"type": "object", "title": "O", "properties": {"id": {"type": "integer"}}}
    serializer = JSONSerializer(json.dumps(schema), registry.client)
    value = serializer({"id": 5}, SerializationContext("orders", MessageField.VALUE))
    found = decoder(schemas(registry), "id bigint", format="json_schema")
    assert rows(found, batch(value, b'{"id":6}', None)) == [{"id": 5}, {"id": 6}, {"id": None}]


@pytest.mark.parametrize("is_tiering", [False, True])
def test_numbers_of_json_schema_that_are_whole_fit_whole_columns(
    registry: Registry, is_tiering: bool
) -> None:
    schema = {"type": "object", "title": "O", "properties": {"id": {"type": "number"}}}
    serializer = JSONSerializer(json.dumps(schema), registry.client)
    context = SerializationContext("orders", MessageField.VALUE)
    values = [serializer({"id": number}, context) for number in (5, 2**53 + 1, 1.0, 5.5)]
    own = parse_fields("id bigint")
    for spellings, accepted in (((), [5, 2**53 + 1]), (("whole_numbers",), [5, 2**53 + 1, 1])):
        binding = TopicBinding("c", "orders", format="json_schema", spellings=spellings)
        spec = DecoderSpec.of(binding, own, on_error="null")
        spec = dataclasses.replace(spec, watch=Watch(is_tiering=is_tiering))
        read, bad = Decoder(spec, schemas(registry)).decode_all(batch(*values))
        assert sorted(bad) == list(range(len(accepted), 4))
        assert read.column("id").to_pylist()[: len(accepted)] == accepted


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Bill {
  message Line { string what = 1; int64 cents = 2; }
  int64 id = 1; repeated Line lines = 2; google.protobuf.Timestamp at = 3;
}
"""


@pytest.mark.parametrize("as_text", [True, False])
def test_protobuf(registry: Registry, as_text: bool) -> None:
    file = protobuf_schema.compiled(schema_of.Schema("PROTOBUF", PROTO))
    make = message_factory.GetMessageClass(file.message_types_by_name["Bill"])
    bill = make(id=5)
    bill.lines.add(what="tea", cents=250)
    bill.at.FromJsonString("2024-01-02T03:04:05Z")
    if as_text:  # as a registry has it that parses what is registered
        registry.register("orders-value", PROTO, "PROTOBUF")
        value = b"\0\0\0\0\1\2\2" + bill.SerializeToString()
    else:
        serializer = ProtobufSerializer(make, registry.client, {"use.deprecated.format": False})
        value = serializer(bill, SerializationContext("orders", MessageField.VALUE))
    declared = (
        "id bigint, lines array(row(what varchar, cents bigint)), at timestamp(6) with time zone"
    )
    found = decoder(schemas(registry), declared, format="protobuf")
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    row = {"id": 5, "lines": [{"what": "tea", "cents": 250}], "at": at}
    assert rows(found, batch(value, None, value)) == [row, dict.fromkeys(row), row]
    with pytest.raises(SeamlineError) as caught:
        found.decode(batch(value[:-1]))
    assert caught.value.code.name == "BAD_RECORD"
    own = decoder(schemas(registry), "x integer", format="protobuf", value_schema=PROTO)
    assert rows(own, batch(b"\x08\x05")) == [{"x": 5}], "the first message"


def test_a_schema_of_the_table_itself(registry: Registry) -> None:
    framed = avro(registry, ORDER, {"id": 5, "note": "h"})
    found = decoder(schemas(registry), "id bigint, note varchar", value_schema=json.dumps(ORDER))
    asked = len(registry.asked)
    assert rows(found, batch(framed[5:], None)) == [
        {"id": 5, "note": "h"},
        {"id": None, "note": None},
    ]
    assert len(registry.asked) == asked
    with pytest.raises(SeamlineError) as caught:
        found.decode(batch(framed))
    assert caught.value.code.name == "BAD_RECORD"


@pytest.mark.parametrize("format_", ["avro", "protobuf"])
def test_changes_of_debezium(registry: Registry, format_: str) -> None:
    write = changes_in_avro if format_ == "avro" else changes_in_protobuf
    key, values = write(registry)
    made = TopicBinding(
        "c",
        "orders",
        format=format_,
        key_format=format_,
        mode="changelog",
        envelope="debezium",
        primary_key=("k",),
    )
    fields = (*parse_fields("k integer not null, v varchar"), *columns.METADATA_FIELDS)
    found = Decoder(DecoderSpec.of(made, fields), schemas(registry))
    read = found.decode(batch(*values, None, key=key)).rows
    rows_ = [
        (row["k"], row["v"], row[columns.DELETED])
        for row in read.select(["k", "v", columns.DELETED]).to_pylist()
    ]
    assert rows_ == [(1, "a", False), (1, "b", False), (1, None, True), (1, None, True)]


def changes_in_avro(registry: Registry) -> tuple[bytes, list[bytes]]:
    fields = [{"name": "k", "type": "int"}, {"name": "v", "type": ["null", "string"]}]
    row = {"type": "record", "name": "Value", "fields": fields}
    sides = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
    ]
    operation = {"name": "op", "type": "string"}
    envelope = {"type": "record", "name": "Envelope", "fields": [*sides, operation]}
    of_key = {"type": "record", "name": "Key", "fields": fields[:1]}
    first, second = {"k": 1, "v": "a"}, {"k": 1, "v": "b"}
    changes = [
        {"before": None, "after": first, "op": "c"},
        {"before": first, "after": second, "op": "u"},
        {"before": second, "after": None, "op": "d"},
    ]
    key = avro(registry, of_key, {"k": 1}, MessageField.KEY)
    return key, [avro(registry, envelope, change) for change in changes]


def changes_in_protobuf(registry: Registry) -> tuple[bytes, list[bytes]]:
    text = """
    syntax = "proto3";
    message Envelope { Value before = 1; Value after = 2; string op = 3; }
    message Value { int32 k = 1; optional string v = 2; }
    """
    key_text = 'syntax = "proto3"; message Key { int32 k = 1; }'
    file = protobuf_schema.compiled(schema_of.Schema("PROTOBUF", text))
    make = message_factory.GetMessageClass(file.message_types_by_name["Envelope"])
    of_value = registry.register("orders-value", text, "PROTOBUF")
    of_key = registry.register("orders-key", key_text, "PROTOBUF")
    first, second = {"k": 1, "v": "a"}, {"k": 1, "v": "b"}
    changes = [
        make(after=first, op="c"),
        make(before=first, after=second, op="u"),
        make(before=second, op="d"),
    ]
    frame = b"\0" + of_value.to_bytes(4, "big") + b"\0"
    key = b"\0" + of_key.to_bytes(4, "big") + b"\0" + b"\x08\x01"
    return key, [frame + change.SerializeToString() for change in changes]


# --- What goes wrong -----------------------------------------------------------------------------


def reason(registry: Registry, value: bytes, headers: Headers = ()) -> str:
    good = avro(registry, ORDER, {"id": 1, "note": None})
    found = decoder(schemas(registry), "id bigint", on_error="null")
    read = found.decode(batch(good, value, good, headers=headers)).rows
    assert read.column("id").to_pylist() == [1, None, 1], "its neighbours stay"
    with pytest.raises(SeamlineError) as caught:
        decoder(schemas(registry), "id bigint").decode(batch(good, value, headers=headers))
    assert caught.value.code.name == "BAD_RECORD"
    assert "partition 0, offset 1" in str(caught.value)
    return str(read.column(columns.ERROR)[1])


def test_each_fault_of_a_record_is_said(registry: Registry) -> None:
    good = avro(registry, ORDER, {"id": 2, "note": "abc"})
    other = registry.register("other", json.dumps({"type": "object"}), "JSON")
    assert reason(registry, b"\0\0\0\0\x63" + good[5:]) == "schema id 99 is not in the registry"
    assert reason(registry, good[:-1]) == "not Avro: it ends too early"
    assert reason(registry, good + b"\0") == "not Avro of this schema: 1 bytes follow the value"
    assert reason(registry, b"") == "no schema id before it, but nothing"
    assert reason(registry, b'{"id":1}') == "no schema id before it, but 7b 22 69 64 22"
    kind = f"schema id {other} is of the kind JSON, not AVRO"
    assert reason(registry, b"\0" + other.to_bytes(4, "big") + b"{}") == kind


def test_a_schema_may_be_registered_later(registry: Registry) -> None:
    known = schemas(registry)
    with pytest.raises(ValueError, match="schema id 1 is not"):
        known.by_id(1)
    asked = len(registry.asked)
    with pytest.raises(ValueError, match="schema id 1 is not"):
        known.by_id(1)
    assert len(registry.asked) == asked, "not again for every record"
    assert str(uuid.UUID(guid_of(1))) == guid_of(1)


@pytest.mark.parametrize("fault", ["gone", 500, 401])
def test_without_the_registry_what_is_known_is_read(registry: Registry, fault: Any) -> None:
    value = avro(registry, ORDER, {"id": 1, "note": None})
    new = avro(registry, LATER, {"id": 2, "note": None, "price": 1.0})
    found = decoder(schemas(registry), "id bigint", on_error="null")
    assert rows(found, batch(value)) == [{"id": 1}]
    if fault == "gone":
        registry.close()
    else:
        registry.refuses = fault
    assert rows(found, batch(value)) == [{"id": 1}], "known for ever"
    with pytest.raises(SeamlineError) as caught:
        found.decode(batch(value, new))
    assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE", "whatever the policy"


OF_OTHERS = (b"<html>not found</html>", b'{"error_code": 404, "message": "HTTP 404"}', b"[]", b"")


@pytest.mark.parametrize("body", OF_OTHERS)
def test_a_wrong_address_is_no_fault_of_a_record(registry: Registry, body: bytes) -> None:
    registry.of_nothing = body
    for policy in ("fail", "null", "skip"):
        with pytest.raises(SeamlineError) as caught:
            decoder(schemas(registry), "id bigint", on_error=policy).decode(batch(b"\0\0\0\0\1\2"))
        assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"
        assert "HTTP 404 for /schemas/ids/1" in str(caught.value)
        assert "url of schema_registry" in caught.value.hint
    with pytest.raises(SeamlineError, match="HTTP 404 for /subjects/x/versions/latest"):
        schemas(registry).latest("x")


def test_a_registry_may_not_say_which_versions_there_are(registry: Registry) -> None:
    registry.of_nothing = OF_OTHERS[1]
    number = registry.register("orders-value", json.dumps(ORDER))
    registry.gone.add(f"/schemas/ids/{number}/versions")
    assert schemas(registry).earlier(number) == ()


def test_a_registry_that_hangs_ends_with_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_of, "_READ_S", 3600.0)
    deadline = StatementDeadline(0.2)
    with silent() as url:
        known = SchemaRegistry(SchemaRegistryConfig(url=url)).within(deadline)
        for _ in range(2):
            with pytest.raises(SeamlineError) as caught:
                decoder(known, "id bigint").decode(batch(b"\0\0\0\0\1"))
            assert caught.value.code.name == "DEADLINE_EXCEEDED"


def test_who_cancels_does_not_wait_for_a_registry() -> None:
    deadline = StatementDeadline(600)
    errors: list[str] = []

    def read() -> None:
        with pytest.raises(SeamlineError) as caught:
            decoder(known.within(deadline), "id bigint").decode(batch(b"\0\0\0\0\1"))
        errors.append(caught.value.code.name)

    with silent() as url:
        known = SchemaRegistry(SchemaRegistryConfig(url=url))
        reader = threading.Thread(target=read)
        reader.start()
        deadline.cancel()
        reader.join(60)
    assert errors == ["CANCELED"]
    deadline.close()


def test_what_a_registry_says_late_is_known(registry: Registry) -> None:
    value = avro(registry, ORDER, {"id": 1, "note": None})
    asked = len(registry.asked)
    registry.may_answer.clear()
    known = schemas(registry)
    for _ in range(3):
        with pytest.raises(SeamlineError, match="did not end within"):
            decoder(known.within(StatementDeadline(0.05)), "id bigint").decode(batch(value))
    registry.may_answer.set()
    assert rows(decoder(known, "id bigint"), batch(value)) == [{"id": 1}]
    assert len(registry.asked) == asked + 1, "however many wait"


@pytest.mark.prove
def test_nobody_waits_for_a_registry_for_ever() -> None:
    with silent() as url:
        known = SchemaRegistry(SchemaRegistryConfig(url=url))
        with pytest.raises(SeamlineError, match="has not answered within 10 s") as caught:
            decoder(known, "id bigint").decode(batch(b"\0\0\0\0\1"))
    assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"


def test_credentials_are_sent_and_not_shown(registry: Registry) -> None:
    value = avro(registry, ORDER, {"id": 1, "note": None})
    registry.authorization = "Bearer s3cret"
    found = decoder(schemas(registry, token="s3cret"), "id bigint")
    assert rows(found, batch(value)) == [{"id": 1}]
    with pytest.raises(SeamlineError) as caught:
        decoder(schemas(registry, username="u", password="p4ss"), "id bigint").decode(batch(value))
    assert "HTTP 401" in str(caught.value)
    assert "p4ss" not in str(caught.value)
    assert "p4ss" not in repr(SchemaRegistryConfig(url="http://h", username="u", password="p4ss"))


@pytest.mark.parametrize(
    ("in_url", "config", "login"),
    [
        ("u:p4ss@", {}, b"u:p4ss"),
        ("u%40h:p%2F4%3Ass@", {}, b"u@h:p/4:ss"),
        ("u:p4@ss@", {}, b"u:p4@ss"),
        ("key@", {}, b"key:"),
        ("u:p4ss@", {"username": "v", "password": "w"}, b"v:w"),
    ],
)
def test_credentials_may_be_in_the_url(
    registry: Registry, in_url: str, config: dict[str, str], login: bytes
) -> None:
    value = avro(registry, ORDER, {"id": 1, "note": None})
    registry.authorization = f"Basic {base64.b64encode(login).decode()}"
    made = SchemaRegistryConfig(url=registry.url.replace("://", f"://{in_url}"), **config)
    assert made.address == registry.url
    assert rows(decoder(SchemaRegistry(made), "id bigint"), batch(value)) == [{"id": 1}]


def test_a_cluster_without_a_registry_says_so() -> None:
    found = Decoder(DecoderSpec("orders", "avro", "null", parse_fields("id bigint")))
    with pytest.raises(SeamlineError) as caught:
        found.decode(batch(b"\0\0\0\0\1\2"))
    assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"
    assert "has no schema registry" in str(caught.value)
