"""Texts and names as they are written in SQL."""

from __future__ import annotations


def quoted_text(value: str) -> str:
    """Returns a text as a literal of standard SQL, which DuckDB's is."""
    return "'" + value.replace("'", "''") + "'"


def spark_text(value: str) -> str:
    """Returns a text as a literal of Spark's SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_name(*parts: str) -> str:
    """Returns a name as Spark's SQL quotes it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
