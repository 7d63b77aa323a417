"""`CREATE TABLE x (LIKE t)`: the columns of another table and, on request, its properties.

A column keeps its name, its type, whether it may be null, and its comment. Hidden columns are left
out, and so are those that the user may not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seamline.connectors.iceberg import layout
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import storable
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.errors import NOT_SUPPORTED, STATEMENT_NOT_ALLOWED, TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import tables
from seamline.gateway.names import TableName
from seamline.gateway.query import views
from seamline.gateway.query.loaded import LoadedTables
from seamline.seam.binding import TopicBinding
from seamline.sql import columns
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing.statements import ColumnDefinition, LikeTable
from seamline.sql.types import Field


def fields(
    connections: Connections, elements: Sequence[ColumnDefinition | LikeTable], session: Session
) -> tuple[Field, ...]:
    """Returns the columns of a table to be created, in the order in which they are written.

    Args:
        connections: Clusters and catalogs.
        elements: What is between the parentheses of CREATE TABLE.
        session: The catalog and schema for names that omit them.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, PERMISSION_DENIED, …
    """
    fields: list[Field] = []
    for element in elements:
        if isinstance(element, ColumnDefinition):
            fields += tables.fields_of([element])
            continue
        with locate_errors_at(element.location):
            name, table = _found(connections, element, session)
            for field in connections.rights.table(name).columns(table.state.schema.columns):
                if field.name not in columns.METADATA_NAMES:
                    type_, comment = storable(field.type), field.comment
                    copy = Field(field.name, type_, required=field.required, comment=comment)
                    fields.append(copy)
    return tuple(fields)


def properties(
    connections: Connections, elements: Sequence[ColumnDefinition | LikeTable], session: Session
) -> dict[str, Any]:
    """Returns the properties that a plain table to be created takes from another one.

    Args:
        connections: Clusters and catalogs.
        elements: What is between the parentheses of CREATE TABLE.
        session: The catalog and schema for names that omit them.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, PERMISSION_DENIED, …; STATEMENT_NOT_ALLOWED for a table
            with a topic, NOT_SUPPORTED for a layout that no property can express.
    """
    for element in elements:
        if isinstance(element, LikeTable) and element.takes_properties:
            with locate_errors_at(element.location):
                return _properties(connections, *_found(connections, element, session))
    return {}


def _properties(connections: Connections, name: TableName, table: ColdTable) -> dict[str, Any]:
    connections.rights.require_all_seen(name, "and so may not copy its properties")
    binding = TopicBinding.from_properties(table.state.properties)
    if binding is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{name.display} repeats topic {binding.topic}, which is not a property to copy",
            hint="LIKE without INCLUDING PROPERTIES copies only its columns.",
        )
    if not isinstance(table, IcebergTable):
        raise connections.format(name.catalog).refuses(f"catalog {name.catalog}")
    metadata = table.iceberg.metadata
    schema = metadata.schema()
    found = {
        "format_version": metadata.format_version,
        "partitioning": layout.partition_words(schema, metadata.spec()),
        "sorted_by": layout.sort_words(schema, metadata.sort_order()),
    }
    return {name: value for name, value in found.items() if value}


def _found(
    connections: Connections, element: LikeTable, session: Session
) -> tuple[TableName, ColdTable]:
    """Returns the table, whose columns the user may read.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, PERMISSION_DENIED, …; NOT_SUPPORTED for anything that is not
            a table of a catalog.
    """
    name = resolution.resolve(element.name, session, connections)
    if not name.is_own_table:
        raise _no_table(name)
    connections.rights.require(Privilege.SELECT, name)
    try:
        return name, LoadedTables(connections).now([name])[name]
    except SeamlineError as error:
        if error.code is TABLE_NOT_FOUND and views.find(connections, name) is not None:
            raise _no_table(name) from error
        raise


def _no_table(name: TableName) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"LIKE copies the columns of a table, and {name.display} is not a table of a catalog",
        hint=f"CREATE TABLE … AS SELECT * FROM {name.display} WITH NO DATA",
    )
