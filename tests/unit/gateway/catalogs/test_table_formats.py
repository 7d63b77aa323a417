"""Goal: a table format is one entry of `FORMATS` and its own folder; nothing else knows of it.

Method: a format of the tests' own, folders of Parquet files, is added to the table. A gateway over
such a folder and a log in memory configures, lists, reads and adopts the table, and refuses what
the format cannot do.
"""

from __future__ import annotations

import json
import pathlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from fakes.memory import MemoryLog
from pydantic import ValidationError
from support import folders, offline
from support.folders import FOLDERS
from support.gateway import Gateway
from support.offline import MemoryConnections

from seamline.connectors import table_formats
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.table_formats import FORMATS, TableFormat
from seamline.errors import SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import adopting
from seamline.gateway.config.model import Config
from seamline.gateway.doctor import catalogs
from seamline.seam.log import READ_COMMITTED

TOPIC = "orders"
TABLE = f"raw.shop.{TOPIC}"
NEVER = NoDeadline()
RECORDS = [(number, f"item {number}") for number in range(10)]
COPIED = (4, 6)
"""The offsets at which the table's files end."""


def configured(
    folder: pathlib.Path, tables: Mapping[str, Mapping[str, str]], kind: str = "folders"
) -> Config:
    tree = yaml.safe_load(offline.write(folder).read_text())
    tree["catalogs"]["raw"] = {"type": kind, "warehouse": str(folder / "raw")}
    return Config.model_validate({**tree, "state_directory": str(folder), "tables": tables})


class Shop:
    """A topic of orders, and the folder that its first records have been copied into."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.log = MemoryLog()
        self.log.create_topic(TOPIC, 1)
        for number, item in RECORDS:
            self.log.produce(TOPIC, 0, json.dumps({"id": number, "item": item}).encode())
        for start, end in zip((0, *COPIED), COPIED, strict=False):
            rows = [
                {"id": number, "item": item, "k_offset": offset}
                for offset, (number, item) in enumerate(RECORDS[start:end], start)
            ]
            folders.append(folder / "raw" / "shop" / TOPIC, end, rows)

    @property
    def tables(self) -> dict[str, dict[str, str]]:
        """What the configuration says of the table."""
        (bounds,) = self.log.bounds([TOPIC], READ_COMMITTED, NEVER).values()
        own = {"topic": TOPIC, "topic_id": bounds.topic_id, "columns_from": "k_offset = offset"}
        return {TABLE: {**own, "boundary_provider": folders.FileNames.name}}

    def connections(self, tables: Mapping[str, Mapping[str, str]]) -> MemoryConnections:
        """Those of a configuration with these tables."""
        return MemoryConnections(configured(self.folder, tables), self.log)


@pytest.fixture
def shop(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(table_formats, "FORMATS", (*FORMATS, FOLDERS))
    return Shop(tmp_path)


@pytest.fixture
def gateway(shop: Shop) -> Iterator[Gateway]:
    connections = shop.connections(shop.tables)
    running = Gateway(connections.config, connections=connections)
    yield running
    running.close()


def read(gateway: Gateway, table: str = TABLE, rest: str = "") -> list[tuple[Any, ...]]:
    return sorted(gateway.rows(f"SELECT id, item FROM {table} {rest}"))


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: str(known.name))
def test_the_catalog_of_every_format_is_there(known: TableFormat) -> None:
    assert isinstance(pkgutil.resolve_name(known.catalog), type)


def test_a_type_belongs_to_one_format() -> None:
    types = [kind for known in FORMATS for kind in known.catalog_types]
    assert len(set(types)) == len(types)


def test_a_format_that_is_not_in_the_table_cannot_be_configured(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValidationError, match="is not a type of catalog"):
        configured(tmp_path, {})


def test_it_is_configured_and_needs_no_warehouse_if_it_has_a_location(shop: Shop) -> None:
    assert shop.connections({}).config.catalogs["raw"].format is FOLDERS
    tree = yaml.safe_load(offline.write(shop.folder).read_text())
    tree["catalogs"]["raw"] = {"type": "folders"}
    with pytest.raises(ValidationError, match="its catalog has no warehouse"):
        Config.model_validate({**tree, "tables": {TABLE: {"topic": TOPIC}}})


def test_it_is_listed_and_described(gateway: Gateway) -> None:
    assert gateway.rows("SHOW TABLES FROM raw.shop") == [(TOPIC,)]
    assert [row[:2] for row in gateway.rows(f"DESCRIBE {TABLE}")] == [
        ("id", "bigint"),
        ("item", "varchar"),
        ("k_offset", "bigint"),
    ]
    listed = dict(gateway.rows("SELECT catalog_name, connector_name FROM system.metadata.catalogs"))
    assert (listed["raw"], listed["lake"]) == ("folders", "iceberg")
    sql = "SELECT DISTINCT catalog_name FROM system.metadata.table_properties"
    assert gateway.rows(sql) == [("lake",)]


def test_it_is_one_table_with_its_topic(gateway: Gateway) -> None:
    assert read(gateway) == RECORDS
    assert read(gateway, f'raw.shop."{TOPIC}$cold"') == RECORDS[: COPIED[-1]]
    assert read(gateway, f'raw.shop."{TOPIC}$hot"') == RECORDS[COPIED[-1] :]
    assert read(gateway, f'raw.shop."{TOPIC}$cold"', "WHERE id = 5") == [(5, "item 5")]


def test_its_files_are_snapshots(gateway: Gateway) -> None:
    sql = f'SELECT snapshot_id, parent_id FROM raw.shop."{TOPIC}$snapshots" ORDER BY 1'
    assert gateway.rows(sql) == [(4, None), (6, 4)]
    assert read(gateway, TABLE, "FOR VERSION AS OF 4") == RECORDS[:4]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE raw.shop.another (a bigint)",
        f"INSERT INTO {TABLE} VALUES (1, 'a', 1)",
        f"ALTER TABLE {TABLE} ADD COLUMN a bigint",
        f"SHOW CREATE TABLE {TABLE}",
        "CREATE VIEW raw.shop.v AS SELECT 1 AS a",
    ],
)
def test_writes_are_refused_by_the_name_of_the_format(gateway: Gateway, sql: str) -> None:
    with pytest.raises(SeamlineError, match="Folder tables are read-only") as caught:
        gateway.rows(sql)
    assert caught.value.code.name == "NOT_SUPPORTED"


def test_other_readers_are_refused_by_the_name_of_the_format(gateway: Gateway) -> None:
    with pytest.raises(SeamlineError, match="Spark cannot read a Folder table"):
        gateway.rows(f"SELECT * FROM {TABLE}", engine="spark")
    with pytest.raises(SeamlineError, match="only DuckDB reads them"):
        gateway.parts.seams.pin(TABLE, Principal("t"), catalog=None, schema=None, token=None)
    answer = gateway.app.test_client().get("/iceberg/v1/raw/namespaces/shop/tables")
    assert (answer.status_code, "Folder tables" in answer.text) == (406, True)


def test_doctor_reads_it_and_does_not_write_to_it(shop: Shop) -> None:
    findings = list(catalogs.look(shop.connections(shop.tables), "raw", writes=True))
    assert [(one.level.value, one.text) for one in findings] == [
        ("ok", "it answers, and lists 1 schema"),
        ("ok", f"metadata of shop.{TOPIC} can be read in its storage"),
        ("skipped", "whether it may be written to: Folder tables are read-only"),
    ]


def test_adopting_prints_what_the_configuration_must_say(shop: Shop) -> None:
    before = shop.connections({})
    name = resolution.resolve(("raw", "shop", TOPIC), resolution.session(before.config), before)
    adoption = adopting.Adoption(before.config.default_cluster, TOPIC, name=name)
    findings = adopting.examine(before, adoption, NEVER)
    assert (findings.problems, findings.is_for_configuration) == ((), True)
    with pytest.raises(SeamlineError, match=r"the Folder table .* is read-only"):
        adopting.adopt(before, findings)
    after = shop.connections(yaml.safe_load(findings.configuration)["tables"])
    gateway = Gateway(after.config, connections=after)
    assert read(gateway) == RECORDS
    gateway.close()


def test_an_extra_that_is_not_installed_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = TableFormat("absent", "Absent", ("absent",), "seamline_absent:Catalog", extra="absent")
    monkeypatch.setattr(table_formats, "FORMATS", (*FORMATS, absent))
    connections = MemoryConnections(configured(shop.folder, {}, "absent"), shop.log)
    with pytest.raises(SeamlineError) as caught:
        connections.cold("raw")
    assert (caught.value.code.name, "absent" in caught.value.hint) == ("MISSING_EXTRA", True)
