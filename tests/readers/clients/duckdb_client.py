"""DuckDB's own Iceberg extension, attached with nothing but the address."""

from __future__ import annotations

import importlib.util
import pathlib

import duckdb
import pyarrow as pa

from readers.clients.protocol import Settings, serve


class DuckDBTables:
    """DuckDB with the catalog attached."""

    def __init__(self, settings: Settings) -> None:
        self._connection = attached(settings.url)

    def count(self, catalog: str, table: str) -> int:
        found = self._connection.execute(f'SELECT count(*) FROM {catalog}.default."{table}"')
        return int(found.fetchall()[0][0])

    def rows(self, catalog: str, table: str) -> pa.Table:
        found = self._connection.execute(f'SELECT * FROM {catalog}.default."{table}"')
        return found.to_arrow_table()


def attached(url: str, path: str = "/iceberg") -> duckdb.DuckDBPyConnection:
    """A connection to the catalog at an address, as `live`; the path is the gateway's own."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{_extension(name)}'")
    connection.execute(
        f"ATTACH 'lake' AS live (TYPE iceberg, ENDPOINT '{url}{path}', AUTHORIZATION_TYPE 'none')"
    )
    return connection


def _extension(name: str) -> pathlib.Path:
    """The extension as its wheel carries it."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    return next(pathlib.Path(spec.origin).parent.rglob("*.duckdb_extension"))


if __name__ == "__main__":
    serve(DuckDBTables)
