"""Goal: CREATE TABLE over whatever is there already says so; and a topic just made is found.

Method: a real catalog in a file and a log in memory. Everything that can have a name is put there
first (unified, plain and broken tables, a view, other spellings), or comes while the statement
runs; every form of the statement is run over it, and the catalog is asked what it holds.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import sqlite3
import threading

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline, programs
from support.broken import KINDS, NAMESPACE, BrokenTables
from support.creating import Meanwhile, World, create

from seamline.gateway.commands.tables import TOPIC_S_MAX
from seamline.gateway.deadline import StatementDeadline

VERSIONS = (2, 3)


def own_catalog(folder: pathlib.Path) -> SqlCatalog:
    lake = offline.config(folder).catalogs["lake"]
    return SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)


# --- What is there already -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_that_exists_is_said_to_exist(tmp_path: pathlib.Path, version: int) -> None:
    world = World(offline.config(tmp_path))
    assert world.run(create("t", version=version)) == "done"
    before = world.catalog("lake").load(("default", "t")).state
    for spelling in ("t", "T", "default.t", "lake.default.t", '"LAKE"."Default"."t"'):
        assert world.run(create(spelling, version=version)) == "TABLE_EXISTS"
        assert world.run(create(spelling, unless=True, version=version)) == "done"
    assert world.run(create("t", unless=True, topic="not there")) == "done"
    assert world.catalog("lake").load(("default", "t")).state == before
    assert world.memory.asked == 1, "what exists needs no log"


def test_a_name_in_another_case_is_free_while_nothing_is_read_by_it(
    tmp_path: pathlib.Path,
) -> None:
    world = World(offline.config(tmp_path))
    assert world.run(create('"Bids"')) == "done"
    assert world.run(create('"Bids"')) == "TABLE_EXISTS"
    assert world.run(create("bids")) == "done"
    assert world.run(create('"BIDS"')) == "TABLE_EXISTS"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_table_is_not_what_was_asked_for(tmp_path: pathlib.Path, version: int) -> None:
    world, own = World(offline.config(tmp_path)), own_catalog(tmp_path)
    own.create_namespace("default")
    own.create_table("default.plain", pa.schema([("id", pa.int64())]))
    for unless in (False, True):
        for spelling in ("plain", "PLAIN"):
            found = world.run(create(spelling, unless=unless, version=version))
            assert found == "TABLE_EXISTS"
    assert not world.is_unified("plain")
    assert own.list_tables("default") == [("default", "plain")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_view_has_the_name(tmp_path: pathlib.Path, version: int) -> None:
    """As Spark leaves one in such a catalog."""
    world = World(offline.config(tmp_path))
    assert world.run(create("first")) == "done"
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, iceberg_type) VALUES ('lake', 'default', 'v', 'file:/v', 'VIEW')"
        )
    connection.close()
    for unless in (False, True):
        assert world.run(create("v", unless=unless, version=version)) == "TABLE_EXISTS"


@pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")
def test_a_broken_table_has_its_name(tmp_path: pathlib.Path) -> None:
    world = World(offline.config(tmp_path))
    BrokenTables(tmp_path)
    for kind in KINDS:
        assert world.run(create(f"{NAMESPACE}.{kind}")) == "TABLE_EXISTS", kind
    assert world.run(create(f"{NAMESPACE}.free")) == "done"


@pytest.mark.prove
def test_the_command_says_so_too(tmp_path: pathlib.Path) -> None:
    """Without asking the cluster, which is away."""
    assert World(offline.config(tmp_path)).run(create("t")) == "done"
    environment = {"SEAMLINE_CONFIG": str(offline.write(tmp_path))}
    options = ("--topic", "bids", "--schema", "id bigint")
    done = programs.run(programs.seamline("table", "create", "t", *options), environment)
    assert done.returncode == 1
    assert done.stderr.startswith("error: TABLE_EXISTS: table lake.default.t already exists")


# --- What comes while the statement runs ---------------------------------------------------------


@pytest.mark.parametrize("unless", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_another_creator_wins(tmp_path: pathlib.Path, version: int, unless: bool) -> None:
    config = offline.config(tmp_path)
    other = World(config)
    world = World(config, happens=lambda: other.run(create("s.t", version=version)))
    found = world.run(create("s.t", unless=unless, version=version))
    assert found == ("done" if unless else "TABLE_EXISTS")
    assert world.is_unified("s", "t")


@pytest.mark.parametrize("version", VERSIONS)
def test_of_creators_at_once_one_wins(tmp_path: pathlib.Path, version: int) -> None:
    """They make the schema at once, too."""
    count = 6
    config = offline.config(tmp_path)
    for unless in (False, True):
        statement = create(f"s{version}.t{unless}", unless=unless, version=version)
        gate = threading.Barrier(count)
        worlds = [World(config, happens=gate.wait) for _ in range(count)]
        for world in worlds:
            world.catalog("lake").namespaces()  # what makes the catalog's file, one after another
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            found = list(pool.map(World.run, worlds, [statement] * count))
        losers = "done" if unless else "TABLE_EXISTS"
        assert sorted(found) == sorted(["done", *[losers] * (count - 1)])


# --- Topics --------------------------------------------------------------------------------------


def test_a_topic_just_made_is_asked_for_again(tmp_path: pathlib.Path) -> None:
    world = World(offline.config(tmp_path))

    def learn() -> None:
        if world.memory.asked == 5:
            world.memory.create_topic("new", 2)

    world.memory = Meanwhile(learn)
    assert world.run(create("t", topic="new")) == "done"
    assert world.memory.asked == 5


def test_a_topic_that_is_not_there_is_asked_for_so_long(tmp_path: pathlib.Path) -> None:
    world = World(offline.config(tmp_path))
    assert world.run(create("t", topic="nowhere")) == "TOPIC_NOT_FOUND"
    assert world.memory.asked > 1
    short = StatementDeadline(TOPIC_S_MAX / 10)
    try:
        assert world.run(create("t", topic="nowhere"), short) == "DEADLINE_EXCEEDED"
    finally:
        short.close()
