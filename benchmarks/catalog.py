"""Live tables for other engines: what the catalog costs Spark, a load, and a planned scan.

spark   a group-by in Spark over the live table, against a plain table of the same rows
load    loadTable over HTTP with a tail of 100,000 rows: its files already there, one more record,
        and all of them new
planned bytes of the tail that a selective filter makes the gateway write, against files mode

python benchmarks/catalog.py [--cold 5000000] [--hot 300000] [--only spark,load,planned]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from harness import REPEATS, compare, report, verdict_of, write
from stand import Stand, say, stand

import seamline
from seamline.connectors.spark.submission import start_in_process
from seamline.gateway.app.spark import settings
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.dev.demo import bids
from seamline.spark import configuration

SQL = "SELECT channel, count(*), sum(price) FROM {table} GROUP BY channel ORDER BY channel"
SELECTIVE = "SELECT auction, price FROM {table} WHERE price = 100 ORDER BY auction, price"
PLAIN = "plain"
SPARK_GOAL = 1.1
LOAD_ROWS = 100_000
LOAD_GOALS_S = {"its files are there": 0.05, "one more record": 0.05, "all of it new": 0.3}
BYTES_GOAL = 0.05
_FILES, _PLANNED = "live", "planned"


def main() -> None:
    """Runs them."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=300_000)
    options.add_argument("--repeats", type=int, default=REPEATS)
    options.add_argument("--only", default="load,spark,planned")
    chosen = options.parse_args()
    wanted = set(chosen.only.split(","))
    if "load" in wanted:
        # each load gets a seam of its own; by default one is reused for five seconds
        with stand({"SEAMLINE_ICEBERG__HOLD_SECONDS": "0"}) as running:
            loads(running, chosen.repeats)
    if wanted & {"spark", "planned"}:
        with stand() as running:
            running.fill(chosen.cold, chosen.hot)
            with _spark(running) as spark:
                if "planned" in wanted:
                    planned(running, spark)
                if "spark" in wanted:
                    over_spark(running, spark, chosen)


@contextlib.contextmanager
def _spark(running: Stand) -> Iterator[Any]:
    """A Spark with the stand's own catalog, and the printed configuration of the live ones."""
    made = settings(load(running.directory / FILE_NAME, environment={}).config)
    live = {
        **configuration(running.url, name=_FILES, planned=False),
        **configuration(running.url, name=_PLANNED, planned=True),
    }
    session = start_in_process(dataclasses.replace(made, conf={**made.conf, **live}))
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


# --- Spark ---------------------------------------------------------------------------------------


def over_spark(running: Stand, spark: Any, chosen: argparse.Namespace) -> None:
    """The live table against a plain one of the same rows."""
    say("filling a plain table with the same rows, the cold ones in the same files")
    live, plain = f"{_FILES}.default.bids", f"lake.default.{PLAIN}"
    spark.sql(f"CREATE TABLE {plain} USING iceberg AS SELECT * FROM {live} LIMIT 0")
    running.fill_table(PLAIN, chosen.cold)
    spark.sql(f"INSERT INTO {plain} SELECT * FROM {live} WHERE _kafka_offset IS NOT NULL")
    java = spark.sparkContext._jvm.ProcessHandle.current().pid()

    def side(table: str) -> Callable[[], Any]:
        return lambda: spark.sql(SQL.format(table=table)).collect()

    comparison = compare(
        f"Spark over the catalog, {chosen.cold:,} cold and {chosen.hot:,} hot rows",
        side(live),
        side(plain),
        goal=SPARK_GOAL,
        processes=[*running.gateway.processes, java],
        repeats=chosen.repeats,
        notes={"sql": SQL, "cold": chosen.cold, "hot": chosen.hot, "load": os.getloadavg()},
    )
    report([comparison], "catalog_spark")


# --- Loads ---------------------------------------------------------------------------------------


def loads(running: Stand, repeats: int) -> None:
    """How long loadTable takes."""
    times: dict[str, list[float]] = {name: [] for name in LOAD_GOALS_S}
    for number in range(repeats):
        name = f"load{number}"
        running.create(name, bids.BIDS_COLUMNS, partitions=bids.PARTITIONS)
        producer = running.producer_of(name)
        producer.produce(LOAD_ROWS)
        producer.flush()
        with seamline.connect(running.url) as connection:  # the tail is followed from here on
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchall() == [(LOAD_ROWS,)]
        times["all of it new"].append(_load(running, name, LOAD_ROWS))
        times["its files are there"].append(_load(running, name, LOAD_ROWS))
        producer.produce(1)
        producer.flush()
        times["one more record"].append(_load(running, name, LOAD_ROWS + 1))
    rows = [
        f"| loadTable, {LOAD_ROWS:,} tail rows | p50 | least | greatest | goal |",
        "|---|---|---|---|---|",
    ]
    for name, goal in LOAD_GOALS_S.items():
        p50 = statistics.median(times[name])
        verdict = verdict_of(p50 <= goal)
        rows.append(
            f"| {name} | {p50 * 1000:.1f} ms | {min(times[name]) * 1000:.1f} ms "
            f"| {max(times[name]) * 1000:.1f} ms | ≤ {goal * 1000:g} ms {verdict} |"
        )
    print("\n".join(rows))
    body = {"rows": LOAD_ROWS, "seconds": times, "goals_s": LOAD_GOALS_S, "load": os.getloadavg()}
    write("catalog_load", body, "\n".join(rows))


def _load(running: Stand, name: str, rows: int) -> float:
    """Seconds that a load takes, after checking what it returns."""
    url = f"{running.url}/iceberg/v1/lake/namespaces/default/tables/{name}?snapshots=refs"
    started = time.perf_counter()
    with urllib.request.urlopen(url) as response:
        body = json.load(response)
    found = time.perf_counter() - started
    metadata = body["metadata"]
    (current,) = (
        s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]
    )
    assert int(current["summary"]["total-records"]) == rows, current
    return found


# --- Planned scans -------------------------------------------------------------------------------


def planned(running: Stand, spark: Any) -> None:
    """Bytes of the tail that are written for a selective filter."""
    written: dict[str, int] = {}
    answers = []
    for name in (_PLANNED, _FILES):
        before = _bytes(running)
        answers.append(spark.sql(SELECTIVE.format(table=f"{name}.default.bids")).collect())
        written[name] = _bytes(running) - before
    assert answers[0] == answers[1]
    assert answers[0]
    ratio = written[_PLANNED] / written[_FILES]
    verdict = verdict_of(ratio <= BYTES_GOAL)
    line = (
        f"| bytes of the tail written for `price = 100` | {written[_PLANNED]:,} "
        f"| {written[_FILES]:,} | {ratio:.4f} | ≤ {BYTES_GOAL:g} {verdict} |"
    )
    head = "| what | planned | files | ratio | goal |\n|---|---|---|---|---|\n"
    print(head + line)
    write("catalog_planned", {"bytes": written, "sql": SELECTIVE, "ratio": ratio}, head + line)


def _bytes(running: Stand) -> int:
    """Bytes of the data files that the gateway has written for live tables."""
    files = pathlib.Path(running.directory).rglob("live/**/*.parquet")
    return sum(path.stat().st_size for path in files)


if __name__ == "__main__":
    main()
