"""CREATE SCHEMA and DROP SCHEMA, for the namespaces of a catalog.

A schema may be created ahead of its first table, which would otherwise create it. Both statements
need OWNERSHIP of any table in the schema, whatever its name. Only an empty schema is dropped,
unless CASCADE drops its views and plain tables, too: all of them or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.errors import (
    PERMISSION_DENIED,
    SCHEMA_EXISTS,
    SCHEMA_NOT_EMPTY,
    SCHEMA_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import tables
from seamline.gateway.commands.rows import Rows, done
from seamline.gateway.names import TableName
from seamline.gateway.system import listings
from seamline.seam.binding import TopicBinding
from seamline.seam.table import TableState
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.statements import CreateSchema, DropSchema


def create(connections: Connections, statement: CreateSchema, session: Session) -> Rows:
    """Runs CREATE SCHEMA.

    Raises:
        SeamlineError: SCHEMA_EXISTS, STATEMENT_NOT_ALLOWED, PERMISSION_DENIED, CATALOG_NOT_FOUND,
            CATALOG_UNAVAILABLE.
    """
    source, schema = _place(connections, statement.name, session)
    if resolution.has_schema(connections, source, schema):
        if statement.if_not_exists:
            return done()
        raise SeamlineError(SCHEMA_EXISTS, f"schema {source}.{schema} already exists")
    _own(connections, source, schema).make_namespace(names.namespace_of(schema))
    return done()


def drop(connections: Connections, statement: DropSchema, session: Session) -> Rows:
    """Runs DROP SCHEMA.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND, SCHEMA_NOT_EMPTY, STATEMENT_NOT_ALLOWED,
            NOT_A_UNIFIED_TABLE, PERMISSION_DENIED, CATALOG_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    source, schema = _place(connections, statement.name, session)
    existing = resolution.find_schema(connections, source, schema)
    if existing is None:
        if statement.if_exists:
            return done()
        raise SeamlineError(
            SCHEMA_NOT_FOUND,
            f"schema {source}.{schema} does not exist",
            hint=did_you_mean(schema, listings.schemas(connections, source)),
        )
    catalog = _own(connections, source, existing)
    namespace = names.namespace_of(existing)
    views = [TableName(source, "", path) for path in catalog.view_store.names(namespace)]
    plain = [TableName(source, "", path) for path in catalog.tables(namespace)]
    inner = catalog.child_namespaces(namespace)
    if inner or ((views or plain) and not statement.cascade):
        raise SeamlineError(
            SCHEMA_NOT_EMPTY,
            f"schema {source}.{schema} has schemas of its own"
            if inner
            else f"schema {source}.{schema} is not empty",
        )
    dropped = _drop_contents(connections, catalog, views, plain)
    catalog.drop_namespace(namespace)
    return dataclasses.replace(done(), dropped=dropped)


def _drop_contents(
    connections: Connections,
    catalog: IcebergCatalog,
    views: Sequence[TableName],
    plain: Sequence[TableName],
) -> tuple[tuple[str, ...], ...]:
    """Drops views and tables, once all of them are known to be droppable.

    Returns:
        The full names of the tables.

    Raises:
        SeamlineError: PERMISSION_DENIED, STATEMENT_NOT_ALLOWED, NOT_A_UNIFIED_TABLE.
    """
    for name in (*views, *plain):
        _require_droppable(connections, name)
    states = [_plain(connections, name) for name in plain]
    for view in views:
        catalog.view_store.drop(view.path)
    for state in states:
        catalog.drop(state.name[1:], purge=False)
    return tuple(state.name for state in states)


def _require_droppable(connections: Connections, name: TableName) -> None:
    """Requires a privilege as DROP TABLE does, without naming what may not be seen.

    Raises:
        SeamlineError: PERMISSION_DENIED.
    """
    rights = connections.rights
    if not rights.table(name).sees:
        raise SeamlineError(
            PERMISSION_DENIED,
            f"{rights.principal.name} may not drop everything in schema {name.schema}",
        )
    rights.require(Privilege.OWNERSHIP, name)


def _plain(connections: Connections, name: TableName) -> TableState:
    """Returns a table that may be dropped together with others because it has no topic.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED, NOT_A_UNIFIED_TABLE, …
    """
    state = tables.droppable(connections, name)
    binding = TopicBinding.from_properties(state.properties)
    if binding is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"table {name.display} repeats topic {binding.topic}, and CASCADE drops only views and "
            "tables without a topic",
            hint="DROP TABLE drops it by name; its topic stays.",
        )
    return state


def _place(connections: Connections, parts: tuple[str, ...], session: Session) -> tuple[str, str]:
    """Returns the catalog and the schema that a name refers to."""
    source = parts[0] if len(parts) > 1 else session.catalog
    defaults = resolution.session(connections.config, source, rights=connections.rights)
    return defaults.catalog, parts[-1]


def _own(connections: Connections, source: str, schema: str) -> IcebergCatalog:
    """Returns the catalog, if its schemas may be created and dropped here.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED, PERMISSION_DENIED.
    """
    config = connections.config.catalogs.get(source)
    is_own = config is not None and config.format.is_writable
    if not is_own or schema.lower() == names.INFORMATION_SCHEMA:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"schema {source}.{schema} can be neither created nor dropped",
            hint="Only schemas of catalogs whose tables can be written to can.",
        )
    any_table = TableName(source, "", (*names.namespace_of(schema), ""))
    connections.rights.require_new(any_table)
    return connections.catalog(source)
