"""What writes a batch: Spark, this process, or whichever suits it.

Goal: a batch is the same table whoever writes it, and `auto` starts Spark only for what needs it.
Method: real batches of a real topic, with Spark's start counted; files are read by PyIceberg, and
their properties by PyArrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from support import programs
from support.gateway import Gateway
from support.records import assert_tiered_exactly_once
from support.stack import Stack

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import AutoTables
from seamline.seam.tiering import Outcome, Step

pytestmark = [pytest.mark.integration, pytest.mark.spark]


class Starts:
    """Starts the stack's Spark, and counts how often."""

    def __init__(self, stack: Stack) -> None:
        self.count = 0
        self._stack = stack

    def __call__(self) -> Any:
        """Returns the session."""
        self.count += 1
        return self._stack.spark


def one_step(stack: Stack, tables: AutoTables, name: str) -> Step:
    table, log = tables.open(stack.resolve(name))
    return tier_once(table, log, no_deadline(), records_max=1_000_000)


def test_spark_starts_for_large_batches_only(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, text varchar")
    starts = Starts(stack)
    tables = AutoTables(stack.connections, starts, local_offsets_max=10)
    stack.produce(name, [{"id": i, "text": "small"} for i in range(10)])
    assert one_step(stack, tables, name).offsets == 10
    assert starts.count == 0
    for first in (10, 21):
        stack.produce(name, [{"id": i, "text": "large"} for i in range(first, first + 11)])
        assert one_step(stack, tables, name).offsets == 11
        assert starts.count == 1
    assert_tiered_exactly_once(stack, gateway, name)


def test_what_this_process_cannot_read_is_merged_on_spark(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """An upsert table with Avro files, in which rows cannot be found by position."""
    stack.create_topic(name, 1)
    stack.create_table(
        name, "id bigint, text varchar", mode="upsert", primary_key=("id",), key="id"
    )
    starts = Starts(stack)
    tables = AutoTables(stack.connections, starts)
    old = [{"id": number, "text": "old"} for number in (1, 2, 3)]
    stack.produce(name, old, keys=["1", "2", "3"])
    assert one_step(stack, tables, name).outcome is Outcome.ROWS
    assert starts.count == 0
    stack.spark.sql(
        f"ALTER TABLE lake.default.{name} SET TBLPROPERTIES ('write.format.default' = 'avro')"
    )
    stack.spark.sql(f"UPDATE lake.default.{name} SET text = 'changed' WHERE id = 1")
    stack.produce(name, [{"id": 1, "text": "new"}], keys=["1"])
    assert one_step(stack, tables, name).outcome is Outcome.ROWS
    assert starts.count == 1
    assert gateway.rows(f"SELECT id, text FROM {name} ORDER BY id", "spark") == [
        (1, "new"),
        (2, "old"),
        (3, "old"),
    ]


def test_files_follow_the_properties_of_the_table(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(
        name, "id bigint, text varchar", partitioning=("bucket(4, id)",), sorted_by=("id",)
    )
    stack.spark.sql(
        f"ALTER TABLE lake.default.{name} SET TBLPROPERTIES "
        "('write.parquet.compression-codec' = 'gzip', 'write.parquet.row-group-limit' = '16', "
        "'write.parquet.bloom-filter-enabled.column.id' = 'true')"
    )
    stack.tier_engine = "local"
    try:
        stack.produce(name, [{"id": i * 37 % 101, "text": f"t{i}"} for i in range(100)])
        stack.tier(name)
    finally:
        stack.tier_engine = "spark"
    paths = sorted(stack.data_files(name))
    assert len(paths) == 4
    for path in paths:
        metadata = pq.read_metadata(path)
        first = metadata.row_group(0)
        columns = {first.column(i).path_in_schema: first.column(i) for i in range(2)}
        assert columns["id"].compression == "GZIP"
        assert columns["id"].bloom_filter_offset is not None
        assert columns["text"].bloom_filter_offset is None
        assert all(metadata.row_group(i).num_rows <= 16 for i in range(metadata.num_row_groups))
        ids = pq.read_table(path).column("id").to_pylist()
        assert ids == sorted(ids)
    assert_tiered_exactly_once(stack, gateway, name)


class OvertakenCatalog:
    """A catalog in which a rival tiers a table just before a batch with written files lands."""

    def __init__(self, stack: Stack, name: str) -> None:
        catalog = stack.connections.catalog("lake")
        self.name = catalog.name
        self._catalog = catalog
        self._stack = stack
        self._table = name
        self._is_overtaken = False

    def load(self, identifier: tuple[str, ...]) -> IcebergTable:
        """See `IcebergCatalog.load`."""
        if self._stack.data_files(self._table) and not self._is_overtaken:
            self._is_overtaken = True
            self._stack.tier(self._table)
        return self._catalog.load(identifier)


def test_a_refused_batch_leaves_no_files(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": i, "text": "x"} for i in range(100)])
    log = stack.connections.log("default")
    catalog: Any = OvertakenCatalog(stack, name)
    loser = LocalTierTable(catalog, ("default", name), log)
    with pytest.raises(SeamlineError) as caught:
        tier_once(loser, log, no_deadline(), records_max=1_000_000)
    assert caught.value.code is COMMIT_CONFLICT
    files = gateway.rows(f'SELECT path FROM "{name}$files"')
    assert stack.data_files(name) == {path.removeprefix("file:") for (path,) in files}
    assert_tiered_exactly_once(stack, gateway, name)


def test_the_command_without_spark(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": i, "text": "x"} for i in range(100)])
    done = programs.run(
        programs.seamline("tier", name, "--once", "--engine", "auto"), stack.environment
    )
    assert done.returncode == 0, done.stderr
    assert "starting Spark" not in done.stderr
    assert f"{name}: 100 offsets" in done.stderr
    assert_tiered_exactly_once(stack, gateway, name)
