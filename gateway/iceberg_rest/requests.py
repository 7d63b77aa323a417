"""Reads the paths and bodies of requests to the Iceberg REST catalog."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import flask
from pydantic import Field

from seamline.errors import (
    INVALID_REQUEST,
    SCHEMA_NOT_FOUND,
    UNAUTHENTICATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.http.operations import Body, Headers, Query
from seamline.gateway.iceberg_rest import storage_access
from seamline.gateway.names import TableName

if TYPE_CHECKING:
    from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
    from seamline.gateway.iceberg_rest.catalog import IcebergRest

_SEPARATOR = "\x1f"


def table_name(prefix: str, namespace: str, table: str) -> TableName:
    """Returns the table that a path names, if the caller may see all of it.

    Raises:
        SeamlineError: UNAUTHENTICATED when the request's session belongs to another table;
            CATALOG_NOT_FOUND, TABLE_NOT_FOUND, PERMISSION_DENIED.
    """
    name = TableName(prefix, "", (*namespace_path(namespace), table))
    require_whole(name)
    return name


def require_whole(name: TableName) -> None:
    """Requires that the caller may see all of a table, and that its session is that table's.

    Raises:
        SeamlineError: as `table_name`.
    """
    flask.g.table = name.display
    session = flask.g.caller.session
    if session is not None and session.table != name.full:
        raise SeamlineError(UNAUTHENTICATED, f"the session does not belong to table {name.display}")
    flask.g.caller.rights.require_whole(name)


class DelegationHeaders(Headers):
    """How a client gets access to the files of a table."""

    delegation: str = Field("", alias=storage_access.DELEGATION_HEADER)
    """`vended-credentials` if the client wants credentials for the files."""

    @property
    def asks_for_credentials(self) -> bool:
        """Whether the client wants credentials."""
        return storage_access.asks_for_credentials(self.delegation)


class SpecBody(Body, extra="ignore"):
    """A body that the specification defines; fields that are not declared here are ignored."""


class SpecQuery(Query, extra="ignore"):
    """A query string that the specification defines; other parameters are ignored."""


class PageQuery(SpecQuery):
    """Which part of a list to return."""

    page_token: str | None = Field(None, alias="pageToken")
    """Empty for the first page, then `next-page-token` of the last one; absent for all entries."""
    page_size: int | None = Field(None, alias="pageSize", ge=1)
    """The number of entries on a page."""

    def page(self, field: str, items: Sequence[Any]) -> dict[str, Any]:
        """Returns the requested part of a list, in the form of the answer."""
        size, token = self.page_size or len(items), self.page_token
        if token is None or not (token or self.page_size):
            return {field: list(items)}
        if token and not re.fullmatch(r"[0-9]{1,18}", token):
            raise SeamlineError(INVALID_REQUEST, "the page token does not belong to this list")
        start = int(token or 0)
        more = str(start + size) if start + size < len(items) else None
        return {field: list(items[start : start + size]), "next-page-token": more}


def namespace_path(text: str) -> tuple[str, ...]:
    """Returns the levels of a namespace."""
    return tuple(text.split(_SEPARATOR)) if text else ()


def catalog_of(rest: IcebergRest, name: str) -> IcebergCatalog:
    """Returns a catalog, if the caller may see it.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND; NOT_SUPPORTED if its tables are not served.
    """
    flask.g.caller.rights.check_catalog(name)
    format_ = rest.connections.format(name)
    if not format_.is_served:
        raise format_.refuses(f"catalog {name}")
    return rest.connections.catalog(name)


@contextlib.contextmanager
def missing(code: ErrorCode) -> Iterator[None]:
    """Turns the error of a missing namespace into that of the table or view missing in it."""
    try:
        yield
    except SeamlineError as error:
        if error.code is not SCHEMA_NOT_FOUND:
            raise
        raise SeamlineError(code, error.message) from error
