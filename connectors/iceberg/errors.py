"""Turns failures of catalogs and storage into named errors.

A failed connection to a REST catalog is also an `OSError`, but says nothing about storage. So where
both may fail, the catalog's errors are checked first.
"""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    OAuthError,
    ResolveError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from requests import RequestException
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_UNAVAILABLE,
    COLD_FILE_INVALID,
    COLD_FILE_MISSING,
    COMMIT_CONFLICT,
    NOT_SUPPORTED,
    SCHEMA_NOT_FOUND,
    STORAGE_UNAVAILABLE,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    VIEW_NOT_FOUND,
    SeamlineError,
)

TAKEN = (
    "older than last sequence number",
    "first-row-id is behind table next-row-id",
    "first row id smaller than the table's next-row-id",
)
"""How catalogs say that another commit has taken the numbers that a snapshot was to have."""
_FAILURES = (SQLAlchemyError, RESTError, RequestException, ConnectionError, TimeoutError)
_DRIVERS = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "thrift.Thrift": ("TException",),
    "google.api_core.exceptions": ("GoogleAPIError",),
    "google.auth.exceptions": ("GoogleAuthError",),
}
"""Errors of the drivers of catalogs, which are loaded when a catalog needs them, by module."""
_NOT_AS_SPECIFIED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    EOFError,
    MemoryError,
    RecursionError,
    SystemError,
    ResolveError,
    zlib.error,
)
"""What readers raise, besides their own errors, when a file is malformed."""
_NOT_METADATA = frozenset({"json_invalid", "dict_type"})
_REFUSALS = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError, OAuthError)
_REFUSALS_OF_AMAZON = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
_NO_CREDENTIALS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
)
"""Names of Amazon's errors that mean: there is nothing to log in with."""


def _failures() -> tuple[type[Exception], ...]:
    """Returns what catalogs and their drivers raise when a request fails."""
    drivers: list[type[Exception]] = []
    for module, names in _DRIVERS.items():
        if (driver := sys.modules.get(module)) is not None:
            drivers += (getattr(driver, name) for name in names)
    return (*_FAILURES, *drivers)


def is_outage(error: BaseException) -> bool:
    """Whether an error means that a catalog, rather than the files of a table, does not answer.

    What a metastore answers has a Thrift specification; failures of the connection have none.
    """
    is_answer = isinstance(error, IntegrityError) or hasattr(error, "thrift_spec")
    if is_answer or not isinstance(error, _failures()):
        return False
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _response(error: BaseException) -> dict[str, Any]:
    """Returns the response that one of Amazon's errors carries; empty for others."""
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else {}


@contextlib.contextmanager
def catalog_errors(catalog: str, identifier: tuple[str, ...] = ()) -> Iterator[None]:
    """Turns failures of a catalog into named errors."""
    name = ".".join((catalog, *identifier))
    _require_names(catalog, identifier[:-1])
    try:
        yield
    except NoSuchTableError as error:
        raise SeamlineError(TABLE_NOT_FOUND, f"table {name} does not exist") from error
    except NoSuchNamespaceError as error:
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {name} does not exist") from error
    except NoSuchViewError as error:
        raise SeamlineError(VIEW_NOT_FOUND, f"view {name} does not exist") from error
    except TableAlreadyExistsError as error:
        raise SeamlineError(TABLE_EXISTS, f"table {name} already exists") from error
    except CommitFailedException as error:
        raise SeamlineError(COMMIT_CONFLICT, f"table {name}: {error}") from error
    except _failures() as error:
        raise _failure(f"catalog {catalog}", "does not answer", error) from error
    except FileNotFoundError as error:
        raise SeamlineError(
            STORAGE_UNAVAILABLE, f"the metadata file of table {name} is gone: {error}"
        ) from error
    except ValidationError as error:
        raise _unreadable(name, error) from error


@contextlib.contextmanager
def namespace_errors(catalog: str, namespace: tuple[str, ...]) -> Iterator[None]:
    """Turns failures of a catalog, when asked about a namespace, into named errors."""
    _require_names(catalog, namespace)
    with catalog_errors(catalog, namespace):
        yield


def can_exist(namespace: tuple[str, ...]) -> bool:
    """Whether no part of a namespace is empty or has spaces around it.

    PyIceberg does not query the first, and strips the second: it would be another namespace than
    the one that access rules have seen.
    """
    return all(part and part == part.strip() for part in namespace)


def _require_names(catalog: str, namespace: tuple[str, ...]) -> None:
    """Rejects a namespace that cannot exist."""
    if not can_exist(namespace):
        name = ".".join((catalog, *namespace))
        raise SeamlineError(
            SCHEMA_NOT_FOUND,
            f"schema {name} does not exist",
            hint="No level of a schema's name may be empty or surrounded by spaces.",
        )


@contextlib.contextmanager
def metadata_errors(catalog: str, identifier: tuple[str, ...]) -> Iterator[None]:
    """Turns failures to load a table, from its catalog or its metadata, into named errors."""
    name = ".".join((catalog, *identifier))
    with catalog_errors(catalog, identifier):
        try:
            yield
        except (SeamlineError, FileNotFoundError):
            raise
        except _failures():
            raise
        except OSError as error:
            raise SeamlineError(
                STORAGE_UNAVAILABLE, f"the metadata of table {name} cannot be read: {error}"
            ) from error
        except (ValidationError, IcebergValidationError) as error:
            raise _unreadable(name, error) from error
        except _NOT_AS_SPECIFIED as error:
            raise SeamlineError(
                COLD_FILE_INVALID, f"the metadata of table {name} cannot be read: {_line(error)}"
            ) from error


@contextlib.contextmanager
def manifest_errors(what: str, path: str) -> Iterator[None]:
    """Turns failures to read a manifest or a manifest list into named errors.

    Args:
        what: Which of the two it is, for messages.
        path: Where it is.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SeamlineError(COLD_FILE_MISSING, f"{what} {path} does not exist") from error
    except (SeamlineError, OSError):
        raise
    except _NOT_AS_SPECIFIED as error:
        raise SeamlineError(
            COLD_FILE_INVALID, f"{what} {path} cannot be read: {_line(error)}"
        ) from error


@contextlib.contextmanager
def commit_errors(table: str) -> Iterator[None]:
    """Turns failures of a commit into named errors; a `ValueError` is left to the caller."""
    try:
        with storage_errors(f"table {table}"), _overtaking():
            yield
    except CommitFailedException as error:
        raise SeamlineError(COMMIT_CONFLICT, f"table {table}: {error}") from error
    except (CommitStateUnknownException, RequestException) as error:
        raise SeamlineError(
            CATALOG_UNAVAILABLE, f"table {table}: whether the commit landed is unknown: {error}"
        ) from error
    except _failures() as error:
        raise _failure(f"table {table}: the catalog", "accepts no commit", error) from error


@contextlib.contextmanager
def _overtaking() -> Iterator[None]:
    """Recognizes that another commit, to whatever branch, has taken a number of this one."""
    try:
        yield
    except (ValueError, RESTError) as error:
        if any(text in str(error) for text in TAKEN):
            raise CommitFailedException(str(error)) from error
        raise


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turns failures of file access into named errors."""
    try:
        yield
    except (SeamlineError, RequestException):
        raise
    except OSError as error:
        raise SeamlineError(STORAGE_UNAVAILABLE, f"{what}: {error}") from error


def _failure(who: str, what: str, error: Exception) -> SeamlineError:
    cause = getattr(error, "orig", None) or error
    if isinstance(error, _REFUSALS) or _is_refusal_of_amazon(error):
        return SeamlineError(CATALOG_ACCESS_DENIED, f"{who} refuses: {cause}")
    return SeamlineError(CATALOG_UNAVAILABLE, f"{who} {what}: {cause}")


def _is_refusal_of_amazon(error: Exception) -> bool:
    code = _response(error).get("Error", {}).get("Code")
    return code in _REFUSALS_OF_AMAZON or type(error).__name__ in _NO_CREDENTIALS


def _unreadable(name: str, error: ValidationError | IcebergValidationError) -> SeamlineError:
    """Returns the error for metadata that is malformed, or of an unsupported version or type."""
    found = error if isinstance(error, ValidationError) else error.__cause__
    if not isinstance(found, ValidationError):
        return SeamlineError(
            COLD_FILE_INVALID, f"the metadata of table {name} contradicts itself: {_line(error)}"
        )
    details = found.errors(include_url=False)
    reasons = "; ".join(dict.fromkeys(_line(detail["msg"]) for detail in details))
    if {detail["type"] for detail in details} & _NOT_METADATA:
        return SeamlineError(
            COLD_FILE_INVALID, f"the metadata file of table {name} is not valid: {reasons}"
        )
    return SeamlineError(
        NOT_SUPPORTED,
        f"table {name}: its metadata contains what cannot be read here: {reasons}",
        hint="Read the table with its writer's own tools.",
    )


def _line(what: object) -> str:
    return " ".join(str(what).split())[:300]
