"""CREATE VIEW, ALTER VIEW, DROP VIEW and SHOW CREATE VIEW."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamline.connectors.protocols.catalogs import View
from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_VIEW,
    STATEMENT_NOT_ALLOWED,
    TABLE_EXISTS,
    VIEW_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import tables
from seamline.gateway.commands.rows import Rows, done, table
from seamline.gateway.names import TableName
from seamline.gateway.query import views
from seamline.gateway.system import listings
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.locations import locate_errors_at
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.statements import CreateView, DropView, RenameView
from seamline.sql.quoting import quoted_text
from seamline.sql.types import Field, Type

if TYPE_CHECKING:
    from seamline.gateway.commands.context import Context


def create(context: Context[CreateView]) -> Rows:
    """Runs CREATE VIEW.

    Names that omit a catalog and schema have those of the session, also later, in the view.

    Raises:
        SeamlineError: TABLE_EXISTS, INVALID_VIEW, NOT_SUPPORTED, CATALOG_UNAVAILABLE, …; whatever
            is wrong with the query.
    """
    without_values = dataclasses.replace(context, values=())
    planned = context.plan(without_values.query(context.parsed.query))
    output = planned.plan.logical.query.output
    with locate_errors_at(context.parsed.location):
        return _create(context.connections, context.parsed, context.session, output)


def _create(
    connections: Connections, statement: CreateView, session: Session, output: Sequence[Output]
) -> Rows:
    name = _own(connections, statement.name, session, is_new=True)
    connections.rights.require_new(name)
    existing = views.find(connections, name)
    if existing is not None and not statement.replace:
        raise SeamlineError(
            TABLE_EXISTS, f"view {name.display} already exists", hint="CREATE OR REPLACE VIEW"
        )
    if existing is None:
        tables.require_free(connections, name)
    view = View(
        columns=_columns(output),
        texts={"trino": statement.text},
        catalog=session.catalog,
        namespace=names.namespace_of(session.schema),
        comment=statement.comment,
        owner=connections.rights.principal.name if statement.as_owner else None,
    )
    path = existing[0] if existing is not None else name.path
    whole = TableName(name.catalog, "", path)
    views.ViewExpander(connections).require_no_ring(statement.query.tree, session, whole)
    connections.catalog(name.catalog).view_store.put(path, view)
    return done()


def drop(connections: Connections, statement: DropView, session: Session) -> Rows:
    """Runs DROP VIEW.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    name = _own(connections, statement.name, session)
    existing = views.find(connections, name)
    if existing is not None:
        connections.rights.require(Privilege.OWNERSHIP, name)
        connections.catalog(name.catalog).view_store.drop(existing[0])
    elif not statement.if_exists:
        raise _missing(connections, name)
    return done()


def rename(connections: Connections, statement: RenameView, session: Session) -> Rows:
    """Runs ALTER VIEW … RENAME TO: creates a view with the new name, and drops the old one.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, TABLE_EXISTS, STATEMENT_NOT_ALLOWED,
            INVALID_VIEW, CATALOG_UNAVAILABLE, …
    """
    name, view = require(connections, statement.name, session)
    connections.rights.require(Privilege.OWNERSHIP, name)
    to = _own(connections, statement.to, session, is_new=True)
    tables.require_new_name(connections, f"view {name.display}", name.catalog, to)
    store = connections.catalog(name.catalog).view_store
    store.put(to.path, view)
    store.drop(name.path)
    return done()


def show(connections: Connections, parts: tuple[str, ...], session: Session) -> Rows:
    """Runs SHOW CREATE VIEW.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, INVALID_VIEW, CATALOG_UNAVAILABLE; PERMISSION_DENIED for
            whoever may not see all of it.
    """
    name, view = require(connections, parts, session)
    connections.rights.require_all_seen(name, "and so may not see its query")
    _, text = views.text_of(name, view)
    comment = "" if view.comment is None else f"\nCOMMENT {quoted_text(view.comment)}"
    security = "" if view.owner is None else "\nSECURITY DEFINER"
    return table(
        {"Create View": types.VARCHAR},
        [(f"CREATE VIEW {name.display}{comment}{security} AS\n{text}",)],
    )


def comment(
    connections: Connections, parts: tuple[str, ...], session: Session, text: str | None
) -> Rows:
    """Runs COMMENT ON VIEW.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, INVALID_VIEW, CATALOG_UNAVAILABLE.
    """
    name, view = require(connections, parts, session)
    connections.rights.require(Privilege.OWNERSHIP, name)
    changed = dataclasses.replace(view, comment=text)
    connections.catalog(name.catalog).view_store.put(name.path, changed)
    return done()


def comment_on_column(
    connections: Connections, parts: tuple[str, ...], session: Session, text: str | None
) -> Rows:
    """Runs COMMENT ON COLUMN for a column of a view.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, COLUMN_NOT_FOUND, INVALID_VIEW, CATALOG_UNAVAILABLE.
    """
    name, view = require(connections, parts[:-1], session)
    connections.rights.require(Privilege.OWNERSHIP, name)
    by_name = {column.name.lower(): column for column in view.columns}
    meant = by_name.get(parts[-1].lower())
    if meant is None:
        raise SeamlineError(
            COLUMN_NOT_FOUND,
            f"view {name.display} has no column {parts[-1]}",
            hint=did_you_mean(parts[-1], by_name),
        )
    changed = dataclasses.replace(
        view,
        columns=tuple(
            dataclasses.replace(column, comment=text) if column is meant else column
            for column in view.columns
        ),
    )
    connections.catalog(name.catalog).view_store.put(name.path, changed)
    return done()


def require(
    connections: Connections, parts: tuple[str, ...], session: Session
) -> tuple[TableName, View]:
    """Returns the view with a name, and its full name.

    Raises:
        SeamlineError: VIEW_NOT_FOUND, INVALID_VIEW, CATALOG_UNAVAILABLE.
    """
    name = _own(connections, parts, session)
    existing = views.find(connections, name)
    if existing is None:
        raise _missing(connections, name)
    return TableName(name.catalog, "", existing[0]), existing[1]


def _own(
    connections: Connections, parts: tuple[str, ...], session: Session, *, is_new: bool = False
) -> TableName:
    name = resolution.resolve(parts, session, connections, is_new=is_new)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be a view")
    return name


def _missing(connections: Connections, name: TableName) -> SeamlineError:
    if not connections.catalog(name.catalog).has_namespace(name.path[:-1]):
        hint = resolution.nearest(name, connections)
        return SeamlineError(VIEW_NOT_FOUND, f"view {name.display} does not exist", hint=hint)
    if name.path in connections.cold(name.catalog).tables(name.path[:-1]):
        return SeamlineError(
            VIEW_NOT_FOUND,
            f"{name.display} is a table, not a view",
            hint="DROP TABLE, ALTER TABLE, COMMENT ON TABLE and SHOW CREATE TABLE are for tables.",
        )
    others = listings.views(connections, name.catalog, name.schema)
    return SeamlineError(
        VIEW_NOT_FOUND,
        f"view {name.display} does not exist",
        hint=did_you_mean(name.table, (view.table for view in others)),
    )


def _columns(output: Sequence[Output]) -> tuple[Field, ...]:
    seen: set[str] = set()
    fields = []
    for column in output:
        if not column.name or column.name.lower() in seen:
            raise SeamlineError(
                INVALID_VIEW,
                f"the view has two columns named {column.name}"
                if column.name
                else "a column has no name",
                hint="Name each column once, with AS.",
            )
        seen.add(column.name.lower())
        fields.append(Field(column.name, _kept(column.type)))
    return tuple(fields)


def _kept(type_: Type) -> Type:
    """Returns the type of a view's column; a bare NULL becomes varchar, also inside other types."""
    return types.changed(type_, lambda t: types.VARCHAR if t == types.UNKNOWN else t)
