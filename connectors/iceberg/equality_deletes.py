"""Equality deletes: which may apply to the files of a scan, and which rows they delete.

Writers that know only the key of a row they replace, such as Flink, leave a file of keys: all older
rows that have one of them are deleted. The rows are found once per data file and kept, since files
are immutable; a later snapshot looks only for the keys of its new deletes. From then on they are
deletes by position, for DuckDB and for any other reader.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.bounds import bound
from seamline.errors import COLD_FILE_INVALID, SeamlineError
from seamline.seam.files import ColdPlan, EqualityDelete, field_id, together
from seamline.seam.files import DataFile as PlannedFile

POSITIONS_CACHED_MAX = 8 << 20
"""How many positions of deleted rows are kept together; each takes eight bytes."""
_WINDOW_ROWS = 4 << 20
"""Rows whose keys are compared at once, if the deletes have no more keys than that."""


def columns_of(metadata: TableMetadata) -> dict[int, NestedField]:
    """Returns the columns that a table has or had, by id, as they were last."""
    schemas = (*metadata.schemas, metadata.schema())
    return {column.field_id: column for schema in schemas for column in schema.fields}


def scope_of(file: DataFile) -> tuple[Any, ...]:
    """Returns the partition spec and partition of a file; equal partitions of NaN are equal."""
    return (file.spec_id, *(_NAN if value != value else value for value in _values_of(file)))


def _values_of(file: DataFile) -> Iterator[Any]:
    """Yields the partition values of a file."""
    return (file.partition[place] for place in range(len(file.partition)))


_NAN = float("nan")
"""The one NaN in scopes: tuples compare their items by identity first."""


@dataclasses.dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality deletes of a scan.

    Attributes:
        files: The delete files.
        affected: The paths of the data files that they may delete rows of.
        problem: Why they cannot be found by position; None when they can.
        only_here: Why Spark does not see what they delete; None when it does.
    """

    files: tuple[EqualityDelete, ...]
    affected: frozenset[str]
    problem: str | None
    only_here: str | None


_COMPARED = (
    *(BooleanType, IntegerType, LongType, DecimalType, DateType, TimeType),
    *(TimestampType, TimestamptzType, StringType, BinaryType, FixedType, UUIDType),
)
"""Types of keys. Iceberg's readers do not agree on which floating-point numbers are equal."""
_OVERLOOKED = (FixedType, UUIDType)
"""Types of keys that Spark never finds: it compares them in its own storage types."""
_BOUNDED = (
    *(IntegerType, LongType, DecimalType, DateType, TimeType),
    *(TimestampType, TimestamptzType, StringType, BinaryType),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Keys:
    """What is known about the keys of an equality delete file without reading it.

    Attributes:
        problem: Why its keys cannot be looked up here; None when they can.
        only_here: Why Spark does not find them; None when it does.
        bounded: The columns that have bounds: type, least and greatest value, and whether any key
            may be null there.
    """

    problem: str | None
    only_here: str | None
    bounded: tuple[tuple[NestedField, Any, Any, bool], ...]

    @classmethod
    def of(cls, file: DataFile, columns: Mapping[int, NestedField]) -> Keys:
        """Returns what is known about an equality delete file."""
        ids = [number for number in file.equality_ids or () if number in columns]
        found = ((columns[number], *_bounds(columns[number], file)) for number in ids)
        bounded = tuple(one for one in found if one[1] is not None and one[2] is not None)
        types = [columns[number].field_type for number in ids]
        only_here = next((_by(type_) for type_ in types if isinstance(type_, _OVERLOOKED)), None)
        return cls(_problem(file, columns), only_here, bounded)

    def may_be_in(self, bounds: FileBounds) -> bool:
        """Whether any of the keys may be one of a data file's rows."""
        for column, low, high, has_nulls in self.bounded:
            least, greatest, may_be_null = bounds.of(column)
            if least is None or greatest is None or (has_nulls and may_be_null):
                continue
            if high < least or greatest < low:
                return False
        return True


class FileBounds:
    """The bounds of a data file's columns, each decoded once."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._known: dict[int, tuple[Any, Any, bool]] = {}

    def of(self, column: NestedField) -> tuple[Any, Any, bool]:
        """Returns those of a column, as `_bounds` does."""
        found = self._known.get(column.field_id)
        if found is None:
            found = self._known[column.field_id] = _bounds(column, self._file)
        return found


def _by(type_: IcebergType) -> str:
    return f"equality deletes by a column of type {type_}"


def _bounds(column: NestedField, file: DataFile) -> tuple[Any, Any, bool]:
    """Returns the least and the greatest value, None if unknown, and whether any may be null."""
    number = column.field_id
    nulls = (file.null_value_counts or {}).get(number)
    if not isinstance(column.field_type, _BOUNDED):
        return None, None, nulls != 0
    return bound(column, file.lower_bounds), bound(column, file.upper_bounds), nulls != 0


def _problem(file: DataFile, columns: Mapping[int, NestedField]) -> str | None:
    if file.file_format != FileFormat.PARQUET:
        return f"equality deletes in {file.file_format.value}"
    if file.key_metadata:
        return "encrypted equality deletes"
    for number in file.equality_ids or ():
        column = columns.get(number)
        if column is None:
            return "equality deletes by a field inside a column"
        if not isinstance(column.field_type, _COMPARED):
            return _by(column.field_type)
    return None if file.equality_ids else "equality deletes without a column"


# --- Which rows they delete ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class KeyColumns:
    """How the key columns of a table's files are read.

    Attributes:
        columns: The columns that the table has or had, by id.
        schema_of: Returns the schema of a file, whose fields have ids.
        read: Returns top-level columns of a file, by their names there.
    """

    columns: Mapping[int, NestedField]
    schema_of: Callable[[str], pa.Schema]
    read: Callable[[str, Sequence[str]], pa.Table]

    def of_deletes(self, delete: EqualityDelete) -> list[pa.ChunkedArray]:
        """Returns the keys of a delete file, by column.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID.
        """
        names = self._names(self.schema_of(delete.path), delete.field_ids)
        if None in names.values():
            raise SeamlineError(COLD_FILE_INVALID, f"{delete.path} lacks a column of its own keys")
        return self._read(delete.path, names, {})

    def of_rows(self, file: PlannedFile, ids: Sequence[int]) -> list[pa.ChunkedArray]:
        """Returns the same columns of a data file, in the order of its rows.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID.
        """
        assert file.physical is not None
        constants = dict(file.partition)
        return self._read(file.path, self._names(file.physical, ids), constants)

    @staticmethod
    def _names(schema: pa.Schema, ids: Sequence[int]) -> dict[int, str | None]:
        stored = {field_id(field): field.name for field in schema}
        return {number: stored.get(number) for number in ids}

    def _read(
        self, path: str, names: Mapping[int, str | None], constants: Mapping[int, Any]
    ) -> list[pa.ChunkedArray]:
        rows = self.read(path, [name for name in names.values() if name is not None])
        found = []
        for number, name in names.items():
            column = self.columns[number]
            type_ = _compared_as(column)
            try:
                if name is None:
                    value = constants.get(number, column.initial_default)
                    found.append(pa.chunked_array([_repeated(value, type_, rows.num_rows)]))
                else:
                    found.append(_plain(rows.column(name)).cast(type_))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
                raise SeamlineError(
                    COLD_FILE_INVALID, f"{path}: the key column {column.name}: {error}"
                ) from error
        return found


def _compared_as(column: NestedField) -> pa.DataType:
    """Returns the type that stored values of a column are converted to before they are compared."""
    match column.field_type:
        case BooleanType():
            return pa.bool_()
        case IntegerType() | LongType():
            return pa.int64()
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case DateType():
            return pa.date32()
        case TimeType():
            return pa.time64("us")
        case TimestampType():
            return pa.timestamp("us")
        case TimestamptzType():
            return pa.timestamp("us", "UTC")
        case StringType():
            return pa.large_string()
    return pa.large_binary()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns what an extension type, such as that of UUIDs, is stored as."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    storage = column.type.storage_type
    return pa.chunked_array([chunk.storage for chunk in column.chunks], storage)


def _repeated(value: Any, type_: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, uuid.UUID):
        value = value.bytes
    scalar = pa.scalar(None, type_) if value is None else pa.scalar(value).cast(type_)
    return pa.repeat(scalar, count)


_NONE = np.empty(0, dtype=np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The rows of a data file that some equality deletes delete: their positions, ascending."""

    deletes: frozenset[EqualityDelete] = frozenset()
    positions: np.ndarray = dataclasses.field(default_factory=_NONE.copy)


class EqualityDeletesFinder:
    """Finds the rows that equality deletes delete. Safe to share between threads."""

    def __init__(self) -> None:
        self._cached: Cache[str, _Found] = Cache(
            POSITIONS_CACHED_MAX, weight=lambda found: 1 + len(found.positions)
        )

    def find(self, plan: ColdPlan, keys: KeyColumns) -> dict[str, np.ndarray]:
        """Returns the positions of deleted rows, ascending, by the path of their data file.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
        """
        found: dict[str, _Found] = {}
        unread: dict[tuple[Any, ...], tuple[set[EqualityDelete], list[PlannedFile]]] = {}
        for file in plan.files:
            if not file.has_equality_deletes:
                continue
            applying = frozenset(d for d in plan.equality_deletes if d.applies_to(file))
            known = self._cached.get(file.path)
            if known is None or not known.deletes <= applying:
                known = _Found()
            found[file.path] = dataclasses.replace(known, deletes=applying)
            for delete in applying - known.deletes:
                key = (delete.field_ids, delete.scope)
                deletes, files = unread.setdefault(key, (set(), []))
                deletes.add(delete)
                if not files or files[-1] is not file:
                    files.append(file)
        for deletes, files in unread.values():
            for path, positions in _matches(deletes, files, keys):
                more = np.union1d(found[path].positions, positions)
                found[path] = dataclasses.replace(found[path], positions=more)
        for path, rows in found.items():
            self._cached.put(path, rows)
        return {path: rows.positions for path, rows in found.items()}


def _matches(
    deletes: set[EqualityDelete], files: Sequence[PlannedFile], keys: KeyColumns
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields, by path, the positions of the rows that have a key of a newer delete.

    Args:
        deletes: Deletes by the same columns, all for the same files except for the sequence
            numbers.
        files: The data files.
        keys: How to read key columns.
    """
    ids = next(iter(deletes)).field_ids
    read = [keys.of_deletes(delete) for delete in deletes]
    sequences = np.repeat([d.sequence for d in deletes], [len(columns[0]) for columns in read])
    rows_max = max(_WINDOW_ROWS, len(sequences))
    for window in together(files, lambda file: file.record_count, rows_max):
        rows = [keys.of_rows(file, ids) for file in window]
        every = [*read, *rows]
        codes = _codes([[columns[place] for columns in every] for place in range(len(ids))])
        of_keys, of_rows = np.split(codes, [len(sequences)])
        newest = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
        np.maximum.at(newest, of_keys, sequences)
        counts = [len(columns[0]) for columns in rows]
        is_deleted = newest[of_rows] > np.repeat([file.sequence for file in window], counts)
        parts = np.split(is_deleted, np.cumsum(counts)[:-1])
        for file, part in zip(window, parts, strict=True):
            yield file.path, np.flatnonzero(part)


def _codes(columns: Sequence[Sequence[pa.ChunkedArray]]) -> np.ndarray:
    """Returns a number for each key, the same for equal ones; nulls are equal.

    Args:
        columns: For each column of the key, its values in pieces.
    """
    first, *rest = (_column_codes(pieces) for pieces in columns)
    codes, _ = first
    for own, count in rest:
        codes = np.unique(codes * count + own, return_inverse=True)[1]
    return codes


def _column_codes(pieces: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, int]:
    """Returns a number for each value, and how many there are."""
    chunks = [chunk for piece in pieces for chunk in piece.chunks]
    values = pa.chunked_array(chunks, pieces[0].type).combine_chunks()
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
