"""Column bounds of files, decoded as the columns are now, and which of a file's statistics hold.

Statistics that contradict each other prove nothing: a lower bound above the upper one, or bounds of
a column that has only nulls. Some writers leave such statistics.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Collection, Mapping
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
)

NOT_COMPARABLE = (ValueError, TypeError, ArithmeticError, LookupError, struct.error)
"""What PyIceberg raises for bounds of another type; UnicodeDecodeError is a ValueError."""


def bound(column: NestedField, bounds: Mapping[int, bytes] | None) -> Any:
    """Returns the bound of a column of a primitive type; None if it has none.

    None also for one that is encoded for another type than the column has now, unless that type
    was widened to the present one.
    """
    value = (bounds or {}).get(column.field_id)
    if value is None:
        return None
    assert isinstance(column.field_type, PrimitiveType)
    return decoded(column.field_type, value)


def decoded(type_: PrimitiveType, value: bytes) -> Any:
    """Returns a value of a column, which its type may have been widened to; None if it is not."""
    narrow = _NARROW.get(type(type_))
    if narrow is not None and len(value) == _NARROW_SIZE:
        type_ = narrow
    try:
        return from_bytes(type_, value)
    except NOT_COMPARABLE:
        return None


_NARROW_SIZE = 4
_NARROW: Mapping[type[PrimitiveType], PrimitiveType] = {
    LongType: IntegerType(),
    DoubleType: FloatType(),
}
"""Types that columns of the types have been widened from."""


def is_inverted(low: Any, high: Any) -> bool:
    """Whether a lower bound is above the upper one; bounds that are None are unknown."""
    return low is not None and high is not None and bool(low > high)


def only_nulls(column_id: int, file: DataFile) -> bool | None:
    """Whether all values of a column are null; None if the file's statistics do not say."""
    nulls = (file.null_value_counts or {}).get(column_id)
    if nulls is None:
        return None
    values = (file.value_counts or {}).get(column_id, file.record_count)
    return bool(nulls >= values >= 0)


def consistent(file: DataFile, columns: Collection[NestedField]) -> Any:
    """Returns the statistics of a file without those that contradict each other.

    Args:
        file: The file.
        columns: The columns that matter, all of primitive types.
    """
    odd = frozenset(c.field_id for c in columns if _is_contradictory(c, file))
    if not odd:
        return file

    def kept(statistics: Mapping[int, Any] | None) -> dict[int, Any]:
        return {number: one for number, one in (statistics or {}).items() if number not in odd}

    return types.SimpleNamespace(
        record_count=file.record_count,
        value_counts=file.value_counts,
        null_value_counts=kept(file.null_value_counts),
        nan_value_counts=kept(file.nan_value_counts),
        lower_bounds=kept(file.lower_bounds),
        upper_bounds=kept(file.upper_bounds),
    )


def _is_contradictory(column: NestedField, file: DataFile) -> bool:
    low, high = bound(column, file.lower_bounds), bound(column, file.upper_bounds)
    if low is None and high is None:
        return False
    return is_inverted(low, high) or only_nulls(column.field_id, file) is True
