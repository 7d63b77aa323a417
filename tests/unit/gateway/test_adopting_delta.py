"""Goal: `table adopt` finds who fills a Delta table, and what it prints binds the table exactly.

Method: real Delta tables that the configuration does not name, written as kafka-delta-ingest and
Spark's streaming queries do, and a log in memory. What is found goes into a configuration as it is
printed, and is read by a gateway.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import CommitProperties, Transaction, write_deltalake
from support.delta import (
    APPLICATION,
    NEVER,
    PLACED,
    QUERY,
    SCHEMA,
    TOPIC,
    DeltaShop,
    Streamed,
    configured,
    placed,
)
from support.gateway import Gateway
from support.offline import MemoryConnections

from seamline.connectors.delta.boundaries import APP_ID
from seamline.errors import SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import adopting
from seamline.gateway.commands.adopting import Adoption, Findings

TABLE = f"bronze.shop.{TOPIC}"
PLACES = ("partition=k_partition", "offset=k_offset")


def connections(
    shop: DeltaShop, tables: Mapping[str, Mapping[str, str]] | None = None
) -> MemoryConnections:
    """Those of somebody whose configuration has these tables and no others."""
    warehouse = shop.config.catalogs["bronze"].warehouse
    return MemoryConnections(configured(shop.config, warehouse, tables or {}), shop.log)


def examined(
    shop: DeltaShop, tables: Mapping[str, Mapping[str, str]] | None = None, **said: Any
) -> Findings:
    known = connections(shop, tables)
    name = resolution.resolve(("bronze", "shop", TOPIC), resolution.session(known.config), known)
    cluster = known.config.default_cluster
    return adopting.examine(known, Adoption(cluster, TOPIC, name=name, **said), NEVER)


def rows_as_printed(shop: DeltaShop, found: Findings) -> list[tuple[Any, ...]]:
    """What a gateway reads whose configuration is what was printed."""
    adopted = connections(shop, yaml.safe_load(found.configuration)["tables"])
    gateway = Gateway(adopted.config, connections=adopted)
    read = sorted(gateway.rows(f"SELECT id, item, price FROM {TABLE}"))
    gateway.close()
    return read


def files(folder: pathlib.Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*")}


def error_of(shop: DeltaShop, **said: Any) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        examined(shop, **said)
    return caught.value


def test_what_is_printed_binds_the_table_and_nothing_is_written(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path, PLACED)
    shop.produce(40)
    shop.copy({0: 12, 1: 9}, placed)
    before = files(shop.writer.folder)
    found = examined(shop, columns=PLACES)
    assert (found.writer.name, found.is_for_configuration) == ("kafka-delta-ingest", True)
    assert (found.problems, found.lag) == ((), 19)
    boundary = found.boundary
    assert (boundary.provider, boundary.trust) == ("kafka-delta-ingest", "exact")
    assert dict(boundary.next) == {0: 12, 1: 9}
    assert len(found.sample) == 21
    assert all(pair.cold == pair.hot for pair in found.sample)
    assert rows_as_printed(shop, found) == shop.rows
    said = yaml.safe_load(found.configuration)["tables"][TABLE]
    assert said["boundary_app_id"] == APPLICATION
    assert (said["topic"], said["tombstones"]) == (TOPIC, "bad")
    with pytest.raises(SeamlineError) as caught:
        adopting.adopt(connections(shop), found)
    assert caught.value.code.name == "STATEMENT_NOT_ALLOWED"
    assert found.configuration in caught.value.hint
    assert files(shop.writer.folder) == before


def test_the_usual_columns_of_its_writer_are_found(tmp_path: pathlib.Path) -> None:
    kafka = pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("topic", pa.string())])
    shop = DeltaShop(tmp_path, pa.schema([*SCHEMA, ("meta", pa.struct([("kafka", kafka)]))]))
    shop.produce(10)

    def shape(partition: int, offset: int, record: dict[str, Any]) -> dict[str, Any]:
        of_log = {"partition": partition, "offset": offset, "topic": TOPIC}
        return {**record, "meta": {"kafka": of_log}}

    shop.copy({0: 3, 1: 4}, shape)
    found = examined(shop)
    assert len(found.sample) == 7
    assert all(pair.cold == pair.hot for pair in found.sample)
    assert rows_as_printed(shop, found) == shop.rows


@pytest.mark.parametrize("is_beneath", [True, False])
def test_a_query_of_spark_is_found_with_its_checkpoint(
    tmp_path: pathlib.Path, is_beneath: bool
) -> None:
    streamed = Streamed(tmp_path)
    shop = streamed.shop
    shop.produce(10)
    streamed.plan({0: 2, 1: 1})
    streamed.commit({0: 2, 1: 1})
    options: tuple[str, ...] = ()
    if not is_beneath:
        moved = streamed.checkpoint.rename(streamed.checkpoint.with_name("elsewhere"))
        assert error_of(shop).code.name == "INVALID_TABLE_DEFINITION", "it must be said"
        options = (f"checkpoint={moved}",)
    found = examined(shop, boundary_options=options)
    assert (found.writer.name, found.boundary.trust) == ("Spark Structured Streaming", "exact")
    assert dict(found.boundary.next) == {0: 2, 1: 1}
    assert rows_as_printed(shop, found) == shop.rows


def test_a_table_that_lies_elsewhere(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path)
    shop.produce(6)
    shop.copy({0: 2, 1: 3})
    moved = shop.writer.folder.rename(tmp_path / "elsewhere")
    error = error_of(shop)
    assert (error.code.name, "--location" in error.hint) == ("TABLE_NOT_FOUND", True)
    for found in (
        examined(shop, location=str(moved)),
        examined(shop, {TABLE: {"location": str(moved)}}),
    ):
        assert yaml.safe_load(found.configuration)["tables"][TABLE]["location"] == str(moved)
        assert rows_as_printed(shop, found) == shop.rows


def transactions(shop: DeltaShop, **said: int) -> None:
    """A commit without rows, which says how far applications are."""
    properties = CommitProperties(app_transactions=[Transaction(*one) for one in said.items()])
    nothing = pa.Table.from_pylist([], schema=shop.writer.schema)
    write_deltalake(str(shop.writer.folder), nothing, mode="append", commit_properties=properties)


def test_who_fills_it_is_never_guessed(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path)
    shop.produce(10)
    shop.writer.write([], {})
    error = error_of(shop)
    assert error.code.name == "ADOPTION_REFUSED"
    assert "no transaction of a known writer" in error.message
    shop.copy({0: 2, 1: 3})
    assert examined(shop).writer.name == "kafka-delta-ingest"
    transactions(shop, **{"another-0": 1, QUERY: 4})
    error = error_of(shop)
    assert error.code.name == "ADOPTION_REFUSED"
    for name in ("another", APPLICATION, QUERY):
        assert name in error.message
    error = error_of(shop, boundary="kafka-delta-ingest")
    assert QUERY not in error.message
    found = examined(shop, boundary_options=(f"app-id={APPLICATION}",))
    assert rows_as_printed(shop, found) == shop.rows
    error = error_of(shop, boundary="kafka-connect")
    assert error.code.name == "INVALID_ARGUMENT"


def test_a_writer_that_goes_by_its_own_name_needs_none(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path)
    shop.produce(4)
    rows = [shop.records[0, 0], shop.records[1, 0]]
    shop.writer.write(rows, {}, said={f"{APP_ID}-0": 0, f"{APP_ID}-1": 0})
    found = examined(shop)
    assert "boundary_app_id" not in yaml.safe_load(found.configuration)["tables"][TABLE]
    assert rows_as_printed(shop, found) == shop.rows


def test_it_is_let_go_of_in_the_configuration(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    before = files(shop.writer.folder)
    bound = yaml.safe_load(examined(shop).configuration)["tables"]
    for tables, code in ((bound, "STATEMENT_NOT_ALLOWED"), ({TABLE: {}}, "NOT_A_UNIFIED_TABLE")):
        known = connections(shop, tables)
        name = resolution.resolve(
            ("bronze", "shop", TOPIC), resolution.session(known.config), known
        )
        with pytest.raises(SeamlineError) as caught:
            adopting.unadopt(known, name)
        assert caught.value.code.name == code
    assert files(shop.writer.folder) == before


def test_what_the_table_lacks_speaks_against_it(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path, PLACED)
    shop.produce(10)
    shop.copy({0: 4, 1: 4}, lambda p, o, record: {**placed(p, o, record), "price": 0.25})
    found = examined(shop, columns=PLACES)
    assert any("column price" in problem for problem in found.problems)
    with pytest.raises(SeamlineError) as caught:
        adopting.require_no_problems(found, force=False)
    assert caught.value.code.name == "ADOPTION_REFUSED"
