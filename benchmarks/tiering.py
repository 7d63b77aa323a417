"""Tiering: the same records moved into Iceberg by our batches and by Spark's `from_json` stream.

once    the command for a few records and for a small batch: without Spark, against Spark
first   the first batch of a Spark that has done nothing yet
warm    all records, in batches of the same size, against the stream; both on that Spark

python benchmarks/tiering.py [--records 1000000] [--batch 250000] [--repeats 9]
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import tempfile
from typing import Any

from harness import REPEATS, Comparison, compare, report, timed, verdict_of
from stand import Stand, say, stand

import seamline
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway import names
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.dev.demo import bids
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import SparkTables, start_spark
from seamline.seam.tiering import Outcome

GOAL = 1.0
COMMAND_GOAL = 0.3
COMMAND_REPEATS = 5
FIRST_GOAL_S = 10.0
RATE_GOAL = 100_000
SQL = "SELECT count(*), sum(price), sum(auction), max(date_time) FROM lake.default.{}"
_BID = (
    "auction bigint, bidder bigint, price bigint, channel string, url string, date_time bigint,"
    " extra struct<device: string, referrer: string>"
)


class Commands:
    """`seamline tier --once` over one topic; each run has a table of its own.

    Args:
        running: The stack.
        topic: The topic, with bids.
    """

    def __init__(self, running: Stand, topic: str) -> None:
        self._running = running
        self._topic = topic
        self._numbers = itertools.count()
        self._name = ""

    def prepare(self) -> None:
        """An empty table for the next run."""
        self._name = f"{self._topic}_{next(self._numbers)}"
        columns = ("--topic", self._topic, "--schema", bids.BIDS_COLUMNS)
        self._running.run("table", "create", self._name, *columns)

    def auto(self) -> Any:
        """Small batches by the command itself."""
        return self._once("auto")

    def spark(self) -> Any:
        """Every batch by a Spark that the command starts."""
        return self._once("spark")

    def _once(self, engine: str) -> Any:
        self._running.run("tier", self._name, "--once", "--engine", engine)
        with seamline.connect(self._running.url) as connection:
            sql = f'SELECT count(*), sum(price), max(date_time) FROM "{self._name}$cold"'
            rows = connection.execute(sql).fetchall()
        self.prepare()
        return rows


class Tierers:
    """Both sides, over the topic of bids; each run has a table of its own.

    Args:
        running: The stack.
        connections: The same, for our side.
        spark: Runs both.
        batch: Records of a batch.
    """

    def __init__(self, running: Stand, connections: Connections, spark: Any, batch: int) -> None:
        self._running = running
        self._connections = connections
        self._spark = spark
        self._batch = batch
        self._tables = SparkTables(connections, spark)
        self._numbers = itertools.count()
        self._name = ""

    def prepare(self) -> None:
        """Empty tables for the next run."""
        self._name = f"bids_{next(self._numbers)}"
        columns = ("--topic", "bids", "--schema", bids.BIDS_COLUMNS)
        self._running.run("table", "create", self._name, *columns)
        self._spark.sql(
            f"CREATE TABLE lake.default.{self._name}_theirs (auction bigint, bidder bigint, "
            "price bigint, channel string, url string, date_time timestamp, "
            "extra struct<device: string, referrer: string>, _partition_ int, _offset_ bigint, "
            "_time_ timestamp, _key_ binary) USING iceberg"
        )

    def one_batch(self) -> None:
        """Our first batch."""
        name = self._resolved()
        table, log = self._tables.open(name)
        tier_once(table, log, NoDeadline(), records_max=self._batch)

    def ours(self) -> Any:
        """Our batches, until nothing is left."""
        name = self._resolved()

        outcome = None
        while outcome is not Outcome.IDLE:
            table, log = self._tables.open(name)
            outcome = tier_once(table, log, NoDeadline(), records_max=self._batch).outcome
        return self._answer(self._name)

    def theirs(self) -> Any:
        """Spark's stream, until nothing is left."""
        records = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._running.bootstrap_servers)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", "bids")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self._batch)
            .load()
        )
        rows = records.selectExpr(
            f"from_json(CAST(value AS string), '{_BID}') AS bid",
            "partition AS _partition_",
            "offset AS _offset_",
            "timestamp AS _time_",
            "key AS _key_",
        ).selectExpr(
            *(f"bid.{name}" for name in ("auction", "bidder", "price", "channel", "url")),
            "timestamp_millis(bid.date_time) AS date_time",
            "bid.extra",
            "_partition_",
            "_offset_",
            "_time_",
            "_key_",
        )
        with tempfile.TemporaryDirectory(prefix="seamline-bench-") as checkpoint:
            writer = rows.writeStream.format("iceberg").outputMode("append")
            writer = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint)
            writer.toTable(f"lake.default.{self._name}_theirs").awaitTermination()
        return self._answer(f"{self._name}_theirs")

    def _resolved(self) -> names.TableName:
        session = resolution.session(self._connections.config)
        return resolution.resolve((self._name,), session, self._connections)

    def _answer(self, name: str) -> Any:
        return [tuple(row) for row in self._spark.sql(SQL.format(name)).collect()]


def main() -> None:
    """Runs both."""
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--batch", type=int, default=250_000)
    options.add_argument("--repeats", type=int, default=REPEATS)
    chosen = options.parse_args()
    with stand() as running:
        once = [measure_command(running, count) for count in (3, 200_000)]
        running.produce(chosen.records)
        connections = Connections(load(running.directory / FILE_NAME, environment={}).config)
        spark = start_spark(connections)
        try:
            warm = measure(Tierers(running, connections, spark, chosen.batch), chosen)
            report([*once, warm], "tiering")
        finally:
            spark.stop()
            connections.close()


def measure_command(running: Stand, count: int) -> Comparison:
    """The command over so many records."""
    topic = f"bids_{count}"
    running.create(topic, bids.BIDS_COLUMNS, partitions=bids.PARTITIONS)
    producer = running.producer_of(topic)
    producer.produce(count)
    producer.flush()
    commands = Commands(running, topic)
    commands.prepare()
    measured = compare(
        f"tier --once, {count:,} records, --engine auto against spark",
        commands.auto,
        commands.spark,
        goal=COMMAND_GOAL,
        repeats=COMMAND_REPEATS,
    )
    say(f"{count:,} records: {measured.ours.median_s:.1f} s")
    return measured


def measure(sides: Tierers, chosen: argparse.Namespace) -> Comparison:
    """The first batch, then pairs."""
    processes = _children()
    sides.prepare()
    first_s, first_cpu_s = timed(sides.one_batch, processes)
    verdict = verdict_of(first_s <= FIRST_GOAL_S)
    say(f"first batch: {first_s:.1f} s, {first_cpu_s:.1f} s of processor time: {verdict}")
    found = compare(
        f"{chosen.records:,} records",
        sides.ours,
        sides.theirs,
        goal=GOAL,
        processes=processes,
        repeats=chosen.repeats,
        prepare=sides.prepare,
        notes={
            "records": chosen.records,
            "batch": chosen.batch,
            "first_batch_s": first_s,
            "first_batch_cpu_s": first_cpu_s,
            "load": os.getloadavg(),
        },
    )
    rate = chosen.records / found.ours.median_s
    say(f"{rate:,.0f} records a second: {verdict_of(rate >= RATE_GOAL)}")
    return found


def _children() -> list[int]:
    """Spark's Java, a child of this process."""
    own = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(child) for child in own.read_text().split()]


if __name__ == "__main__":
    main()
