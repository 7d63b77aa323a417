"""Goal: a listing loads only tables that have changed, and shows none as it was before a commit.

Method: a catalog in one file with more tables than any cache that counts entries; every load of a
table is counted while others commit, drop and create tables through a catalog of their own.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from support import offline
from support.gateway import Gateway
from support.ruled import Ruled

from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.gateway.catalogs.connections import Connections

TABLES = 300
SCHEMA = Schema(NestedField(1, "id", LongType()))
COLUMNS = "SELECT table_name, column_name FROM lake.information_schema.columns"
COUNTED = "SELECT count(*) FROM lake.information_schema.tables"
RULES = """
tables:
- {user: root, privileges: [SELECT, OWNERSHIP]}
- {user: rea, table: seen, privileges: [SELECT], columns: [{name: secret, allow: false}]}
"""


class Loads(list[tuple[str, ...]]):
    """The tables that a gateway has loaded since it was last asked."""

    def taken(self) -> list[str]:
        """Their names; they are forgotten."""
        names = [identifier[-1] for identifier in self]
        self.clear()
        return names


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("outlines")


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    with offline.running(folder) as running:
        catalog = running.parts.connections.catalog("lake").pyiceberg
        for number in range(TABLES):
            catalog.create_table(("default", f"t{number}"), SCHEMA)
        yield running


@pytest.fixture
def others(folder: pathlib.Path, gateway: Gateway) -> IcebergCatalog:
    """The same catalog, as another program has it."""
    return Connections(offline.config(folder)).catalog("lake")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    load, loaded = IcebergCatalog.load, Loads()

    def noted(catalog: IcebergCatalog, identifier: tuple[str, ...]) -> IcebergTable:
        loaded.append(identifier)
        return load(catalog, identifier)

    monkeypatch.setattr(IcebergCatalog, "load", noted)
    return loaded


def test_what_has_not_changed_is_not_loaded_again(gateway: Gateway, loads: Loads) -> None:
    assert len(gateway.rows(COLUMNS)) == TABLES
    loads.clear()
    assert len(gateway.rows(COLUMNS)) == TABLES
    assert gateway.rows(COUNTED) == [(TABLES,)]
    gateway.rows("SELECT * FROM system.jdbc.columns")
    gateway.rows("SELECT * FROM system.metadata.table_comments")
    assert loads.taken() == []


def test_a_listing_of_views_loads_no_table(gateway: Gateway, loads: Loads) -> None:
    assert gateway.rows("SELECT * FROM lake.information_schema.views") == []
    assert loads.taken() == []


def test_only_what_has_changed_is_loaded_and_is_shown(
    gateway: Gateway, others: IcebergCatalog, loads: Loads
) -> None:
    gateway.rows(COLUMNS)
    loads.clear()
    with others.pyiceberg.load_table(("default", "t7")).update_schema() as update:
        update.add_column("added", LongType())
    others.pyiceberg.drop_table(("default", "t8"))
    others.pyiceberg.create_table(("default", "t8"), Schema(NestedField(1, "new", LongType())))
    others.pyiceberg.rename_table(("default", "t9"), ("default", "renamed"))
    rows = set(gateway.rows(COLUMNS))
    assert {("t7", "id"), ("t7", "added"), ("t8", "new"), ("renamed", "id")} <= rows
    assert not {("t8", "id"), ("t9", "id")} & rows
    assert sorted(loads.taken()) == ["renamed", "t7", "t8"]


def test_a_named_table_alone_is_loaded(folder: pathlib.Path, loads: Loads) -> None:
    fresh = Gateway(offline.config(folder))
    sql = f"{COLUMNS} WHERE table_schema = 'default' AND table_name = 't5'"
    assert fresh.rows(sql) == [("t5", "id")]
    assert loads.taken() == ["t5"]
    fresh.close()


def test_what_one_user_listed_shows_another_only_what_they_see(tmp_path: pathlib.Path) -> None:
    ruled = Ruled(tmp_path, RULES, {"root": (), "rea": (), "eve": ()})
    catalog = ruled.gateway.parts.connections.catalog("lake").pyiceberg
    catalog.create_namespace("default")
    fields = (NestedField(1, "id", LongType()), NestedField(2, "secret", LongType()))
    for name in ("seen", "unseen"):
        catalog.create_table(("default", name), Schema(*fields))
    for _ in range(2):
        assert len(ruled.rows("root", COLUMNS)) == 4
        assert ruled.rows("rea", COLUMNS) == [("seen", "id")]
        assert ruled.rows("rea", COUNTED) == [(1,)]
        assert ruled.rows("eve", COUNTED) == [(0,)]
        assert ruled.rows("eve", COLUMNS) == []
    ruled.gateway.close()
