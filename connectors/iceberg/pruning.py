"""Decides which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide. They may keep too many files, never too few. If an evaluator
fails, that proves nothing, so the file is kept. Evaluators fail on bounds that are encoded for
another type than the column has now, as other writers and older schemas leave them, and on literals
for which a transform has no adjacent value. Bounds of UUIDs prove nothing either, since writers do
not agree on their order, but a partition's own UUID does: engines that see a plan leave out a
condition that only selects partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    EqualTo,
    In,
    IsNull,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, rewrite_not, visit
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    UUIDType,
)

from seamline.connectors.iceberg.pyiceberg_internals import Evaluators, statistics_evaluator

_NOT_COMPARABLE = (ValueError, TypeError, ArithmeticError, LookupError, struct.error)
"""What PyIceberg raises for such bounds and literals; UnicodeDecodeError is a ValueError."""


class Pruner:
    """Decides which manifests and files of one scan may hold rows that a filter keeps.

    Args:
        metadata: The table's metadata; the filter refers to its current schema.
        io: The table's file access.
        row_filter: The filter.
        case_sensitive: Whether its column names are case-sensitive.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
    ) -> None:
        def reduced(kept: tuple[type, ...]) -> BooleanExpression:
            kinds = _UuidConditions(metadata.schema(), kept, case_sensitive=case_sensitive)
            return visit(rewrite_not(row_filter), kinds)

        def evaluators(row_filter: BooleanExpression) -> Evaluators | None:
            """Returns the evaluators of a filter; None if there is nothing to evaluate."""
            if isinstance(row_filter, AlwaysTrue):
                return None
            planner = ManifestGroupPlanner(
                table_metadata=metadata, io=io, row_filter=row_filter, case_sensitive=case_sensitive
            )
            return Evaluators(planner)

        of_bounds, of_values = reduced(()), reduced(_UNORDERED)
        self._by_bounds = evaluators(of_bounds)
        is_same = of_values == of_bounds  # there is no condition on a UUID
        self._by_values = self._by_bounds if is_same else evaluators(of_values)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any file of a manifest may hold such rows."""
        found = self._by_bounds
        if found is None or lacks_bounds(manifest):
            return True
        return _unless_proven(lambda: found.of_manifest(manifest))

    def keeps_file(self, file: DataFile) -> bool:
        """Whether a file may hold such rows."""
        values, bounds = self._by_values, self._by_bounds
        if values is not None and not _unless_proven(lambda: values.by_partition(file)):
            return False
        return bounds is None or _unless_proven(lambda: bounds.by_statistics(file))


def lacks_bounds(manifest: ManifestFile) -> bool:
    """Whether a manifest's summary of partitions leaves out bounds of values that it must have.

    Without bounds all values are null, by the specification and for every evaluator. Some writers
    leave out those of numbers, and do not say that there are nulls.
    """
    return any(
        (summary.lower_bound is None or summary.upper_bound is None)
        and not summary.contains_null
        and not summary.contains_nan
        for summary in manifest.partitions or ()
    )


def statistics_filter(schema: Schema, row_filter: BooleanExpression) -> Callable[[DataFile], bool]:
    """Returns a test for whether a file's statistics alone let it hold rows that a filter keeps.

    Args:
        schema: The columns that the filter may refer to; conditions on others prove nothing.
        row_filter: The filter.
    """
    if isinstance(row_filter, AlwaysTrue):
        return lambda _: True
    keeps = statistics_evaluator(schema, row_filter)
    return lambda file: _unless_proven(lambda: keeps(file))


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
    except _NOT_COMPARABLE:
        return None


_NARROW_SIZE = 4
_NARROW: Mapping[type[PrimitiveType], PrimitiveType] = {
    LongType: IntegerType(),
    DoubleType: FloatType(),
}
"""Types that columns of the types have been widened from."""


def _unless_proven(evaluated: Callable[[], bool]) -> bool:
    try:
        return evaluated()
    except _NOT_COMPARABLE:
        return True


_UNORDERED = (EqualTo, NotEqualTo, In, NotIn, IsNull, NotNull)
"""Conditions that mean the same in whatever order values are."""


class _UuidConditions(BooleanExpressionVisitor[BooleanExpression]):
    """Keeps all rows for a condition on a UUID, unless it is of a kind that means something.

    Iceberg's Java library summarises partitions in the order of signed halves, PyIceberg compares
    unsigned bytes.

    Args:
        schema: The columns.
        kept: Kinds of conditions that are left as they are.
        case_sensitive: Whether names are case-sensitive.
    """

    def __init__(self, schema: Schema, kept: tuple[type, ...], *, case_sensitive: bool) -> None:
        self._schema = schema
        self._kept = kept
        self._case_sensitive = case_sensitive

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise AssertionError(f"`rewrite_not` leaves no negation, as of {child_result}")

    def visit_and(
        self, left_result: BooleanExpression, right_result: BooleanExpression
    ) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(
        self, left_result: BooleanExpression, right_result: BooleanExpression
    ) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        name = getattr(predicate.term, "name", None)
        if not isinstance(name, str) or isinstance(predicate, self._kept):
            return predicate
        try:
            type_ = self._schema.find_type(name, self._case_sensitive)
        except ValueError:
            return predicate
        return AlwaysTrue() if isinstance(type_, UUIDType) else predicate

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        is_uuid = isinstance(predicate.term.ref().field.field_type, UUIDType)
        return AlwaysTrue() if is_uuid else predicate
