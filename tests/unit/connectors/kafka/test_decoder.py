"""Goal: each column of a table holds the part of the record that `columns_from` says.

Method: records whose every part is known are decoded into columns from each of them, in the types
that hold them; what is bad in one part is a bad record, and harms neither the other parts nor the
neighbours.
"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

BATCH = RawBatch(
    partitions=[3, 3],
    offsets=[10, 11],
    timestamps_ms=[1_700_000_000_123, -1],
    keys=[b'{"id":7,"of":{"eu":true}}', None],
    values=[b'{"id":1,"after":{"id":2,"name":"x","more":{"n":3}}}', None],
    headers=[[("h", b"5"), ("h", b"6"), ("t", "é".encode())], None],
    timestamp_types=[0, -1],
)
AT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, datetime.UTC)


def decoder(declared: str, columns_from: str, on_error: str = "fail", **binding: Any) -> Decoder:
    fields = (*parse_fields(declared), *columns.METADATA_FIELDS)
    made = TopicBinding("c", "topic-1", columns_from=(columns_from,), on_error=on_error, **binding)
    return Decoder(DecoderSpec.of(made, fields))


def rows(decoder_: Decoder, batch: RawBatch = BATCH) -> list[dict[str, Any]]:
    found = decoder_.decode(batch).rows
    found.validate(full=True)
    own = [name for name in found.schema.names if name not in columns.METADATA_NAMES]
    return found.select(own).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("declared", "source", "expected"),
    [
        ("c integer", "partition", [3, 3]),
        ("c bigint", "partition", [3, 3]),
        ("c bigint", "offset", [10, 11]),
        ("c timestamp(6) with time zone", "timestamp", [AT, None]),
        ("c timestamp(6)", "timestamp", [AT.replace(tzinfo=None), None]),
        ("c bigint", "timestamp", [1_700_000_000_123, None]),
        ("c integer", "timestamp_type", [0, -1]),
        ("c varchar", "timestamp_type", ["CreateTime", "NoTimestampType"]),
        ("c varchar", "topic", ["topic-1"] * 2),
        ("c varbinary", "key", BATCH.keys),
        ("c varbinary", "value", BATCH.values),
        ("c varbinary", "header.h", [b"6", None]),
        ("c varchar", "header.t", ["é", None]),
        ("c bigint", "header.h", [6, None]),
        ("c varchar", "header.none", [None, None]),
        ("c bigint", "value.id", [1, None]),
        ("c bigint", "value.after.id", [2, None]),
        ("c bigint", "value.after.more.n", [3, None]),
        ("c row(id bigint)", "value", [{"id": 1}, None]),
        ("c row(name varchar)", "value.after", [{"name": "x"}, None]),
        ("c bigint", "key.id", [7, None]),
        ("c boolean", "key.of.eu", [True, None]),
        ("c row(id integer, of row(eu boolean))", "key", [{"id": 7, "of": {"eu": True}}, None]),
        ("c map(varchar, varbinary)", "headers", [[("h", b"6"), ("t", "é".encode())], None]),
        (
            "c array(row(k varchar, v varchar))",
            "headers",
            [[{"k": "h", "v": "5"}, {"k": "h", "v": "6"}, {"k": "t", "v": "é"}], None],
        ),
    ],
)
def test_a_column_holds_what_is_said(declared: str, source: str, expected: list[Any]) -> None:
    found = rows(decoder(declared, f"c = {source}", key_format="json"))
    assert [row["c"] for row in found] == list(expected)


def test_all_of_them_at_once() -> None:
    made = decoder(
        "id bigint, k bigint, after_id bigint, again bigint, name varchar, raw varbinary,"
        " meta row(o bigint, p integer), mixed row(id bigint, at timestamp(6) with time zone)",
        "k = key.id, after_id = value.after.id, again = value.after.id, name = value.after.name,"
        " raw = value, meta.o = offset, meta.p = partition, mixed.at = timestamp",
        key_format="json",
    )
    first, second = rows(made)
    assert first == {
        "id": 1,
        "k": 7,
        "after_id": 2,
        "again": 2,
        "name": "x",
        "raw": BATCH.values[0],
        "meta": {"o": 10, "p": 3},
        "mixed": {"id": None, "at": AT},
    }
    assert second["meta"] == {"o": 11, "p": 3}
    assert second["id"] is second["k"] is second["raw"] is None


@pytest.mark.parametrize(
    ("key_format", "declared", "key", "expected"),
    [
        ("string", "varchar", "é".encode(), "é"),
        ("string", "bigint", b"-12", -12),
        ("string", "double", b"1.5", 1.5),
        ("string", "boolean", b"TRUE", True),
        ("string", "date", b"2024-02-29", datetime.date(2024, 2, 29)),
        ("string", "array(bigint)", b"[1,2]", [1, 2]),
        ("json", "varchar", b'"x"', "x"),
        ("json", "bigint", b" 5 ", 5),
        ("json", "array(bigint)", b"[1]", [1]),
        ("json", "bigint", b"null", None),
        ("int32", "integer", b"\xff\xff\xff\xfe", -2),
        ("int32", "bigint", b"\x00\x00\x00\x01", 1),
        ("int64", "bigint", b"\x00" * 7 + b"\x09", 9),
        ("bytes", "varbinary", b"\xff", b"\xff"),
        ("bytes", "varchar", b"a", "a"),
    ],
)
def test_keys_of_every_format(key_format: str, declared: str, key: bytes, expected: Any) -> None:
    made = decoder(f"id {declared}, v bigint", "id = key", key_format=key_format)
    batch = RawBatch([0], [0], [0], [key], [b'{"v":1}'], [None])
    assert rows(made, batch) == [{"id": expected, "v": 1}]


@pytest.mark.parametrize(
    ("key_format", "declared", "key", "reason"),
    [
        ("int64", "bigint", b"\x00\x00\x00\x01", "key: id: 4 bytes where int64 is expected"),
        ("int32", "integer", b"12", "key: id: 2 bytes where int32 is expected"),
        ("string", "bigint", b"x", "key: id: the string 'x' where bigint is expected"),
        ("string", "integer", b"4000000000", "key: id: 4000000000 is out of range for integer"),
        ("string", "varchar", b"\xff", "key: not UTF-8 at byte 0"),
        ("json", "bigint", b'"5"', "key: id: the string '5' where bigint is expected"),
        ("json", "varchar", b"{", "key: not JSON"),
        ("string", "bigint not null", None, "key: id: null, but the column is required"),
    ],
)
def test_a_key_of_another_type_is_a_bad_record(
    key_format: str, declared: str, key: bytes | None, reason: str
) -> None:
    batch = RawBatch(
        [0] * 2, [5, 6], [0] * 2, [key, b"\x00" * 7 + b"1"], [b'{"v":1}'] * 2, [None] * 2
    )
    bad = decoder(f"id {declared}, v bigint", "id = key", key_format=key_format)
    with pytest.raises(SeamlineError) as caught:
        bad.decode(batch)
    assert caught.value.code.name == "BAD_RECORD"
    assert f"partition 0, offset 5: {reason}" in str(caught.value)
    kept = decoder(f"id {declared}, v bigint", "id = key", "null", key_format=key_format)
    first = kept.decode(batch).rows.to_pylist()[0]
    assert (first["id"], first["v"], first[columns.OFFSET]) == (None, 1, 5)
    assert first[columns.ERROR].startswith(reason)


def test_a_bad_value_leaves_the_key_and_the_neighbours() -> None:
    batch = RawBatch(
        [0] * 3,
        [0, 1, 2],
        [0] * 3,
        [b"a", b"b", b"c"],
        [b'{"v":1,"o":{"n":1}}', b'{"v":"x","o":{"n":2}}', b'{"v":3,"o":{"n":null}}'],
        [[("h", b"1")]] * 3,
    )
    made = decoder(
        "id varchar, v bigint, n bigint not null, again bigint, h bigint",
        "id = key, n = value.o.n, again = value.v, h = header.h",
        "null",
    )
    found = [tuple(row.values()) for row in rows(made, batch)]
    assert found == [("a", 1, 1, 1, 1), ("b", None, None, None, 1), ("c", None, None, None, 1)]
    left = decoder("id varchar, v bigint", "id = key", "skip").decode(batch)
    assert (left.rows.column("id").to_pylist(), left.skipped) == (["a", "c"], 1)


def test_values_that_no_column_needs_are_not_looked_at() -> None:
    batch = RawBatch([0], [0], [0], [b"k"], [b"not json"], [None])
    assert rows(decoder("id varchar", "id = key"), batch) == [{"id": "k"}]


@pytest.mark.parametrize(
    ("declared", "columns_from", "binding"),
    [
        ("c varchar", "c = offset", {}),
        ("c integer", "c = offset", {}),
        ("c varchar", "c = timestamp", {}),
        ("c varchar", "c = headers", {}),
        ("c varchar", "c = key.id", {"key_format": "int64"}),
        ("c varchar", "c = key", {"key_format": "int64"}),
        ("c integer", "c = key", {"key_format": "int64"}),
        ("c bigint", "c = key", {"key_format": "nothing"}),
        ("a varbinary, b varbinary", "", {"format": "raw"}),
        ("a bigint", "", {"format": "raw"}),
    ],
)
def test_what_cannot_be_is_refused_before_it_is_read(
    declared: str, columns_from: str, binding: dict[str, Any]
) -> None:
    with pytest.raises(SeamlineError) as caught:
        decoder(declared, columns_from, **binding)
    assert caught.value.code.name == "INVALID_TABLE_DEFINITION"


# --- Text, and ways to write values --------------------------------------------------------------


def of_values(declared: str, *values: bytes | None, **binding: Any) -> list[tuple[Any, ...]]:
    count = len(values)
    nothing, numbers = [None] * count, list(range(count))
    batch = RawBatch([0] * count, numbers, [0] * count, nothing, values, nothing)
    made = decoder(declared, "", **binding)
    return [tuple(row.values()) for row in rows(made, batch)]


NOON = datetime.datetime(2023, 11, 14, 22, 13, 20)
LINES = "id bigint, name varchar, ok boolean, at timestamp(6), tags array(varchar)"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"1,x,true,2024-01-02T03:04:05,",
            (1, "x", True, datetime.datetime(2024, 1, 2, 3, 4, 5), None),
        ),
        (b'-7,"a ""b"", c",FALSE,,"[""x"",null]"', (-7, 'a "b", c', False, None, ["x", None])),
        ("2,é\n".encode()[:-1] + b",,0,", (2, "é", None, datetime.datetime(1970, 1, 1), None)),
        (b'3,"two\nlines",,,\n', (3, "two\nlines", None, None, None)),
        (b",,,,", (None,) * 5),
        (None, (None,) * 5),
    ],
)
def test_csv(line: bytes | None, expected: tuple[Any, ...]) -> None:
    assert of_values(LINES, line, line, format="csv") == [expected] * 2
    if line is not None and b'"' not in line:
        other = line.replace(b",", b"|")
        assert of_values(LINES, other, format="csv", csv_separator="|") == [expected]


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_field_may_be_long(quote: bytes) -> None:
    text = b"x" * 200_000
    line = b"1," + quote + text + quote + b",,,"
    assert of_values(LINES, line, format="csv") == [(1, text.decode(), None, None, None)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,x", "2 fields where 5 are expected"),
        (b"1,x,true,,,,", "7 fields where 5 are expected"),
        (b"x,x,,,", "id: the string 'x' where bigint is expected"),
        (b'1,"x,,,', "not CSV: "),
        (b"1,x,,,\n2,y,,,", "2 lines where one is expected"),
        (b"1,\xff,,,", "not UTF-8 at byte 2"),
        (b"", "1 fields where 5 are expected"),
    ],
)
def test_a_line_that_is_not_so_is_a_bad_one(line: bytes, reason: str) -> None:
    batch = RawBatch([0] * 2, [0, 1], [0] * 2, [None] * 2, [line, b"1,x,,,"], [None] * 2)
    found = decoder(LINES, "", "null", format="csv").decode(batch).rows.to_pylist()
    assert found[0][columns.ERROR].startswith(reason)
    assert (found[0]["id"], found[1]["id"]) == (None, 1)


@pytest.mark.parametrize(
    ("spellings", "declared", "value", "expected"),
    [
        (("text_numbers",), "bigint", '"17"', 17),
        (("text_numbers",), "integer", '" -17 "', -17),
        (("text_numbers",), "double", '"1.5e3"', 1500.0),
        (("text_numbers",), "boolean", '"True"', True),
        (("text_numbers",), "array(bigint)", '["1",2]', [1, 2]),
        (("text_numbers",), "varchar", '"17"', "17"),
        (("json_text",), "varchar", '{"b":1.50,"a":[null,"x"]}', '{"b":1.50,"a":[null,"x"]}'),
        (("json_text",), "varchar", "5", "5"),
        (("json_text",), "varchar", "null", None),
        (("json_text",), "row(x varchar)", '{"x":{}}', {"x": "{}"}),
        (("epoch_seconds",), "timestamp(6)", "1700000000", NOON),
        (
            ("epoch_micros",),
            "timestamp(6)",
            "1700000000000001",
            NOON + datetime.timedelta(microseconds=1),
        ),
        (
            ("epoch_nanos",),
            "timestamp(6)",
            "1700000000000001000",
            NOON + datetime.timedelta(microseconds=1),
        ),
        (
            ("epoch_nanos", "truncated_times"),
            "timestamp(6)",
            "1700000000000001999",
            NOON + datetime.timedelta(microseconds=1),
        ),
        (("epoch_millis",), "timestamp(6)", "1700000000000", NOON),
        (
            ("epoch_seconds",),
            "timestamp(6)",
            '"2024-01-01T00:00:00"',
            datetime.datetime(2024, 1, 1),
        ),
        (("epoch_seconds", "text_numbers"), "timestamp(6)", '"0"', datetime.datetime(1970, 1, 1)),
    ],
)
def test_spellings(spellings: tuple[str, ...], declared: str, value: str, expected: Any) -> None:
    body = b'{"c":%s}' % value.encode()
    for values in ([body], [body] * 3, [body, b'{"c":null}']):
        found = of_values(f"c {declared}", *values, spellings=spellings)
        assert found[0] == (expected,)
    whole = decoder(f"c {declared}", "c = key", spellings=spellings, key_format="json")
    record = RawBatch([0], [0], [0], [value.encode()], [b"{}"], [None])
    assert rows(whole, record) == [{"c": expected}]


@pytest.mark.parametrize(
    "value", ['"x"', '"1.5"', '"0x1"', '"1_0"', '""', '"99999999999999999999"']
)
def test_text_that_is_no_number_stays_bad(value: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        of_values("c bigint", b'{"c":%s}' % value.encode(), spellings=("text_numbers",))
    assert caught.value.code.name == "BAD_RECORD"


def test_spellings_are_part_of_how_records_are_encoded() -> None:
    texts = {
        decoder("c varchar", "", spellings=spellings).spec.format
        for spellings in ((), ("json_text",), ("json_text", "epoch_seconds"))
    }
    assert len(texts) == 3
    assert "json" in texts, "a table without them is as before"


@pytest.mark.parametrize(
    "binding",
    [
        {"spellings": ("epoch_weeks",)},
        {"spellings": ("epoch_seconds", "epoch_micros")},
        {"format": "csv", "csv_separator": ";;"},
        {"format": "csv", "csv_quote": ","},
    ],
)
def test_options_that_mean_nothing_are_refused(binding: dict[str, Any]) -> None:
    with pytest.raises(SeamlineError) as caught:
        decoder("c varchar", "", **binding)
    assert caught.value.code.name == "INVALID_TABLE_DEFINITION"
