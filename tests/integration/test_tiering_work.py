"""Goal: a batch does no work twice, and none that its size multiplies.

Method: real batches on real Spark, over a catalog that counts; what workers are sent and what they
find there is looked at, and never the time it takes.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types
from support.gateway import Gateway
from support.records import assert_tiered_exactly_once
from support.stack import Stack

from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.spark import daemon
from seamline.connectors.spark.tail import RECORD
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.tiering import Outcome

MODULE = "seamline.connectors.spark.daemon"
pytestmark = [pytest.mark.integration, pytest.mark.spark]


class CountingCatalog:
    """A catalog that counts the loads of its tables."""

    def __init__(self, inner: IcebergCatalog) -> None:
        self.name = inner.name
        self.loads = 0
        self._inner = inner

    def load(self, identifier: tuple[str, ...]) -> IcebergTable:
        """See `IcebergCatalog.load`."""
        self.loads += 1
        return self._inner.load(identifier)


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_batch_loads_its_table_three_times(
    stack: Stack, gateway: Gateway, name: str, on_error: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, text varchar", on_error=on_error)
    catalog = CountingCatalog(stack.connections.catalog("lake"))
    log = stack.connections.log("default")
    for number in range(2):
        stack.produce(name, [{"id": i, "text": "x"} for i in range(100)])
        catalog.loads = 0
        table = SparkTierTable(
            stack.sessions,
            cast("IcebergCatalog", catalog),
            ("default", name),
            log,
            stack.connections.cluster("default").config,
            tasks_min=2,
            opened=catalog.load(("default", name)),
        )
        done = tier_once(table, log, no_deadline(), records_max=1_000)
        assert (done.outcome, done.offsets) == (Outcome.ROWS, 100), number
        assert catalog.loads <= 3, "opened with, to be written, and written"
    assert_tiered_exactly_once(stack, gateway, name)


def test_workers_are_sent_nothing_nested(stack: Stack, name: str) -> None:
    """Spark measures a batch after each of its rows, and a list of it by walking over all rows."""
    stack.create_topic(name, 1)
    servers = stack.connections.cluster("default").config.bootstrap_servers
    options = {"kafka.bootstrap.servers": servers, "subscribe": name, "includeHeaders": "true"}
    records = stack.spark.read.format("kafka").options(**options).load().selectExpr(*RECORD)
    nested = (types.ArrayType, types.MapType, types.StructType)
    assert [f.name for f in records.schema if isinstance(f.dataType, nested)] == []


def test_workers_are_forked_from_what_has_imported_it(stack: Stack) -> None:
    def imported(batches: Iterator[Any]) -> Iterator[Any]:
        parent = pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        for batch in batches:
            known = [name in sys.modules for name in batch.column("name").to_pylist()]
            starts = [parent[1:3] == ["-m", MODULE]] * len(known)
            yield pa.RecordBatch.from_pydict({"known": known, "starts": starts})

    wanted = stack.spark.createDataFrame([(name,) for name in daemon.MODULES], "name string")
    found = wanted.mapInArrow(imported, "known boolean, starts boolean").collect()
    assert found == [(True, True)] * len(daemon.MODULES)
