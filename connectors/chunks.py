"""Chunks: Arrow IPC streams of a few megabytes, each complete, in which results wait and travel.

Chunks that are in a file are written one after the other, and read in any order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from seamline.connectors.files import disk_full, is_full, private_folder
from seamline.errors import RESULT_TOO_LARGE, SeamlineError

CHUNK_BYTES = 4 << 20
CHUNK_ROWS = 131_072
_PIECE_BYTES = 256 << 10


class Filling:
    """Batches that become a chunk once there are enough of them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema_bytes = len(schema.serialize())
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[Filled]:
        """Adds rows; yields what is full."""
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            piece = batch.slice(start, CHUNK_ROWS)
            self._batches.append(piece)
            self._bytes += piece.nbytes
            self._rows += piece.num_rows
            if self._bytes >= CHUNK_BYTES or self._rows >= CHUNK_ROWS:
                yield self.take()

    def rest(self) -> Iterator[Filled]:
        """Yields the rest, if any."""
        if self._batches:
            yield self.take()

    def take(self) -> Filled:
        """Returns what there is, and starts over."""
        size = sum(map(pa.ipc.get_record_batch_size, self._batches)) + self._schema_bytes
        filled = Filled(self._batches, self._rows, size)
        self._batches, self._bytes, self._rows = [], 0, 0
        return filled


@dataclasses.dataclass(frozen=True, slots=True)
class Filled:
    """The batches of a chunk that is to be written, their rows, and about its size in bytes."""

    batches: Sequence[pa.RecordBatch]
    rows: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk in a file."""

    path: str
    start: int
    size_bytes: int
    rows: int

    def read(self) -> bytes:
        """Returns the Arrow IPC stream.

        Raises:
            FileNotFoundError: when the file has been removed.
        """
        with pathlib.Path(self.path).open("rb") as file:
            file.seek(self.start)
            return file.read(self.size_bytes)

    def pieces(self) -> Iterator[bytes]:
        """Returns the Arrow IPC stream in pieces that are small enough to use the same memory.

        Raises:
            FileNotFoundError: when the file has been removed.
        """
        return _pieces(pathlib.Path(self.path).open("rb", buffering=0), self.start, self.size_bytes)


def _pieces(file: io.FileIO, start: int, size_bytes: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while size_bytes > 0 and (piece := file.read(min(_PIECE_BYTES, size_bytes))):
            size_bytes -= len(piece)
            yield piece


@dataclasses.dataclass(frozen=True, slots=True)
class ResultFile:
    """A file that does not exist yet, for the chunks of one result.

    Attributes:
        path: Its path; missing folders are created, private to their owner.
        size_bytes_max: The most bytes that it may have.
    """

    path: str
    size_bytes_max: int


class ChunkWriter:
    """Writes chunks to a file that it creates. Safe to close twice; the file stays.

    Raises:
        SeamlineError: DISK_FULL.
    """

    def __init__(self, file: ResultFile, schema: pa.Schema) -> None:
        self._folder = pathlib.Path(file.path).parent
        self._size_bytes_max = file.size_bytes_max
        self._schema = schema
        self._end = 0
        with self._named_errors():
            private_folder(self._folder)
            self._file = pa.OSFile(file.path, "wb")

    def write(self, chunk: Filled) -> tuple[int, int]:
        """Writes a chunk; returns where it begins, and its size in bytes.

        Raises:
            SeamlineError: RESULT_TOO_LARGE, DISK_FULL.
        """
        check_size(self._end + chunk.size_bytes, self._size_bytes_max)
        start = self._end
        with self._named_errors():
            write_chunk(chunk.batches, self._schema, self._file)
            self._end = self._file.tell()
        return start, self._end - start

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(OSError):  # what a full disk refused is not needed
            self._file.close()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if is_full(error):
                raise disk_full(self._folder, ", where results are kept") from error
            raise


def write_chunk(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any, codec: str | None = None
) -> None:
    """Writes a chunk to something that Arrow can write to.

    Args:
        batches: Its rows.
        schema: Their schema.
        sink: What it is written to.
        codec: How its buffers are compressed: `lz4`, `zstd` or None.
    """
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def chunk_of(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, codec: str | None = None
) -> pa.Buffer:
    """Returns a chunk in memory; the arguments are those of `write_chunk`."""
    sink = pa.BufferOutputStream()
    write_chunk(batches, schema, sink, codec)
    return sink.getvalue()


def read_chunk(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a chunk."""
    with pa.ipc.open_stream(data) as reader:
        yield from reader


def compressed(data: bytes, codec: str) -> bytes:
    """Returns a chunk with the same rows whose buffers are compressed with `lz4` or `zstd`."""
    reader = pa.ipc.open_stream(data)
    return chunk_of(reader, reader.schema, codec).to_pybytes()  # type: ignore[no-any-return]


def check_size(size_bytes: int, size_bytes_max: int) -> None:
    """Checks that a result is not too large.

    Raises:
        SeamlineError: RESULT_TOO_LARGE.
    """
    if size_bytes > size_bytes_max:
        raise SeamlineError(RESULT_TOO_LARGE, f"the result is larger than {size_bytes_max:,} bytes")
