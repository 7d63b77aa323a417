"""The kinds of statement that text is parsed into, as frozen values.

A name is a tuple of the parts as written.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from seamline.errors import Location


@dataclasses.dataclass(frozen=True, slots=True)
class Located:
    """A statement whose name has a location in the text, for errors; it is no part of its value."""

    location: Location | None = dataclasses.field(default=None, compare=False, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """SELECT, VALUES, TABLE and their combinations.

    Attributes:
        tree: The syntax tree; never changed in place. The `meta["number"]` of a `Placeholder`
            without a name is its position among those of the text, from 0.
        token: The token of `… AT TOKEN '…'`, if there is one.
        placeholders: The number of `?` in the text.
    """

    tree: exp.Query
    token: str | None = None
    placeholders: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query.

    Attributes:
        query: The query.
        analyze: Whether the query is also run.
        type: `DISTRIBUTED`, `LOGICAL`, `VALIDATE` or `IO`.
        format: `TEXT` or `JSON`.
        verbose: Whether the engine's own text is also shown.
    """

    query: Query
    analyze: bool = False
    type: str = "DISTRIBUTED"
    format: str = "TEXT"
    verbose: bool = False


class ColumnDefinition(NamedTuple):
    """A column as CREATE TABLE and ADD COLUMN write it."""

    name: str
    type: exp.DataType
    required: bool = False
    comment: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LikeTable(Located):
    """LIKE name [INCLUDING | EXCLUDING PROPERTIES], which stands for the columns of a table.

    Attributes:
        name: The table's name as written, one to three parts.
        takes_properties: Whether its properties are copied, too.
    """

    name: tuple[str, ...]
    takes_properties: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTable(Located):
    """CREATE TABLE name (columns) WITH (properties).

    Attributes:
        name: As written, one to three parts.
        columns: The columns in order, and tables whose columns stand there; empty when they are to
            be inferred.
        properties: The properties of the WITH clause; arrays become tuples.
        if_not_exists: Whether to accept an existing table without an error.
        replace: Whether it may replace an existing table.
    """

    name: tuple[str, ...]
    columns: tuple[ColumnDefinition | LikeTable, ...]
    properties: tuple[tuple[str, Any], ...]
    if_not_exists: bool = False
    replace: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropTable(Located):
    """DROP TABLE [IF EXISTS] name."""

    name: tuple[str, ...]
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CreateSchema(Located):
    """CREATE SCHEMA [IF NOT EXISTS] name; the name has one or two parts."""

    name: tuple[str, ...]
    if_not_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropSchema(Located):
    """DROP SCHEMA [IF EXISTS] name [RESTRICT | CASCADE]; the name has one or two parts.

    Attributes:
        name: As written.
        if_exists: Whether to accept that there is none.
        cascade: Whether its tables and views are dropped, too.
    """

    name: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Show(Located):
    """SHOW; DESCRIBE is SHOW COLUMNS.

    Attributes:
        what: One of `catalogs`, `schemas`, `tables`, `columns`, `branches`, `functions`, `session`,
            `stats`, `create schema`, `create table`, `create view`, `roles`, `current roles`,
            `role grants`, `grants`.
        name: The name after FROM, IN, FOR or the keyword; as many parts as were written.
        like: The pattern of LIKE.
        escape: The character of ESCAPE.
    """

    what: str
    name: tuple[str, ...] = ()
    like: str | None = None
    escape: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ShowStats:
    """SHOW STATS FOR (query)."""

    query: Query


@dataclasses.dataclass(frozen=True, slots=True)
class SetSession(Located):
    """SET SESSION name = value; the value is None for RESET SESSION name."""

    name: str
    value: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class SetTimeZone(Located):
    """SET TIME ZONE; the zone is None for LOCAL, the one the session began with."""

    zone: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class SetRole(Located):
    """SET ROLE ALL or NONE [IN catalog], which mean the same where there are no roles."""

    catalog: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Use(Located):
    """USE schema, or USE catalog.schema."""

    name: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Prepare(Located):
    """PREPARE name FROM statement; `text` is the statement as written."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Execute(Located):
    """EXECUTE name, or EXECUTE IMMEDIATE 'statement', each with USING values.

    Attributes:
        name: The name of the prepared statement; empty when there is a text.
        text: The statement of EXECUTE IMMEDIATE.
        values: The values of USING, as a query of one row.
        location: The location of the name or of the text.
    """

    name: str
    text: str
    values: Query


@dataclasses.dataclass(frozen=True, slots=True)
class Deallocate(Located):
    """DEALLOCATE PREPARE name."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class DescribePrepared(Located):
    """DESCRIBE INPUT name, or DESCRIBE OUTPUT name."""

    what: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class CreateView(Located):
    """CREATE [OR REPLACE] VIEW name [COMMENT '…'] [SECURITY DEFINER | INVOKER] AS query.

    Attributes:
        name: As written, one to three parts.
        query: The query.
        text: The query as text.
        replace: Whether it may replace an existing view.
        comment: The owner's comment on it.
        as_owner: Whether it reads with the rights of its owner rather than its reader's.
    """

    name: tuple[str, ...]
    query: Query
    text: str
    replace: bool = False
    comment: str | None = None
    as_owner: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropView(Located):
    """DROP VIEW [IF EXISTS] name."""

    name: tuple[str, ...]
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RenameView(Located):
    """ALTER VIEW name RENAME TO name; as many parts as were written."""

    name: tuple[str, ...]
    to: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comment(Located):
    """COMMENT ON TABLE, VIEW or COLUMN name IS '…'; `text` is None for NULL."""

    what: str
    name: tuple[str, ...]
    text: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN [IF NOT EXISTS] [row.]name type [COMMENT '…'].

    Attributes:
        column: The column, or the field of a row.
        within: The names that lead to the row; empty for a column.
        if_not_exists: Whether it may exist.
    """

    column: ColumnDefinition
    within: tuple[str, ...] = ()
    if_not_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN [IF EXISTS] [row.]name."""

    column: tuple[str, ...]
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN [IF EXISTS] [row.]name TO other."""

    column: tuple[str, ...]
    to: str
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SetColumnType:
    """ALTER COLUMN [row.]name SET DATA TYPE type."""

    column: tuple[str, ...]
    type: exp.DataType


@dataclasses.dataclass(frozen=True, slots=True)
class DropNotNull:
    """ALTER COLUMN [row.]name DROP NOT NULL."""

    column: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TO name; as many parts as were written."""

    to: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SetProperties:
    """SET PROPERTIES, as pairs of name and value; arrays are their values, separated by commas."""

    properties: tuple[tuple[str, str], ...]


TableChange: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | SetColumnType
    | DropNotNull
    | RenameTable
    | SetProperties
)


@dataclasses.dataclass(frozen=True, slots=True)
class AlterTable(Located):
    """ALTER TABLE [IF EXISTS] name, with the requested change."""

    name: tuple[str, ...]
    change: TableChange
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class MaintainTable(Located):
    """ALTER TABLE [IF EXISTS] name EXECUTE procedure(arguments) [WHERE condition].

    Attributes:
        name: As written, one to three parts.
        procedure: One of `optimize`, `optimize_manifests`, `expire_snapshots`,
            `remove_orphan_files`, `resume`.
        arguments: The given arguments: sizes in bytes, durations in seconds, counts, 1 for true.
        query: A query of the cold rows that the condition holds for; None without a condition.
        if_exists: Whether to accept that there is no such table.
        condition_location: The location of the condition.
    """

    name: tuple[str, ...]
    procedure: str
    arguments: tuple[tuple[str, float], ...] = ()
    query: Query | None = None
    if_exists: bool = False
    condition_location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTableAs:
    """CREATE TABLE name WITH (properties) AS query [WITH [NO] DATA].

    Attributes:
        table: The table; its columns are those of the query.
        query: The query.
        with_data: Whether the query's rows are written.
    """

    table: CreateTable
    query: Query
    with_data: bool = True

    @property
    def location(self) -> Location | None:
        """The location of the name."""
        return self.table.location


@dataclasses.dataclass(frozen=True, slots=True)
class Insert(Located):
    """INSERT INTO name (columns) query.

    Attributes:
        name: As written, one to three parts.
        columns: The target columns of the query's columns; empty means all.
        query: The query.
    """

    name: tuple[str, ...]
    columns: tuple[str, ...]
    query: Query


@dataclasses.dataclass(frozen=True, slots=True)
class RowCase:
    """What happens to some of the rows that a statement changes.

    Attributes:
        action: `UPDATE`, `DELETE` or `INSERT`.
        columns: The columns that get values; empty for all columns of an INSERT.
        values: How many values they get.
    """

    action: str
    columns: tuple[str, ...] = ()
    values: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeRows(Located):
    """DELETE, UPDATE or MERGE.

    Attributes:
        what: Its keyword.
        name: The table's name as written, one to three parts.
        query: The changed rows: file and position, null for new rows; the number of their case,
            from 1; the values of each case, in order; with an UPDATE, the columns of the table as
            they were.
        cases: The cases, in order.
    """

    what: str
    name: tuple[str, ...]
    query: Query
    cases: tuple[RowCase, ...]

    @property
    def keeps_columns(self) -> bool:
        """Whether columns without new values keep those that they have."""
        return any(case.action == "UPDATE" for case in self.cases)


@dataclasses.dataclass(frozen=True, slots=True)
class Truncate(Located):
    """TRUNCATE TABLE name."""

    name: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KillStatement(Located):
    """CALL system.runtime.kill_query(query_id => '…', message => '…')."""

    statement_id: str
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Transaction(Located):
    """START TRANSACTION, COMMIT or ROLLBACK."""

    what: str


Statement: TypeAlias = (
    Query
    | Explain
    | CreateSchema
    | DropSchema
    | CreateTable
    | DropTable
    | Show
    | ShowStats
    | SetRole
    | SetSession
    | SetTimeZone
    | Use
    | Prepare
    | Execute
    | Deallocate
    | DescribePrepared
    | CreateView
    | DropView
    | RenameView
    | Comment
    | AlterTable
    | MaintainTable
    | CreateTableAs
    | Insert
    | ChangeRows
    | Truncate
    | KillStatement
    | Transaction
)

ABOUT_PREPARED = (Prepare, Execute, Deallocate, DescribePrepared)
"""The statements that cannot themselves be prepared."""
