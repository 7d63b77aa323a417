"""CREATE TABLE, DROP TABLE, and ALTER TABLE … SET PROPERTIES where it adopts a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.type_conversion import storable
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
    tables,
    writes,
)
from seamline.gateway.commands.rows import Rows, done, noted
from seamline.seam.options import OPTIONS
from seamline.sql.parsing.statements import (
    AlterTable,
    CreateTable,
    DropTable,
    SetProperties,
)


def create_table(
    connections: Connections, statement: CreateTable, session: Session, deadline: Deadline
) -> Rows:
    """Runs CREATE TABLE; returns notes about the records of a table with a topic.

    Raises:
        SeamlineError: TABLE_EXISTS, INVALID_TABLE_DEFINITION, STATEMENT_NOT_ALLOWED, …
    """
    name = resolution.resolve(statement.name, session, connections, is_new=True)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be created")
    connections.rights.require_new(name)
    properties = dict(statement.properties)
    if properties.get("adopt") is True:
        if statement.columns:
            raise SeamlineError(INVALID_TABLE_DEFINITION, "an adopted table has columns of its own")
        return _adopt(connections, statement.name, properties, session, deadline)
    if "topic" not in properties:
        return _create_plain(connections, statement, session)
    if statement.replace:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{name.display} would repeat a topic, so it cannot replace a table",
            hint="DROP TABLE first, or choose another name.",
        )
    properties = {
        **likes.properties(connections, statement.columns, session),
        **properties,
    }
    definition = tables.TableDefinition(
        name=name,
        columns=likes.fields(connections, statement.columns, session) or None,
        **{"cluster": connections.config.default_cluster, **_properties(properties)},
    )
    connections.rights.require_topic(definition.cluster, definition.topic)
    try:
        created = tables.create(connections, definition, deadline)
    except SeamlineError as error:
        # IF NOT EXISTS accepts only a unified table: a plain one never shows topic records
        existing = error.code is TABLE_EXISTS and statement.if_not_exists
        if not existing or not tables.is_unified(connections, name):
            raise
        return done()
    return noted(created.notes)


def alter_table(
    connections: Connections, statement: AlterTable, session: Session, deadline: Deadline
) -> Rows:
    """Runs ALTER TABLE; setting the property `topic` adopts a table that another writer fills.

    Raises:
        SeamlineError: as `alterations.alter` and `adopting.examine`.
    """
    if isinstance(statement.change, SetProperties):
        properties = dict(statement.change.properties)
        if "topic" in properties:
            return _adopt(connections, statement.name, properties, session, deadline)
    return alterations.alter(connections, statement, session, deadline)


def _adopt(
    connections: Connections,
    written: tuple[str, ...],
    properties: Mapping[str, Any],
    session: Session,
    deadline: Deadline,
) -> Rows:
    """Binds a table that another writer fills to its topic; returns the notes about it."""
    name = resolution.resolve(written, session, connections)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be adopted")
    rights, cluster = connections.rights, connections.config.default_cluster
    rights.require_alterable(name)
    adoption = adopting.of_statement(name, properties, cluster)
    rights.require_topic(adoption.cluster, adoption.topic)
    findings = adopting.examine(connections, adoption, deadline)
    adopting.adopt(connections, findings, force=adoption.force)
    return noted(findings.notes)


def _create_plain(connections: Connections, statement: CreateTable, session: Session) -> Rows:
    """Creates a plain Iceberg table without rows."""
    if not statement.columns:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            "CREATE TABLE needs columns, or WITH (topic = '…')",
            hint="A table with a topic combines the topic and its Iceberg copy.",
        )

    def create() -> None:
        table = writes.new_table(connections, statement, session)
        if table is not None:
            fields = [
                dataclasses.replace(field, type=storable(field.type))
                for field in likes.fields(connections, statement.columns, session)
            ]
            writes.create(connections, table, fields, iter(()))

    commits.insist(create)
    return done()


def drop_table(connections: Connections, statement: DropTable, session: Session) -> Rows:
    """Runs DROP TABLE.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, STATEMENT_NOT_ALLOWED, PERMISSION_DENIED, …
    """
    name = resolution.resolve(statement.name, session, connections, is_new=True)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be dropped")
    try:
        connections.rights.require(Privilege.OWNERSHIP, name)
        tables.drop(connections, name)
    except SeamlineError as error:
        if error.code is not TABLE_NOT_FOUND or not statement.if_exists:
            raise
    return dataclasses.replace(done(), dropped=(name.full,))


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    options = {option.name: option for option in OPTIONS}
    unknown = sorted(set(given) - set(options))
    if unknown:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{unknown[0]!r} is not a property of a table",
            hint=f"The properties are {', '.join(options)}.",
        )
    return {name: options[name].value(value) for name, value in given.items()}
