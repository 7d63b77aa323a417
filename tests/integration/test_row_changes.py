"""DELETE, UPDATE, MERGE and INSERT on both engines, and what Spark itself then reads.

The cases themselves are in `tests/property/test_row_changes.py`; here the statements also run on
Spark, and Iceberg's Java library reads the delete files and vectors that they leave.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.gateway import Gateway
from support.handmade_shapes import Story
from support.live import canonical
from support.stack import Stack

from seamline.errors import SeamlineError

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def test_both_engines_change_the_same_rows(gateway: Gateway, name: str) -> None:
    tables = {engine: f"{name}_{engine}" for engine in ("duckdb", "spark")}
    for engine, table in tables.items():
        gateway.rows(
            f"CREATE TABLE {table} WITH (partitioning = ARRAY['part']) AS "
            "SELECT n AS k, n % 5 AS v, 'p' || CAST(n % 3 AS varchar) AS part "
            "FROM UNNEST(sequence(1, 60)) AS r(n)"
        )
        for text, count in (
            (f"DELETE FROM {table} WHERE v = 3 AND k < 30", 6),
            (f"UPDATE {table} SET v = v + 10, part = 'q' WHERE k % 7 = 0", 7),
            (
                f"MERGE INTO {table} AS t USING (SELECT k + 55 AS id FROM {table}) AS s "
                "ON t.k = s.id WHEN MATCHED AND t.part = 'p0' THEN DELETE "
                "WHEN MATCHED THEN UPDATE SET v = -t.k "
                "WHEN NOT MATCHED THEN INSERT (k, part) VALUES (s.id, 'new')",
                54,
            ),
        ):
            assert gateway.rows(text, engine) == [(count,)], (engine, text)
    found = {
        (table, reader): canonical(gateway.rows(f"SELECT * FROM {tables[table]}", reader))
        for table in tables
        for reader in ("duckdb", "spark")
    }
    first = found["duckdb", "duckdb"]
    assert len(first) == 102
    assert all(rows == first for rows in found.values())


def test_both_engines_store_the_same_values(gateway: Gateway, name: str) -> None:
    """Numbers are rounded to what their column holds, and a date keeps the day of a timestamp."""
    columns = "n integer, d decimal(5,2), a array(integer), day date"
    tables = {engine: f"{name}_{engine}" for engine in ("duckdb", "spark")}
    for engine, table in tables.items():
        gateway.rows(f"CREATE TABLE {table} ({columns})")
        for given in (
            "SELECT 2.5e0, 1.005, ARRAY[-1.5e0, NULL], TIMESTAMP '2019-11-18 22:13:40'",
            "SELECT 1.5, 1.2345e0, ARRAY[0.4], TIMESTAMP '2019-11-18 23:13:40 America/New_York'",
        ):
            assert gateway.rows(f"INSERT INTO {table} {given}", engine) == [(1,)]
        gateway.rows(f"UPDATE {table} SET n = -0.5, d = 7e0 WHERE n = 2", engine)
        for value in ("3e9", "3000000000.4"):
            with pytest.raises(SeamlineError) as caught:
                gateway.rows(f"INSERT INTO {table} (n) SELECT {value}", engine)
            assert caught.value.code.name in {"NUMERIC_OVERFLOW", "INVALID_CAST"}, engine
    found = {table: canonical(gateway.rows(f"SELECT * FROM {table}")) for table in tables.values()}
    first, second = found.values()
    assert first == second
    assert len(first) == 2


@pytest.mark.prove
def test_tables_of_other_writers(stack: Stack, gateway: Gateway, name: str) -> None:
    warehouse = pathlib.Path(stack.config.catalogs["lake"].warehouse.removeprefix("file://"))
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    checked = 0
    for seed in range(2000, 2024):
        story, table = Story(seed, warehouse / "default" / f"{name}_{seed}"), f"{name}_{seed}"
        catalog.register_table(("default", table), story.make())
        if any(type_ in str(story.table.schemas) for type_ in ("'timestamp_ns'", "'time'")):
            continue  # Spark has no such types
        if story.version == 1 or story.key_types & {"uuid", "fixed[4]"}:
            continue  # it has no deleted rows, or Spark overlooks some
        rows = [row[:2] for row in story.rows() if row[0] % 3 and row[1] != 7]
        engine = ("duckdb", "spark")[seed % 2]
        gateway.rows(f"DELETE FROM {table} WHERE id % 3 = 0 OR p = 7", engine)
        for reader in ("duckdb", "spark"):
            found = gateway.rows(f"SELECT id, p FROM {table}", reader)
            assert canonical(found) == canonical(rows), (seed, reader)
        checked += 1
    assert checked > 6


# --- Upsert tables -------------------------------------------------------------------------------

KEYED: dict[str, tuple[str, dict[str, Any]]] = {
    "a number in JSON": (
        "id bigint, v varchar",
        {"columns_from": ("id = key",), "primary_key": ("id",), "key_format": "json"},
    ),
    "a number in 4 bytes": (
        "id integer, v varchar",
        {"key": "id", "key_format": "int32", "primary_key": ("id",)},
    ),
    "a text": (
        "id varchar, v varchar",
        {"key": "id", "key_format": "string", "primary_key": ("id",)},
    ),
    "two fields in JSON": (
        "id bigint, b varchar, v varchar",
        {
            "columns_from": ("id = key.id", "b = key.b"),
            "primary_key": ("id", "b"),
            "key_format": "json",
        },
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("keyed", KEYED)
def test_deleting_from_an_upsert_table_deletes_keys(
    stack: Stack, gateway: Gateway, name: str, keyed: str
) -> None:
    columns, given = KEYED[keyed]
    stack.create_topic(name, 3)
    stack.create_table(
        name, columns, mode="upsert", key_partitioner="murmur2", format_version=3, **given
    )
    middle = ", 'b'" if "b varchar" in columns else ""
    is_text = columns.startswith("id varchar")

    def values(first: int, count: int) -> str:
        quote = "'" if is_text else ""
        rows = (f"({quote}{n}{quote}{middle}, 'v{n % 4}')" for n in range(first, first + count))
        return ", ".join(rows)

    def ids(engine: str) -> list[int]:
        return sorted(int(row[0]) for row in gateway.rows(f"SELECT id FROM {name}", engine))

    gateway.rows(f"INSERT INTO {name} VALUES {values(0, 20)}")
    stack.tier(name)
    gateway.rows(f"INSERT INTO {name} VALUES {values(15, 15)}")
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {name} WHERE v IN ('v1', 'v2') AND id <> ?", [_key(5, is_text)]
        )
        assert cursor.rowcount == 14
        cursor.execute(f"SELECT count(*) FROM {name}")
        assert cursor.fetchall() == [(16,)], "the connection's own deletes"
    left = [n for n in range(30) if n % 4 not in (1, 2) or n == 5]
    assert ids("duckdb") == ids("spark") == left
    gateway.rows(f"DELETE FROM {name} WHERE v = 'v1'", "spark")
    stack.tier(name)
    assert ids("duckdb") == ids("spark") == [n for n in left if n != 5]
    for text in (
        f"UPDATE {name} SET v = 'x'",
        f"TRUNCATE TABLE {name}",
        f"MERGE INTO {name} AS t USING (VALUES 'v3') AS s(v) ON t.v = s.v WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(SeamlineError, match="STATEMENT_NOT_ALLOWED"):
            gateway.rows(text)


def _key(number: int, is_text: bool) -> Any:
    return str(number) if is_text else number
