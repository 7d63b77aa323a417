"""Goal: the tables of types in docs/tables.md are so, for each type of each format and column.

Method: values of every type, written by fastavro, by Google's library or as JSON that jsonschema
accepts, are decoded for every type of column and every spelling, together and alone, and go through
a Parquet file, as tiering writes it. What a column accepts must be what was written, by a judge
that knows no format; the tables say which columns accept all of it. `--rewrite` prints them.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import functools
import io
import itertools
import json
import pathlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import json_format, message_factory

from seamline.connectors.kafka.formats import (
    avro_schema,
    infer_schema,
    protobuf_schema,
    trees,
)
from seamline.connectors.kafka.formats.all_formats import format_of
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema
from seamline.connectors.kafka.formats.spelling import SPELLINGS, Spelling
from seamline.gateway.commands.tables import parse_fields
from seamline.sql import types
from seamline.sql.kernels.json_texts import parsed
from seamline.sql.types import Decimal, Field, Type, to_arrow

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tables.md"
TYPES: tuple[Type, ...] = (
    *(types.BOOLEAN, types.INTEGER, types.BIGINT, types.REAL, types.DOUBLE, Decimal(38, 6)),
    *(types.VARCHAR, types.VARBINARY, types.UUID, types.DATE, types.TIME),
    *(types.TIMESTAMP, types.TIMESTAMP_TZ),
    *(
        field.type
        for field in parse_fields("r row(x bigint), a array(bigint), m map(varchar, bigint)")
    ),
)
EPOCH = datetime.datetime(1970, 1, 1)
AT = datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)
UTC = datetime.UTC
ID = uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """A type of a format, with some values.

    Attributes:
        format: The format.
        name: What the documentation calls the type.
        schema: Its schema, of records with the one field `c`.
        records: The records.
        values: What they have in `c`.
        inferred: The type that `--infer` takes; None if it takes none.
        spelt: The type that it takes with the spelling `several_types`, if another.
    """

    format: str
    name: str
    schema: str
    records: Sequence[bytes]
    values: Sequence[Any]
    inferred: Type | None
    spelt: Type | None = None


def _record(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "c", "type": type_}]}


def _logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


MONEY = [decimal.Decimal("1.50"), decimal.Decimal("-2.25")]
AVRO: dict[str, tuple[Any, list[Any]]] = {
    "`boolean`": ("boolean", [True, False]),
    "`int`": ("int", [7, -(2**31)]),
    "`long`": ("long", [7, 2**53 + 1]),
    "`float`": ("float", [1.5, -0.25]),
    "`double`": ("double", [0.1, 1e300]),
    "`string`": ("string", ["x", ""]),
    "`bytes`": ("bytes", [b"x", b"\xff"]),
    "`fixed`": ({"type": "fixed", "name": "F", "size": 2}, [b"xy", b"\xff\0"]),
    "`enum`": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["A", "B"]),
    "`decimal`": (_logical("bytes", "decimal", precision=9, scale=2), MONEY),
    "`uuid`": (_logical("string", "uuid"), [ID]),
    "`date`": (_logical("int", "date"), [AT.date()]),
    "`time-millis`, `time-micros`": (_logical("long", "time-micros"), [AT.time()]),
    "`timestamp-millis`, `-micros`": (
        _logical("long", "timestamp-millis"),
        [AT.replace(tzinfo=UTC)],
    ),
    "`local-timestamp-millis`, `-micros`": (_logical("long", "local-timestamp-micros"), [AT]),
    "record": (
        {**_record("long"), "name": "I", "fields": [{"name": "x", "type": "long"}]},
        [{"x": 1}],
    ),
    "`array`": ({"type": "array", "items": "long"}, [[1, 2], []]),
    "`map`": ({"type": "map", "values": "long"}, [{"k": 1}, {}]),
    "union of several types": (["long", "string"], [5, "x"]),
}


def avro() -> Iterator[Source]:
    for name, (type_, values) in AVRO.items():
        schema, records = _record(type_), []
        for value in values:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"c": value})
            records.append(stream.getvalue())
        text = json.dumps(schema)
        columns = trees.columns_of(avro_schema.parsed(Schema("AVRO", text)))
        inferred = columns[0].type if columns else None
        own = [{"long": 5, "string": None}, {"long": None, "string": "x"}]
        is_union = isinstance(type_, list)
        yield Source("avro", name, text, records, own if is_union else values, inferred)


PROTOBUF: dict[str, tuple[str, list[Any], list[Any]]] = {
    "`bool`": ("bool", [True, False], [True, False]),
    "`int32`, `sint32`, `sfixed32`": ("sint32", [7, -(2**31)], [7, -(2**31)]),
    "`uint32`, `fixed32`": ("uint32", [7, 2**32 - 1], [7, 2**32 - 1]),
    "`int64`, `sint64`, `sfixed64`": ("int64", [7, str(2**53 + 1)], [7, 2**53 + 1]),
    "`uint64`, `fixed64`": ("uint64", [7, str(2**64 - 1)], [7, 2**64 - 1]),
    "`float`": ("float", [1.5, -0.25], [1.5, -0.25]),
    "`double`": ("double", [0.1, 1e300], [0.1, 1e300]),
    "`string`": ("string", ["x", ""], ["x", ""]),
    "`bytes`": ("bytes", ["eA==", "/w=="], [b"x", b"\xff"]),
    "`enum`": ("E", ["A", "B", 7], ["A", "B", "7"]),
    "message": ("I", [{"x": 1}], [{"x": 1}]),
    "message without fields": ("P", [{}], [True]),
    "`repeated`": ("repeated int64", [[1, 2], []], [[1, 2], []]),
    "`map`": ("map<string, int64>", [{"k": 1}, {}], [{"k": 1}, {}]),
    "`google.protobuf.Timestamp`": (
        "google.protobuf.Timestamp",
        ["2024-02-29T01:02:03.004Z"],
        [AT.replace(tzinfo=UTC)],
    ),
    "`google.protobuf.Int64Value` and the like": ("google.protobuf.Int64Value", [7], [7]),
    "`google.protobuf.Struct`, `Value`, `ListValue`": (
        "google.protobuf.Struct",
        [{"k": True}],
        ['{"k": true}'],
    ),
    "`google.protobuf.Any`": (
        "google.protobuf.Any",
        [{"@type": "x/I", "x": 1}],
        [{"@type": "I", "I": {"x": 1}}],
    ),
}


def protobuf() -> Iterator[Source]:
    imports = "".join(
        f'import "google/protobuf/{f}.proto";' for f in ("timestamp", "wrappers", "struct", "any")
    )
    for name, (type_, given, values) in PROTOBUF.items():
        text = (
            f'syntax = "proto3"; {imports} message R {{ {type_} c = 1; }}'
            " enum E { A = 0; B = 1; } message I { int64 x = 1; } message P {}"
        )
        file = protobuf_schema.compiled(Schema("PROTOBUF", text))
        make = message_factory.GetMessageClass(file.message_types_by_name["R"])
        records = [
            json_format.ParseDict(
                {"c": value}, make(), descriptor_pool=file.pool
            ).SerializeToString()
            for value in given
        ]
        setting = Setting("value", NoRegistry(), text)
        columns = infer_schema.find(setting, "protobuf", "t", records, ()).columns
        inferred = columns[0].type if columns else None
        yield Source("protobuf", name, text, records, values, inferred)


JSON_SCHEMA: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "`boolean`": ({"type": "boolean"}, [True, False], [True, False]),
    "`integer`": ({"type": "integer"}, [7, 2**53 + 1], [7, 2**53 + 1]),
    "`number`": ({"type": "number"}, [0.5, 1e300], [0.5, 1e300]),
    "`number` that is whole, as `1.0`": ({"type": "integer"}, [1.0, -2.0], [1, -2]),
    "`string`": ({"type": "string"}, ["x", ""], ["x", ""]),
    "`string` with digits": ({"type": "string"}, ["7"], ["7"]),
    "`string` in Base64": ({"type": "string"}, ["eA==", "/w=="], [b"x", b"\xff"]),
    "`uuid`": ({"type": "string", "format": "uuid"}, [str(ID)], [ID]),
    "`date`": ({"type": "string", "format": "date"}, ["2024-02-29"], [AT.date()]),
    "`time`": ({"type": "string"}, ["01:02:03.004"], [AT.time()]),
    "`date-time`": (
        {"type": "string", "format": "date-time"},
        ["2024-02-29T01:02:03.004Z"],
        [AT.replace(tzinfo=UTC)],
    ),
    "`date-time` in another form": (
        {"type": "string"},
        ["20240229T020203.004+0100[Europe/Paris]"],
        [AT.replace(tzinfo=UTC)],
    ),
    "`date-time` without a zone": ({"type": "string"}, ["2024-02-29T01:02:03.004"], [AT]),
    "`object`": ({"type": "object"}, [{"x": 1}], [{"x": 1}]),
    "`array`": ({"type": "array"}, [[1, 2], []], [[1, 2], []]),
    "`oneOf`, `anyOf` of several types": (
        {"oneOf": [{"type": "integer"}, {"type": "object"}]},
        [5, {"x": 1}],
        ["5", '{"x":1}'],
    ),
}


def json_schema() -> Iterator[Source]:
    for name, (type_, given, values) in JSON_SCHEMA.items():
        schema = {"type": "object", "properties": {"c": type_}}
        for value in given:
            jsonschema.validate({"c": value}, schema)
        records = [json.dumps({"c": value}).encode() for value in given]
        own, spelling = json.dumps(schema), Spelling.of("several_types")
        inferred = infer_json(records, spelling).columns[0].type
        both = (None, inferred) if name.startswith("`oneOf`") else (inferred, None)
        yield Source("json_schema", name, own, records, values, *both)


SOURCES = [*avro(), *protobuf(), *json_schema()]


_OF_JSON = frozenset({"epoch_days", "base64_decimals", "text_numbers", "whole_numbers"})


def spellings(source: Source) -> list[str]:
    """The spellings that may change what a format's values are."""
    if source.format == "json_schema":
        return [word for word in SPELLINGS if word not in ("epoch_millis", "replaced_bytes")]
    if source.format == "avro":
        return [
            word for word in SPELLINGS if word not in {*_OF_JSON, "epoch_millis", "replaced_bytes"}
        ]
    return ["epoch_seconds", "json_text"]


@functools.cache
def decoded(source: Source, type_: Type, spelling: str) -> pa.Array | None:
    """What a column has, if it accepts all of the records: together, and each alone."""
    setting = Setting("value", schema=_compiled(source), options={"spellings": spelling})
    fields = format_of(source.format, setting).fields
    assert fields is not None
    decoder = fields((Field("c", type_),))
    many = [*source.records, None] * (BATCH // (len(source.records) + 1) + 1)
    (array,), bad = decoder.decode(many)
    for place, record in enumerate(source.records):
        (alone,), why = decoder.decode([record])
        assert (0 in why) == (place in bad), (source, type_)
        assert alone[0] == array[place] or alone[0].as_py() != alone[0].as_py()
    misses = isinstance(type_, types.Row) and any(
        isinstance(value, dict) and row is not None and all(v is None for v in row.values())
        for value, row in zip(source.values, array.to_pylist(), strict=False)
    )
    return None if bad or misses else array


BATCH = 128
"""From this many records on, a batch with bad ones may still take the fast path, in halves."""


@functools.cache
def _compiled(source: Source) -> str | None:
    """The schema, if the format has one beside its records; of Protobuf as a descriptor."""
    if source.format == "json_schema":
        return None
    if source.format == "avro":
        return source.schema
    file = protobuf_schema.compiled(Schema("PROTOBUF", source.schema))
    return base64.b64encode(file.serialized_pb).decode()  # which needs no compiler


def stored(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """The arrays, read from a Parquet file, as tiering writes it."""
    stream = io.BytesIO()
    names = [str(place) for place in range(len(arrays))]
    pq.write_table(pa.table(list(arrays), names), stream)
    return [column.combine_chunks() for column in pq.read_table(stream).columns]


def means(value: Any, found: Any, type_: Type, spelling: str) -> bool:
    """Whether what is in a column is the value, in a column of that type."""
    match value, type_:
        case {"@type": name, "I": content}, (types.JSON | types.VARCHAR):
            return bool(json.loads(found) == {"@type": f"x/{name}", **content})
        case _, types.JSON:
            content = json.loads(found)
            if isinstance(value, str) and not isinstance(content, str):
                return bool(content == json.loads(value))
            text = content if isinstance(content, str) else found
            return found == parsed(found) and means(value, text, types.VARCHAR, "json_text")
        case _, types.VARCHAR if spelling == "json_text" and found in ("{}", "5", "x"):
            return True  # a message without fields, or a union's value without its row
        case decimal.Decimal(), types.VARBINARY:
            number = int.from_bytes(found, "big", signed=True)
            return bool(decimal.Decimal(number).scaleb(-2) == value)
        case bytes(), Decimal():
            return bool(found.scaleb(6) == int.from_bytes(value, "big", signed=True))
        case int(), types.DOUBLE:
            return bool(found == float(value))
        case str(), types.Timestamp():
            return means(int(value), found, type_, spelling)
        case datetime.date(), types.Timestamp() if not isinstance(value, datetime.datetime):
            return bool(found.replace(tzinfo=None) == datetime.datetime(*value.timetuple()[:3]))
        case ((dict() | list()), types.VARCHAR):
            return bool(json.loads(found) == value)
        case dict(), types.Map():
            return dict(found) == value
        case int(), types.Timestamp():
            unit = {"seconds": 1, "millis": 10**3, "micros": 10**6, "nanos": 10**9}
            rate = unit.get(spelling.removeprefix("epoch_"), 1000)
            micros = (found.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
            return bool(micros * rate == value * 10**6)
        case int(), types.DATE:
            return bool((found - EPOCH.date()).days == value)
        case str(), types.Row() if spelling == "several_types":
            return json.loads(value) in found.values()
        case bool(), types.Row():
            return value and set(found.values()) == {None}
        case bool(), _:
            return found is value if type_ == types.BOOLEAN else found == str(value).lower()
        case ((int() | float()), types.REAL):
            return bool(np.float32(found) == np.float32(value))
        case ((int() | float() | decimal.Decimal()), types.VARCHAR):
            return decimal.Decimal(found) == decimal.Decimal(str(value))
        case float(), Decimal():
            return bool(found == decimal.Decimal(str(value)))
        case datetime.datetime(), _ if isinstance(found, str):
            at = datetime.datetime.fromisoformat(found.partition("[")[0])
            return at.tzinfo == value.tzinfo and at == value if "Z" in found else bool(at == value)
        case ((datetime.datetime() | datetime.date() | datetime.time()), _) if isinstance(
            found, int | float | decimal.Decimal
        ):
            return True  # the plain number, as the logical type has it
        case datetime.datetime(), types.Timestamp():
            return bool(found.replace(tzinfo=None) == value.replace(tzinfo=None))
        case ((datetime.date() | datetime.time()), types.VARCHAR):
            return type(value).fromisoformat(found) == value
        case uuid.UUID(), _:
            return str(value) == (found.decode() if isinstance(found, bytes) else found)
        case bytes(), types.VARCHAR:
            return found in (value.decode("latin-1"), base64.b64encode(value).decode())
        case str(), types.VARBINARY:
            return bool(found == value.encode())
        case str(), _ if type_ not in (types.VARCHAR, types.VARBINARY):
            return str(found) == value or found in (0, 1, 7, {"long": 5}, {"string": "x"})
    return bool(found == value)


@pytest.mark.prove
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.format} {s.name}")
def test_what_a_column_accepts_is_what_was_written(source: Source) -> None:
    every = (*TYPES, types.JSON, source.inferred, source.spelt)
    accepted = [type_ for type_ in every if type_ is not None]
    cases = list(itertools.product(accepted, ("", *spellings(source))))
    arrays = {case: decoded(source, *case) for case in cases}
    full = {case: array for case, array in arrays.items() if array is not None}
    assert {(types.JSON, spelling) for spelling in ("", *spellings(source))} <= full.keys()
    for ((type_, spelling), array), read in zip(
        full.items(), stored(list(full.values())), strict=True
    ):
        assert read.cast(to_arrow(type_)).equals(array)
        for value, found in zip(source.values, array.to_pylist(), strict=False):
            assert means(value, found, type_, spelling), (
                source.name,
                type_,
                spelling,
                value,
                found,
            )


# --- The tables ----------------------------------------------------------------------------------

_TITLES = {"avro": "Avro", "protobuf": "Protobuf", "json_schema": "JSON, JSON Schema"}
_BEGIN, _END = "## Types\n", "## Names\n"


def _names(found: Sequence[Type]) -> str:
    texts = dict.fromkeys(
        "decimal" if isinstance(type_, Decimal) else str(type_).replace("(6)", "")
        for type_ in found
    )
    return ", ".join(f"`{text}`" for text in texts)


def _row(source: Source) -> str:
    others = [t for t in (*TYPES, source.spelt) if t is not None and t != source.inferred]
    plain = [type_ for type_ in others if decoded(source, type_, "") is not None]
    spelt = {
        spelling: [t for t in others if t not in plain and decoded(source, t, spelling) is not None]
        for spelling in spellings(source)
        if not spelling.startswith("epoch_")
    }
    further = "; ".join(f"{_names(t)} with `{name}`" for name, t in spelt.items() if t)
    inferred = "" if source.inferred is None else _names([source.inferred])
    return f"| {source.name} | {inferred} | {_names(plain)} | {further} |"


def _tables() -> Iterator[str]:
    yield (
        "Which columns hold all values of a type, as far as their own range and digits go. Other "
        "columns hold some of them or none; the others are bad records. `row(x …)` stands for rows "
        "with the same fields, `array` and `map` for those of fitting items. Whole numbers are "
        "timestamps in milliseconds, or in the unit of a [spelling](#formats). A column of type "
        "[json](#json-values) holds all values of all types."
    )
    for format_, title in _TITLES.items():
        yield f"\n| {title} | inferred | also held by | with a spelling |\n|---|---|---|---|"
        yield from (_row(source) for source in SOURCES if source.format == format_)


@pytest.mark.prove
def test_the_tables_are_what_the_decoders_do(rewrite: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    printed = "\n".join(_tables())
    if rewrite:
        after = rest[rest.index(_END) :] if rest else text[text.index(_END) :]
        before = before if rest else text[: text.index(_END)]
        PAGE.write_text(f"{before}{_BEGIN}\n{printed}\n\n{after}", encoding="utf-8")
    else:
        assert f"{_BEGIN}\n{printed}\n\n{_END}" in text, "run this test with --rewrite"
