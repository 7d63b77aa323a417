"""Goal: no digit of a number or a time is dropped without a word, whatever it was written in.

Method: every type of numbers and times of JSON, Avro, Protobuf and Kafka Connect meets every type
of a column, with more and more digits. What was written is known exactly, as a decimal number or in
nanoseconds, and bytes are made by fastavro and Google's library. A record must either be that, to
the last digit, or be bad; where the column can hold it, it must not be bad. Only real and double
round: to the nearest. With `truncated_times`, a time is what was written, up to the microsecond.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import fractions
import io
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import numpy as np
import pytest
from google.protobuf import message_factory

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns, types
from seamline.sql.types import Decimal, Field, Type

TYPES: tuple[Type, ...] = (
    *(types.INTEGER, types.BIGINT, types.REAL, types.DOUBLE, types.VARCHAR, types.DATE),
    *(types.TIMESTAMP, types.TIMESTAMP_TZ, Decimal(9, 2), Decimal(38, 0), Decimal(38, 18)),
)
TIMESTAMPS = (types.TIMESTAMP, types.TIMESTAMP_TZ)
NUMBER, TIME, DAY = "number", "time", "day"
DAY_NANOS = 86_400 * 10**9
EPOCH = datetime.datetime(1970, 1, 1)


@dataclasses.dataclass(frozen=True)
class Written:
    """A value as some format has it.

    Attributes:
        kind: Whether it is a number, a time or a day.
        exact: The number; nanoseconds since 1970; or days.
        body: What is written.
        number: What a column of numbers may hold instead of a time.
    """

    kind: str
    exact: decimal.Decimal
    body: Any
    number: decimal.Decimal | None = None


decimal.getcontext().prec = 200


def numbers(dice: random.Random) -> Iterator[str]:
    """Numbers as JSON writes them, with few digits and with many."""
    for whole, scale in itertools.product((1, 7, 15, 16, 17, 19, 20, 38), (0, 1, 2, 3, 17, 19)):
        digits = "".join(dice.choice("123456789") for _ in range(whole + scale))
        sign = dice.choice(["", "-"])
        yield sign + digits[:whole] + (f".{digits[whole:]}" if scale else "")
        yield sign + digits[:whole] + (f".{digits[whole:]}000" if scale else "")
    yield from ("0", "-0", "2147483647", "2147483648", "9223372036854775807", "9007199254740993")
    yield from ("9223372036854775808", "1e3", "1.5e1", "125e-2", "1E-20", "0.1", "1.10", "3.4e38")


def moments(dice: random.Random) -> Iterator[tuple[datetime.datetime, str]]:
    """Seconds, and the digits of their fraction."""
    for year, count in itertools.product((1, 1969, 1970, 2024, 2262, 9999), range(13)):
        moment = datetime.datetime(year, dice.randint(2, 11), 3, 4, 5, dice.randint(0, 59))
        digits = "".join(dice.choice("123456789") for _ in range(count))
        yield moment, digits
        yield moment, digits[: min(count, 6)].ljust(count, "0")


def nanos(moment: datetime.datetime, digits: str) -> decimal.Decimal:
    seconds = (moment - EPOCH) // datetime.timedelta(seconds=1)
    return decimal.Decimal(seconds) * 10**9 + decimal.Decimal(f"0.{digits or 0}") * 10**9


# --- The judge -----------------------------------------------------------------------------------


def same(found: Any, written: Written, type_: Type, *, truncated: bool) -> bool:
    """Whether a value is what was written."""
    exact = written.exact
    if type_ in TIMESTAMPS:
        if written.kind == DAY:
            return False
        if written.kind == NUMBER:
            exact = exact * 10**6  # milliseconds
        kept = (found.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
        if truncated:
            return bool(kept == math.floor(exact / 1000))
        return bool(kept * 1000 == exact)
    if type_ == types.DATE:
        return written.kind == DAY and (found - EPOCH.date()).days == exact
    if written.number is not None:
        exact = written.number
    if type_ == types.VARCHAR:
        return bool(found == str(written.body))
    if type_ in (types.REAL, types.DOUBLE):
        return is_nearest(found, exact, type_)
    return bool(decimal.Decimal(found) == exact)


def is_nearest(found: float, exact: decimal.Decimal, type_: Type) -> bool:
    """Whether no other number of that type is nearer."""
    make = np.float32 if type_ == types.REAL else np.float64
    distance = abs(fractions.Fraction(found) - fractions.Fraction(exact))
    others = [float(np.nextafter(make(found), make(end))) for end in (-np.inf, np.inf)]
    return make(found) == found and all(
        math.isinf(other) or abs(fractions.Fraction(other) - fractions.Fraction(exact)) >= distance
        for other in others
    )


def fits(written: Written, type_: Type, *, truncated: bool) -> bool:
    """Whether a column can hold what was written, and formats agree on what it is."""
    exact = written.exact
    match written.kind, type_:
        case "time", types.TIMESTAMP | types.TIMESTAMP_TZ:
            return truncated or not exact % 1000
        case "day", types.DATE:
            return True
        case "number", types.REAL | types.DOUBLE:
            return abs(exact) < decimal.Decimal("1e38")
        case "number", Decimal(precision, scale):
            return exact == round(exact, scale) and abs(exact) < 10 ** (precision - scale)
        case "number", types.INTEGER | types.BIGINT:
            bits = 31 if type_ == types.INTEGER else 63
            return exact == int(exact) and -(2**bits) <= exact < 2**bits
    return False


def check(
    values: Sequence[Written],
    type_: Type,
    records: Sequence[bytes],
    column: str = "c",
    *,
    is_fitting: bool = True,
    **said: Any,
) -> None:
    """Decodes records, all at once and each alone, and judges each."""
    headers = said.pop("headers", [None] * len(records))
    binding = TopicBinding("c", "t", **{"on_error": "null", **said})
    spec = DecoderSpec.of(binding, (Field(column, type_), *columns.METADATA_FIELDS))
    count = len(records)
    batch = RawBatch([0] * count, list(range(count)), [0] * count, [None] * count, records, headers)
    decoder = Decoder(spec)
    rows, bad = decoder.decode_all(batch)
    for index, (record, header) in enumerate(zip(records, headers, strict=True)):
        one = RawBatch([0], [index], [0], [None], [record], [header])
        alone, reason = decoder.decode_all(one)
        assert (0 in reason) == (index in bad)
        assert alone.column(column)[0] == rows.column(column)[index]
    truncated = "truncated_times" in binding.spellings
    for index, (written, found) in enumerate(zip(values, rows.column(column), strict=True)):
        what = (written, type_, found, bad.get(index))
        if index not in bad:
            assert same(found.as_py(), written, type_, truncated=truncated), what
        else:
            assert found.as_py() is None
            assert not (is_fitting and fits(written, type_, truncated=truncated)), what
            if written.kind == TIME and type_ in TIMESTAMPS:
                assert "truncated_times" in bad[index], what


SPELLINGS = [(), ("truncated_times",)]


# --- JSON, and what is text ----------------------------------------------------------------------


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_numbers_in_json_keep_their_digits(type_: Type) -> None:
    texts = list(numbers(random.Random(3)))
    values = [Written(NUMBER, decimal.Decimal(text), text) for text in texts]
    is_whole = type_ in (types.INTEGER, types.BIGINT)  # 1e3 is none
    plain = [v for v in values if not is_whole or v.body.lstrip("-").isdigit()]
    records = [f'{{"c": {value.body}}}'.encode() for value in plain]
    check(plain, type_, records, is_fitting=type_ not in TIMESTAMPS)
    if isinstance(type_, Decimal):
        check(values, type_, [f'{{"c": "{value.body}"}}'.encode() for value in values])


def times_as_text(dice: random.Random, type_: Type) -> list[Written]:
    zone = "Z" if type_ == types.TIMESTAMP_TZ else ""
    return [
        Written(TIME, nanos(moment, digits), f"{moment.isoformat()}{digits and '.' + digits}{zone}")
        for moment, digits in moments(dice)
    ]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=str)
@pytest.mark.parametrize("type_", TIMESTAMPS, ids=str)
def test_times_as_text_keep_their_digits(type_: Type, spellings: tuple[str, ...]) -> None:
    values = times_as_text(random.Random(4), type_)
    said: dict[str, Any] = {"spellings": spellings}
    texts = [value.body.encode() for value in values]
    check(values, type_, [b'{"c": "' + text + b'"}' for text in texts], **said)
    check(values, type_, texts, format="string", **said)
    check(values, type_, texts, format="csv", **said)
    headers = [[("h", text)] for text in texts]
    empty = [b"{}"] * len(texts)
    check(values, type_, empty, headers=headers, columns_from=("c = header.h",), **said)


@pytest.mark.parametrize("spellings", SPELLINGS, ids=str)
@pytest.mark.parametrize("unit", ["seconds", "millis", "micros", "nanos"])
def test_numbers_of_an_epoch_keep_their_digits(unit: str, spellings: tuple[str, ...]) -> None:
    factor = {"seconds": 10**9, "millis": 10**6, "micros": 10**3, "nanos": 1}[unit]
    values = [
        Written(TIME, decimal.Decimal(number * factor), number)
        for moment, digits in moments(random.Random(5))
        for number in [int(nanos(moment, digits[:9]) // factor)]
    ]
    said: dict[str, Any] = {"spellings": (f"epoch_{unit}", *spellings)}
    records = [json.dumps({"c": value.body}).encode() for value in values]
    check(values, types.TIMESTAMP, records, **said)
    small = [value for value in values if abs(value.body) < 2**63]
    schema = {"type": "record", "name": "R", "fields": [{"name": "c", "type": "long"}]}
    said |= {"format": "avro", "value_schema": json.dumps(schema)}
    check(small, types.TIMESTAMP, [avro(schema, value.body) for value in small], **said)


# --- Formats with a schema -----------------------------------------------------------------------


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    bare = json.loads(json.dumps(schema).replace("logicalType", "noLogicalType"))
    fastavro.schemaless_writer(written, fastavro.parse_schema(bare), {"c": value})
    return written.getvalue()


def of_unit(dice: random.Random, factor: int) -> list[Written]:
    """Times as counts of a unit, of so many nanoseconds, in 64 bits."""
    counts = [int(nanos(moment, digits[:9]) // factor) for moment, digits in moments(dice)]
    return [
        Written(TIME, decimal.Decimal(count * factor), count, decimal.Decimal(count))
        for count in counts
        if abs(count) < 2**63
    ]


def wholes(bits: int) -> list[Written]:
    found = [0, 1, -1, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**63)]
    low, high = (0, 2**-bits) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return [Written(NUMBER, decimal.Decimal(n), n) for n in found if low <= n < high]


def floats() -> list[Written]:
    found = [0.0, 1.5, 0.1, 1e300, 2.0**53, 123456.789]
    return [Written(NUMBER, decimal.Decimal(number), number) for number in found]


def unscaled(dice: random.Random, scale: int) -> list[Written]:
    counts = [dice.randint(-(10**digits), 10**digits) for digits in (1, 2, 9, 18, 19, 38)]
    counts += [7 * 10**scale, 0]
    return [
        Written(
            NUMBER,
            decimal.Decimal(count).scaleb(-scale),
            count.to_bytes(count.bit_length() // 8 + 1, "big", signed=True),
        )
        for count in counts
    ]


UNITS = {"millis": 10**6, "micros": 10**3, "nanos": 1}
AVRO: dict[str, tuple[Any, list[Written]]] = {
    "int": ("int", wholes(32)),
    "long": ("long", wholes(64)),
    "double": ("double", floats()),
    "date": (
        {"type": "int", "logicalType": "date"},
        [Written(DAY, decimal.Decimal(n), n, decimal.Decimal(n)) for n in (-719162, 0, 2932896)],
    ),
    **{
        f"decimal of scale {scale}": (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale},
            unscaled(random.Random(6), scale),
        )
        for scale in (0, 2, 3, 20)
    },
    **{
        f"{local}timestamp-{unit}": (
            {"type": "long", "logicalType": f"{local}timestamp-{unit}"},
            of_unit(random.Random(7), factor),
        )
        for unit, factor in UNITS.items()
        for local in ("", "local-")
    },
    "NanoTimestamp": (
        {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
        of_unit(random.Random(8), 1),
    ),
}


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize("spellings", SPELLINGS, ids=str)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("kind", AVRO)
def test_avro_keeps_its_digits(kind: str, type_: Type, spellings: tuple[str, ...]) -> None:
    own, values = AVRO[kind]
    schema = {"type": "record", "name": "R", "fields": [{"name": "c", "type": own}]}
    said: dict[str, Any] = {"format": "avro", "value_schema": json.dumps(schema)}
    records = [avro(schema, value.body) for value in values]
    is_fitting = kind != "double" or type_ in types.FLOATS  # text is no number, and so on
    if kind.startswith("decimal"):
        is_fitting = isinstance(type_, Decimal)
    said |= {"is_fitting": is_fitting, "spellings": spellings}
    check(values, type_, records, **said)


PROTOBUF: dict[str, list[Written]] = {
    **{name: wholes(32) for name in ("int32", "sint32", "sfixed32")},
    **{name: wholes(64) for name in ("int64", "sint64", "sfixed64")},
    **{name: wholes(-32) for name in ("uint32", "fixed32")},
    **{name: wholes(-64) for name in ("uint64", "fixed64")},
    "double": floats(),
    "google.protobuf.Timestamp": [
        Written(TIME, nanos(moment, digits[:9]), (moment, digits[:9]))
        for moment, digits in moments(random.Random(9))
    ],
}


def set_protobuf(message: Any, name: str, value: Any) -> None:
    if isinstance(value, tuple):
        moment, digits = value
        getattr(message, name).seconds = (moment - EPOCH) // datetime.timedelta(seconds=1)
        getattr(message, name).nanos = int(digits.ljust(9, "0"))
    else:
        setattr(message, name, value)


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize("spellings", SPELLINGS, ids=str)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("kind", PROTOBUF)
def test_protobuf_keeps_its_digits(kind: str, type_: Type, spellings: tuple[str, ...]) -> None:
    text = f'syntax = "proto3"; message M {{ optional {kind} c = 1; }}'
    text = text.replace("message", 'import "google/protobuf/timestamp.proto"; message', 1)
    descriptor = protobuf_schema.message_at(
        protobuf_schema.compiled(Schema("PROTOBUF", text)), (0,)
    )
    make = message_factory.GetMessageClass(descriptor)
    values, records = [], []
    for value in PROTOBUF[kind]:
        message = make()
        set_protobuf(message, "c", value.body)
        records.append(message.SerializeToString())
        micros = value.exact / 1000 if value.kind == TIME else None
        values.append(dataclasses.replace(value, number=micros))
    is_fitting = kind != "double" or type_ in (types.REAL, types.DOUBLE)
    said: dict[str, Any] = {"format": "protobuf", "value_schema": text, "spellings": spellings}
    said["is_fitting"] = is_fitting
    if not (spellings and kind.endswith("Timestamp") and type_ not in TIMESTAMPS):
        check(values, type_, records, **said)


INSIDE = """
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message M {
  google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp many = 2;
  map<string, google.protobuf.Timestamp> by = 3; I inner = 4; repeated I inners = 5;
  map<int32, I> more = 6; oneof either { google.protobuf.Timestamp this = 7; string that = 8; }
}
message I { optional google.protobuf.Timestamp t = 1; }
"""
PLACES: dict[str, tuple[str, Any, str]] = {
    "at": ("at timestamp(6)", lambda m: m.at, "at: "),
    "many": ("many array(timestamp(6))", lambda m: m.many.add(), "many[]: "),
    "by": ('"by" map(varchar, timestamp(6))', lambda m: m.by["k"], "by[]: "),
    "inner": ("inner row(t timestamp(6))", lambda m: m.inner.t, "inner.t: "),
    "inners": ("inners array(row(t timestamp(6)))", lambda m: m.inners.add().t, "inners[].t: "),
    "this": ("this timestamp(6)", lambda m: m.this, "this: "),
}


@pytest.mark.parametrize("place", PLACES)
def test_timestamps_at_every_depth_of_a_message_keep_their_digits(place: str) -> None:
    from seamline.gateway.commands.tables import parse_fields

    declared, of, name = PLACES[place]
    descriptor = protobuf_schema.message_at(
        protobuf_schema.compiled(Schema("PROTOBUF", INSIDE)), (0,)
    )
    records = []
    for ending in (123456000, 123456789):
        message = message_factory.GetMessageClass(descriptor)()
        of(message).nanos = ending
        records.append(message.SerializeToString())
    for spellings in SPELLINGS:
        binding = TopicBinding(
            "c", "t", "protobuf", on_error="null", value_schema=INSIDE, spellings=spellings
        )
        spec = DecoderSpec.of(binding, (*parse_fields(declared), *columns.METADATA_FIELDS))
        batch = RawBatch([0] * 2, [0, 1], [0] * 2, [None] * 2, records, [None] * 2)
        rows, bad = Decoder(spec).decode_all(batch)
        if spellings:
            assert not bad
            assert rows.column(0)[0] == rows.column(0)[1]
        else:
            assert list(bad) == [1]
            assert bad[1].startswith(name)


CONNECT: dict[str, tuple[dict[str, Any], list[Written]]] = {
    "Timestamp": ({"name": "io.debezium.time.Timestamp"}, of_unit(random.Random(1), 10**6)),
    "MicroTimestamp": (
        {"name": "io.debezium.time.MicroTimestamp"},
        of_unit(random.Random(1), 10**3),
    ),
    "NanoTimestamp": ({"name": "io.debezium.time.NanoTimestamp"}, of_unit(random.Random(1), 1)),
}


@pytest.mark.parametrize("spellings", SPELLINGS, ids=str)
@pytest.mark.parametrize("kind", CONNECT)
def test_times_beside_their_schema_keep_their_digits(kind: str, spellings: tuple[str, ...]) -> None:
    said, values = CONNECT[kind]
    schema = {"type": "struct", "fields": [{"type": "int64", "field": "c", **said}]}
    records = [
        json.dumps({"schema": schema, "payload": {"c": value.body}}).encode() for value in values
    ]
    check(values, types.TIMESTAMP, records, spellings=spellings)


@pytest.mark.parametrize("type_", [t for t in TYPES if isinstance(t, Decimal)], ids=str)
@pytest.mark.parametrize("scale", [0, 2, 3, 20])
def test_decimals_beside_their_schema_keep_their_digits(scale: int, type_: Type) -> None:
    values = unscaled(random.Random(2), scale)
    own = {
        "type": "bytes",
        "field": "c",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": str(scale)},
    }
    schema = {"type": "struct", "fields": [own]}
    records = [
        json.dumps({"schema": schema, "payload": {"c": base64.b64encode(v.body).decode()}}).encode()
        for v in values
    ]
    check(values, type_, records)


# --- What is inferred ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_what_was_inferred_keeps_the_digits_or_says_so(seed: int) -> None:
    dice = random.Random(seed)
    texts = dice.sample(list(numbers(dice)), dice.randint(1, 3))
    records = [f'{{"c": {text}}}'.encode() for text in texts]
    inferred = infer_json(records)
    (column,) = inferred.columns
    values = [Written(NUMBER, decimal.Decimal(text), text) for text in texts]
    check(values, column.type, records, is_fitting=True)
    if column.type == types.DOUBLE and not inferred.notes:
        shortest = [decimal.Decimal(repr(float(text))) for text in texts]
        assert shortest == [value.exact for value in values]


@pytest.mark.parametrize(
    ("bodies", "type_", "note"),
    [
        (["12345678901234567890", "0.5"], Decimal(38, 9), "digits of 12345678901234567890"),
        (["9007199254740993", "1.5"], Decimal(38, 11), "digits of 9007199254740993"),
        (["0.10000000000000001", "1"], types.DOUBLE, None),  # as C writes the double 0.1
        (["1e400"], types.DOUBLE, "1e400"),
        (['"NaN"'], types.VARCHAR, "NaN or Infinity as text"),
        (['"NaN"', "1"], types.DOUBLE, "NaN and Infinity beside numbers"),
        (['"2024-01-01T00:00:00.123456789Z"'], types.VARCHAR, "truncated_times"),
        (
            ['"2024-01-01T00:00:00.1234567Z"', '"2024-01-01T00:00:00Z"'],
            types.VARCHAR,
            "truncated_times",
        ),
        (['"2024-01-01T00:00:00.123456000000Z"'], types.TIMESTAMP_TZ, None),
    ],
)
def test_inference_says_which_digits_decided(
    bodies: list[str], type_: Type, note: str | None
) -> None:
    inferred = infer_json([f'{{"c": {body}}}'.encode() for body in bodies])
    assert [column.type for column in inferred.columns] == [type_]
    assert len(inferred.notes) == (note is not None)
    assert note is None or note in inferred.notes[0]


def test_a_number_that_json_lacks_is_no_json_text() -> None:
    binding = TopicBinding("c", "t", spellings=("json_text",), on_error="null")
    spec = DecoderSpec.of(binding, (Field("c", types.VARCHAR), *columns.METADATA_FIELDS))
    values = [b'{"c": {"x": NaN}}', b'{"c": [1.10]}']
    batch = RawBatch([0] * 2, [0, 1], [0] * 2, [None] * 2, values, [None] * 2)
    rows, bad = Decoder(spec).decode_all(batch)
    assert (list(bad), bad[0]) == ([0], "c: JSON has no number nan")
    assert rows.column("c").to_pylist() == [None, "[1.10]"]
