"""An upsert table of many keys with many hot changes, against the append table of the same records.

Both have the same rows cold and the same records hot; the upsert table has to hide what was
replaced. Its answer is checked against DuckDB's over all of it first.

    python benchmarks/upsert.py [--cold 5000000] [--hot 300000]
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Producer
from harness import compare, report
from stand import Stand, as_computed, say, stand

import seamline
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import load

COLUMNS = "id bigint, channel varchar, price bigint"
PARTITIONS = 4
GOAL = 2.0
QUERIES = {
    "group-by": "SELECT channel, count(*), sum(price) FROM {} GROUP BY channel ORDER BY channel",
    "count": "SELECT count(*) FROM {}",
    "one key": "SELECT id, channel, price FROM {} WHERE id = 4242",
}
_COLD = """
SELECT i AS id, ['Apple', 'Google', 'Facebook', 'Baidu', 'other'][i % 5 + 1] AS channel,
       100 + i * 7919 % 99900 AS price FROM range({start}, {end}) AS r(i)
"""
_HOT = """
SELECT i * 2654435761 % {cold} AS id, 'channel-' || i % 7 AS channel, i AS price,
       i % 20 = 0 AS gone, i FROM range({hot}) AS r(i)
"""


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=300_000)
    chosen = options.parse_args()
    with stand() as running:
        key = ("--key", "id", "--key-partitioner", "murmur2")
        running.create("appended", COLUMNS, *key, partitions=PARTITIONS)
        upsert = ("--mode", "upsert", "--primary-key", "id")
        running.create("upserted", COLUMNS, *key, *upsert, partitions=PARTITIONS)
        fill(running, chosen.cold)
        produce(running, chosen)
        with seamline.connect(running.url) as connection:
            as_computed(connection)
            check(connection, chosen)
            comparisons = []
            for name, sql in QUERIES.items():
                say(f"measuring {name}")
                sides = [
                    lambda table=table, sql=sql: bool(
                        connection.execute(sql.format(table), engine="duckdb").fetchall()
                    )
                    for table in ("upserted", "appended")
                ]
                comparisons.append(
                    compare(
                        f"{name}, upsert table against append table, {chosen.cold:,} keys and "
                        f"{chosen.hot:,} hot changes",
                        *sides,
                        goal=GOAL,
                        processes=running.gateway.processes,
                        notes={"sql": sql, "cold": chosen.cold, "hot": chosen.hot},
                    )
                )
    report(comparisons, "upsert")


def fill(running: Stand, count: int) -> None:
    """Appends the same rows to both tables, in the same files."""
    config = load(running.directory / "seamline.yaml", environment={}).config
    connections = Connections(config)
    step = 250_000
    for name in ("appended", "upserted"):
        table = connections.catalog("lake").load(("default", name)).iceberg
        schema = table.schema().as_arrow()
        for start in range(0, count, step):
            rows = duckdb.sql(_COLD.format(start=start, end=min(start + step, count)))
            found = rows.to_arrow_table()
            for field in schema:
                if field.name not in found.column_names:
                    found = found.append_column(field, pa.nulls(len(found), field.type))
            table.append(found.select(schema.names).cast(schema))
        say(f"appended {count:,} rows to {name}")
    connections.close()


def produce(running: Stand, chosen: argparse.Namespace) -> None:
    """The same changes to both topics; to the append table's without the deletes."""
    producer = Producer(
        {"bootstrap.servers": running.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    rows = duckdb.sql(_HOT.format(cold=chosen.cold, hot=chosen.hot)).fetchall()
    for id_, channel, price, gone, _ in rows:
        value = json.dumps({"id": id_, "channel": channel, "price": price}).encode()
        for topic in ("appended", "upserted"):
            is_delete = gone and topic == "upserted"
            while True:
                try:
                    producer.produce(topic, None if is_delete else value, key=str(id_).encode())
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(120) == 0
    say(f"produced {len(rows):,} changes")


def check(connection: Any, chosen: argparse.Namespace) -> None:
    """The upsert table is what DuckDB computes from all rows and changes."""
    cold = _COLD.format(start=0, end=chosen.cold)
    hot = _HOT.format(cold=chosen.cold, hot=chosen.hot)
    duckdb.sql(
        f"CREATE TABLE truth AS WITH hot AS ({hot}), newest AS (SELECT * FROM hot QUALIFY "
        f"row_number() OVER (PARTITION BY id ORDER BY i DESC) = 1) SELECT * FROM ({cold}) AS cold "
        "WHERE id NOT IN (SELECT id FROM newest) UNION ALL "
        "SELECT id, channel, price FROM newest WHERE NOT gone"
    )
    for name, sql in QUERIES.items():
        found = connection.execute(sql.format("upserted"), engine="duckdb").fetchall()
        wanted = duckdb.sql(sql.format("truth")).fetchall()
        assert list(map(tuple, found)) == wanted, name
    say("the upsert table is exact")


if __name__ == "__main__":
    main()
