"""The DB-API's exceptions, each carrying the gateway's named error.

The exception class of a failure is derived from its declaration in the one error table.
"""

from __future__ import annotations

from seamline.errors import (
    DIVISION_BY_ZERO,
    EVALUATION_FAILED,
    INVALID_CAST,
    INVALID_LITERAL,
    NOT_SUPPORTED,
    NUMERIC_OVERFLOW,
    SUBQUERY_MULTIPLE_ROWS,
    ErrorKind,
    SeamlineError,
)


class Warning(Exception):  # noqa: A001, N818 - the DB-API's name
    """Required by the DB-API; never raised."""


class Error(SeamlineError):
    """The base of all errors this client raises; has `code`, `message`, `hint` and `query_id`."""


class InterfaceError(Error):
    """The client was used wrongly."""


class DatabaseError(Error):
    """The gateway refused the request."""


class DataError(DatabaseError):
    """A value could not be computed or converted."""


class OperationalError(DatabaseError):
    """Something outside the statement failed: Kafka, the catalog, storage, a limit, the network."""


class IntegrityError(DatabaseError):
    """Required by the DB-API; never raised."""


class InternalError(DatabaseError):
    """A bug in the gateway."""


class ProgrammingError(DatabaseError):
    """The statement, or the request, is wrong."""


class NotSupportedError(DatabaseError):
    """The statement uses something that is not supported."""


_DATA = frozenset(
    {
        DIVISION_BY_ZERO,
        EVALUATION_FAILED,
        INVALID_CAST,
        INVALID_LITERAL,
        NUMERIC_OVERFLOW,
        SUBQUERY_MULTIPLE_ROWS,
    }
)
_BY_KIND = {
    ErrorKind.USER: ProgrammingError,
    ErrorKind.EXTERNAL: OperationalError,
    ErrorKind.INSUFFICIENT_RESOURCES: OperationalError,
    ErrorKind.INTERNAL: InternalError,
}


def class_of(error: SeamlineError) -> type[Error]:
    """Returns the DB-API exception class for a named error."""
    if error.code in _DATA:
        return DataError
    if error.code == NOT_SUPPORTED:
        return NotSupportedError
    return _BY_KIND[error.code.kind]


def as_client_error(error: SeamlineError) -> Error:
    """Converts a named error into a DB-API exception."""
    if isinstance(error, Error):
        return error
    return class_of(error)(
        error.code,
        error.message,
        hint=error.hint,
        location=error.location,
        query_id=error.query_id,
        details=error.details,
    )
