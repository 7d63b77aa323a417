"""Statements over cold and hot rows over HTTP, against DuckDB over one Parquet of all rows.

Also prints where the time of each statement goes, the gateway's greatest memory over the run, and
what statements of many clients at once cost, against four of them.

    python benchmarks/queries.py [--cold 5000000] [--hot 300000] [--only alone,clients]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import duckdb
from confluent_kafka import Producer
from harness import REPEATS, Comparison, compare, report, timed, verdict_of, write
from stand import Stand, append, as_computed, say, stand

import seamline

COLUMNS = (
    "id bigint, customer bigint, channel varchar, amount decimal(12, 2),"
    " sold_at timestamp with time zone, note varchar"
)
PROPERTIES = {
    "write.parquet.bloom-filter-enabled.column.id": "true",
    "write.parquet.row-group-size-bytes": str(4 << 20),
}
"""As a table has them whose rows are looked up by `id`."""
PARTITIONS = 4
ROWS = """
SELECT i * 2654435761 % 4294967296 AS id, 1000 + i * 7919 % 5000 AS customer,
       ['web', 'shop', 'phone', 'app', 'partner', 'mail'][i * 31 // 7 % 6 + 1] AS channel,
       CAST(1 + i * 7919 % 9990000 AS DECIMAL(12, 2)) / 100 AS amount,
       make_timestamptz(1760000000000000 + i * 10000) AS sold_at, 'sale ' || i AS note
FROM range({start}, {end}) AS r(i)
"""
"""Sale `i`: its id is unique, and no order of the rows is an order of the ids."""

QUERIES = {
    "count": "SELECT count(*) FROM sales",
    "group-by, 6 groups": (
        "SELECT channel, count(*), sum(amount) FROM sales GROUP BY channel ORDER BY channel"
    ),
    "group-by, 5,000 groups": (
        "SELECT customer, count(*), sum(amount) FROM sales GROUP BY customer ORDER BY customer"
    ),
    "point": "SELECT * FROM sales WHERE id = {id}",
    "filter on a decimal": "SELECT count(*), sum(customer) FROM sales WHERE amount > 99000.00",
    "top-k": "SELECT id, amount FROM sales ORDER BY amount DESC, id LIMIT 10",
}
RATIO, BESIDES_S = 1.4, 0.006
"""A statement may take this multiple of DuckDB's time, and this many seconds besides."""
MEMORY_GOAL_BYTES = 1536 << 20

CLIENTS = (1, 4, 16, 64)
CLIENTS_QUERIES = ("count", "point", "group-by, 6 groups")
CLIENTS_STATEMENTS = 128
"""Statements of one measurement, of all clients together."""
CLIENTS_REPEATS = 5
BASE, THROUGHPUT_MIN, CPU_MAX = 4, 0.9, 1.2
"""What more clients are compared with: their throughput, and the CPU of a statement, to these."""


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=300_000)
    options.add_argument("--only", default="alone,clients")
    chosen = options.parse_args()
    parts = set(chosen.only.split(","))
    with stand() as running, tempfile.TemporaryDirectory() as scratch:
        running.create("sales", COLUMNS, "--key", "id", partitions=PARTITIONS)
        running.fill_table("sales", chosen.cold, ROWS, PROPERTIES)
        produce(running, chosen)
        with seamline.connect(running.url) as connection:
            as_computed(connection)
            if "alone" in parts:
                alone(running, connection, chosen, pathlib.Path(scratch))
            if "clients" in parts:
                at_once(running, chosen)


def produce(running: Stand, chosen: argparse.Namespace) -> None:
    """Produces the sales that follow the cold ones."""
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 20})
    send(producer, chosen.cold, chosen.hot)
    say(f"produced {chosen.hot:,} sales")


def send(producer: Producer, start: int, count: int) -> None:
    """Produces sales, from one on, and waits until they are acknowledged."""
    rows = ROWS.format(start=start, end=start + count)
    records = duckdb.sql(f"SELECT id::VARCHAR, to_json(r) FROM ({rows}) AS r").fetchall()
    append(producer, "sales", records)


def alone(
    running: Stand,
    connection: seamline.Connection,
    chosen: argparse.Namespace,
    scratch: pathlib.Path,
) -> None:
    """Each statement by itself, against DuckDB."""
    whole = scratch / "sales.parquet"
    say("copying all rows into one Parquet")
    rows = connection.execute("SELECT * FROM sales").fetch_record_batch()
    engine = duckdb.connect()
    engine.execute("SET threads = 2")
    engine.execute("SET parquet_metadata_cache = true")
    engine.register("rows", rows)
    engine.execute(f"COPY rows TO '{whole}' (FORMAT parquet)")
    engine.execute(f"CREATE VIEW sales AS SELECT * FROM read_parquet('{whole}')")
    queries = {name: sql.format(id=id_of(chosen.cold)) for name, sql in QUERIES.items()}
    comparisons = [
        measure(running, connection, engine, name, sql, chosen) for name, sql in queries.items()
    ]
    stages = [
        profile(running, connection, engine, name, sql, scratch) for name, sql in queries.items()
    ]
    memory = running.gateway.peak_bytes()
    report(comparisons, "queries")
    head = (
        "| where the time goes | " + " | ".join(STAGES) + " |\n" + "|---" * (len(STAGES) + 1) + "|"
    )
    lines = "\n".join([head, *(line for line, _ in stages)])
    print(lines)
    write("queries_profile", {"seconds": [body for _, body in stages]}, lines)
    verdict = verdict_of(memory <= MEMORY_GOAL_BYTES)
    line = (
        f"gateway's memory at most {memory / 2**30:.2f} GiB over {chosen.hot:,} hot and "
        f"{chosen.cold:,} cold rows (goal 1.5 GiB: {verdict})"
    )
    print(line)
    write("memory", {"peak_bytes": memory, "cold": chosen.cold, "hot": chosen.hot}, line)


def id_of(cold: int) -> int:
    """Returns the id of a sale in the middle of so many cold ones."""
    return cold // 2 * 2654435761 % 4294967296


def measure(
    running: Stand,
    connection: seamline.Connection,
    engine: Any,
    name: str,
    sql: str,
    chosen: argparse.Namespace,
) -> Comparison:
    """One query on both sides."""
    say(f"measuring {name}")
    return compare(
        f"{name}, {chosen.cold:,} cold and {chosen.hot:,} hot rows, over HTTP",
        lambda: without_spark(connection, sql),
        lambda: engine.execute(sql).fetchall(),
        goal=RATIO,
        besides_s=BESIDES_S,
        processes=running.gateway.processes,
        notes={"sql": sql, "cold": chosen.cold, "hot": chosen.hot},
    )


def without_spark(connection: seamline.Connection, sql: str) -> list[Any]:
    """Runs a query as a client does, which here is too small for Spark."""
    cursor = connection.execute(sql)
    assert cursor.receipt["engine"] != "spark", cursor.receipt["engine_reason"]
    return list(cursor.fetchall())


STAGES = (
    "a statement without a table",
    "its plan (EXPLAIN)",
    "DuckDB alone over the cold files as they are",
    "and over copies as DuckDB writes them",
    "the whole statement",
)


def profile(
    running: Stand,
    connection: seamline.Connection,
    engine: Any,
    name: str,
    sql: str,
    scratch: pathlib.Path,
) -> tuple[str, dict[str, Any]]:
    """Medians of a statement's parts, each run by itself; the rest is handing over the tail."""
    files = sorted(map(str, running.directory.glob("warehouse/**/sales/data/**/*.parquet")))
    copies = [_copy(pathlib.Path(file), scratch) for file in files]
    alone, copied = (
        sql.replace("FROM sales", f"FROM read_parquet({list(paths)})") for paths in (files, copies)
    )
    sides: tuple[Callable[[], Any], ...] = (
        lambda: connection.execute("SELECT 1").fetchall(),
        lambda: connection.execute(f"EXPLAIN {sql}").fetchall(),
        lambda: engine.execute(alone).fetchall(),
        lambda: engine.execute(copied).fetchall(),
        lambda: without_spark(connection, sql),
    )
    times = [statistics.median(timed(side)[0] for _ in range(REPEATS)) for side in sides]
    cells = " | ".join(f"{seconds * 1000:.1f} ms" for seconds in times)
    return f"| {name} | {cells} |", {"query": name, **dict(zip(STAGES, times, strict=True))}


def _copy(file: pathlib.Path, scratch: pathlib.Path) -> str:
    copy = scratch / f"copy-{file.name}"
    if not copy.exists():
        duckdb.execute(f"COPY (FROM '{file}') TO '{copy}' (FORMAT parquet)")
    return str(copy)


def at_once(running: Stand, chosen: argparse.Namespace) -> None:
    """Statements of many clients at once: what each costs, and how many there are a second."""
    texts = {"SELECT 1": "SELECT 1"} | {
        name: QUERIES[name].format(id=id_of(chosen.cold)) for name in CLIENTS_QUERIES
    }
    lines = ["| clients | statement | statements a second | CPU each | throughput and CPU to 4 |"]
    lines.append("|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    for name, sql in texts.items():
        say(f"measuring clients of {name}")
        rates = {count: Rate(running, count, sql) for count in CLIENTS}
        for number in range(CLIENTS_REPEATS):
            for rate in list(rates.values())[:: 1 if number % 2 == 0 else -1]:
                rate.measure()
        for count, rate in rates.items():
            rate.close()
            throughput = rate.a_second / rates[BASE].a_second
            cpu = rate.cpu_s / rates[BASE].cpu_s
            is_met = count < BASE or (throughput >= THROUGHPUT_MIN and cpu <= CPU_MAX)
            lines.append(
                f"| {count} | {name} | {rate.a_second:,.0f} | {rate.cpu_s * 1000:.2f} ms "
                f"| {throughput:.2f}, {cpu:.2f} {verdict_of(is_met) if count > BASE else ''} |"
            )
            rows.append({"clients": count, "sql": sql, "times": rate.times, "met": is_met})
    print("\n".join(lines))
    write("clients", {"rows": rows}, "\n".join(lines))


class Rate:
    """What statements of some clients at once cost.

    Args:
        running: Where.
        clients: How many clients there are.
        sql: The statement that all of them run.

    Attributes:
        times: Seconds by the clock, and the gateway's of processor time, of each measurement.
    """

    def __init__(self, running: Stand, clients: int, sql: str) -> None:
        self._running = running
        self._sql = sql
        self._connections = [seamline.connect(running.url) for _ in range(clients)]
        for connection in self._connections:
            as_computed(connection)
        self._pool = concurrent.futures.ThreadPoolExecutor(clients)
        self.times: list[tuple[float, float]] = []

    def measure(self) -> None:
        """Runs the statements, each client one after another, and takes the time."""
        each = CLIENTS_STATEMENTS // len(self._connections)

        def client(connection: seamline.Connection) -> None:
            for _ in range(each):
                connection.execute(self._sql).fetchall()

        self.times.append(
            timed(lambda: list(self._pool.map(client, self._connections)), self._processes)
        )

    @property
    def _processes(self) -> list[int]:
        return self._running.gateway.processes

    @property
    def a_second(self) -> float:
        """The median of the statements a second."""
        return CLIENTS_STATEMENTS / statistics.median(wall for wall, _ in self.times)

    @property
    def cpu_s(self) -> float:
        """The median of the seconds of processor time of a statement."""
        return statistics.median(cpu for _, cpu in self.times) / CLIENTS_STATEMENTS

    def close(self) -> None:
        """Closes the clients."""
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()


if __name__ == "__main__":
    main()
