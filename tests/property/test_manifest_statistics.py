"""Goal: the files of a manifest are pruned together as each would be alone.

Method: files with generated statistics, which may be missing, of another type, in the wrong order,
or contradict each other, of columns of every type and of a partition; conditions of every kind.
What is kept of a manifest is compared with what is kept of its files one by one, which PyIceberg's
evaluators decide. What is read of the files for further conditions is counted.
"""

from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from seamline.connectors.iceberg.manifest_statistics import ManifestStatistics
from seamline.connectors.iceberg.pruning import Pruner

iceberg: Any = expressions
"""Its types leave out that conditions take their columns by position."""
EPOCH = datetime.datetime(1970, 1, 1)
SMALL = st.integers(-3, 3)
TEXTS = st.text("aé\0\U0001f600z", max_size=3)
SPEC = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"))
VALUES: Mapping[PrimitiveType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): SMALL | st.sampled_from([-(2**31), 2**31 - 1]),
    LongType(): SMALL | st.sampled_from([-(2**63), 2**63 - 1]),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DateType(): SMALL,
    TimeType(): st.integers(0, 3),
    TimestampType(): SMALL,
    TimestamptzType(): SMALL,
    StringType(): TEXTS,
    BinaryType(): st.binary(max_size=3),
    FixedType(2): st.binary(min_size=2, max_size=2),
    UUIDType(): st.uuids(),
    DecimalType(9, 2): st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
}
LITERALS: Mapping[type, Callable[[Any], Any]] = {
    DateType: lambda days: EPOCH.date() + datetime.timedelta(days=days),
    TimeType: lambda us: (EPOCH + datetime.timedelta(microseconds=us)).time(),
    TimestampType: lambda us: EPOCH + datetime.timedelta(microseconds=us),
    TimestamptzType: lambda us: (EPOCH + datetime.timedelta(microseconds=us)).replace(
        tzinfo=datetime.UTC
    ),
}
COMPARISONS: Sequence[Any] = (
    *(iceberg.LessThan, iceberg.LessThanOrEqual, iceberg.GreaterThan),
    *(iceberg.GreaterThanOrEqual, iceberg.EqualTo, iceberg.NotEqualTo),
)


@st.composite
def statistics(draw: st.DrawFn, type_: PrimitiveType) -> dict[str, Any]:
    """Statistics of one column in one file."""
    bounds = st.one_of(
        VALUES[type_].map(lambda value: to_bytes(type_, value)),
        VALUES[type_].map(lambda value: to_bytes(type_, value)),
        st.none(),
        st.sampled_from([b"", b"\xff", b"\0\0\0\0", b"12345"]),
    )
    counts = st.none() | st.sampled_from([0, 0, 1, 5])
    return {
        "lower_bounds": draw(bounds),
        "upper_bounds": draw(bounds),
        "value_counts": draw(st.sampled_from([5, 5, 0, None])),
        "null_value_counts": draw(counts),
        "nan_value_counts": draw(counts),
    }


@st.composite
def file(draw: st.DrawFn, type_: PrimitiveType, number: int, spec: PartitionSpec) -> DataFile:
    """A file with statistics of the columns 1 to 3."""
    columns = {1: draw(statistics(type_)), 2: draw(statistics(LongType()))}
    if draw(st.booleans()):
        columns[3] = draw(statistics(IntegerType()))
    names = list(columns[1])
    maps: dict[str, Any] = {
        name: {n: one[name] for n, one in columns.items() if one[name] is not None}
        for name in names
    }
    missing = draw(st.sampled_from([None, None, *names]))
    if missing is not None:
        maps[missing] = None
    of_spec = [draw(st.none() | SMALL)] if spec.fields else []
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file:///t/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*of_spec),
        record_count=draw(st.sampled_from([5, 5, 5, 0, -1])),
        file_size_in_bytes=1,
        **maps,
    )
    made.spec_id = spec.spec_id
    return made


def leaves(name: str, type_: PrimitiveType) -> st.SearchStrategy[BooleanExpression]:
    """Conditions on a column."""
    literal = LITERALS.get(type(type_), lambda value: value)
    values = VALUES[type_].filter(lambda value: value == value).map(literal)
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(lambda of, value: of(name, value), st.sampled_from(COMPARISONS), values),
        st.builds(lambda some: iceberg.In(name, some), st.lists(values, max_size=4)),
        st.builds(lambda some: iceberg.NotIn(name, some), st.lists(values, max_size=4)),
        st.sampled_from([iceberg.IsNull(name), iceberg.NotNull(name)]),
    ]
    if isinstance(type_, FloatType | DoubleType):
        kinds.append(st.sampled_from([iceberg.IsNaN(name), iceberg.NotNaN(name)]))
    if isinstance(type_, StringType):
        of = st.sampled_from([iceberg.StartsWith, iceberg.NotStartsWith])
        kinds.append(st.builds(lambda of, text: of(name, text), of, TEXTS))
    return st.one_of(kinds)


def conditions(type_: PrimitiveType) -> st.SearchStrategy[BooleanExpression]:
    """Conditions on the columns."""
    own = leaves("a", type_)
    some = own | own | leaves("b", LongType()) | leaves("p", IntegerType())
    return st.recursive(
        some,
        lambda parts: st.one_of(
            st.builds(iceberg.And, parts, parts),
            st.builds(iceberg.Or, parts, parts),
            st.builds(iceberg.Not, parts),
        ),
        max_leaves=4,
    )


@functools.cache
def metadata_of(type_: PrimitiveType, spec: PartitionSpec) -> TableMetadata:
    schema = Schema(
        NestedField(1, "a", type_, required=False),
        NestedField(2, "b", LongType(), required=False),
        NestedField(3, "p", IntegerType(), required=False),
    )
    return new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, "file:///t", {})


def pruner(type_: PrimitiveType, spec: PartitionSpec, condition: BooleanExpression) -> Pruner:
    return Pruner(metadata_of(type_, spec), condition)


@pytest.mark.parametrize("type_", VALUES, ids=str)
@hypothesis.settings(max_examples=30)
@hypothesis.given(st.data())
def test_files_are_pruned_together_as_each_is_alone(
    type_: PrimitiveType, data: st.DataObject
) -> None:
    spec = data.draw(st.sampled_from([UNPARTITIONED_PARTITION_SPEC, SPEC]))
    count = data.draw(st.integers(0, 5))
    files = [data.draw(file(type_, number, spec)) for number in range(count)]
    together = ManifestStatistics(files)
    for condition in data.draw(st.lists(conditions(type_), min_size=1, max_size=3)):
        own = pruner(type_, spec, condition)
        alone = [number for number, one in enumerate(files) if own.keeps_file(one)]
        assert own.kept(files, together) == alone


def test_further_conditions_read_no_statistics_of_files() -> None:
    reads = list[int]()

    class Watched(DataFile):
        @property
        def lower_bounds(self) -> Any:
            reads.append(1)
            return super().lower_bounds

    lows = [to_bytes(LongType(), 10 * n) for n in range(100)]
    files: list[DataFile] = []
    for number, low in enumerate(lows):
        bounds = {2: low}, {2: to_bytes(LongType(), 10 * number + 9)}
        own = Watched.from_args(
            record_count=5, partition=Record(), lower_bounds=bounds[0], upper_bounds=bounds[1]
        )
        own.spec_id = 0
        files.append(own)
    together = ManifestStatistics(files)
    for number in (7, 93):
        condition = iceberg.And(
            iceberg.GreaterThanOrEqual("b", 10 * number), iceberg.LessThan("b", 10 * number + 5)
        )
        of = pruner(StringType(), UNPARTITIONED_PARTITION_SPEC, condition)
        assert of.kept(files, together) == [number]
    assert len(reads) == len(files), "each once, for the first condition"


def test_a_uuid_is_kept_whatever_its_bounds() -> None:
    one = to_bytes(UUIDType(), uuid.UUID(int=1))
    own = DataFile.from_args(
        record_count=5, partition=Record(), lower_bounds={1: one}, upper_bounds={1: one}
    )
    own.spec_id = 0
    condition = iceberg.EqualTo("a", uuid.UUID(int=2))
    of = pruner(UUIDType(), UNPARTITIONED_PARTITION_SPEC, condition)
    assert of.kept([own], ManifestStatistics([own])) == [0]
