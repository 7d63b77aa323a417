"""Finds which records the files of a table hold: per file, the greatest offset of each partition.

For a file that holds one partition, the manifests say so. For any other file the two columns are
read (`values.py`), once: files never change, so the result is cached for good.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import IntegerType, LongType

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.boundaries.column_integers import column_values
from seamline.errors import INVALID_TABLE_DEFINITION, OFFSETS_NOT_STORED, SeamlineError
from seamline.seam.encoding import Encoding
from seamline.seam.records import Places
from seamline.seam.table import TableState
from seamline.sql.types import BIGINT, INTEGER

FILES_CACHED_MAX = 200_000
_READERS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class PositionColumns:
    """The columns that say which record a row is.

    Attributes:
        partition: Field id of the partition column.
        offset: Field id of the offset column.
    """

    partition: int
    offset: int

    @classmethod
    def of(cls, state: TableState, encoding: Encoding) -> PositionColumns:
        """Returns the position columns of a table.

        Raises:
            SeamlineError: OFFSETS_NOT_STORED if it has none, INVALID_TABLE_DEFINITION if they are
                not integers.
        """
        places = Places.of(encoding, state.schema.columns)
        if places is None:
            raise SeamlineError(
                OFFSETS_NOT_STORED,
                f"table {state.display_name} has no columns with the partition and the offset of "
                "its records",
            )
        for path in (places.partition, places.offset):
            if path[-1].type not in (INTEGER, BIGINT):
                raise SeamlineError(
                    INVALID_TABLE_DEFINITION,
                    f"column {'.'.join(field.name for field in path)} of {state.display_name} is "
                    f"{path[-1].type}, which cannot hold a partition or an offset",
                )
        return cls(places.partition[-1].field_id, places.offset[-1].field_id)


@dataclasses.dataclass(frozen=True, slots=True)
class FilePositions:
    """What a file holds of the log.

    Attributes:
        ends: Per partition, the greatest offset plus one.
        others: How many rows are not records: they have no partition or no offset.
    """

    ends: Mapping[int, int] = dataclasses.field(hash=False)
    others: int = 0


class PositionReader:
    """Finds the positions of files. Safe to share between threads."""

    def __init__(self) -> None:
        self._read_positions: Cache[tuple[str, PositionColumns], FilePositions] = Cache(
            FILES_CACHED_MAX
        )
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "seamline-positions")

    def ends(
        self,
        io: FileIO,
        files: Sequence[DataFile],
        columns: PositionColumns,
        mapping: NameMapping | None = None,
    ) -> FilePositions:
        """Returns the greatest offset plus one of each partition that any of the files holds.

        Files that cannot add anything, according to their manifests, are not read.

        Args:
            io: Opens the files.
            files: The files.
            columns: The two columns.
            mapping: The table's name mapping, which identifies the columns of files without ids.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE,
                NOT_SUPPORTED for files whose format is not known, or whose columns nothing
                identifies.
        """
        ends: dict[int, int] = {}
        others = 0
        unread = []
        for file in files:
            positions = _of_manifest(file, columns) or self._read_positions.get(
                (file.file_path, columns)
            )
            if positions is None:
                unread.append(file)
            else:
                others += positions.others
                _raise(ends, positions.ends)
        unread.sort(key=lambda file: _bound(file.upper_bounds, columns.offset) or 0, reverse=True)
        to_read = (file for file in unread if not _adds_nothing(file, columns, ends))
        while batch := list(itertools.islice(to_read, _READERS)):
            for positions in self._pool.map(lambda f: self._read(io, f, columns, mapping), batch):
                others += positions.others
                _raise(ends, positions.ends)
        return FilePositions(ends, others)

    def _read(
        self, io: FileIO, file: DataFile, columns: PositionColumns, mapping: NameMapping | None
    ) -> FilePositions:
        ids = {"partition": columns.partition, "offset": columns.offset}
        positions = _positions(column_values(io, file, ids, mapping))
        self._read_positions.put((file.file_path, columns), positions)
        return positions


def _raise(ends: dict[int, int], others: Mapping[int, int]) -> None:
    for partition, end in others.items():
        ends[partition] = max(end, ends.get(partition, 0))


def _bound(bounds: Mapping[int, bytes] | None, column: int) -> int | None:
    """Returns a bound of an integer column; if it was widened, older bounds have four bytes."""
    value = (bounds or {}).get(column)
    if value is None or len(value) not in (4, 8):
        return None
    return int(from_bytes(IntegerType() if len(value) == 4 else LongType(), value))


def _of_manifest(file: DataFile, columns: PositionColumns) -> FilePositions | None:
    """Returns a file's positions if its manifest entry determines them; else None."""
    nulls = file.null_value_counts or {}
    if any(nulls.get(column) != 0 for column in (columns.partition, columns.offset)):
        return None
    low = _bound(file.lower_bounds, columns.partition)
    high = _bound(file.upper_bounds, columns.partition)
    end = _bound(file.upper_bounds, columns.offset)
    if low is None or low != high or end is None:
        return None
    return FilePositions({low: end + 1})


def _adds_nothing(file: DataFile, columns: PositionColumns, ends: Mapping[int, int]) -> bool:
    """Whether no record of a file can be past the known end of its partition."""
    nulls = file.null_value_counts or {}
    if any(nulls.get(column) != 0 for column in (columns.partition, columns.offset)):
        return False
    low = _bound(file.lower_bounds, columns.partition)
    high = _bound(file.upper_bounds, columns.partition)
    last = _bound(file.upper_bounds, columns.offset)
    if low is None or high is None or last is None or high - low > len(ends):
        return False
    return all(ends.get(partition, 0) > last for partition in range(low, high + 1))


def _positions(values: pa.Table) -> FilePositions:
    placed = values.filter(
        pc.and_(pc.is_valid(values.column("partition")), pc.is_valid(values.column("offset")))
    )
    greatest = placed.group_by("partition").aggregate([("offset", "max")])
    pairs = zip(greatest["partition"].to_pylist(), greatest["offset_max"].to_pylist(), strict=True)
    return FilePositions(
        {partition: offset + 1 for partition, offset in pairs}, values.num_rows - placed.num_rows
    )
