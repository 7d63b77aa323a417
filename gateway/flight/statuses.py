"""Errors as gRPC carries them: a status, a text with a hint, and the whole error as JSON.

The message is for people: the error's name, its cause, its place and what to do. Programs find the
name in the trailer `seamline-code`, and the whole error in `seamline-error-bin`, if it is not too
large for a header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import grpc

from seamline.errors import (
    CANCELED,
    DEADLINE_EXCEEDED,
    METHOD_NOT_ALLOWED,
    NOT_SUPPORTED,
    TABLE_EXISTS,
    ErrorCode,
    ErrorKind,
    SeamlineError,
)

_MESSAGE_MAX = 4000
"""Size limit of the message, and of the JSON, as clients accept only a few kilobytes of headers."""

_BY_CODE: Mapping[ErrorCode, Any] = {
    CANCELED: grpc.StatusCode.CANCELLED,
    DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    METHOD_NOT_ALLOWED: grpc.StatusCode.UNIMPLEMENTED,
    NOT_SUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    TABLE_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
}
_BY_HTTP_STATUS: Mapping[int, Any] = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
}
_BY_KIND: Mapping[ErrorKind, Any] = {
    ErrorKind.USER: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorKind.EXTERNAL: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorKind.INSUFFICIENT_RESOURCES: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorKind.INTERNAL: grpc.StatusCode.INTERNAL,
}


def status_of(code: ErrorCode) -> Any:
    """Returns the gRPC status for an error code."""
    status = _BY_CODE.get(code) or _BY_HTTP_STATUS.get(code.http_status)
    return status or _BY_KIND[code.kind]


def refuse(context: Any, error: SeamlineError) -> NoReturn:
    """Ends a call with an error."""
    text, body = str(error), json.dumps(error.to_json(), default=str).encode()
    trailers: list[tuple[str, str | bytes]] = [("seamline-code", error.code.name)]
    if len(body) <= _MESSAGE_MAX:
        trailers.append(("seamline-error-bin", body))
    context.set_trailing_metadata(tuple(trailers))
    context.abort(status_of(error.code), _cut(text, error.hint))
    raise AssertionError("abort raises")


def _cut(text: str, hint: str) -> str:
    """Returns the text with its middle left out if it is too long; its end says what to do."""
    if len(text) <= _MESSAGE_MAX:
        return text
    end = f"\nhint: {hint}" if hint else ""
    return f"{text[: _MESSAGE_MAX - len(hint)]} …{end}"
