"""The kinds of statement: what a text is parsed into, as frozen values.

A name is a tuple of the parts that were written. `location` says where it stands, for errors; it
takes no part in comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from sqlglot import exp

from seamline.errors import Location


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """SELECT, VALUES, TABLE and their combinations.

    Attributes:
        tree: The syntax tree; never changed in place. The `meta["number"]` of a `Placeholder`
            without a name is its place among those of the text, from 0.
        token: The token of `… AT TOKEN '…'`, if there is one.
        placeholders: How many `?` the text has.
    """

    tree: exp.Query
    token: str | None = None
    placeholders: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query.

    Attributes:
        query: The query.
        analyze: Whether it is also run.
        type: `DISTRIBUTED`, `LOGICAL`, `VALIDATE` or `IO`.
        format: `TEXT` or `JSON`.
        verbose: Whether also the engine's own text is shown.
    """

    query: Query
    analyze: bool = False
    type: str = "DISTRIBUTED"
    format: str = "TEXT"
    verbose: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE name (columns) WITH (properties).

    Attributes:
        name: As written, one to three parts.
        columns: (name, type, required) in order; none means that they are to be inferred.
        properties: The WITH clause; arrays of strings as tuples.
        if_not_exists: Whether an existing table is no error.
        location: Where the name stands.
    """

    name: tuple[str, ...]
    columns: tuple[tuple[str, exp.DataType, bool], ...]
    properties: tuple[tuple[str, Any], ...]
    if_not_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name."""

    name: tuple[str, ...]
    if_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE SCHEMA [IF NOT EXISTS] name; of one or two parts."""

    name: tuple[str, ...]
    if_not_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DropSchema:
    """DROP SCHEMA [IF EXISTS] name; of one or two parts."""

    name: tuple[str, ...]
    if_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Show:
    """SHOW of something that there is; DESCRIBE is SHOW COLUMNS.

    Attributes:
        what: One of `catalogs`, `schemas`, `tables`, `columns`, `functions`, `session`, `stats`,
            `create table`, `create view`.
        name: What comes after FROM, IN, FOR or the keyword; as many parts as were written.
        like: The pattern of LIKE.
        escape: The character of ESCAPE.
        location: Where the name stands.
    """

    what: str
    name: tuple[str, ...] = ()
    like: str | None = None
    escape: str | None = None
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class SetSession:
    """SET SESSION name = value; the value is None for RESET SESSION name."""

    name: str
    value: str | None
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """USE schema, or USE catalog.schema."""

    name: tuple[str, ...]
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE name FROM statement; the statement as text."""

    name: str
    text: str
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Execute:
    """EXECUTE name, or EXECUTE IMMEDIATE 'statement', each with USING values.

    Attributes:
        name: The prepared statement's; empty with a text.
        text: The statement of EXECUTE IMMEDIATE.
        values: The values of USING, in brackets.
        location: Where the name stands.
    """

    name: str
    text: str
    values: Query
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE PREPARE name."""

    name: str
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DescribePrepared:
    """DESCRIBE INPUT name, or DESCRIBE OUTPUT name."""

    what: str
    name: str
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW name [COMMENT '…'] AS query.

    Attributes:
        name: As written, one to three parts.
        query: The query.
        text: The query as text.
        replace: Whether it may take the place of another view.
        comment: What its owner says of it.
        location: Where the name stands.
    """

    name: tuple[str, ...]
    query: Query
    text: str
    replace: bool = False
    comment: str | None = None
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DropView:
    """DROP VIEW [IF EXISTS] name."""

    name: tuple[str, ...]
    if_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON TABLE, VIEW or COLUMN name IS '…'; the text is None for NULL."""

    what: str
    name: tuple[str, ...]
    text: str | None
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN [IF NOT EXISTS] name type."""

    column: str
    type: exp.DataType
    required: bool = False
    if_not_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN [IF EXISTS] name."""

    column: str
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN [IF EXISTS] name TO other."""

    column: str
    to: str
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SetProperties:
    """SET PROPERTIES: pairs of name and value."""

    properties: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE [IF EXISTS] name, and what is changed of it."""

    name: tuple[str, ...]
    change: AddColumn | DropColumn | RenameColumn | SetProperties
    if_exists: bool = False
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTableAs:
    """CREATE TABLE name WITH (properties) AS query [WITH [NO] DATA].

    Attributes:
        table: The table; its columns are those of the query.
        query: The query.
        with_data: Whether its rows are written.
    """

    table: CreateTable
    query: Query
    with_data: bool = True

    @property
    def location(self) -> Location | None:
        """Where the name stands."""
        return self.table.location


@dataclasses.dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO name (columns) query.

    Attributes:
        name: As written, one to three parts.
        columns: The columns that the query's are for; none means all.
        query: The query.
        location: Where the name stands.
    """

    name: tuple[str, ...]
    columns: tuple[str, ...]
    query: Query
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class KillStatement:
    """CALL system.runtime.kill_query(query_id => '…', message => '…')."""

    statement_id: str
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Transaction:
    """START TRANSACTION, COMMIT or ROLLBACK."""

    what: str
    location: Location | None = dataclasses.field(default=None, compare=False)


Statement: TypeAlias = (
    Query
    | Explain
    | CreateSchema
    | DropSchema
    | CreateTable
    | DropTable
    | Show
    | SetSession
    | Use
    | Prepare
    | Execute
    | Deallocate
    | DescribePrepared
    | CreateView
    | DropView
    | Comment
    | AlterTable
    | CreateTableAs
    | Insert
    | KillStatement
    | Transaction
)

WRITES = (
    AlterTable,
    Comment,
    CreateSchema,
    CreateTable,
    CreateTableAs,
    CreateView,
    DropSchema,
    DropTable,
    DropView,
    Insert,
)
"""The statements that change something, and not only of the session."""


def update_type(statement: Statement) -> str | None:
    """The keywords of a statement that changes something; None for one that is asked for rows."""
    match statement:
        case SetSession(value=None):
            return "RESET SESSION"
        case AlterTable(change=change):
            return _KEYWORDS[type(change)]
        case Transaction(what):
            return what
    return _KEYWORDS.get(type(statement))


_KEYWORDS: Mapping[type, str] = {
    AddColumn: "ADD COLUMN",
    Comment: "COMMENT",
    CreateSchema: "CREATE SCHEMA",
    CreateTable: "CREATE TABLE",
    CreateTableAs: "CREATE TABLE",
    CreateView: "CREATE VIEW",
    Deallocate: "DEALLOCATE",
    DropColumn: "DROP COLUMN",
    DropSchema: "DROP SCHEMA",
    DropTable: "DROP TABLE",
    DropView: "DROP VIEW",
    Insert: "INSERT",
    KillStatement: "CALL",
    Prepare: "PREPARE",
    RenameColumn: "RENAME COLUMN",
    SetProperties: "SET PROPERTIES",
    SetSession: "SET SESSION",
    Use: "USE",
}
