"""Goal: a result is read in any order and at any pace, and holds no more than it may.

Method: spools written and read by real threads, past the part that stays in memory.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from seamline.connectors.chunks import (
    CHUNK_ROWS,
    ChunkWriter,
    Filling,
    ResultFile,
    StoredChunk,
    read_chunk,
)
from seamline.errors import DISK_FULL, SeamlineError
from seamline.gateway.statements.spool import MEMORY_BYTES, ResultSpool, SpoolMemory

SCHEMA = pa.schema([("n", pa.int64())])
LARGE = pa.schema([("text", pa.large_binary())])


def spool(path: pathlib.Path, schema: pa.Schema = SCHEMA, most: int = 1 << 30) -> ResultSpool:
    return ResultSpool(schema, at(path / "results" / "r.arrow", most), SpoolMemory())


def at(path: pathlib.Path, most: int = 1 << 30) -> ResultFile:
    return ResultFile(str(path), most)


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], schema=SCHEMA)


def blob(fill: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([fill * (5 << 20)], pa.large_binary())], schema=LARGE)


def values(found: ResultSpool, index: int) -> list[int]:
    data = found.chunk(index, 0)
    assert data is not None
    return [n for batch in read_chunk(data) for n in batch.column(0).to_pylist()]


def refused(work: object) -> str:
    assert callable(work)
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


def test_rows_come_in_chunks_of_bounded_size(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    for start in range(0, 400_000, 50_000):
        found.write(numbers(start, 50_000))
    found.finish()
    assert sum(found.chunk_rows) == found.row_count == 400_000
    assert found.chunk_count > 1
    assert max(found.chunk_rows) < 2 * CHUNK_ROWS
    read = [n for index in range(found.chunk_count) for n in values(found, index)]
    assert read == list(range(400_000))


def test_an_empty_result_has_one_chunk(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    found.finish()
    assert (found.chunk_count, found.complete) == (1, True)
    assert values(found, 0) == []


def test_what_does_not_stay_in_memory_is_read_from_disk_in_any_order(
    tmp_path: pathlib.Path,
) -> None:
    found = spool(tmp_path, LARGE)
    fills = [bytes([65 + n]) for n in range(6)]
    for fill in fills:
        found.write(blob(fill))
    found.finish()
    assert found.size_bytes > MEMORY_BYTES
    assert (tmp_path / "results" / "r.arrow").stat().st_size > 0
    for index in (5, 0, 3, 5):
        data = found.chunk(index, 0)
        assert data is not None
        (batch,) = read_chunk(data)
        assert batch.column(0)[0].as_py()[:1] == fills[index]
    found.close()
    assert not (tmp_path / "results" / "r.arrow").exists()


def test_all_results_together_hold_so_much_in_memory(tmp_path: pathlib.Path) -> None:
    memory = SpoolMemory(11 << 20)
    files = [tmp_path / f"{n}.arrow" for n in range(4)]
    found = [ResultSpool(LARGE, at(file), memory) for file in files]
    for each in found[:3]:
        each.write(blob(b"x"))  # half as much as there is
        each.finish()
    assert [file.exists() for file in files] == [False, False, True, False]
    found[0].close()
    found[0].close()
    found[3].write(blob(b"y"))
    found[3].finish()
    assert not files[3].exists()
    small = ResultSpool(SCHEMA, at(tmp_path / "small.arrow"), memory)
    small.write(numbers(0, 10))
    small.finish()
    assert values(small, 0) == list(range(10))
    assert not (tmp_path / "small.arrow").exists(), "a small result always finds room"
    for each in found:
        each.close()


def test_one_principal_leaves_memory_to_others(tmp_path: pathlib.Path) -> None:
    memory = SpoolMemory(24 << 20, shared=True)
    owners = ("ann", "ann", "ann", "bob", "bob")
    files = [tmp_path / f"{n}.arrow" for n in range(len(owners))]
    found = [
        ResultSpool(LARGE, at(file), memory, owner=owner)
        for file, owner in zip(files, owners, strict=True)
    ]
    for each in found:
        each.write(blob(b"x"))  # half of a half
        each.finish()
        assert each.chunk(0, 0) is not None
    assert [file.exists() for file in files] == [False, False, True, False, False]
    for each in found:
        each.close()
    again = ResultSpool(LARGE, at(files[0]), memory, owner="ann")
    again.write(blob(b"y"))
    again.finish()
    assert not files[0].exists(), "what was released is there again"
    again.close()


def test_a_reader_waits_for_what_is_still_to_come(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    assert found.chunk(0, 0) is None
    got: list[bytes | None] = []
    reader = threading.Thread(target=lambda: got.append(found.chunk(0, 30)))
    reader.start()
    found.write(numbers(0, CHUNK_ROWS))
    reader.join(60)
    assert got[0] is not None


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (ResultSpool.finish, "INVALID_ARGUMENT"),
        (ResultSpool.close, "STATEMENT_NOT_FOUND"),
        (lambda ended: ended.abort(SeamlineError(DISK_FULL, "no space")), "DISK_FULL"),
    ],
)
def test_whoever_waits_is_woken_at_the_end(
    tmp_path: pathlib.Path, end: Callable[[ResultSpool], None], error: str
) -> None:
    found = spool(tmp_path)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(refused(lambda: found.chunk(7, 30))))
    reader.start()
    end(found)
    reader.join(60)
    assert got == [error]


def test_the_result_of_a_failed_statement_is_released_at_once(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path, LARGE)
    for fill in (b"a", b"b", b"c", b"d", b"e", b"f"):
        found.write(blob(fill))
    assert any((tmp_path / "results").iterdir())
    found.abort(SeamlineError(DISK_FULL, "no space"))
    assert not any((tmp_path / "results").iterdir())
    assert found.size_bytes == 0
    assert refused(lambda: found.chunk(0, 0)) == "DISK_FULL"
    found.write(blob(b"g"))  # its work has not noticed yet
    found.finish()
    assert not any((tmp_path / "results").iterdir())


def test_there_is_no_chunk_before_the_first_or_after_the_last(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    found.write(numbers(0, 1))
    found.finish()
    assert refused(lambda: found.chunk(1, 0)) == "INVALID_ARGUMENT"
    assert refused(lambda: found.chunk(-1, 0)) == "INVALID_ARGUMENT"
    found.close()
    assert refused(lambda: found.chunk(0, 0)) == "STATEMENT_NOT_FOUND"


def test_a_result_that_is_too_large_ends_by_name(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path, most=1000)
    found.write(numbers(0, 1000))
    assert refused(found.finish) == "RESULT_TOO_LARGE"


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_disk_ends_by_name(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path, LARGE)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "r.arrow").symlink_to("/dev/full")

    def write() -> None:
        for fill in (b"a", b"b", b"c", b"d"):
            found.write(blob(fill))

    assert refused(write) == "DISK_FULL"
    found.close()
    assert not (tmp_path / "results" / "r.arrow").is_symlink()


def written(path: pathlib.Path, *batches: pa.RecordBatch) -> list[StoredChunk]:
    """Each batch as a chunk of a file of an engine."""
    writer = ChunkWriter(at(path), SCHEMA)
    places = []
    for batch in batches:
        filling = Filling(SCHEMA)
        assert not list(filling.add(batch))
        (chunk,) = filling.rest()
        places.append((*writer.write(chunk), chunk.rows))
    writer.close()
    return [StoredChunk(str(path), *place) for place in places]


def test_what_an_engine_has_written_follows_what_was_given(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    path = tmp_path / "engine.arrow"
    found.write(numbers(0, 3))
    for chunk in written(path, numbers(3, 4), numbers(7, 1)):
        found.adopt(chunk)
    found.finish()
    assert (found.chunk_rows, found.row_count) == ([3, 4, 1], 8)
    assert [values(found, n) for n in (2, 0, 1)] == [[7], [0, 1, 2], [3, 4, 5, 6]]
    found.close()
    assert not path.exists()


def test_what_an_engine_has_written_is_removed_if_nobody_wants_it(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path)
    path = tmp_path / "engine.arrow"
    (chunk,) = written(path, numbers(0, 3))
    found.close()
    found.adopt(chunk)
    assert not path.exists()


def test_all_of_a_result_counts_whoever_has_written_it(tmp_path: pathlib.Path) -> None:
    found = spool(tmp_path, most=20_000)
    found.write(numbers(0, 1000))
    chunks = written(tmp_path / "engine.arrow", numbers(1000, 1000), numbers(2000, 1000))
    found.adopt(chunks[0])
    assert refused(lambda: found.adopt(chunks[1])) == "RESULT_TOO_LARGE"
    found.close()
