"""Plans a scan for an engine: the files it has to read, and only the needed part of the tail.

Cold files are pruned by the filter. The tail is filtered, projected and limited to the requested
number of rows before any of it is written; if all of its files exist already, these are used. An
engine may get too many rows, but never too few, and applies its filter to what it reads.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from seamline.connectors.iceberg import rest_expressions
from seamline.connectors.iceberg.errors import storage_errors
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.row_filters import matching
from seamline.connectors.iceberg.row_ids import with_first_row_id
from seamline.connectors.iceberg.tables.scan import FileTask
from seamline.connectors.newest import newest_rows, without_deletes
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import COLD_FILE_INVALID, INVALID_REQUEST, SeamlineError
from seamline.gateway.iceberg_rest import tail_store
from seamline.gateway.iceberg_rest.requests import SpecBody
from seamline.gateway.iceberg_rest.served_table import ServedTable, ServedTail
from seamline.gateway.iceberg_rest.table_serving import ServedTables
from seamline.sql import columns as names

_ROWS_BUFFERED_MAX = 500_000


class PlanRequest(SpecBody):
    """The body of a request for a plan; its filter stays JSON, which `rest_expressions` reads."""

    snapshot_id: int | None = Field(None, alias="snapshot-id")
    """The snapshot to read; by default, the seam with which the statement began is read."""
    select: list[str] | None = None
    """The columns to read; by default all."""
    filter: Any = None
    """The condition on rows."""
    case_sensitive: bool = Field(True, alias="case-sensitive")
    """Whether names are case-sensitive."""
    use_snapshot_schema: bool = Field(False, alias="use-snapshot-schema")
    """Whether names refer to the snapshot's schema instead of the current one."""
    stats_fields: list[str] | None = Field(None, alias="stats-fields")
    """Columns for which to return bounds."""
    min_rows_requested: int | None = Field(None, ge=0, le=2**63 - 1, alias="min-rows-requested")
    """The number of rows that suffices."""
    start_snapshot_id: int | None = Field(None, alias="start-snapshot-id")
    """Not supported."""
    end_snapshot_id: int | None = Field(None, alias="end-snapshot-id")
    """Not supported."""


@dataclasses.dataclass(frozen=True, slots=True)
class TableScan:
    """A request for a plan, and the table that it is for.

    Attributes:
        table: The pinned table.
        snapshot_id: The snapshot to read: the table's virtual snapshot, or one of its own; None if
            the table has no snapshot.
        schema: The schema to which the request's names refer.
        asked: The engine's request.
    """

    table: ServedTable
    snapshot_id: int | None
    schema: Schema
    asked: PlanRequest

    @property
    def expression(self) -> BooleanExpression:
        """The filter as an expression.

        Raises:
            SeamlineError: INVALID_REQUEST, NOT_SUPPORTED.
        """
        asked = self.asked
        if asked.filter is None:
            return AlwaysTrue()
        return rest_expressions.parse(
            asked.filter, self.schema, case_sensitive=asked.case_sensitive
        )

    @property
    def reads_tail(self) -> bool:
        """Whether the tail is part of the snapshot."""
        return self.table.tail is not None and self.table.tail.snapshot_id == self.snapshot_id


@dataclasses.dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files of a scan.

    Attributes:
        request: The request.
        tasks: The files, each with the deletes that apply to it.
    """

    request: TableScan
    tasks: tuple[FileTask, ...]


def plan_scan(tables: ServedTables, request: TableScan, deadline: Deadline) -> ScanPlan:
    """Plans a scan.

    Raises:
        SeamlineError: with a code that names the cause.
    """
    expression = request.expression
    table, asked = request.table, request.asked
    metadata = table.cold.iceberg.metadata.model_copy(
        update={"current_schema_id": request.schema.schema_id}
    )
    try:
        pruner = Pruner(metadata, expression, case_sensitive=asked.case_sensitive, is_binding=True)
    except (ValueError, TypeError) as error:
        raise SeamlineError(
            INVALID_REQUEST, f"the filter does not match the schema: {error}"
        ) from error
    cold = request.snapshot_id
    if request.reads_tail and table.tail:
        cold = table.tail.seam.cold.snapshot_id
    hidden = tables.hidden(table, deadline) if request.reads_tail else ()
    tasks = table.cold.tasks(cold, pruner, hidden) if cold is not None else []
    for task in tasks:
        _require_decided(task.file, pruner)
    rows_wanted = None if asked.filter is not None else asked.min_rows_requested
    tasks, left = _enough(tasks, rows_wanted)
    if request.reads_tail and left != 0:
        tasks += _TailPlan(tables, request, expression, pruner, left).tasks(deadline)
    return ScanPlan(request, tuple(tasks))


def _require_decided(file: DataFile, pruner: Pruner) -> None:
    """Requires a file of which a reader that relies on its partition value gets the right rows."""
    column = pruner.undecided(file)
    if column is not None:
        raise SeamlineError(
            COLD_FILE_INVALID,
            f"the partition value of {file.file_path} is not that of its {column}, and readers do "
            "not filter its rows by a condition that selects whole partitions",
            hint="Read the table with SQL, or rewrite the file with a writer that computes "
            "partition values as Iceberg specifies.",
        )


def _enough(tasks: list[FileTask], rows_wanted: int | None) -> tuple[list[FileTask], int | None]:
    """Returns files that hold the wanted number of rows, and how many rows are still missing."""
    if rows_wanted is None:
        return tasks, None
    taken = []
    for task in sorted(tasks, key=lambda task: len(task.deletes)):
        if rows_wanted <= 0:
            break
        taken.append(task)
        if not task.deletes:
            rows_wanted -= task.file.record_count
    return taken, max(0, rows_wanted)


class _TailPlan:
    """The tail's part of a plan."""

    def __init__(
        self,
        tables: ServedTables,
        request: TableScan,
        expression: BooleanExpression,
        pruner: Pruner,
        rows_wanted: int | None,
    ) -> None:
        assert request.table.tail is not None
        self._tables = tables
        self._table = request.table
        self._tail: ServedTail = request.table.tail
        self._layout = self._table.layout()
        self._pruner = pruner
        self._rows_wanted = rows_wanted
        # names from a schema other than the tail's do not apply to it, so all of it is read
        speaks_of_tail = request.schema.schema_id == self._tail.seam.schema_id
        self._expression = expression if speaks_of_tail else AlwaysTrue()
        self._select = request.asked.select if speaks_of_tail else None
        self._case_sensitive = request.asked.case_sensitive

    def tasks(self, deadline: Deadline) -> list[FileTask]:
        """Returns the files of the tail."""
        existing = self._tables.segments(self._table)
        with storage_errors(f"table {self._table.name.display}"):
            if existing is None:
                return [FileTask(file) for file in self._numbered(self._written(deadline))]
            files = self._numbered(f for segment in existing for f in self._files_of(segment))
            return [FileTask(file) for file in files if self._pruner.keeps_file(file)]

    def _numbered(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        """Yields the files, in version 3 with the row ids that a commit would have assigned."""
        row_id = self._table.base.get("next-row-id") or 0
        for file in files:
            if self._table.version >= 3:
                file = with_first_row_id(file, row_id)
                row_id += file.record_count
            yield file

    def _files_of(self, segment: tail_store.TailSegment) -> Iterator[DataFile]:
        io = self._tables.storage.io_of(self._table)
        for manifest in segment.manifests:
            for entry in live_entries(io, manifest):
                yield entry.data_file

    def _written(self, deadline: Deadline) -> tuple[DataFile, ...]:
        key = self._key()
        written = self._tables.plan_files.find(key)
        if written is not None:
            return written
        # unpartitioned and unsorted: such files are read once
        layout = dataclasses.replace(
            self._layout, spec=self._layout.unpartitioned, order=SortOrder()
        )
        io, folder = (
            self._tables.storage.io_of(self._table),
            self._tables.storage.folder_of(self._table),
        )
        return self._tables.plan_files.write(key, self._rows(deadline), layout, io, folder)

    def _rows(self, deadline: Deadline) -> Iterator[pa.Table]:
        """Yields the rows to write, in tables of bounded size unless only the newest rows count."""
        newest = self._table.newest()
        if newest is None:
            yield from self._parts(deadline)
            return
        kept, ranges = self._columns(), self._tail.seam.hot_ranges
        told_by = (*newest.key_names, newest.partition.name, newest.offset.name, names.DELETED)
        names_ = list(dict.fromkeys((*kept, *told_by)))
        rows = newest_rows(self._tables.rows(self._table, ranges, names_, deadline), newest)
        yield self._matching(without_deletes(rows)).select(kept).slice(0, self._rows_wanted)

    def _parts(self, deadline: Deadline) -> Iterator[pa.Table]:
        kept = self._columns()
        buffered: list[pa.Table] = []
        count = 0
        for part in tail_store.parts(self._tail.seam.hot_ranges):
            rows = self._matching(self._tables.rows(self._table, part, kept, deadline))
            if self._rows_wanted is not None:
                rows = rows.slice(0, max(0, self._rows_wanted - count))
            count += rows.num_rows
            buffered.append(rows)
            if sum(table.num_rows for table in buffered) >= _ROWS_BUFFERED_MAX:
                yield pa.concat_tables(buffered)
                buffered = []
            if self._rows_wanted is not None and count >= self._rows_wanted:
                break
        if buffered:
            yield pa.concat_tables(buffered)

    def _matching(self, rows: pa.Table) -> pa.Table:
        if isinstance(self._expression, AlwaysTrue):
            return rows
        schema = self._layout.schema
        bound = rest_expressions.bound(
            self._expression, schema, case_sensitive=self._case_sensitive
        )
        return matching(rows, bound, schema)

    def _columns(self) -> list[str]:
        """Returns the columns to write: those that the engine reads or filters by."""
        stored = [column.name for column in self._tail.decoder.stored]
        if self._select is None:
            return stored
        needed = {*self._select, *_referenced(self._expression)}
        kept = [name for name in stored if self._is_wanted(name, needed)]
        return kept or [names.OFFSET if names.OFFSET in stored else stored[0]]

    def _is_wanted(self, column: str, needed: set[str]) -> bool:
        folded = column if self._case_sensitive else column.lower()
        return any(
            name == folded or name.startswith(f"{folded}.")
            for name in (n if self._case_sensitive else n.lower() for n in needed)
        )

    def _key(self) -> str:
        """Returns a digest that is equal for scans that read the same part of the tail."""
        parts = (
            self._tail.snapshot_id,
            self._table.source(),
            self._columns(),
            repr(self._expression),
            self._rows_wanted,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _referenced(expression: BooleanExpression) -> set[str]:
    """Returns the full names of the fields that an expression refers to."""
    names_: set[str] = set()
    pending: list[Any] = [expression]
    while pending:
        part = pending.pop()
        sides = ("left", "right", "child")
        pending += [getattr(part, side) for side in sides if hasattr(part, side)]
        term = getattr(part, "term", None)
        if term is not None:
            names_.add(str(term.name))
    return names_
