"""Statistics for pruning: least value, greatest value, nulls and order of the columns of a batch.

They are computed when a predicate first asks for a column, and cached. The answer to "may a row
match" is never wrongly no: values that cannot be compared, nested columns and columns that hold NaN
(which the engines order above every number) count as "may". The order of a column is made when it
is asked for again, and kept within a number of bytes for all batches.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.cache import Cache
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known about the values of one column.

    Attributes:
        least: The least value, None when every value is null.
        greatest: The greatest.
        null_count: How many are null.
        count: How many values, nulls included.
    """

    least: Any
    greatest: Any
    null_count: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """The order of a column's values.

    Attributes:
        values: The column.
        rows: The positions of its values, from the least to the greatest, then those of nulls.
        count: How many values are not null.
    """

    values: pa.Array
    rows: np.ndarray
    count: int

    def below(self, value: Any) -> int:
        """Returns how many values are less than one.

        Raises:
            TypeError: when it is of another kind.
        """
        rows: Any = self.rows
        return bisect.bisect_left(rows, value, 0, self.count, key=self._value)

    def up_to(self, value: Any, length: int | None = None) -> int:
        """Returns how many values are at most one, compared by some of their beginning if given.

        Raises:
            TypeError: when it is of another kind.
        """
        key = self._value if length is None else lambda row: self._value(row)[:length]
        rows: Any = self.rows
        return bisect.bisect_right(rows, value, 0, self.count, key=key)

    def _value(self, row: Any) -> Any:
        return self.values[int(row)].as_py()


ORDER_BYTES_MAX = 64 << 20
_ORDERS: Cache[tuple[int, str], np.ndarray] = Cache(
    ORDER_BYTES_MAX, weight=lambda rows: int(rows.nbytes)
)
"""The rows of orders, by the number of the statistics and the column."""
_NUMBERS = itertools.count()


class Statistics:
    """Statistics of the columns of a batch; computed on demand."""

    __slots__ = ("_known", "_number", "_ordered", "_rows")

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows: pa.RecordBatch | None = rows
        self._known: dict[str, ColumnStatistics | None] = {}
        self._ordered: set[str] = set()
        self._number = next(_NUMBERS)

    def column(self, name: str) -> ColumnStatistics | None:
        """Returns the statistics of a column; None when nothing is known about it."""
        if name not in self._known:
            rows = self._rows
            is_there = rows is not None and name in rows.schema.names
            self._known[name] = (
                _statistics(rows.column(name)) if rows is not None and is_there else None
            )
        return self._known[name]

    def order(self, name: str) -> Order | None:
        """Returns the order of a column; None if it has none, or this is asked for the first time.

        The order is that of Python's values.
        """
        rows, statistics = self._rows, self.column(name)
        if rows is None or statistics is None:
            return None
        if name not in self._ordered:
            self._ordered.add(name)
            return None
        values = rows.column(name)
        made = _ORDERS.get_or_make(
            (self._number, name), lambda: pc.sort_indices(values).to_numpy().astype(np.uint32)
        )
        return Order(values, made, len(values) - statistics.null_count)

    def settled(self) -> Statistics:
        """Returns the same statistics, all computed, without the batch."""
        assert self._rows is not None
        for name in self._rows.schema.names:
            self.column(name)
        other = Statistics(self._rows)
        other._rows, other._known = None, dict(self._known)
        return other

    def may_match(self, predicate: Predicate | None) -> bool:
        """Whether a row may exist for which the predicate is true."""
        match predicate:
            case None:
                return True
            case And(parts):
                return all(self.may_match(part) for part in parts)
            case Or(parts):
                return any(self.may_match(part) for part in parts)
        column = self.column(predicate.column)
        if column is None:
            return True
        try:
            return _may(column, predicate)
        except TypeError:  # a literal of another kind than the column proves nothing
            return True


_COMPARISONS: Mapping[str, Callable[[ColumnStatistics, Any], bool]] = {
    "=": lambda known, value: bool(known.least <= value <= known.greatest),
    "<>": lambda known, value: not known.least == value == known.greatest,
    "<": lambda known, value: bool(known.least < value),
    "<=": lambda known, value: bool(known.least <= value),
    ">": lambda known, value: bool(known.greatest > value),
    ">=": lambda known, value: bool(known.greatest >= value),
}


def _may(column: ColumnStatistics, predicate: Comparison | In | IsNull | StartsWith) -> bool:
    if isinstance(predicate, IsNull):
        return column.null_count < column.count if predicate.negated else column.null_count > 0
    if column.null_count == column.count:
        return False
    match predicate:
        case Comparison(_, sign, value):
            return _COMPARISONS[sign](column, value)
        case In(_, values):
            return any(_COMPARISONS["="](column, value) for value in values)
        case StartsWith(_, prefix):
            return bool(
                column.least[: len(prefix)] <= prefix and operator.ge(column.greatest, prefix)
            )


_COMPARED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
)


def _statistics(array: pa.Array) -> ColumnStatistics | None:
    if not any(compared(array.type) for compared in _COMPARED):
        return None
    if pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py():
        return None
    bounds = pc.min_max(array)
    try:
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    except (ValueError, OverflowError):  # a time that Python's dates cannot represent
        return None
    return ColumnStatistics(least, greatest, array.null_count, len(array))
