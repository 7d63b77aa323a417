"""Audits which records a snapshot's rows are: counts them, and finds missing and duplicate ones.

DuckDB counts over the snapshot's files, deletes applied. It reads only the two columns of the
records' positions and, for an upsert table, the key columns.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from seamline.connectors.duckdb.engine import open_scan
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.engines import EngineScan
from seamline.errors import NOT_SUPPORTED, OFFSETS_NOT_STORED, SeamlineError
from seamline.seam.encoding import Encoding
from seamline.seam.files import ScanRequest
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import Places
from seamline.seam.table import TableState
from seamline.sql.quoting import quoted_text
from seamline.sql.types import Field, Row, quoted


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows that a snapshot has of one partition.

    Attributes:
        partition: The partition.
        rows: How many rows.
        records: How many different offsets they have.
        first: The least offset.
        last: The greatest offset.
    """

    partition: int
    rows: int
    records: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True, slots=True)
class Doubles:
    """Neighbouring records of a partition that have more than one row each.

    Attributes:
        range: Their offsets.
        rows: The number of surplus rows.
    """

    range: OffsetRange
    rows: int


class SnapshotRecords:
    """The positions of the rows of one snapshot; use it within `snapshot_records`.

    Rows of earlier logs count only for `earlier` and `keys_again`.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def others(self) -> int:
        """Returns how many rows have no partition or no offset."""
        sql = "SELECT count(*) FROM rows WHERE p IS NULL OR o IS NULL"
        return int(self._one(sql)[0])

    def earlier(self) -> int:
        """Returns how many rows are of earlier logs."""
        sql = "SELECT count(*) FROM rows WHERE is_earlier AND p IS NOT NULL AND o IS NOT NULL"
        return int(self._one(sql)[0])

    def partitions(self) -> list[PartitionRows]:
        """Returns the rows of each partition."""
        sql = (
            "SELECT p, count(*), count(DISTINCT o), min(o), max(o) FROM positions"
            " WHERE p IS NOT NULL AND o IS NOT NULL GROUP BY p ORDER BY p"
        )
        return [PartitionRows(*map(int, row)) for row in self._connection.sql(sql).fetchall()]

    def holes(self, partition: int) -> list[OffsetRange]:
        """Returns the offsets between the first and the last one that have no row."""
        sql = (
            "SELECT before + 1, o FROM (SELECT o, lag(o) OVER (ORDER BY o) AS before"
            f" FROM (SELECT DISTINCT o FROM positions WHERE p = {partition} AND o IS NOT NULL))"
            " WHERE o > before + 1 ORDER BY o"
        )
        rows = self._connection.sql(sql).fetchall()
        return [OffsetRange(partition, int(start), int(end)) for start, end in rows]

    def doubles(self, partition: int) -> list[Doubles]:
        """Returns the offsets that have several rows."""
        sql = (
            "SELECT min(o), max(o) + 1, sum(extra) FROM (SELECT o, n - 1 AS extra,"
            " o - row_number() OVER (ORDER BY o) AS island FROM (SELECT o, count(*) AS n"
            f" FROM positions WHERE p = {partition} AND o IS NOT NULL GROUP BY o) WHERE n > 1)"
            " GROUP BY island ORDER BY 1"
        )
        rows = self._connection.sql(sql).fetchall()
        return [Doubles(OffsetRange(partition, int(a), int(b)), int(n)) for a, b, n in rows]

    def among(self, partition: int, offsets: np.ndarray) -> list[int]:
        """Returns which of some offsets have a row, ascending."""
        self._connection.register("asked", pa.table({"o": offsets}))
        sql = (
            f"SELECT DISTINCT o FROM positions WHERE p = {partition}"
            " AND o IN (SELECT o FROM asked) ORDER BY o"
        )
        rows = self._connection.sql(sql).fetchall()
        return [int(offset) for (offset,) in rows]

    def keys_again(self) -> list[tuple[int, int]]:
        """Returns, per partition, how many rows are surplus because another has their key.

        Partitions without such rows are left out.
        """
        sql = (
            "SELECT p, count(*) FROM (SELECT p, row_number() OVER (PARTITION BY key ORDER BY o)"
            " AS n FROM rows WHERE key IS NOT NULL AND p IS NOT NULL) WHERE n > 1"
            " GROUP BY p ORDER BY p"
        )
        return [(int(p), int(rows)) for p, rows in self._connection.sql(sql).fetchall()]

    def _one(self, sql: str) -> tuple[int, ...]:
        row = self._connection.sql(sql).fetchone()
        assert row is not None
        return tuple(map(int, row))


@contextlib.contextmanager
def snapshot_records(
    table: ColdTable,
    snapshot_id: int,
    encoding: Encoding,
    primary_key: Sequence[str] = (),
    *,
    first_batch: int = 0,
    memory_bytes: int,
) -> Iterator[SnapshotRecords]:
    """Yields the records of a snapshot, for queries about them.

    Args:
        table: The table.
        snapshot_id: The snapshot.
        encoding: Says which columns hold partition and offset.
        primary_key: The key columns of an upsert table.
        first_batch: Rows of batches before it, or of none, are of earlier logs.
        memory_bytes: How much memory DuckDB may use before it spills.

    Raises:
        SeamlineError: OFFSETS_NOT_STORED, NOT_SUPPORTED, COLD_FILE_MISSING, STORAGE_UNAVAILABLE, …
    """
    places = places_of(table.state, encoding)
    keys = [field for field in table.state.schema.columns if field.name in primary_key]
    needed = merged(narrowed(places.partition), narrowed(places.offset))
    batch = [places.batch] if first_batch and places.batch is not None else []
    scan = cold_scan(table, snapshot_id, tuple(dict.fromkeys((*needed, *keys, *batch))))
    p, o = expression(places.partition), expression(places.offset)
    with open_scan(scan) as (connection, relation):
        connection.execute(f"SET memory_limit = '{memory_bytes // (1 << 20)}MiB'")
        key = ", ".join(quoted(field.name.lower()) for field in keys)
        number = expression(batch) if batch else "NULL"
        connection.execute(
            f"CREATE TEMP VIEW rows AS SELECT {p} AS p, {o} AS o, "
            f"{f'row({key})' if key else 'NULL'} AS key, "
            f"coalesce({number}, 0) < {first_batch} AS is_earlier FROM ({relation})"
        )
        connection.execute("CREATE TEMP VIEW positions AS SELECT * FROM rows WHERE NOT is_earlier")
        yield SnapshotRecords(connection)


def cold_scan(table: ColdTable, snapshot_id: int, columns: Sequence[Field]) -> EngineScan:
    """Returns the scan of all of a snapshot's rows.

    Raises:
        SeamlineError: NOT_SUPPORTED for files that only Spark reads exactly.
    """
    state = table.state
    names = tuple(column.name for column in columns)
    plan = table.inspect(table.plan(snapshot_id, ScanRequest(state.current_schema_id, names)))
    if plan.unsupported is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"table {state.display_name} has {plan.unsupported}, which only Spark reads",
            hint="Compact the table first.",
        )
    return EngineScan(
        "scan",
        state.name,
        tuple(columns),
        snapshot_id,
        state.schema_of(snapshot_id).columns,
        cold=plan,
        deletes=table.deleted_rows(plan),
        file_access=table.file_access,
    )


def places_of(state: TableState, encoding: Encoding) -> Places:
    """Returns the columns that say which record a row is.

    Raises:
        SeamlineError: OFFSETS_NOT_STORED.
    """
    places = Places.of(encoding, state.schema.columns)
    if places is None:
        raise SeamlineError(
            OFFSETS_NOT_STORED,
            f"no column of {state.display_name} stores which records its rows are",
        )
    return places


def narrowed(path: Sequence[Field]) -> Field:
    """Returns the column at the start of a path, with only the field that the path leads to."""
    top, *rest = path
    return dataclasses.replace(top, type=Row((narrowed(rest),))) if rest else top


def merged(one: Field, other: Field) -> tuple[Field, ...]:
    """Returns two narrowed columns, or one with the fields of both if they are the same column."""
    if one.name != other.name:
        return one, other
    if not isinstance(one.type, Row) or not isinstance(other.type, Row):
        return (one,)
    inside = [field for inner in (one.type, other.type) for field in inner.fields]
    if len(inside) == 2:
        inside = list(merged(*inside))
    return (dataclasses.replace(one, type=Row(tuple(inside))),)


def expression(path: Sequence[Field]) -> str:
    """Returns a field inside a scan's column as an expression of DuckDB's SQL."""
    column = quoted(path[0].name.lower())
    for field in path[1:]:
        column = f"struct_extract({column}, {quoted_text(field.name)})"
    return column
