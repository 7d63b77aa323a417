"""Goal: a batch in shared memory is the batch, wherever it is read, and its memory is given back.

Method: a batch with columns of every shape is placed; slices and choices of its columns are looked
up and read through a mapping of its own, as another process has it.
"""

from __future__ import annotations

import gc
import itertools
import os
import pathlib

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from support.examples import examples

from seamline.connectors import shared_memory as module
from seamline.connectors.shared_memory import MappedMemory, PlacedRows, SharedMemory

ROWS = 20_000


@pytest.fixture
def memory() -> SharedMemory:
    return SharedMemory()


def batch_of(count: int = ROWS) -> pa.RecordBatch:
    numbers = list(range(count))
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": pa.array([None if n % 7 == 0 else f"text {n}" for n in numbers]),
            "decimal": pa.array([n % 100 for n in numbers], pa.decimal128(38, 0)),
            "moment": pa.array(numbers, pa.timestamp("us", "UTC")),
            "list": pa.array([[n] * (n % 3) for n in numbers], pa.list_(pa.int32())),
            "row": pa.array([{"a": n, "b": {"c": str(n)}} for n in numbers]),
            "map": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
            "bytes": pa.array([bytes([n % 256]) for n in numbers], pa.binary()),
            "fixed": pa.array([n.to_bytes(16, "big") for n in numbers], pa.binary(16)),
            "null": pa.nulls(count),
            "flag": pa.array([n % 2 == 0 for n in numbers]),
        }
    )


def read(mapped: MappedMemory, found: PlacedRows, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(mapped.columns(found), schema=schema)


@examples(100)
@hypothesis.given(
    columns=st.lists(st.sampled_from(batch_of(0).schema.names), min_size=1, unique=True),
    start=st.integers(0, ROWS),
    length=st.integers(0, ROWS),
)
def test_a_slice_of_some_columns_is_read_where_it_lies(
    columns: list[str], start: int, length: int
) -> None:
    wanted = PLACED.slice(start, length).select(columns)
    found = MEMORY.find(wanted)
    assert (found is None) is (columns == ["null"])
    if found is not None:
        there = read(MAPPED, found, wanted.schema)
        there.validate(full=True)
        assert there.equals(BATCH.slice(start, length).select(columns))


BATCH = batch_of()
MEMORY = SharedMemory()
PLACED = MEMORY.place(BATCH)
MAPPED = MappedMemory(MEMORY.fd)


def test_what_was_placed_is_equal_and_aligned(memory: SharedMemory) -> None:
    placed = memory.place(BATCH)
    placed.validate(full=True)
    assert placed.equals(BATCH)
    buffers = [b for column in placed.columns for b in column.buffers() if b is not None]
    assert all(buffer.address % 64 == 0 for buffer in buffers)


def test_a_small_batch_stays_where_it_is(memory: SharedMemory) -> None:
    small = batch_of(3)
    assert memory.place(small) is small
    assert memory.find(small) is None
    assert memory.used_bytes == 0


def test_a_slice_is_placed_without_the_rest(memory: SharedMemory) -> None:
    whole = memory.place(BATCH)
    before = memory.used_bytes
    part = memory.place(BATCH.slice(ROWS // 2, ROWS // 10))
    assert part.equals(BATCH.slice(ROWS // 2, ROWS // 10))
    assert memory.used_bytes - before < before / 5
    assert whole.num_rows == ROWS


def test_columns_of_two_batches_are_no_part_of_one(memory: SharedMemory) -> None:
    one, other = memory.place(BATCH), memory.place(BATCH)
    mixed = pa.record_batch({"n": one.column("n"), "text": other.column("text")})
    assert memory.find(mixed) is None
    shifted = pa.record_batch(
        {"n": one.column("n").slice(1), "text": one.column("text").slice(0, ROWS - 1)}
    )
    assert memory.find(shifted) is None


def test_nulls_alone_are_not_taken_for_those_of_another_batch(memory: SharedMemory) -> None:
    one, other = memory.place(BATCH), memory.place(batch_of(ROWS // 2))
    assert memory.find(one.select(["null"])) is None, "other has as good a claim to them"
    for placed in (one, other):
        found = memory.find(placed.select(["null", "n"]))
        assert found is not None
        assert found.place == getattr(memory.find(placed.select(["n"])), "place", None)


def test_a_field_of_a_row_is_not_the_row(memory: SharedMemory) -> None:
    placed = memory.place(BATCH)
    inner = pa.record_batch({"row": placed.column("row").field("a")})
    assert memory.find(inner) is None


def test_memory_is_given_back_and_used_again(memory: SharedMemory) -> None:
    def start_of(batch: pa.RecordBatch) -> int:
        found = memory.find(batch)
        assert found is not None
        return found.place.start

    columns = [name for name in BATCH.schema.names if name != "null"]
    batch = BATCH.select(columns)
    kept = [memory.place(batch) for _ in range(8)]
    full, size = memory.used_bytes, memory.used_bytes // 8
    starts = [start_of(one) for one in kept]
    part = kept[3].slice(5, 5).column("text")  # as long as one buffer is in use, all are
    for number in (1, 3, 2, 6):
        kept[number] = pa.record_batch({})
    gc.collect()
    assert memory.used_bytes == full - 3 * size
    assert part.to_pylist() == BATCH.column("text").slice(5, 5).to_pylist()
    again = [memory.place(batch) for _ in range(2)]
    assert sorted(map(start_of, again)) == sorted((starts[1], starts[2]))
    assert all(one.equals(batch) for one in again)
    del part, kept, again, batch
    gc.collect()
    assert memory.used_bytes == 0


@pytest.mark.prove
def test_a_place_that_is_used_again_shows_what_is_there_now(memory: SharedMemory) -> None:
    mapped = MappedMemory(memory.fd)
    columns = ["n", "text"]
    for count in itertools.islice(itertools.count(ROWS, 7), 5):
        batch = batch_of(count).select(columns)
        placed = memory.place(batch)
        found = memory.find(placed)
        assert found is not None
        assert found.place.start == 0
        assert read(mapped, found, batch.schema).equals(batch)
        del placed
        gc.collect()


def test_when_nothing_is_free_a_batch_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SIZE_BYTES", 1 << 22)
    memory = SharedMemory()
    kept = [memory.place(BATCH) for _ in range(8)]
    assert any(memory.find(one.select(["n"])) is None for one in kept)
    assert all(one.equals(BATCH) for one in kept)


def test_a_batch_of_many_columns_is_written_whole(memory: SharedMemory) -> None:
    columns = 2 * module._PARTS_MAX
    wide = pa.record_batch({f"c{n}": pa.array([n, n + 1, None] * 5) for n in range(columns)})
    placed = memory.place(wide)
    assert memory.find(placed) is not None
    assert placed.equals(wide)


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_when_no_memory_is_left_a_batch_stays_where_it_is(memory: SharedMemory) -> None:
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, memory.fd)
    os.close(full)
    assert memory.place(BATCH) is BATCH
    gc.collect()
    assert memory.used_bytes == 0
