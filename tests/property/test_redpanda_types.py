"""Goal: what Redpanda has translated from a topic is what is read of the topic, value by value.

Method: random messages and Avro records in every type that Redpanda translates; its rows are made
here as its own code makes them (a union as a struct with a field per type, `uint64` as text,
wrappers as structs, enums as numbers or names, moments cut to microseconds) out of what fastavro
and Google's library read, and written to Parquet. The decoder must give the same rows, in the types
of that file.
"""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import message_factory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

from seamline.connectors.iceberg.boundaries.writers import REDPANDA
from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.avro_values import avro_values
from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.gateway.commands.tables import parse_fields
from seamline.sql.types import Field, to_arrow

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 3; }
message Order {
  uint64 large = 1; fixed64 fixed = 2; optional uint64 maybe = 3; repeated uint64 many = 4;
  map<string, uint64> by_name = 5; uint32 small = 6; Color color = 7; optional Color other = 8;
  google.protobuf.Int64Value number = 9; google.protobuf.StringValue text = 10;
  google.protobuf.UInt64Value wrapped = 11; google.protobuf.Timestamp at = 12;
  oneof either { string a = 13; Inner b = 14; } repeated Inner inners = 15;
}
message Inner { uint64 x = 1; optional bool ok = 2; google.protobuf.BoolValue is = 3; }
"""
SCHEMA = Schema("PROTOBUF", TEXT)
FILE = protobuf_schema.compiled(SCHEMA)
Order = message_factory.GetMessageClass(protobuf_schema.message_at(FILE, [0]))
INNER = "x varchar, ok boolean, is row(value boolean)"
COLUMNS = f"""
    large varchar, fixed varchar, maybe varchar, many array(varchar), by_name map(varchar, varchar),
    small bigint, color varchar, other varchar, number row(value bigint), text row(value varchar),
    wrapped row(value varchar), at timestamp(6) with time zone, a varchar, b row({INNER}),
    inners array(row({INNER}))
"""
TRUNCATED = Spelling.of(",".join(REDPANDA.spellings))
LARGE, LONG = st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)
NANOS = st.integers(0, 253_402_300_799_999_999_999)
INNERS = st.fixed_dictionaries({}, optional={"x": LARGE, "ok": st.booleans(), "is": st.booleans()})
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "large": LARGE,
        "fixed": LARGE,
        "maybe": LARGE,
        "many": st.lists(LARGE, max_size=2),
        "by_name": st.dictionaries(st.text("ab", max_size=2), LARGE, max_size=1),
        "small": st.integers(0, 2**32 - 1),
        "color": st.sampled_from([0, 3]),
        "other": st.sampled_from([0, 3]),
        "number": LONG,
        "text": st.text("xy", max_size=2),
        "wrapped": LARGE,
        "at": NANOS,
        "either": st.tuples(st.just("a"), st.text("x", max_size=1))
        | st.tuples(st.just("b"), INNERS),
        "inners": st.lists(INNERS, max_size=2),
    },
)


def _set(message: Any, values: dict[str, Any]) -> Any:
    for name, value in values.items():
        match name, value:
            case "either", (own, content):
                message.SetInParent()
                getattr(message, own).SetInParent() if own == "b" else None
                _set(message, {own: content}) if own == "a" else _set(message.b, content)
            case "at", _:
                message.at.seconds, message.at.nanos = divmod(value, 10**9)
            case "inners", _:
                for inner in value:
                    _set(message.inners.add(), inner)
            case "many", _:
                message.many.extend(value)
            case "by_name", _:
                message.by_name.update(value)
            case (("number" | "text" | "wrapped" | "is"), _):
                getattr(message, name).value = value
                getattr(message, name).SetInParent()
            case _:
                setattr(message, name, value)
    return message


def message_of(values: dict[str, Any]) -> Any:
    """The message of an order."""
    return _set(Order(), values)


def translated(message: Any, *, names: bool) -> dict[str, Any]:
    """A message as Redpanda's translation writes it: by its descriptor, field by field."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            row[field.name] = [(key, str(item)) for key, item in value.items()]
        elif field.is_repeated:
            row[field.name] = [_one(field, item, names=names) for item in value]
        else:
            row[field.name] = _one(field, value, names=names)
    return row


def _one(field: Any, value: Any, *, names: bool) -> Any:
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return str(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name if names else value
    if field.message_type is None:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return value.seconds * 10**6 + value.nanos // 1000
    return translated(value, names=names)


def cold(rows: list[dict[str, Any]], columns: tuple[Field, ...], folder: pathlib.Path) -> Any:
    """The rows of a Parquet file that has them."""
    types = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    pq.write_table(pa.Table.from_pylist(rows, types), folder / "cold.parquet")
    return pq.read_table(folder / "cold.parquet").to_pylist()


def hot(arrays: list[pa.Array], columns: tuple[Field, ...]) -> Any:
    return pa.Table.from_arrays(arrays, [column.name for column in columns]).to_pylist()


@pytest.mark.parametrize("names", [True, False], ids=["25.3", "before"])
@settings(parent=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ORDERS, min_size=1, max_size=3))
def test_protobuf(tmp_path: pathlib.Path, names: bool, values: list[dict[str, Any]]) -> None:
    text = (
        COLUMNS
        if names
        else COLUMNS.replace("color varchar, other varchar", "color int, other int")
    )
    columns = parse_fields(text)
    raw = [message_of(value).SerializeToString() for value in values]
    decoder = ProtobufValues(SCHEMA, columns, whole=False, spelling=TRUNCATED)
    arrays, bad = decoder.decode(raw)
    assert not bad
    rows = [translated(Order.FromString(value), names=names) for value in raw]
    assert hot(arrays, columns) == cold(rows, columns, tmp_path)


PLACE = {"type": "record", "name": "Place", "namespace": "shop", "fields": [
    {"name": "at", "type": ["double", "string"]}]}  # fmt: skip
SIZE = {"type": "enum", "name": "Size", "namespace": "shop", "symbols": ["S", "L"]}
BRANCHES = ["null", "int", "string", SIZE, PLACE, {"type": "array", "items": ["null", "boolean"]}]
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "u", "type": BRANCHES}, {"name": "o", "type": ["string", "null"]}],
}
PLACES = st.one_of(
    st.floats(allow_nan=False).map(lambda x: ({"at": x}, {"at": {"double": x, "string": None}})),
    st.text("ab", max_size=2).map(lambda x: ({"at": x}, {"at": {"double": None, "string": x}})),
)
CHOICES: list[tuple[str, st.SearchStrategy[tuple[Any, Any]]]] = [
    ("int", st.integers(-5, 5).map(lambda x: (x, x))),
    ("string", st.text("ab", max_size=2).map(lambda x: (x, x))),
    ("shop.Size", st.sampled_from("SL").map(lambda x: (("shop.Size", x), x))),
    ("shop.Place", PLACES.map(lambda pair: (("shop.Place", pair[0]), pair[1]))),
    ("array", st.lists(st.none() | st.booleans(), max_size=2).map(lambda x: (x, x))),
]
VALUES = st.one_of(
    st.none().map(lambda _: (None, None)),
    *(
        values.map(lambda pair, name=name: (pair[0], {name: pair[1]}))  # type: ignore[misc]
        for name, values in CHOICES
    ),
)
PLACE_TYPE = "row(at row(double double, string varchar))"


@pytest.mark.parametrize("by_name", [True, False], ids=["now", "numbers"])
@settings(parent=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, min_size=1, max_size=4))
def test_avro_unions(tmp_path: pathlib.Path, by_name: bool, values: list[tuple[Any, Any]]) -> None:
    labels = [name for name, _ in CHOICES]
    own = labels if by_name else [str(place) for place in range(len(labels))]
    types = ["integer", "varchar", "varchar", PLACE_TYPE, "array(boolean)"]
    row = ", ".join(f'"{name}" {type_}' for name, type_ in zip(own, types, strict=True))
    columns = parse_fields(f"u row({row}), o varchar")
    raw, rows = [], []
    for datum, translated in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(RECORD), {"u": datum, "o": "x"})
        raw.append(stream.getvalue())
        there = translated or {}
        union = {name: there.get(label) for name, label in zip(own, labels, strict=True)}
        rows.append({"u": None if datum is None else union, "o": "x"})
    decoder = avro_values(Schema("AVRO", json.dumps(RECORD)), columns, whole=False)
    arrays, bad = decoder.decode(raw)
    assert not bad
    assert hot(arrays, columns) == cold(rows, columns, tmp_path)
