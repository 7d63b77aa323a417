"""Errors in the form of the Iceberg REST specification, which its clients understand.

Clients choose their exception by status and type. The type names one of their exceptions; the
message includes Seamline's name of the error, and the hint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import flask

from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_NOT_FOUND,
    CATALOG_READ_ONLY,
    COLD_FILE_MISSING,
    COMMIT_CONFLICT,
    INVALID_REQUEST,
    LOCATION_NOT_ALLOWED,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    PLAN_NOT_FOUND,
    PROPERTY_NOT_ALLOWED,
    SCHEMA_EXISTS,
    SCHEMA_NOT_EMPTY,
    SCHEMA_NOT_FOUND,
    SNAPSHOT_GONE,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    UNAUTHENTICATED,
    VIEW_NOT_FOUND,
    ErrorCode,
    ErrorKind,
    SeamlineError,
)

_TYPES: Mapping[ErrorCode, str] = {
    CATALOG_NOT_FOUND: "NoSuchWarehouseException",
    SCHEMA_NOT_FOUND: "NoSuchNamespaceException",
    TABLE_NOT_FOUND: "NoSuchTableException",
    VIEW_NOT_FOUND: "NoSuchViewException",
    PLAN_NOT_FOUND: "NoSuchPlanIdException",
    UNAUTHENTICATED: "NotAuthorizedException",
    PERMISSION_DENIED: "ForbiddenException",
    CATALOG_READ_ONLY: "ForbiddenException",
    CATALOG_ACCESS_DENIED: "ForbiddenException",
    LOCATION_NOT_ALLOWED: "ForbiddenException",
    PROPERTY_NOT_ALLOWED: "ForbiddenException",
    NOT_SUPPORTED: "UnsupportedOperationException",
    TABLE_EXISTS: "AlreadyExistsException",
    SCHEMA_EXISTS: "AlreadyExistsException",
    SCHEMA_NOT_EMPTY: "NamespaceNotEmptyException",
    COMMIT_CONFLICT: "CommitFailedException",
}
_STATUS: Mapping[ErrorCode, int] = {
    NOT_SUPPORTED: 406,
    SNAPSHOT_GONE: 404,
    COLD_FILE_MISSING: 404,
    COMMIT_CONFLICT: 409,
    CATALOG_ACCESS_DENIED: 403,
    LOCATION_NOT_ALLOWED: 403,
    PROPERTY_NOT_ALLOWED: 403,
}
_REPEATED = frozenset({502, 503, 504})
"""Statuses after which clients send a request again."""
_CERTAIN = frozenset(
    {
        *(COMMIT_CONFLICT, TABLE_EXISTS, TABLE_NOT_FOUND, VIEW_NOT_FOUND, SCHEMA_NOT_FOUND),
        *(INVALID_REQUEST, CATALOG_READ_ONLY),
        *(NOT_SUPPORTED, CATALOG_ACCESS_DENIED, LOCATION_NOT_ALLOWED, PROPERTY_NOT_ALLOWED),
    }
)
"""Errors of a commit that guarantee that nothing was committed."""


@contextlib.contextmanager
def landing() -> Iterator[None]:
    """Marks errors that may come after a commit has landed, so that clients keep their files.

    Clients remove the files of a commit that failed, unless the answer says that the outcome is
    unknown.
    """
    try:
        yield
    except SeamlineError as error:
        flask.g.is_in_doubt = error.code not in _CERTAIN
        raise


def error_response(error: SeamlineError) -> flask.Response:
    """Returns the answer that carries the error."""
    if flask.g.get("is_in_doubt"):
        answer = flask.jsonify(_body(error, 500, "CommitStateUnknownException"))
        answer.status_code = 500
        return answer
    answer = flask.jsonify(error_body(error))
    answer.status_code = status_of(error.code)
    return answer


def error_body(error: SeamlineError) -> dict[str, Any]:
    """Returns the error, JSON-ready."""
    status = status_of(error.code)
    return _body(error, status, _TYPES.get(error.code) or _type(status))


def _body(error: SeamlineError, status: int, kind: str) -> dict[str, Any]:
    message = str(error).replace("\n", " ")
    return {"error": {"message": message, "type": kind, "code": status}}


def status_of(code: ErrorCode) -> int:
    """Returns the HTTP status; clients retry it only if a retry may help.

    Iceberg's Java library repeats a read that ends with 500, for up to a minute.
    """
    if code in _STATUS:
        return _STATUS[code]
    if code.kind in (ErrorKind.USER, ErrorKind.INTERNAL):
        return code.http_status
    if code.retriable:
        return 503
    return 422 if code.http_status in _REPEATED else code.http_status


def _type(status: int) -> str:
    if status == 404:
        return "NotFoundException"
    if status == 503:
        return "ServiceUnavailableException"
    return "BadRequestException" if status < 500 else "ServiceFailureException"
