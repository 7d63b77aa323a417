"""A group-by over cold and hot rows over HTTP, against DuckDB over one Parquet of all rows.

Also prints where the time of each query goes, and the gateway's greatest memory over the run.

    python benchmarks/group_by.py [--cold 5000000] [--hot 300000]
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow.parquet as pq
from harness import REPEATS, Comparison, compare, report, timed, verdict_of, write
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
            stages = [
                profile(running, connection, engine, name, pathlib.Path(scratch))
                for name in QUERIES
            ]
        memory = running.gateway.peak_bytes()
    report(comparisons, "group_by")
    head = (
        "| where the time goes | " + " | ".join(STAGES) + " |\n" + "|---" * (len(STAGES) + 1) + "|"
    )
    lines = "\n".join([head, *(line for line, _ in stages)])
    print(lines)
    write("group_by_profile", {"seconds": [body for _, body in stages]}, lines)
    verdict = verdict_of(memory <= MEMORY_GOAL_BYTES)
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
        processes=running.gateway.processes,
        notes={"sql": sql, "cold": chosen.cold, "hot": chosen.hot},
    )


STAGES = (
    "a statement without a table",
    "its plan (EXPLAIN)",
    "DuckDB alone over the cold files as they are",
    "and over copies compressed as DuckDB does",
    "the whole statement",
)


def profile(
    running: Stand,
    connection: seamline.Connection,
    engine: Any,
    name: str,
    scratch: pathlib.Path,
) -> tuple[str, dict[str, Any]]:
    """Medians of a statement's parts, each run by itself; the rest is handing over the tail."""
    sql = QUERIES[name]
    files = sorted(map(str, running.directory.glob("warehouse/**/bids/data/**/*.parquet")))
    copies = [_as_snappy(pathlib.Path(file), scratch) for file in files]
    alone, copied = (
        sql.replace("FROM bids", f"FROM read_parquet({list(paths)})") for paths in (files, copies)
    )
    sides: tuple[Callable[[], Any], ...] = (
        lambda: connection.execute("SELECT 1").fetchall(),
        lambda: connection.execute(f"EXPLAIN {sql}").fetchall(),
        lambda: engine.execute(alone).fetchall(),
        lambda: engine.execute(copied).fetchall(),
        lambda: connection.execute(sql, engine="duckdb").fetchall(),
    )
    times = [statistics.median(timed(side)[0] for _ in range(REPEATS)) for side in sides]
    cells = " | ".join(f"{seconds * 1000:.1f} ms" for seconds in times)
    return f"| {name} | {cells} |", {"query": name, **dict(zip(STAGES, times, strict=True))}


def _as_snappy(file: pathlib.Path, scratch: pathlib.Path) -> str:
    copy = scratch / f"snappy-{file.name}"
    if not copy.exists():
        groups = pq.ParquetFile(file)
        pq.write_table(groups.read(), copy, row_group_size=groups.metadata.num_rows)
    return str(copy)


if __name__ == "__main__":
    main()
