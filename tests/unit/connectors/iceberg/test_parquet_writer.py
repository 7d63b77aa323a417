"""Goal: Parquet is written as a table's properties ask, and whatever they say, it can be read."""

from __future__ import annotations

import pathlib
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, LongType, NestedField, StringType

from seamline.connectors.iceberg.parquet_writer import ParquetModel, bloom_filters

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "is_open", BooleanType()),
)
ROWS = pa.table(
    {
        "id": pa.array([i * 37 % 1009 for i in range(1000)], pa.int64()),
        "text": [f"text {i}" for i in range(1000)],
        "is_open": [i % 2 == 0 for i in range(1000)],
    }
)
BLOOM = "write.parquet.bloom-filter-"


def written(path: pathlib.Path, properties: dict[str, str]) -> pq.FileMetaData:
    output = PyArrowFileIO().new_output(str(path))
    with ParquetModel().create_writer(output, SCHEMA, properties) as writer:
        writer.write(ROWS)
    assert writer.result().record_count == len(ROWS)
    assert pq.read_table(path).equals(ROWS)
    return pq.read_metadata(path)


def test_filters_and_row_groups_are_what_the_properties_ask(tmp_path: pathlib.Path) -> None:
    enabled = {f"{BLOOM}enabled.column.{name}": "true" for name in ("id", "is_open", "gone")}
    path = tmp_path / "rows.parquet"
    size = str(ROWS.nbytes // 10)
    metadata = written(path, {**enabled, "write.parquet.row-group-size-bytes": size})
    assert 10 <= metadata.num_row_groups <= 11
    with_filters = {
        metadata.row_group(g).column(c).path_in_schema
        for g in range(metadata.num_row_groups)
        for c in range(3)
        if metadata.row_group(g).column(c).bloom_filter_offset is not None
    }
    assert with_filters == {"id"}
    (left_out,) = duckdb.sql(
        f"SELECT count(*) FROM parquet_bloom_probe('{path}', 'id', 37) WHERE bloom_filter_excludes"
    ).fetchall()[0]
    assert left_out == metadata.num_row_groups - 1
    assert duckdb.sql(f"SELECT text FROM '{path}' WHERE id = 37").fetchall() == [("text 1",)]


@pytest.mark.parametrize(
    ("properties", "filter_"),
    [
        ({}, {"ndv": 5000, "fpp": 0.01}),
        ({"fpp.column.id": "0.001", "ndv.column.id": "70"}, {"ndv": 70, "fpp": 0.001}),
        ({"fpp.column.id": "often", "ndv.column.id": "-1"}, {"ndv": 5000, "fpp": 0.01}),
        ({"fpp.column.id": "1", "max-bytes": "nan"}, {"ndv": 5000, "fpp": 0.01}),
        ({"max-bytes": "1024"}, {"ndv": 846, "fpp": 0.01}),
    ],
)
def test_sizes_of_filters(properties: dict[str, str], filter_: dict[str, Any]) -> None:
    own = {f"{BLOOM}{key}": value for key, value in properties.items()}
    enabled = {f"{BLOOM}enabled.column.id": "true"}
    assert bloom_filters({**own, **enabled}, ROWS.schema, 5000) == {"id": filter_}


def test_without_properties_nothing_is_different(tmp_path: pathlib.Path) -> None:
    metadata = written(tmp_path / "rows.parquet", {"write.parquet.row-group-size-bytes": "many"})
    assert metadata.num_row_groups == 1
    columns = [metadata.row_group(0).column(c) for c in range(3)]
    assert all(column.bloom_filter_offset is None for column in columns)
