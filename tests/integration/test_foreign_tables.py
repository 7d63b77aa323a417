"""Tables of other writers, read by Spark.

Goal: the same rows as DuckDB reads (`tests/property/test_foreign_tables.py`), and what only Spark
reads: variants, as the JSON that Spark itself says they are.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.gateway import Gateway
from support.handmade_shapes import Story
from support.java_library import java_library
from support.live import canonical
from support.partition_writers import WRITTEN, write
from support.stack import Stack

from seamline.connectors.jvm.jars import spark_jars

pytestmark = [pytest.mark.integration, pytest.mark.spark]

LEAST = 1 << 33
"""What is handed to Java is an int if it is less."""


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
    for number, text in (("1" * 39, "1.111111111111111E38"), ("1e400", '"Infinity"')):
        written = stack.spark.sql(f"SELECT to_json(parse_json('{number}'))").collect()
        assert tuple(written[0]) == (text,), "why topics fill no variants: docs/tables.md"
    found = gateway.rows(f"SELECT json_extract_scalar(v, '$.b[0]') FROM {name} WHERE id = 1")
    assert found == [("1.5",)]
    assert gateway.rows(f"SELECT count(id) FROM {name}", "duckdb") == [(4,)]


def test_equality_deletes_of_javas_own_writer(stack: Stack, gateway: Gateway, name: str) -> None:
    """Its files have bounds, by which deletes are told that no row of a data file can match."""
    warehouse = pathlib.Path(stack.config.catalogs["lake"].warehouse.removeprefix("file://"))
    with java_library(*spark_jars(print)) as java:
        location = JavaTable(java, warehouse / "default" / name).fill(random.Random(7))
    gateway.parts.connections.catalog("lake").pyiceberg.register_table(("default", name), location)
    count = gateway.rows(f"SELECT count(*) FROM {name}", "spark")[0][0]
    assert 0 < count < 4 * 2 * 14
    for condition in ("true", f"id < {LEAST + 20}", "s = 'a'", "n IS NULL", "p = 1"):
        sql = f"SELECT * FROM {name} WHERE {condition}"
        found = {engine: canonical(gateway.rows(sql, engine)) for engine in ("duckdb", "spark")}
        assert found["duckdb"] == found["spark"], condition


@pytest.mark.prove
@pytest.mark.parametrize("written", WRITTEN)
def test_wrong_partition_values_do_not_prune_on_spark(
    gateway: Gateway, name: str, written: str
) -> None:
    write(gateway, name, written)
    *_, conditions = WRITTEN[written]
    for condition in conditions:
        sql = f"SELECT n FROM {name} WHERE {condition}"
        found = {engine: sorted(gateway.rows(sql, engine)) for engine in ("duckdb", "spark")}
        assert found["duckdb"] == found["spark"] != [], condition


class JavaTable:
    """A table whose every file is written by Iceberg's own library, as Flink uses it.

    Args:
        java: A Java with the library.
        folder: Where the table is.
    """

    def __init__(self, java: Any, folder: pathlib.Path) -> None:
        self._java, self._iceberg = java, java.org.apache.iceberg
        types = self._iceberg.types.Types
        columns = java.java.util.ArrayList()
        for number, (name, type_) in enumerate(
            {
                "id": types.LongType.get(),
                "s": types.StringType.get(),
                "n": types.IntegerType.get(),
                "p": types.IntegerType.get(),
            }.items(),
            1,
        ):
            columns.add(types.NestedField.optional(number, name, type_))
        schema = self._iceberg.Schema(columns)
        spec = self._iceberg.PartitionSpec.builderFor(schema).identity("p").build()
        tables = self._iceberg.hadoop.HadoopTables(java.org.apache.hadoop.conf.Configuration())
        properties = java.java.util.HashMap()
        properties.put("format-version", "2")
        self._table = tables.create(schema, spec, properties, f"file://{folder}")

    def fill(self, chance: random.Random) -> str:
        """Writes rows and deletes in turn; returns where the metadata is."""
        values: dict[str, Callable[[], Any]] = {
            "id": lambda: LEAST + chance.randint(0, 60),
            "s": lambda: chance.choice([None, "a", "b" * 40, "é"]),
            "n": lambda: chance.choice([None, *range(4)]),
        }
        for _ in range(4):
            for p in (0, 1):
                rows = [[value() for value in values.values()] + [p] for _ in range(14)]
                self._write(["id", "s", "n", "p"], rows, p, deletes=False)
            key = chance.sample(["id", "s", "n"], chance.randint(1, 3))
            keys = [[values[name]() for name in key] for _ in range(chance.randint(1, 8))]
            self._write(key, keys, chance.randrange(2), deletes=True)
        return str(self._table.operations().current().metadataFileLocation())

    def _write(
        self, names: Sequence[str], rows: Sequence[Sequence[Any]], p: int, *, deletes: bool
    ) -> None:
        data, parquet = self._iceberg.data, self._iceberg.FileFormat.PARQUET
        schema, spec = self._table.schema(), self._table.spec()
        ids = self._ints([schema.findField(name).fieldId() for name in names])
        chosen = schema.select(self._texts(names))
        partition = data.GenericRecord.create(spec.partitionType())
        partition.set(0, p)
        files = self._iceberg.io.OutputFileFactory.builderFor(self._table, 1, 1)
        out = files.format(parquet).build().newOutputFile(spec, partition)
        factory = data.GenericAppenderFactory(schema, spec, ids, chosen, None)
        make = factory.newEqDeleteWriter if deletes else factory.newDataWriter
        writer = make(out, parquet, partition)
        for row in rows:
            record = data.GenericRecord.create(chosen)
            for name, value in zip(names, row, strict=True):
                record.setField(name, value)
            writer.write(record)
        writer.close()
        if deletes:
            self._table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
        else:
            self._table.newAppend().appendFile(writer.toDataFile()).commit()

    def _ints(self, values: Sequence[int]) -> Any:
        array, ints = self._java.java.lang.reflect.Array, self._java.java.lang.Integer.TYPE
        made = array.newInstance(ints, len(values))
        for place, value in enumerate(values):
            array.setInt(made, place, value)
        return made

    def _texts(self, values: Sequence[str]) -> Any:
        made = self._java.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made


@pytest.mark.soak
@pytest.mark.prove
def test_histories(stack: Stack, gateway: Gateway, name: str) -> None:
    warehouse = pathlib.Path(stack.config.catalogs["lake"].warehouse.removeprefix("file://"))
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    for seed in range(2000, 2030):
        story = Story(seed, warehouse / "default" / f"{name}_{seed}")
        catalog.register_table(("default", f"{name}_{seed}"), story.make())
        if any(type_ in str(story.table.schemas) for type_ in ("'timestamp_ns'", "'time'")):
            continue  # Spark has no such types
        if story.key_types & {"uuid", "fixed[4]"}:
            continue  # Spark overlooks such deletes
        found = canonical(gateway.rows(f"SELECT * FROM {name}_{seed}", "spark"))
        assert found == canonical(story.rows()), seed
