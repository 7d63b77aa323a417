"""Runs statements in DuckDB with the catalog attached.

Usage: python -m readers.clients.duckdb_writer '{"url": …, "path": …, "statements": […]}'
"""

from __future__ import annotations

import json
import sys

import duckdb

from readers.clients.duckdb_client import attached

told = json.loads(sys.argv[1])
connection: duckdb.DuckDBPyConnection = attached(told["url"], told.get("path", "/iceberg"))
for statement in told["statements"]:
    connection.execute(statement)
