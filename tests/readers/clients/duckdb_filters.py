"""Counts rows of tables with DuckDB's own Iceberg extension, by conditions; from and to JSON."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys

import duckdb


def counted(metadata: str, conditions: list[str]) -> list[int | None]:
    """How many rows each condition keeps; None where the extension fails."""
    found: list[int | None] = []
    for condition in conditions:
        with duckdb.connect() as connection:  # an internal error invalidates a connection
            for name in ("avro", "httpfs", "iceberg"):
                spec = importlib.util.find_spec(f"duckdb_extension_{name}")
                assert spec is not None
                assert spec.origin is not None
                folder = pathlib.Path(spec.origin).parent
                connection.execute(f"LOAD '{next(folder.rglob('*.duckdb_extension'))}'")
            sql = f"SELECT count(*) FROM iceberg_scan('{metadata}') WHERE {condition}"
            try:
                (row,) = connection.execute(sql).fetchall()
            except duckdb.Error:
                found.append(None)
            else:
                found.append(int(row[0]))
    return found


if __name__ == "__main__":
    print(json.dumps([counted(*table) for table in json.load(sys.stdin)]))
