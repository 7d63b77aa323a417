"""DELETE, UPDATE, MERGE and TRUNCATE TABLE for plain tables, and DELETE for upsert tables.

The rows that change are those of a query; see `sql.parsing.row_changes`. In a plain table they are
identified by file and position, and change in one snapshot. In an upsert table, each is deleted by
a record without a value. No other rows of unified tables are changed: they repeat the records of a
topic, which may have more fields than the table has columns.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from seamline.connectors.iceberg.tables import commits, row_changes
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.errors import (
    COMMIT_CONFLICT,
    MERGE_TARGET_ROW_MULTIPLE_MATCHES,
    STATEMENT_NOT_ALLOWED,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import alterations, writes
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.describing import Inputs
from seamline.gateway.commands.inserting import report
from seamline.gateway.commands.reading import reading
from seamline.gateway.commands.rows import Rows, count, done
from seamline.gateway.commands.writes import Target
from seamline.gateway.names import TableName
from seamline.gateway.query.queries import QueryRequest, Running
from seamline.gateway.statements import freshness
from seamline.seam.binding import TopicBinding
from seamline.sql import columns
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing.statements import ChangeRows, RowCase, Truncate
from seamline.sql.types import BIGINT, INTEGER, Field

_CASE = Field("case", INTEGER)
_COUNT = Field("rows", BIGINT)
_PLACES = len(columns.FILE_FIELDS)
"""The column with the number of a row's case; the columns before it hold the place of the row."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    """A case of a statement: which columns get new values, and their places in the query's rows."""

    action: str
    fields: tuple[Field, ...]
    first: int


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A table whose rows are to be changed.

    Attributes:
        target: What the query's rows provide: `target.given` lists all of its columns.
        cases: What happens to the rows, by the numbers of their cases, from 1.
        kept: Where the table's columns, as they were, are in the query's rows.
        takes_all: Whether all rows are deleted; the query then only counts them.
    """

    target: Target
    cases: tuple[_Case, ...]
    kept: int
    takes_all: bool = False


def changed(connections: Connections, statement: ChangeRows, session: Session) -> Changed | Target:
    """Returns the table whose rows are to be changed, and how; an upsert table unchanged.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, COLUMN_NOT_FOUND, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED,
            PERMISSION_DENIED, …
    """
    actions = dict.fromkeys(case.action for case in statement.cases)
    name, table = _table(connections, statement.name, session, tuple(actions))
    binding = TopicBinding.from_properties(table.state.properties)
    if binding is not None and binding.is_upsert and statement.what == "DELETE":
        fields = writes.written_columns(table, binding)
        return Target(name, table, binding, fields, fields)
    _require_plain(binding, name, statement.what)
    row_changes.require_row_changes(table)
    fields = table.state.schema.columns
    if statement.what == "DELETE" and statement.query.tree.args.get("where") is None:
        return Changed(Target(name, table, None, fields, (_COUNT,)), (), 0, takes_all=True)
    given: list[Field] = [*columns.FILE_FIELDS, _CASE]
    cases = []
    for case in statement.cases:
        numbered = _Case(case.action, _columns(name, fields, case), len(given))
        cases.append(numbered)
        given += numbered.fields
    kept = len(given)
    given += fields if statement.keeps_columns else ()
    return Changed(Target(name, table, None, fields, tuple(given)), tuple(cases), kept)


def run(context: Context[ChangeRows]) -> Rows:
    """Runs DELETE, UPDATE or MERGE.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED with a token; as `changed` and `apply`; whatever is
            wrong with the query.
    """
    parsed = context.parsed
    request = dataclasses.replace(
        context.query(parsed.query), row_limit=None, freshness=freshness.LATEST
    )
    if request.token:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{parsed.what} changes the current rows, not the rows of a token",
            hint="Leave out the token.",
        )

    def change() -> Rows:
        context.statement.deadline.check()
        with locate_errors_at(parsed.location):
            table = changed(context.connections, parsed, context.session)
        if isinstance(table, Target):
            return _delete_keys(context, table, request)
        return _change_plain(context, table, request)

    return commits.insist(change)


def _change_plain(context: Context[ChangeRows], table: Changed, request: QueryRequest) -> Rows:
    """Changes rows of a plain table."""
    context.statement.writes = table.target.name.display
    tree = counted(request.tree) if table.takes_all else request.tree
    fit = functools.partial(writes.cast_to_columns, table.target)
    with reading(context, dataclasses.replace(request, tree=tree, fit=fit)) as running:
        with locate_errors_at(context.parsed.location):
            writes.check_types(table.target, running.planned.plan.logical.query.output)
        return count(apply(table, _as_read(running, table), running.batches))


def _delete_keys(context: Context[ChangeRows], target: Target, request: QueryRequest) -> Rows:
    """Deletes keys of an upsert table."""
    statement = context.statement
    statement.writes = target.name.display
    tree = whole_rows(target, request.tree)
    with reading(context, dataclasses.replace(request, tree=tree)) as running:
        written = writes.delete_keys(
            context.connections, target, iter(running.batches), statement.deadline
        )
    return report(context, target, written)


def _as_read(running: Running, table: Changed) -> IcebergTable:
    """Returns the table whose rows change, as the query for them read it."""
    for read in running.planned.tables.values():
        if read.state.uuid == table.target.table.state.uuid and isinstance(read, IcebergTable):
            return read
    raise SeamlineError(
        COMMIT_CONFLICT,
        f"table {table.target.name.display} was replaced by another one in the meantime",
    )


def inputs(context: Context[ChangeRows], tree: exp.Expr) -> Inputs:
    """Returns the query for DESCRIBE INPUT, and the columns that it is written to."""
    table = changed(context.connections, context.parsed, context.session)
    if isinstance(table, Target):
        return whole_rows(table, tree), ()
    return tree, table.target.given


def truncate(connections: Connections, statement: Truncate, session: Session) -> Rows:
    """Runs TRUNCATE TABLE.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED, PERMISSION_DENIED,
            COMMIT_CONFLICT, …
    """

    def work() -> None:
        name, table = _table(connections, statement.name, session, ("DELETE",))
        _require_plain(TopicBinding.from_properties(table.state.properties), name, "TRUNCATE")
        row_changes.require_row_changes(table)
        row_changes.commit_truncate(table)

    commits.insist(work)
    return done()


def _table(
    connections: Connections,
    written: tuple[str, ...],
    session: Session,
    actions: Sequence[str],
) -> tuple[TableName, IcebergTable]:
    """Loads a table whose rows the user may change."""
    name = resolution.resolve(written, session, connections)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"rows of {name.display} cannot be changed")
    for action in actions:
        connections.rights.require(Privilege(action), name)
    connections.rights.require_all_seen(name, "and so may not change its rows")
    return name, alterations.load(connections, name)


def _require_plain(binding: TopicBinding | None, name: TableName, what: str) -> None:
    if binding is None:
        return
    raise SeamlineError(
        STATEMENT_NOT_ALLOWED,
        f"{what} is not allowed: {name.display} repeats its topic, whose records are only "
        "added, never changed",
        hint="INSERT INTO replaces whole rows by their keys, and DELETE removes rows."
        if binding.is_upsert
        else "INSERT INTO adds rows; use a view to define which of them readers see.",
    )


def counted(query: exp.Expr) -> exp.Expr:
    """Returns the query of a DELETE, turned into a count of its rows."""
    tree = query.copy()
    tree.set("expressions", [exp.Anonymous(this="count", expressions=[exp.Star()])])
    return tree


def whole_rows(target: Target, query: exp.Expr) -> exp.Expr:
    """Returns the query of a DELETE with the columns that make up records."""
    tree = query.copy()
    first = tree.expressions[0]
    assert isinstance(first, exp.Column)
    chosen = [
        exp.Column(
            this=exp.to_identifier(field.name, quoted=True), table=first.args["table"].copy()
        )
        for field in target.given
    ]
    tree.set("expressions", chosen)
    return tree


def _columns(name: TableName, fields: Sequence[Field], case: RowCase) -> tuple[Field, ...]:
    """Returns the columns to which a case gives values."""
    if case.action == "INSERT" and not case.columns:
        if case.values != len(fields):
            raise SeamlineError(
                TYPE_MISMATCH,
                f"{name.display} has {len(fields)} columns, but INSERT has {case.values} values",
                hint=f"Columns: {', '.join(field.name for field in fields)}.",
            )
        return tuple(fields)
    return writes.columns_named(name, fields, case.columns)


def apply(changed: Changed, table: IcebergTable, batches: Iterable[pa.RecordBatch]) -> int:
    """Commits what a query's rows say; returns how many rows were changed, added or deleted.

    Args:
        changed: The table and the cases.
        table: The table as the query read it.
        batches: The rows of the query.

    Raises:
        SeamlineError: MERGE_TARGET_ROW_MULTIPLE_MATCHES; COMMIT_CONFLICT if the table has changed
            since; whatever the rows raise.
    """
    if changed.takes_all:
        count = sum(sum(batch.column(0).to_pylist()) for batch in batches)
        row_changes.commit_truncate(table)
        return count
    rows = _Rows(changed, batches)
    row_changes.commit_changes(table, rows.added(), rows.deleted)
    return rows.count


class _Rows:
    """Sorts the rows of a query into those to be added, and the places of those to be deleted."""

    def __init__(self, changed: Changed, batches: Iterable[pa.RecordBatch]) -> None:
        self._changed = changed
        self._batches = batches
        self._places: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        self.count = 0

    def added(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows to be added, with all columns of the table."""
        for batch in self._batches:
            self.count += batch.num_rows
            self._note(batch)
            for number, case in enumerate(self._changed.cases, 1):
                if case.action == "DELETE":
                    continue
                taken = batch.filter(pc.equal(batch.column(_PLACES), number))
                if taken.num_rows:
                    yield self._new(taken, case)

    def deleted(self) -> dict[str, np.ndarray]:
        """Returns the positions of the rows to be deleted, by the paths of their files.

        Raises:
            SeamlineError: MERGE_TARGET_ROW_MULTIPLE_MATCHES.
        """
        by_file = {path: np.concatenate(parts) for path, parts in self._places.items()}
        for positions in by_file.values():
            if len(np.unique(positions)) != len(positions):
                raise SeamlineError(
                    MERGE_TARGET_ROW_MULTIPLE_MATCHES,
                    f"a row of {self._changed.target.name.display} matches several source rows",
                )
        return by_file

    def _note(self, batch: pa.RecordBatch) -> None:
        """Notes the places of existing rows."""
        there = batch.filter(pc.is_valid(batch.column(1)))
        paths = pc.dictionary_encode(there.column(0))
        numbers, positions = paths.indices.to_numpy(), there.column(1).to_numpy()
        for number, path in enumerate(paths.dictionary.to_pylist()):
            self._places[path].append(positions[numbers == number])

    def _new(self, batch: pa.RecordBatch, case: _Case) -> pa.RecordBatch:
        """Returns the new values of rows and, for UPDATE, those that they keep."""
        target = self._changed.target
        indexes = {f.name: case.first + index for index, f in enumerate(case.fields)}
        if case.action == "UPDATE":
            before = {f.name: self._changed.kept + index for index, f in enumerate(target.fields)}
            indexes = {**before, **indexes}
        return writes.whole(batch, target, indexes)
