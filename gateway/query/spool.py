"""Results: spooled in chunks, so that a statement never waits for its reader.

A chunk is a complete Arrow IPC stream of a few megabytes. The first chunks stay in memory, as long
as neither all results together nor those of their owner hold too much there; the rest go to one
file on disk. A client may fetch them at its own pace, several times, and in any order, until the
result is released.
"""

from __future__ import annotations

import collections
import contextlib
import io
import pathlib
import secrets
import shutil
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from seamline.connectors.files import private_folder
from seamline.errors import (
    DISK_FULL,
    INVALID_ARGUMENT,
    RESULT_TOO_LARGE,
    STATEMENT_NOT_FOUND,
    SeamlineError,
)

CHUNK_BYTES = 4 << 20
CHUNK_ROWS = 65_536
MEMORY_BYTES = 16 << 20
"""Bytes that one result may hold in memory."""
ALL_MEMORY_BYTES = 256 << 20
"""Bytes that all results together may hold in memory, besides the first bytes of each."""
_FIRST_BYTES = 64 << 10
_NO_SPACE = 28


class SpoolMemory:
    """The memory that results hold. Safe to share between threads.

    Args:
        bytes_max: Bytes that they may hold together.
        shared: Whether there are several principals, each of whom may hold at most half of it.
    """

    def __init__(self, bytes_max: int = ALL_MEMORY_BYTES, *, shared: bool = False) -> None:
        self._bytes_max = bytes_max
        self._own_max = bytes_max // 2 if shared else bytes_max
        self._lock = threading.Lock()
        self._held: collections.Counter[str] = collections.Counter()

    def take(self, owner: str, size: int) -> bool:
        """Takes that many bytes if the owner may have them; returns whether it did."""
        with self._lock:
            may = self._held[owner] + size <= self._own_max
            if not may or self._held.total() + size > self._bytes_max:
                return False
            self._held[owner] += size
            return True

    def give_back(self, owner: str, size: int) -> None:
        """Gives back bytes that were taken."""
        with self._lock:
            self._held[owner] -= size
            if not self._held[owner]:
                del self._held[owner]


class SpoolDirectory:
    """Where the results of one gateway are kept; empty when it starts. Safe to share.

    Args:
        directory: The folder; whatever it holds is removed.
        size_bytes_max: The most bytes that one result may have.
        shared: Whether there are several principals.
    """

    def __init__(
        self, directory: pathlib.Path, *, size_bytes_max: int, shared: bool = False
    ) -> None:
        self._directory = directory
        self._size_bytes_max = size_bytes_max
        self._memory = SpoolMemory(shared=shared)
        self.clear()

    def open(self, schema: pa.Schema, name: str, owner: str) -> ResultSpool:
        """Opens a spool for the result of that name, which belongs to a principal."""
        path = self._directory / f"{name}.arrow"
        return ResultSpool(
            schema, path, self._memory, size_bytes_max=self._size_bytes_max, owner=owner
        )

    def open_unnamed(self, schema: pa.Schema) -> ResultSpool:
        """Opens a spool for rows that are held back before they become a result, by nobody."""
        return self.open(schema, f"{secrets.token_urlsafe(18)}.held", "")

    def clear(self) -> None:
        """Removes everything."""
        shutil.rmtree(self._directory, ignore_errors=True)


class ResultSpool:
    """The chunks of one result. One thread writes, any number read.

    Args:
        schema: Schema of the result.
        path: File for chunks that do not stay in memory; created when needed.
        memory: The memory that is shared by all results.
        size_bytes_max: The most bytes that the whole result may have.
        owner: The principal that it belongs to.
    """

    def __init__(
        self,
        schema: pa.Schema,
        path: pathlib.Path,
        memory: SpoolMemory,
        *,
        size_bytes_max: int,
        owner: str = "",
    ) -> None:
        self.schema = schema
        self.row_count = 0
        self.size_bytes = 0
        self._path = path
        self._owner = owner
        self._schema_bytes = len(schema.serialize())
        self._size_bytes_max = size_bytes_max
        self._changed = threading.Condition()
        self._chunks: list[bytes | tuple[int, int]] = []
        self._rows: list[int] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._memory = memory
        self._in_memory = self._taken = 0
        self._file: io.BufferedWriter | None = None
        self._complete = False
        self._closed = False

    @property
    def chunk_count(self) -> int:
        """The number of chunks that are ready."""
        return len(self._chunks)

    @property
    def chunk_rows(self) -> list[int]:
        """The number of rows in each chunk that is ready."""
        return list(self._rows)

    @property
    def complete(self) -> bool:
        """Whether no more chunks will come."""
        return self._complete

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows.

        Raises:
            SeamlineError: RESULT_TOO_LARGE, DISK_FULL.
        """
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            piece = batch.slice(start, CHUNK_ROWS)
            self._pending.append(piece)
            self._pending_bytes += piece.nbytes
            self.row_count += piece.num_rows
            if (
                self._pending_bytes >= CHUNK_BYTES
                or sum(b.num_rows for b in self._pending) >= CHUNK_ROWS
            ):
                self._flush()

    def finish(self) -> None:
        """Marks the end of the rows. A result always has at least one chunk."""
        if self._pending or not self._chunks:
            self._flush()
        with self._changed:
            self._complete = True
            self._changed.notify_all()

    def has_chunk(self, index: int, wait_s: float) -> bool:
        """Whether a chunk exists, once that is known or the time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._complete or index < len(self._chunks), wait_s
            )
            return index < len(self._chunks)

    def chunk(self, index: int, wait_s: float) -> bytes | None:
        """Returns a chunk, and waits for it if it is still to come.

        Returns:
            The Arrow IPC stream, or None when the time is up.

        Raises:
            SeamlineError: INVALID_ARGUMENT when there is no such chunk, STATEMENT_NOT_FOUND when
                the result has been released.
        """
        if index < 0:
            raise SeamlineError(INVALID_ARGUMENT, "chunks count from 0")
        self.has_chunk(index, wait_s)
        with self._changed:
            if self._closed:
                raise SeamlineError(STATEMENT_NOT_FOUND, "the result has been released")
            if index < len(self._chunks):
                found = self._chunks[index]
                return found if isinstance(found, bytes) else self._read(*found)
            if self._complete:
                raise SeamlineError(
                    INVALID_ARGUMENT, f"the result has {len(self._chunks)} chunks, none is {index}"
                )
            return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields every row that is ready, in order."""
        for index in range(self.chunk_count):
            data = self.chunk(index, 0.0)
            assert data is not None
            yield from read_chunk(data)

    def abort(self) -> None:
        """Wakes all waiting readers, because the statement failed."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()

    def close(self) -> None:
        """Releases memory and disk."""
        with self._changed:
            self._closed = True
            self._chunks = []
            self._pending = []
            self._memory.give_back(self._owner, self._taken)
            self._taken = 0
            if self._file is not None:
                with contextlib.suppress(OSError):  # what a full disk refused is not needed
                    self._file.close()
                self._path.unlink(missing_ok=True)
                self._file = None
            self._changed.notify_all()

    def _flush(self) -> None:
        size = sum(map(pa.ipc.get_record_batch_size, self._pending)) + self._schema_bytes
        self._check_size(size)
        rows = sum(batch.num_rows for batch in self._pending)
        self.size_bytes += size
        with self._changed:
            if self._closed:
                return
            self._chunks.append(self._keep(self._pending, size))
            self._rows.append(rows)
            self._changed.notify_all()
        self._pending, self._pending_bytes = [], 0

    def _check_size(self, more: int) -> None:
        if self.size_bytes + more > self._size_bytes_max:
            raise SeamlineError(
                RESULT_TOO_LARGE, f"the result is larger than {self._size_bytes_max:,} bytes"
            )

    def _keep(self, batches: Sequence[pa.RecordBatch], size: int) -> bytes | tuple[int, int]:
        if self._stays_in_memory(size):
            sink = io.BytesIO()
            self._write(batches, sink)
            return sink.getvalue()
        try:
            if self._file is None:
                private_folder(self._path.parent)
                self._file = self._path.open("wb")
            start = self._file.tell()
            self._write(batches, self._file)
            self._file.flush()
        except OSError as error:
            if error.errno == _NO_SPACE:
                raise SeamlineError(
                    DISK_FULL, f"no space for results at {self._path.parent}"
                ) from error
            raise
        return start, self._file.tell() - start

    def _write(self, batches: Sequence[pa.RecordBatch], sink: Any) -> None:
        with pa.ipc.new_stream(sink, self.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def _stays_in_memory(self, size: int) -> bool:
        total = self._in_memory + size
        if total > MEMORY_BYTES:
            return False
        if total > _FIRST_BYTES:
            if not self._memory.take(self._owner, size):
                return False
            self._taken += size
        self._in_memory = total
        return True

    def _read(self, start: int, size: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(size)


def read_chunk(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a chunk."""
    with pa.ipc.open_stream(data) as reader:
        yield from reader
