"""Goal: whatever schema a message has, both paths of Protobuf give what Google's library does.

Method: random schemas of the three kinds of syntax, with defaults, groups, `oneof`, maps, enums,
packed and not, messages in each other and well-known ones; random messages of them, some of which
are two, one after the other, which Protobuf merges (but of messages in a `oneof`, which no writer
gives twice). What a field is, its own tests say
(`test_protobuf_values.py`); here no schema may make one path say what the other does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from seamline.connectors.kafka.formats import protobuf_schema, trees
from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.tree_decoder import TreeDecoder

FILES = ("timestamp", "duration", "struct", "any", "empty", "field_mask", "wrappers")
IMPORTS = "".join(f'import "google/protobuf/{file}.proto";\n' for file in FILES)
ENUM = "enum E { A = 0; B = 1; C = 5; D = -1; }\n"
WHOLE = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "sfixed64")
SCALARS = (*WHOLE, "float", "double", "bool", "string", "bytes", "E")
MESSAGES = tuple(
    f"google.protobuf.{name}"
    for name in (
        *("Timestamp", "Duration", "Struct", "Value", "ListValue", "Any", "Empty", "FieldMask"),
        *("StringValue", "Int64Value", "UInt64Value", "BoolValue", "BytesValue", "FloatValue"),
    )
)
KEYS = ("string", "int32", "int64", "bool", "uint64", "sint64")
DEFAULTS = {"string": '"dé"', "bytes": '"\\001\\377"', "bool": "true", "double": "-inf", "E": "B"}
HEADS = {
    "proto2": 'syntax = "proto2";\n',
    "proto3": 'syntax = "proto3";\n',
    "edition": 'edition = "2023";\n',
}


class Schemas:
    """Random schemas of three messages, of which each may have later ones in it."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._kind = dice.choice(sorted(HEADS))

    def text(self) -> str:
        """A schema; its first message is the one to look at."""
        messages = [f"message M{n} {{ {self._fields(n)} }}" for n in range(3)]
        return "\n".join((f"{HEADS[self._kind]}package p;\n{IMPORTS}{ENUM}", *messages))

    def _fields(self, place: int) -> str:
        number, found = 0, []
        for _ in range(self._dice.randint(1, 5)):
            number += self._dice.choice([1, 1, 100])
            type_ = self._type(place)
            how = self._dice.random()
            if how < 0.2:
                found.append(f"repeated {type_} f{number} = {number};")
            elif how < 0.35:
                found.append(f"map<{self._dice.choice(KEYS)}, {type_}> f{number} = {number};")
            elif how < 0.5:
                other = self._dice.choice(SCALARS)
                both = f"{type_} f{number} = {number}; {other} f{number + 1} = {number + 1};"
                found.append(f"oneof o{number} {{ {both} }}")
                number += 1
            elif how < 0.6 and self._kind == "proto2":
                inner = "optional int32 x = 1; repeated string y = 2;"
                found.append(f"optional group G{number} = {number} {{ {inner} }}")
            else:
                found.append(f"{self._label()} {type_} f{number} = {number}{self._default(type_)};")
        return " ".join(found)

    def _type(self, place: int) -> str:
        how = self._dice.random()
        if how < 0.25 and place < 2:
            return f"M{self._dice.randint(place + 1, 2)}"
        return self._dice.choice(MESSAGES if how < 0.5 else SCALARS)

    def _label(self) -> str:
        labels = {"proto2": ["optional"], "proto3": ["", "optional"], "edition": [""]}
        return self._dice.choice(labels[self._kind])

    def _default(self, type_: str) -> str:
        if self._kind == "proto3" or type_ not in SCALARS or self._dice.random() < 0.6:
            return ""
        return f" [default = {DEFAULTS.get(type_, '7')}]"


VALUES: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_BOOL: [False, True],
    FieldDescriptor.CPPTYPE_ENUM: [0, 1, 5, -1],
    FieldDescriptor.CPPTYPE_FLOAT: [0.0, -0.0, 1.5, float("inf"), float("nan")],
    FieldDescriptor.CPPTYPE_DOUBLE: [0.0, -0.0, 0.1, float("-inf"), float("nan")],
    FieldDescriptor.CPPTYPE_INT32: [-(2**31), 2**31 - 1, 0, 1],
    FieldDescriptor.CPPTYPE_INT64: [-(2**63), 2**63 - 1, 0, 1],
    FieldDescriptor.CPPTYPE_UINT32: [2**32 - 1, 0, 1],
    FieldDescriptor.CPPTYPE_UINT64: [2**64 - 1, 0, 1],
}


class Messages:
    """Random messages."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._known: dict[str, Callable[[Any], Any]] = {
            "google.protobuf.Timestamp": self._moment,
            "google.protobuf.Struct": lambda m: json_format.ParseDict({"a": [1, None]}, m),
            "google.protobuf.Value": lambda m: json_format.ParseDict("x", m),
            "google.protobuf.ListValue": lambda m: json_format.ParseDict([1, "x"], m),
        }

    def fill(self, message: Message) -> None:
        """Gives some fields a value, at every depth."""
        known = self._known.get(message.DESCRIPTOR.full_name)
        if known is not None:
            known(message)
            return
        for field in message.DESCRIPTOR.fields:
            if self._dice.random() < 0.35:
                continue
            found = getattr(message, field.name)
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                self._fill_map(found, inner)
            elif field.is_repeated:
                for _ in range(self._dice.randrange(4)):
                    if inner is not None:
                        self.fill(found.add())
                    else:
                        found.append(self._value(field))
            elif inner is not None:
                found.SetInParent()
                self.fill(found)
            else:
                setattr(message, field.name, self._value(field))

    def _fill_map(self, entries: Any, entry: Any) -> None:
        of_key, of_value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        for _ in range(self._dice.randrange(3)):
            key = self._value(of_key)
            if of_value.message_type is not None:
                self.fill(entries[key])
            else:
                entries[key] = self._value(of_value)

    def _value(self, field: FieldDescriptor) -> Any:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            is_bytes = field.type == FieldDescriptor.TYPE_BYTES
            return self._dice.choice([b"", b"\xff\x00"] if is_bytes else ["", "ä𝔘", "\x00"])
        return self._dice.choice(VALUES[field.cpp_type])

    def _moment(self, message: Any) -> None:
        message.seconds = self._dice.choice([0, -62135596800, 253402300799, -1])
        message.nanos = self._dice.choice([0, 999999000, 1000])


def decoder(schema: Schema, columns: tuple[Any, ...], *, fast: bool) -> ProtobufValues:
    found = ProtobufValues(schema, columns, whole=False)
    made = found._decoder((0,))
    assert isinstance(made, TreeDecoder)
    if not fast:
        made._to_arrow = None
    return found


def both(text: str, values: list[bytes]) -> list[dict[str, Any]]:
    """What the exact path gives, which must be what the fast one gives."""
    schema = Schema("PROTOBUF", text)
    message = protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    columns = trees.columns_of(protobuf_schema.tree_of(message))
    found = []
    for fast in (True, False):
        arrays, bad = decoder(schema, columns, fast=fast).decode(values)
        assert not bad, (text, bad)
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        found.append([{c.name: v for c, v in zip(columns, row, strict=True)} for row in rows])
    assert in_order(found[0]) == in_order(found[1]), text
    return found[1]


def in_order(value: Any) -> Any:
    """The same with the entries of maps in an order, and what NaN is equal to."""
    match value:
        case list():
            items = [in_order(item) for item in value]
            is_map = bool(items) and isinstance(value[0], tuple)
            return sorted(items, key=repr) if is_map else items
        case tuple():
            return tuple(in_order(item) for item in value)
        case dict():
            return {key: in_order(item) for key, item in value.items()}
        case float():
            return repr(value)
    return value


def play(seed: int) -> None:
    """One schema, and some messages of it."""
    dice = random.Random(seed)
    text = Schemas(dice).text()
    messages = Messages(dice)
    descriptor = protobuf_schema.message_at(protobuf_schema.compiled(Schema("PROTOBUF", text)), [0])
    if not trees.columns_of(protobuf_schema.tree_of(descriptor)):
        return
    make = message_factory.GetMessageClass(descriptor)
    values = []
    for _ in range(3):
        parts = []
        twice = "oneof" not in text and dice.random() < 0.25
        for _ in range(2 if twice else 1):
            message = make()
            messages.fill(message)
            parts.append(message.SerializeToString())
        values.append(b"".join(parts))
    for value in values:  # alone, as one odd message has all go the exact path
        both(text, [value])
    both(text, values)


@pytest.mark.prove
def test_both_paths_agree_whatever_the_schema_is() -> None:
    for seed in range(60):
        play(seed)


PROTO2 = 'syntax = "proto2"; enum E { A = 0; B = 1; }\nmessage M { '
PROTO3 = 'syntax = "proto3"; enum E { A = 0; B = 1; }\nmessage M { '
ALIASES = 'syntax = "proto3"; enum E { option allow_alias = true; A = 0; Z = 0; B = 1; C = 1; }\n'


@pytest.mark.parametrize(
    ("text", "value", "row"),
    [
        (PROTO3 + "repeated E c = 1; }", b"\x0a\x02\x00\x01", {"c": ["A", "B"]}),
        (PROTO2 + "repeated E c = 1; }", b"\x08\x01", {"c": ["B"]}),
        (PROTO3 + "map<string, E> c = 1; }", b"\x0a\x05\x0a\x01a\x10\x01", {"c": [("a", "B")]}),
        (ALIASES + "message M { E c = 1; E d = 2; }", b"\x08\x01", {"c": "B", "d": "A"}),
        (ALIASES + "message M { repeated E c = 1; }", b"\x0a\x02\x00\x01", {"c": ["A", "B"]}),
        (PROTO2 + "optional int32 c = 1 [default = 7]; }", b"", {"c": 7}),
        (PROTO2 + 'optional string c = 1 [default = "x"]; }', b"", {"c": "x"}),
        (PROTO2 + "optional E c = 1 [default = B]; }", b"", {"c": "B"}),
        (
            PROTO2 + "repeated N c = 1; message N { optional bool b = 1 [default = true]; } }",
            b"\x0a\x00",
            {"c": [{"b": True}]},
        ),
        (
            PROTO2 + "optional group G = 1 { optional int32 x = 2; } }",
            b"\x0b\x10\x05\x0c",
            {"g": {"x": 5}},
        ),
        (
            PROTO3 + "oneof o { int32 a = 1; string b = 2; } }",
            b"\x08\x05\x12\x01x",
            {"a": None, "b": "x"},
        ),
        (
            PROTO3 + "repeated N c = 1; message N { oneof o { int32 a = 1; string b = 2; } } }",
            b"\x0a\x05\x12\x01x\x08\x05",
            {"c": [{"a": 5, "b": None}]},
        ),
        (
            'edition = "2023"; message M { bytes c = 1 [features.field_presence = IMPLICIT]; }',
            b"",
            {"c": b""},
        ),
    ],
)
def test_what_only_one_path_knew(text: str, value: bytes, row: dict[str, Any]) -> None:
    assert both(text, [value]) == [row]
