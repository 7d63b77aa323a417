"""The kinds of statements: how each is run, and what clients are told about it.

A new kind of statement is a class in `sql.parsing.statements` with a grammar, and an entry here.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlglot import exp

from seamline.connectors.protocols.deadlines import Deadline
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import (
    alterations,
    creation,
    describing,
    explaining,
    inserting,
    maintaining,
    prepared,
    reading,
    row_changes,
    schemas,
    sessions,
    shows,
    stats,
    views,
)
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.describing import Inputs
from seamline.gateway.commands.rows import Rows, done
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing import statements as sql

S = TypeVar("S")


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind of statement. Rights to what it names are checked by its handler.

    Attributes:
        run: Runs it; returns its rows, or None if it has written them itself.
        keywords: What Trino's clients are told that it did, such as `DROP TABLE`; empty for a
            statement that returns rows.
        is_write: Whether it changes more than the session, and so is refused in a transaction.
        counts_rows: Whether its only result is the number of rows that it wrote.
        query: Returns its query, whose parameters it has; None if it cannot have parameters.
        inputs: Adapts the query for DESCRIBE INPUT, and returns the columns that it is written to.
    """

    run: Callable[[Context[Any]], Rows | None]
    keywords: str | Callable[[Any], str] = ""
    is_write: bool = False
    counts_rows: bool = False
    query: Callable[[Any], sql.Query | None] = lambda _: None
    inputs: Callable[[Context[Any], exp.Expr], Inputs] | None = None


def kind_of(parsed: sql.Statement) -> Kind:
    """Returns the kind of a statement."""
    return KINDS[type(parsed)]


def update_type(parsed: sql.Statement) -> str | None:
    """Returns the keywords of a statement that changes something; None if it returns rows."""
    keywords = kind_of(parsed).keywords
    return (keywords if isinstance(keywords, str) else keywords(parsed)) or None


def _located(run: Callable[[Context[S]], Rows]) -> Callable[[Context[S]], Rows]:
    """Returns a handler whose errors are located at the statement's name."""

    def handler(context: Context[S]) -> Rows:
        with locate_errors_at(getattr(context.parsed, "location", None)):
            return run(context)

    return handler


def _by_name(run: Callable[[Connections, S, Session], Rows]) -> Callable[[Context[S]], Rows]:
    """Returns the handler of a statement that needs no more than names and their catalogs."""
    return _located(lambda context: run(context.connections, context.parsed, context.session))


def _timed(
    run: Callable[[Connections, S, Session, Deadline], Rows],
) -> Callable[[Context[S]], Rows]:
    """Returns the handler of a statement that also asks Kafka, within its deadline."""
    return _located(
        lambda context: run(
            context.connections, context.parsed, context.session, context.statement.deadline
        )
    )


def _show(context: Context[sql.Show]) -> Rows:
    if context.parsed.what == "session":
        return sessions.show_properties(context)
    return _timed(shows.show)(context)


def _kill(context: Context[sql.KillStatement]) -> Rows:
    context.environment.kill(context.parsed)
    return done()


def _describe(context: Context[sql.DescribePrepared]) -> Rows:
    described = prepared.described(context.parsed, context.request)
    kind = kind_of(described)
    about: Context[Any] = Context(
        context.environment, context.statement, described, context.session
    )
    if context.parsed.what == "input":
        return describing.inputs(about, kind.query(described), kind.inputs)
    return describing.output(about)


_QUERY = operator.attrgetter("query")


KINDS: Mapping[type, Kind] = {
    # reads
    sql.Query: Kind(reading.run, query=lambda parsed: parsed),
    sql.Explain: Kind(explaining.run, query=_QUERY),
    sql.Show: Kind(_show),
    sql.ShowStats: Kind(stats.of_query),
    # sessions
    sql.SetSession: Kind(
        _by_name(sessions.set_property),
        lambda parsed: "RESET SESSION" if parsed.value is None else "SET SESSION",
    ),
    sql.SetRole: Kind(_by_name(sessions.set_role), "SET ROLE"),
    sql.SetTimeZone: Kind(_by_name(sessions.set_time_zone), "SET TIME ZONE"),
    sql.Use: Kind(_by_name(sessions.use), "USE"),
    sql.Transaction: Kind(_located(sessions.transaction), operator.attrgetter("what")),
    sql.Prepare: Kind(prepared.prepare, "PREPARE"),
    sql.Deallocate: Kind(prepared.deallocate, "DEALLOCATE"),
    sql.DescribePrepared: Kind(_describe),
    sql.KillStatement: Kind(_located(_kill), "CALL"),
    # schemas, tables and views
    sql.CreateSchema: Kind(_by_name(schemas.create), "CREATE SCHEMA", is_write=True),
    sql.DropSchema: Kind(_by_name(schemas.drop), "DROP SCHEMA", is_write=True),
    sql.CreateTable: Kind(_timed(creation.create_table), "CREATE TABLE", is_write=True),
    sql.AlterTable: Kind(
        _timed(creation.alter_table),
        lambda parsed: alterations.KEYWORDS[type(parsed.change)],
        is_write=True,
    ),
    sql.DropTable: Kind(_by_name(creation.drop_table), "DROP TABLE", is_write=True),
    sql.MaintainTable: Kind(maintaining.run, "ALTER TABLE EXECUTE", is_write=True, query=_QUERY),
    sql.Comment: Kind(_by_name(alterations.comment), "COMMENT", is_write=True),
    sql.CreateView: Kind(views.create, "CREATE VIEW", is_write=True),
    sql.RenameView: Kind(_by_name(views.rename), "RENAME VIEW", is_write=True),
    sql.DropView: Kind(_by_name(views.drop), "DROP VIEW", is_write=True),
    # rows
    sql.CreateTableAs: Kind(
        inserting.create_table_as,
        "CREATE TABLE",
        is_write=True,
        counts_rows=True,
        query=_QUERY,
    ),
    sql.Insert: Kind(
        inserting.insert,
        "INSERT",
        is_write=True,
        counts_rows=True,
        query=_QUERY,
        inputs=inserting.inputs,
    ),
    sql.ChangeRows: Kind(
        row_changes.run,
        operator.attrgetter("what"),
        is_write=True,
        counts_rows=True,
        query=_QUERY,
        inputs=row_changes.inputs,
    ),
    sql.Truncate: Kind(_by_name(row_changes.truncate), "TRUNCATE TABLE", is_write=True),
}
"""By class of statement; EXECUTE is run as the statement that it names."""
