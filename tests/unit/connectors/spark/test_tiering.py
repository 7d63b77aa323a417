"""Goal: what Spark's writer would get wrong is named before it is committed."""

from __future__ import annotations

import re
import types
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from seamline.connectors.spark.tiering import partition_conditions


def conditions(type_: Any, transform: str) -> list[str]:
    nested = NestedField(3, "in`side", type_)
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "s", StructType(nested)))
    spec = PartitionSpec(PartitionField(3, 1000, parse_transform(transform), "p"))
    metadata: Any = types.SimpleNamespace(schema=lambda: schema, spec=lambda: spec)
    return list(partition_conditions("lake.default.t", metadata))


@pytest.mark.parametrize("width", [3, 7, 10, 1000, 2**31 - 1])
@pytest.mark.parametrize(("type_", "bits"), [(IntegerType(), 32), (LongType(), 64)])
def test_the_first_row_with_a_partition_value_is_the_least_that_is_let_through(
    type_: Any, bits: int, width: int
) -> None:
    (condition,) = conditions(type_, f"truncate[{width}]")
    found = re.match(r"CASE WHEN `s`\.`in``side` < (-\d+)L THEN CAST\(raise_error", condition)
    assert found
    first, least = int(found[1]), -(2 ** (bits - 1))
    truncated = parse_transform(f"truncate[{width}]").transform(type_)
    assert truncated(first) >= least > truncated(first - 1)
    assert "INVALID_TABLE_DEFINITION: " in condition


@pytest.mark.parametrize("transform", ["truncate[16]", "truncate[1]", "identity", "bucket[10]"])
def test_nothing_is_checked_where_every_row_has_a_partition_value(transform: str) -> None:
    assert conditions(IntegerType(), transform) == []
