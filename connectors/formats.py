"""What every table format besides Iceberg shares: its tables are only read, and only by DuckDB."""

from __future__ import annotations

from seamline.errors import NOT_SUPPORTED, SeamlineError


def read_only(what: str) -> SeamlineError:
    """The error of asking for what only Iceberg's tables, or Spark, can give."""
    return SeamlineError(
        NOT_SUPPORTED,
        f"{what}: Delta tables are only read, and only by DuckDB",
        hint="Query it with the engine 'auto' or 'duckdb'; its own writer changes it.",
    )
