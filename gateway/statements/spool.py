"""Results: spooled in chunks, so that a statement never waits for its reader.

The first chunks stay in memory, as long as neither all results together nor those of their owner
hold too much there; the rest go to one file on disk. An engine may have written chunks to a file of
its own. A client may fetch them at its own pace, several times, and in any order, until the result
is released.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from seamline.connectors.chunks import (
    ChunkWriter,
    Filled,
    Filling,
    ResultFile,
    StoredChunk,
    check_size,
    chunk_of,
    read_chunk,
)
from seamline.connectors.dependencies import again
from seamline.errors import INVALID_ARGUMENT, STATEMENT_NOT_FOUND, SeamlineError

MEMORY_BYTES = 16 << 20
"""Bytes that one result may hold in memory."""
ALL_MEMORY_BYTES = 256 << 20
"""Bytes that all results together may hold in memory, besides the first bytes of each."""
_FIRST_BYTES = 64 << 10


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
        file = self._file(f"{name}.arrow")
        return ResultSpool(schema, file, self._memory, owner=owner)

    def file_for_engine(self, name: str) -> ResultFile:
        """Returns the file to which an engine may write the result of that name."""
        return self._file(f"{name}.engine.arrow")

    def open_unnamed(self, schema: pa.Schema) -> ResultSpool:
        """Opens a spool for rows that are held back before they become a result, by nobody."""
        return self.open(schema, f"{secrets.token_urlsafe(18)}.held", "")

    def clear(self) -> None:
        """Removes everything."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _file(self, name: str) -> ResultFile:
        return ResultFile(f"{self._directory}/{name}", self._size_bytes_max)


class ResultSpool:
    """The chunks of one result. One thread writes, any number read.

    Args:
        schema: Schema of the result.
        file: File for chunks that do not stay in memory; created when needed. All chunks together
            may be as large as the file may.
        memory: The memory that is shared by all results.
        owner: The principal that it belongs to.

    Attributes:
        on_early_rows: Called when the first chunk is ready while more rows may come.
    """

    def __init__(
        self, schema: pa.Schema, file: ResultFile, memory: SpoolMemory, *, owner: str = ""
    ) -> None:
        self.schema = schema
        self.row_count = 0
        self.size_bytes = 0
        self.on_early_rows: Callable[[], None] = _nothing
        self._file = file
        self._owner = owner
        self._changed = threading.Condition()
        self._chunks: list[bytes | StoredChunk] = []
        self._rows: list[int] = []
        self._filling = Filling(schema)
        self._memory = memory
        self._in_memory = self._taken = 0
        self._files: set[str] = set()
        self._writer: ChunkWriter | None = None
        self._ends = False
        self._complete = False
        self._closed = False
        self._error: SeamlineError | None = None

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
        self.row_count += batch.num_rows
        for chunk in self._filling.add(batch):
            self._keep(chunk)

    def adopt(self, chunk: StoredChunk) -> None:
        """Adds rows in a file that an engine has written, and that is removed with the rest.

        Raises:
            SeamlineError: RESULT_TOO_LARGE, DISK_FULL.
        """
        for rest in self._filling.rest():
            self._keep(rest)
        check_size(self.size_bytes + chunk.size_bytes, self._file.size_bytes_max)
        self.row_count += chunk.rows
        self._files.add(chunk.path)
        self._add(chunk, chunk.rows, chunk.size_bytes)

    def finish(self) -> None:
        """Marks the end of the rows. A result always has at least one chunk."""
        with self._changed:  # whoever sees the last chunk sees that it is the last
            self._ends = True
            for rest in self._filling.rest():
                self._keep(rest)
            if not self._chunks:
                self._keep(self._filling.take())
            if self._writer is not None:
                self._writer.close()
            self._complete = True
            self.on_early_rows = _nothing
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
                the result has been released; what the statement failed with.
        """
        chunk = self._chunk(index, wait_s)
        if not isinstance(chunk, StoredChunk):
            return chunk
        with self._named_if_released():
            return chunk.read()

    def pieces(self, index: int, wait_s: float) -> tuple[int, Iterator[bytes]] | None:
        """Returns the size of a chunk and its pieces, to be sent as they are read; see `chunk`.

        Raises:
            SeamlineError: as for `chunk`.
        """
        chunk = self._chunk(index, wait_s)
        if not isinstance(chunk, StoredChunk):
            return None if chunk is None else (len(chunk), iter([chunk]))
        with self._named_if_released():
            return chunk.size_bytes, chunk.pieces()

    def _chunk(self, index: int, wait_s: float) -> bytes | StoredChunk | None:
        if index < 0:
            raise SeamlineError(INVALID_ARGUMENT, "chunks count from 0")
        self.has_chunk(index, wait_s)
        with self._changed:
            if self._closed:
                raise again(self._error) if self._error is not None else _released()
            if index < len(self._chunks):
                return self._chunks[index]
            if self._complete:
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"the result has {len(self._chunks)} chunks; chunk {index} does not exist",
                )
            return None

    @contextlib.contextmanager
    def _named_if_released(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise (again(self._error) if self._error is not None else _released()) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields every row that is ready, in order."""
        for index in range(self.chunk_count):
            data = self.chunk(index, 0.0)
            assert data is not None
            yield from read_chunk(data)

    def chunks_in_memory(self, bytes_max: int) -> tuple[bytes, ...] | None:
        """Returns the chunks of a complete result; None if any is in a file, or they are large."""
        with self._changed:
            chunks = tuple(chunk for chunk in self._chunks if isinstance(chunk, bytes))
            is_small = self._complete and sum(map(len, chunks)) <= bytes_max
            return chunks if is_small and 0 < len(chunks) == len(self._chunks) else None

    def abort(self, error: SeamlineError) -> None:
        """Releases memory and disk, because the statement failed; readers get the error."""
        self._error = error
        self.close()

    def close(self) -> None:
        """Releases memory and disk."""
        with self._changed:
            self._closed = self._complete = True
            self.on_early_rows = _nothing
            self._chunks, self._rows = [], []
            self.size_bytes = 0
            self._memory.give_back(self._owner, self._taken)
            self._taken = 0
            if self._writer is not None:
                self._writer.close()
            self._remove_files()
            self._changed.notify_all()

    def _keep(self, chunk: Filled) -> None:
        """Keeps a chunk, in memory or in the file."""
        check_size(self.size_bytes + chunk.size_bytes, self._file.size_bytes_max)
        with self._changed:
            if self._closed:
                return
            if self._stays_in_memory(chunk.size_bytes):
                data = chunk_of(chunk.batches, self.schema).to_pybytes()
                self._add(data, chunk.rows, chunk.size_bytes)
                return
            if self._writer is None:
                self._files.add(self._file.path)
                self._writer = ChunkWriter(self._file, self.schema)
            start, size = self._writer.write(chunk)
            self._add(StoredChunk(self._file.path, start, size, chunk.rows), chunk.rows, size)

    def _add(self, chunk: bytes | StoredChunk, rows: int, size: int) -> None:
        with self._changed:
            if self._closed:
                self._remove_files()
                return
            self.size_bytes += size
            self._chunks.append(chunk)
            self._rows.append(rows)
            self._changed.notify_all()
            is_early = len(self._chunks) == 1 and not self._ends
        if is_early:
            self.on_early_rows()

    def _remove_files(self) -> None:
        for path in self._files:
            pathlib.Path(path).unlink(missing_ok=True)

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


def _released() -> SeamlineError:
    return SeamlineError(STATEMENT_NOT_FOUND, "the result has been released")


def _nothing() -> None:
    """Does nothing."""
