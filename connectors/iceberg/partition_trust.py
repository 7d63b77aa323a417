"""Which partition values may prove that a file has no rows of a scan.

A scan leaves out a file if the transform of a condition rules out the file's partition value. That
is right only if the writer computed the value as the specification says. These are in use:

- `truncate` of numbers: Java's wraps around below the type's least value; ClickHouse up to 26.9
  takes the remainder of a negative number as if it were unsigned. Neither result is a multiple of
  the width.
- `year`, `month`, `day`, `hour` before 1970: Iceberg up to 0.10 and DuckDB 1.5.5 round towards
  zero; ClickHouse wrote 0, or an hour of the first day. It also counted in the zone of its server.
- any transform: AutoMQ committed null.
- `bucket`: DuckDB 1.5.5 hashes UUIDs as it stores them, with the first bit flipped.

So a value proves nothing if it cannot be right, or if the column statistics of its file contradict
it. What a summary of a manifest's values may hide is treated likewise. In every other case the
condition is widened by what such writers may have made of a value. Correct values prune as ever
where there are statistics, and but for the values around 1970 where there are none.

A partition value of `identity` is what readers take for the column's value, so only a null is
doubted.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIn,
    BoundLiteralPredicate,
    BoundPredicate,
    BoundUnaryPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import InclusiveProjection
from pyiceberg.manifest import DataFile, ManifestFile, PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from seamline.connectors.iceberg.bounds import bound, decoded, is_inverted, only_nulls

_AT_MOST: Any = LessThanOrEqual
_AT_LEAST: Any = GreaterThanOrEqual
_IN: Any = In
_DATETIME: Any = np.datetime64
_INSTANTS = (TimestampType, TimestamptzType)
_ZONE: Mapping[type, int] = {
    YearTransform: 1,
    MonthTransform: 1,
    DayTransform: 1,
    HourTransform: 16,
}
"""By how many units a value may be off if it was counted in some zone; no zone is farther."""
_HOURS_AROUND_EPOCH = 23
"""ClickHouse writes the hours of the last day of 1969, and maybe others, as 0 to 23."""


class PartitionTrust:
    """What the partition values of one spec may prove.

    Args:
        spec: The partition spec.
        schema: The table's schema.
        case_sensitive: Whether the names of columns in filters are case-sensitive.
        is_binding: Whether whoever reads the files relies on the values: Iceberg's Java library
            leaves out conditions that select whole partitions, and reads null for a column whose
            value by `identity` is null. Nulls without statistics then count as right.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        *,
        case_sensitive: bool = True,
        is_binding: bool = False,
    ) -> None:
        self.spec = spec
        self.schema = schema
        self.case_sensitive = case_sensitive
        self.is_binding = is_binding
        ids = schema.field_ids
        sources = [
            (position, field, schema.find_field(field.source_id))
            for position, field in enumerate(spec.fields)
            if field.source_id in ids
        ]
        self._columns = [one for one in sources if isinstance(one[2].field_type, PrimitiveType)]

    def may_mislead(self, manifest: ManifestFile) -> bool:
        """Whether `misleading` or `replaced` may return something for a file of a manifest."""
        summaries = dict(enumerate(manifest.partitions or ()))
        return any(
            not isinstance(field.transform, IdentityTransform)
            or position not in summaries
            or summaries[position].contains_null
            for position, field, _ in self._columns
        )

    def unproven(self, file: DataFile) -> frozenset[int]:
        """Returns the positions in the spec of the values of a file that prove nothing."""
        return frozenset(
            position
            for position, field, column in self._columns
            if self._is_unproven(field, column, file.partition[position], file)
        )

    def unproven_in(self, manifest: ManifestFile) -> frozenset[int]:
        """Returns the positions whose summary in a manifest list proves nothing."""
        summaries = list(enumerate(manifest.partitions or ()))
        unknown = {p for p, summary in summaries if _lacks_bounds(summary) or summary.contains_null}
        columns = {position: (field, column) for position, field, column in self._columns}
        return frozenset(unknown) | {
            position
            for position, summary in summaries
            if position in columns and _hides_others(summary, *columns[position])
        }

    def misleading(self, file: DataFile) -> Iterator[int]:
        """Yields the columns by which Iceberg's Java library might wrongly leave a file out."""
        unproven = self.unproven(file)
        for position, field, column in self._columns:
            value = file.partition[position]
            if (
                position in unproven
                or _has_other_hash(field, column.field_type)
                or (self._may_be_early(field, value) and _lacks(column, file))
            ):
                yield field.source_id

    def replaced(self, file: DataFile) -> NestedField | None:
        """Returns a column whose partition value is null though the file's statistics count values.

        Without statistics null is right, as it is where the column is not stored in the file.
        """
        return next(
            (
                column
                for position, field, column in self._columns
                if isinstance(field.transform, IdentityTransform)
                and file.partition[position] is None
                and only_nulls(column.field_id, file) is False
            ),
            None,
        )

    def droppable(self, condition: BoundPredicate, unproven: frozenset[int]) -> bool:
        """Whether a reader may drop a condition on a column with a partition value that is wrong.

        Iceberg's Java library drops what selects whole partitions, before it knows of any file. Of
        times before 1970 it knows that they may be wrong, and it drops no condition on them.

        Args:
            condition: The condition.
            unproven: The positions of the values of a file that prove nothing.
        """
        source = condition.term.ref().field.field_id
        return any(
            _selects_partitions(field, condition)
            for position, field, _ in self._columns
            if position in unproven and field.source_id == source
        )

    def projection(
        self, row_filter: BooleanExpression, unproven: frozenset[int], *, widened: bool = False
    ) -> BooleanExpression:
        """Returns a condition on partition values that is true wherever the filter may be.

        Args:
            row_filter: The filter.
            unproven: Positions of values that prove nothing.
            widened: Whether values may also be off by a zone; in a file, its statistics would tell.
        """
        kept = [field for n, field in enumerate(self.spec.fields) if n not in unproven]
        if not kept:
            return AlwaysTrue()
        return _Projection(self, frozenset(field.field_id for field in kept), widened).project(
            row_filter
        )

    def _is_unproven(
        self, field: PartitionField, column: NestedField, value: Any, file: DataFile
    ) -> bool:
        has_nulls_only = only_nulls(column.field_id, file)
        if value is None:
            if self.is_binding and isinstance(field.transform, IdentityTransform):
                return False
            return not self.is_binding if has_nulls_only is None else not has_nulls_only
        if isinstance(field.transform, IdentityTransform):
            return False
        if (file.null_value_counts or {}).get(column.field_id):
            return True
        covered = covered_by(field, column.field_type, value)
        if covered is None:
            return False
        least, greatest = covered
        if least is None:
            return True
        low, high = bound(column, file.lower_bounds), bound(column, file.upper_bounds)
        return (low is not None and low < least) or (high is not None and high > greatest)

    def last_early(self, field: PartitionField, *, in_summary: bool = False) -> int:
        """Returns the greatest value that may stand for any earlier time."""
        is_hour = isinstance(field.transform, HourTransform)
        return _HOURS_AROUND_EPOCH if is_hour and (in_summary or not self.is_binding) else 0

    def _may_be_early(self, field: PartitionField, value: Any) -> bool:
        is_time = isinstance(field.transform, TimeTransform) and value is not None
        return is_time and 0 <= value <= self.last_early(field)


def covered_by(field: PartitionField, type_: IcebergType, value: Any) -> tuple[Any, Any] | None:
    """Returns the least and the greatest value of a column with a partition value.

    They are as in bounds: days, micro- or nanoseconds. Both are None if no value of the column has
    that partition value; the result is None if a transform has no such range.
    """
    match field.transform:
        case TruncateTransform(width=width) if isinstance(type_, IntegerType | LongType):
            return (value, value + width - 1) if value % width == 0 else (None, None)
        case TruncateTransform(width=width) if isinstance(type_, DecimalType):
            unit = Decimal(1).scaleb(-type_.scale)
            is_multiple = int(value.scaleb(type_.scale)) % width == 0
            return (value, value + (width - 1) * unit) if is_multiple else (None, None)
        case TimeTransform() if isinstance(type_, (DateType, *_INSTANTS)):
            return _units(type(field.transform), type(type_), value)
    return None


_UNITS: Mapping[type, str] = {
    YearTransform: "Y",
    MonthTransform: "M",
    DayTransform: "D",
    HourTransform: "h",
}


@functools.lru_cache(100_000)
def _units(transform: type, type_: type, value: int) -> tuple[int, int]:
    """Returns the first and the last day, or microsecond, of a unit of time."""
    stored = "D" if type_ is DateType else "us"
    moments = (_DATETIME(n, _UNITS[transform]) for n in (value, value + 1))
    first, end = (int(moment.astype(f"datetime64[{stored}]").astype(int)) for moment in moments)
    return first, end - 1


def _lacks(column: NestedField, file: DataFile) -> bool:
    return None in (bound(column, file.lower_bounds), bound(column, file.upper_bounds))


# --- Summaries of manifests ----------------------------------------------------------------------


def lacks_bounds(manifest: ManifestFile) -> bool:
    """Whether a manifest's summary of partitions leaves out bounds of values that it must have.

    Without bounds all values are null, by the specification and for every evaluator. Some writers
    leave out those of numbers, and do not say that there are nulls.
    """
    return any(map(_lacks_bounds, manifest.partitions or ()))


def _lacks_bounds(summary: PartitionFieldSummary) -> bool:
    return (
        (summary.lower_bound is None or summary.upper_bound is None)
        and not summary.contains_null
        and not summary.contains_nan
    )


def _hides_others(
    summary: PartitionFieldSummary, field: PartitionField, column: NestedField
) -> bool:
    """Whether the bounds of partition values may lie: some value may stand for rows outside."""
    type_ = field.transform.result_type(column.field_type)
    if summary.lower_bound is None or summary.upper_bound is None:
        return False
    if not isinstance(type_, PrimitiveType):
        return True
    low, high = decoded(type_, summary.lower_bound), decoded(type_, summary.upper_bound)
    if low is None or high is None or is_inverted(low, high):
        return not isinstance(type_, UUIDType)  # whose order is not used
    if not isinstance(field.transform, TruncateTransform):
        return False
    if any(covered_by(field, column.field_type, value) == (None, None) for value in (low, high)):
        return True
    wrapped = _wrapped(field.transform, column.field_type)
    return any(low <= value <= high for value in wrapped)


def _wrapped(transform: TruncateTransform[Any], type_: IcebergType) -> Iterable[int]:
    """Yields what Java's library makes of the least values of a type, if that is not below them."""
    widths: Mapping[type, tuple[int, ...]] = {
        IntegerType: (32,),
        LongType: (32, 64),
    }  # the column may have been widened
    for bits in widths.get(type(type_), ()):
        rest = -(1 << (bits - 1)) % transform.width
        if rest:
            yield (1 << (bits - 1)) - rest


# --- Conditions ----------------------------------------------------------------------------------


class _Projection(InclusiveProjection):
    """Projects a filter on partition values, by a spec of which some fields prove nothing."""

    def __init__(self, trust: PartitionTrust, fields: frozenset[int], widened: bool) -> None:
        super().__init__(trust.schema, trust.spec, trust.case_sensitive)
        self._trust = trust
        self._fields = fields
        self._widened = widened

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        source = predicate.term.ref().field
        result: BooleanExpression = AlwaysTrue()
        for field in self.spec.fields_by_source_id(source.field_id):
            if field.field_id not in self._fields:
                continue
            projected = field.transform.project(field.name, predicate)
            if projected is not None:
                result = And(result, self._cautious(field, predicate, projected))
        return result

    def _cautious(
        self, field: PartitionField, predicate: BoundPredicate, projected: UnboundPredicate
    ) -> BooleanExpression:
        type_ = predicate.term.ref().field.field_type
        if isinstance(field.transform, TimeTransform):
            off = _ZONE[type(field.transform)] if self._widened else 0
            last_early = self._trust.last_early(field, in_summary=self._widened)
            return _earlier(projected, off, last_early)
        if _has_other_hash(field, type_):
            return Or(projected, _other_buckets(field, predicate))
        return projected


def _selects_partitions(field: PartitionField, condition: BoundPredicate) -> bool:
    """Whether a condition on a column is one on the partition value alone."""
    if isinstance(condition, BoundUnaryPredicate):
        return True
    some = field.transform.project(field.name, condition)
    every = field.transform.strict_project(field.name, condition)
    match some, every:
        case GreaterThanOrEqual(), GreaterThan():
            return bool(some.literal.value == every.literal.value + 1 > 1)
        case LessThanOrEqual(), LessThan():
            return bool(0 <= some.literal.value == every.literal.value - 1)
    return False


def _earlier(projected: UnboundPredicate, off: int, last_early: int) -> BooleanExpression:
    """Widens a condition on units of time since 1970 by what may stand for other units.

    Args:
        projected: The condition.
        off: By how many units any value may be off.
        last_early: Values up to this one may stand for any earlier time.
    """
    widened: BooleanExpression
    match projected:
        case LessThanOrEqual():
            latest = max(projected.literal.value + off, last_early)
            widened = _AT_MOST(projected.term, latest)
            return widened
        case GreaterThanOrEqual():
            widened = _AT_LEAST(projected.term, projected.literal.value - off)
            return widened
        case EqualTo():
            values = {projected.literal.value}
        case In():
            values = {literal.value for literal in projected.literals}
        case _:
            return projected
    if off == 0 and min(values) > last_early:
        return projected
    latest = max(max(values) + off, last_early)
    earliest = min(values) - off
    return And(_AT_LEAST(projected.term, earliest), _AT_MOST(projected.term, latest))


# --- Buckets -------------------------------------------------------------------------------------


def _has_other_hash(field: PartitionField, type_: IcebergType) -> bool:
    """Whether some writer hashes the values of a type differently."""
    return isinstance(field.transform, BucketTransform) and isinstance(type_, UUIDType)


def _other_buckets(field: PartitionField, predicate: BoundPredicate) -> BooleanExpression:
    """Returns the condition that a partition value is a bucket that such a writer would choose."""
    ids: list[Any] = []
    if isinstance(predicate, BoundIn):
        ids = [literal.value for literal in predicate.literals]
    elif isinstance(predicate, BoundLiteralPredicate):
        ids = [predicate.literal.value]
    bucket: Callable[[Any], Any] = field.transform.transform(BinaryType())
    chosen: BooleanExpression = _IN(field.name, {bucket(_as_duckdb_stores(one)) for one in ids})
    return chosen if ids else AlwaysFalse()


def _as_duckdb_stores(value: Any) -> bytes:
    first, *others = value.bytes if isinstance(value, uuid.UUID) else value
    return bytes((first ^ 0x80, *others))
