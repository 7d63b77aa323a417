"""Many narrow rows to a DataFrame or an Arrow table: by our client, ADBC, DuckDB, Trino's client.

DuckDB reads the files of the table in this process; the others query a gateway, whose table it is.

    python benchmarks/arrow.py [--rows 5000000] [--repeats 9]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import pandas as pd
import pyarrow as pa
import trino
from harness import REPEATS, Comparison, compare, report
from stand import say, stand

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


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to the rows.

    Attributes:
        name: What it is called in the table of results.
        frame: Fetches a DataFrame.
        table: Fetches an Arrow table.
    """

    name: str
    frame: Callable[[], pd.DataFrame]
    table: Callable[[], pa.Table]


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--repeats", type=int, default=REPEATS, help="a third against Trino's")
    chosen = options.parse_args()
    flight = free_port()
    settings = {"SEAMLINE_FLIGHT__PORT": str(flight)}
    with stand(settings) as running, contextlib.ExitStack() as opened:
        running.fill(chosen.rows, 0)
        ours = opened.enter_context(seamline.connect(running.url))
        ways = [by_our_client(ours), opened.enter_context(by_adbc(flight))]
        in_process = by_duckdb(ours)
        by_trino = trino_client(running.url)

        def measured(
            name: str, ours: Callable[[], Any], theirs: Callable[[], Any], goal: float, repeats: int
        ) -> Comparison:
            say(f"measuring {name}")
            return compare(
                f"{name}, {chosen.rows:,} rows",
                lambda: Fetched(ours()),
                lambda: Fetched(theirs()),
                goal=goal,
                processes=running.gateway.processes,
                repeats=repeats,
                notes={"sql": SQL},
            )

        found = []
        for way in ways:
            name = f"DataFrame: {way.name} and {in_process.name}"
            found.append(measured(name, way.frame, in_process.frame, OF_DUCKDB, chosen.repeats))
        for way in ways:
            name = f"Arrow: {way.name} and {in_process.name}"
            found.append(measured(name, way.table, in_process.table, OF_DUCKDB, chosen.repeats))
        for way in ways:
            name, fewer = f"DataFrame: {way.name} and Trino's Python client", chosen.repeats // 3
            found.append(measured(name, way.frame, by_trino, OF_TRINO, max(1, fewer)))
    report(found, "arrow")


def by_our_client(connection: seamline.Connection) -> Way:
    """Our client, over HTTP."""
    return Way(
        "our client over HTTP",
        lambda: connection.execute(SQL).fetch_df(),
        lambda: connection.execute(SQL).fetch_arrow_table(),
    )


@contextlib.contextmanager
def by_adbc(port: int) -> Iterator[Way]:
    """ADBC's driver for Flight SQL."""
    with (
        adbc.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as connection,
        connection.cursor() as cursor,
    ):

        def executed() -> adbc.Cursor:
            cursor.execute(SQL)
            return cursor

        yield Way(
            "ADBC over Flight SQL",
            lambda: executed().fetch_df(),
            lambda: executed().fetch_arrow_table(),
        )


def by_duckdb(ours: seamline.Connection) -> Way:
    """DuckDB in this process, which reads the files of the same table."""
    paths = [path for (path,) in ours.execute('SELECT path FROM "bids$files"').fetchall()]
    engine = duckdb.connect()
    engine.execute("SET threads = 2")
    engine.read_parquet([path.removeprefix("file://") for path in paths]).create_view("bids")
    return Way(
        "DuckDB in process",
        lambda: engine.execute(SQL).df(),
        lambda: engine.execute(SQL).to_arrow_table(),
    )


def trino_client(url: str) -> Callable[[], pd.DataFrame]:
    """Fetches with Trino's Python client, from the same gateway."""
    address = urlsplit(url)
    connect: Any = trino.dbapi.connect
    connection = connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", schema="default"
    )

    def fetch() -> pd.DataFrame:
        rows = connection.cursor().execute(SQL).fetchall()
        return pd.DataFrame(rows, columns=list(COLUMNS))

    return fetch


if __name__ == "__main__":
    main()
