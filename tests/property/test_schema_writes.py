"""Goal: what INSERT writes with a schema is what the schema's own library reads, or it is refused.

Method: random schemas and values are written by fastavro and by Google's library, read as rows, and
written again by us: the libraries must read what they had written. With a registry the official
client's deserializers read what we frame. What a schema cannot hold is refused by name.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import jsonschema
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st
from property import test_avro_values as avro
from property import test_protobuf_values as protobuf
from support.examples import examples
from support.registry import Registry, registries, silent

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats.json_schema_checks import checker
from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues
from seamline.connectors.kafka.formats.schemas import Schema, SchemaRegistry
from seamline.connectors.kafka.formats.writing import RecordWriter
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.gateway.deadline import StatementDeadline
from seamline.planners.rules.prune_tail_by_key import key_bytes
from seamline.seam.binding import TopicBinding
from seamline.sql import types
from seamline.sql.types import Field


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


def known(registry: Registry) -> SchemaRegistry:
    return SchemaRegistry(SchemaRegistryConfig(url=registry.url))


def records(
    fields: tuple[Field, ...], table: pa.Table, schemas: Any = None, **binding: Any
) -> list[NewRecord]:
    writer = RecordWriter(TopicBinding("c", "orders", **binding), fields, key_bytes, schemas)
    return writer.records(table)


def written(columns: str, *rows: Any, schemas: Any = None, **binding: Any) -> list[NewRecord]:
    fields = parse_fields(columns)
    schema = pa.schema([(field.name, types.to_arrow(field.type)) for field in fields])
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return records(fields, pa.Table.from_pylist(named, schema), schemas, **binding)


@examples(150)
@given(avro.cases())
def test_fastavro_reads_what_it_had_written(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    columns = avro.columns_of(schema)
    raw = [avro.written(schema, value) for value in values]
    arrays, bad = avro.decoder(schema, columns).decode(raw)
    assert not bad
    table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
    again = records(columns, table, format="avro", value_schema=json.dumps(schema))
    own = fastavro.parse_schema(schema)
    for before, (_, after, _) in zip(raw, again, strict=True):
        assert after is not None
        found = [fastavro.schemaless_reader(io.BytesIO(v), own, None) for v in (after, before)]
        assert found[0] == found[1]


@examples(150)
@given(avro.cases())
def test_json_becomes_the_avro_that_it_was_read_from(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    columns = tuple(Field(column.name, types.JSON) for column in avro.columns_of(schema))
    raw = [avro.written(schema, value) for value in values]
    arrays, bad = avro.decoder(schema, columns).decode(raw)
    assert not bad
    own = fastavro.parse_schema(schema)
    for place, before in enumerate(raw):
        cells = [array.slice(place, 1) for array in arrays]
        table = pa.Table.from_arrays(cells, names=[column.name for column in columns])
        try:
            ((_, after, _),) = records(
                columns, table, format="avro", value_schema=json.dumps(schema)
            )
        except SeamlineError as error:  # text and bytes in Base64, for example, may look alike
            assert "does not fit exactly one of the types of the schema's union" in error.message
            continue
        assert after is not None
        found = [fastavro.schemaless_reader(io.BytesIO(v), own, None) for v in (after, before)]
        assert found[0] == found[1]


def test_an_epoch_takes_nothing_from_numbers_without_a_sign() -> None:
    text = 'syntax = "proto3"; message M { uint64 n = 1; uint64 at = 2; }'
    (record,) = written(
        "n decimal(20, 0), at timestamp(6)",
        (decimal.Decimal(2**64 - 1), datetime.datetime(2023, 11, 14, 22, 13, 20)),
        format="protobuf",
        value_schema=text,
        spellings=("epoch_seconds",),
    )
    assert record.value == b"\x08" + b"\xff" * 9 + b"\x01\x10\x80\xe2\xcf\xaa\x06"


@examples(150)
@given(protobuf.ORDERS)
def test_googles_library_reads_what_it_had_written(values: dict[str, Any]) -> None:
    raw = protobuf.message(values)
    decoder = ProtobufValues(protobuf.SCHEMA, protobuf.COLUMNS, whole=False)
    arrays, bad = decoder.decode([raw])
    assert not bad
    table = pa.Table.from_arrays(arrays, names=[column.name for column in protobuf.COLUMNS])
    binding = {"format": "protobuf", "value_schema": protobuf.TEXT}
    ((_, after, _),) = records(protobuf.COLUMNS, table, **binding)
    assert after is not None
    assert protobuf.Order.FromString(after) == protobuf.Order.FromString(raw)


@examples(150)
@given(protobuf.ORDERS)
def test_json_becomes_the_message_that_it_was_read_from(values: dict[str, Any]) -> None:
    raw = protobuf.message(values)
    columns = (Field("document", types.JSON),)
    (array,), bad = ProtobufValues(protobuf.SCHEMA, columns, whole=True).decode([raw])
    assert not bad
    ((_, after, _),) = records(
        columns,
        pa.Table.from_arrays([array], names=["document"]),
        format="protobuf",
        value_schema=protobuf.TEXT,
        columns_from=("document = value",),
    )
    assert after is not None
    assert protobuf.Order.FromString(after) == protobuf.Order.FromString(raw)


# --- With a registry -----------------------------------------------------------------------------

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": PRICE},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "further", "type": ["null", "int"], "default": None},
    ],
}
AT = datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, datetime.UTC)
COLUMNS = "id bigint, note varchar, price decimal(6, 2), at timestamp(6) with time zone"
VALUE, KEY = (
    SerializationContext("orders", field) for field in (MessageField.VALUE, MessageField.KEY)
)


def test_the_official_client_reads_our_avro(registry: Registry) -> None:
    registry.register("orders-value", json.dumps({**ORDER, "fields": ORDER["fields"][:2]}))
    number = registry.register("orders-value", json.dumps(ORDER))
    registry.register("orders-key", json.dumps({"type": "record", "name": "Key", "fields": [
        {"name": "id", "type": "long"}]}))  # fmt: skip
    ((key, value, _),) = written(
        f"{COLUMNS}, k bigint",
        (1, "é", decimal.Decimal("-12.50"), AT, 7),
        schemas=known(registry),
        format="avro",
        key_format="avro",
        columns_from=("k = key.id",),
    )
    assert value is not None
    assert value[:5] == b"\0" + number.to_bytes(4, "big"), "the newest of the subject"
    assert AvroDeserializer(registry.client)(value, VALUE) == {
        "id": 1,
        "note": "é",
        "price": decimal.Decimal("-12.50"),
        "at": AT,
        "raw": b"\xff",
        "further": None,
    }
    assert AvroDeserializer(registry.client)(key, KEY) == {"id": 7}


def test_the_official_client_reads_our_protobuf(registry: Registry) -> None:
    text = base64.b64encode(protobuf.FILE.serialized_pb).decode()  # as this client registers it
    registry.register("orders-value", text, "PROTOBUF")
    ((_, value, _),) = written(
        "id bigint, price double, name varchar, w integer, nums array(integer),"
        " m map(varchar, row(x integer, s varchar)), at timestamp(6) with time zone",
        (1, None, "é", 0, [1], [("k", {"x": 2, "s": None})], AT),
        schemas=known(registry),
        format="protobuf",
    )
    assert value is not None
    assert value[5:6] == b"\0", "the first message, as the serializers write it"
    found = ProtobufDeserializer(protobuf.Order, {}, registry.client)(value, VALUE)
    assert (found.id, found.HasField("price"), found.name, found.w.value) == (1, False, "é", 0)
    assert (list(found.nums), found.m["k"].x, found.m["k"].HasField("s")) == ([1], 2, False)
    assert found.HasField("w")
    assert found.at.ToDatetime(datetime.UTC) == AT


@pytest.mark.parametrize(
    ("kind", "columns", "said"),
    [
        ("", "id bigint", "has no subject orders-value"),
        ("JSON", "id bigint", "is of the kind JSON, not AVRO"),
        ("AVRO", "id bigint", "price: the schema requires it, but no column has it"),
        ("AVRO", COLUMNS.replace("id bigint", "id varchar"), "id: the schema has long there"),
    ],
)
def test_what_no_row_could_be_is_refused_before_any(
    registry: Registry, kind: str, columns: str, said: str
) -> None:
    if kind:
        registry.register("orders-value", json.dumps(ORDER), kind)
    with pytest.raises(SeamlineError) as caught:
        written(columns, schemas=known(registry), format="avro")
    assert caught.value.code.name == "NOT_SUPPORTED"
    assert said in caught.value.message


def test_a_registry_that_hangs_ends_with_the_statement() -> None:
    with silent() as url:
        asked = SchemaRegistry(SchemaRegistryConfig(url=url)).within(StatementDeadline(0.1))
        with pytest.raises(SeamlineError) as caught:
            written("id bigint", schemas=asked, format="avro")
    assert caught.value.code.name == "DEADLINE_EXCEEDED"


# --- JSON Schema ---------------------------------------------------------------------------------

NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.0])
TEXTS = st.sampled_from(["", "a", "bc", "2024-01-01"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SIZES = st.integers(0, 2)
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "uniqueItems": st.booleans(),
            **dict.fromkeys(["minimum", "maximum"], NUMBERS),
            **dict.fromkeys(["exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
            **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], SIZES),
            **dict.fromkeys(["minProperties", "maxProperties"], SIZES),
            "title": TEXTS,
        },
    )
    | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            **dict.fromkeys(["oneOf", "anyOf", "allOf"], st.lists(inner, min_size=1, max_size=2)),
            "not": inner,
            "type": KINDS,
        },
    ),
    max_leaves=5,
)


@examples(400)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=4))
def test_json_is_checked_as_its_readers_check_it(schema: Any, values: list[Any]) -> None:
    check = checker(Schema("JSON", json.dumps(schema)))
    judge = jsonschema.Draft7Validator(schema)
    for value in values:
        expected = contextlib.nullcontext() if judge.is_valid(value) else pytest.raises(ValueError)
        with expected:
            check(json.dumps(value).encode())


PERSON = {
    "type": "object",
    "title": "Person",
    "properties": {
        "id": {"type": "integer", "maximum": 5},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "inner": {"$ref": "#/definitions/inner"},
    },
    "required": ["id", "note"],
    "additionalProperties": False,
    "definitions": {"inner": {"type": "object", "properties": {"of": {"$ref": "#"}}}},
}


def test_the_official_client_reads_our_json(registry: Registry) -> None:
    text = json.dumps(PERSON)
    number = registry.register("orders-value", text, "JSON")
    said = {"schemas": known(registry), "format": "json_schema"}
    found = written("id bigint, note varchar", (1, "é"), (2, None), **said)
    values = [value for _, value, _ in found]
    assert all(value is not None and value[1:5] == number.to_bytes(4, "big") for value in values)
    read = JSONDeserializer(text, schema_registry_client=registry.client)
    assert [read(value, VALUE) for value in values] == [
        {"id": 1, "note": "é"},
        {"id": 2, "note": None},
    ]
    for row in ((6, "x"), (None, "x")):
        with pytest.raises(SeamlineError) as caught:
            written("id bigint, note varchar", row, **said)
        assert caught.value.code.name == "INVALID_ARGUMENT"
        assert "id: " in caught.value.message
    with pytest.raises(SeamlineError, match="'more' was unexpected"):
        written("id bigint, note varchar, more bigint", (1, "x", 2), **said)


@pytest.mark.parametrize(
    ("schema", "good", "bad", "reason"),
    [
        ({"pattern": "^[a-z]+$"}, "x", "1", "a: '1' does not match"),
        ({"format": "date-time"}, "2024-01-02T03:04:05Z", "2024-01-02", "is not a 'date-time'"),
        ({"format": "uri"}, None, "x", "the schema uses the format 'uri', which is not checked"),
        ({"$ref": "money.json#/definitions/sum"}, "1.10", "x", "a: 'x' does not match"),
        ({"$ref": "none.json"}, None, "x", "the schema refers to none.json, which is missing"),
    ],
)
def test_what_json_schema_says_is_checked_or_refused(
    registry: Registry, schema: Any, good: str | None, bad: str, reason: str
) -> None:
    money = {"definitions": {"sum": {"type": ["string", "null"], "pattern": "^[0-9.]+$"}}}
    registry.register("money", json.dumps(money), "JSON")
    root = {"$id": "http://shop.example/order.json", "properties": {"a": schema}}
    references = [{"name": "money.json", "subject": "money", "version": 1}]
    registry.register("orders-value", json.dumps(root), "JSON", references=references)
    said = {"schemas": known(registry), "format": "json_schema"}
    assert written("a varchar, b bigint", (good, 1), **said)
    with pytest.raises(SeamlineError) as caught:
        written("a varchar, b bigint", (bad, 1), **said)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert reason in caught.value.message


def test_json_numbers_are_checked_with_all_of_their_digits() -> None:
    limits = {"multipleOf": 0.01, "maximum": 5}
    check = checker(
        Schema("JSON", json.dumps({"properties": {"a": limits, "n": {"type": "integer"}}}))
    )
    check(b'{"a": 1.10, "n": 2.0}')
    for text in (b'{"a": 5.00000000000000000001}', b'{"a": 1.005}', b'{"n": 2.5}'):
        with pytest.raises(ValueError, match=r"^[an]: [0-9.]+ is "):
            check(text)


@pytest.mark.parametrize("text", ['{"pattern": "("}', '{"maximum": 1, "exclusiveMaximum": true}'])
def test_what_is_not_json_schema_is_refused_before_any(registry: Registry, text: str) -> None:
    registry.register("orders-value", text, "JSON")
    with pytest.raises(SeamlineError, match="the schema is not JSON Schema") as caught:
        written("a varchar", schemas=known(registry), format="json_schema")
    assert caught.value.code.name == "NOT_SUPPORTED"


# --- What a schema cannot hold -------------------------------------------------------------------


def field(type_: Any, **more: Any) -> str:
    fields = [{"name": "a", "type": type_, **more}]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LINKS = ["null", "L", {"type": "array", "items": "L"}]
LIST = field({"type": "record", "name": "L", "fields": [{"name": "next", "type": LINKS}]})
MANY = [
    {"type": "record", "name": name, "fields": [{"name": "of", "type": ["null", "A", "B"]}]}
    for name in "AB"
]
NESTED = field(
    [
        "null",
        {**MANY[0], "fields": [{"name": "of", "type": ["null", "A", MANY[1]]}]},
        "B",
    ]
)
"""Records of two types that look alike, in each other: as many ways as 2 to the power of depth."""
SMALL = {**FIXED, "logicalType": "decimal", "precision": 6, "scale": 0}


@pytest.mark.parametrize(
    ("schema", "columns", "value"),
    [
        (field("long"), "a bigint", None),
        (field("int"), "a bigint", 2**31),
        (field("int"), "a bigint", -(2**31) - 1),
        (field("float"), "a double", 0.1),
        (field("float"), "a double", 1e300),
        (field(ENUM), "a varchar", "B"),
        (field(FIXED), "a varbinary", b"xxx"),
        (field(PRICE), "a decimal(9, 3)", decimal.Decimal("1.005")),
        (field(PRICE), "a decimal(9, 2)", decimal.Decimal("10000.00")),
        (field(SMALL), "a decimal(9, 0)", decimal.Decimal(40000)),
        (field(MILLIS), "a timestamp(6)", datetime.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (field({"type": "array", "items": "int"}), "a array(integer)", [1, None]),
        (field(["null", "int"], aliases=["b"]), "a bigint, z bigint", 1),
        ("int32 a = 1;", "a integer", None),
        ("uint32 a = 1;", "a bigint", -1),
        ("repeated int32 a = 1;", "a array(integer)", None),
        ("oneof o { int32 a = 1; int32 z = 2; }", "a integer, z integer", 1),
        ("E a = 1; enum E { A = 0; }", "a varchar", "B"),
        ("E a = 1; enum E { A = 0; }", "a varchar", "2147483648"),
        (
            field(["string", "long"]),
            "a row(string varchar, long bigint)",
            {"string": "", "long": 5},
        ),
        ("map<int32, int32> a = 1;", "a map(varchar, integer)", [("x", 1)]),
        ("map<bool, int32> a = 1;", "a map(varchar, integer)", [("x", 1)]),
        ("google.protobuf.Struct a = 1;", "a varchar", "{"),
        ("google.protobuf.Struct a = 1;", "a json", '{"x":5}'),  # a double there: 5.0
        ("google.protobuf.Any a = 1;", "a json", '{"@type":"x/M"}'),
        ("N a = 1; message N { oneof o { int32 x = 1; int32 y = 2; } }", "a json", '{"x":1,"y":2}'),
        (field("long"), "a json", '"5"'),
        (field("long"), "a json", "5.0"),
        (field("long"), "a json", "null"),
        (field(["null", "long"]), "a json", "null"),  # which is read as NULL
        (field("double"), "a json", "5.0"),  # which is read as 5
        (field("float"), "a json", "1E+300"),
        (field(PRICE), "a json", "1E+999999999"),
        (field(PRICE), "a json", "1.5"),
        (field("bytes"), "a json", '"x"'),
        (field("string"), "a json", "true"),
        (field(["int", "long"]), "a json", "5"),
        (field(["long", "double"]), "a json", "5"),
        (field(["int", "string"]), "a json", "5.5"),
        (field({"type": "array", "items": "int"}), "a json", '{"x":1}'),
        (field({"type": "record", "name": "I", "fields": []}), "a json", '{"x":1}'),
        (NESTED, "a json", '{"of":' * 50 + "null" + "}" * 50),
    ],
)
def test_what_a_schema_cannot_hold_is_refused(schema: str, columns: str, value: Any) -> None:
    is_avro = schema.startswith("{")
    if not is_avro:
        imports = "".join(f'import "google/protobuf/{file}.proto"; ' for file in ("any", "struct"))
        schema = f'syntax = "proto3"; {imports} message M {{ {schema} }}'
    row = (value, 7) if "z " in columns else (value,)
    with pytest.raises(SeamlineError) as caught:
        written(columns, row, format="avro" if is_avro else "protobuf", value_schema=schema)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert "a" in caught.value.message


@pytest.mark.parametrize(
    ("schema", "columns", "value"),
    [
        (field("int", default=3), "z bigint", None),
        (field(["null", "int"], aliases=["b"]), "b integer", 4),
        (field("long"), "a timestamp(6)", datetime.datetime(2024, 1, 1)),
        (field("string"), "a timestamp(6) with time zone", AT),
        (field("double"), "a double", float("nan")),
        (field("string"), "a uuid", "00000000-0000-0000-0000-000000000001"),
        (field({"type": "array", "items": ["null", ENUM]}), "a array(varchar)", ["A", None]),
        ("E a = 1; enum E { A = 0; B = 4; }", "a varchar", "B"),
        ("E a = 1; enum E { A = 0; }", "a varchar", "7"),
        ("E a = 1; enum E { A = 0; }", "a integer", 7),
        ("P a = 1; message P {}", "a boolean", True),
        ("google.protobuf.StringValue a = 1;", "a row(value varchar)", {"value": "x"}),
        (field(["string", "long"]), "a varchar", "x"),
        (
            field(["string", "long"]),
            "a row(string varchar, long bigint)",
            {"string": None, "long": 5},
        ),
        ("map<bool, int32> a = 1;", "a map(varchar, integer)", [("true", 1)]),
        ("google.protobuf.Struct a = 1;", "a varchar", '{"x": [1.0]}'),
        ("google.protobuf.Struct a = 1;", "a json", '{"x":[1.0]}'),
        ("google.protobuf.Timestamp a = 1;", "a json", '"2024-01-02T03:04:05Z"'),
        ("E a = 1; enum E { A = 0; B = 4; }", "a json", '"B"'),
        ("uint64 a = 1;", "a json", str(2**64 - 1)),
        (field(["int", "string"]), "a json", '"5"'),
        (field(["long", "double"]), "a json", "5.5"),
        (field("double"), "a json", "5"),
        (field({"type": "map", "values": "null"}), "a json", '{"x":null}'),
        (LIST, "a json", '{"next":{"next":[{"next":null}]}}'),
        (field(["null", "long"]), "a json", None),
        (field({"type": "string", "connect.name": "io.debezium.data.Json"}), "a json", '{"x":1}'),
        (field({"type": "map", "values": ["null", "int"]}), "a json", '{"x":1,"y":null}'),
    ],
)
def test_what_it_can_is_written(schema: str, columns: str, value: Any) -> None:
    is_avro = schema.startswith("{")
    if not is_avro:
        files = ("struct", "timestamp", "wrappers")
        imports = "".join(f'import "google/protobuf/{file}.proto"; ' for file in files)
        schema = f'syntax = "proto3"; {imports} message M {{ {schema} }}'
    assert written(columns, (value,), format="avro" if is_avro else "protobuf", value_schema=schema)


def test_columns_from_inside_of_a_record_are_written_there() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": ["null", "long"]}]}
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "long"}, {"name": "of", "type": inner}]}  # fmt: skip
    ((_, value, _),) = written(
        "id bigint, deep bigint",
        (1, 2),
        format="avro",
        value_schema=json.dumps(schema),
        columns_from=("deep = value.of.n",),
    )
    assert value is not None
    own = fastavro.parse_schema(schema)
    assert fastavro.schemaless_reader(io.BytesIO(value), own, None) == {"id": 1, "of": {"n": 2}}


def test_one_column_may_be_the_whole_part() -> None:
    ((key, value, _),) = written(
        "all row(a bigint), k varchar",
        ({"a": 1}, "x"),
        format="avro",
        value_schema=field("long"),
        key_format="avro",
        key_schema='"string"',
        columns_from=("all = value", "k = key"),
    )
    assert (key, value) == (b"\x02x", b"\x02")
