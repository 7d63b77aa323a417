"""Finds which rows of an upsert table's files the tail hides, once, and caches them.

A row of a snapshot is hidden once the tail has a record of its key, and stays hidden however long
the tail grows. So for each file of a snapshot, the cache holds one bit per row that says what the
tail hides up to some offsets. A statement with a longer tail looks up only the keys of the newer
records; one with a shorter tail does not use the cached bits. Rows that deletes of the snapshot
mark have their bits set as well. A statement then checks one bit per row instead of joining by key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.cache import Cache
from seamline.connectors.duckdb.relation import HiddenRows, groups, hiding_sql, row_counts_sql
from seamline.connectors.newest import is_truncated, newest_places, newest_rows
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.engine_tails import FollowedTail
from seamline.connectors.protocols.engines import EngineScan
from seamline.errors import COLD_FILE_INVALID, UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.files import FILE, POSITION, ColdPlan, DataFile, ScanRequest
from seamline.seam.offsets import Offsets
from seamline.seam.upserts import Newest

BYTES_MAX = 64 << 20
"""The most bytes of each cache: of bits, and of the positions of newest rows."""
ROWS_MAX = 1 << 26
"""The most rows of one scan; scans of more are joined by key."""
FILE_ROWS_MAX = 1 << 22
"""The most rows of one of its files."""
ANY_ROWS = 1 << 62
"""No limit, for those who have no other way to find them."""

_Key: TypeAlias = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _FileRows:
    """The hidden rows of one file.

    Attributes:
        end: Only the records below these offsets have been considered.
        count: How many rows the file has.
        bits: One bit per row, the first row in the highest bit of the first byte; 1 hides it.
        deleted: The positions of rows that the snapshot itself marks as deleted, ascending.
    """

    end: Offsets
    count: int
    bits: np.ndarray
    deleted: np.ndarray

    def shows(self, positions: np.ndarray) -> bool:
        """Whether any of the rows at some positions is not hidden."""
        return not (self.bits[positions >> 3] >> (7 - (positions & 7)) & 1).all()

    def hiding(self, positions: np.ndarray, end: Offsets) -> _FileRows:
        """Returns the file with more rows hidden, by the records below further offsets."""
        bits = _with_bits(self.bits, self.count, positions)
        return dataclasses.replace(self, end=end, bits=bits)


def _with_bits(bits: np.ndarray, count: int, positions: np.ndarray) -> np.ndarray:
    if not len(positions):
        return bits
    rows = np.unpackbits(bits, count=count)
    rows[positions] = 1
    return np.packbits(rows)


class HiddenRowsCache:
    """Finds hidden rows, and caches what was found. Safe to share between threads.

    Args:
        rows_max: The most rows of a scan; it finds nothing for larger ones.
        file_rows_max: The most rows of one file of a scan, likewise.
    """

    def __init__(self, *, rows_max: int = ROWS_MAX, file_rows_max: int = FILE_ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._file_rows_max = file_rows_max
        self._newest: Cache[_Key, np.ndarray] = Cache(
            BYTES_MAX, weight=lambda places: places.nbytes + 1
        )
        self._files: Cache[_Key, _FileRows] = Cache(
            BYTES_MAX, weight=lambda file: file.bits.nbytes + file.deleted.nbytes + 1
        )

    def newest(self, rows: pa.Table, scan: EngineScan) -> pa.Table:
        """Returns the newest of a tail's rows; statements over the same tail reuse the result.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN.
        """
        newest, tail = scan.newest, scan.followed
        assert newest is not None
        if tail is None:
            return newest_rows(rows, newest)
        key = (tail, rows.num_rows, newest)
        cached = self._newest.get(key)
        if cached is None:
            cached = newest_places(rows, newest)
            self._newest.put(key, cached)
        return rows if len(cached) == rows.num_rows else rows.take(pa.array(cached))

    def anew(self) -> HiddenRowsCache:
        """Returns another cache with the same limits, which is empty."""
        return HiddenRowsCache(rows_max=self._rows_max, file_rows_max=self._file_rows_max)

    def is_ahead(self, scan: EngineScan) -> bool:
        """Whether it has seen a later moment of the tail of a scan of a followed log."""
        assert scan.followed is not None
        assert scan.cold is not None
        tail = scan.followed
        cached = (self._files.get(_key(scan, tail, file)) for file in scan.cold.files)
        return any(rows is not None and not _reaches(tail.end, rows.end) for rows in cached)

    def find(
        self,
        connection: duckdb.DuckDBPyConnection,
        scan: EngineScan,
        newest: pa.Table,
        deletes_of: Callable[[Sequence[DataFile]], pa.Table | None] | None = None,
    ) -> HiddenRows | None:
        """Returns what the tail of a scan hides of its files; None if a join must find it.

        Args:
            connection: An instance that may read the files.
            scan: The scan.
            newest: The newest rows of its tail, all of them.
            deletes_of: Returns the deletes of files that are not cached yet; the scan's by default.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN, COLD_FILE_INVALID.
        """
        tail, files = scan.followed, scan.cold.files if scan.cold is not None else ()
        if tail is None or not self._is_fit(scan, files):
            return None
        keys = {f.path: _key(scan, tail, f) for f in files}
        cached = {f.path: self._files.get(keys[f.path]) for f in files}
        if any(rows is not None and not _reaches(tail.end, rows.end) for rows in cached.values()):
            return None
        usable = {path: rows for path, rows in cached.items() if rows is not None}
        unknown = [file for file in files if file.path not in usable]
        deletes = scan.deletes if deletes_of is None else deletes_of(unknown)
        usable |= _read(connection, unknown, deletes, tail.start)
        for end in {rows.end for rows in usable.values()}:
            if end != tail.end:
                older = [f for f in files if usable[f.path].end == end]
                usable |= _extended(connection, scan, older, usable, newest, tail)
        for path, rows in usable.items():
            if rows is not cached[path]:
                self._files.put(keys[path], rows)
        return HiddenRows(
            {path: rows.bits for path, rows in usable.items()},
            {path: rows.count for path, rows in usable.items()},
            {path: rows.deleted for path, rows in usable.items()},
        )

    def _is_fit(self, scan: EngineScan, files: Sequence[DataFile]) -> bool:
        """Whether the rows of the files can be identified by position, and are few enough."""
        if not files or scan.tail_predicate is not None or scan.cold_span is not None:
            return False
        rows = [file.record_count for file in files]
        is_small = sum(rows) <= self._rows_max and max(rows) <= self._file_rows_max
        return is_small and _taken_name(files) is None


def without_positions(plan: ColdPlan) -> str | None:
    """Returns what keeps the rows of a plan's files from being identified by position, if any."""
    column = _taken_name(plan.files)
    return plan.unsupported or (f"data files with a column {column}" if column else None)


def key_scan(
    table: ColdTable,
    snapshot_id: int | None,
    schema_id: int,
    newest: Newest,
    followed: FollowedTail,
) -> EngineScan:
    """Returns the scan of the keys of an upsert table's snapshot, its files inspected.

    Args:
        table: The table.
        snapshot_id: The snapshot.
        schema_id: The schema that the keys are read with.
        newest: The columns of the key.
        followed: The tail that may hide rows.

    Raises:
        SeamlineError: as `ColdTable.plan` and `ColdTable.inspect`.
    """
    names = tuple(dict.fromkeys((*newest.key_names, newest.partition.name)))
    return EngineScan(
        "scan",
        table.state.name,
        newest.key,
        snapshot_id,
        cold=table.inspect(table.plan(snapshot_id, ScanRequest(schema_id, names))),
        file_access=table.file_access,
        newest=newest,
        followed=followed,
    )


def _taken_name(files: Sequence[DataFile]) -> str | None:
    """Returns a column of files that has DuckDB's name for a row's position; None if none has."""
    schemas = {id(file.physical): file.physical for file in files}
    taken = {
        name.lower() for schema in schemas.values() if schema is not None for name in schema.names
    }
    return next(iter(sorted({FILE, POSITION} & taken)), None)


def _key(scan: EngineScan, tail: FollowedTail, file: DataFile) -> _Key:
    return (tail.log, scan.snapshot_id, tail.start, file.path)


def _reaches(end: Offsets, other: Offsets) -> bool:
    return all(end.get(partition, -1) >= offset for partition, offset in other.items())


def _read(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[DataFile],
    deletes: pa.Table | None,
    start: Offsets,
) -> dict[str, _FileRows]:
    """Reads files as their snapshot has them: only what its deletes mark is hidden."""
    deleted = _positions(deletes) if deletes is not None else {}
    by_file = {}
    for group in groups(files):
        counts = dict(connection.sql(row_counts_sql(group)).fetchall())
        for number, file in enumerate(group):
            count = counts.get(number, 0)
            if count != file.record_count:
                raise SeamlineError(
                    COLD_FILE_INVALID,
                    f"{file.path} has {count:,} rows, but {file.record_count:,} in the manifest",
                )
            gone = deleted.get(file.path, _NONE)
            bits = _with_bits(np.zeros((count + 7) // 8, dtype=np.uint8), count, gone)
            by_file[file.path] = _FileRows(start, count, bits, np.unique(gone))
    return by_file


_NONE = np.empty(0, dtype=np.int64)


def _positions(deletes: pa.Table) -> dict[str, np.ndarray]:
    """Returns the deleted positions by file."""
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
    earlier: dict[str, _FileRows],
    newest: pa.Table,
    tail: FollowedTail,
) -> dict[str, _FileRows]:
    """Extends what is known of files to the whole tail: looks up the keys of its newer records."""
    assert scan.newest is not None
    by_file = {}
    for group in groups(list(files)):
        positions: dict[str, np.ndarray] = {}
        newer = _since(newest, scan.newest, earlier[group[0].path].end)
        if is_truncated(newer, scan.newest):
            positions = {file.path: np.arange(earlier[file.path].count) for file in group}
        elif newer.num_rows:
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
            if any(earlier[path].shows(of_file) for path, of_file in moved.items()):
                raise SeamlineError(UPSERT_ORDER_UNKNOWN, scan.newest.moved_key.partition(": ")[2])
        for file in group:
            more = positions.get(file.path, _NONE)
            by_file[file.path] = earlier[file.path].hiding(more, tail.end)
    return by_file


def _since(newest: pa.Table, told_by: Newest, end: Offsets) -> pa.Table:
    """Returns the newest rows at or past some offsets: those of keys that have records there."""
    partitions = newest.column(told_by.partition.name).to_numpy()
    offsets = newest.column(told_by.offset.name).to_numpy()
    first = np.zeros(max(partitions, default=0) + 1, dtype=np.int64)
    for partition, offset in end.items():
        if partition < len(first):
            first[partition] = offset
    return newest.filter(pa.array(offsets >= first[partitions]))
