"""A group-by over cold and hot rows over HTTP, against DuckDB over one Parquet of all rows.

Also prints the gateway's greatest memory over the whole run.

    python benchmarks/group_by.py [--cold 5000000] [--hot 300000]
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import Any

import duckdb
from harness import Comparison, compare, report, write
from stand import Stand, say, stand

import seamline

QUERIES = {
    "group-by": "SELECT channel, count(*), sum(price) FROM bids GROUP BY channel ORDER BY channel",
    "filter and top-k": (
        "SELECT auction, count(*) AS n, max(price) FROM bids WHERE price > 50000 "
        "GROUP BY auction ORDER BY n DESC, auction LIMIT 10"
    ),
    "count": "SELECT count(*) FROM bids",
}
GOAL = 1.5
MEMORY_GOAL_BYTES = 1536 << 20


def peak_bytes(running: Stand) -> int:
    """The greatest resident memory any of the gateway's processes has had."""
    found = 0
    for process in running.gateway_processes:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                found = max(found, int(line.split()[1]) * 1024)
    return found


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=300_000)
    chosen = options.parse_args()
    with stand() as running, tempfile.TemporaryDirectory() as scratch:
        running.fill(chosen.cold, chosen.hot)
        with seamline.connect(running.url) as connection:
            whole = pathlib.Path(scratch, "bids.parquet")
            say("copying all rows into one Parquet")
            rows = connection.execute("SELECT * FROM bids").fetch_record_batch()
            engine = duckdb.connect()
            engine.execute("SET threads = 2")
            engine.register("rows", rows)
            engine.execute(f"COPY rows TO '{whole}' (FORMAT parquet)")
            engine.execute(f"CREATE VIEW bids AS SELECT * FROM read_parquet('{whole}')")
            comparisons = [
                measure(running, connection, engine, name, sql, chosen)
                for name, sql in QUERIES.items()
            ]
        memory = peak_bytes(running)
    report(comparisons, "group_by")
    verdict = "met" if memory <= MEMORY_GOAL_BYTES else "**missed**"
    line = (
        f"gateway's memory at most {memory / 2**30:.2f} GiB over {chosen.hot:,} hot and "
        f"{chosen.cold:,} cold rows (goal 1.5 GiB: {verdict})"
    )
    print(line)
    write("memory", {"peak_bytes": memory, "cold": chosen.cold, "hot": chosen.hot}, line)


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
        lambda: connection.execute(sql, engine="duckdb").fetchall(),
        lambda: engine.execute(sql).fetchall(),
        goal=GOAL,
        processes=running.gateway_processes,
        notes={"sql": sql, "cold": chosen.cold, "hot": chosen.hot},
    )


if __name__ == "__main__":
    main()
