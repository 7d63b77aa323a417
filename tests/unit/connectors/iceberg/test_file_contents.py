"""Goal: columns of files are known as they are stored, by whatever has written them."""

from __future__ import annotations

import pathlib

import duckdb
import pyarrow.parquet as pq

from seamline.connectors.iceberg.file_contents import schema_of

EVERY_TYPE = """
SELECT 1::tinyint AS a, 1::smallint AS b, 1::integer AS c, 1::bigint AS d, 1.5::real AS e,
       1.5::double AS f, 1.5::decimal(9, 2) AS g, 1.5::decimal(38, 9) AS h, 'x' AS i,
       'x'::blob AS j, DATE '2026-01-31' AS k, TIME '10:00:00' AS l,
       TIMESTAMP '2026-01-31 10:00:00' AS m, TIMESTAMPTZ '2026-01-31 10:00:00Z' AS n,
       uuid() AS o, true AS p, [1] AS q, {'x': uuid()} AS r, MAP {'x': [uuid()]} AS s
"""


def test_the_schema_of_a_file_of_another_writer(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "every_type.parquet"
    duckdb.sql(f"COPY ({EVERY_TYPE}) TO '{path}' (FORMAT parquet)")
    with pq.ParquetFile(path) as file:
        assert schema_of(file).equals(pq.read_schema(path))
