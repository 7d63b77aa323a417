"""Goal: Parquet is written as a table's properties ask, and whatever they say, it can be read."""

from __future__ import annotations

import pathlib
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
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


def test_only_values_that_repeat_are_in_dictionaries(tmp_path: pathlib.Path) -> None:
    columns: dict[str, tuple[pa.DataType, list[Any], bool]] = {
        "id": (pa.int64(), list(range(5000)), False),
        "price": (pa.decimal128(12, 2), list(range(5000)), False),
        "text": (pa.string(), [f"text {i}" for i in range(5000)], False),
        "place": (pa.string(), [f"place {i % 500}" for i in range(5000)], True),
        "at": (pa.timestamp("us"), [i // 50 for i in range(5000)], True),
        "rare": (pa.int64(), [i if i % 1000 == 0 else None for i in range(5000)], False),
        "absent": (pa.string(), [None] * 5000, True),
        "uuid": (pa.uuid(), [i.to_bytes(16) for i in range(5000)], False),
        "sizes": (pa.map_(pa.string(), pa.int64()), [{"a": i} for i in range(5000)], True),
        "extra": (pa.struct({"a": pa.string()}), [{"a": f"a {i}"} for i in range(5000)], True),
        "tags": (pa.list_(pa.string()), [[f"tag {i}"] for i in range(5000)], True),
    }
    rows = pa.table({name: pa.array(v, t) for name, (t, v, _) in columns.items()})
    ids = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(rows.schema))
    path = tmp_path / "rows.parquet"
    with ParquetModel().create_writer(PyArrowFileIO().new_output(str(path)), ids, {}) as writer:
        writer.write(rows)
    assert pq.read_table(path).equals(rows)
    group = pq.read_metadata(path).row_group(0)
    parts = [group.column(c) for c in range(group.num_columns)]
    found = {part.path_in_schema.split(".")[0]: part.has_dictionary_page for part in parts}
    assert found == {name: repeats for name, (_, _, repeats) in columns.items()}


def test_row_groups_are_measured_as_they_are_encoded(tmp_path: pathlib.Path) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(10_000), pa.int64()),
            "text": pa.array(["the same text in every row"] * 10_000),
            "is_open": pa.nulls(10_000, pa.bool_()),
        }
    )
    path = tmp_path / "rows.parquet"
    output = PyArrowFileIO().new_output(str(path))
    properties = {"write.parquet.row-group-size-bytes": "8000"}
    with ParquetModel().create_writer(output, SCHEMA, properties) as writer:
        writer.write(rows)
    assert pq.read_table(path).equals(rows)
    assert 990 <= pq.read_metadata(path).row_group(0).num_rows <= 1010


def test_pages_are_limited_by_bytes_unless_a_table_limits_their_rows(
    tmp_path: pathlib.Path,
) -> None:
    rows = pa.table({"id": pa.array(range(100_000), pa.int64())})

    def written_bytes(properties: dict[str, str]) -> int:
        path = tmp_path / "rows.parquet"
        properties = {"write.parquet.compression-codec": "uncompressed", **properties}
        output = PyArrowFileIO().new_output(str(path))
        with ParquetModel().create_writer(output, SCHEMA.select("id"), properties) as writer:
            writer.write(rows)
        assert pq.read_table(path).equals(rows)
        return int(pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size)

    whole = written_bytes({})
    for limit in ("0", "many", "1e300"):
        assert whole == written_bytes({"write.parquet.page-row-limit": limit})
    for limit in ("1000", "0.5"):
        assert written_bytes({"write.parquet.page-row-limit": limit}) > whole + 99 * 10
