"""The two suites: their rows, their queries, and what DuckDB answers over all rows.

Rows and queries come from DuckDB's extensions `tpch` and `tpcds`; so the queries are in DuckDB's
dialect, and are sent as that.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

SUITES = ("tpch", "tpcds")
_GENERATOR = {"tpch": "dbgen", "tpcds": "dsdgen"}


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of a suite.

    Attributes:
        name: Its name.
        columns: Its columns as a table's definition spells them.
        rows: How many rows it has.
    """

    name: str
    columns: str
    rows: int


class Suite:
    """A suite at a scale factor.

    Args:
        name: One of `SUITES`.
        scale: The scale factor.
    """

    def __init__(self, name: str, scale: float) -> None:
        self.name = name
        self._connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self._connection.execute(f"LOAD '{_extension(name)}'")
        self._connection.execute(f"CALL {_GENERATOR[name]}(sf = {scale})")

    @property
    def tables(self) -> list[Table]:
        """Its tables."""
        found: dict[str, list[str]] = {}
        for table, column, type_ in self._connection.execute(
            "SELECT table_name, column_name, lower(data_type) FROM information_schema.columns"
            " ORDER BY table_name, ordinal_position"
        ).fetchall():
            found.setdefault(table, []).append(f"{column} {type_}")
        return [
            Table(name, ", ".join(columns), self._count(name)) for name, columns in found.items()
        ]

    @property
    def queries(self) -> dict[int, str]:
        """Its queries by number."""
        rows = self._connection.execute(f"SELECT query_nr, query FROM {self.name}_queries()")
        return {number: text.strip().rstrip(";") for number, text in rows.fetchall()}

    def records(self, table: Table) -> Iterator[dict[str, Any]]:
        """Its rows as JSON says them: dates and decimals as text."""
        reader = self._connection.sql(f"FROM {table.name}").to_arrow_reader(10_000)
        for batch in reader:
            for row in batch.to_pylist():
                yield {
                    k: v if isinstance(v, int) else str(v) for k, v in row.items() if v is not None
                }

    def answer(self, query: str) -> Sequence[tuple[Any, ...]]:
        """What DuckDB answers."""
        rows: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return rows

    def _count(self, table: str) -> int:
        found = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert found is not None
        return int(found[0])


def _extension(name: str) -> pathlib.Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    (found,) = pathlib.Path(spec.origin).parent.glob(f"extensions/v{duckdb.__version__}/*")
    return found
