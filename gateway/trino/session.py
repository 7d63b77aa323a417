"""The session of a Trino client, which the client keeps and sends along in headers.

    X-Trino-Catalog, -Schema          catalog and schema for names that omit them
    X-Trino-Session                   name=value, …; values URL-encoded
    X-Trino-Prepared-Statement        name=text, …; both URL-encoded
    X-Trino-Transaction-Id            NONE, or the id that START TRANSACTION returned
    X-Trino-User                      the user that the client claims to be
    X-Trino-Time-Zone                 the zone the client runs in; SET TIME ZONE takes precedence
    X-Trino-Source, -Client-Tags      what the client says about itself

Changes that a statement makes to the session go back in headers, and the client sends them from
then on. All other headers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from werkzeug.datastructures import Headers

from seamline.errors import INVALID_REQUEST, PERMISSION_DENIED, SeamlineError
from seamline.gateway.statements.statement import NO_TRANSACTION, StatementRequest

PREFIX = "X-Trino-"
_PREPARED_BYTES_MAX = 60_000
"""Clients read header lines of up to 64 KiB, and so does the gateway."""


def request_of(text: str, headers: Headers) -> StatementRequest:
    """Returns a client's request.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    transaction = _header(headers, "Transaction-Id")
    return StatementRequest(
        statement=text,
        catalog=_header(headers, "Catalog"),
        schema=_header(headers, "Schema"),
        time_zone=_header(headers, "Time-Zone"),
        properties=dict(_pairs(headers, "Session")),
        prepared=dict(_pairs(headers, "Prepared-Statement")),
        transaction=transaction or NO_TRANSACTION,
        source=_header(headers, "Source"),
        client_tags=tuple(_items(headers, "Client-Tags")),
        carries_tokens=False,
        prepared_bytes_max=_PREPARED_BYTES_MAX,
    )


def check_user(headers: Headers, principal: str) -> None:
    """Requires that the user in the headers is the authenticated principal.

    Raises:
        SeamlineError: PERMISSION_DENIED.
    """
    for name in ("User", "Original-User"):
        user = _header(headers, name)
        if user is not None and user != principal:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{principal} cannot act as {user}",
                hint=f"Connect as user {principal}, or leave out the user.",
            )


def changed(changes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the headers that carry a statement's changes to its session.

    Args:
        changes: The changes, in the form of `Statement.changes`.
    """
    for name in ("catalog", "schema"):
        if name in changes:
            yield f"{PREFIX}Set-{name.title()}", _latin(changes[name])
    for name, value in changes.get("properties", {}).items():
        if value is None:
            yield f"{PREFIX}Clear-Session", name
        else:
            yield f"{PREFIX}Set-Session", f"{name}={quote_plus(value)}"
    for name, text in changes.get("prepared", {}).items():
        if text is None:
            yield f"{PREFIX}Deallocated-Prepare", quote_plus(name)
        else:
            yield f"{PREFIX}Added-Prepare", f"{quote_plus(name)}={quote_plus(text)}"
    if "transaction" in changes:
        begun = changes["transaction"]
        if begun is None:
            yield f"{PREFIX}Clear-Transaction-Id", "true"
        else:
            yield f"{PREFIX}Started-Transaction-Id", begun


def _header(headers: Headers, name: str) -> str | None:
    """Returns a header's text, decoded as UTF-8; None when it is missing or empty."""
    value = headers.get(PREFIX + name, "").strip()
    try:
        value = value.encode("latin-1").decode()
    except UnicodeError as error:
        raise SeamlineError(INVALID_REQUEST, f"the header {PREFIX}{name} is not UTF-8") from error
    return value or None


def _items(headers: Headers, name: str) -> Iterator[str]:
    for item in (_header(headers, name) or "").split(","):
        if item.strip():
            yield item.strip()


def _pairs(headers: Headers, name: str) -> Iterator[tuple[str, str]]:
    for item in _items(headers, name):
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise SeamlineError(
                INVALID_REQUEST,
                f"the header {PREFIX}{name} is not a list of name=value",
                hint="Values must be URL-encoded.",
            )
        yield unquote_plus(key.strip()), unquote_plus(value.strip())


def _latin(text: str) -> str:
    """Returns the text's UTF-8 bytes as Latin-1 characters, as WSGI carries them."""
    return text.encode().decode("latin-1")
