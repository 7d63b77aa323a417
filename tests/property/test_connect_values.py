"""What Kafka Connect and Debezium write is read as what was meant, in JSON and in Avro alike.

Method: random rows of every logical type are written as Connect's JSON converter writes them, with
their schema beside them and without, and in Avro as its converter does, where names of Connect's
stand instead of logical types. Each must be read as the row it was, as a row and as a key, among
records of other schemas and broken ones. Whatever Debezium writes in place of a value that it
has not been sent is found, in a column of any type.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.envelopes import ENVELOPES
from seamline.connectors.kafka.formats.schemas import NoRegistry
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import BAD_RECORD, SeamlineError
from seamline.gateway import names
from seamline.gateway.commands import inferring, tables
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns, types
from seamline.sql.types import VARCHAR, Field, Row, to_arrow

EPOCH = datetime.datetime(1970, 1, 1)
MICRO = datetime.timedelta(microseconds=1)
CONNECT, DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium"


class Kind(NamedTuple):
    """A type of values.

    Attributes:
        column: The type of their column.
        values: Some of them.
        written: What Connect writes of one; bytes are Base64 in JSON.
        connect: Their schema in Connect.
        avro: The same in Avro.
    """

    column: str
    values: st.SearchStrategy[Any]
    written: Callable[[Any], Any]
    connect: dict[str, Any]
    avro: dict[str, Any]


def named(kind: str, name: str, avro: str, **said: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A primitive with a name of Connect's, in both schemas."""
    parameters = {"parameters": {k: str(v) for k, v in said.items()}} if said else {}
    logical = {"logicalType": "decimal", "precision": 38, **said} if said else {}
    return {"type": kind, "name": name, **parameters}, {
        "type": avro,
        "connect.name": name,
        **logical,
    }


def micros(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // MICRO


def unscaled(number: decimal.Decimal) -> bytes:
    whole = int(number.scaleb(-int(number.as_tuple().exponent)))
    return whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)


def with_scale(number: decimal.Decimal) -> dict[str, Any]:
    return {"scale": -int(number.as_tuple().exponent), "value": unscaled(number)}


DATES = st.dates()
MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)) | st.integers(
    -(10**9), 10**9
).map(lambda n: EPOCH + n * MICRO)
WHOLE = MOMENTS.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000))
PRICES = st.decimals(-(10**9), 10**9, places=2, allow_nan=False)
VARIABLE = st.decimals(-(10**6), 10**6, places=1) | st.decimals(-(10**6), 10**6, places=4)
BYTES = {"type": "bytes"}
KINDS = {
    "days": Kind(
        "date",
        DATES,
        lambda day: (day - EPOCH.date()).days,
        *named("int32", f"{DEBEZIUM}.time.Date", "int"),
    ),
    "connect_days": Kind(
        "date",
        DATES,
        lambda day: (day - EPOCH.date()).days,
        *named("int32", f"{CONNECT}.Date", "int"),
    ),
    "millis": Kind(
        "timestamp(6)",
        WHOLE,
        lambda at: micros(at) // 1000,
        *named("int64", f"{DEBEZIUM}.time.Timestamp", "long"),
    ),
    "connect_millis": Kind(
        "timestamp(6)",
        WHOLE,
        lambda at: micros(at) // 1000,
        *named("int64", f"{CONNECT}.Timestamp", "long"),
    ),
    "micros": Kind(
        "timestamp(6)",
        MOMENTS,
        micros,
        *named("int64", f"{DEBEZIUM}.time.MicroTimestamp", "long"),
    ),
    "nanos": Kind(
        "timestamp(6)",
        MOMENTS,
        lambda at: micros(at) * 1000,
        *named("int64", f"{DEBEZIUM}.time.NanoTimestamp", "long"),
    ),
    "decimal": Kind(
        "decimal(12, 2)",
        PRICES,
        unscaled,
        *named("bytes", f"{CONNECT}.Decimal", "bytes", scale=2),
    ),
    "variable": Kind(
        "decimal(12, 4)",
        VARIABLE,
        with_scale,
        {
            "type": "struct",
            "name": f"{DEBEZIUM}.data.VariableScaleDecimal",
            "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
        },
        {
            "type": "record",
            "name": f"{DEBEZIUM}.data.VariableScaleDecimal",
            "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
        },
    ),
    "iso_date": Kind(
        "date",
        DATES,
        lambda day: f"{day.isoformat()}Z",
        *named("string", f"{DEBEZIUM}.time.IsoDate", "string"),
    ),
    "iso_timestamp": Kind(
        "timestamp(6)",
        MOMENTS,
        lambda at: f"{at.isoformat()}Z",
        *named("string", f"{DEBEZIUM}.time.IsoTimestamp", "string"),
    ),
    "zoned": Kind(
        "timestamp(6) with time zone",
        MOMENTS.map(lambda at: at.replace(tzinfo=datetime.UTC)),
        lambda at: at.isoformat().replace("+00:00", "Z"),
        *named("string", f"{DEBEZIUM}.time.ZonedTimestamp", "string"),
    ),
    "uuid": Kind(
        "uuid", st.uuids().map(str), str, *named("string", f"{DEBEZIUM}.data.Uuid", "string")
    ),
    "json": Kind(
        "json",
        st.sampled_from(["null", '{"a":[1.50,null],"b":"x"}', '"x"', "17"]),
        lambda text: f" {text} ",
        *named("string", f"{DEBEZIUM}.data.Json", "string"),
    ),
    "number as json": Kind(
        "json", st.integers(0, 9).map(str), int, {"type": "int64"}, {"type": "long"}
    ),
    "text": Kind("varchar", st.text("ä1\"'"), str, {"type": "string"}, {"type": "string"}),
    "bytes": Kind("varbinary", st.binary(max_size=3), bytes, BYTES, BYTES),
    "number": Kind(
        "bigint", st.integers(-(2**63), 2**63 - 1), int, {"type": "int64"}, {"type": "long"}
    ),
}


def inside(kind: Kind, how: str) -> Kind:
    """Values of a kind in a list, in a map, or in a row."""
    column, values, written, connect, avro = kind
    match how:
        case "array":
            return Kind(
                f"array({column})",
                st.lists(values, max_size=2),
                lambda found: [written(value) for value in found],
                {"type": "array", "items": connect},
                {"type": "array", "items": avro},
            )
        case "map":
            return Kind(
                f"map(varchar, {column})",
                st.dictionaries(st.sampled_from("ab"), values, max_size=2),
                lambda found: {key: written(value) for key, value in found.items()},
                {"type": "map", "keys": {"type": "string"}, "values": connect},
                {"type": "map", "values": avro},
            )
    return Kind(
        f"row(x {column}, y varchar)",
        values.map(lambda value: {"x": value, "y": "y"}),
        lambda found: {"x": written(found["x"]), "y": "y"},
        {"type": "struct", "fields": [{**connect, "field": "x"}, {"type": "string", "field": "y"}]},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "x", "type": avro}, {"name": "y", "type": "string"}],
        },
    )


ALL = {
    **KINDS,
    **{
        f"{how} of {n}": inside(k, how) for n, k in KINDS.items() for how in ("array", "map", "row")
    },
}


def in_json(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [in_json(item) for item in value]
        case dict():
            return {key: in_json(item) for key, item in value.items()}
    return value


def decoded(
    column: str, values: list[bytes | None], keys: list[bytes] | None = None, **said: Any
) -> list[dict[str, Any]]:
    """The rows of changes of a table of an id and one more column, or of that alone as its key."""
    said = {"mode": "changelog", "envelope": "debezium", "primary_key": ("id",), **said}
    if said.get("format", "json") == "json":
        said["key_format"] = "json"
    text = f"id bigint, c {column}" if said["primary_key"] == ("id",) else f"c {column}"
    binding = TopicBinding("c", "t", **said)
    spec = DecoderSpec.of(binding, (*tables.parse_fields(text), *columns.METADATA_FIELDS))
    count = len(values)
    partitions, offsets = [0] * count, list(range(count))
    batch = RawBatch(
        partitions, offsets, [0] * count, keys or [b"{}"] * count, values, [None] * count
    )
    rows: list[dict[str, Any]] = Decoder(spec).decode(batch).rows.to_pylist()
    return rows


def change(row: dict[str, Any], operation: str = "c") -> dict[str, Any]:
    """What Debezium says of a row."""
    before, after = (row, None) if operation == "d" else (None, row)
    return {"before": before, "after": after, "op": operation}


def wrapped(body: Any, connect: dict[str, Any], *, is_key: bool = False) -> bytes:
    """As Connect's converter writes it with its schema."""
    row = {
        "type": "struct",
        "fields": [
            *([] if is_key else [{"field": "id", "type": "int64"}]),
            {**connect, "field": "c", "optional": True},
        ],
    }
    envelope = {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"field": "op", "type": "string"},
        ],
    }
    return json.dumps({"schema": row if is_key else envelope, "payload": in_json(body)}).encode()


def avro_schema(avro: dict[str, Any]) -> dict[str, Any]:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "long"}, {"name": "c", "type": ["null", avro]}],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Row"]},
            {"name": "op", "type": "string"},
        ],
    }


def without_logical(schema: Any) -> Any:
    """The same for a writer that is given what is written."""
    if isinstance(schema, list):
        return [without_logical(branch) for branch in schema]
    if isinstance(schema, dict):
        return {k: without_logical(v) for k, v in schema.items() if k != "logicalType"}
    return schema


def of(column: str, values: list[Any]) -> list[Any]:
    """Values as a column of that type has them."""
    (field,) = tables.parse_fields(f"c {column}")
    plain = [list(v.items()) if isinstance(v, dict) and "map" in column else v for v in values]
    return list(pa.array(plain, to_arrow(field.type)).to_pylist())


@pytest.mark.prove
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_values_are_what_was_meant(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ALL)))
    kind = ALL[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=4))
    rows = [{"id": n, "c": None if v is None else kind.written(v)} for n, v in enumerate(values)]
    wanted = of(kind.column, values)
    other = wrapped(change({"id": 100, "c": None}), {"type": "string"})
    plain = json.dumps(change({"id": 101, "c": None})).encode()
    among = [other, *(wrapped(change(row), kind.connect) for row in rows), plain]
    found = decoded(kind.column, list(among))
    assert [row["c"] for row in found] == [None, *wanted, None], name
    schema = avro_schema(kind.avro)
    parsed = fastavro.parse_schema(without_logical(schema))
    written: list[bytes | None] = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, change(row))
        written.append(stream.getvalue())
    said: dict[str, Any] = {"format": "avro", "value_schema": json.dumps(schema)}
    said["key_format"] = "json"
    assert [row["c"] for row in decoded(kind.column, written, **said)] == wanted, name


@pytest.mark.parametrize("name", sorted(ALL))
def test_records_with_and_without_schemas_are_of_one_batch(name: str) -> None:
    kind = ALL[name]
    row = {"id": 1, "c": None}
    records = [wrapped(change(row), kind.connect), json.dumps(change(row)).encode()]
    assert [found["c"] for found in decoded(kind.column, [*records])] == [None, None]


@pytest.mark.prove
@given(st.data())
@settings(max_examples=50, deadline=None)
def test_values_without_their_schema_are_spelt(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([n for n in sorted(ALL) if "iso" not in n]))
    kind = ALL[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=4))
    spellings: tuple[str, ...] = ("epoch_days", "base64_decimals")
    if "micros" in name or "nanos" in name:
        spellings = (*spellings, "epoch_micros" if "micros" in name else "epoch_nanos")
    rows = [{"id": n, "c": None if v is None else kind.written(v)} for n, v in enumerate(values)]
    bodies: list[bytes | None] = [json.dumps(in_json(change(row))).encode() for row in rows]
    found = decoded(kind.column, bodies, spellings=spellings)
    assert [row["c"] for row in found] == of(kind.column, values), name


@pytest.mark.parametrize("name", ["days", "connect_days", "text", "bytes", "number"])
def test_keys_have_schemas_too(name: str) -> None:
    kind = KINDS[name]
    value = {"text": "schema", "bytes": b"\x00", "number": 7}.get(name, datetime.date(2024, 2, 29))
    body = {"c": kind.written(value)}
    gone = wrapped({"before": None, "after": None, "op": "d"}, kind.connect)
    key = wrapped(body, kind.connect, is_key=True)
    rows = decoded(kind.column, [gone, None], [key, key], primary_key=("c",))
    assert [row["c"] for row in rows] == [value, value]


def test_keys_that_only_look_wrapped_are_plain() -> None:
    key = json.dumps({"schema": "public", "payload": "p"}).encode()
    binding = TopicBinding(
        *("c", "t"), mode="upsert", primary_key=("schema", "payload"), key_format="json"
    )
    fields = tables.parse_fields("schema varchar, payload varchar")
    spec = DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS))
    rows = Decoder(spec).decode(RawBatch([0], [0], [0], [key], [None], [None])).rows.to_pylist()
    assert [(row["schema"], row["payload"]) for row in rows] == [("public", "p")]


@pytest.mark.parametrize(
    ("column", "value", "connect"),
    [
        ("date", 2**31 - 1, KINDS["days"].connect),
        ("timestamp(6)", 2**62, KINDS["millis"].connect),
        ("decimal(12, 2)", base64.b64encode(b"\x7f" * 12).decode(), KINDS["decimal"].connect),
        ("decimal(12, 2)", "!", KINDS["decimal"].connect),
        ("decimal(12, 4)", {"scale": 5, "value": "AQ=="}, KINDS["variable"].connect),
        ("decimal(12, 4)", {"scale": None, "value": "AQ=="}, KINDS["variable"].connect),
        ("decimal(12, 4)", {"scale": 2**31 - 1, "value": "AQ=="}, KINDS["variable"].connect),
        ("decimal(12, 4)", {"scale": -(2**31), "value": "AQ=="}, KINDS["variable"].connect),
        ("decimal(12, 2)", 12.345, KINDS["decimal"].connect),
        ("decimal(12, 2)", 12345678901.5, KINDS["decimal"].connect),
        ("decimal(12, 2)", 1e300, KINDS["decimal"].connect),
        ("decimal(12, 2)", True, KINDS["decimal"].connect),
        ("array(date)", [2**31 - 1], ALL["array of days"].connect),
    ],
)
def test_what_its_column_does_not_hold_is_bad(
    column: str, value: Any, connect: dict[str, Any]
) -> None:
    body = {"schema": json.loads(wrapped({}, connect))["schema"]}
    body["payload"] = change({"id": 1, "c": value})
    with pytest.raises(SeamlineError) as caught:
        decoded(column, [json.dumps(body).encode()])
    assert caught.value.code is BAD_RECORD
    assert "c: " in caught.value.message or "c[]: " in caught.value.message


@pytest.mark.parametrize("inside_", ["", "array", "map", "row"])
def test_a_decimal_may_be_a_number(inside_: str) -> None:
    kind = ALL[f"{inside_} of decimal"] if inside_ else KINDS["decimal"]
    wraps: dict[str, Callable[[Any], Any]] = {
        "": lambda v: v,
        "array": lambda v: [v],
        "map": lambda v: {"a": v},
        "row": lambda v: {"x": v, "y": "y"},
    }
    wrap = wraps[inside_]
    numbers = ["12.34", "-0.5", "0", "100", "1e2", "-9999999999.99", "1.50"]
    schema = json.loads(wrapped({}, kind.connect))["schema"]
    values: list[bytes | None] = []
    for number in (*numbers, None):
        found = wrap("AQ==" if number is None else 0.125)
        body = {"schema": schema, "payload": change({"id": 1, "c": found})}
        values.append(json.dumps(body).replace("0.125", str(number)).encode())
    expected = [decimal.Decimal(number) for number in (*numbers, "0.01")]
    for batch in (values, values[:-1], values[:1]):
        rows = [row["c"] for row in decoded(kind.column, batch)]
        assert rows == of(kind.column, [wrap(number) for number in expected[: len(batch)]])


def test_a_number_of_many_digits_hides_no_schema() -> None:
    body = json.loads(wrapped(change({"id": 1, "c": 5}), {"type": "int64"}))
    text = json.dumps(body).replace('"op": "c"', f'"op": "c", "z": {"1" * 5000}').encode()
    assert b"1111" in text
    assert [row["c"] for row in decoded("bigint", [text])] == [5]


# --- What was not sent ---------------------------------------------------------------------------

WORD = "__debezium_unavailable_value"
RAW = WORD.encode()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("varchar", WORD),
        ("varchar", base64.b64encode(RAW).decode()),
        ("varbinary", base64.b64encode(RAW).decode()),
        ("array(varchar)", [WORD]),
        ("array(varbinary)", [base64.b64encode(RAW).decode()]),
        ("array(integer)", list(RAW)),
        ("array(bigint)", list(RAW)),
        ("array(double)", [float(byte) for byte in RAW]),
        ("array(real)", list(RAW)),
        ("array(decimal(10, 2))", [byte / 100 for byte in RAW]),
        ("array(boolean)", [True] * len(RAW)),
        ("array(uuid)", ["ae4bf7e4-2a8d-3c1a-a1b5-000000000000"]),
        ("map(varchar, varchar)", {WORD: WORD}),
        ("row(x varchar, y row(z varbinary))", {"y": {"z": base64.b64encode(RAW).decode()}}),
    ],
)
def test_a_value_that_was_not_sent_is_no_value(column: str, value: Any) -> None:
    if column == "array(uuid)":
        absent = ENVELOPES["debezium"].absent
        assert absent is not None
        value = [absent._texts[2].as_py()]
        assert uuid.UUID(value[0]).version == 3
    for operation in ("c", "u", "r"):
        body = json.dumps(change({"id": 1, "c": value}, operation)).encode()
        with pytest.raises(SeamlineError) as caught:
            decoded(column, [body])
        assert caught.value.code is BAD_RECORD
        assert "not sent" in caught.value.message
    beside = json.dumps(change({"id": 1, "c": None})).encode()
    assert [row["c"] for row in decoded(column, [beside])] == [None]


@pytest.mark.parametrize("column", ["array(integer)", "array(varchar)", "map(varchar, varchar)"])
def test_other_values_of_its_kind_are(column: str) -> None:
    sent: Any = {"array(integer)": [*RAW[:-1], 0], "array(varchar)": [WORD[:-1], ""]}
    value = sent.get(column, {"a": WORD[1:]})
    bodies: list[bytes | None] = [
        json.dumps(change({"id": n, "c": v})).encode() for n, v in enumerate([None, value, None])
    ]
    assert [row["c"] for row in decoded(column, bodies)] == of(column, [None, value, None])


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_schema_beside_values_says_which_columns_there_are(name: str) -> None:
    kind = KINDS[name]
    value = wrapped(change({"id": 1, "c": None}), kind.connect)
    batch = RawBatch([0], [0], [0], [None], [value], [None])
    definition = tables.TableDefinition(
        name=names.TableName("lake", "", ("default", "t"), "", False),
        topic="t",
        cluster="c",
        mode="changelog",
        envelope="debezium",
        primary_key=("id",),
    )
    binding = TopicBinding("c", "t", mode="changelog", envelope="debezium", primary_key=("id",))
    found = inferring.inferred(
        definition, binding.encoding, inferring.Sample((batch,)), NoRegistry()
    )
    assert len(found.notes) == (name == "variable"), found.notes
    others = {"variable": "row(scale integer, value varbinary)", "decimal": "decimal(38,2)"}
    others |= {"connect_millis": "timestamp(6) with time zone"}
    others |= {"json": "varchar", "number as json": "bigint"}
    assert [str(column.type) for column in found.columns] == [
        "bigint",
        others.get(name, kind.column),
    ]


def test_rows_that_are_no_changes_may_be_wrapped_too() -> None:
    """Connect's converter wraps whatever there is, unless it is told not to."""
    kind = KINDS["days"]
    body = wrapped({"c": 19782}, kind.connect, is_key=True)
    columns_ = (Field("c", types.DATE), *columns.METADATA_FIELDS)
    for said in ({}, {"mode": "upsert", "primary_key": ("c",), "columns_from": ("c = key.c",)}):
        binding = TopicBinding("c", "t", key_format="json", **said)  # type: ignore[arg-type]
        batch = RawBatch([0, 0], [0, 1], [0, 0], [body, body], [body, None], [None, None])
        rows = Decoder(DecoderSpec.of(binding, columns_)).decode(batch).rows
        assert rows.column("c")[0].as_py() == datetime.date(2024, 2, 29)
    declared = (Field("schema", VARCHAR), Field("payload", Row((Field("c", types.DATE),))))
    plain = b'{"schema": "a", "payload": {"c": "2024-02-29"}}'
    spec = DecoderSpec.of(TopicBinding("c", "t"), (*declared, *columns.METADATA_FIELDS))
    (row,) = Decoder(spec).decode(RawBatch([0], [0], [0], [None], [plain], [None])).rows.to_pylist()
    assert (row["schema"], row["payload"]) == ("a", {"c": datetime.date(2024, 2, 29)})


def test_columns_are_those_of_the_schema_beside_values_and_keys() -> None:
    kind = KINDS["days"]
    body = wrapped({"c": 1}, kind.connect, is_key=True)
    definition = tables.TableDefinition(
        name=names.TableName("lake", "", ("default", "t"), "", False),
        topic="t",
        cluster="c",
        key_format="json",
    )
    encoding = TopicBinding("c", "t", key_format="json", columns_from=("k = key.c",)).encoding
    sample = inferring.Sample((RawBatch([0], [0], [0], [body], [body], [None]),))
    found = inferring.inferred(definition, encoding, sample, NoRegistry())
    assert found.columns == (Field("k", types.DATE), Field("c", types.DATE))
