"""Many narrow rows to an Arrow table: by our client, by ADBC, in DuckDB itself, by Trino's client.

DuckDB reads one Parquet of the same rows in this process; the others query a gateway, whose table
has them. Trino's client makes a DataFrame of its rows.

    python benchmarks/arrow.py [--rows 5000000] [--repeats 9]
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import pandas as pd
import pyarrow as pa
import trino
from harness import REPEATS, Comparison, compare, report
from stand import Server, say, stand

import seamline
from seamline.gateway.dev.local.ports import free_port

COLUMNS = ("auction", "bidder", "price")
SQL = f"SELECT {', '.join(COLUMNS)} FROM bids"
OF_DUCKDB = 2.0
OF_TRINO = 0.2


class Fetched:
    """Rows that were fetched; equal when they are the same in any order.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: pa.Table | pd.DataFrame) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fetched) and bool(self._sorted().equals(other._sorted()))

    def __hash__(self) -> int:
        return hash(len(self.rows))

    def __repr__(self) -> str:
        return f"{len(self.rows):,} rows"

    def _sorted(self) -> pa.Table:
        rows = self.rows
        if isinstance(rows, pd.DataFrame):
            rows = pa.Table.from_pandas(rows, preserve_index=False)
        plain = rows.cast(pa.schema([(name, pa.int64()) for name in COLUMNS]))
        return plain.sort_by([(name, "ascending") for name in COLUMNS]).combine_chunks()


Fetch = Callable[[], Fetched]


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--repeats", type=int, default=REPEATS, help="a third against Trino's")
    chosen = options.parse_args()
    count, repeats = chosen.rows, chosen.repeats
    flight = free_port()
    settings = {"SEAMLINE_FLIGHT__PORT": str(flight)}
    with stand(settings) as running, contextlib.ExitStack() as opened:
        running.fill(count, 0)
        ours = opened.enter_context(seamline.connect(running.url))
        fetches: dict[str, Fetch] = {
            "our client over HTTP": lambda: Fetched(ours.execute(SQL).fetch_arrow_table()),
            "ADBC over Flight SQL": opened.enter_context(by_adbc(flight)),
        }
        in_process = by_duckdb(ours)
        by_trino = trino_client(running.url)
        found = []
        for name, fetch in fetches.items():
            against = f"{name} and DuckDB in process, {count:,} rows"
            found.append(measured(against, fetch, in_process, OF_DUCKDB, running.gateway, repeats))
        for name, fetch in fetches.items():
            against = f"{name} and Trino's Python client, {count:,} rows"
            fewer = max(1, repeats // 3)
            found.append(measured(against, fetch, by_trino, OF_TRINO, running.gateway, fewer))
    report(found, "arrow")


def measured(
    name: str, ours: Fetch, theirs: Fetch, goal: float, gateway: Server, repeats: int
) -> Comparison:
    """Two ways to the same rows."""
    say(f"measuring {name}")
    processes = gateway.processes
    notes = {"sql": SQL}
    return compare(name, ours, theirs, goal=goal, processes=processes, repeats=repeats, notes=notes)


@contextlib.contextmanager
def by_adbc(port: int) -> Any:
    """Fetches with ADBC's driver for Flight SQL."""
    with adbc.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as connection:

        def fetch() -> Fetched:
            with connection.cursor() as cursor:
                cursor.execute(SQL)
                return Fetched(cursor.fetch_arrow_table())

        yield fetch


def by_duckdb(ours: seamline.Connection) -> Fetch:
    """Fetches from DuckDB in this process, which reads the files of the same table."""
    paths = [path for (path,) in ours.execute('SELECT path FROM "bids$files"').fetchall()]
    engine = duckdb.connect()
    engine.execute("SET threads = 2")
    engine.read_parquet([path.removeprefix("file://") for path in paths]).create_view("bids")
    return lambda: Fetched(engine.execute(SQL).to_arrow_table())


def trino_client(url: str) -> Fetch:
    """Fetches with Trino's Python client, from the same gateway."""
    address = urlsplit(url)
    connect: Any = trino.dbapi.connect
    connection = connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", schema="default"
    )

    def fetch() -> Fetched:
        rows = connection.cursor().execute(SQL).fetchall()
        return Fetched(pd.DataFrame(rows, columns=list(COLUMNS)))

    return fetch


if __name__ == "__main__":
    main()
