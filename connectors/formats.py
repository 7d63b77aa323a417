"""What all table formats other than Iceberg share: read-only tables that only DuckDB reads."""

from __future__ import annotations

from seamline.errors import NOT_SUPPORTED, SeamlineError


def read_only(what: str) -> SeamlineError:
    """Returns the error for a request that only Iceberg tables, or Spark, can serve."""
    return SeamlineError(
        NOT_SUPPORTED,
        f"{what}: Delta tables are read-only, and only DuckDB reads them",
        hint="Query it with the engine 'auto' or 'duckdb'; only its own writer changes it.",
    )
