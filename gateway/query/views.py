"""Views in statements: each becomes its subquery, with names resolved by the view's own session.

A view is only looked up where no table of a name is found, so statements without views pay nothing.
Names in a view are resolved by the catalog and schema it was created with, never by those of its
reader. They are read with the reader's rights, or with those of the view's owner if the view was
created so; then the owner must have the right to let others read them.
"""

from __future__ import annotations

from sqlglot import exp

from seamline.connectors.protocols.catalogs import View, views_of
from seamline.errors import (
    INVALID_VIEW,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    VIEW_IS_RECURSIVE,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Sources, as_owner
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.names import TableName
from seamline.sql.binder.qualify import tables_of
from seamline.sql.binder.views import Expansion, expanded, read_as
from seamline.sql.locations import locate_errors_at, location_of, location_of_name
from seamline.sql.parsing import parse
from seamline.sql.parsing.changes import changes_of, name_of
from seamline.sql.parsing.statements import Query
from seamline.sql.row_filters_and_masks import Restriction

_DIALECTS = ("trino", "presto", "seamline", "spark", "duckdb")
"""Dialects of a view's texts, in order of preference; without any of these, any other is read."""
_DEPTH_MAX = 20


class ViewExpander:
    """Replaces views by their queries.

    Args:
        sources: Catalogs.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def expand(self, tree: exp.Expr, session: Session) -> exp.Expr | None:
        """Returns the tree with every view replaced; None if it names none.

        Raises:
            SeamlineError: VIEW_IS_RECURSIVE, INVALID_VIEW, NOT_SUPPORTED, CATALOG_UNAVAILABLE;
                PERMISSION_DENIED for a view that the caller may not select from.
        """
        expanded = tree.copy()
        return expanded if self._expand(expanded, session, ()) else None

    def require_no_ring(self, tree: exp.Expr, session: Session, name: TableName) -> None:
        """Checks that a view being created does not read itself.

        Args:
            tree: The view's query.
            session: The defaults for names in the query.
            name: The name of the view.

        Raises:
            SeamlineError: VIEW_IS_RECURSIVE.
        """
        self._expand(tree.copy(), session, (name,))

    def _expand(
        self,
        tree: exp.Expr,
        session: Session,
        around: tuple[TableName, ...],
        owner: str | None = None,
    ) -> bool:
        """Replaces the views of a tree in place; inside views, all names become full names.

        Args:
            tree: The tree.
            session: The defaults for its names.
            around: The views that it is in, outermost first.
            owner: The owner with whose rights it reads; None for the statement's user.
        """
        changed, sources = False, as_owner(self._sources, owner)
        for table in tables_of(tree):
            with locate_errors_at(location_of_name(table)):
                name = resolution.resolve(name_of(table), session, sources)
            if owner is not None:
                sources.rights.require_shared(name, around[-1].display)
                read_as(table, owner)
            existing = find(sources, name)
            if changes_of(table) is not None and (existing is not None or around):
                raise SeamlineError(
                    NOT_SUPPORTED,
                    "changes can be read from a table, but not from a view or inside one",
                    location=location_of(table),
                    hint="Read the changes of the tables that the view reads.",
                )
            if existing is not None:
                path, view = existing
                whole = TableName(name.catalog, "", path)
                table.replace(self._subquery(table, whole, view, around, owner))
                changed = True
            elif around:
                _write_whole(table, name)
        return changed

    def _subquery(
        self,
        table: exp.Table,
        name: TableName,
        view: View,
        around: tuple[TableName, ...],
        owner: str | None,
    ) -> exp.Subquery:
        location = location_of_name(table)
        with locate_errors_at(location):
            restriction = restriction_of(self._sources, name, owner)
        if name in around or len(around) >= _DEPTH_MAX:
            raise SeamlineError(
                VIEW_IS_RECURSIVE, f"view {name.display} reads itself", location=location
            )
        if table.args.get("version") is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{name.display} is a view, which has no history of its own",
                location=location,
                hint="Read the history of the tables that it reads.",
            )
        owner = self._owner(view, owner)
        try:
            inner = self.body(name, view)
            self._expand(inner, self._session(name, view), (*around, name), owner)
        except SeamlineError as error:
            error.location = location or error.location
            if owner is not None and error.code is not PERMISSION_DENIED:
                error.hint = error.code.hint  # its own would suggest names that only the owner sees
            raise
        is_renamed = table.args.get("alias") is not None
        whole = tuple(part.lower() for part in name.full)
        return expanded(inner, table, Expansion(whole, view.columns, is_renamed, restriction))

    def _owner(self, view: View, around: str | None) -> str | None:
        """Returns the owner with whose rights a view reads; None for the statement's user.

        Args:
            view: The view.
            around: The owner with whose rights the view itself is read.
        """
        owner = around if view.owner is None else view.owner
        return None if owner == self._sources.rights.principal.name else owner

    def body(self, name: TableName, view: View) -> exp.Expr:
        """Returns the query of a view, without locations, which would refer to another text.

        Raises:
            SeamlineError: INVALID_VIEW.
        """
        dialect, text = text_of(name, view)
        try:
            parsed = parse.parse(text, dialect=None if dialect in _DIALECTS[:3] else dialect)
        except SeamlineError as error:
            raise SeamlineError(INVALID_VIEW, f"view {name.display}: {error.message}") from error
        if not isinstance(parsed, Query):
            raise SeamlineError(INVALID_VIEW, f"view {name.display} is not a query")
        for node in parsed.tree.walk():
            for key in ("line", "col", "start", "end"):
                node.meta.pop(key, None)
        for table in parsed.tree.find_all(exp.Table):
            if table.catalog and table.catalog == view.catalog and not self._knows(table.catalog):
                table.set("catalog", exp.to_identifier(name.catalog, quoted=True))
        return parsed.tree

    def _session(self, name: TableName, view: View) -> Session:
        """Returns the defaults for names in a view.

        Another engine may know the catalog by another name.
        """
        has_session = view.catalog is not None and self._knows(view.catalog)
        catalog = view.catalog if has_session and view.catalog is not None else name.catalog
        return Session(catalog, names.schema_text(view.namespace or name.path[:-1]))

    def _knows(self, catalog: str) -> bool:
        config = self._sources.config
        return catalog in {*config.catalogs, *config.clusters, names.SYSTEM_CATALOG}


def restriction_of(sources: Sources, name: TableName, owner: str | None) -> Restriction:
    """Returns which rows and columns of a table, or of a view, are seen where a statement reads it.

    Args:
        sources: Catalogs, as the statement's user may see them.
        name: The name.
        owner: The owner of the view that names it, if it is read with that user's rights.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, PERMISSION_DENIED, …
    """
    rights = as_owner(sources, owner).rights
    restriction = rights.restriction(name)
    return restriction if owner is None else restriction.of_user(owner, rights.principal.groups)


def find(sources: Sources, name: TableName) -> tuple[tuple[str, ...], View] | None:
    """Returns the path of a view in its catalog, and the view; None if there is none.

    Raises:
        SeamlineError: INVALID_VIEW, CATALOG_UNAVAILABLE.
    """
    store = views_of(sources.cold(name.catalog)) if name.is_own_table else None
    if store is None:
        return None
    for path in dict.fromkeys((name.path, tuple(part.lower() for part in name.path))):
        view = store.find(path)
        if view is not None:
            return path, view
    return None


def text_of(name: TableName, view: View) -> tuple[str, str]:
    """Returns the dialect and the text of a view's query.

    Raises:
        SeamlineError: INVALID_VIEW when it has no text.
    """
    for dialect in (*_DIALECTS, *view.texts):
        if dialect in view.texts:
            return dialect, view.texts[dialect]
    raise SeamlineError(INVALID_VIEW, f"view {name.display} has no SQL")


def _write_whole(table: exp.Table, name: TableName) -> None:
    """Writes a name with all its parts; how the query refers to the table does not change."""
    table_text = table.this.name if name.variant else name.table
    for argument, text in (
        ("catalog", name.catalog or name.cluster),
        ("db", name.schema),
        ("this", table_text),
    ):
        table.set(argument, exp.to_identifier(text, quoted=True))
