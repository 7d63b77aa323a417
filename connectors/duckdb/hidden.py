"""Which rows of an upsert table's files the tail hides, found once and kept.

A row of a snapshot is hidden from the first record of its key in the tail on, and stays so however
long the tail grows. So for each file of a snapshot it is kept, as one bit a row, what the tail
hides up to some offsets; a statement whose tail is longer looks up the keys of the newer records
only, and one whose tail is shorter does not use it. Rows that deletes of the snapshot mark are bits
as well. A statement then looks at one bit per row instead of joining by key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.cache import Cache
from seamline.connectors.duckdb.relation import HiddenRows, groups, hiding_sql, row_counts_sql
from seamline.connectors.newest import newest_places, newest_rows
from seamline.connectors.protocols import EngineScan, FollowedTail
from seamline.errors import COLD_FILE_INVALID, UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.files import FILE, POSITION, DataFile
from seamline.seam.offsets import Offsets
from seamline.seam.upserts import Newest

BYTES_MAX = 64 << 20
"""Of all bits that are kept."""
ROWS_MAX = 1 << 26
"""Of one scan; more are joined by key."""
FILE_ROWS_MAX = 1 << 22
"""Of one of its files."""

_Key: TypeAlias = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _FileRows:
    """What is hidden of one file.

    Attributes:
        end: By the records below these offsets.
        count: How many rows the file has.
        bits: One a row, the first row in the highest bit of the first byte; 1 hides it.
    """

    end: Offsets
    count: int
    bits: np.ndarray

    def shows(self, positions: np.ndarray) -> bool:
        """Whether one of some rows is not hidden."""
        return not (self.bits[positions >> 3] >> (7 - (positions & 7)) & 1).all()

    def hiding(self, positions: np.ndarray, end: Offsets) -> _FileRows:
        """With more rows hidden, by the records below further offsets."""
        rows = np.unpackbits(self.bits, count=self.count)
        rows[positions] = 1
        return _FileRows(end, self.count, np.packbits(rows))


class HiddenRowsCache:
    """Finds hidden rows, and keeps what was found. Safe to share between threads."""

    def __init__(self) -> None:
        self._newest: Cache[_Key, np.ndarray] = Cache(
            BYTES_MAX, weight=lambda places: places.nbytes + 1
        )
        self._files: Cache[_Key, _FileRows] = Cache(
            BYTES_MAX, weight=lambda file: file.bits.nbytes + 1
        )

    def newest(self, rows: pa.Table, scan: EngineScan) -> pa.Table:
        """The newest of a tail's rows, which a statement over the same tail need not find again.

        Args:
            rows: The rows of the scan's tail.
            scan: The scan.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN.
        """
        newest, tail = scan.newest, scan.followed
        assert newest is not None
        if tail is None:
            return newest_rows(rows, newest)
        key = (tail, rows.num_rows, newest)
        places = self._newest.get(key)
        if places is None:
            places = newest_places(rows, newest)
            self._newest.put(key, places)
        return rows if len(places) == rows.num_rows else rows.take(pa.array(places))

    def find(
        self, connection: duckdb.DuckDBPyConnection, scan: EngineScan, newest: pa.Table
    ) -> HiddenRows | None:
        """What the tail of a scan hides of its files; None where a join by key must find it.

        Args:
            connection: An instance that may read the files.
            scan: The scan.
            newest: The newest rows of its tail, all of them.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN, COLD_FILE_INVALID.
        """
        tail, files = scan.followed, scan.cold.files if scan.cold is not None else ()
        if tail is None or not _is_fit(scan, files):
            return None
        keys = {f.path: (tail.log, scan.snapshot_id, tail.start, f.path) for f in files}
        found = {f.path: self._files.get(keys[f.path]) for f in files}
        if any(rows is not None and not _reaches(tail.end, rows.end) for rows in found.values()):
            return None
        known = {path: rows for path, rows in found.items() if rows is not None}
        known |= _read(connection, scan, [f for f in files if f.path not in known], tail.start)
        for end in {rows.end for rows in known.values()}:
            if end != tail.end:
                older = [f for f in files if known[f.path].end == end]
                known |= _extended(connection, scan, older, known, newest, tail)
        for path, rows in known.items():
            if rows is not found[path]:
                self._files.put(keys[path], rows)
        return HiddenRows(
            {path: rows.bits for path, rows in known.items()},
            {path: rows.count for path, rows in known.items()},
        )


def _is_fit(scan: EngineScan, files: Sequence[DataFile]) -> bool:
    """Whether the rows of the files can be told by their positions."""
    if not files or scan.tail_predicate is not None or scan.cold_end is not None:
        return False
    schemas = {id(file.physical): file.physical for file in files}
    taken = {
        name.lower() for schema in schemas.values() if schema is not None for name in schema.names
    }
    rows = [file.record_count for file in files]
    is_small = sum(rows) <= ROWS_MAX and max(rows) <= FILE_ROWS_MAX
    return is_small and not {FILE, POSITION} & taken


def _reaches(end: Offsets, known: Offsets) -> bool:
    return all(end.get(partition, -1) >= offset for partition, offset in known.items())


def _read(
    connection: duckdb.DuckDBPyConnection,
    scan: EngineScan,
    files: Sequence[DataFile],
    start: Offsets,
) -> dict[str, _FileRows]:
    """Files as their snapshot has them: what its deletes mark is hidden, and nothing besides."""
    deleted = _positions(scan.deletes) if scan.deletes is not None else {}
    found = {}
    for group in groups(files):
        counts = dict(connection.sql(row_counts_sql(group)).fetchall())
        for number, file in enumerate(group):
            count = counts.get(number, 0)
            if count != file.record_count:
                raise SeamlineError(
                    COLD_FILE_INVALID,
                    f"{file.path} has {count:,} rows, {file.record_count:,} in the manifest",
                )
            rows = _FileRows(start, count, np.zeros((count + 7) // 8, dtype=np.uint8))
            found[file.path] = rows.hiding(deleted.get(file.path, _NONE), start)
    return found


_NONE = np.empty(0, dtype=np.int64)


def _positions(deletes: pa.Table) -> dict[str, np.ndarray]:
    """Deleted positions by file."""
    paths = pc.dictionary_encode(deletes.column("path").combine_chunks())
    return _by_number(
        paths.indices.to_numpy(zero_copy_only=False),
        deletes.column("position").to_numpy(),
        paths.dictionary.to_pylist(),
    )


def _by_number(
    numbers: np.ndarray, positions: np.ndarray, paths: Sequence[str]
) -> dict[str, np.ndarray]:
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(paths)))
    return dict(zip(paths, np.split(positions[order], ends[:-1]), strict=True))


def _extended(
    connection: duckdb.DuckDBPyConnection,
    scan: EngineScan,
    files: Iterable[DataFile],
    known: dict[str, _FileRows],
    newest: pa.Table,
    tail: FollowedTail,
) -> dict[str, _FileRows]:
    """Files of which less is known than the tail hides: the keys of newer records are looked up."""
    assert scan.newest is not None
    found = {}
    for group in groups(list(files)):
        positions: dict[str, np.ndarray] = {}
        newer = _since(newest, scan.newest, known[group[0].path].end)
        if newer.num_rows:
            name = scan.own_name("keys")
            columns = [*scan.newest.key_names, scan.newest.partition.name]
            keys = newer.select(list(dict.fromkeys(columns)))
            connection.register(name, keys.rename_columns([c.lower() for c in keys.column_names]))
            try:
                rows = connection.sql(hiding_sql(scan, group, name)).fetchnumpy()
            finally:
                connection.unregister(name)
            paths = [file.path for file in group]
            positions = _by_number(rows["file"], rows["position"], paths)
            moved = _by_number(rows["file"][rows["moved"]], rows["position"][rows["moved"]], paths)
            if any(known[path].shows(of_file) for path, of_file in moved.items()):
                raise SeamlineError(UPSERT_ORDER_UNKNOWN, scan.newest.moved_key.partition(": ")[2])
        for file in group:
            more = positions.get(file.path, _NONE)
            found[file.path] = known[file.path].hiding(more, tail.end)
    return found


def _since(newest: pa.Table, told_by: Newest, end: Offsets) -> pa.Table:
    """The newest rows at or past some offsets: of the keys that have records there."""
    partitions = newest.column(told_by.partition.name).to_numpy()
    offsets = newest.column(told_by.offset.name).to_numpy()
    first = np.zeros(max(partitions, default=0) + 1, dtype=np.int64)
    for partition, offset in end.items():
        if partition < len(first):
            first[partition] = offset
    return newest.filter(pa.array(offsets >= first[partitions]))
