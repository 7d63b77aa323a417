"""Goal: what a spelling accepts means what was written, and no other value becomes good by it.

Method: random moments in every form that RFC 3339, ISO 8601, Java's `toString` and Python's
`isoformat` give them, with the moment known; whole numbers with points and exponents, judged by
`decimal`; values of several types, judged by jsonschema. Each form is bad without its spelling, or
means the same.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import jsonschema
import pytest
from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.all_formats import format_of
from seamline.connectors.kafka.formats.csv_values import CsvValues
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.json_values import JsonValues
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.spelling import SPELLINGS, Spelling
from seamline.gateway.commands.tables import parse_fields
from seamline.sql.types import (
    BIGINT,
    DATE,
    INTEGER,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Field,
    Type,
)

MOMENTS = st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: datetime.timedelta(minutes=minutes))
REGIONS = st.sampled_from(["", "[Europe/Paris]", "[UTC]", "[America/Argentina/Buenos_Aires]"])


def decoded(values: list[object], type_: Type, words: str) -> tuple[list[object], set[int]]:
    decoder = JsonValues((Field("a", type_),), Spelling.of(words))
    raw = [
        b'{"a": %s}' % v if isinstance(v, bytes) else json.dumps({"a": v}).encode() for v in values
    ]
    arrays, bad = decoder.decode(raw)
    return arrays[0].to_pylist(), set(bad)


@examples(200)
@given(MOMENTS, OFFSETS, REGIONS, st.data())
def test_times_mean_the_moment_that_was_written(
    at: datetime.datetime, offset: datetime.timedelta, region: str, data: st.DataObject
) -> None:
    local = at.replace(tzinfo=datetime.timezone(offset))
    zone = local.strftime("%z")
    is_basic, marker = data.draw(st.booleans()), data.draw(st.sampled_from("Tt "))
    zone = zone if is_basic else f"{zone[:3]}:{zone[3:]}"
    zone = data.draw(st.sampled_from([zone, *(["Z", "z"] if not offset else [])]))
    day, time = ("%Y%m%d", "%H%M%S") if is_basic else ("%Y-%m-%d", "%H:%M:%S")
    year = f"{local.year:04}"
    text = local.strftime(day.replace("%Y", year)) + marker + local.strftime(time)
    text += data.draw(st.sampled_from([f".{local.microsecond:06}", f",{local.microsecond:06}000"]))
    values, bad = decoded([text + zone + region], TIMESTAMP_TZ, "iso_times")
    assert (values, bad) == ([local.astimezone(datetime.UTC)], set())
    values, bad = decoded([text], TIMESTAMP, "iso_times")
    assert (values, bad) == ([at], set())
    values, bad = decoded([text + zone + region], TIMESTAMP_TZ, "")
    assert bad or values == [local.astimezone(datetime.UTC)]
    assert decoded([local.strftime(day.replace("%Y", year))], DATE, "iso_times")[0] == [at.date()]
    plain = CsvValues((Field("a", TIMESTAMP_TZ),), Spelling.of("iso_times"), ";", "'")
    arrays, why = plain.decode([(text + zone + region).encode()])
    assert (arrays[0].to_pylist(), why) == ([local.astimezone(datetime.UTC)], {})


UTC = datetime.UTC
NEW_YEAR = datetime.datetime(2017, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "type_", "words", "expected"),
    [
        ("2016-12-31T23:59:60Z", TIMESTAMP_TZ, "iso_times", NEW_YEAR),
        ("20161231T235960.5", TIMESTAMP, "iso_times",
         datetime.datetime(2017, 1, 1, 0, 0, 0, 500_000)),
        ("2016-12-31T23:58:60Z", TIMESTAMP_TZ, "iso_times", None),
        ("2016-12-31T24:00:00Z", TIMESTAMP_TZ, "iso_times", None),
        ("9999-12-31T23:59:60Z", TIMESTAMP_TZ, "iso_times", None),
        ("2016-1231T00:00:00Z", TIMESTAMP_TZ, "iso_times", None),
        ("2016-12-31T00:00:00Z[Europe/Paris", TIMESTAMP_TZ, "iso_times", None),
        ("2016-12-31T00:00:00[Europe/Paris]", TIMESTAMP_TZ, "iso_times",
         datetime.datetime(2016, 12, 31, tzinfo=UTC)),
        ("2016-12-31T00:00:00+01:00[Europe/Paris]", TIMESTAMP, "iso_times", None),
        ("2016-12-31T00:00:00.1234567Z", TIMESTAMP_TZ, "iso_times", None),
        ("2016-12-31T00:00:00.1234567z", TIMESTAMP_TZ, "iso_times,truncated_times",
         datetime.datetime(2016, 12, 31, 0, 0, 0, 123456, UTC)),
        (b"1704067200.250000000", TIMESTAMP_TZ, "epoch_seconds",
         datetime.datetime(2024, 1, 1, 0, 0, 0, 250000, UTC)),
        (b"1704067200.250000001", TIMESTAMP_TZ, "epoch_seconds", None),
        (b"1704067200.2500000019", TIMESTAMP_TZ, "epoch_seconds", None),
        (b"1704067200.250000001", TIMESTAMP_TZ, "epoch_seconds,truncated_times",
         datetime.datetime(2024, 1, 1, 0, 0, 0, 250000, UTC)),
        (b"1704067200.25", TIMESTAMP_TZ, "", None),
        (b"1704067200000.0", TIMESTAMP_TZ, "whole_numbers",
         datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (b"1e999999999", BIGINT, "whole_numbers", None),
        (b"1.5", BIGINT, "whole_numbers", None),
        ("1.0", BIGINT, "whole_numbers,text_numbers", 1),
        ("1.0", BIGINT, "whole_numbers", None),
    ],
)  # fmt: skip
def test_each_form_is_one_time_or_none(
    text: str | bytes, type_: Type, words: str, expected: object
) -> None:
    values, bad = decoded([text, None], type_, words)
    assert values == [expected, None]
    assert bool(bad) == (expected is None)


@examples(200)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.integers(-25, 25))
def test_whole_numbers_may_be_written_with_points_and_exponents(
    number: decimal.Decimal, exponent: int
) -> None:
    exact = number.scaleb(exponent)
    for type_, low, high in ((INTEGER, -(2**31), 2**31), (BIGINT, -(2**63), 2**63)):
        for text in (f"{number:f}e{exponent}", f"{exact:f}"):
            values, bad = decoded([text.encode()], type_, "whole_numbers")
            is_held = exact == exact.to_integral_value() and low <= exact < high
            assert values == [int(exact) if is_held else None]
            assert bool(bad) != is_held


def test_inference_knows_the_spellings() -> None:
    records = [b'{"a": "20240101T000000z", "n": 1.0}', b'{"a": "2024-01-02T00:00:00Z", "n": 2}']
    columns = infer_json(records, Spelling.of("iso_times,whole_numbers")).columns
    assert [column.type for column in columns] == [TIMESTAMP_TZ, BIGINT]
    assert {"iso_times", "whole_numbers"} <= set(SPELLINGS)


LEAST = datetime.datetime(1, 1, 1)
GREATEST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
INFINITE_NUMBERS = {
    "epoch_micros": (9_223_372_036_825_200_000, -9_223_372_036_832_400_000),
    "epoch_millis": (9_223_372_036_825_200, -9_223_372_036_832_400),
    "": (9_223_372_036_825_200_000, -9_223_372_036_832_400_000),
}


@pytest.mark.parametrize("words", INFINITE_NUMBERS)
@pytest.mark.parametrize("form", ["text", "number", "digits", "avro", "protobuf"])
def test_infinity_is_the_greatest_timestamp_and_minus_infinity_the_least(
    words: str, form: str
) -> None:
    numbers = INFINITE_NUMBERS[words]
    for number, text, expected in zip(
        numbers, ("infinity", "-infinity"), (GREATEST, LEAST), strict=True
    ):
        spelt = f"{words},infinite_times,text_numbers"
        given_ = {"text": text, "digits": str(number)}.get(form, number)
        for type_, zone in ((TIMESTAMP, None), (TIMESTAMP_TZ, UTC)):
            if form in ("avro", "protobuf"):
                assert of_schema(form, "long", given_, type_, spelt) == expected.replace(
                    tzinfo=zone
                )
                assert of_schema(form, "long", given_, type_, words) is None
                continue
            values, bad = decoded([given_, 0], type_, spelt)
            assert (values[0], bad) == (expected.replace(tzinfo=zone), set())
            values, bad = decoded([given_, 0], type_, f"{words},text_numbers")
            assert (values[0], bad) == (None, {0})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, GREATEST) for value in ("infinity", 2**31 - 1, 2_146_033_979, -2_147_472_692)),
        *((value, LEAST) for value in ("-infinity", -(2**31), -2_147_472_691)),
    ],
)
def test_infinite_dates_are_the_greatest_and_the_least(
    value: int | str, expected: datetime.datetime
) -> None:
    values, bad = decoded([value, "2024-01-01"], DATE, "infinite_times")
    assert (values[0], bad) == (expected.date(), set())
    assert decoded([value], DATE, "epoch_days")[1] == {0}
    type_ = {"type": "int", "logicalType": "date"} if isinstance(value, int) else "string"
    assert of_schema("avro", type_, value, DATE, "infinite_times") == expected.date()
    assert of_schema("avro", type_, value, DATE, "") is None


def of_schema(form: str, type_: object, value: object, column: Type, words: str) -> object:
    """The value of a record with a schema, alone and between others; None if it is bad."""
    if form == "protobuf":
        file = protobuf_schema.compiled(
            Schema("PROTOBUF", 'syntax = "proto3"; message R { int64 a = 1; }')
        )
        text = base64.b64encode(file.serialized_pb).decode()
        message = message_factory.GetMessageClass(file.message_types_by_name["R"])
        written, other = (message(a=v).SerializeToString() for v in (value, 0))
    else:
        text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]})
        schema = fastavro.parse_schema(json.loads(text))
        usual = "2024-01-01" if isinstance(value, str) else 0
        streams = io.BytesIO(), io.BytesIO()
        for stream, item in zip(streams, (value, usual), strict=True):
            fastavro.schemaless_writer(stream, schema, {"a": item})
        written, other = (stream.getvalue() for stream in streams)
    fields = format_of(form, Setting("value", schema=text, options={"spellings": words})).fields
    assert fields is not None
    decoder = fields((Field("a", column),))
    (alone,), bad = decoder.decode([written])
    (many,), more = decoder.decode([*[other] * 100, written, *[other] * 100])
    assert (set(bad), set(more)) in (({0}, {100}), (set(), set()))
    assert many[100] == alone[0]
    return alone[0].as_py()


def test_other_large_numbers_stay_bad() -> None:
    for number in (9_223_372_036_825_200_001, 2**63 - 1, 9_223_372_036_825_200_000 - 1):
        assert decoded([number], TIMESTAMP, "infinite_times")[1] == {0}
    legit = 9_223_372_036_825_200
    values, bad = decoded([legit], TIMESTAMP, "epoch_micros,infinite_times")
    assert (values, bad) == (
        [datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=legit)],
        set(),
    )
    assert decoded([2**63 - 1], TIMESTAMP, "epoch_nanos,infinite_times")[1] == {0}
    assert decoded(["infinity"], TIMESTAMP, "epoch_nanos,infinite_times") == ([GREATEST], set())
    assert decoded(["infinity"], TIME, "infinite_times")[1] == {0}
    assert decoded(["infinity"], VARCHAR, "infinite_times") == (["infinity"], set())
    records = [b'{"a": "infinity"}', b'{"a": "2024-01-02"}']
    (column,) = infer_json(records, Spelling.of("infinite_times")).columns
    assert column.type == DATE


SCALARS = {
    "boolean": st.booleans(),
    "number": st.integers(-(2**31), 2**31),
    "string": st.text("xé", max_size=3),
    "array": st.lists(st.integers(0, 9), min_size=1, max_size=2),
    "object": st.dictionaries(st.sampled_from("ab"), st.booleans(), min_size=1),
}


@examples(300, derandomize=True)
@given(st.data(), st.sets(st.sampled_from(sorted(SCALARS)), min_size=2), st.booleans())
def test_values_of_several_types_are_in_the_field_of_their_type(
    data: st.DataObject, names: set[str], is_nested: bool
) -> None:
    """The schema is the judge of which type a value is of."""
    values: list[Any] = [data.draw(SCALARS[name]) for name in sorted(names)]
    values += data.draw(st.lists(st.one_of(st.none(), *(SCALARS[n] for n in names)), max_size=4))
    bodies = [{"c": [value]} if is_nested else {"c": value} for value in values]
    records: list[bytes | None] = [json.dumps(body).encode() for body in bodies]
    spelling = Spelling.of("several_types")
    columns = infer_json(records, spelling).columns
    (array,), bad = JsonValues(columns, spelling).decode(records)
    assert bad == {}
    schema = {"oneOf": [{"type": name} for name in sorted(names)]}
    for value, found in zip(values, array.to_pylist(), strict=True):
        row = found[0] if is_nested else found
        if value is None:
            assert row is None
            continue
        jsonschema.validate(value, schema)
        judges = {one: jsonschema.Draft202012Validator({"type": one}) for one in names}
        (name,) = (one for one, judge in judges.items() if judge.is_valid(value))
        held = {own: inner for own, inner in row.items() if inner is not None}
        if name == "object":
            held = {name: {k: v for k, v in held[name].items() if v is not None}}
        assert row.keys() == names
        assert held == {name: value}


def test_a_row_with_other_fields_is_an_object_and_a_type_without_a_field_is_bad() -> None:
    spelling = Spelling.of("several_types")
    records: list[bytes | None] = [b'{"c":{"object":{"x":1},"id":7}}', b'{"c":5}', b'{"c":"NaN"}']
    (one,) = parse_fields('c row("object" row(x bigint), id bigint)')
    (array,), bad = JsonValues((one,), spelling).decode(records)
    assert array[0].as_py() == {"object": {"x": 1}, "id": 7}
    assert bad[1] == "c: the number 5 where row(object row(x bigint), id bigint) is expected"
    (two,) = parse_fields('c row("object" json, "number" double)')
    (array,), bad = JsonValues((two,), spelling).decode(records)
    assert array[0].as_py() == {"object": '{"id":7,"object":{"x":1}}', "number": None}
    assert str(array[2].as_py()["number"]) == "nan"
    (three,) = parse_fields('c row("object" json, "array" json)')
    _, bad = JsonValues((three,), spelling).decode(records)
    assert bad[1] == "c: the number 5 where row(object json, array json) is expected"
    (plain,), bad = JsonValues((two,)).decode(records)
    assert plain[0].as_py() == {"object": '{"x":1}', "number": None}, "as without the spelling"
