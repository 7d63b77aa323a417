"""Reads the paths and bodies of requests to the Iceberg REST catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import flask
from pydantic import Field

from seamline.errors import (
    SCHEMA_NOT_FOUND,
    UNAUTHENTICATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.http.operations import Body, Query
from seamline.gateway.query.names import TableName

_SEPARATOR = "\x1f"


def table_name(prefix: str, namespace: str, table: str) -> TableName:
    """The table that a path names, of which the caller may see everything.

    Raises:
        SeamlineError: UNAUTHENTICATED when the request's session is another table's;
            CATALOG_NOT_FOUND, TABLE_NOT_FOUND, PERMISSION_DENIED.
    """
    name = TableName(prefix, "", (*namespace_path(namespace), table))
    flask.g.table = name.display
    session = flask.g.caller.session
    if session is not None and session.table != name.full:
        raise SeamlineError(UNAUTHENTICATED, f"the session is not one of table {name.display}")
    flask.g.caller.rights.require_whole(name)
    return name


class SpecBody(Body, extra="ignore"):
    """A body that the specification knows; it may have more than is read of it."""


class SpecQuery(Query, extra="ignore"):
    """A query that the specification knows."""


class PageQuery(SpecQuery):
    """Which part of a list is wanted."""

    page_token: str | None = Field(None, alias="pageToken")
    """Empty at first, then what the last page gave; without it, all is wanted."""
    page_size: int | None = Field(None, alias="pageSize", ge=1)
    """How many a page has."""

    def page(self, field: str, found: Sequence[Any]) -> dict[str, Any]:
        """That part, as it is answered."""
        size, token = self.page_size, self.page_token
        if token is None or not size:
            return {field: list(found)}
        start = int(token) if token.isascii() and token.isdecimal() else 0
        more = str(start + size) if start + size < len(found) else None
        return {field: list(found[start : start + size]), "next-page-token": more}


def namespace_path(text: str) -> tuple[str, ...]:
    """The levels of a namespace."""
    return tuple(text.split(_SEPARATOR)) if text else ()


@contextlib.contextmanager
def missing(code: ErrorCode) -> Iterator[None]:
    """Turns a missing namespace into whatever is missing in it: a table or a view."""
    try:
        yield
    except SeamlineError as error:
        if error.code is not SCHEMA_NOT_FOUND:
            raise
        raise SeamlineError(code, error.message) from error
