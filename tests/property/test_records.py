"""Goal: whatever bytes a record has, what becomes of it is one thing, hot and cold.

Method: records of any key, value, headers, time and size are put into the form in which each reader
hands them to the decoder: librdkafka's, where a name of a header ends at a zero byte and bytes that
are not UTF-8 cost the record all its headers; Spark's, where Java has put U+FFFD for such bytes
and times are microseconds. The rows must be the same, and be rows that can be read.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.odd_records import OddRecord

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.protocols.raw_records import NOT_TEXT, Headers, RawBatch
from seamline.connectors.spark import decoding
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.binding import TopicBinding
from seamline.seam.options import POLICIES
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.types import BIGINT, Field

TIMES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [-1, 0, 1, 253_402_300_799_999, 253_402_300_800_000, 1_700_000_000_123]
)
NAMES = st.binary(max_size=4) | st.sampled_from(
    [b"h", b"a\0b", b"\0\xff", b"\xc3\0", b"\xff", b"\xed\xa0\x80", "é\ufffd".encode()]
)
BYTES = st.none() | st.binary(max_size=9) | st.sampled_from([b"x" * 70_000])
VALUES = BYTES | st.integers().map(lambda number: b'{"a":%d}' % number)
RECORDS = st.lists(
    st.builds(OddRecord, VALUES, BYTES, st.lists(st.tuples(NAMES, BYTES), max_size=3), TIMES),
    min_size=1,
    max_size=6,
)
SPARK_TIMES_MS = range(-(2**63) // 1000, 2**63 // 1000)
"""What Spark can say; a record of another time it does not hand over."""


def as_librdkafka(records: Sequence[OddRecord]) -> RawBatch:
    return RawBatch(
        [0] * len(records),
        list(range(len(records))),
        [r.timestamp_ms for r in records],
        [r.key for r in records],
        [r.value for r in records],
        [_texts(r.headers) for r in records],
    )


def _texts(headers: Sequence[tuple[bytes, bytes | None]]) -> Headers | None:
    try:
        return [(name.partition(b"\0")[0].decode(), value) for name, value in headers] or None
    except UnicodeDecodeError:
        return [(NOT_TEXT, None)]


def as_spark(records: Sequence[OddRecord]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "timestamp": pa.array(
                [r.timestamp_ms * 1000 for r in records], pa.timestamp("us", "UTC")
            ),
            "timestampType": pa.array([0] * len(records), pa.int32()),
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": pa.array([r.value for r in records], pa.binary()),
            "headers": pa.array([_json(r.headers) for r in records], pa.string()),
            "large_key": pa.nulls(len(records), pa.int32()),
            "large_value": pa.nulls(len(records), pa.int32()),
        }
    )


def _json(headers: Sequence[tuple[bytes, bytes | None]]) -> str | None:
    """As Spark's to_json gives headers: bytes in base64, and no null."""
    entries = [
        {"key": name.decode(errors="replace")}
        | ({} if value is None else {"value": base64.b64encode(value).decode()})
        for name, value in headers
    ]
    return json.dumps(entries) if entries else None


def decoder(on_error: str, format_: str = "json") -> Decoder:
    own = Field("a", BIGINT) if format_ == "json" else columns.TOPIC_FIELDS[0]
    return Decoder(DecoderSpec("t", format_, on_error, (own, *columns.METADATA_FIELDS)))


def outcome(decoder_: Decoder, batch: RawBatch) -> tuple[list[dict[str, Any]], int] | str:
    """Rows and how many records were left out, or the error of the first bad one."""
    try:
        decoded = decoder_.decode(batch)
    except SeamlineError as error:
        return str(error)
    decoded.rows.validate(full=True)
    return decoded.rows.to_pylist(), decoded.skipped


@pytest.mark.parametrize("on_error", POLICIES)
@examples(100)
@given(records=RECORDS)
def test_any_record_is_decoded_alike_for_every_reader(
    records: list[OddRecord], on_error: str
) -> None:
    sayable = [r for r in records if r.timestamp_ms in SPARK_TIMES_MS]
    hot = outcome(decoder(on_error), as_librdkafka(sayable))
    assert outcome(decoder(on_error), decoding.raw_batch(as_spark(sayable))) == hot
    rows = outcome(decoder("null"), as_librdkafka(records))
    assert not isinstance(rows, str)
    assert rows[1] == 0


EVERY_PART = TopicBinding(
    "c",
    "t",
    key_format="string",
    on_error="null",
    columns_from=(
        "k = key, kb = key, vb = value, h = header.h, hb = header.h, hs = headers, hm = headers,"
        " at = timestamp, ms = timestamp, o = offset, p = partition",
    ),
)
PARTS = parse_fields(
    "a bigint, k varchar, kb varbinary, vb varbinary, h varchar, hb varbinary,"
    " hs array(row(n varchar, v varbinary)), hm map(varbinary, varchar),"
    " at timestamp(6), ms bigint, o bigint, p integer"
)


@examples(100)
@given(records=RECORDS)
def test_columns_from_every_part_are_decoded_alike_for_every_reader(
    records: list[OddRecord],
) -> None:
    sayable = [r for r in records if r.timestamp_ms in SPARK_TIMES_MS]
    made = Decoder(DecoderSpec.of(EVERY_PART, (*PARTS, *columns.METADATA_FIELDS)))
    hot = outcome(made, as_librdkafka(sayable))
    assert outcome(made, decoding.raw_batch(as_spark(sayable))) == hot
    assert not isinstance(hot, str)
    rows = hot[0]
    assert isinstance(rows, list)
    for place, (row, record) in enumerate(zip(rows, sayable, strict=True)):
        assert (row["kb"], row["vb"], row["o"]) == (record.key, record.value, place)


@given(records=RECORDS)
def test_no_time_or_header_makes_a_record_a_bad_one(records: list[OddRecord]) -> None:
    found = outcome(decoder("fail", "raw"), as_librdkafka(records))
    assert not isinstance(found, str), found
    rows = found[0]
    assert isinstance(rows, list)
    assert [row["value"] for row in rows] == [r.value for r in records]
    assert [row[columns.KEY] for row in rows] == [r.key for r in records]
    end = datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, datetime.UTC)
    for row, record in zip(rows, records, strict=True):
        moment = row[columns.TIMESTAMP]
        assert moment is None or moment <= end
        assert (moment is None) == (not 0 <= record.timestamp_ms <= 253_402_300_799_999)


LARGE = b'"' + b"x" * (PART_BYTES_MAX - 1) + b'"'
WIDTHS = ("value", "key", "both", "header")


def large(part: str) -> OddRecord:
    """A record of which one part is a byte too large, or both, or of which a header is."""
    return OddRecord(
        LARGE if part in ("value", "both") else b'{"a":1,"v":2}',
        LARGE if part in ("key", "both") else b"7",
        [(b"h", LARGE)] if part == "header" else [],
    )


def as_spark_leaves_out(records: Sequence[OddRecord]) -> pa.RecordBatch:
    """As `RECORD` of `connectors/spark/tail.py` has Spark hand over records."""
    sizes = {
        part: [len(v) if v is not None and len(v) > PART_BYTES_MAX else None for v in values]
        for part, values in (
            ("key", [r.key for r in records]),
            ("value", [r.value for r in records]),
        )
    }
    small = [
        OddRecord(
            None if sizes["value"][i] else r.value,
            None if sizes["key"][i] else r.key,
            [(NOT_TEXT.encode(), None)] if r.headers else [],
        )
        for i, r in enumerate(records)
    ]
    batch = as_spark(small)
    for part, found in sizes.items():
        place = batch.schema.get_field_index(f"large_{part}")
        batch = batch.set_column(place, f"large_{part}", pa.array(found, pa.int32()))
    return batch


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize("format_", ["json", "raw"])
@pytest.mark.parametrize("part", WIDTHS)
def test_a_part_too_large_is_bad_alike_for_every_reader(
    part: str, format_: str, on_error: str
) -> None:
    records = [OddRecord(b'{"a":1}', b"7"), large(part), OddRecord(b'{"a":3}', b"8")]
    made = decoder(on_error, format_)
    hot = outcome(made, as_librdkafka(records))
    assert outcome(made, decoding.raw_batch(as_spark_leaves_out(records))) == hot
    if part == "header":
        assert not isinstance(hot, str), hot
        assert hot[0][1][columns.HEADERS] == [{"key": None, "value": None}]
        assert hot[0][1][columns.ERROR] is None
    elif on_error == "fail":
        assert "offset 1" in str(hot)
        assert f"{len(LARGE):,} bytes, more than {PART_BYTES_MAX:,}" in str(hot)
    elif on_error == "skip":
        assert not isinstance(hot, str), hot
        assert [row[columns.OFFSET] for row in hot[0]] == [0, 2]
        assert hot[1] == 1
    else:
        assert not isinstance(hot, str), hot
        (_, row, _) = hot[0]
        assert "bytes, more than" in row[columns.ERROR]
        assert row[columns.KEY] == (b"7" if part == "value" else None)
        assert part != "both" or ("key: it has" in row[columns.ERROR])


@pytest.mark.parametrize("on_error", ["null", "skip"])
@pytest.mark.parametrize("part", WIDTHS[:3])
def test_a_part_too_large_deletes_no_row_of_an_upsert_table(part: str, on_error: str) -> None:
    binding = TopicBinding(
        "c",
        "t",
        mode="upsert",
        on_error=on_error,
        primary_key=("k",),
        key="k",
        key_partitions=1,
    )
    fields = parse_fields("k bigint, v bigint")
    made = Decoder(DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS)))
    records = [OddRecord(b'{"k":7,"v":1}', b"7"), large(part), OddRecord(None, b"8")]
    hot = outcome(made, as_librdkafka(records))
    assert outcome(made, decoding.raw_batch(as_spark_leaves_out(records))) == hot
    assert not isinstance(hot, str), hot
    deleted = {row[columns.OFFSET]: row[columns.DELETED] for row in hot[0]}
    assert deleted == ({0: False, 1: False, 2: True} if on_error == "null" else {0: False, 2: True})


def test_a_part_of_just_the_largest_size_is_no_bad_one() -> None:
    value = b"x" * PART_BYTES_MAX
    found = outcome(decoder("fail", "raw"), as_librdkafka([OddRecord(value, value)]))
    assert not isinstance(found, str)
    (row,) = found[0]
    assert (row["value"], row[columns.KEY]) == (value, value)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([b"h", b"\xc3\xa9"], [{"key": "h", "value": b"1"}, {"key": "é", "value": b"1"}]),
        ([b"h", b"\xff"], [{"key": None, "value": None}]),
        ([b""], [{"key": "", "value": b"1"}]),
        ([], None),
    ],
)
def test_headers_whose_names_are_no_text_are_told_from_none(
    names: list[bytes], expected: object
) -> None:
    record = OddRecord(b"{}", headers=[(name, b"1") for name in names])
    for batch in (as_librdkafka([record]), decoding.raw_batch(as_spark([record]))):
        (row,) = decoder("fail").decode(batch).rows.to_pylist()
        assert row[columns.HEADERS] == expected
