"""Dispatches statements that are not queries, such as SHOW and CREATE TABLE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.types import storable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    INVALID_TABLE_DEFINITION,
    STATEMENT_NOT_ALLOWED,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import (
    adopting,
    alterations,
    likes,
    row_changes,
    schemas,
    sessions,
    tables,
    views,
    writes,
)
from seamline.gateway.commands.rows import Rows, done, noted
from seamline.gateway.commands.shows import Shows
from seamline.gateway.statements.statement import StatementRequest
from seamline.sql.binder.scope import Output
from seamline.sql.places import placed_at
from seamline.sql.statements import (
    AlterTable,
    Comment,
    CreateSchema,
    CreateTable,
    CreateView,
    DropSchema,
    DropTable,
    DropView,
    KillStatement,
    RenameView,
    SetProperties,
    SetRole,
    SetSession,
    SetTimeZone,
    Show,
    Statement,
    Transaction,
    Truncate,
    Use,
)

_NO_REQUEST = StatementRequest("")


class Commands:
    """Runs statements that are not queries.

    Args:
        connections: The catalogs and clusters that the statements read and change.
        kill: Ends another statement.
    """

    def __init__(
        self, connections: Connections, kill: Callable[[KillStatement], None] = lambda _: None
    ) -> None:
        self._connections = connections
        self._kill = kill
        self._shows = Shows(connections)

    def run(
        self,
        statement: Statement,
        session: Session,
        deadline: Deadline,
        request: StatementRequest = _NO_REQUEST,
    ) -> Rows:
        """Runs a statement.

        Args:
            statement: The statement.
            session: The catalog and schema for names that omit them.
            deadline: The statement's deadline.
            request: The client's request, which carries the client's session.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        with placed_at(getattr(statement, "location", None)):
            return self._run(statement, session, deadline, request)

    def create_view(
        self, statement: CreateView, session: Session, output: Sequence[Output]
    ) -> Rows:
        """Runs CREATE VIEW.

        Args:
            statement: The statement.
            session: The catalog and schema for names that omit them.
            output: The columns of its query.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        with placed_at(getattr(statement, "location", None)):
            return views.create(self._connections, statement, session, output)

    def _run(
        self, statement: Statement, session: Session, deadline: Deadline, request: StatementRequest
    ) -> Rows:
        match statement:
            case Show(what="session"):
                return sessions.show_properties(statement, request)
            case Show():
                return self._shows.run(statement, session, deadline)
            case SetSession():
                return sessions.set_property(statement, self._connections.rights)
            case SetRole():
                return sessions.set_role(statement, session, self._connections)
            case SetTimeZone():
                return sessions.set_time_zone(statement, self._connections.rights)
            case KillStatement():
                self._kill(statement)
                return done()
            case Transaction():
                return sessions.transaction(statement, request)
            case Use():
                return sessions.use(statement, session, self._connections)
            case CreateSchema():
                return schemas.create(self._connections, statement, session)
            case DropSchema():
                return schemas.drop(self._connections, statement, session)
            case DropView():
                return views.drop(self._connections, statement, session)
            case RenameView():
                return views.rename(self._connections, statement, session)
            case Comment(what="view"):
                return views.comment(self._connections, statement.name, session, statement.text)
            case Comment():
                return alterations.comment(self._connections, statement, session)
            case AlterTable(change=SetProperties() as change) if "topic" in dict(change.properties):
                return self._adopt(statement.name, dict(change.properties), session, deadline)
            case AlterTable():
                return alterations.alter(self._connections, statement, session, deadline)
            case CreateTable():
                return self._create(statement, session, deadline)
            case DropTable():
                return self._drop(statement, session)
            case Truncate():
                row_changes.truncate(self._connections, statement, session)
                return done()
        raise AssertionError(statement)

    # --- CREATE and DROP -------------------------------------------------------------------------

    def _create(self, statement: CreateTable, session: Session, deadline: Deadline) -> Rows:
        name = resolution.resolve(statement.name, session, self._connections, is_new=True)
        if not name.is_own_table:
            raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be created")
        self._connections.rights.require_new(name)
        properties = dict(statement.properties)
        if properties.get("adopt") is True:
            if statement.columns:
                raise SeamlineError(
                    INVALID_TABLE_DEFINITION, "an adopted table has columns of its own"
                )
            return self._adopt(statement.name, properties, session, deadline)
        if "topic" not in properties:
            return self._create_plain(statement, session)
        if statement.replace:
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                f"{name.display} would repeat a topic, so it cannot replace a table",
                hint="DROP TABLE first, or choose another name.",
            )
        properties = {
            **likes.properties(self._connections, statement.columns, session),
            **properties,
        }
        definition = tables.TableDefinition(
            name=name,
            columns=likes.fields(self._connections, statement.columns, session) or None,
            **{"cluster": self._connections.config.default_cluster, **_properties(properties)},
        )
        self._connections.rights.require_topic(definition.cluster, definition.topic)
        try:
            created = tables.create(self._connections, definition, deadline)
        except SeamlineError as error:
            # IF NOT EXISTS accepts only a unified table: a plain one never shows topic records
            existing = error.code is TABLE_EXISTS and statement.if_not_exists
            if not existing or not tables.is_unified(self._connections, name):
                raise
            return done()
        return noted(created.notes)

    def _adopt(
        self,
        written: tuple[str, ...],
        properties: Mapping[str, Any],
        session: Session,
        deadline: Deadline,
    ) -> Rows:
        """Binds a table that another writer fills to its topic; returns the notes about it."""
        name = resolution.resolve(written, session, self._connections)
        if not name.is_own_table:
            raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be adopted")
        rights, cluster = self._connections.rights, self._connections.config.default_cluster
        rights.require_alterable(name)
        wanted = adopting.of_statement(name, properties, cluster)
        rights.require_topic(wanted.cluster, wanted.topic)
        findings = adopting.examine(self._connections, wanted, deadline)
        adopting.adopt(self._connections, findings, force=wanted.force)
        return noted(findings.notes)

    def _create_plain(self, statement: CreateTable, session: Session) -> Rows:
        """Creates a plain Iceberg table without rows."""
        if not statement.columns:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "CREATE TABLE needs columns, or WITH (topic = '…')",
                hint="A table with a topic combines the topic and its Iceberg copy.",
            )

        def create() -> None:
            table = writes.new_table(self._connections, statement, session)
            if table is not None:
                fields = [
                    dataclasses.replace(field, type=storable(field.type))
                    for field in likes.fields(self._connections, statement.columns, session)
                ]
                writes.create(self._connections, table, fields, iter(()))

        commits.insist(create)
        return done()

    def _drop(self, statement: DropTable, session: Session) -> Rows:
        name = resolution.resolve(statement.name, session, self._connections, is_new=True)
        if not name.is_own_table:
            raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be dropped")
        try:
            self._connections.rights.require(Privilege.OWNERSHIP, name)
            tables.drop(self._connections, name)
        except SeamlineError as error:
            if error.code is not TABLE_NOT_FOUND or not statement.if_exists:
                raise
        return dataclasses.replace(done(), dropped=(name.full,))


def _strings(name: str, value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(item, str) for item in items):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be an array of strings")
    return items


def _text(name: str, value: Any) -> str:
    if isinstance(value, tuple | bool):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be a string")
    return str(value)


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be a whole number")
    return value


_PROPERTIES: Mapping[str, Callable[[str, Any], Any]] = {
    "topic": _text,
    "cluster": _text,
    "format": _text,
    "mode": _text,
    "on_error": _text,
    "isolation": _text,
    "key": _text,
    "key_format": _text,
    "columns_from": _strings,
    "value_schema": _text,
    "key_schema": _text,
    "spellings": _strings,
    "csv_separator": _text,
    "csv_quote": _text,
    "evolution": _text,
    "key_partitioner": _text,
    "primary_key": _strings,
    "envelope": _text,
    "deleted_by": _text,
    "start": _text,
    "partitioning": _strings,
    "sorted_by": _strings,
    "format_version": _number,
}


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(_PROPERTIES))
    if unknown:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{unknown[0]!r} is not a property of a table",
            hint=f"The properties are {', '.join(_PROPERTIES)}.",
        )
    return {name: _PROPERTIES[name](name, value) for name, value in given.items()}
