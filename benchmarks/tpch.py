"""TPC-H with a part of every table hot, over HTTP, against DuckDB over one Parquet for each table.

Rows and queries are those of DuckDB's extension, so the queries are in DuckDB's dialect. The last
rows of each table are JSON records in its topic; all others are in the table's files.

    python benchmarks/tpch.py [--scale 1] [--hot 5] [--repeats 5]
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import importlib.util
import math
import pathlib
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import duckdb
from confluent_kafka import Producer
from harness import Comparison, compare, report, verdict_of
from stand import Stand, append, as_computed, say, stand

import seamline

GOAL = 1.5
"""For the geometric mean of the ratios of all queries."""
PARTITIONS = 2
_RELATIVE, _ABSOLUTE = 1e-6, 0.0051
"""Averages are decimals with as many digits as the column here, and doubles in DuckDB."""


class Answer:
    """The rows of a query; equal to others that are the same, up to how averages are rounded."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = sorted((tuple(map(_plain, row)) for row in rows), key=_order)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer) or len(self.rows) != len(other.rows):
            return False
        pairs = (zip(a, b, strict=True) for a, b in zip(self.rows, other.rows, strict=True))
        return all(_is_same(one, two) for row in pairs for one, two in row)

    def __hash__(self) -> int:
        return hash(len(self.rows))

    def __repr__(self) -> str:
        return f"{len(self.rows)} rows, the first of them {self.rows[:1]}"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal | int) else value


def _order(row: Sequence[Any]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row]


def _is_same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(one == two)


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--hot", type=float, default=5.0, help="percent of each table")
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    with stand() as running, tempfile.TemporaryDirectory() as scratch:
        engine = generated(pathlib.Path(scratch), chosen.scale)
        views = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        for (table,) in engine.execute(views).fetchall():
            fill(running, engine, pathlib.Path(scratch), table, chosen.hot / 100)
        with seamline.connect(running.url) as connection:
            as_computed(connection)
            report(measured(running, connection, engine, chosen), "tpch")


def generated(folder: pathlib.Path, scale: float) -> duckdb.DuckDBPyConnection:
    """Returns DuckDB over one Parquet for each table."""
    say(f"generating TPC-H at scale {scale:g}")
    spec = importlib.util.find_spec("duckdb_extension_tpch")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (extension,) = pathlib.Path(next(iter(spec.submodule_search_locations))).rglob(
        "tpch.duckdb_extension"
    )
    engine = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
    engine.execute(f"LOAD '{extension}'; CALL dbgen(sf = {scale})")
    engine.execute("SET parquet_metadata_cache = true")
    for (table,) in engine.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        engine.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
        engine.execute(f"DROP TABLE {table}")
        engine.execute(f"CREATE VIEW {table} AS FROM read_parquet('{folder}/{table}.parquet')")
    return engine


def fill(
    running: Stand, engine: duckdb.DuckDBPyConnection, folder: pathlib.Path, table: str, hot: float
) -> None:
    """Makes a table, with that part of its rows as records."""
    (count,) = engine.execute(f"SELECT count(*) FROM {table}").fetchall()[0]
    described = engine.execute(f"DESCRIBE {table}").fetchall()
    columns = ", ".join(f"{name} {type_.lower()}" for name, type_, *_ in described)
    running.create(table, columns, partitions=PARTITIONS)
    cold = round(count * (1 - hot))
    rows = f"SELECT * FROM '{folder}/{table}.parquet'"
    running.fill_table(table, cold, rows + " LIMIT {end} - {start} OFFSET {start}")
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 20})
    # decimals as text: a number of JSON may be read as a double by others
    texts = ", ".join(
        f"CAST({name} AS varchar) AS {name}" if type_.startswith("DECIMAL") else name
        for name, type_, *_ in described
    )
    values = f"SELECT to_json(r) FROM (SELECT {texts} FROM ({rows} OFFSET {cold})) AS r"
    append(producer, table, ((None, value) for (value,) in engine.execute(values).fetchall()))
    say(f"{table}: {cold:,} cold and {count - cold:,} hot rows")


def measured(
    running: Stand,
    connection: seamline.Connection,
    engine: duckdb.DuckDBPyConnection,
    chosen: argparse.Namespace,
) -> list[Comparison]:
    """Every query on both sides."""
    comparisons = []
    queries = engine.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    for number, text in queries:
        say(f"measuring Q{number}")
        comparisons.append(
            compare(
                f"Q{number}, scale {chosen.scale:g}, {chosen.hot:g} % hot",
                lambda sql=text: Answer(  # type: ignore[misc]
                    connection.execute(sql, engine="duckdb", dialect="duckdb").fetchall()
                ),
                lambda sql=text: Answer(engine.execute(sql).fetchall()),  # type: ignore[misc]
                goal=GOAL,
                processes=running.gateway.processes,
                repeats=chosen.repeats,
            )
        )
    mean = statistics.geometric_mean(comparison.ratio for comparison in comparisons)
    print(f"geometric mean of the ratios {mean:.2f}, goal {GOAL}: {verdict_of(mean <= GOAL)}")
    return comparisons


if __name__ == "__main__":
    main()
