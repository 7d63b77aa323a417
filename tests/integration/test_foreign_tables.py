"""Tables of other writers, read by Spark.

Goal: the same rows as DuckDB reads (`tests/property/test_foreign_tables.py`), and what only Spark
reads: variants, as the JSON that Spark itself says they are.
"""

from __future__ import annotations

import pathlib

import pytest
from support.gateway import Gateway
from support.handmade_shapes import Story
from support.live import canonical
from support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def test_variants_are_json(stack: Stack, gateway: Gateway, name: str) -> None:
    table = f"lake.default.{name}"
    stack.spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v VARIANT, s STRUCT<a INT, w VARIANT>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    stack.spark.sql(
        f"""INSERT INTO {table} VALUES
        (1, parse_json('{{"a": 1, "b": [1.5, null, "é"]}}'), named_struct('a', 7, 'w', NULL)),
        (2, NULL, NULL), (3, parse_json('null'), named_struct('a', 1, 'w', parse_json('[2]'))),
        (4, CAST(TIMESTAMP'2024-01-02 03:04:05' AS VARIANT), NULL)"""
    )
    told = [tuple(row) for row in stack.spark.sql(f"SELECT id, to_json(v) FROM {table}").collect()]
    assert gateway.rows(f"SELECT id, v FROM {name} ORDER BY id") == sorted(told)
    assert gateway.rows(f"SELECT id, s FROM {name} WHERE v IS NOT NULL ORDER BY id") == [
        (1, {"a": 7, "w": None}),
        (3, {"a": 1, "w": "[2]"}),
        (4, None),
    ]
    found = gateway.rows(f"SELECT json_extract_scalar(v, '$.b[0]') FROM {name} WHERE id = 1")
    assert found == [("1.5",)]
    assert gateway.rows(f"SELECT count(id) FROM {name}", "duckdb") == [(4,)]


@pytest.mark.prove
def test_histories(stack: Stack, gateway: Gateway, name: str) -> None:
    warehouse = pathlib.Path(stack.config.catalogs["lake"].warehouse.removeprefix("file://"))
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    for seed in range(2000, 2030):
        story = Story(seed, warehouse / "default" / f"{name}_{seed}")
        catalog.register_table(("default", f"{name}_{seed}"), story.make())
        if any(type_ in str(story.table.schemas) for type_ in ("'timestamp_ns'", "'time'")):
            continue  # Spark has no such types
        found = canonical(gateway.rows(f"SELECT * FROM {name}_{seed}", "spark"))
        assert found == canonical(story.rows()), seed
