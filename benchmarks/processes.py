"""Statements in processes of their own, against the same engine in this process.

alone     a statement over a tail in shared memory: what handing it over costs
together  statements that compute in Python, as many at once as there are cores

python benchmarks/processes.py [--rows 300000] [--repeats 9]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from harness import REPEATS, compare, report

from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engines import Engine, EngineQuery, EngineScan
from seamline.connectors.shared_memory import shared_memory
from seamline.sql import types
from seamline.sql.binder.qualify import Relation, qualify
from seamline.sql.parsing import parse
from seamline.sql.types import Field

FIELDS = (Field("id", types.BIGINT, 1), Field("channel", types.VARCHAR, 2))
SQL = {
    "a row": "SELECT id, channel FROM bids WHERE id = 17",
    "a group-by": "SELECT channel, count(*), sum(id) FROM bids GROUP BY channel",
}
IN_PYTHON = (
    "SELECT count(json_extract_scalar('{\"a\": ' || CAST(id AS varchar) || '}', '$.a')) FROM bids"
)
SEGMENT_ROWS = 65_536


def query_of(sql: str, rows: pa.Table) -> EngineQuery:
    """A statement over rows in memory."""
    parsed = parse.parse(sql)
    assert isinstance(parsed, parse.Query)
    now = datetime.datetime.now(datetime.UTC)
    query = qualify(parsed.tree, [Relation(FIELDS)], now=now)
    (scan,) = query.scans
    return EngineQuery(
        tree=query.tree,
        schema=pa.schema([types.result_field(c.name, c.type) for c in query.output]),
        scans=(EngineScan(scan.scan_id, ("bids",), scan.columns, tail="0"),),
        tails={"0": rows.select([column.name for column in scan.columns])},
    )


def side(engine: Engine, query: EngineQuery, at_once: int = 1) -> Callable[[], Any]:
    """Runs the statement, several times at once, and returns its rows."""

    def one(_: int) -> list[str]:
        stream = engine.run(query, NoDeadline())
        try:
            rows = pa.Table.from_batches(stream.batches, stream.schema).to_pylist()
        finally:
            stream.close()
        return sorted(map(str, rows))

    def run() -> Any:
        if at_once == 1:
            return one(0)
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, range(at_once)))

    return run


def main() -> None:
    """Runs them."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=300_000)
    options.add_argument("--repeats", type=int, default=REPEATS)
    chosen = options.parse_args()
    numbers = range(chosen.rows)
    table = pa.table({"id": numbers, "channel": [f"channel {n % 100}" for n in numbers]})
    rows = pa.Table.from_batches(
        [shared_memory().place(b) for b in table.to_batches(max_chunksize=SEGMENT_ROWS)]
    )
    with tempfile.TemporaryDirectory(prefix="seamline-bench-") as folder:
        made: dict[str, Any] = {
            "memory_bytes": 1 << 29,
            "threads": 1,
            "spill_directory": str(pathlib.Path(folder) / "spill"),
            "spill_bytes": 1 << 29,
        }
        ours, theirs = DuckDBWorkers(**made), DuckDBEngine(**made)
        notes = {"rows": chosen.rows, "segments": len(rows.to_batches())}
        found = []
        for name, sql in SQL.items():
            query = query_of(sql, rows)
            mine, other = side(ours, query), side(theirs, query)
            one = compare(name, mine, other, goal=2.0, repeats=4 * chosen.repeats, notes=notes)
            added_ms = 1000 * (one.ours.median_s - one.theirs.median_s)
            one.notes["added ms"] = round(added_ms, 2)
            found.append(one)
        cores, query = len(os.sched_getaffinity(0)), query_of(IN_PYTHON, rows)
        notes = {**notes, "at once": cores}
        found.append(
            compare(
                "in Python, at once, against one after the other",
                side(ours, query, cores),
                lambda: [side(ours, query)() for _ in range(cores)],
                goal=1 / (0.7 * cores),
                repeats=chosen.repeats,
                notes=notes,
            )
        )
        report(found, "processes")
        ours.close()
        theirs.close()


if __name__ == "__main__":
    main()
