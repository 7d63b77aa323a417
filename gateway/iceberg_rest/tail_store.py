"""Tail files, written once and used by every virtual snapshot that holds their offsets.

A segment holds the rows of some ranges of offsets, as data files with their manifests. A tail is
covered by the segments that lie inside it; the rest is read and written as further segments. If a
tail has become many small segments, they are merged. Segments are leased: a segment that is no
longer requested is removed, since it can always be written again.

The tail of an upsert table is one segment, with the newest row of each key that has one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile

from seamline.connectors.iceberg import manifests
from seamline.connectors.iceberg.tail_files import (
    TailLayout,
    plan_files,
    write_file,
)
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.seam.offsets import OffsetRange

KIND = "segment"
SEGMENTS_MAX = 8
"""Number of segments beyond which the small segments of a tail are merged."""
MERGED_ROWS_MAX = 250_000
"""Number of rows up to which a segment counts as small."""
OFFSETS_MAX = 500_000
"""Number of offsets that are read and written at once."""

Reader = Callable[[Sequence[OffsetRange]], pa.Table]
"""Reads the rows of ranges of offsets, in the layout's columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class TailSegment:
    """The rows of some offsets, in files.

    Attributes:
        segment_id: Its name.
        layout: Digest of how its rows were decoded and laid out.
        ranges: The ranges of offsets whose rows it holds, all of them.
        rows: The number of its rows.
        size_bytes: Size of its data files.
        manifests: Its manifests, as entries of a manifest list.
        data_paths: Its data files.
    """

    segment_id: str
    layout: str
    ranges: tuple[OffsetRange, ...]
    rows: int
    size_bytes: int
    manifests: tuple[ManifestFile, ...] = dataclasses.field(hash=False)
    data_paths: tuple[str, ...]

    @property
    def offsets(self) -> int:
        """The number of offsets it holds."""
        return sum(len(r) for r in self.ranges)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all its files."""
        return (*self.data_paths, *(manifest.manifest_path for manifest in self.manifests))


@dataclasses.dataclass(frozen=True, slots=True)
class TailTable:
    """How a table's tail files are written.

    Attributes:
        io: Writes and reads them.
        folder: Location that they are stored under.
        layout: How rows are laid out.
        source: What else determines the rows of given offsets: the log, and how it is decoded.
        is_whole: Whether the rows that count depend on the whole tail, as in an upsert table.
    """

    io: FileIO
    folder: str
    layout: TailLayout
    source: str
    is_whole: bool = False

    @property
    def digest(self) -> str:
        """A digest that is equal for tables whose segments are interchangeable."""
        text = f"{self.source}\n{self.layout.describe()}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class TailStore:
    """Segments of any tables. Safe to share between threads."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._lock = threading.Lock()
        self._writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._segments: dict[str, TailSegment] = {}
        for lease in leases.held(KIND):
            if lease.body:
                self._segments[lease.lease_id] = _from_json(lease.lease_id, lease.body)

    def cover(
        self, table: TailTable, ranges: Sequence[OffsetRange], read: Reader
    ) -> list[TailSegment]:
        """Returns segments that together hold exactly the ranges, and writes what is missing.

        Raises:
            SeamlineError: what `read` raises.
            OSError: when files cannot be written.
        """
        digest = table.digest
        with self._lock:
            writing = self._writing[digest]
        with writing:
            if table.is_whole:
                return [
                    self._whole(digest, ranges) or self._write(table, digest, ranges, read(ranges))
                ]
            taken, missing = self._held(digest, ranges)
            for part in parts(missing):
                taken.append(self._write(table, digest, part, read(part)))
            return self._merged(table, digest, taken)

    def covered(self, table: TailTable, ranges: Sequence[OffsetRange]) -> list[TailSegment] | None:
        """Returns segments that together hold exactly the ranges, or None if any are missing."""
        if table.is_whole:
            whole = self._whole(table.digest, ranges)
            return None if whole is None else [whole]
        taken, missing = self._held(table.digest, ranges)
        return None if missing else taken

    def drop(self, lease_id: str) -> None:
        """Forgets a segment whose lease has ended."""
        with self._lock:
            self._segments.pop(lease_id, None)

    # --- Choosing ------------------------------------------------------------------------------

    def _whole(self, digest: str, ranges: Sequence[OffsetRange]) -> TailSegment | None:
        """Returns the segment of exactly these ranges, if any, and renews its lease."""
        with self._lock:
            of_layout = [s for s in self._segments.values() if s.layout == digest]
        for segment in of_layout:
            if segment.ranges == tuple(ranges):
                if not self._leases.renew([segment.segment_id]):
                    return segment
                self.drop(segment.segment_id)
        return None

    def _held(
        self, digest: str, ranges: Sequence[OffsetRange]
    ) -> tuple[list[TailSegment], list[OffsetRange]]:
        """Returns segments inside the ranges, with renewed leases, and what they leave out."""
        while True:
            taken, missing = self._inside(digest, ranges)
            gone = self._leases.renew(segment.segment_id for segment in taken)
            if not gone:
                return taken, missing
            for segment_id in gone:
                self.drop(segment_id)

    def _inside(
        self, digest: str, ranges: Sequence[OffsetRange]
    ) -> tuple[list[TailSegment], list[OffsetRange]]:
        """Returns segments inside the ranges that do not overlap, and what they leave out."""
        with self._lock:
            of_layout = [s for s in self._segments.values() if s.layout == digest]
        free = [r for r in ranges if len(r)]
        taken = []
        for segment in sorted(of_layout, key=lambda s: s.offsets, reverse=True):
            left = _without(free, segment.ranges)
            if left is not None:
                free = left
                taken.append(segment)
        return taken, free

    # --- Writing -------------------------------------------------------------------------------

    def _write(
        self, table: TailTable, digest: str, ranges: Sequence[OffsetRange], rows: pa.Table
    ) -> TailSegment:
        segment_id = uuid.uuid4().hex
        folder = f"{table.folder}/{segment_id}"
        planned = plan_files(rows, table.layout, folder)
        lists = {file.spec_id: f"{folder}/m{file.spec_id}.avro" for file in planned}
        paths = [file.path for file in planned]
        self._leases.hold(segment_id, KIND, [*paths, *lists.values()], {})
        files = [write_file(table.io, file, table.layout) for file in planned]
        segment = TailSegment(
            segment_id,
            digest,
            tuple(ranges),
            sum(file.record_count for file in files),
            sum(file.file_size_in_bytes for file in files),
            tuple(_manifest(table, files, spec_id, path) for spec_id, path in lists.items()),
            tuple(paths),
        )
        self._leases.hold(segment_id, KIND, segment.paths, _to_json(segment))
        with self._lock:
            self._segments[segment_id] = segment
        return segment

    def _merged(self, table: TailTable, digest: str, taken: list[TailSegment]) -> list[TailSegment]:
        if len(taken) <= SEGMENTS_MAX:
            return taken
        small = [segment for segment in taken if segment.rows <= MERGED_ROWS_MAX]
        if len(small) < 2 or sum(segment.rows for segment in small) > OFFSETS_MAX:
            return taken
        rows = [read_rows(table.io, path) for segment in small for path in segment.data_paths]
        merged = self._write(
            table,
            digest,
            [r for segment in small for r in segment.ranges],
            pa.concat_tables(rows) if rows else pa.table({}),
        )
        kept = [segment for segment in taken if segment not in small]
        return [*kept, merged]


def read_rows(io: FileIO, path: str) -> pa.Table:
    """Returns the rows of a tail file, as it stores them.

    Raises:
        OSError: when the file cannot be read.
    """
    with io.new_input(path).open() as stream:
        return pq.read_table(stream)


def _manifest(table: TailTable, files: Sequence[DataFile], spec_id: int, path: str) -> ManifestFile:
    layout = table.layout
    spec = layout.spec if spec_id == layout.spec.spec_id else layout.unpartitioned
    own = [file for file in files if file.spec_id == spec_id]
    return manifests.write_manifest(table.io, path, own, spec, layout.schema, layout.format_version)


def _without(free: Sequence[OffsetRange], taken: Iterable[OffsetRange]) -> list[OffsetRange] | None:
    """Returns what is left of the free ranges, or None if part of the taken ones is not free."""
    left = list(free)
    for range_ in taken:
        position = next((i for i, r in enumerate(left) if _contains(r, range_)), None)
        if position is None:
            return None
        around = left.pop(position)
        sides = (
            OffsetRange(around.partition, around.start, range_.start),
            OffsetRange(around.partition, range_.end_exclusive, around.end_exclusive),
        )
        left.extend(side for side in sides if len(side))
    return left


def _contains(outer: OffsetRange, inner: OffsetRange) -> bool:
    return (
        outer.partition == inner.partition
        and outer.start <= inner.start
        and inner.end_exclusive <= outer.end_exclusive
    )


def parts(ranges: Sequence[OffsetRange]) -> Iterable[list[OffsetRange]]:
    """Yields the ranges in parts that are small enough to be read and written at once."""
    part: list[OffsetRange] = []
    room = OFFSETS_MAX
    for range_ in ranges:
        start = range_.start
        while start < range_.end_exclusive:
            end = min(range_.end_exclusive, start + room)
            part.append(OffsetRange(range_.partition, start, end))
            room -= end - start
            start = end
            if not room:
                yield part
                part, room = [], OFFSETS_MAX
    if part:
        yield part


def _to_json(segment: TailSegment) -> dict[str, Any]:
    return {
        "layout": segment.layout,
        "ranges": [[r.partition, r.start, r.end_exclusive] for r in segment.ranges],
        "rows": segment.rows,
        "size_bytes": segment.size_bytes,
        "manifests": [manifests.entry_to_json(entry) for entry in segment.manifests],
        "data_paths": list(segment.data_paths),
    }


def _from_json(segment_id: str, body: Any) -> TailSegment:
    return TailSegment(
        segment_id=segment_id,
        layout=body["layout"],
        ranges=tuple(OffsetRange(*numbers) for numbers in body["ranges"]),
        rows=body["rows"],
        size_bytes=body["size_bytes"],
        manifests=tuple(manifests.entry_from_json(entry) for entry in body["manifests"]),
        data_paths=tuple(body["data_paths"]),
    )
