"""Plain DuckDB over all rows in tables of its own: it knows nothing of Seamline."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from fuzz.answers import Answer, answer_of
from fuzz.queries import Query
from fuzz.schema import Table
from seamline.sql.types import arrow_field, quoted


class Oracle:
    """Answers what DuckDB means as Trino does.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._connection = duckdb.connect(config={"threads": "1"})
        self._connection.execute("SET TimeZone = 'UTC'")
        # which compares CAST(a AS tinyint) with a constant by comparing a with it
        self._connection.execute("SET disabled_optimizers = 'expression_rewriter'")
        self._lock = threading.Lock()
        for table in tables:
            rows = arrow_rows(table)
            self._connection.register("rows", rows)
            self._connection.execute(f"CREATE TABLE {quoted(table.name)} AS FROM rows")

    def answer(self, query: Query) -> Answer | None:
        """What it answers; None when it would not mean the same."""
        text = query.node.duckdb
        if text is None:
            return None
        try:
            with self._lock:
                found = self._connection.execute(text).to_arrow_table()
        except duckdb.Error as error:
            name = type(error).__name__
            if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
                return Answer(None, "NUMERIC_OVERFLOW", str(error))
            return Answer(None, f"oracle: {name}", f"{error}\n{text}")
        return answer_of(query, found)


def arrow_rows(table: Table) -> pa.Table:
    """A table's rows as Arrow."""
    schema = pa.schema([arrow_field(column) for column in table.columns])
    columns = [
        pa.array([row[place] for row in table.rows], field.type)
        for place, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
