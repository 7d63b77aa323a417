"""Decides which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide. They may keep too many files, never too few. If an evaluator
fails, that proves nothing, so the file is kept. Evaluators fail on bounds that are encoded for
another type than the column has now, as other writers and older schemas leave them, and on literals
for which a transform has no adjacent value. Conditions on UUIDs prove nothing either: writers do
not agree on their order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, rewrite_not, visit
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import UUIDType

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
        row_filter = _without_uuids(metadata.schema(), row_filter, case_sensitive=case_sensitive)
        self._filter = row_filter
        planner = ManifestGroupPlanner(
            table_metadata=metadata, io=io, row_filter=row_filter, case_sensitive=case_sensitive
        )
        self._evaluators = Evaluators(planner)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any file of a manifest may hold such rows."""
        return self._may(lambda: self._evaluators.of_manifest(manifest))

    def keeps_file(self, file: DataFile) -> bool:
        """Whether a file may hold such rows."""
        return self._may(lambda: self._evaluators.by_partition(file)) and self._may(
            lambda: self._evaluators.by_statistics(file)
        )

    def _may(self, evaluated: Callable[[], bool]) -> bool:
        return isinstance(self._filter, AlwaysTrue) or _unless_proven(evaluated)


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


def _unless_proven(evaluated: Callable[[], bool]) -> bool:
    try:
        return evaluated()
    except _NOT_COMPARABLE:
        return True


def _without_uuids(
    schema: Schema, row_filter: BooleanExpression, *, case_sensitive: bool
) -> BooleanExpression:
    return visit(rewrite_not(row_filter), _WithoutUuids(schema, case_sensitive=case_sensitive))


class _WithoutUuids(BooleanExpressionVisitor[BooleanExpression]):
    """Keeps all rows for a condition on a UUID.

    Iceberg's Java library summarises partitions in the order of signed halves, PyIceberg compares
    unsigned bytes.
    """

    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self._schema = schema
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
        if not isinstance(name, str):
            return predicate
        try:
            type_ = self._schema.find_type(name, self._case_sensitive)
        except ValueError:
            return predicate
        return AlwaysTrue() if isinstance(type_, UUIDType) else predicate

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        is_uuid = isinstance(predicate.term.ref().field.field_type, UUIDType)
        return AlwaysTrue() if is_uuid else predicate
