"""CREATE SCHEMA and DROP SCHEMA, for the namespaces of a catalog.

A schema may be created ahead of its first table, which would otherwise create it. Both statements
need OWNERSHIP of any table in the schema, whatever its name. Only an empty schema is dropped.
"""

from __future__ import annotations

from seamline.connectors.iceberg.catalog import IcebergCatalog
from seamline.errors import (
    SCHEMA_EXISTS,
    SCHEMA_NOT_EMPTY,
    SCHEMA_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway.commands.rows import Rows, done
from seamline.gateway.connections import Connections
from seamline.gateway.query import names
from seamline.gateway.query.names import Session, TableName
from seamline.sql.statements import CreateSchema, DropSchema


def create(connections: Connections, statement: CreateSchema, session: Session) -> Rows:
    """Runs CREATE SCHEMA.

    Raises:
        SeamlineError: SCHEMA_EXISTS, STATEMENT_NOT_ALLOWED, PERMISSION_DENIED, CATALOG_NOT_FOUND,
            CATALOG_UNAVAILABLE.
    """
    source, schema = _place(connections, statement.name, session)
    if names.has_schema(connections, source, schema):
        if statement.if_not_exists:
            return done()
        raise SeamlineError(SCHEMA_EXISTS, f"schema {source}.{schema} exists already")
    _own(connections, source, schema).make_namespace(names.namespace_of(schema))
    return done()


def drop(connections: Connections, statement: DropSchema, session: Session) -> Rows:
    """Runs DROP SCHEMA.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND, SCHEMA_NOT_EMPTY, STATEMENT_NOT_ALLOWED,
            PERMISSION_DENIED, CATALOG_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    source, schema = _place(connections, statement.name, session)
    if not names.has_schema(connections, source, schema):
        if statement.if_exists:
            return done()
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {source}.{schema} does not exist")
    catalog = _own(connections, source, schema)
    spellings = (names.namespace_of(schema), names.namespace_of(schema.lower()))
    namespace = next(name for name in spellings if catalog.has_namespace(name))
    tables, views = catalog.tables(namespace), catalog.view_store.names(namespace)
    if tables or views or catalog.child_namespaces(namespace):
        raise SeamlineError(SCHEMA_NOT_EMPTY, f"schema {source}.{schema} is not empty")
    catalog.drop_namespace(namespace)
    return done()


def _place(connections: Connections, parts: tuple[str, ...], session: Session) -> tuple[str, str]:
    """Returns the catalog and the schema that a name refers to."""
    source = parts[0] if len(parts) > 1 else session.catalog
    return names.session(connections.config, source, rights=connections.rights).catalog, parts[-1]


def _own(connections: Connections, source: str, schema: str) -> IcebergCatalog:
    """Returns the catalog, if its schemas may be created and dropped here.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED, PERMISSION_DENIED.
    """
    known = connections.config.catalogs.get(source)
    if known is None or known.is_delta or schema.lower() == names.INFORMATION_SCHEMA:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"schema {source}.{schema} can neither be made nor dropped",
            hint="Schemas of Iceberg catalogs can.",
        )
    any_table = TableName(source, "", (*names.namespace_of(schema), ""))
    connections.rights.require_new(any_table)
    return connections.catalog(source)
