"""The column statistics of a manifest's files as arrays, and conditions over all of them at once.

A condition is decided here for files whose statistics are ordinary: both bounds are there, of the
type that the column has now and in order, and the column has values that are not null or NaN. There
the result is that of PyIceberg's evaluator, which decides for all other files, one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNull,
    BoundPredicate,
    BoundReference,
    BoundStartsWith,
    Or,
)
from pyiceberg.expressions.visitors import IN_PREDICATE_LIMIT
from pyiceberg.manifest import DataFile
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from seamline.connectors.iceberg.bounds import NOT_COMPARABLE

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_STORED: Mapping[type, str] = {
    **dict.fromkeys((IntegerType, DateType), "<i4"),
    **dict.fromkeys((LongType, TimeType, TimestampType, TimestamptzType), "<i8"),
}
"""How bounds of the types that are stored as integers are encoded."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of a column in the files of a manifest.

    Attributes:
        ordinary: Which files have ordinary statistics; what follows is of these only.
        lows: Their lower bounds.
        highs: Their upper bounds.
        lacks_nulls: Which of them say that no value is null.
    """

    ordinary: Mask
    lows: np.ndarray[Any, Any]
    highs: np.ndarray[Any, Any]
    lacks_nulls: Mask

    @classmethod
    def of(cls, files: Sequence[DataFile], column: NestedField) -> ColumnStatistics:
        """Returns the statistics of a column of a primitive type."""
        number, type_ = column.field_id, column.field_type
        assert isinstance(type_, PrimitiveType)
        ordinary = np.zeros(len(files), np.bool_)
        lows, highs = list[bytes](), list[bytes]()
        lacks_nulls = list[bool]()
        for place, file in enumerate(files):
            low = (file.lower_bounds or {}).get(number)
            high = (file.upper_bounds or {}).get(number)
            if low is None or high is None or not _has_values(number, file):
                continue
            ordinary[place] = True
            lows.append(low)
            highs.append(high)
            lacks_nulls.append((file.null_value_counts or {}).get(number) == 0)
        low_values, are_lows = _decoded(type_, lows)
        high_values, are_highs = _decoded(type_, highs)
        both = are_lows & are_highs
        ordered = both.copy()
        ordered[both] = np.asarray(low_values[both] <= high_values[both], np.bool_)
        ordinary[ordinary] = ordered
        nulls = np.array(lacks_nulls, np.bool_)
        return cls(ordinary, low_values[ordered], high_values[ordered], nulls[ordered])


def _has_values(number: int, file: DataFile) -> bool:
    """Whether the counts of a file say nothing against values of a column that are in order."""
    nulls = (file.null_value_counts or {}).get(number)
    nans = (file.nan_value_counts or {}).get(number)
    values = (file.value_counts or {}).get(number, file.record_count)
    return (nulls is None or 0 <= nulls < values) and (nans is None or 0 <= nans < max(values, 1))


def _decoded(type_: PrimitiveType, bounds: Sequence[bytes]) -> tuple[np.ndarray[Any, Any], Mask]:
    """Returns bounds as values, and which of them are values that can be compared."""
    stored = _STORED.get(type(type_))
    if stored is not None and set(map(len, bounds)) == {int(stored[-1])}:
        return np.frombuffer(b"".join(bounds), stored), np.ones(len(bounds), np.bool_)
    values = np.empty(len(bounds), object)
    for place, value in enumerate(bounds):
        try:
            values[place] = from_bytes(type_, value)
        except NOT_COMPARABLE:
            values[place] = None
    return values, np.array([v is not None and v == v for v in values], np.bool_)  # without NaN


class ManifestStatistics:
    """The statistics of the files of a manifest. Safe to share between threads."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self._are_counted = np.array([file.record_count >= 0 for file in files], np.bool_)
        self._columns: dict[tuple[int, str], ColumnStatistics] = {}

    def of(self, column: NestedField) -> ColumnStatistics:
        """Returns the statistics of a column, which are made when they are first asked for."""
        key = (column.field_id, str(column.field_type))
        statistics = self._columns.get(key)
        if statistics is None:
            statistics = self._columns[key] = ColumnStatistics.of(self._files, column)
        return statistics

    def kept(self, condition: BooleanExpression) -> tuple[Mask, Mask] | None:
        """Returns which files may hold rows for which a bound condition is true.

        Returns:
            Which files are decided, and which of all files are kept if they are; None if no file
            can be decided.
        """
        try:
            columns = {c.field_id: self.of(c) for c in _columns(condition)}
            decided = self._are_counted.copy()
            for statistics in columns.values():
                decided &= statistics.ordinary
            return decided, self._evaluated(condition, columns)
        except (_UndecidedError, *NOT_COMPARABLE):
            return None

    def _evaluated(
        self, condition: BooleanExpression, columns: Mapping[int, ColumnStatistics]
    ) -> Mask:
        match condition:
            case AlwaysTrue():
                return np.ones(len(self._files), np.bool_)
            case AlwaysFalse():
                return np.zeros(len(self._files), np.bool_)
            case And():
                left, right = condition.left, condition.right
                return self._evaluated(left, columns) & self._evaluated(right, columns)
            case Or():
                left, right = condition.left, condition.right
                return self._evaluated(left, columns) | self._evaluated(right, columns)
            case BoundPredicate():
                statistics = columns[condition.term.ref().field.field_id]
                kept = np.ones(len(self._files), np.bool_)
                kept[statistics.ordinary] = _kept(condition, statistics)
                return kept
        raise _UndecidedError


class _UndecidedError(Exception):
    """A condition is of a kind that is not evaluated here."""


def _columns(condition: BooleanExpression) -> Iterator[NestedField]:
    match condition:
        case And() | Or():
            yield from _columns(condition.left)
            yield from _columns(condition.right)
        case BoundPredicate():
            column = condition.term.ref().field
            if not isinstance(condition.term, BoundReference):
                raise _UndecidedError
            if not isinstance(column.field_type, PrimitiveType):
                raise _UndecidedError
            yield column


def _kept(condition: BoundPredicate, of: ColumnStatistics) -> Any:
    """Returns which ordinary files a condition on one column keeps."""
    match condition:
        case BoundLessThan():
            return of.lows < _scalar(condition.literal.value)
        case BoundLessThanOrEqual():
            return of.lows <= _scalar(condition.literal.value)
        case BoundGreaterThan():
            return of.highs > _scalar(condition.literal.value)
        case BoundGreaterThanOrEqual():
            return of.highs >= _scalar(condition.literal.value)
        case BoundEqualTo():
            return _may_hold(condition.literal.value, of)
        case BoundIn() if len(condition.literals) <= IN_PREDICATE_LIMIT:
            return np.any([_may_hold(one.value, of) for one in condition.literals], axis=0)
        case BoundStartsWith():
            return _may_start_with(condition.literal.value, of)
        case BoundIsNull():
            return ~of.lacks_nulls
        case BoundNotEqualTo() | BoundIn() | BoundNotIn() | BoundNotNull():
            return True
    raise _UndecidedError


def _may_hold(value: Any, of: ColumnStatistics) -> Mask:
    scalar = _scalar(value)
    return np.asarray((of.lows <= scalar) & (of.highs >= scalar), np.bool_)


def _may_start_with(prefix: Any, of: ColumnStatistics) -> Mask:
    length, bounds = len(prefix), zip(of.lows, of.highs, strict=True)
    return np.array([low[:length] <= prefix <= high[:length] for low, high in bounds], np.bool_)


def _scalar(value: Any) -> np.ndarray[Any, Any]:
    """Returns a value as it is; NumPy would drop the zeros at the end of a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return np.asarray(value)
    scalar = np.empty((), object)
    scalar[()] = value
    return scalar
