"""Goal: a condition on the records' types reads no others, and changes no answer.

Method: records of several Avro and Protobuf types, some damaged, some of schemas that nobody knows,
are decoded under random conditions; DuckDB says which rows meet a condition and which types may.
The rows must be those of all records; a bad record counts unless its type is known and ruled out,
whether it is read from the log or cached.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import duckdb
import fastavro
import pyarrow as pa
import pytest
from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import BAD_RECORD, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.gateway.tail.assembly import first_bad, skipped_records
from seamline.gateway.tail.segments import Slice, build
from seamline.gateway.tail.source import RowSource
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql import columns, predicates
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith


def record(name: str, type_: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "id", "type": type_}]}


ORDER, PAYMENT = record("shop.Order", "long"), record("shop.Payment", "int")
BEAT = record("Heartbeat", "string")  # the column `id` cannot hold it
AVRO: list[Any] = [ORDER, ["null", ORDER, PAYMENT, BEAT], PAYMENT, BEAT, ["null", ORDER]]
PROTOBUF = (
    'syntax = "proto3"; package shop; message Order { int64 id = 1; message Line { int32 id = 1; } '
    "} message Payment { int64 id = 1; } message Beat { repeated string id = 1; }"
)
PATHS = {(0,): "Order", (0, 0): "Order.Line", (1,): "Payment", (2,): "Beat"}
FILE = protobuf_schema.compiled(Schema("PROTOBUF", PROTOBUF))
TYPES = ("shop.Order", "shop.Payment", "Heartbeat", "shop.Order.Line", "shop.Beat", "shop", "")


class Registry(NoRegistry):
    """Knows the schemas above; other ids are unknown, and 50 is of another kind."""

    def by_id(self, schema_id: SchemaId) -> Schema:
        if schema_id == 50:
            return Schema("JSON", "{}")
        if schema_id == 51:
            return Schema("AVRO", "no schema")
        if schema_id == 40:
            return Schema("PROTOBUF", PROTOBUF)
        if isinstance(schema_id, int) and schema_id < len(AVRO):
            return Schema("AVRO", json.dumps(AVRO[schema_id]))
        raise ValueError(f"schema id {schema_id} is not registered")


class Written(NamedTuple):
    """A value, and the name of its type, as far as what precedes its contents says it."""

    value: bytes | None
    type: str | None


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def zigzag(number: int) -> bytes:
    return bytes([number << 1])


def avro(schema_id: int, name: str, id_: int, damage: bytes | None) -> Written:
    schema, prefix = AVRO[schema_id], b""
    if isinstance(schema, list):
        names = [None if branch == "null" else branch["name"] for branch in schema]
        if name not in names:
            return Written(framed(schema_id, zigzag(0)), None)  # it is null
        branch = names.index(name)
        schema, prefix = schema[branch], zigzag(branch)
    stream = io.BytesIO()
    content = str(id_) if schema is BEAT else id_
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"id": content})
    payload = stream.getvalue() if damage is None else damage
    return Written(framed(schema_id, prefix + payload), schema["name"])


def protobuf(path: tuple[int, ...], id_: int, damage: bytes | None) -> Written:
    message = message_factory.GetMessageClass(protobuf_schema.message_at(FILE, path))()
    if path == (2,):
        message.id.append(str(id_))
    else:
        message.id = id_
    payload = message.SerializeToString() if damage is None else damage
    indexes = b"\0" if path == (0,) else b"".join(map(zigzag, (len(path), *path)))
    return Written(framed(40, indexes + payload), f"shop.{PATHS[path]}")


IDS = st.integers(0, 3)
DAMAGE = st.sampled_from([None, None, None, b"", b"\xff", b"\x0a\xff\xff"])
UNKNOWN = st.sampled_from(
    [None, b"", b"{}", b"\0\0\0", framed(99, b"\2"), framed(50, b"\2"), framed(51, b"\2")]
).map(lambda value: Written(value, None))
NO_BRANCH = st.sampled_from([b"", b"\x7f", b"\1", b"\xff" * 9]).map(
    lambda payload: Written(framed(1, payload), None)
)
NO_MESSAGE = st.sampled_from([b"", b"\x02", b"\x02\x12", b"\x01", b"\xff"]).map(
    lambda payload: Written(framed(40, payload), None)
)
NAMES = st.sampled_from(["shop.Order", "shop.Payment", "Heartbeat"])
RECORDS = {
    "avro": st.builds(avro, st.integers(0, len(AVRO) - 1), NAMES, IDS, DAMAGE)
    | UNKNOWN
    | NO_BRANCH,
    "protobuf": st.builds(protobuf, st.sampled_from(list(PATHS)), IDS, DAMAGE)
    | UNKNOWN
    | NO_MESSAGE,
}
OPERATORS = st.sampled_from(["=", "=", "<>", "<", "<=", ">", ">="])
ABOUT_TYPES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Comparison, st.just("kind"), OPERATORS, st.sampled_from(TYPES)),
    st.builds(In, st.just("kind"), st.lists(st.sampled_from(TYPES), min_size=1).map(tuple)),
    st.builds(IsNull, st.just("kind"), st.booleans()),
    st.builds(StartsWith, st.just("kind"), st.sampled_from(["shop.", "H", "shop.Order"])),
)
LEAVES = ABOUT_TYPES | st.builds(Comparison, st.just("id"), OPERATORS, IDS)


def combined(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda make, parts: make(tuple(parts)),
            st.sampled_from([And, Or]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=4,
    )


def spec_of(format_: str, on_error: str, **options: Any) -> DecoderSpec:
    options.setdefault("columns_from", ('kind = value."@type"',))
    binding = TopicBinding("c", "t", format_, on_error=on_error, **options)
    return DecoderSpec.of(
        binding, parse_fields("id bigint, kind varchar") + columns.METADATA_FIELDS
    )


def batch_of(records: list[Written]) -> RawBatch:
    count = len(records)
    values = [written.value for written in records]
    return RawBatch(
        [0] * count, list(range(count)), [0] * count, [None] * count, values, [None] * count
    )


def selected(rows: pa.RecordBatch, predicate: Predicate) -> list[Any]:
    """The rows that meet a condition, as DuckDB says."""
    table = pa.Table.from_batches([rows.select(["id", "kind", columns.OFFSET])])
    with duckdb.connect() as connection:
        connection.register("rows", table)
        sql = f'SELECT * FROM "rows" WHERE {predicates.describe(predicate)} ORDER BY ALL'
        rows_: list[Any] = connection.execute(sql).fetchall()
        return rows_


def meeting(names: set[str], predicate: Predicate) -> set[str]:
    """The types whose names meet a condition on the type, as DuckDB says."""
    kinds = pa.record_batch(
        {
            "id": pa.nulls(len(names)),
            "kind": pa.array(names, pa.string()),
            columns.OFFSET: pa.nulls(len(names)),
        }
    )
    return {kind for _, kind, _ in selected(kinds, predicate)}


@pytest.mark.parametrize("on_error", ["null", "skip"])
@pytest.mark.parametrize("format_", RECORDS)
@given(st.data())
@examples(80)
def test_the_rows_are_those_of_all_records(
    format_: str, on_error: str, data: st.DataObject
) -> None:
    records = data.draw(st.lists(RECORDS[format_], max_size=12))
    predicate = data.draw(combined(LEAVES))
    spec = spec_of(format_, on_error)
    whole = Decoder(spec, Registry()).decode(batch_of(records))
    narrowed, batch = spec.narrowed(predicate), batch_of(records)
    part = Decoder(narrowed, Registry()).decode(batch)
    assert selected(part.rows, predicate) == selected(whole.rows, predicate)
    assert len(part.rows) + part.skipped + part.of_other_types == len(records)
    assert whole.of_other_types == 0
    cached = build(
        RowSource("id", "read_committed", spec, 0),
        Decoder(spec, Registry()),
        batch,
        OffsetRange(0, 0, len(records)),
    )
    assert skipped_records([Slice(cached, 0, len(records))], narrowed) == part.skipped


@pytest.mark.parametrize("format_", RECORDS)
@given(st.data())
@examples(80)
def test_a_bad_record_counts_unless_its_type_is_known_and_not_needed(
    format_: str, data: st.DataObject
) -> None:
    records = data.draw(st.lists(RECORDS[format_], min_size=1, max_size=8))
    predicate = data.draw(combined(ABOUT_TYPES))
    spec = spec_of(format_, "fail")
    narrowed = spec.narrowed(predicate)
    batch = batch_of(records)
    _, bad = Decoder(spec, Registry()).decode_all(batch)
    needed = meeting({written.type for written in records if written.type}, predicate)
    may_be_null = bool(
        selected(
            pa.record_batch({"id": [None], "kind": pa.nulls(1, pa.string()), columns.OFFSET: [0]}),
            predicate,
        )
    )
    counting = [
        index for index in sorted(bad) if may_be_null or records[index].type in {None, *needed}
    ]
    error = None
    try:
        decoded = Decoder(narrowed, Registry()).decode(batch)
    except SeamlineError as raised:
        error = raised
    if not counting:
        assert error is None
        others = [w for w in records if w.type is not None and w.type not in needed]
        assert decoded.of_other_types == (0 if may_be_null else len(others))
    else:
        assert error is not None
        assert error.code is BAD_RECORD
        assert error.details["offset"] == counting[0]
    covers = OffsetRange(0, 0, len(records))
    cached = build(
        RowSource("id", "read_committed", spec, 0), Decoder(spec, Registry()), batch, covers
    )
    again = first_bad([Slice(cached, 0, len(records))], narrowed)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("format_", "options", "is_narrowed"),
    [
        ("avro", {}, True),
        ("protobuf", {}, True),
        ("json", {}, False),  # `@type` may be a field there
        ("avro", {"columns_from": ("kind = value.kind",)}, False),
        ("avro", {"columns_from": ("kind = key",), "key_format": "string"}, False),
        ("avro", {"mode": "upsert", "primary_key": ("id",), "key_format": "int64"}, False),
    ],
)
def test_only_a_column_with_the_type_narrows(
    format_: str, options: dict[str, Any], is_narrowed: bool
) -> None:
    if "primary_key" in options:
        options["columns_from"] = ("id = key", 'kind = value."@type"')
    spec = spec_of(format_, "fail", **options)
    assert (spec.narrowed(Comparison("kind", "=", "shop.Order")) is not spec) == is_narrowed
    assert spec.narrowed(Comparison("id", "=", 1)) is spec
    assert spec.narrowed(None) is spec
