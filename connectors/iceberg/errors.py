"""What catalogs and storage fail with, as named errors.

A REST catalog's connection fails with an `OSError` that is no matter of storage; so the catalog is
asked first, here and wherever both may fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from seamline.sql.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_UNAVAILABLE,
    COMMIT_CONFLICT,
    NOT_SUPPORTED,
    SCHEMA_NOT_FOUND,
    STORAGE_UNAVAILABLE,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    VIEW_NOT_FOUND,
    SeamlineError,
)

_FAILURES = (SQLAlchemyError, RESTError, RequestException, ConnectionError, TimeoutError)
_REFUSALS = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError, OAuthError)


@contextlib.contextmanager
def catalog_errors(catalog: str, identifier: tuple[str, ...] = ()) -> Iterator[None]:
    """Gives what a catalog answers, or that it does not, its name.

    Args:
        catalog: Name of the catalog.
        identifier: What it is asked for there.
    """
    name = ".".join((catalog, *identifier))
    try:
        yield
    except NoSuchTableError as error:
        raise SeamlineError(TABLE_NOT_FOUND, f"table {name} does not exist") from error
    except NoSuchNamespaceError as error:
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {name} does not exist") from error
    except NoSuchViewError as error:
        raise SeamlineError(VIEW_NOT_FOUND, f"view {name} does not exist") from error
    except TableAlreadyExistsError as error:
        raise SeamlineError(TABLE_EXISTS, f"table {name} exists already") from error
    except CommitFailedException as error:
        raise SeamlineError(COMMIT_CONFLICT, f"table {name}: {error}") from error
    except ValidationError as error:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"table {name}: its metadata holds what cannot be read here: {_reasons(error)}",
            hint="Read the table with Spark.",
        ) from error
    except _FAILURES as error:
        raise _failure(f"catalog {catalog}", "does not answer", error) from error
    except FileNotFoundError as error:
        raise SeamlineError(
            STORAGE_UNAVAILABLE, f"the metadata file of table {name} is gone: {error}"
        ) from error


@contextlib.contextmanager
def commit_errors(table: str) -> Iterator[None]:
    """Gives what a commit fails with its name; `ValueError` is its caller's.

    Args:
        table: Name of the table.
    """
    try:
        with storage_errors(f"table {table}"):
            yield
    except CommitFailedException as error:
        raise SeamlineError(COMMIT_CONFLICT, f"table {table}: {error}") from error
    except (CommitStateUnknownException, RequestException) as error:
        raise SeamlineError(
            CATALOG_UNAVAILABLE, f"table {table}: whether the commit landed is unknown: {error}"
        ) from error
    except _FAILURES as error:
        raise _failure(f"table {table}: the catalog", "takes no commit", error) from error


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Gives failures of file access their name."""
    try:
        yield
    except (SeamlineError, RequestException):
        raise
    except OSError as error:
        raise SeamlineError(STORAGE_UNAVAILABLE, f"{what}: {error}") from error


def _failure(who: str, what: str, error: Exception) -> SeamlineError:
    cause = getattr(error, "orig", None) or error
    if isinstance(error, _REFUSALS):
        return SeamlineError(CATALOG_ACCESS_DENIED, f"{who} refuses: {cause}")
    return SeamlineError(CATALOG_UNAVAILABLE, f"{who} {what}: {cause}")


def _reasons(error: ValidationError) -> str:
    """What is wrong with metadata, each thing once."""
    return "; ".join(dict.fromkeys(str(detail["msg"]) for detail in error.errors()))
