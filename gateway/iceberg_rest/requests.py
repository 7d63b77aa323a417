"""Reads the paths and bodies of requests to the Iceberg REST catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import flask

from seamline.errors import (
    INVALID_REQUEST,
    SCHEMA_NOT_FOUND,
    UNAUTHENTICATED,
    ErrorCode,
    SeamlineError,
)
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


def body() -> dict[str, Any]:
    """The JSON object in the request's body.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    found = flask.request.get_json(silent=True)
    if not isinstance(found, dict):
        raise SeamlineError(INVALID_REQUEST, "the body is not a JSON object")
    return found


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
