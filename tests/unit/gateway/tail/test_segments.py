"""Segments: cut by position, merged, spilled and read back, always the rows of their offsets.

Method: records with gaps, bad ones among them, are decoded into segments of some sizes; every cut
must be what decoding its own records gives.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random

import pyarrow as pa
import pytest
from support.tails import decoder, value

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.tail.assembly import skipped_records
from seamline.gateway.tail.segments import (
    JOINED_RECORDS_MAX,
    MERGED_BYTES,
    Segment,
    Slice,
    build,
    build_all,
    merge,
    mergeable,
    spill,
)
from seamline.gateway.tail.source import RowSource
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql import types
from seamline.sql.columns import METADATA_FIELDS, OFFSET
from seamline.sql.predicates import Comparison, In
from seamline.sql.types import Field

OFFSETS = (3, 4, 7, 8, 9, 15, 16)


def batch(offsets: tuple[int, ...], bad: frozenset[int] = frozenset()) -> RawBatch:
    count = len(offsets)
    return RawBatch(
        [0] * count,
        offsets,
        [1] * count,
        [b"k"] * count,
        [b"{" if offset in bad else value(offset) for offset in offsets],
        [None] * count,
    )


def segment(
    start: int = 2,
    end: int = 18,
    bad: frozenset[int] = frozenset(),
    spec: DecoderSpec | None = None,
) -> Segment:
    spec = spec or decoder()
    source = RowSource("topic-1", READ_COMMITTED, spec, 0)
    inside = tuple(offset for offset in OFFSETS if start <= offset < end)
    return build(source, Decoder(spec), batch(inside, bad), OffsetRange(0, start, end))


def offsets_of(cut: Slice) -> list[int]:
    found: list[int] = cut.rows.column(OFFSET).to_pylist()
    return found


@pytest.mark.parametrize("start", range(2, 19))
@pytest.mark.parametrize("end", [2, 3, 4, 8, 14, 15, 16, 17, 18])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_cut_is_the_rows_of_its_offsets(
    scratch: pathlib.Path, start: int, end: int, on_disk: bool
) -> None:
    whole = spill(segment(), scratch) if on_disk else segment()
    cut = Slice(whole, max(start, 2), max(start, min(end, 18)))
    expected = [o for o in OFFSETS if cut.start <= o < cut.end_exclusive]
    assert offsets_of(cut) == expected
    assert cut.row_count == len(expected)


def test_the_second_time_rows_are_looked_up(scratch: pathlib.Path) -> None:
    cut = Slice(segment(), 4, 16)
    condition = In(OFFSET, (3, 8, 16))
    assert cut.looked_up(condition, [OFFSET]) is None
    rows = cut.looked_up(condition, [OFFSET])
    assert rows is not None
    assert rows.column(OFFSET).to_pylist() == [8]
    assert cut.looked_up(Comparison(OFFSET, ">", 3), [OFFSET]) is None, "these are many"
    on_disk = Slice(spill(cut.segment, scratch), 4, 16)
    assert [on_disk.looked_up(condition, [OFFSET]) for _ in range(2)] == [None, None]


def test_only_a_cut_of_everything_is_whole() -> None:
    whole = segment()
    assert Slice(whole, 2, 18).whole
    assert Slice(whole, 0, 30).whole
    assert not Slice(whole, 3, 18).whole
    assert not Slice(whole, 2, 17).whole


def test_cutting_copies_nothing() -> None:
    whole = segment()
    assert whole.rows is not None
    cut = Slice(whole, 4, 10).rows
    assert cut.column(OFFSET).buffers()[1].address == whole.rows.column(OFFSET).buffers()[1].address


@pytest.mark.parametrize("on_disk", [False, True])
def test_bad_records_belong_to_their_offset(scratch: pathlib.Path, on_disk: bool) -> None:
    whole = segment(bad=frozenset({7, 15}))
    whole = spill(whole, scratch) if on_disk else whole
    first, second = Slice(whole, 2, 18).bad
    assert (first.offset, second.offset) == (7, 15)
    assert first.reason.startswith("not JSON")
    assert [entry.offset for entry in Slice(whole, 8, 18).bad] == [15]
    assert Slice(whole, 8, 15).bad == ()


def test_records_left_out_are_counted_where_they_were() -> None:
    whole = segment(bad=frozenset({7, 15}), spec=decoder("skip"))
    cuts = [Slice(whole, 2, 18), Slice(whole, 8, 18), Slice(whole, 8, 15)]
    assert [skipped_records([cut], decoder("skip")) for cut in cuts] == [2, 1, 0]
    assert offsets_of(Slice(whole, 2, 18)) == [3, 4, 8, 9, 16]
    assert whole.records == len(OFFSETS)


def test_bad_records_are_rows_of_nulls_under_that_policy() -> None:
    whole = segment(bad=frozenset({7}), spec=decoder("null"))
    row = Slice(whole, 7, 8).rows.to_pylist()[0]
    assert row["id"] is None
    assert row["_kafka_error"].startswith("not JSON")
    assert Slice(whole, 2, 18).bad == ()


@pytest.mark.parametrize("policy", ["fail", "null", "skip"])
def test_merged_neighbours_are_one_segment(policy: str) -> None:
    spec = decoder(policy)
    bad = frozenset({4, 15})
    parts = [segment(a, b, bad, spec) for a, b in ((2, 5), (5, 9), (9, 18))]
    merged, whole = merge(parts), segment(2, 18, bad, spec)
    assert merged.segment_id == whole.segment_id
    assert merged.range == whole.range
    assert merged.load().equals(whole.load())
    for name in ("records", "value_bytes", "bad", "row_count"):
        assert getattr(merged, name) == getattr(whole, name)


def test_a_merged_segment_shares_no_memory_with_its_parts() -> None:
    parts = [segment(2, 9), segment(9, 18)]
    merged = merge(parts)
    mine = {b.address for c in merged.load().columns for b in c.buffers() if b is not None}
    for part in parts:
        theirs = {b.address for c in part.load().columns for b in c.buffers() if b is not None}
        assert not mine & theirs - {0}


def test_the_id_names_everything_that_makes_the_rows() -> None:
    def digest(topic_id: str, spec: DecoderSpec, schema_id: int = 0) -> str:
        return RowSource(topic_id, READ_COMMITTED, spec, schema_id).digest

    field = Field("id", types.BIGINT, 1)
    others = [
        digest("topic-2", decoder()),
        digest("topic-1", decoder("null")),
        digest("topic-1", decoder(), 1),
        digest("topic-1", decoder(columns=(field,))),
        digest("topic-1", decoder(columns=(Field("id", types.BIGINT, 9),))),
        digest("topic-1", decoder(columns=(Field("id", types.BIGINT, 1, aliases=("old",)),))),
        digest("topic-1", decoder(columns=(Field("id", types.BIGINT, 1, write_default=3),))),
    ]
    assert len({digest("topic-1", decoder()), *others}) == len(others) + 1
    assert digest("topic-1", decoder()) == digest("topic-1", decoder())


def test_every_type_comes_back_from_disk(scratch: pathlib.Path) -> None:
    columns = (
        Field("b", types.BOOLEAN, 1),
        Field("r", types.REAL, 2),
        Field("n", types.Decimal(20, 4), 3, required=True),
        Field("x", types.Varbinary(), 4),
        Field("u", types.UUID, 5),
        Field("d", types.DATE, 6),
        Field("c", types.TIME, 7),
        Field("t", types.TIMESTAMP, 8),
        Field("z", types.TIMESTAMP_TZ, 9),
        Field("a", types.Array(types.Row((Field("p", types.INTEGER, 11),)), 10), 12),
        Field("m", types.Map(types.VARCHAR, types.BIGINT, 13, 14), 15),
    )
    values = [
        b'{"b":true,"r":1.5,"n":"1.25","x":"AAE=","u":"6f9619ff-8b86-d011-b42d-00c04fc964ff",'
        b'"d":"2024-02-29","c":"01:02:03.000004","t":"2024-02-29T01:02:03.000004",'
        b'"z":"2024-02-29T01:02:03Z","a":[{"p":1},null],"m":{"k":null}}',
        b'{"n":2}',
        b"{",
    ]
    spec = DecoderSpec("t", "json", "null", (*columns, *METADATA_FIELDS))
    raw = RawBatch([0] * 3, [0, 1, 2], [1] * 3, [None] * 3, values, [[("h", b"1")], None, None])
    source = RowSource("topic-1", READ_COMMITTED, spec, 0)
    here = build(source, Decoder(spec), raw, OffsetRange(0, 0, 3))
    there = spill(here, scratch)
    assert there.rows is None
    assert there.load().schema.equals(here.load().schema, check_metadata=True)
    assert there.load().equals(here.load())
    assert there.file is not None
    stored = pa.parquet.read_schema(there.file)
    assert stored.field("z").metadata[b"PARQUET:field_id"] == b"9"


def test_small_neighbours_are_merged_and_large_ones_are_not() -> None:
    def sized(size: int, count: int) -> list[Segment]:
        import dataclasses

        return [dataclasses.replace(segment(), size_bytes=size) for _ in range(count)]

    assert not mergeable([])
    assert not mergeable(sized(1000, 7))
    assert len(mergeable(sized(1000, 8))) == 8
    assert len(mergeable(sized(1 << 20, 3) + sized(1000, 8))) == 8
    assert not mergeable(sized(1000, 8) + sized(1 << 20, 1))
    assert not mergeable(sized(MERGED_BYTES // 2, 20))
    merged = sum(s.size_bytes for s in mergeable(sized(MERGED_BYTES // 2 - 1, 8)))
    assert MERGED_BYTES <= merged <= MERGED_BYTES * 3 // 2


@pytest.mark.parametrize("on_error", ["fail", "skip", "null"])
def test_partitions_decoded_together_are_as_each_decoded_alone(on_error: str) -> None:
    """Partitions without a row, large ones and bad records among them."""
    spec = decoder(on_error)
    source = RowSource("topic-1", READ_COMMITTED, spec, 0)
    drawn = random.Random(f"together {on_error}")
    parts = []
    for partition in drawn.sample(range(40), 20):
        count = drawn.choice([1, 2, 5, JOINED_RECORDS_MAX, JOINED_RECORDS_MAX + 3])
        offsets = tuple(sorted(drawn.sample(range(2 * count), count)))
        bad = frozenset(o for o in offsets if drawn.random() < drawn.choice([0.0, 0.5, 1.0]))
        raw = dataclasses.replace(batch(offsets, bad), partitions=[partition] * count)
        parts.append((raw, OffsetRange(partition, 0, 2 * count)))
    together = build_all(source, Decoder(spec), parts)
    assert any(segment.row_count == 0 for segment in together) == (on_error == "skip")
    for (raw, covers), found in zip(parts, together, strict=True):
        alone = build(source, Decoder(spec), raw, covers)
        assert found.rows is not None
        assert found.rows.equals(alone.rows)
        assert found.size_bytes <= alone.size_bytes + 1024
        for name in ("range", "records", "value_bytes", "bad", "row_count"):
            assert getattr(found, name) == getattr(alone, name), name
