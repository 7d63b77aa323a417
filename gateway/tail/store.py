"""The segments that a gateway caches: counted, spilled, and freed when nobody uses them any longer.

All tables share one budget of memory and one of disk. A segment counts from when it is cached until
its last user has released it: trimming it does not free what a statement still reads. The store
says when there is too much in memory; `followers` decides what is spilled.
"""

from __future__ import annotations

import dataclasses
import errno
import pathlib
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence

import pyarrow as pa

from seamline.connectors.files import private_folder
from seamline.gateway.tail.segments import Segment, spill

_HIGH_WATER = 5 / 8


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What is in use, in bytes."""

    memory_bytes: int
    disk_bytes: int


class SegmentStore:
    """Counts segments. Safe to share between threads.

    Args:
        memory_bytes_max: Decoded bytes that may be held in memory.
        disk_bytes_max: Bytes of files that may be held on disk; 0 spills nothing.
        directory: Where the files are kept; emptied now and at the end.
    """

    def __init__(
        self, *, memory_bytes_max: int, disk_bytes_max: int, directory: pathlib.Path
    ) -> None:
        self.memory_bytes_max = memory_bytes_max
        self.disk_bytes_max = disk_bytes_max
        self._directory = directory
        self._lock = threading.Lock()
        self._uses: dict[Segment, int] = {}
        self._memory = 0
        self._disk = 0
        self._forgotten: deque[tuple[Segment, ...]] = deque()
        shutil.rmtree(directory, ignore_errors=True)

    @property
    def usage(self) -> Usage:
        """What is in use now."""
        with self._lock:
            self._release_forgotten()
            return Usage(self._memory, self._disk)

    @property
    def is_over_budget(self) -> bool:
        """Whether there is more in memory than there should be.

        Part of the budget is reserved for what is being read, merged and written.
        """
        return self.usage.memory_bytes > self.memory_bytes_max * _HIGH_WATER

    def retain(self, segments: Iterable[Segment]) -> None:
        """Adds a user to each segment; the first one makes it count against the budget."""
        with self._lock:
            for segment in segments:
                uses = self._uses.get(segment, 0)
                self._uses[segment] = uses + 1
                if not uses:
                    self._count(segment, 1)

    def release(self, segments: Iterable[Segment]) -> None:
        """Removes a user from each segment; the last one frees the memory or deletes the file."""
        with self._lock:
            self._release(segments)
            self._release_forgotten()

    def _release_forgotten(self) -> None:
        """Releases references that were garbage collected.

        They are counted here, not in the garbage collector.
        """
        while self._forgotten:
            self._release(self._forgotten.popleft())

    def _release(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            self._uses[segment] -= 1
            if not self._uses[segment]:
                del self._uses[segment]
                self._count(segment, -1)
                if segment.file is not None:
                    segment.file.unlink(missing_ok=True)

    def is_shared(self, segment: Segment) -> bool:
        """Whether anybody besides its follower uses the segment."""
        with self._lock:
            return self._uses.get(segment, 0) > 1

    def references(self, segments: Sequence[Segment]) -> References:
        """Retains segments for a statement. Their follower must retain them at the time."""
        self.retain(segments)
        return References(self, tuple(segments), self._forgotten)

    def spilled(self, segment: Segment) -> Segment | None:
        """Returns the segment written to a file, retained once; None if the disk has no room."""
        if self.usage.disk_bytes >= self.disk_bytes_max:
            return None
        try:
            private_folder(self._directory)
            written = spill(segment, self._directory)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                return None
            raise
        with self._lock:
            if self._disk + written.size_bytes <= self.disk_bytes_max:
                self._uses[written] = 1
                self._count(written, 1)
                return written
        assert written.file is not None
        written.file.unlink(missing_ok=True)
        return None

    def close(self) -> None:
        """Deletes the files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def give_back(self) -> None:
        """Returns to the system the memory that Arrow has freed."""
        pa.default_memory_pool().release_unused()

    def _count(self, segment: Segment, sign: int) -> None:
        if segment.file is not None:
            self._disk += sign * segment.size_bytes
        else:
            self._memory += sign * segment.size_bytes


class References:
    """Segments that a statement uses, until they are released or this object is collected."""

    def __init__(
        self,
        store: SegmentStore,
        segments: tuple[Segment, ...],
        forgotten: deque[tuple[Segment, ...]],
    ) -> None:
        self.segments = segments
        self._store = store
        self._forget = weakref.finalize(self, forgotten.append, segments)

    def release(self) -> None:
        """Releases them; calling it again does nothing."""
        if self._forget.detach() is not None:
            self._store.release(self.segments)
