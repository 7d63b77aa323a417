"""Decides which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide, or arrays that give the same result (`manifest_statistics.py`).
They may keep too many files, never too few. If an evaluator
fails, that proves nothing, so the file is kept. Evaluators fail on bounds that are encoded for
another type than the column has now, as other writers and older schemas leave them, and on literals
for which a transform has no adjacent value. Statistics that contradict each other prove nothing
(`bounds.py`), nor do partition values that writers are seen to get wrong (`partition_trust.py`).
Bounds of UUIDs prove nothing either, since writers do not agree on their order, but a partition's
own UUID does: engines that see a plan leave out a condition that only selects partitions.
"""

from __future__ import annotations

import functools
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
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
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    bind,
    expression_evaluator,
    extract_field_ids,
    manifest_evaluator,
    rewrite_not,
    visit,
)
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, UUIDType

from seamline.connectors.iceberg.bounds import NOT_COMPARABLE, consistent
from seamline.connectors.iceberg.manifest_statistics import ManifestStatistics
from seamline.connectors.iceberg.partition_trust import PartitionTrust
from seamline.connectors.iceberg.pyiceberg_internals import is_decided, statistics_evaluator


class Pruner:
    """Decides which manifests and files of one scan may hold rows that a filter keeps.

    Args:
        metadata: The table's metadata; the filter refers to its current schema.
        row_filter: The filter.
        case_sensitive: Whether its column names are case-sensitive.
        is_binding: See `PartitionTrust`.

    Raises:
        ValueError: when the filter does not match the schema.
        TypeError: likewise.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
        is_binding: bool = False,
    ) -> None:
        schema = metadata.schema()

        def reduced(kept: tuple[type, ...]) -> BooleanExpression:
            kinds = _UuidConditions(schema, kept, case_sensitive=case_sensitive)
            return visit(rewrite_not(row_filter), kinds)

        of_bounds, of_values = reduced(()), reduced(_UNORDERED)
        bind(schema, of_values, case_sensitive)  # raises if it does not match the schema
        self._schema = schema
        self._conditions = tuple(_leaves(bind(schema, rewrite_not(row_filter), case_sensitive)))
        self._keeps_all = isinstance(of_values, AlwaysTrue)
        self._by_statistics = statistics_filter(schema, of_bounds, case_sensitive=case_sensitive)
        self._of_bounds = bind(schema, rewrite_not(of_bounds), case_sensitive)
        self._partitions = functools.cache(
            lambda spec_id: _Partitions(
                PartitionTrust(
                    metadata.specs()[spec_id],
                    schema,
                    case_sensitive=case_sensitive,
                    is_binding=is_binding,
                ),
                of_bounds,
                of_values,
            )
        )

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any file of a manifest may hold such rows."""
        if self._keeps_all:
            return True
        return self._partitions(manifest.partition_spec_id).keep_manifest(manifest)

    def keeps_file(self, file: DataFile) -> bool:
        """Whether a file may hold such rows."""
        if self._keeps_all:
            return True
        return self._partitions(file.spec_id).keep_file(file) and self._by_statistics(file)

    def kept(self, files: Sequence[DataFile], statistics: ManifestStatistics) -> list[int]:
        """Returns the numbers of the files of a manifest that `keeps_file` would keep."""
        if self._keeps_all:
            return list(range(len(files)))
        masks = statistics.kept(self._of_bounds)
        if masks is None:
            return [number for number, file in enumerate(files) if self.keeps_file(file)]
        decided, kept = masks
        return [
            number
            for number in np.flatnonzero(kept | ~decided).tolist()
            if self._partitions(files[number].spec_id).keep_file(files[number])
            and (decided[number] or self._by_statistics(files[number]))
        ]

    def undecided(self, file: DataFile) -> str | None:
        """Returns the column of a condition that a reader drops, although a file meets it in part.

        It is None unless the partition value of the file is wrong; see `PartitionTrust.droppable`.
        """
        trust = self._partitions(file.spec_id).trust
        unproven = trust.unproven(file) if self._conditions else frozenset[int]()
        for condition in self._conditions if unproven else ():
            if _holds(functools.partial(trust.droppable, condition, unproven)) and not _holds(
                functools.partial(is_decided, self._schema, condition, file)
            ):
                return str(condition.term.ref().field.name)
        return None


def _holds(evaluated: Callable[[], bool]) -> bool:
    try:
        return evaluated()
    except NOT_COMPARABLE:
        return False


def _leaves(expression: BooleanExpression) -> Iterator[BoundPredicate]:
    if isinstance(expression, And | Or):
        yield from _leaves(expression.left)
        yield from _leaves(expression.right)
    elif isinstance(expression, BoundPredicate):
        yield expression


class _Partitions:
    """Decides by the partition values of one spec.

    Args:
        trust: What they may prove.
        of_bounds: The filter for summaries of them.
        of_values: The filter for the values themselves.
    """

    def __init__(
        self, trust: PartitionTrust, of_bounds: BooleanExpression, of_values: BooleanExpression
    ) -> None:
        spec, schema = trust.spec, trust.schema
        partition = Schema(*spec.partition_type(schema).fields)
        self.trust = trust

        @functools.cache
        def of_manifests(unproven: frozenset[int]) -> Callable[[ManifestFile], bool]:
            condition = trust.projection(of_bounds, unproven, widened=True)
            return manifest_evaluator(spec, schema, condition, trust.case_sensitive)

        @functools.cache
        def of_files(unproven: frozenset[int]) -> Callable[[Any], bool]:
            condition = trust.projection(of_values, unproven)
            return expression_evaluator(partition, condition, trust.case_sensitive)

        self._of_manifests, self._of_files = of_manifests, of_files

    def keep_manifest(self, manifest: ManifestFile) -> bool:
        """Whether the summaries of a manifest let a row through."""

        def kept() -> bool:
            return self._of_manifests(self.trust.unproven_in(manifest))(manifest)

        return _unless_proven(kept)

    def keep_file(self, file: DataFile) -> bool:
        """Whether the partition of a file lets a row through.

        NaN proves nothing, since engines compare it differently.
        """
        values = [file.partition[position] for position in range(len(file.partition))]
        if any(isinstance(value, float) and math.isnan(value) for value in values):
            return True
        # a UUID is compared as its bytes
        plain = Record(*(v.bytes if isinstance(v, uuid.UUID) else v for v in values))
        if _unless_proven(lambda: self._of_files(frozenset())(plain)):
            return True

        def kept() -> bool:
            unproven = self.trust.unproven(file)
            return bool(unproven) and self._of_files(unproven)(plain)

        return _unless_proven(kept)


def statistics_filter(
    schema: Schema, row_filter: BooleanExpression, *, case_sensitive: bool = True
) -> Callable[[DataFile], bool]:
    """Returns a test for whether a file's statistics alone let it hold rows that a filter keeps.

    Args:
        schema: The columns that the filter may refer to; conditions on others prove nothing.
        row_filter: The filter.
        case_sensitive: Whether its column names are case-sensitive.
    """
    if isinstance(row_filter, AlwaysTrue):
        return lambda _: True
    keeps = statistics_evaluator(schema, row_filter, case_sensitive=case_sensitive)
    bound = bind(schema, rewrite_not(row_filter), case_sensitive)
    columns = [schema.find_field(number) for number in extract_field_ids(bound)]
    compared = [column for column in columns if isinstance(column.field_type, PrimitiveType)]
    return lambda file: _unless_proven(lambda: keeps(consistent(file, compared)))


def _unless_proven(evaluated: Callable[[], bool]) -> bool:
    try:
        return evaluated()
    except NOT_COMPARABLE:
        return True


_UNORDERED = (EqualTo, NotEqualTo, In, NotIn, IsNull, NotNull)
"""Conditions that mean the same in whatever order values are."""


class _UuidConditions(BooleanExpressionVisitor[BooleanExpression]):
    """Keeps all rows for a condition on a UUID, unless it is of a kind that means something.

    Iceberg's Java library summarises partitions in the order of signed halves, PyIceberg compares
    unsigned bytes.
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
