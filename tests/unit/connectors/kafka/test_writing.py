"""Goal: what a row becomes is what its table reads as that row; all else is refused.

Method: rows at the edges of their types become records, which JSON of the standard library reads,
too; keys are those that pruning computes.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from seamline.connectors.kafka.formats.writing import RecordWriter
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.planners.rules.prune_tail_by_key import key_bytes
from seamline.seam.binding import TopicBinding
from seamline.sql import types


def written(columns: str, *rows: Any, **binding: Any) -> list[NewRecord]:
    fields = parse_fields(columns)
    schema = pa.schema([(field.name, types.to_arrow(field.type)) for field in fields])
    table = pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )
    writer = RecordWriter(TopicBinding("default", "t", **binding), fields, key_bytes)
    return writer.records(table)


def test_every_digit_is_kept() -> None:
    big = decimal.Decimal(-12345678901234567890123456789012345678)
    ((_, value, _),) = written("a decimal(38, 0), b decimal(38, 38), c double", (big, 0, 5e-324))
    assert value == (
        b'{"a":-12345678901234567890123456789012345678,'
        b'"b":0.00000000000000000000000000000000000000,"c":5e-324}'
    )


def test_values_are_plain_json() -> None:
    ((_, value, _),) = written(
        "s varchar, m map(bigint, varchar), at timestamp(6), d date",
        (
            '\u2028 " \\ \x01 é',
            [(1, None)],
            datetime.datetime(1, 1, 1),
            datetime.date(9999, 12, 31),
        ),
    )
    assert json.loads(value or b"") == {
        "s": '\u2028 " \\ \x01 é',
        "m": {"1": None},
        "at": "0001-01-01T00:00:00.000000",
        "d": "9999-12-31",
    }


def test_nulls_are_left_out() -> None:
    assert written("a bigint, b varchar", (None, None)) == [(None, b"{}", [])]


@pytest.mark.parametrize(
    ("key_format", "columns", "value", "key"),
    [
        ("string", "k varchar", "é", "é".encode()),
        ("string", "k bigint", -5, b"-5"),
        ("string", "k boolean", True, b"true"),
        ("json", "k varchar", 'a"b', b'"a\\"b"'),
        ("int32", "k integer", 1, b"\x00\x00\x00\x01"),
        ("int64", "k bigint", -1, b"\xff" * 8),
        ("bytes", "k varbinary", b"\x00", b"\x00"),
        ("string", "k varchar", None, None),
    ],
)
def test_the_key_repeats_its_column(
    key_format: str, columns: str, value: Any, key: bytes | None
) -> None:
    ((found, _, _),) = written(columns, (value,), key="k", key_format=key_format)
    assert found == key


def test_numbers_that_json_lacks_are_text() -> None:
    (record,) = written("f array(double)", ([math.nan, math.inf, -math.inf, 1.5],))
    assert record.value == b'{"f":["NaN","Infinity","-Infinity",1.5]}'


@pytest.mark.parametrize(
    ("columns", "value", "binding"),
    [
        ("k bigint", 2**40, {"key": "k", "key_format": "int32"}),
        ("k double", 1.5, {"key": "k"}),
        ("k varchar not null", None, {}),
    ],
)
def test_what_would_not_be_read_again_is_refused(
    columns: str, value: Any, binding: dict[str, str]
) -> None:
    with pytest.raises(SeamlineError) as caught:
        written(columns, (value,), **binding)
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_parts_are_written_where_they_are_read() -> None:
    found = written(
        "id bigint, v varchar, after_id bigint, n bigint, trace varchar, raw varbinary, k varchar",
        (7, "x", 1, 2, "t", b"\xff", "y"),
        (8, None, None, None, None, None, None),
        columns_from=(
            "id = key.id, k = key.of.k, after_id = value.after.id, n = value.after.n,"
            " trace = header.trace-id, raw = header.raw",
        ),
        key_format="json",
    )
    assert found == [
        (
            b'{"id":7,"of":{"k":"y"}}',
            b'{"v":"x","after":{"id":1,"n":2}}',
            [("trace-id", b"t"), ("raw", b"\xff")],
        ),
        (b'{"id":8,"of":{}}', b'{"after":{}}', []),
    ]


@pytest.mark.parametrize(
    ("key_format", "column", "value", "key"),
    [
        ("string", "varchar", "é", "é".encode()),
        ("string", "bigint", 7, b"7"),
        ("int64", "bigint", 7, b"\x00" * 7 + b"\x07"),
        ("json", "row(a bigint)", {"a": 1}, b'{"a":1}'),
        ("bytes", "varbinary", b"\x00", b"\x00"),
        ("string", "varchar", None, None),
    ],
)
def test_a_key_column_is_written_so_that_it_comes_back(
    key_format: str, column: str, value: Any, key: bytes | None
) -> None:
    made = {"columns_from": ("k = key",), "key_format": key_format}
    assert written(f"k {column}, v bigint", (value, 1), **made) == [(key, b'{"v":1}', [])]


@pytest.mark.parametrize(
    ("columns", "row", "columns_from"),
    [
        ("r row(o bigint)", ({"o": 1},), "r.o = offset"),
        ("raw varbinary, v bigint", (b"x", 1), "raw = value"),
        ("a bigint, b bigint", (1, 2), "a = key.id, b = key"),
    ],
)
def test_what_no_record_can_hold_is_refused_by_name(
    columns: str, row: tuple[Any, ...], columns_from: str
) -> None:
    with pytest.raises(SeamlineError) as caught:
        written(columns, row, columns_from=(columns_from,), key_format="json")
    assert caught.value.code.name == "NOT_SUPPORTED"


WHOLE = {"format": "json", "columns_from": ("k = key", "v = value")}
UPSERT: dict[str, Any] = {"mode": "upsert", "primary_key": ("k",), "columns_from": ("k = key",)}


@pytest.mark.parametrize("binding", [{"format": "string"}, {"format": "raw"}, WHOLE])
def test_a_row_does_not_delete_its_key(binding: dict[str, Any]) -> None:
    columns = "k varchar not null, v varchar"
    said = {**UPSERT, **binding}
    assert written(columns, ("a", ""), **said)[0].value is not None
    with pytest.raises(SeamlineError) as caught:
        written(columns, ("a", "x"), ("a", None), **said)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert "deletes its key" in caught.value.message
    del said["mode"], said["primary_key"]
    assert written(columns, ("a", None), **said)[0].value is None


PLACED = {**UPSERT, "key_partitioner": "murmur2", "key_partitions": 2}


@pytest.mark.parametrize(
    ("key", "binding"),
    [
        ("", {"key_partitioner": "crc32"}),
        ("é", {"key_format": "json"}),
        ("a/b", {"key_format": "json", "columns_from": ("k = key.k",)}),
        ("é", {"key_format": "json", "key": "k", "columns_from": ()}),
    ],
)
def test_a_key_is_not_written_where_others_may_not_put_it(
    key: str, binding: dict[str, Any]
) -> None:
    columns, said = "k varchar not null, v bigint", {**PLACED, **binding}
    with pytest.raises(SeamlineError) as caught:
        written(columns, (key, 1), **said)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert "partition" in caught.value.message
    assert written(columns, ("user-1", 1), **said)
    assert written(columns, (key, 1), **{**said, "key_partitions": 1})
    assert written(columns, (key, 1), **{**said, "mode": "append", "primary_key": ()})


def test_murmur2_has_a_place_for_empty_keys() -> None:
    ((key, _, _),) = written("k varchar not null, v bigint", ("", 1), **PLACED)
    assert key == b""
