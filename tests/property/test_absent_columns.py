"""Goal: a column that no record has is said when it is made, with the name that was meant.

Method: for JSON, a walk over the parsed records is the judge of random columns and records. Then
the same misspelt column in every format that names its fields, at every depth, in values, keys,
headers and the rows of change envelopes, with a stated source and without, in CREATE TABLE and in
ALTER TABLE; and its right spelling, of which nothing is said.
"""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import fastavro
import pytest
from google.protobuf import json_format, message_factory
from hypothesis import given
from hypothesis import strategies as st
from support import offline
from support.creating import World
from support.examples import examples

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.keys import Keys, Unmet, unmet
from seamline.connectors.kafka.formats.parts import Leaf
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema
from seamline.connectors.kafka.formats.trees import Node
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.commands import inferring
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns, types
from seamline.sql.types import Array, Field, Map, Row, Type

NAMES = st.sampled_from(["a", "b", "c"])
TYPES = st.recursive(
    st.sampled_from([types.BIGINT, types.VARCHAR]),
    lambda inner: st.one_of(
        inner.map(Array),
        inner.map(lambda value: Map(types.VARCHAR, value)),
        st.dictionaries(NAMES, inner, min_size=1, max_size=2).map(
            lambda fields: Row(tuple(Field(n, t) for n, t in fields.items()))
        ),
    ),
    max_leaves=4,
)
JSON = st.recursive(
    st.sampled_from([None, 1, "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


def objects(values: list[Any]) -> list[dict[str, Any]]:
    """The objects among values, and in their arrays."""
    found = []
    for value in values:
        if isinstance(value, dict):
            found.append(value)
        elif isinstance(value, list):
            found += objects(value)
    return found


def absent(type_: Type, values: list[Any], path: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The fields inside a type that no value has, where there is any value that has fields."""
    own = objects(values)
    match type_:
        case Row(fields) if any(own):
            found = set()
            for field in fields:
                inside = [value[field.name] for value in own if field.name in value]
                here = (*path, field.name)
                found |= absent(field.type, inside, here) if inside else {here}
            return found
        case Array(element):
            return absent(element, values, path)
        case Map(_, value):
            return absent(value, [item for one in own for item in one.values()], path)
    return set()


@examples(400, derandomize=True)
@given(TYPES, st.lists(st.dictionaries(NAMES, JSON, max_size=3), min_size=1, max_size=3))
def test_what_no_record_has_is_found_and_nothing_else(
    type_: Type, records: list[dict[str, Any]]
) -> None:
    keys = Keys.of_json([json.dumps(record).encode() for record in records])
    leaf = Leaf(("c",), ("c",), Field("c", type_), by_name=True)
    found = {one.column for _, one in unmet([leaf], keys)}
    wanted = absent(Row((Field("c", type_),)), records, ()) if any(records) else {("c",)}
    assert found == wanted


def test_a_schema_inside_itself_has_an_end() -> None:
    node = Node("record", members={"v": Node("long")})
    node.members["next"] = Node("union", branches=[Node("null"), node])
    leaf = Leaf(("w",), ("w",), Field("w", types.BIGINT), by_name=True)
    assert len(list(unmet([leaf], Keys.of_schemas([node])))) == 1


# --- What statements say -------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World(offline.config(tmp_path))


def test_a_misspelt_column_is_said_with_the_name_that_was_meant(world: World) -> None:
    for auction in (1, 2):
        world.memory.produce("bids", 0, json.dumps({"auction": auction}).encode())
    (note,) = world.notes("CREATE TABLE z (auktion bigint) WITH (topic = 'bids')")
    assert note == (
        "auktion: none of 2 sampled records has it, so it is null. Did you mean auction?"
    )
    assert world.notes("CREATE TABLE y (auction bigint) WITH (topic = 'bids')") == []


def test_nothing_is_said_of_columns_without_records(world: World) -> None:
    assert world.notes("CREATE TABLE z (auktion bigint) WITH (topic = 'bids')") == []
    world.memory.produce("bids", 0, None)
    world.memory.produce("bids", 0, b"{}")
    assert world.notes("CREATE TABLE y (auktion bigint) WITH (topic = 'bids')") == []


BODY = {"auction": 1, "extra": {"channel": "x", "tags": [{"label": "y"}], "by": {"k": {"n": 1}}}}
NESTED = {
    "extra row(channle varchar)": "extra.channle: {} has it, so it is null. Did you mean channel?",
    "extra row(channel varchar)": "",
    "extra row(tags array(row(lable varchar)))": "extra.tags.lable: {} has it",
    "extra row(tags array(row(label varchar)))": "",
    'extra row("by" map(varchar, row(m bigint)))': "extra.by.m: {} has it",
    'extra row("by" map(varchar, row(n bigint)))': "",
    "extra row(channel varchar, other varchar)": "extra.other: {} has it",
    "nothing row(channel varchar)": "nothing: {} has it",
}


@pytest.mark.parametrize("declared", NESTED)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_misspelt_field_is_said_at_every_depth(
    world: World, declared: str, is_wrapped: bool
) -> None:
    body = {"schema": None, "payload": BODY} if is_wrapped else BODY
    world.memory.produce("bids", 0, json.dumps(body).encode())
    notes = world.notes(f"CREATE TABLE z ({declared}) WITH (topic = 'bids')")
    wanted = NESTED[declared].format("none of 1 sampled records")
    assert len(notes) == bool(wanted)
    assert not wanted or notes[0].startswith(wanted)


AVRO = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "auction", "type": "long"},
        {
            "name": "extra",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Extra",
                    "fields": [
                        {"name": "channel", "type": "string", "aliases": ["way"]},
                        {
                            "name": "tags",
                            "type": {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "Tag",
                                    "fields": [{"name": "label", "type": "string"}],
                                },
                            },
                        },
                        {"name": "by", "type": {"type": "map", "values": "long"}},
                    ],
                },
            ],
        },
    ],
}
PROTOBUF = """
syntax = "proto3";
message Bid { int64 auction = 1; Extra extra = 2; }
message Extra { string channel = 1; repeated Tag tags = 2; map<string, int64> by = 3; }
message Tag { string label = 1; }
"""


def in_schema(format_: str, body: dict[str, Any]) -> tuple[str, bytes]:
    """A schema, and a record of it."""
    if format_ == "avro":
        written = io.BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), body)
        return json.dumps(AVRO), written.getvalue()
    file = protobuf_schema.compiled(Schema("PROTOBUF", PROTOBUF))
    make = message_factory.GetMessageClass(protobuf_schema.message_at(file, (0,)))
    message = json_format.ParseDict(body, make())
    return PROTOBUF, message.SerializeToString()


DECLARED = {
    "auktion bigint": "auktion: no schema of the newest records has it",
    "auction bigint": "",
    "extra row(channle varchar)": "extra.channle: no schema",
    "extra row(channel varchar)": "",
    "extra row(tags array(row(lable varchar)))": "extra.tags.lable: no schema",
    'extra row("by" map(varchar, bigint))': "",
}


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("format_", ["avro", "protobuf"])
@pytest.mark.parametrize("has_records", [False, True])
def test_a_schema_knows_which_fields_there_are(
    world: World, format_: str, declared: str, has_records: bool
) -> None:
    body = {"auction": 1, "extra": {"channel": "x", "tags": [], "by": {}}}
    schema, record = in_schema(format_, body)
    if has_records:
        world.memory.produce("bids", 0, record)
    schema = schema.replace("'", "''")
    notes = world.notes(
        f"CREATE TABLE z ({declared}) WITH (topic = 'bids', format = '{format_}',"
        f" value_schema = '{schema}')"
    )
    assert len(notes) == bool(DECLARED[declared])
    assert not notes or notes[0].startswith(DECLARED[declared])


SOURCES = {
    "value.extra.channle": ("value.extra.channle", "channel"),
    "value.extar.channel": ("value.extar", "extra"),
    "value.extra.channel": None,
    "key.customr": ("key.customr", "customer"),
    "key.customer": None,
    "topic": None,
}
"""What a source that no record has leads to, and what was meant."""


@pytest.mark.parametrize("source", SOURCES)
def test_a_stated_source_that_no_record_has_is_said(world: World, source: str) -> None:
    world.memory.produce("bids", 0, json.dumps(BODY).encode(), key=b'{"customer": "c"}')
    notes = world.notes(
        "CREATE TABLE z (auction bigint, x varchar) WITH (topic = 'bids', key_format = 'json',"
        f" columns_from = ARRAY['x = {source}'])"
    )
    said = SOURCES[source]
    if said is None:
        assert notes == []
        return
    missing, meant = said
    assert notes == [
        f"x: none of 1 sampled records has {missing}, so it is null. Did you mean {meant}?"
    ]


@pytest.mark.parametrize(("header", "count"), [("trase", 1), ("trace", 0)])
def test_a_header_that_no_record_has_is_said(header: str, count: int) -> None:
    binding = TopicBinding("c", "t", columns_from=(f"x = header.{header}",))
    spec = DecoderSpec.of(binding, (Field("x", types.VARCHAR), *columns.METADATA_FIELDS))
    batch = RawBatch([0], [0], [0], [None], [b"{}"], [[("trace", b"t")]])
    notes = list(inferring.absent_notes(spec, inferring.Sample((batch,)), NoRegistry()))
    assert len(notes) == count
    assert all(note.endswith("so it is null. Did you mean trace?") for note in notes)


ROW = {"id": 1, "auction": 2}
ENVELOPES = {
    "debezium": {"op": "c", "after": ROW},
    "maxwell": {"type": "insert", "data": ROW},
    "canal": {"type": "INSERT", "data": [ROW]},
}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_column_is_looked_for_in_the_rows_of_changes(world: World, envelope: str) -> None:
    sql = (
        "CREATE TABLE {} (id bigint, {} bigint) WITH (topic = 'bids', mode = 'changelog',"
        f" envelope = '{envelope}', primary_key = ARRAY['id'])"
    )
    word = "DELETE" if envelope == "canal" else "delete"
    delete = {"op": "d", "after": None} if envelope == "debezium" else {"type": word, "data": None}
    world.memory.produce("bids", 0, json.dumps(delete).encode(), key=b'{"id": 1}')
    assert not [note for note in world.notes(sql.format("w", "auktion")) if "auktion" in note]
    world.memory.produce("bids", 0, json.dumps(ENVELOPES[envelope]).encode(), key=b'{"id": 1}')
    notes = [note for note in world.notes(sql.format("x", "auktion")) if "auktion" in note]
    assert notes == [
        "auktion: none of 2 sampled records has it, so it is null. Did you mean auction?"
    ]
    assert not [note for note in world.notes(sql.format("y", "auction")) if "auction" in note]


def test_an_added_column_that_no_record_has_is_said(world: World) -> None:
    world.memory.produce("bids", 0, json.dumps(BODY).encode())
    world.run(
        "CREATE TABLE z (auction bigint, other bigint, extra row(x varchar)) WITH (topic = 'bids')"
    )
    notes = {
        "auktion bigint": ["auktion: none of 1 sampled records has it"],
        "extra.channle varchar": ["extra.channle: none of 1 sampled records has it"],
        "extra.channel varchar": [],
        "extra.tags varchar": ["extra.tags: an array where varchar is expected (1 of 1"],
    }
    for column, wanted in notes.items():
        found = world.notes(f"ALTER TABLE z ADD COLUMN {column}")
        assert [note[: len(w)] for note, w in zip(found, wanted, strict=True)] == wanted


def test_columns_that_no_record_has_are_named_up_to_a_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Unmet.note
    named: list[Unmet] = []

    def noted(absent: Unmet, part: str, of: str) -> str:
        named.append(absent)
        return note(absent, part, of)

    monkeypatch.setattr(Unmet, "note", noted)
    world.memory.produce("bids", 0, b'{"a": 1}')
    declared = ", ".join(f"c{n} bigint" for n in range(50))
    notes = world.notes(f"CREATE TABLE z ({declared}) WITH (topic = 'bids')")
    assert len(notes) == 21
    assert notes[-1].startswith("30 further columns")
    assert len(named) == 20  # only these are compared with every key
