"""Goal: a registry that nobody here wrote gives what its producers have registered.

Method: Apicurio's own application, over its API that is Confluent's; the official client's
serializers register and write, and the decoder reads with what the registry says.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from support.apicurio import apicurio

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats import protobuf_schema, schemas
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.records import DecoderSpec

pytestmark = [pytest.mark.integration, pytest.mark.prove]

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
BILL = {"type": "record", "name": "shop.Bill", "fields": [{"name": "sum", "type": "Money"}]}
DRAFT = "http://json-schema.org/draft-07/schema#"
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Bill { int64 id = 1; google.protobuf.Timestamp at = 2; }
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[SchemaRegistryClient]:
    made = SchemaRegistryClient({"url": url})
    yield made
    made.close()


def read(url: str, format_: str, declared: str, value: bytes) -> list[Any]:
    """The values of the one column."""
    registry = schemas.SchemaRegistry(SchemaRegistryConfig(url=url))
    decoder = Decoder(DecoderSpec("t", format_, "fail", parse_fields(declared)), registry)
    batch = RawBatch([0], [0], [0], [None], [value], [None])
    return decoder.decode(batch).rows.column(0).to_pylist()  # type: ignore[no-any-return]


def of_value(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro(url: str, client: SchemaRegistryClient) -> None:
    value = AvroSerializer(client, json.dumps(ORDER))({"id": 5}, of_value("orders"))
    assert read(url, "avro", "id bigint", value) == [5]
    client.register_schema("money", Schema(json.dumps(MONEY), "AVRO"))
    bill = Schema(json.dumps(BILL), "AVRO", [SchemaReference("shop.Money", "money", 1)])
    value = AvroSerializer(client, bill)({"sum": {"cents": 7}}, of_value("bills"))
    assert read(url, "avro", "sum row(cents bigint)", value) == [{"cents": 7}]


def test_json(url: str, client: SchemaRegistryClient) -> None:
    schema = json.dumps({"$schema": DRAFT, "type": "object", "title": "O"})
    value = JSONSerializer(schema, client)({"id": 6}, of_value("objects"))
    assert read(url, "json_schema", "id bigint", value) == [6]


def test_protobuf(url: str, client: SchemaRegistryClient) -> None:
    file = protobuf_schema.compiled(schemas.Schema("PROTOBUF", PROTO))
    make = message_factory.GetMessageClass(file.message_types_by_name["Bill"])
    serializer = ProtobufSerializer(make, client, {"use.deprecated.format": False})
    value = serializer(make(id=9), of_value("messages"))
    assert read(url, "protobuf", "id bigint", value) == [9]
    number = client.register_schema("text", Schema(PROTO, "PROTOBUF"))
    value = b"\0" + number.to_bytes(4, "big") + b"\x02\x02" + make(id=10).SerializeToString()
    assert read(url, "protobuf", "id bigint", value) == [10]


def test_earlier_versions(url: str, client: SchemaRegistryClient) -> None:
    texts = [PROTO, PROTO.replace("id =", "number =")]
    numbers = [client.register_schema("versions", Schema(text, "PROTOBUF")) for text in texts]
    registry = schemas.SchemaRegistry(SchemaRegistryConfig(url=url))
    assert "int64 id" in registry.earlier(numbers[1])[0].text


def test_what_is_not_there(url: str) -> None:
    registry = schemas.SchemaRegistry(SchemaRegistryConfig(url=url))
    assert registry.latest("nothing") is None
    with pytest.raises(SeamlineError) as caught:
        read(url, "avro", "id bigint", b"\0\0\0\x27\x0f\x02")
    assert caught.value.code.name == "BAD_RECORD"
    assert "schema id 9999 is not in the registry" in str(caught.value)


def test_a_registry_behind_another_address_is_an_error_by_name(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SeamlineError) as caught:
        read("http://127.0.0.1:1/apis", "avro", "id bigint", b"\0\0\0\0\1\x02")
    assert caught.value.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"
