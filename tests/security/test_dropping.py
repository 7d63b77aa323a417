"""Goal: only a unified table is dropped; what somebody else made stays, whoever asks and however.

Method: one catalog holds a plain table and a unified one. Every spelling of every command that
drops is tried on both, and the catalog itself is asked afterwards what is left.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline, programs
from support.gateway import Gateway
from support.ruled import Ruled

from seamline.errors import SeamlineError

ROWS = pa.table({"id": pa.array(range(3), pa.int64())})
UNIFIED = {"seamline.topic": "orders", "seamline.cluster": "default"}


class Tables:
    """A gateway, its catalog, and the two kinds of table in it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        config = offline.config(folder)
        self.gateway = Gateway(config)
        lake = config.catalogs["lake"]
        self.own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
        self.own.create_namespace("default")
        self.own.create_table("default.plain", ROWS.schema).append(ROWS)
        self.own.create_table("default.unified", ROWS.schema, properties=UNIFIED)

    def left(self) -> set[str]:
        """The tables that are in the catalog."""
        return {name[-1] for name in self.own.list_tables("default")}


@pytest.fixture
def tables(tmp_path: pathlib.Path) -> Iterator[Tables]:
    made = Tables(tmp_path)
    yield made
    made.gateway.close()


STATEMENTS = (
    "DROP TABLE {}",
    "DROP TABLE IF EXISTS {}",
    'drop table "lake"."default"."{}"',
    "DROP TABLE lake.default.{}",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_plain_table_is_not_dropped(tables: Tables, statement: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        tables.gateway.rows(statement.format("plain"))
    assert caught.value.code.name == "NOT_A_UNIFIED_TABLE"
    assert "tool that created it" in caught.value.hint
    assert tables.left() == {"plain", "unified"}
    assert tables.own.load_table("default.plain").scan().to_arrow().num_rows == len(ROWS)


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("name", ["unified", "UNIFIED"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_unified_table_is_dropped(tables: Tables, statement: str, name: str) -> None:
    """By any spelling that a query of it may use."""
    tables.gateway.rows(statement.format(name))
    assert tables.left() == {"plain"}


def test_a_table_that_is_not_there_is_still_told_apart(tables: Tables) -> None:
    tables.gateway.rows("DROP TABLE IF EXISTS nothing")
    with pytest.raises(SeamlineError) as caught:
        tables.gateway.rows("DROP TABLE nothing")
    assert caught.value.code.name == "TABLE_NOT_FOUND"


@pytest.mark.soak
@pytest.mark.parametrize(
    "options",
    [["--yes", "--purge"], *(pytest.param(o, marks=pytest.mark.prove) for o in (["--yes"], []))],
)
@pytest.mark.prove
def test_the_command_does_not_drop_a_plain_table(tables: Tables, options: list[str]) -> None:
    environment = {"SEAMLINE_CONFIG": str(tables.folder / "seamline.yaml")}
    done = programs.run(programs.seamline("table", "drop", "plain", *options), environment)
    assert done.returncode == 1, done
    assert done.stderr.startswith("error: NOT_A_UNIFIED_TABLE"), done.stderr
    assert tables.left() == {"plain", "unified"}
    assert tables.own.load_table("default.plain").scan().to_arrow().num_rows == len(ROWS)
    dropped = programs.run(programs.seamline("table", "drop", "unified", "--yes"), environment)
    assert dropped.returncode == 0, dropped.stderr
    assert tables.left() == {"plain"}


# --- Schemas -------------------------------------------------------------------------------------

RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- {user: part, schema: shared, table: hidden, privileges: []}
- {user: reader, schema: shared, table: hidden|seen, privileges: [SELECT]}
- {user: part|reader, privileges: [SELECT, OWNERSHIP]}
"""
THINGS = {"table": "CREATE TABLE {} AS SELECT 1 AS a", "view": "CREATE VIEW {} AS SELECT 1 AS a"}


@pytest.fixture
def ruled(tmp_path: pathlib.Path) -> Iterator[Ruled]:
    made = Ruled(tmp_path, RULES, {"boss": (), "part": (), "reader": ()})
    yield made
    made.gateway.close()


@pytest.mark.parametrize("make", THINGS.values(), ids=THINGS)
@pytest.mark.parametrize("who", ["part", "reader"])
def test_a_schema_is_not_dropped_with_what_others_own(ruled: Ruled, who: str, make: str) -> None:
    for name in ("a", "hidden", "z"):
        ruled.rows("boss", make.format(f"shared.{name}"))
    with pytest.raises(SeamlineError) as caught:
        ruled.rows(who, "DROP SCHEMA shared CASCADE")
    assert caught.value.code.name == "PERMISSION_DENIED"
    assert ("hidden" in str(caught.value)) is (who == "reader"), "named only to who may see it"
    left = ruled.rows("boss", "SHOW TABLES FROM shared")
    assert left == [("a",), ("hidden",), ("z",)]
    assert ruled.do("boss", "DROP SCHEMA shared CASCADE") == "done"
    assert ruled.do("boss", "SHOW TABLES FROM shared") == "SCHEMA_NOT_FOUND"


def test_a_schema_of_ones_own_tables_is_dropped(ruled: Ruled) -> None:
    for make, name in zip(THINGS.values(), ("t", "v"), strict=True):
        ruled.rows("part", make.format(f"mine.{name}"))
    assert ruled.do("part", "DROP SCHEMA mine CASCADE") == "done"
    assert ("mine",) not in ruled.rows("boss", "SHOW SCHEMAS")
