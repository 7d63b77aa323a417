"""Arrow batches in memory shared between processes: written once, read in place by all of them.

One sparse file without a name is mapped as a whole by all of them. The process that writes does so
by system calls: other threads run meanwhile, and no page is cleared first, or faults when it is
written. A batch takes a range of its pages and returns them to the system when nothing in the
writing process refers to it any more. So a process that hands a batch to another keeps it until the
other is done with it; only its position is sent.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import errno
import functools
import itertools
import mmap
import os
import resource
import tempfile
import threading
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from seamline.connectors import joined
from seamline.connectors.cache import Cache

PLACED_BYTES_MIN = 64 << 10
"""Smaller batches cost less to copy than to look up."""

_SIZE_BYTES = 1 << 38
"""Size of the address range; only what is in use takes memory."""

_SURPLUS_BYTES = 4096
"""How much buffers may hold besides their rows without being copied."""

_PARTS_MAX = 1024
"""How many parts the system writes in one call."""

_MAPPED_MAX = 4096
"""How many batches a reader keeps the outlines of."""

_Buffers: TypeAlias = tuple[int, ...]
"""Addresses of the buffers of an array; 0 where it has none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a batch is.

    Attributes:
        number: Its number among all batches ever placed; places are reused, numbers are not.
        start: Where it begins, in bytes.
        size_bytes: Its size.
    """

    number: int
    start: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedRows:
    """A part of a placed batch.

    Attributes:
        place: Where the batch is.
        columns: Positions of the columns taken from it.
        offset: The first row.
        length: The number of rows.
    """

    place: Place
    columns: tuple[int, ...]
    offset: int
    length: int


class SharedMemory:
    """The memory, as the writing process has it. Safe to share between threads.

    Attributes:
        fd: The file, for processes that are started with it.
    """

    def __init__(self) -> None:
        self.fd = _unnamed_file()
        self._size = _size_bytes()
        os.truncate(self.fd, self._size)
        self._map = mmap.mmap(self.fd, self._size)
        with contextlib.suppress(AttributeError, OSError):
            self._map.madvise(mmap.MADV_DONTDUMP)
        self._base = pa.py_buffer(self._map).address
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._free = [(0, self._size)]
        self._returned: collections.deque[tuple[int, int]] = collections.deque()
        self._columns: dict[_Buffers, tuple[Place, int, pa.DataType]] = {}

    def place(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows in shared memory; the batch itself if it is small or nothing is free."""
        if batch.nbytes < PLACED_BYTES_MIN:
            return batch
        parts = joined.packed(compact(batch))
        size = sum(part.nbytes for part in parts)
        start = self._take(size)
        if start is None:
            return batch
        place = Place(next(self._numbers), start, size)
        owner = _Owner(self, place)
        if not self._write(parts, start):
            return batch
        placed = joined.unpacked(pa.foreign_buffer(self._base + start, size, owner))
        keys = [_key(column, place) for column in placed.columns]
        for position, key in enumerate(keys):
            self._columns[key] = (place, position, placed.schema.types[position])
        owner.keys = keys
        return placed

    def _write(self, parts: Sequence[memoryview], start: int) -> bool:
        """Writes parts one after the other; returns False when there is no memory for them."""
        try:
            for some in (parts[n : n + _PARTS_MAX] for n in range(0, len(parts), _PARTS_MAX)):
                size = sum(part.nbytes for part in some)
                if os.pwritev(self.fd, some, start) < size:
                    return False
                start += size
        except OSError:
            return False
        return True

    def find(self, batch: pa.RecordBatch) -> PlacedRows | None:
        """Returns where the rows of a batch are, or None if it is not part of one placed batch."""
        first = self._columns.get(next(filter(any, map(_buffers, batch.columns)), ()))
        if first is None:
            return None
        place, positions = first[0], []
        for column in batch.columns:
            found, position, type_ = self._columns.get(_key(column, place), (None, 0, None))
            if found != place or column.type != type_:
                return None
            positions.append(position)
        offsets = {column.offset for column in batch.columns}
        if len(offsets) != 1:
            return None
        return PlacedRows(place, tuple(positions), offsets.pop(), batch.num_rows)

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        with self._lock:
            self._settle()
            return self._size - sum(end - start for start, end in self._free)

    def _take(self, size: int) -> int | None:
        length = _whole_pages(size)
        with self._lock:
            self._settle()
            for number, (start, end) in enumerate(self._free):
                if end - start >= length:
                    self._free[number : number + 1] = (
                        [(start + length, end)] if end - start > length else []
                    )
                    return start
        return None

    def _settle(self) -> None:
        """Merges the returned ranges into the free ranges."""
        while self._returned:
            start, end = self._returned.popleft()
            number = bisect.bisect(self._free, (start, end))
            if number < len(self._free) and self._free[number][0] == end:
                end = self._free.pop(number)[1]
            if number and self._free[number - 1][1] == start:
                number -= 1
                start = self._free.pop(number)[0]
            self._free.insert(number, (start, end))

    def _give_back(self, place: Place, keys: Sequence[_Buffers]) -> None:
        """Gives back a range. The garbage collector calls this at any time, so it takes no lock."""
        for key in keys:
            self._columns.pop(key, None)
        length = _whole_pages(place.size_bytes)
        with contextlib.suppress(AttributeError, OSError, ValueError):
            self._map.madvise(mmap.MADV_REMOVE, place.start, length)
        self._returned.append((place.start, place.start + length))


class _Owner:
    """Kept alive by the buffers of a placed batch; frees the batch's pages when it is collected."""

    def __init__(self, memory: SharedMemory, place: Place) -> None:
        self._memory = memory
        self._place = place
        self.keys: Sequence[_Buffers] = ()

    def __del__(self) -> None:
        self._memory._give_back(self._place, self.keys)  # noqa: SLF001 - a part of it


class MappedMemory:
    """The memory, as another process reads it.

    Args:
        fd: The file.
    """

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        self._base = pa.py_buffer(self._map).address
        self._batches: Cache[Place, pa.RecordBatch] = Cache(_MAPPED_MAX)

    def columns(self, rows: PlacedRows) -> list[pa.Array]:
        """Returns the rows as columns; valid as long as their owner keeps the batch."""
        place = rows.place
        batch = self._batches.get_or_make(
            place,
            lambda: joined.unpacked(
                pa.foreign_buffer(self._base + place.start, place.size_bytes, self)
            ),
        )
        columns = [batch.column(position) for position in rows.columns]
        if rows.length == batch.num_rows:
            return columns
        return [column.slice(rows.offset, rows.length) for column in columns]


@functools.cache
def shared_memory() -> SharedMemory:
    """Returns the one memory that this process shares."""
    return SharedMemory()


def _size_bytes() -> int:
    """Returns `_SIZE_BYTES`, or the process's limit on the size of files if that is less."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not allowed:
        raise OSError(errno.EFBIG, "files may hold nothing")
    return _SIZE_BYTES if allowed == resource.RLIM_INFINITY else min(allowed, _SIZE_BYTES)


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("seamline")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the same rows without the rest of the batch that they are a slice of."""
    if batch.get_total_buffer_size() <= 2 * batch.nbytes + _SURPLUS_BYTES:
        return batch
    return pa.concat_batches([batch, batch.slice(0, 0)])  # one batch alone would not be copied


def _key(array: pa.Array, place: Place) -> _Buffers:
    """Returns what tells a column of a placed batch from all others.

    Nulls alone have no buffers, so they are told by their batch.
    """
    buffers = _buffers(array)
    return buffers if any(buffers) else (-1, place.number)


def _buffers(array: pa.Array) -> _Buffers:
    return tuple(0 if buffer is None else buffer.address for buffer in array.buffers())


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
