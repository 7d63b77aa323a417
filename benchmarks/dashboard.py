"""A dashboard of twenty aggregates after each of several commits, with hot rows between.

Each commit tiers what is in the log, and more rows come. Then the dashboard is asked once with
partial aggregates and once without, over HTTP, and once of DuckDB over one Parquet of all rows, in
another order each time, after the answers have been found equal. So the first statement that meets
a new file is in each figure.

    python benchmarks/dashboard.py [--cold 5000000] [--hot 100000] [--commits 20]
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
from confluent_kafka import Producer
from harness import Comparison, Timing, report, timed
from queries import COLUMNS, PARTITIONS, ROWS, send
from stand import Stand, say, stand

import seamline

LARGE = 50_000_000
GOALS = {False: (1 / 5, 0.6), True: (1 / 30, 0.1)}
"""With them against without, and against DuckDB; at 5 and at 50 million rows."""

_TOTALS = "count(*), sum(amount)"
PANELS = (
    f"SELECT {_TOTALS} FROM sales",
    f"SELECT channel, {_TOTALS} FROM sales GROUP BY channel ORDER BY channel",
    f"SELECT channel, {_TOTALS} FROM sales GROUP BY channel ORDER BY sum(amount) DESC LIMIT 3",
    f"SELECT customer, {_TOTALS} FROM sales GROUP BY customer ORDER BY 3 DESC, 1 LIMIT 20",
    f"SELECT date_trunc('hour', sold_at), {_TOTALS} FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('day', sold_at), channel, count(*) FROM sales GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT channel, min(amount), max(amount) FROM sales GROUP BY channel ORDER BY channel",
    "SELECT min(sold_at), max(sold_at) FROM sales",
    "SELECT max(id), min(id) FROM sales",
    "SELECT count(*) FROM sales WHERE amount > 99000.00",
    "SELECT count(*), sum(customer) FROM sales WHERE channel = 'web'",
    "SELECT channel, count(*) FROM sales WHERE amount > 5000 GROUP BY channel ORDER BY channel",
    "SELECT customer % 10, count(*) FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT sum(CASE WHEN channel IN ('web', 'app') THEN amount ELSE 0 END) FROM sales",
    "SELECT count(*) FILTER (WHERE amount < 10), count(*) FROM sales",
    "SELECT amount > 50000, count(*) FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT channel, count(*) FROM sales GROUP BY 1 HAVING count(*) > 1000 ORDER BY 2, 1",
    "SELECT max(length(note)), count(note) FROM sales",
    "SELECT extract(hour FROM sold_at), sum(amount) FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT customer, max(sold_at) FROM sales WHERE customer < 1050 GROUP BY 1 ORDER BY 1",
)

Side = Callable[[], list[list[Any]]]


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=100_000)
    options.add_argument("--commits", type=int, default=20)
    chosen = options.parse_args()
    with stand() as running, tempfile.TemporaryDirectory() as scratch:
        running.create("sales", COLUMNS, "--key", "id", partitions=PARTITIONS)
        running.fill_table("sales", chosen.cold, ROWS)
        with seamline.connect(running.url) as connection:
            connection.execute("SET SESSION result_cache = 'off'")
            connection.execute("SET SESSION engine = 'duckdb'")
            report(measured(running, connection, chosen, pathlib.Path(scratch)), "dashboard")


def measured(
    running: Stand,
    connection: seamline.Connection,
    chosen: argparse.Namespace,
    scratch: pathlib.Path,
) -> list[Comparison]:
    """The dashboard after each commit."""
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 20})
    engine = duckdb.connect()
    engine.execute("SET threads = 2; SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    sides: dict[str, Side] = {
        "with": lambda: asked(connection, "exact"),
        "without": lambda: asked(connection, "off"),
        "duckdb": lambda: [list(map(tuple, engine.execute(sql).fetchall())) for sql in PANELS],
    }
    for _ in range(2):  # a dashboard that has been there for a while
        sides["with"]()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    end = chosen.cold
    for number in range(chosen.commits):
        for tiers in (True, False):
            send(producer, end, chosen.hot)
            end += chosen.hot
            if tiers:
                running.run("tier", "sales", "--once", "--engine", "local")
        whole = scratch / f"sales-{number}.parquet"
        rows = ROWS.format(start=0, end=end)
        rows = f"SELECT * REPLACE (CAST(amount AS DECIMAL(12, 2)) AS amount) FROM ({rows})"
        engine.execute(f"COPY ({rows}) TO '{whole}' (FORMAT parquet)")
        engine.execute(f"CREATE OR REPLACE VIEW sales AS FROM read_parquet('{whole}')")
        assert connection.execute("SELECT count(*) FROM sales").fetchall() == [(end,)]
        answers: dict[str, Any] = {}
        for name in _order(list(sides), number):
            answer = _kept(answers, name, sides[name])
            times[name].append(timed(answer, processes_of(name, running)))
        for sql, *found in zip(PANELS, *answers.values(), strict=True):
            assert found[0] == found[1] == found[2], (sql, found)
        say(f"commit {number + 1}: " + ", ".join(f"{n} {t[-1][0]:.2f} s" for n, t in times.items()))
        whole.unlink()
    return _compared(times, chosen)


def asked(connection: seamline.Connection, aggregates: str) -> list[list[Any]]:
    """The answers of all panels."""
    connection.execute(f"SET SESSION aggregates = '{aggregates}'")
    return [list(map(tuple, connection.execute(sql).fetchall())) for sql in PANELS]


def processes_of(side: str, running: Stand) -> Sequence[int]:
    """The processes that work for a side, besides this one."""
    return () if side == "duckdb" else running.gateway.processes


def _order(names: list[str], number: int) -> list[str]:
    return names[number % len(names) :] + names[: number % len(names)]


def _kept(answers: dict[str, Any], name: str, side: Side) -> Callable[[], None]:
    def run() -> None:
        answers[name] = side()

    return run


def _compared(
    times: dict[str, list[tuple[float, float]]], chosen: argparse.Namespace
) -> list[Comparison]:
    timings = {
        name: Timing([wall for wall, _ in pairs], [cpu for _, cpu in pairs])
        for name, pairs in times.items()
    }
    size = f"{chosen.cold:,} rows, {chosen.commits} commits of {2 * chosen.hot:,}"
    notes = {"panels": PANELS, "cold": chosen.cold, "hot": chosen.hot}
    goals = GOALS[chosen.cold >= LARGE]
    for name, timing in timings.items():
        cpu = statistics.median(timing.cpu_s)
        say(f"{name}: {timing.median_s / len(PANELS) * 1000:.1f} ms a panel, {cpu:.2f} s of CPU")
    return [
        Comparison(f"{what}, {size}", timings["with"], timings[other], goal, notes)
        for what, other, goal in (
            ("partial aggregates against all rows", "without", goals[0]),
            ("partial aggregates against DuckDB over one Parquet", "duckdb", goals[1]),
        )
    ]


if __name__ == "__main__":
    main()
