"""Errors in the form of the Iceberg REST specification, which its clients understand.

Clients choose their exception by status and type. The type names one of their exceptions; the
message includes Seamline's name of the error, and the hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask

from seamline.errors import (
    CATALOG_NOT_FOUND,
    CATALOG_READ_ONLY,
    COLD_FILE_MISSING,
    INTERNAL_ERROR,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    PLAN_NOT_FOUND,
    SCHEMA_NOT_FOUND,
    SNAPSHOT_GONE,
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
    NOT_SUPPORTED: "UnsupportedOperationException",
}
_STATUS: Mapping[ErrorCode, int] = {NOT_SUPPORTED: 406, SNAPSHOT_GONE: 404, COLD_FILE_MISSING: 404}


def error_response(error: SeamlineError) -> flask.Response:
    """Returns the answer that carries the error."""
    answer = flask.jsonify(error_body(error))
    answer.status_code = status_of(error.code)
    return answer


def error_body(error: SeamlineError) -> dict[str, Any]:
    """Returns the error, JSON-ready."""
    status = status_of(error.code)
    return {
        "error": {
            "message": str(error).replace("\n", " "),
            "type": _TYPES.get(error.code) or _type(status),
            "code": status,
        }
    }


def status_of(code: ErrorCode) -> int:
    """Returns the HTTP status; it is one that clients retry only if a retry may help."""
    if code in _STATUS:
        return _STATUS[code]
    if code.kind is ErrorKind.USER:
        return code.http_status
    return 503 if code.retriable else INTERNAL_ERROR.http_status


def _type(status: int) -> str:
    if status == 404:
        return "NotFoundException"
    if status == 503:
        return "ServiceUnavailableException"
    return "BadRequestException" if status < 500 else "ServiceFailureException"
