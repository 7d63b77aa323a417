"""A REST catalog of somebody else's under a unified table, and its views in ours.

Goal: what holds over the catalog of the local stack holds over one that is reached by REST: tables
are made, tiered, written by others and read on both engines, and its views are handed on.
Method: Iceberg's own REST server, a Spark and a gateway that know of that catalog alone.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.schema import Schema
from support.checker import Replay, agree, agree_with_log, failure
from support.live import FILES, LiveReaders, watched
from support.rest_catalog import config_of, rest_catalog
from support.stack import Stack

from seamline.connectors.iceberg.catalog import IcebergCatalog
from seamline.connectors.iceberg.commits import create_tag, set_properties
from seamline.errors import CATALOG_UNAVAILABLE, COMMIT_CONFLICT, SNAPSHOT_GONE, SeamlineError

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture(scope="module")
def rest(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack's cluster over that catalog."""
    directory = tmp_path_factory.mktemp("rest")
    with (
        rest_catalog(directory) as url,
        stack.over(config_of(url, directory), directory) as other,
    ):
        yield other


@pytest.fixture(scope="module")
def readers(rest: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReaders]:
    """A gateway over it, with clients of every kind."""
    with watched(LiveReaders(rest, tmp_path_factory.mktemp("live-rest"))) as running:
        yield running


def records(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"t{i % 5}"} for i in ids]


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_a_table(rest: Stack, readers: LiveReaders, name: str, version: int) -> None:
    gateway = readers.gateway
    rest.create_topic(name, 2)
    gateway.rows(
        f"CREATE TABLE {name} (id bigint, text varchar) WITH (topic = '{name}', "
        f"partitioning = ARRAY['bucket(id, 2)'], format_version = {version})"
    )
    replay = Replay(rest, name)
    for start in (0, 50, 100):
        rest.produce(name, records(*range(start, start + 50)))
        agree_with_log(gateway, name, replay.catch_up())
        rest.tier(name)
        agree_with_log(gateway, name, replay.catch_up())
    rest.produce(name, records(*range(150, 160)))
    assert gateway.rows(f"SELECT count(*), max(id) FROM {name}") == [(160, 159)]


def unified(rest: Stack, name: str, cold: int, hot: int) -> None:
    rest.create_topic(name, 2)
    rest.create_table(name, "id bigint, text varchar")
    rest.produce(name, records(*range(cold)))
    rest.tier(name)
    rest.produce(name, records(*range(cold, cold + hot)))


@pytest.mark.soak
def test_other_hands(rest: Stack, readers: LiveReaders, name: str) -> None:
    unified(rest, name, 40, 10)
    table = f"lake.default.{name}"
    gateway = readers.gateway
    for statement in (
        f"INSERT INTO {table} SELECT 1000, 'foreign', {', '.join(['NULL'] * 7)}",
        f"DELETE FROM {table} WHERE id < 10",
        f"UPDATE {table} SET text = 'changed' WHERE id = 20",
        f"ALTER TABLE {table} ADD COLUMN more bigint",
        f"ALTER TABLE {table} RENAME COLUMN text TO words",
    ):
        rest.spark.sql(statement).collect()
        agree(gateway, f"SELECT * FROM {name}")
    rest.maintain(name)
    agree(gateway, f"SELECT * FROM {name}")
    rest.tier(name)
    rest.produce(name, [{"id": 2000, "text": "old name", "more": 7}])
    agree(gateway, f"SELECT * FROM {name}")
    assert gateway.rows(f"SELECT count(*), max(more) FROM {name}") == [(42, 7)]
    assert gateway.rows(f"SELECT words FROM {name} WHERE id IN (20, 1000, 2000) ORDER BY id") == [
        ("changed",), ("foreign",), ("old name",)
    ]  # fmt: skip


@pytest.mark.soak
def test_tierers_that_meet(rest: Stack, readers: LiveReaders, name: str) -> None:
    rest.create_topic(name, 2)
    rest.create_table(name, "id bigint, text varchar")
    rest.produce(name, records(*range(300)))
    outcomes: list[Any] = []

    def work() -> None:
        try:
            while True:
                (*_, last) = rest.tier(name, records_max=30)
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
    rest.tier(name)
    agree_with_log(readers.gateway, name, Replay(rest, name).catch_up())
    assert readers.gateway.rows(f'SELECT count(*), count(DISTINCT id) FROM "{name}$cold"') == [
        (300, 300)
    ]


def test_every_way_to_read(rest: Stack, readers: LiveReaders, name: str) -> None:
    unified(rest, name, 30, 20)
    snapshot = readers.load(name).current_snapshot()
    assert snapshot is not None
    ways = readers.every_way(name, snapshot.snapshot_id, ["id", "text"])
    first = ways["sql"]
    assert len(first) == 50
    assert all(rows == first for rows in ways.values()), ways


def test_views_are_handed_on(rest: Stack, readers: LiveReaders, name: str) -> None:
    unified(rest, name, 30, 20)
    rest.spark.sql(
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


def test_a_view_has_the_owner_and_the_comment_of_its_last_version(
    rest: Stack, readers: LiveReaders, name: str
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
def test_a_snapshot_that_expired_gets_no_tag(rest: Stack, name: str) -> None:
    unified(rest, name, 10, 0)
    before = rest.load(name)
    rest.produce(name, records(10))
    rest.tier(name)
    rest.maintain(name)
    with pytest.raises(SeamlineError) as caught:
        create_tag(before, "late", before.state.current_snapshot_id, 60_000)
    assert caught.value.code is SNAPSHOT_GONE


def test_a_catalog_that_is_gone_is_named(tmp_path: pathlib.Path, name: str) -> None:
    with rest_catalog(tmp_path) as url:
        catalog = IcebergCatalog(config_of(url, tmp_path))
        catalog.pyiceberg.create_namespace("default")
        catalog.pyiceberg.create_table(("default", name), Schema())
        table = catalog.load(("default", name))
    with pytest.raises(SeamlineError) as caught:
        catalog.load(("default", name))
    assert caught.value.code is CATALOG_UNAVAILABLE
    with pytest.raises(SeamlineError) as caught:
        set_properties(table, {"a": "b"})
    assert caught.value.code is CATALOG_UNAVAILABLE
    with pytest.raises(SeamlineError) as caught:
        IcebergCatalog(config_of(url, tmp_path)).tables(("default",))
    assert caught.value.code is CATALOG_UNAVAILABLE
