"""Goal: a listing always lists; what cannot be read is said of that entry, by name, and no other.

Method: a catalog of one file with a whole table and one broken in each way there is; every listing
of the product over it, and then each broken table asked for alone.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner
from fakes.memory import MemoryLog
from support import offline
from support.broken import CHANGES, KINDS, LOCATIONS, NAMESPACE, PROPERTIES, SPOILS, BrokenTables
from support.gateway import Gateway
from support.named import NamedSources

from seamline.cli import root
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    INVALID_CONFIG,
    KAFKA_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.rights import OPERATOR
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections, Sources
from seamline.gateway.catalogs.silent import Silent
from seamline.gateway.config.model import Config
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.system import listings
from seamline.gateway.system.listings import Listed, Only
from seamline.sql.binder.qualify import TableReference

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

NEVER = NoDeadline()
PLAIN = {
    "good",
    "without_uuid",
    "unknown_snapshot",
    "unknown_transform",
    "without_manifests",
    "manifest_lists_not_avro",
    "manifests_not_avro",
}
"""Tables without a topic that are listed without an error: what is broken is met later, if ever."""
WITH_TOPIC = (
    "boundary_not_json",
    "boundary_of_the_future",
    "boundary_without_offsets",
    "properties_not_texts",
)
"""The gateway's cluster, which is away, would be asked first."""
HOST = {"Host": "127.0.0.1"}
ROOT = "/iceberg/v1/lake/namespaces/shop/tables"


class BrokenSources:
    """A real catalog of broken tables, over a cluster in memory."""

    rights = OPERATOR
    silent = Silent()

    def __init__(self, folder: pathlib.Path) -> None:
        self._connections = Connections(offline.config(folder))
        self._log = MemoryLog()
        self._log.create_topic("bids", 1)

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        return self._connections.config

    def cold(self, name: str) -> Catalog:
        """See `Sources.cold`."""
        return self._connections.cold(name)

    def log(self, name: str) -> HotLog:
        """See `Sources.log`."""
        if name not in self.config.clusters:
            raise SeamlineError(INVALID_CONFIG, f"the configuration has no cluster {name!r}")
        return self._log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("broken")
    BrokenTables(made)
    return made


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    running = Gateway(offline.config(folder))
    yield running
    running.close()


@pytest.fixture(scope="module")
def sources(folder: pathlib.Path) -> BrokenSources:
    return BrokenSources(folder)


# --- Every listing -------------------------------------------------------------------------------


def test_information_schema_lists_every_table(gateway: Gateway) -> None:
    sql = "SELECT table_name, topic, error FROM lake.information_schema.tables"
    rows = {name: (topic, error) for name, topic, error in gateway.rows(sql)}
    assert set(rows) == {"good", *KINDS}
    assert rows["good"] == (None, None)
    assert {name for name, (topic, error) in rows.items() if not topic and not error} >= PLAIN
    for name, (topic, error) in rows.items():
        assert topic is None or error is None
        assert "INTERNAL_ERROR" not in (error or ""), name
    assert rows["version_4"][1].startswith("NOT_SUPPORTED: ")
    assert rows["gone"][1].startswith("STORAGE_UNAVAILABLE: ")
    assert rows["not_json"][1].startswith("COLD_FILE_INVALID: ")
    assert rows["partitions_not_a_number"][1].startswith("INVALID_TABLE_DEFINITION: ")
    assert rows["unknown_cluster"] == ("bids", None)


def test_information_schema_lists_columns_of_what_can_be_read(gateway: Gateway) -> None:
    sql = "SELECT table_name, column_name, data_type FROM lake.information_schema.columns"
    rows = gateway.rows(sql)
    assert ("good", "id", "bigint") in rows
    assert {name for name, *_ in rows} >= {*PROPERTIES, *PLAIN}


def test_show_lists_every_table(gateway: Gateway) -> None:
    assert {name for (name,) in gateway.rows("SHOW TABLES FROM shop")} == {"good", *KINDS}
    assert gateway.rows("SHOW SCHEMAS FROM lake") == [("information_schema",), (NAMESPACE,)]


def test_the_rest_catalog_lists_every_table(gateway: Gateway) -> None:
    client = gateway.app.test_client()
    answer = client.get(ROOT, headers=HOST)
    assert answer.status_code == 200
    found = {identifier["name"] for identifier in answer.get_json()["identifiers"]}
    assert found == {"good", *KINDS}
    for name in found - set(LOCATIONS):
        assert client.head(f"{ROOT}/{name}", headers=HOST).status_code == 204, name


def test_unified_tables_are_listed_with_what_is_wrong(sources: BrokenSources) -> None:
    found = {
        entry.table.name.path[-1]: entry
        for entry in listings.unified(sources, NEVER)
        if entry.table.name
    }
    assert set(found) == {*KINDS} - PLAIN - {
        "without_manifests",
        "manifest_lists_not_avro",
        "manifests_not_avro",
    }
    codes = {name: entry.error.code.name for name, entry in found.items() if entry.error}
    assert "INTERNAL_ERROR" not in codes.values()
    assert codes["without_boundary"] == "BOUNDARY_MISSING"
    assert codes["boundary_of_the_future"] == "BOUNDARY_INVALID"
    assert codes["unknown_cluster"] == "INVALID_CONFIG"
    assert codes["unknown_topic"] == "TOPIC_NOT_FOUND"
    whole = {name for name, entry in found.items() if entry.offsets is not None}
    assert whole == {
        "unknown_format",
        "unknown_policy",
        "unknown_key_format",
        "unknown_partitioner",
    }


@pytest.mark.parametrize("form", [(), pytest.param(("--json",), marks=pytest.mark.prove)])
@pytest.mark.prove
def test_the_command_lists_every_unified_table(folder: pathlib.Path, form: tuple[str, ...]) -> None:
    file = offline.write(folder)
    done = CliRunner().invoke(root, ["table", "list", "--config", str(file), *form])
    assert done.exit_code == 0, done.output
    if form:
        rows = {row["table"]: row for row in json.loads(done.stdout)}
        assert rows["lake.shop.gone"]["error"]["code"] == "STORAGE_UNAVAILABLE"
        assert rows["lake.shop.unknown_format"]["error"]["code"] == "KAFKA_UNAVAILABLE"
        assert rows["lake.shop.unknown_format"]["topic"] == "bids"
    else:
        lines = done.stdout.splitlines()
        assert len(lines) == len({line.split()[0] for line in lines})
        assert any(line.startswith("lake.shop.version_4 ") for line in lines)
        assert all("  " in line for line in lines)


class Torn(NamedSources):
    """Sources of which one catalog, and one schema of another, cannot be listed."""

    def cold(self, name: str) -> Catalog:  # type: ignore[override]
        """See `Sources.cold`."""
        if name == "away":
            raise SeamlineError(CATALOG_UNAVAILABLE, "catalog away does not answer")
        return _Torn(super().cold(name))


class _Torn:
    def __init__(self, inner: Catalog) -> None:
        self.name = inner.name
        self.load = inner.load
        self.namespaces = inner.namespaces
        self.has_namespace = inner.has_namespace
        self._inner = inner

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        if namespace == ("closed",):
            raise RuntimeError("not yours")
        return self._inner.tables(namespace)


def test_schemas_and_catalogs_that_cannot_be_listed_are_said() -> None:
    tables = [("closed", "a"), ("open", "b")]
    sources = Torn({"away": [], "lake": tables}, {"kafka": ["bids"]})
    found = list(listings.all_tables(sources, "lake", NEVER))
    assert [(entry.display, entry.error is None) for entry in found] == [
        ("lake.closed", False),
        ("lake.open.b", True),
    ]
    assert [entry.table.display for entry in listings.unified(sources, NEVER)] == [
        "away",
        "lake.closed",
    ]


@pytest.mark.parametrize("listed", [(), ("open",)])
def test_only_what_lists_nothing_is_left_out(listed: tuple[str, ...]) -> None:
    sources, now = NamedSources({"lake": []}, {"kafka": []}), [0.0]
    sources.silent = Silent(lambda: now[0])
    asked = []

    def slowly(_: Sources, source: str, *rest: object) -> Iterator[Listed]:
        assert len(rest) == 2
        asked.append(source)
        now[0] += 10.0
        yield Listed(source, "closed", error=SeamlineError(CATALOG_UNAVAILABLE, "away"))
        yield from (Listed(source, schema) for schema in listed)

    for _ in range(2):
        found = list(listings.everything(sources, slowly, NEVER, Only(catalog="lake")))
        assert [entry.schema for entry in found if entry.error is None] == [*listed]
        assert any(entry.error is not None for entry in found)
    assert asked == ["lake"] * (2 if listed else 1)


# --- What is asked for alone ---------------------------------------------------------------------


class Away(MemoryLog):
    """A cluster that is away, and takes ten seconds of a clock to say so; it notes who asks."""

    def __init__(self, name: str, asked: list[str], now: list[float]) -> None:
        super().__init__()
        self._name, self._asked, self._now = name, asked, now

    def topics(self, deadline: Deadline) -> NoReturn:
        """See `HotLog.topics`."""
        deadline.check()
        self._asked.append(self._name)
        self._now[0] += 10.0
        raise SeamlineError(KAFKA_UNAVAILABLE, f"cluster {self._name} is away")


class Watched(Connections):
    """Notes which clusters are asked."""

    asked: list[str]
    now: list[float]
    away: Away

    def log(self, name: str) -> Any:
        """See `Sources.log`."""
        assert name == "default"
        return self.away


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Watched]]:
    config = offline.config(tmp_path_factory.mktemp("watched"))
    own = Watched(config)
    own.asked = []
    own.now = [1000.0]
    own.silent = Silent(lambda: own.now[0])
    own.away = Away("default", own.asked, own.now)
    with contextlib.closing(Gateway(config, connections=own)) as running:
        running.rows("CREATE TABLE a_b (id bigint)")
        running.rows("CREATE TABLE other (id bigint, name varchar)")
        yield running, own


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT table_name FROM system.jdbc.tables WHERE {jdbc}", [("a_b",)]),
        ("SELECT column_name FROM system.jdbc.columns WHERE {jdbc}", [("id",)]),
        ("SELECT t.table_name FROM system.jdbc.tables AS t WHERE 'lake' = t.TABLE_CAT "
         "AND table_name LIKE 'a%'", [("a_b",)]),
        ("SELECT table_name FROM system.metadata.table_comments WHERE catalog_name = 'lake' "
         "AND schema_name = 'default'", [("a_b",), ("other",)]),
        ("SELECT table_schem FROM system.jdbc.schemas WHERE table_catalog = 'lake' "
         "AND table_schem LIKE 'd%'", [("default",)]),
        ("SELECT column_name FROM lake.information_schema.columns WHERE table_name = 'other'",
         [("id",), ("name",)]),
        ("SELECT count(*) FROM system.jdbc.columns WHERE table_cat = 'nowhere'", [(0,)]),
        ("SELECT a.table_name, b.table_name FROM (SELECT * FROM lake.information_schema.tables "
         "WHERE table_name = 'a_b') a, (SELECT * FROM lake.information_schema.tables "
         "WHERE table_name = 'other') b", [("a_b", "other")]),
    ],
)  # fmt: skip
def test_a_cluster_that_is_away_is_not_asked_about_a_catalog(
    watched: tuple[Gateway, Watched], sql: str, rows: list[tuple[object, ...]]
) -> None:
    gateway, own = watched
    asked = own.asked
    own.now[0] += 60.0  # nothing is left out any more
    asked.clear()
    jdbc = (
        r"table_cat = 'lake' AND table_schem LIKE 'default' AND table_name LIKE 'a\_b' ESCAPE '\'"
    )
    assert sorted(gateway.rows(sql.format(jdbc=jdbc))) == rows
    assert not asked


def test_it_is_asked_by_whom_it_may_concern(watched: tuple[Gateway, Watched]) -> None:
    gateway, own = watched
    asked = own.asked
    own.now[0] += 60.0  # nothing is left out any more
    for where in ("", "WHERE table_cat = 'lake' OR table_name = 'a_b'"):
        asked.clear()
        own.now[0] += 60.0
        assert gateway.rows(f"SELECT count(*) FROM system.jdbc.tables {where}")
        assert asked == ["default"]


def test_while_it_is_silent_only_those_wait_who_ask_for_it(
    watched: tuple[Gateway, Watched],
) -> None:
    gateway, own = watched
    asked = own.asked
    own.now[0] += 60.0  # nothing is left out any more
    everything = "SELECT count(*) FROM system.jdbc.tables"
    asked.clear()
    first = gateway.rows(everything)
    assert asked == ["default"]
    for _ in range(3):
        assert gateway.rows(everything) == first
        assert ("default",) in gateway.rows("SELECT table_catalog FROM system.jdbc.schemas")
    assert asked == ["default"]
    with pytest.raises(SeamlineError) as caught:
        gateway.rows('SHOW TABLES FROM "default"."default"')
    assert caught.value.code is KAFKA_UNAVAILABLE
    assert asked == ["default"] * 2
    own.now[0] += 31.0
    assert gateway.rows(everything) == first
    assert asked == ["default"] * 3


# --- Each broken table alone ---------------------------------------------------------------------

STATEMENTS = (
    "DESCRIBE shop.{name}",
    "SHOW CREATE TABLE shop.{name}",
    'SELECT * FROM shop."{name}$cold"',
    *(f'SELECT * FROM shop."{{name}}${variant}"' for variant in names.METADATA_TABLES),
)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("name", KINDS)
def test_what_a_broken_table_fails_with_has_a_name(
    gateway: Gateway, sources: BrokenSources, name: str
) -> None:
    failures = [gateway.statement(text.format(name=name)).error for text in STATEMENTS]
    session = resolution.session(sources.config)
    try:
        Gatherer(sources).pin([TableReference((NAMESPACE, name))], session, NEVER)
    except SeamlineError as error:
        failures.append(error)
    found = {error.code.name for error in failures if error is not None}
    assert found - {"INTERNAL_ERROR"} == found
    assert found or name in {"unknown_transform", "without_uuid"}, "it can be read"
    client = gateway.app.test_client()
    if name in {*CHANGES, *SPOILS, *LOCATIONS} - set(WITH_TOPIC):
        answer = client.get(f"{ROOT}/{name}", headers=HOST)
        assert "INTERNAL_ERROR" not in answer.get_data(as_text=True)
    assert gateway.rows("SELECT count(*) FROM shop.good") == [(3,)]


def test_every_kind_is_made_once() -> None:
    assert len(KINDS) == len({*PROPERTIES, *CHANGES, *SPOILS, *LOCATIONS})
