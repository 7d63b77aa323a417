"""Goal: Protobuf is decoded as Google's library decodes it, whichever code path does.

Method: a schema with every type, presence and well-known type; random messages of it, whose fields
are known; then bytes of one are changed, cut off or added. The exact path must give what was put
in, the fast path what the exact one gives, and neighbours must stay as they are.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory
from hypothesis import given
from hypothesis import strategies as st
from support.damaged import damaged
from support.examples import examples

from seamline.connectors.kafka.formats import confluent, infer_schema, protobuf_schema, trees
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.connectors.kafka.formats.tree_decoder import TreeDecoder
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.evolution import changes
from seamline.sql.types import Field

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 3; }
message Order {
  int64 id = 1; optional double price = 2; string name = 3; bytes raw = 4; bool ok = 5;
  uint64 large = 6; uint32 small = 7; float f = 8; Color color = 9; repeated int32 nums = 10;
  map<string, Inner> m = 11; Inner inner = 12; google.protobuf.Timestamp at = 13;
  google.protobuf.Int32Value w = 14; oneof either { string a = 15; sint32 b = 16; }
  repeated Inner inners = 17; map<int32, string> numbers = 18; fixed64 fixed = 19;
  message Nested { int32 y = 1; }
  optional Color maybe = 20; repeated string texts = 21; sfixed32 sf = 22;
}
message Inner { int32 x = 1; optional string s = 2; Color color = 3; }
message Second { string only = 1; }
"""
SCHEMA = Schema("PROTOBUF", TEXT)
FILE = protobuf_schema.compiled(SCHEMA)
ORDER = protobuf_schema.message_at(FILE, [0])
Order = message_factory.GetMessageClass(ORDER)
COLUMNS = trees.columns_of(protobuf_schema.tree_of(ORDER))

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
COLORS = st.sampled_from([0, 3, 7, -1])
INNER = st.fixed_dictionaries({}, optional={"x": INTS, "s": TEXTS, "color": COLORS})
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "id": LONGS,
        "price": st.floats(allow_nan=False),
        "name": TEXTS,
        "raw": st.binary(max_size=4),
        "ok": st.booleans(),
        "large": st.integers(0, 2**64 - 1),
        "small": st.integers(0, 2**32 - 1),
        "f": st.floats(width=32, allow_nan=False),
        "color": COLORS,
        "nums": st.lists(INTS, max_size=3),
        "m": st.dictionaries(TEXTS, INNER, max_size=1),
        "inner": INNER,
        "at": MOMENTS,
        "w": INTS,
        "either": st.tuples(st.just("a"), TEXTS) | st.tuples(st.just("b"), INTS),
        "inners": st.lists(INNER, max_size=2),
        "numbers": st.dictionaries(INTS, TEXTS, max_size=1),
        "fixed": st.integers(0, 2**64 - 1),
        "maybe": COLORS,
        "texts": st.lists(TEXTS, max_size=2),
        "sf": INTS,
    },
)
NAMES = {0: "RED", 3: "BLUE", 7: "7", -1: "-1", None: None}
"""Enums are open: a number without a name is kept."""
ZEROS: dict[str, Any] = {
    "id": 0,
    "price": None,
    "name": "",
    "raw": b"",
    "ok": False,
    "large": 0,
    "small": 0,
    "f": 0.0,
    "color": 0,
    "nums": [],
    "m": {},
    "inner": None,
    "at": None,
    "w": None,
    "inners": [],
    "numbers": {},
    "fixed": 0,
    "maybe": None,
    "texts": [],
    "sf": 0,
}


def message(values: dict[str, Any]) -> bytes:
    given_ = dict(values)
    at, w, either = (given_.pop(name, None) for name in ("at", "w", "either"))
    if either is not None:
        given_[either[0]] = either[1]
    made = Order(**given_)
    if at is not None:
        made.at.FromDatetime(at)
    if w is not None:
        made.w.value = w
    return made.SerializeToString()  # type: ignore[no-any-return]


def expected(values: dict[str, Any]) -> dict[str, Any]:
    said = {**ZEROS, "a": None, "b": None, **values}
    either = said.pop("either", None)
    if either is not None:
        said[either[0]] = either[1]
    for name in ("color", "maybe"):
        said[name] = NAMES[said[name]]
    said["m"] = [(key, inner(value)) for key, value in said["m"].items()]
    said["numbers"] = [(str(key), value) for key, value in said["numbers"].items()]
    said["inner"] = None if said["inner"] is None else inner(said["inner"])
    said["inners"] = [inner(value) for value in said["inners"]]
    if said["at"] is not None:
        said["at"] = said["at"].replace(tzinfo=datetime.UTC)
    return {name: plain(said[name]) for name in (column.name for column in COLUMNS)}


def inner(values: dict[str, Any]) -> dict[str, Any]:
    return {"x": values.get("x", 0), "s": values.get("s"), "color": NAMES[values.get("color", 0)]}


def plain(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def decoder(columns: tuple[Field, ...] = COLUMNS, *, fast: bool = True) -> ProtobufValues:
    found = ProtobufValues(SCHEMA, columns, whole=False)
    for made in found._decoders.values():
        assert isinstance(made, TreeDecoder)
        assert made._to_arrow is not None
        if not fast:
            made._to_arrow = None
    return found


def rows(arrays: Sequence[Any], columns: Sequence[Field] = COLUMNS) -> list[dict[str, Any]]:
    for array in arrays:
        array.validate(full=True)
    lists = [[plain(value) for value in array.to_pylist()] for array in arrays]
    return [dict(zip([c.name for c in columns], r, strict=True)) for r in zip(*lists, strict=True)]


@examples(200)
@given(st.lists(ORDERS, min_size=1, max_size=3))
def test_both_paths_give_what_was_put_in(values: list[dict[str, Any]]) -> None:
    raw = [message(value) for value in values]
    for fast in (True, False):
        arrays, bad = decoder(fast=fast).decode(raw)
        assert not bad
        assert rows(arrays) == [expected(value) for value in values]


WITHOUT_KEYS = tuple(column for column in COLUMNS if column.name != "numbers")
"""What the fast path takes: maps whose keys are text."""


@examples(400)
@given(st.lists(ORDERS, min_size=1, max_size=3), st.data())
def test_a_bad_message_is_bad_for_both_paths_and_leaves_its_neighbours(
    values: list[dict[str, Any]], data: st.DataObject
) -> None:
    raw = [message(value) for value in values]
    place = data.draw(st.integers(0, len(raw) - 1))
    mutated = [*raw[:place], damaged(raw[place], data), *raw[place + 1 :]]
    fast_arrays, fast_bad = decoder(WITHOUT_KEYS).decode(mutated)
    exact_arrays, exact_bad = decoder(WITHOUT_KEYS, fast=False).decode(mutated)
    assert fast_bad == exact_bad
    assert set(fast_bad) <= {place}
    found = rows(fast_arrays, WITHOUT_KEYS)
    assert found == rows(exact_arrays, WITHOUT_KEYS)
    good = [expected(value) for value in values]
    for index, row in enumerate(found):
        if index != place:
            assert row == {name: good[index][name] for name in row}


TAGS = [
    b"\xad\xf3\xff\xff\xff\xff\x01\x00",  # longer than a tag is
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x00\x01",  # of a field 0
    b"\x0e",  # of a kind that there is not
    b"\x0f",
    b"\xf3\x07",  # a group that does not end
    b"\xf4\x07",  # the end of one that did not begin
    b"\xf3\x07\xfc\x07",  # the end of another
    b"\xf3\x07" * 101 + b"\xf4\x07" * 101,
    b"\x08" + b"\xff" * 10 + b"\x01",  # longer than a number is
    b"\x1a\x01\xff",  # text that is none
    b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
]


@pytest.mark.parametrize("tail", TAGS, ids=bytes.hex)
def test_what_is_no_field_is_bad_for_both_paths(tail: bytes) -> None:
    raw = [message({"id": 1}), message({"id": 2}) + tail, message({"id": 3})]
    for fast in (True, False):
        arrays, bad = decoder(WITHOUT_KEYS, fast=fast).decode(raw)
        assert set(bad) == {1}
        assert [row["id"] for row in rows(arrays, WITHOUT_KEYS)] == [1, None, 3]


COLUMNS_OF_OTHERS = parse_fields("y integer, only varchar")


def test_which_message_a_value_is_stands_before_it() -> None:
    nested = protobuf_schema.message_at(FILE, [0, 0])
    assert nested.name == "Nested"
    found = ProtobufValues(SCHEMA, COLUMNS_OF_OTHERS, whole=False, framing=confluent.FRAMING)
    values = [
        b"\x04\x00\x00\x08\x05",
        b"\x02\x04\x0a\x01x",
        b"\x00\x08\x07",
        None,
        b"\x02\x08",
        b"",
    ]
    arrays, bad = found.decode(values)
    assert arrays[0].to_pylist() == [5, None, None, None, None, None]
    assert arrays[1].to_pylist() == [None, "x", None, None, None, None]
    assert bad == {
        4: "the schema has no message [4]",
        5: "not Protobuf: no path to its message precedes it",
    }


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("with_others", [False, True])
def test_a_message_without_fields_is_a_row_of_nulls(count: int, with_others: bool) -> None:
    text = 'syntax = "proto3"; message A { int32 x = 1; Ping p = 2; } message Ping {}'
    found = ProtobufValues(
        Schema("PROTOBUF", text), parse_fields("x integer"), whole=False, framing=confluent.FRAMING
    )
    others = [b"\x00\x08\x07", None, b"\x00\x12\x00"] if with_others else []
    arrays, bad = found.decode([b"\x02\x02"] * count + others)
    assert not bad
    assert arrays[0].to_pylist() == [None] * count + ([7, None, 0] if with_others else [])


def test_messages_that_hold_themselves_or_json() -> None:
    text = """
    syntax = "proto3";
    import "google/protobuf/struct.proto";
    message Node { int32 v = 1; Node next = 2; google.protobuf.Struct extra = 3; }
    """
    schema = Schema("PROTOBUF", text)
    node = protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    made = message_factory.GetMessageClass(node)(v=1)
    made.next.v = 2
    made.extra["a"] = [1, "x"]
    found = ProtobufValues(
        schema,
        parse_fields("v integer, next row(v integer), extra varchar"),
        whole=False,
    )
    arrays, bad = found.decode([made.SerializeToString()])
    assert not bad
    assert [a.to_pylist() for a in arrays] == [[1], [{"v": 2}], ['{"a": [1.0, "x"]}']]


MAPS = """
syntax = "proto3";
package a;
message O {
  map<string, int32> m = 1;
  message A { int32 x = 1; int32 y = 2; }
  message B { int32 y = 1; int32 x = 2; }
}
"""


def test_entries_of_maps_are_counted_among_messages() -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", MAPS))
    nested = [message.name for message in file.message_types_by_name["O"].nested_types]
    assert nested == ["MEntry", "A", "B"]
    for path, name in (([0, 1], "A"), ([0, 2], "B"), ([0, 0], "A")):
        assert protobuf_schema.message_at(file, path).name == name
    for nowhere in ([0, 3], [0, 0, 0], [1], []):
        with pytest.raises(ValueError, match="has no message"):
            protobuf_schema.message_at(file, nowhere)


SPELT_OUT = """
syntax = "proto3";
package a;
// option map_entry = true;
message O {
  repeated .a.O.MEntry m = 1;
  repeated .a.O.InnersEntry inners = 2;
  message MEntry { option map_entry = true; string key = 1; int32 value = 2; }
  message InnersEntry {
    string key = 1;
    .a.O.Inner value = 2;
    option  map_entry=true ;
  }
  message Inner { repeated MEntry n = 1;
    message MEntry { option map_entry = false; string key = 1; }
  }
}
"""


@pytest.mark.parametrize("is_imported", [False, True])
def test_maps_may_be_spelt_out(is_imported: bool) -> None:
    schema = Schema("PROTOBUF", SPELT_OUT)
    if is_imported:
        text = 'syntax = "proto3"; import "o.proto"; message Outer { a.O o = 1; }'
        schema = Schema("PROTOBUF", text, (("o.proto", schema),))
    message_ = protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    if is_imported:
        message_ = message_.fields_by_name["o"].message_type
    made = message_factory.GetMessageClass(message_)(m={"k": 5})
    made.inners["x"].n.add(key="y")
    raw = made.SerializeToString()
    raw = b"\x0a" + bytes([len(raw)]) + raw if is_imported else raw
    inside = "m map(varchar, integer), inners map(varchar, row(n array(row(key varchar))))"
    declared = f"o row({inside})" if is_imported else inside
    found = ProtobufValues(schema, parse_fields(declared), whole=False)
    arrays, bad = found.decode([raw, raw])
    assert not bad
    if is_imported:
        arrays = arrays[0].flatten()
    assert arrays[0].to_pylist() == [[("k", 5)]] * 2
    assert arrays[1].to_pylist() == [[("x", {"n": [{"key": "y"}]})]] * 2


KNOWN = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/datetime.proto";
import "google/type/dayofweek.proto";
import "google/type/latlng.proto";
import "google/type/money.proto";
import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto";
message Sale {
  option (confluent.message_meta).doc = "a sale";
  confluent.type.Decimal price = 1 [(confluent.field_meta) = {
    tags: ["PII"], params: {key: "precision", value: "9"}
  }];
  google.type.Date day = 2;
  google.type.Money money = 3;
  google.type.TimeOfDay time = 4;
  google.type.DateTime moment = 5;
  google.type.LatLng place = 6;
  google.type.DayOfWeek weekday = 7;
  google.protobuf.Timestamp at = 8;
}
"""


@pytest.mark.parametrize("is_text", [True, False])
def test_files_that_registries_know_need_no_reference(is_text: bool) -> None:
    schema = Schema("PROTOBUF", KNOWN)
    if not is_text:
        file = descriptor_pb2.FileDescriptorProto()
        protobuf_schema.compiled(schema).CopyToProto(file)
        schema = Schema("PROTOBUF", base64.b64encode(file.SerializeToString()).decode())
    sale = message_factory.GetMessageClass(
        protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    )()
    sale.price.value, sale.price.precision, sale.price.scale = b"\5", 9, 2
    sale.day.year, sale.money.units, sale.time.hours = 2024, 7, 13
    sale.moment.utc_offset.seconds, sale.place.latitude, sale.weekday = 60, 47.5, 3
    columns = parse_fields(
        "price row(value varbinary, scale integer), day row(year integer), "
        "money row(units bigint), time row(hours integer), "
        "moment row(utc_offset row(seconds bigint)), place row(latitude double), weekday varchar"
    )
    found = ProtobufValues(schema, columns, whole=False)
    arrays, bad = found.decode([sale.SerializeToString()])
    assert not bad
    assert [array[0].as_py() for array in arrays] == [
        {"value": b"\5", "scale": 2},
        {"year": 2024},
        {"units": 7},
        {"hours": 13},
        {"utc_offset": {"seconds": 60}},
        {"latitude": 47.5},
        "WEDNESDAY",
    ]


def test_a_reference_comes_before_a_file_that_registries_know() -> None:
    own = 'syntax = "proto3"; package confluent.type; message Decimal { int64 cents = 1; }'
    name = "confluent/type/decimal.proto"
    text = f'syntax = "proto3"; import "{name}"; message Sale {{ confluent.type.Decimal d = 1; }}'
    schema = Schema("PROTOBUF", text, ((name, Schema("PROTOBUF", own)),))
    node = protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    assert [f.name for f in node.fields_by_name["d"].message_type.fields] == ["cents"]


def test_an_epoch_holds_for_numbers_without_a_sign() -> None:
    columns = parse_fields("id timestamp(6), large timestamp(6), fixed timestamp(6), small bigint")
    found = ProtobufValues(SCHEMA, columns, whole=False, spelling=Spelling(epoch="seconds"))
    raw = message(dict.fromkeys(("id", "large", "fixed", "small"), 1_700_000_000))
    arrays, bad = found.decode([raw, message({"large": 2**64 - 1})])
    assert list(bad) == [1]
    noon = datetime.datetime(2023, 11, 14, 22, 13, 20)
    assert [array[0].as_py() for array in arrays] == [noon, noon, noon, 1_700_000_000]


EVERY_FILE = (
    *("confluent/meta", "confluent/type/decimal", "confluent/type/variant"),
    "confluent/types/decimal",
    *(f"google/type/{n}" for n in ("calendar_period", "color", "date", "datetime", "dayofweek")),
    *(f"google/type/{n}" for n in ("decimal", "expr", "fraction", "interval", "latlng", "month")),
    *(f"google/type/{n}" for n in ("localized_text", "money", "phone_number", "postal_address")),
    *("google/type/quaternion", "google/type/timeofday", "google/protobuf/api"),
    *("google/protobuf/type", "google/protobuf/source_context", "google/protobuf/descriptor"),
)


def test_every_file_that_registries_know_is_there() -> None:
    imports = "".join(f'import "{name}.proto";' for name in EVERY_FILE)
    text = f'syntax = "proto3";{imports} message M {{ int32 x = 1; }}'
    assert protobuf_schema.message_at(protobuf_schema.compiled(Schema("PROTOBUF", text)), [0])


@pytest.mark.parametrize("text", ["", "message X {", 'syntax = "proto3"; import "none.proto";'])
def test_what_is_no_schema_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        ProtobufValues(Schema("PROTOBUF", text), COLUMNS, whole=False)


def test_references_stay_in_their_folder() -> None:
    outside = Schema("PROTOBUF", TEXT, (("../../outside.proto", Schema("PROTOBUF", TEXT)),))
    with pytest.raises(ValueError, match="refers to"):
        protobuf_schema.compiled(outside)


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 2**63 - 1, 253_402_300_800, -62_135_596_801])
def test_times_out_of_range_are_bad_for_both_paths(seconds: int) -> None:
    made = Order()
    made.at.seconds = seconds
    columns = parse_fields("at timestamp(6) with time zone")
    for fast in (True, False):
        arrays, bad = decoder(columns, fast=fast).decode([made.SerializeToString()])
        assert "out of range" in bad[0]
        assert arrays[0].to_pylist() == [None]


ANY = """
syntax = "proto3"; package shop;
import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
message R { google.protobuf.Any c = 1; repeated google.protobuf.Any many = 2; }
message Order { int32 id = 1; repeated string tags = 2; optional double total = 3; E e = 4;
  map<string, Empty> m = 5; google.protobuf.Any more = 6;
  message Line { bytes raw = 1; } Line l = 7; }
message Empty {} enum E { A = 0; B = 1; }
"""
CONTENTS: list[dict[str, Any]] = [
    {"@type": "type.googleapis.com/shop.Order", "id": 7, "tags": ["é"], "e": "B", "m": {"k": {}}},
    {"@type": "x/shop.Order", "total": 0.5, "more": {"@type": "a/shop.Order.Line", "raw": "/w=="}},
    {"@type": "type.googleapis.com/shop.Empty"},
    {"@type": "type.googleapis.com/google.protobuf.Timestamp", "value": "2024-02-29T01:02:03.5Z"},
    {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x"},
    {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"a": [1.5, None]}},
    {
        "@type": "type.googleapis.com/google.protobuf.Any",
        "value": {"@type": "type.googleapis.com/shop.Empty"},
    },
    {},
]


def test_what_an_any_holds_is_json_or_a_row_with_a_field_per_type() -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", ANY))
    make = message_factory.GetMessageClass(file.message_types_by_name["R"])
    messages = [
        json_format.ParseDict({"c": content, "many": [content]}, make(), descriptor_pool=file.pool)
        for content in CONTENTS
    ]
    columns = parse_fields(
        "c json, many array(row("
        ' "Order" row(id integer, more row("shop.Order.Line" row(raw varbinary))),'
        ' "Empty" boolean, "google.protobuf.Timestamp" timestamp(6), "StringValue" varchar,'
        ' "@type" varchar, type_url varchar))'
    )
    decoder = ProtobufValues(Schema("PROTOBUF", ANY), columns, whole=False)
    (jsons, many), bad = decoder.decode([m.SerializeToString() for m in messages] * 2)
    assert bad == {}
    for message, text in zip(messages, jsons.to_pylist(), strict=False):
        read = json_format.Parse(f'{{"c": {text}}}', make(), descriptor_pool=file.pool)
        assert read.c == message.c, text
    for content, (row,) in zip(CONTENTS, many.to_pylist(), strict=False):
        url = content.get("@type", "")
        held = {name: value for name, value in row.items() if value is not None}
        assert held.pop("type_url") == url
        assert held.pop("@type", "") == url.rpartition("/")[2]
        label = url.rpartition("/")[2].rpartition(".")[2]
        wanted: dict[str, Any] = {
            "Empty": {"Empty": True},
            "StringValue": {"StringValue": "x"},
            "Timestamp": {
                "google.protobuf.Timestamp": datetime.datetime(2024, 2, 29, 1, 2, 3, 500_000)
            },
        }
        if label == "Order":
            raw = {"shop.Order.Line": {"raw": b"\xff"}} if "more" in content else None
            assert held == {"Order": {"id": content.get("id", 0), "more": raw}}
        else:
            assert held == wanted.get(label, {})


LINE = CONTENTS[1]["more"]
ORDER_TYPE = (
    "row(id integer, tags array(varchar), total double, e varchar, more {}, l row(raw varbinary))"
)


@pytest.mark.parametrize(
    ("contents", "type_"),
    [
        ([CONTENTS[0], {}], f'row("@type" varchar, "Order" {ORDER_TYPE.format("json")})'),
        (
            [CONTENTS[1], CONTENTS[2]],
            'row("@type" varchar, "Empty" boolean, "Order" '
            + ORDER_TYPE.format('row("@type" varchar, "Line" row(raw varbinary))')
            + ")",
        ),
        (
            CONTENTS[3:5],
            'row("@type" varchar, "StringValue" varchar, "Timestamp" timestamp(6) with time zone)',
        ),
        ([CONTENTS[6]], 'row("@type" varchar, "Any" row("@type" varchar, "Empty" boolean))'),
        ([CONTENTS[0], {"@type": "x/other.Type"}], "json"),
        ([{}], "json"),
        ([], "json"),
    ],
)
def test_what_sampled_anys_hold_is_inferred(contents: list[Any], type_: str) -> None:
    schema = Schema("PROTOBUF", ANY)
    file = protobuf_schema.compiled(schema)
    make = message_factory.GetMessageClass(file.message_types_by_name["R"])
    values = []
    for content in contents:
        if content.get("@type") == "x/other.Type":
            message = make()
            message.c.type_url = "x/other.Type"
        else:
            message = json_format.ParseDict({"c": content}, make(), descriptor_pool=file.pool)
        values.append(message.SerializeToString())
    sample: Any = [*values, None, b"\xff"]
    setting = Setting("value", NoRegistry(), ANY)
    columns = infer_schema.find(setting, "protobuf", "t", sample, ()).columns
    assert columns == parse_fields(f"c {type_}, many array(json)")

    message_tree = protobuf_schema.tree_of(make.DESCRIPTOR)
    protobuf_schema.add_packed(message_tree, file)
    assert changes(columns, trees.record_of(message_tree)) == (), (
        "no schema adds to what holds an Any"
    )
    (array, _), bad = ProtobufValues(schema, columns, whole=False).decode(values)
    assert bad == {}
    for content, value in zip(contents, array.to_pylist(), strict=True):
        name = content.get("@type", "").rpartition("/")[2]
        if type_ == "json":
            assert json.loads(value).get("@type") == content.get("@type")
        else:
            filled = {label for label, held in value.items() if held not in (None, "")}
            assert filled == ({"@type", name.rpartition(".")[2]} if name else set())


def test_an_any_of_another_type_keeps_its_bytes_and_a_broken_one_is_bad() -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", ANY))
    make = message_factory.GetMessageClass(file.message_types_by_name["R"])
    unknown, broken = make(), make()
    unknown.c.type_url, unknown.c.value = "x/other.Type", b"\xff"
    broken.c.type_url, broken.c.value = "x/shop.Order", b"\xff"
    values = [message.SerializeToString() for message in (unknown, broken)]
    columns = parse_fields("c json")
    decoder = ProtobufValues(Schema("PROTOBUF", ANY), columns, whole=False)
    (array,), bad = decoder.decode(values)
    assert json.loads(array[0].as_py()) == {"@type": "x/other.Type", "value": "/w=="}
    assert list(bad) == [1]
    assert bad[1].startswith("c.Order: not Protobuf")
    plain = parse_fields("c row(type_url varchar, value varbinary)")
    decoder = ProtobufValues(Schema("PROTOBUF", ANY), plain, whole=False)
    (array,), bad = decoder.decode(values)
    assert bad == {}
    assert array.to_pylist()[1] == {"type_url": "x/shop.Order", "value": b"\xff"}


def test_an_any_that_is_nested_too_deeply_is_bad() -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", ANY))
    columns = parse_fields("c json")
    decoder = ProtobufValues(Schema("PROTOBUF", ANY), columns, whole=False)
    make = message_factory.GetMessageClass(file.message_types_by_name["R"])
    any_ = make().c
    values = []
    for _ in range(400):
        outer = type(any_)()
        outer.Pack(any_)
        any_ = outer
        values.append(make(c=any_).SerializeToString())
    _, bad = decoder.decode(values)
    assert list(bad) == list(range(min(bad), len(values)))
    assert set(bad.values()) == {"nested deeper than 50 levels, in Any"}
