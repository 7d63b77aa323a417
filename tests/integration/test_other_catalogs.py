"""Catalogs of others under a unified table, and the views of a REST catalog in ours.

Goal: what holds over the catalog of the local stack holds over one that is reached by REST, in a
Hive metastore or in AWS Glue: tables are made, tiered, written by others and read on both engines,
and views are handed on.
Method: Iceberg's own REST server, the metastore that comes with Spark, Moto's Glue; a Spark and a
gateway that know of that catalog alone.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.schema import Schema
from support.checker import Replay, agree, agree_with_log, failure
from support.glue import glue, glue_config
from support.hive_metastore import hive_config, hive_metastore
from support.live import FILES, LiveReaders, watched
from support.rest_catalog import config_of, rest_catalog
from support.stack import Stack

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.iceberg.tables.commits import create_tag, set_properties
from seamline.errors import CATALOG_UNAVAILABLE, COMMIT_CONFLICT, SNAPSHOT_GONE, SeamlineError

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@contextlib.contextmanager
def catalog(kind: str, directory: pathlib.Path) -> Iterator[CatalogConfig]:
    """A running catalog, its tables under the directory."""
    if kind == "rest":
        with rest_catalog(directory) as url:
            yield config_of(url, directory)
    elif kind == "hive":
        with hive_metastore(directory) as url:
            yield hive_config(url, directory)
    else:
        with glue() as url:
            yield glue_config(url, directory.name)


KINDS = ("rest", "hive", "glue")


@pytest.fixture(scope="module", params=KINDS)
def other(
    request: pytest.FixtureRequest, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The stack's cluster over a catalog."""
    directory = tmp_path_factory.mktemp(request.param)
    with catalog(request.param, directory) as config, stack.over(config, directory) as there:
        yield there


only_rest = pytest.mark.parametrize("other", ["rest"], indirect=True)


@pytest.fixture(scope="module")
def readers(other: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReaders]:
    """A gateway over it, with clients of every kind."""
    with watched(LiveReaders(other, tmp_path_factory.mktemp("live"))) as running:
        yield running


def records(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"t{i % 5}"} for i in ids]


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_a_table(other: Stack, readers: LiveReaders, name: str, version: int) -> None:
    gateway = readers.gateway
    other.create_topic(name, 2)
    gateway.rows(
        f"CREATE TABLE {name} (id bigint, text varchar) WITH (topic = '{name}', "
        f"partitioning = ARRAY['bucket(id, 2)'], format_version = {version})"
    )
    replay = Replay(other, name)
    for start in (0, 50, 100):
        other.produce(name, records(*range(start, start + 50)))
        agree_with_log(gateway, name, replay.catch_up())
        other.tier(name)
        agree_with_log(gateway, name, replay.catch_up())
    other.produce(name, records(*range(150, 160)))
    assert gateway.rows(f"SELECT count(*), max(id) FROM {name}") == [(160, 159)]


def unified(other: Stack, name: str, cold: int, hot: int) -> None:
    other.create_topic(name, 2)
    other.create_table(name, "id bigint, text varchar")
    other.produce(name, records(*range(cold)))
    other.tier(name)
    other.produce(name, records(*range(cold, cold + hot)))


@pytest.mark.soak
def test_other_hands(other: Stack, readers: LiveReaders, name: str) -> None:
    unified(other, name, 40, 10)
    table = f"lake.default.{name}"
    gateway = readers.gateway
    for statement in (
        f"INSERT INTO {table} SELECT 1000, 'foreign', {', '.join(['NULL'] * 7)}",
        f"DELETE FROM {table} WHERE id < 10",
        f"UPDATE {table} SET text = 'changed' WHERE id = 20",
        f"ALTER TABLE {table} ADD COLUMN more bigint",
        f"ALTER TABLE {table} RENAME COLUMN text TO words",
    ):
        other.spark.sql(statement).collect()
        agree(gateway, f"SELECT * FROM {name}")
    other.maintain(name)
    agree(gateway, f"SELECT * FROM {name}")
    other.tier(name)
    other.produce(name, [{"id": 2000, "text": "old name", "more": 7}])
    agree(gateway, f"SELECT * FROM {name}")
    assert gateway.rows(f"SELECT count(*), max(more) FROM {name}") == [(42, 7)]
    assert gateway.rows(f"SELECT words FROM {name} WHERE id IN (20, 1000, 2000) ORDER BY id") == [
        ("changed",), ("foreign",), ("old name",)
    ]  # fmt: skip


@pytest.mark.soak
def test_tierers_that_meet(other: Stack, readers: LiveReaders, name: str) -> None:
    other.create_topic(name, 2)
    other.create_table(name, "id bigint, text varchar")
    other.produce(name, records(*range(300)))
    outcomes: list[Any] = []

    def work() -> None:
        try:
            while True:
                (*_, last) = other.tier(name, records_max=30)
                outcomes.append(last)
                if last.lag == 0:
                    return
        except SeamlineError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {o.code for o in outcomes if isinstance(o, SeamlineError)} <= {COMMIT_CONFLICT}
    other.tier(name)
    agree_with_log(readers.gateway, name, Replay(other, name).catch_up())
    assert readers.gateway.rows(f'SELECT count(*), count(DISTINCT id) FROM "{name}$cold"') == [
        (300, 300)
    ]


@pytest.mark.one_in(prove=1)
def test_every_way_to_read(other: Stack, readers: LiveReaders, name: str) -> None:
    unified(other, name, 30, 20)
    snapshot = readers.load(name).current_snapshot()
    assert snapshot is not None
    ways = readers.every_way(name, snapshot.snapshot_id, ["id", "text"])
    first = ways["sql"]
    assert len(first) == 50
    assert all(rows == first for rows in ways.values()), ways


@only_rest
def test_views_are_handed_on(other: Stack, readers: LiveReaders, name: str) -> None:
    unified(other, name, 30, 20)
    other.spark.sql(
        f"CREATE VIEW lake.default.{name}_v AS SELECT id FROM lake.default.{name} WHERE id < 25"
    )
    assert ("default", f"{name}_v") in readers.pyiceberg.list_views("default")
    assert readers.pyiceberg.view_exists(("default", f"{name}_v"))
    assert not readers.pyiceberg.view_exists(("default", f"{name}_none"))
    assert readers.sql(f"SELECT count(*) FROM {FILES}.default.{name}_v") == [(25,)]
    for engine in ("duckdb", "spark"):
        assert readers.gateway.rows(f"SELECT count(*) FROM {name}_v", engine) == [(25,)]
    found = failure(readers.gateway, f"SELECT * FROM {name}_none")
    assert found.code.name == "TABLE_NOT_FOUND"


@only_rest
def test_a_view_has_the_owner_and_the_comment_of_its_last_version(
    other: Stack, readers: LiveReaders, name: str
) -> None:
    readers.gateway.rows(f"CREATE VIEW {name} COMMENT 'one' SECURITY DEFINER AS SELECT 1 AS x")
    (made,) = readers.gateway.rows(f"SHOW CREATE VIEW {name}")
    assert "COMMENT 'one'\nSECURITY DEFINER" in made[0]
    assert "trino.run-as-owner" in readers.pyiceberg.load_view(("default", name)).properties
    for sql in (
        f"CREATE OR REPLACE VIEW {name} SECURITY DEFINER AS SELECT 1 AS x",
        f"CREATE OR REPLACE VIEW {name} AS SELECT 'a' AS x",
        f"COMMENT ON VIEW {name} IS 'two'",
        f"CREATE OR REPLACE VIEW {name} AS SELECT 2 AS x",
        f"CREATE OR REPLACE VIEW {name} AS SELECT 'a' AS x",
        f"CREATE OR REPLACE VIEW {name} AS SELECT 2 AS x",
    ):
        readers.gateway.rows(sql)
    assert readers.gateway.rows(f"SELECT x FROM {name}") == [(2,)]
    (made,) = readers.gateway.rows(f"SHOW CREATE VIEW {name}")
    assert made[0].endswith(f"{name} AS\nSELECT 2 AS x")
    assert not readers.pyiceberg.load_view(("default", name)).properties


@pytest.mark.soak
def test_a_snapshot_that_expired_gets_no_tag(other: Stack, name: str) -> None:
    unified(other, name, 10, 0)
    before = other.load(name)
    other.produce(name, records(10))
    other.tier(name)
    other.maintain(name)
    with pytest.raises(SeamlineError) as caught:
        create_tag(before, "late", before.state.current_snapshot_id, 60_000)
    assert caught.value.code is SNAPSHOT_GONE


@pytest.mark.one_in(prove=1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_catalog_that_is_gone_is_named(tmp_path: pathlib.Path, name: str, kind: str) -> None:
    with catalog(kind, tmp_path) as config:
        lake = IcebergCatalog(config)
        lake.make_namespace(("shop",))
        lake.pyiceberg.create_table(("shop", name), Schema())
        table = lake.load(("shop", name))
    with pytest.raises(SeamlineError) as caught:
        lake.load(("shop", name))
    assert caught.value.code is CATALOG_UNAVAILABLE
    with pytest.raises(SeamlineError) as caught:
        set_properties(table, {"a": "b"})
    assert caught.value.code is CATALOG_UNAVAILABLE
    with pytest.raises(SeamlineError) as caught:
        IcebergCatalog(config).tables(("shop",))
    assert caught.value.code is CATALOG_UNAVAILABLE


def test_many_threads_use_the_metastore_that_is_up(tmp_path: pathlib.Path) -> None:
    """PyIceberg shares one connection between threads, and tries the first address alone."""
    with hive_metastore(tmp_path) as url:
        lake = IcebergCatalog(hive_config(f"thrift://127.0.0.1:1, {url}", tmp_path))
        lake.make_namespace(("shop",))
        lake.pyiceberg.create_table(("shop", "orders"), Schema())
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            tables = list(pool.map(lambda _: lake.load(("shop", "orders")), range(80)))
    assert {table.state.display_name for table in tables} == {"lake.shop.orders"}
