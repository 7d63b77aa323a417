"""Goal: every row that is written is in one file, and that file in the row's own partition.

Method: random specs over every type that can partition a table, one column in several fields, and
values with nulls, NaN, both zeros and extremes. What the files hold is read back; the partition of
each row is computed by PyIceberg's own transforms, value by value.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField, StructType

from seamline.connectors.iceberg.tables.writing import write_files
from seamline.connectors.iceberg.type_conversion import table_schema
from seamline.sql import types

MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    "long": st.integers(-(2**63) + 9, 2**63 - 1) | st.integers(-3, 3),
    "float": st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]),
    "double": st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 1e300]),
    "decimal(9,2)": st.decimals(-9999, 9999, places=2) | st.just(decimal.Decimal("0.00")),
    "date": MOMENTS.map(lambda m: m.date()),
    "time": MOMENTS.map(lambda m: m.time()),
    "timestamp": MOMENTS,
    "timestamptz": MOMENTS.map(lambda m: m.replace(tzinfo=datetime.UTC)),
    "string": st.text(max_size=4),
    "uuid": st.integers(0, 5).map(lambda n: str(uuid.UUID(int=n << 100))),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "binary": st.binary(max_size=4),
}
TRANSFORMS = [
    parse_transform(text)
    for text in ("identity", "bucket[3]", "truncate[2]", "year", "month", "day", "hour", "void")
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> SqlCatalog:
    folder = tmp_path_factory.mktemp("catalog")
    made = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    made.create_namespace("s")
    return made


def type_of(name: str) -> IcebergType:
    return NestedField(1, name, name).field_type


def bits(value: Any) -> Any:
    """A value that equals another only if they are the same to the last bit."""
    return struct.pack("d", value) if isinstance(value, float) else value


@st.composite
def written(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, str]], list[tuple[Any, ...]]]:
    """Types of columns, fields of a spec (column, transform), and rows."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    possible = [
        (column, str(transform))
        for column, kind in enumerate(kinds)
        for transform in TRANSFORMS
        if transform.can_transform(type_of(kind))
    ]
    fields = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4, unique=True))
    row = st.tuples(*(st.none() | VALUES[kind] for kind in kinds))
    return kinds, fields, draw(st.lists(row, min_size=1, max_size=30))


def made(catalog: SqlCatalog, kinds: list[str], fields: list[tuple[int, str]]) -> Table:
    schema = Schema(
        NestedField(1, "row", type_of("int"), required=True),
        NestedField(2, "inside", StructType(NestedField(3, "x", type_of(kinds[0])))),
        *(NestedField(n + 4, f"c{n}", type_of(kind)) for n, kind in enumerate(kinds)),
    )
    spec = PartitionSpec(
        *(
            PartitionField(column + 4, 1000 + n, parse_transform(transform), f"p{n}")
            for n, (column, transform) in enumerate(fields)
        ),
        PartitionField(3, 2000, parse_transform("identity"), "of_inside"),
    )
    return catalog.create_table(f"s.t{uuid.uuid4().hex}", schema, partition_spec=spec)


def wanted_partition(table: Table, row: tuple[Any, ...]) -> tuple[Any, ...]:
    schema, found = table.schema(), []
    values = {"inside.x": row[0], **{f"c{n}": value for n, value in enumerate(row)}}
    for field in table.spec().fields:
        source = schema.find_type(field.source_id)
        value = values[str(schema.find_column_name(field.source_id))]
        if str(source) == "uuid" and value is not None:
            value = uuid.UUID(value)
        stored = partition_record_value(field, value, schema)
        found.append(bits(field.transform.transform(source)(stored)))
    return tuple(found)


@pytest.mark.prove
@settings(deadline=None)
@given(written())
def test_every_row_lies_once_and_in_its_partition(
    catalog: SqlCatalog,
    case: tuple[list[str], list[tuple[int, str]], list[tuple[Any, ...]]],
) -> None:
    kinds, fields, rows = case
    table = made(catalog, kinds, fields)
    fields_of_rows = [
        types.result_field(column.name, column.type)
        for column in table_schema(table.schema()).columns
    ]
    values: list[list[Any]] = [list(range(len(rows))), [{"x": row[0]} for row in rows]]
    values += [[row[n] for row in rows] for n in range(len(kinds))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(v, field.type) for v, field in zip(values, fields_of_rows, strict=True)],
        schema=pa.schema(fields_of_rows),
    )
    found: dict[int, tuple[Any, ...]] = {}
    for file in write_files(table.metadata, table.io, [batch]):
        read = pq.read_table(file.file_path.removeprefix("file://"))
        assert read.num_rows == file.record_count
        for number in read.column("row").to_pylist():
            assert number not in found, "it is written twice"
            found[number] = tuple(bits(file.partition[n]) for n in range(len(file.partition)))
    assert found == {n: wanted_partition(table, row) for n, row in enumerate(rows)}
