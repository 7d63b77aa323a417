"""Goal: DROP SCHEMA … CASCADE drops all that is in a schema, or nothing of it.

Method: a gateway over a catalog in one file and a log in memory; a schema with plain tables and a
view and, one at a time, something that is not dropped so.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support import offline


class World(offline.MemoryWorld):
    """A gateway, its log, and a schema with two plain tables and a view."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        for name in ("one", "two"):
            self.rows(f"CREATE TABLE s.{name} AS SELECT 1 AS a")
        self.rows("CREATE TABLE other.one AS SELECT 1 AS a")
        self.rows("CREATE VIEW s.seen AS SELECT a FROM s.one")

    def left(self) -> list[tuple[object, ...]]:
        return sorted(self.rows("SHOW TABLES FROM s"))


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.gateway.close()


ALL = [("one",), ("seen",), ("two",)]


@pytest.mark.parametrize("name", ["s", "lake.s", "S"])
def test_cascade_drops_views_and_plain_tables(world: World, name: str) -> None:
    for restricted in ("", " RESTRICT"):
        error = world.refused(f"DROP SCHEMA {name}{restricted}")
        assert error.code.name == "SCHEMA_NOT_EMPTY"
        assert "CASCADE" in error.hint
    assert world.left() == ALL
    world.rows(f"DROP SCHEMA {name} CASCADE")
    assert ("s",) not in world.rows("SHOW SCHEMAS")
    assert world.rows("SHOW TABLES FROM other") == [("one",)]
    world.rows(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    assert world.refused(f"DROP SCHEMA {name} CASCADE").code.name == "SCHEMA_NOT_FOUND"
    world.rows("CREATE TABLE s.one AS SELECT 2 AS a")
    assert world.rows("SELECT a FROM s.one") == [(2,)]


def test_an_empty_schema_is_dropped_with_cascade_too(world: World) -> None:
    world.rows("CREATE SCHEMA empty")
    world.rows("DROP SCHEMA empty CASCADE")
    assert ("empty",) not in world.rows("SHOW SCHEMAS")


def test_a_table_with_a_topic_keeps_the_whole_schema(world: World) -> None:
    world.memory.create_topic("bids", 1)
    world.rows("CREATE TABLE s.bids (price bigint) WITH (topic = 'bids')")
    error = world.refused("DROP SCHEMA s CASCADE")
    assert error.code.name == "STATEMENT_NOT_ALLOWED"
    assert "lake.s.bids repeats topic bids" in error.message
    assert error.hint.startswith("DROP TABLE")
    assert world.left() == sorted([*ALL, ("bids",)])
    world.rows("DROP TABLE s.bids")
    world.rows("DROP SCHEMA s CASCADE")


def test_a_table_of_another_tool_keeps_the_whole_schema(world: World) -> None:
    world.catalog.create_table("s.theirs", pa.schema([("id", pa.int64())]))
    error = world.refused("DROP SCHEMA s CASCADE")
    assert error.code.name == "NOT_A_UNIFIED_TABLE"
    assert "lake.s.theirs" in error.message
    assert world.left() == sorted([*ALL, ("theirs",)])


def test_inner_schemas_keep_the_whole_schema(world: World) -> None:
    world.catalog.create_namespace(("s", "inner"))
    error = world.refused("DROP SCHEMA s CASCADE")
    assert (error.code.name, error.message) == (
        "SCHEMA_NOT_EMPTY",
        "schema lake.s has schemas of its own",
    )
    assert world.left() == ALL


def test_a_session_may_use_the_names_again(world: World) -> None:
    """What it has read of the dropped tables no longer counts."""
    with world.gateway.connect() as connection:
        for value in (1, 2):
            connection.execute(f"CREATE TABLE again.t AS SELECT {value} AS a")
            assert connection.execute("SELECT a FROM again.t").fetchall() == [(value,)]
            connection.execute("DROP SCHEMA again CASCADE")


@pytest.mark.parametrize("spelt", ["S", '"S"', "lake.S"])
def test_a_schema_is_found_in_lower_case(world: World, spelt: str) -> None:
    assert sorted(world.rows(f"SHOW TABLES FROM {spelt}")) == ALL
    assert world.rows(f"SHOW CREATE SCHEMA {spelt}") == [("CREATE SCHEMA lake.s",)]
    world.rows(f"CREATE VIEW {spelt}.v AS SELECT 1 AS a")
    world.rows(f"CREATE TABLE {spelt}.three AS SELECT 3 AS a")
    world.rows(f"ALTER TABLE other.one RENAME TO {spelt}.four")
    assert world.left() == sorted([*ALL, ("v",), ("three",), ("four",)])
    assert ("S",) not in world.rows("SHOW SCHEMAS")


def test_a_schema_with_capital_letters_is_itself(world: World) -> None:
    world.rows('CREATE TABLE "Big".one AS SELECT 1 AS a')
    assert world.rows('SHOW TABLES FROM "Big"') == [("one",)]
    assert world.refused("SHOW TABLES FROM big").code.name == "SCHEMA_NOT_FOUND"
    world.rows("CREATE TABLE big.two AS SELECT 1 AS a")
    assert world.rows('SHOW TABLES FROM "Big"') == [("one",)]
    assert world.rows("SHOW TABLES FROM BIG") == [("two",)]
