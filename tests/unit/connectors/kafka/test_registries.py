"""Goal: records of AWS Glue's and Azure's serializers are read with the schemas of their registry.

Method: stubs of both on loopback, asked by Amazon's own client and by ours; Avro by fastavro, and
by a serializer for Glue that is not ours; messages by Google's library, numbered as Amazon's
serializer for Java numbers them. What INSERT writes is read by these. Every fault of a record and
of a registry gets its own error.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import fastavro
import pyarrow as pa
import pytest
from aws_schema_registry import (
    DataAndSchema,
    KafkaDeserializer,
    KafkaSerializer,
    SchemaRegistryClient,
)
from aws_schema_registry.avro import AvroSchema
from aws_schema_registry.jsonschema import JsonSchema
from google.protobuf import message_factory
from pydantic import ValidationError
from support.cloud_registries import AzureRegistry, Glue, of_glue

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.kafka.formats.registries import REGISTRIES, registry
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema, SchemaRegistry, Schemas
from seamline.connectors.kafka.formats.writing import RecordWriter
from seamline.connectors.protocols.raw_records import Headers, NewRecord, RawBatch
from seamline.errors import SCHEMA_REGISTRY_UNAVAILABLE, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.planners.rules.prune_tail_by_key import key_bytes
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.types import to_arrow

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 0}]}


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    with Glue() as running:
        yield running


def of(glue: Glue) -> Schemas:
    return registry(SchemaRegistryConfig(type="glue", region="eu-west-1", url=glue.url))


def avro(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), value)
    return sink.getvalue()


def decoded(
    schemas: Schemas,
    values: list[bytes | None],
    headers: list[Headers | None] | None = None,
    **binding: Any,
) -> list[Any]:
    """The rows; where a record is bad, the reason."""
    made = TopicBinding("c", "orders", **{"format": "avro", "on_error": "null", **binding})
    fields = (*parse_fields("id bigint, note varchar, price double"), *columns.METADATA_FIELDS)
    count = len(values)
    numbers = list(range(count))
    batch = RawBatch(
        [0] * count, numbers, numbers, [None] * count, values, headers or [None] * count
    )
    rows = Decoder(DecoderSpec.of(made, fields), schemas).decode(batch).rows.to_pylist()
    return [row[columns.ERROR] or (row["id"], row["note"], row["price"]) for row in rows]


def test_glue(glue: Glue) -> None:
    first, second = (glue.register(json.dumps(schema)) for schema in (ORDER, LATER))
    one = avro(ORDER, {"id": 1, "note": "n"})
    two = avro(LATER, {"id": 2, "note": None, "price": 2.5})
    packed = of_glue(second, two, is_compressed=True)
    bomb = of_glue(first, bytes(PART_BYTES_MAX + 1), is_compressed=True)
    unknown = uuid.uuid4()
    glue.throttles = 1
    rows = decoded(
        of(glue),
        [
            of_glue(first, one),
            packed,
            None,
            of_glue(second, two),
            packed[:-4],
            b"\x03\x05" + first.bytes + b"no zlib",
            bomb,
            of_glue(unknown, one),
            b"\x03\x07" + first.bytes + one,
            b"\x03\x00" + first.bytes[:9],
        ],
    )
    assert rows[:4] == [(1, "n", None), (2, None, 2.5), (None, None, None), (2, None, 2.5)]
    for reason, said in zip(
        rows[4:],
        (
            "incomplete or larger than 32 MiB",
            "cannot be decompressed",
            "incomplete or larger than 32 MiB",
            f"schema id {unknown} is not in the registry",
            "no schema id before it, but 03 07",
            "no schema id before it, but 03 00",
        ),
        strict=True,
    ):
        assert said in reason, rows
    assert len(glue.requests) == 4  # one was refused as too many


def test_json_of_glue_needs_no_registry(glue: Glue) -> None:
    version = glue.register('{"type": "object"}', "JSON")
    text = b'{"id": 7, "note": "j", "price": 1.5}'
    for is_compressed in (False, True):
        value = of_glue(version, text, is_compressed=is_compressed)
        assert decoded(of(glue), [value], format="json_schema") == [(7, "j", 1.5)]
    assert not glue.requests


# --- Glue, against a serializer that is not ours -------------------------------------------------

AS_JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["id"],
}


def serializers(glue: Glue) -> tuple[KafkaSerializer, KafkaDeserializer]:
    """Those of the package for Python."""
    client = SchemaRegistryClient(boto3.client("glue", "eu-west-1", endpoint_url=glue.url))
    return KafkaSerializer(client), KafkaDeserializer(client)


@pytest.mark.parametrize("kind", ["avro", "json_schema"])
def test_we_read_its_records_and_it_reads_ours(glue: Glue, kind: str) -> None:
    own: Any = AvroSchema(ORDER) if kind == "avro" else JsonSchema(AS_JSON)
    glue.register(str(own), own.data_format)
    serializer, deserializer = serializers(glue)
    order = {"id": 5, "note": "é"}
    value = serializer.serialize("orders", DataAndSchema(order, own))
    assert decoded(of(glue), [value], format=kind) == [(5, "é", None)]
    (record,) = inserted(of(glue), "id bigint, note varchar", order, format=kind)
    assert deserializer.deserialize("orders", record.value).data == order
    assert not record.headers
    if kind == "avro":
        assert record.value == value


# --- Protobuf of Glue ----------------------------------------------------------------------------

PROTO = """
syntax = "proto3";
package shop;
message Order {
  int64 id = 1; string note = 2; double price = 3; map<string, int32> counts = 4;
  message Line { int64 id = 1; string note = 2; message Part { int64 id = 1; } }
}
message Bill { int64 id = 1; string note = 2; }
message Order2 { int64 id = 1; }
"""
ENTRY = "shop.Order.CountsEntry"
NUMBERS = {  # by full name, the entry of a map included
    "shop.Bill": 0,
    "shop.Order": 1,
    ENTRY: 2,
    "shop.Order.Line": 3,
    "shop.Order.Line.Part": 4,
    "shop.Order2": 5,
}
FILE = protobuf_schema.compiled(Schema("PROTOBUF", PROTO))
MESSAGES = {
    name: message_factory.GetMessageClass(FILE.pool.FindMessageTypeByName(name))
    for name in NUMBERS
    if name != ENTRY
}


@pytest.mark.parametrize("is_compressed", [False, True])
def test_each_message_of_a_file_is_read_by_its_number(glue: Glue, is_compressed: bool) -> None:
    version = glue.register(PROTO, "PROTOBUF")
    values: list[bytes | None] = []
    rows = []
    for name, number in NUMBERS.items():
        if name != ENTRY:
            made = MESSAGES[name](id=number + 10)
            payload = bytes([number]) + made.SerializeToString()
            values.append(of_glue(version, payload, is_compressed=is_compressed))
            has_note, has_price = (f in made.DESCRIPTOR.fields_by_name for f in ("note", "price"))
            rows.append((number + 10, "" if has_note else None, 0.0 if has_price else None))
    for chosen in (slice(0, 1), slice(0, 5), slice(1, 2)):
        read = decoded(of(glue), values[chosen], format="protobuf")
        assert read == rows[chosen]


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"\x06", "no message of the number 6"),
        (b"\x02\x0a\x01a", "no message of the number 2"),
        (b"\x80", "no path to its message"),
        (b"", "no path to its message"),
        (b"\x01\x08", "not Protobuf"),
    ],
)
def test_wrong_messages_of_glue(glue: Glue, payload: bytes, said: str) -> None:
    value = of_glue(glue.register(PROTO, "PROTOBUF"), payload)
    (reason,) = decoded(of(glue), [value], format="protobuf")
    assert said in reason


def test_a_file_of_many_messages(glue: Glue) -> None:
    others = "".join(f"message A{n} {{ int64 id = 1; }}" for n in range(200))
    text = f'syntax = "proto3"; message Order {{ int64 id = 1; }} {others}'
    glue.register(text, "PROTOBUF")
    (record,) = inserted(of(glue), "id bigint", {"id": 7}, format="protobuf")
    assert record.value is not None
    assert record.value[18:] == b"\xc8\x01" + b"\x08\x07"  # the first of the file is number 200
    assert decoded(of(glue), [record.value], format="protobuf") == [(7, None, None)]


def test_former_names_of_fields_are_those_of_earlier_versions(glue: Glue) -> None:
    old = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
    glue.register(old, "PROTOBUF")
    version = glue.register(old.replace("note", "remark"), "PROTOBUF")
    value = of_glue(version, b"\x00\x08\x01\x12\x01n")
    assert decoded(of(glue), [value], format="protobuf") == [(1, "n", None)]


# --- INSERT --------------------------------------------------------------------------------------


def inserted(
    schemas: Schemas, columns_: str, *rows: dict[str, Any], **binding: Any
) -> list[NewRecord]:
    """The records that INSERT writes."""
    fields = parse_fields(columns_)
    table = pa.Table.from_pylist(
        list(rows), pa.schema([(field.name, to_arrow(field.type)) for field in fields])
    )
    made = TopicBinding("c", "orders", **{"format": "avro", **binding})
    return RecordWriter(made, fields, key_bytes, schemas).records(table)


def test_protobuf_for_glue_is_read_by_googles_library(glue: Glue) -> None:
    version = glue.register(PROTO, "PROTOBUF", "orders")  # as Amazon names schemas in Java
    (record,) = inserted(
        of(glue), "id bigint, note varchar", {"id": 7, "note": "n"}, format="protobuf"
    )
    assert record.value is not None
    assert record.value[:18] == b"\x03\x00" + version.bytes
    assert record.value[18] == NUMBERS["shop.Order"]
    assert MESSAGES["shop.Order"].FromString(record.value[19:]) == MESSAGES["shop.Order"](
        id=7, note="n"
    )


def test_the_newest_version_is_written(glue: Glue) -> None:
    glue.register(json.dumps(ORDER))
    newest = glue.register(json.dumps(LATER))
    glue.register(json.dumps({"type": "record", "name": "Key", "fields": [
        {"name": "k", "type": "long"}]}), name="orders-key")  # fmt: skip
    (record,) = inserted(
        of(glue),
        "id bigint, note varchar, price double, k bigint",
        {"id": 1, "note": None, "price": 2.5, "k": 3},
        key_format="avro",
        columns_from=("k = key.k",),
    )
    assert record.value == of_glue(newest, avro(LATER, {"id": 1, "note": None, "price": 2.5}))
    assert record.key is not None
    assert record.key[18:] == b"\x06"


def test_what_glue_does_not_have_cannot_be_written(glue: Glue) -> None:
    with pytest.raises(SeamlineError, match="has no subject orders-value"):
        inserted(of(glue), "id bigint, note varchar", {"id": 1, "note": None})
    glue.register(json.dumps(ORDER), name="orders")
    with pytest.raises(SeamlineError, match="has no subject orders-key"):
        inserted(of(glue), "id bigint, note varchar, k bigint", {"id": 1, "note": None, "k": 1},
                 key_format="avro", columns_from=("k = key.k",))  # fmt: skip
    config = SchemaRegistryConfig(type="glue", region="eu-west-1", url=glue.url, group="others")
    with pytest.raises(SeamlineError, match="has no subject orders-value"):
        inserted(registry(config), "id bigint, note varchar", {"id": 1, "note": None})


def test_records_for_azure() -> None:
    with AzureRegistry("secret-token".__eq__) as azure:
        config = SchemaRegistryConfig(
            type="azure", url=azure.url, token="secret-token", group="shop"
        )
        schemas = registry(config)
        with pytest.raises(SeamlineError, match="has no subject orders-value"):
            inserted(schemas, "id bigint, note varchar", {"id": 1, "note": None})
        azure.register(json.dumps(ORDER))
        newest = azure.register(json.dumps(LATER))
        order = {"id": 1, "note": "a", "price": 2.5}
        (record,) = inserted(
            schemas,
            "id bigint, note varchar, price double, trace varchar",
            {**order, "trace": "t"},
            columns_from=("trace = header.trace",),
        )
        content_type = ("content-type", b"avro/binary+" + newest.encode())
        assert record.headers == [("trace", b"t"), content_type]
        assert record.value is not None
        parsed = fastavro.parse_schema(LATER)
        assert fastavro.schemaless_reader(io.BytesIO(record.value), parsed, None) == order
        assert decoded(schemas, [record.value], [record.headers]) == [(1, "a", 2.5)]
        for more in ({"format": "json_schema"}, {"key_format": "avro"}):
            azure.register(json.dumps(ORDER), "orders-key")
            with pytest.raises(SeamlineError, match=r"only of Avro|of the kind AVRO, not JSON"):
                inserted(schemas, "id bigint, note varchar, k bigint",
                         {"id": 1, "note": None, "k": 1},
                         **{"columns_from": ("k = key.id",), **more})  # fmt: skip
        without_group = registry(config.model_copy(update={"group": ""}))
        with pytest.raises(SeamlineError, match="has no subject orders-value"):
            inserted(without_group, "id bigint, note varchar", {"id": 1, "note": None})


def test_only_the_registry_of_the_cluster_is_asked(glue: Glue) -> None:
    """A record of another registry's serializers is bad; without a registry, one is needed."""
    value = of_glue(glue.register(json.dumps(ORDER)), avro(ORDER, {"id": 1, "note": None}))
    with AzureRegistry("t".__eq__) as azure:
        other = registry(SchemaRegistryConfig(type="azure", url=azure.url, token="t"))
        (reason,) = decoded(other, [value])
        assert reason == "no schema id in its header content-type"
        (reason,) = decoded(SchemaRegistry(SchemaRegistryConfig(url=azure.url)), [value])
        assert "no schema id before it, but 03 00" in reason
        assert not azure.requests
    with pytest.raises(SeamlineError, match="the cluster has no schema registry"):
        decoded(NoRegistry(), [value])


# --- Faults --------------------------------------------------------------------------------------


def test_glue_refuses(glue: Glue) -> None:
    version = glue.register(json.dumps(ORDER))
    value = of_glue(version, avro(ORDER, {"id": 1, "note": None}))
    schemas = of(glue)
    glue.is_denied = True
    with pytest.raises(SeamlineError, match="not authorized to perform") as raised:
        decoded(schemas, [value])
    assert raised.value.code is SCHEMA_REGISTRY_UNAVAILABLE
    assert "wJalrXUtnFEMI" not in str(raised.value)
    glue.is_denied, glue.is_away = False, True
    with pytest.raises(SeamlineError):
        decoded(schemas, [value])
    glue.is_away = False
    assert decoded(schemas, [value]) == [(1, None, None)]


def test_azure() -> None:
    with AzureRegistry("secret-token".__eq__) as azure:
        config = SchemaRegistryConfig(type="azure", url=azure.url, token="secret-token")
        schemas = registry(config)
        known, unknown = azure.register(json.dumps(ORDER)), uuid.uuid4().hex
        value = avro(ORDER, {"id": 1, "note": "a"})
        types = [b"avro/binary+" + known.encode(), b"avro/binary+" + unknown.encode(), b"text/x"]
        azure.throttles = 1
        rows = decoded(schemas, [value] * 3, [[("content-type", type_)] for type_ in types])
        assert rows[0] == (1, "a", None)
        assert f"schema id {unknown} is not in the registry" in rows[1]
        assert "no schema id in its header" in rows[2]
        wrong = registry(config.model_copy(update={"token": "other-secret"}))
        with pytest.raises(SeamlineError, match="HTTP 401") as raised:
            decoded(wrong, [value], [[("content-type", types[0])]])
        assert raised.value.code is SCHEMA_REGISTRY_UNAVAILABLE
        assert "other-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type": "glue"}, "the type glue needs it"),
        ({"type": "glue", "region": "r", "token": "hunter2"}, "AWS credentials"),
        ({"type": "glue", "region": "r", "url": "http://glue.example.com"}, "must be https"),
        ({"type": "azure", "url": "https://hub.servicebus.windows.net"}, "needs url, and login"),
        ({"type": "azure", "url": "http://hub.example.com", "token": "hunter2"}, "must be https"),
        ({"url": "https://r", "region": "r"}, "is a setting of the type glue"),
        ({"url": "https://r", "group": "g"}, "is a setting of the types glue and azure"),
        ({"type": "other"}, "'confluent', 'glue' or 'azure'"),
    ],
)
def test_wrong_settings(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        SchemaRegistryConfig.model_validate(settings)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_every_kind_can_be_configured() -> None:
    assert SchemaRegistryConfig(type="glue", region="r").address.endswith("glue.r.amazonaws.com")
    settings = {"azure": {"url": "https://h", "token": "t"}, "glue": {"region": "r"}}
    for name in REGISTRIES:
        made = SchemaRegistryConfig.model_validate({"type": name, **settings.get(name, {})})
        assert made.type == name
