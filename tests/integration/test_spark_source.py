"""`format("seamline")` in a Spark of its own, against a gateway over HTTP.

Goal: a batch holds what SQL answers; a stream goes from cold into hot and holds every record once,
over restarts, tiering and trimming.
Method: a classic Spark session in a process of its own (a Connect one runs in this process) reads
and writes what it read as JSON; the test changes the table between its runs.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.spark.splits import Options, Table
from seamline.errors import SeamlineError

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, price decimal(10, 2), tag uuid, at timestamp(6) with time zone, item row(a integer, b array(varchar))"  # noqa: E501
TAG = "0f8fad5b-d9cb-469f-a165-70867728950e"

READER = """
import json, sys
from pyspark.sql import SparkSession
import seamline.spark

url, table, mode, where = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
seamline.spark.register(spark)
wanted = "id, price, tag, at, item, _kafka_partition, _kafka_offset"
options = {"url": url, "table": table}
if mode == "batch":
    rows = spark.read.format("seamline").options(**options).load()
else:
    stream = spark.readStream.format("seamline").options(**options).load()
    query = (
        stream.writeStream.format("parquet").option("path", where + "/rows")
        .option("checkpointLocation", where + "/checkpoint").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(where + "/rows")
for row in rows.selectExpr(*wanted.split(", ")).toJSON().collect():
    print("ROW " + row)
"""


def read(gateway: Gateway, name: str, mode: str, where: pathlib.Path) -> list[dict[str, Any]]:
    script = where / "reader.py"
    script.write_text(READER, encoding="utf-8")
    environment = {n: v for n, v in os.environ.items() if not n.startswith("SPARK_")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(script), gateway.url, name, mode, str(where)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    return sorted(rows, key=lambda row: row["id"])


def records(ids: range) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "price": f"{i}.25",
            "tag": TAG,
            "at": "2026-11-21T10:00:00.123456Z",
            "item": {"a": i, "b": ["x", None]},
        }
        for i in ids
    ]


def test_batch_and_stream(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, records(range(100)))
    stack.tier(name)
    stack.produce(name, records(range(100, 150)))

    found = read(gateway, name, "batch", tmp_path)
    places = gateway.rows(f"SELECT id, _kafka_partition, _kafka_offset FROM {name} ORDER BY id")
    assert [(r["id"], r["_kafka_partition"], r["_kafka_offset"]) for r in found] == places
    assert found[7]["price"] == 7.25
    for row in (found[7], found[107]):
        assert (row["tag"], row["at"]) == (TAG, "2026-11-21T10:00:00.123Z")
    assert found[7]["item"]["a"] == 7
    assert found[107]["item"]["a"] == 107

    assert [r["id"] for r in read(gateway, name, "stream", tmp_path)] == list(range(150))
    stack.produce(name, records(range(150, 200)))
    stack.tier(name)
    stack.produce(name, records(range(200, 210)))
    end = dict(gateway.rows(f'SELECT "partition", boundary FROM "{name}$seam"'))
    trimmed = [TopicPartition(name, p, offset) for p, offset in end.items()]
    for future in stack.admin.delete_records(trimmed).values():
        future.result(30)
    assert [r["id"] for r in read(gateway, name, "stream", tmp_path)] == list(range(210))


def test_what_cannot_be_read_says_why(gateway: Gateway, name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match="TABLE_NOT_FOUND"):
        read(gateway, name, "batch", tmp_path)


def test_a_topic_without_a_table_says_so(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    with pytest.raises(SeamlineError) as caught:
        Table.place(Options.of({"url": gateway.url, "table": f"default.default.{name}"}))
    assert caught.value.code.name == "NOT_A_UNIFIED_TABLE"
