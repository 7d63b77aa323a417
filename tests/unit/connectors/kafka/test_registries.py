"""Goal: records of AWS Glue's and Azure's serializers are read with the schemas of their registry.

Method: stubs of both on loopback, asked by Amazon's own client and by ours; Avro by fastavro. Every
fault of a record and of a registry gets its own error.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from pydantic import ValidationError
from support.cloud_registries import AzureRegistry, Glue, of_glue

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.kafka.formats.registries import REGISTRIES, registry
from seamline.connectors.kafka.formats.schemas import Schemas
from seamline.connectors.protocols.raw_records import Headers, RawBatch
from seamline.errors import SCHEMA_REGISTRY_UNAVAILABLE, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

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


def test_protobuf_of_glue_is_said_to_be_unreadable(glue: Glue) -> None:
    (reason,) = decoded(of(glue), [of_glue(uuid.uuid4(), b"\0")], format="protobuf")
    assert "only by AWS Glue's own deserializer" in reason


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
    with AzureRegistry("secret-token") as azure:
        config = SchemaRegistryConfig(type="azure", url=azure.url, token="secret-token")
        schemas = registry(config)
        known, unknown = azure.register(json.dumps(ORDER)), uuid.uuid4().hex
        value = avro(ORDER, {"id": 1, "note": "a"})
        types = [b"avro/binary+" + known.encode(), b"avro/binary+" + unknown.encode(), b"text/x"]
        azure.throttles = 1
        rows = decoded(schemas, [value] * 3, [[("content-type", type_)] for type_ in types])
        assert rows[0] == (1, "a", None)
        assert f"schema id {unknown} is not in the registry" in rows[1]
        assert "no schema id before it" in rows[2]
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
