"""Models of the catalog's answers, as far as its OpenAPI description covers them.

The Iceberg REST specification says more, especially about metadata and files.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Answer(BaseModel):
    model_config = ConfigDict(alias_generator=_kebab, use_attribute_docstrings=True)


class IcebergProblem(_Answer):
    """An error, by which clients choose their exception."""

    message: str
    """Seamline's name of the error, the cause and the remedy."""
    type: str
    code: int
    """The HTTP status."""


class IcebergFailure(_Answer):
    """The answer to a failed request."""

    error: IcebergProblem


class CatalogConfig(_Answer):
    """What a client must know about a catalog."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]
    """The supported routes."""


class Namespaces(_Answer):
    """Namespaces, or a page of them."""

    namespaces: list[list[str]]
    next_page_token: str | None = None


class Namespace(_Answer):
    """A namespace."""

    namespace: list[str]
    properties: dict[str, str]


class ChangedProperties(_Answer):
    """Which properties of a namespace were changed."""

    updated: list[str]
    removed: list[str]
    missing: list[str]
    """Properties to be removed that did not exist."""


class Identifier(_Answer):
    """The name of a table or view."""

    namespace: list[str]
    name: str


class Identifiers(_Answer):
    """Tables or views, or a page of them."""

    identifiers: list[Identifier]
    next_page_token: str | None = None


class StorageCredential(_Answer):
    """Credentials for the files under a location prefix."""

    prefix: str
    config: dict[str, str]


class Credentials(_Answer):
    """Credentials for the files of a table."""

    storage_credentials: list[StorageCredential]


class LoadedTable(_Answer):
    """A table as it is now, with its tail in a virtual snapshot."""

    metadata_location: str | None = None
    metadata: dict[str, Any]
    config: dict[str, str]
    storage_credentials: list[StorageCredential] = []


class Committed(_Answer):
    """A table after a commit."""

    metadata_location: str
    metadata: dict[str, Any]


class LoadedView(_Answer):
    """A view."""

    metadata_location: str
    metadata: dict[str, Any]
    config: dict[str, str] = {}


class Tasks(_Answer):
    """Files to read, with the delete files that apply to them."""

    file_scan_tasks: list[dict[str, Any]]
    delete_files: list[dict[str, Any]] = []


class PlannedScan(_Answer):
    """The status of a planned scan and, once it is completed, its files."""

    status: Literal["completed", "submitted", "cancelled", "failed"]
    plan_id: str | None = None
    plan_tasks: list[str] = []
    file_scan_tasks: list[dict[str, Any]] = []
    delete_files: list[dict[str, Any]] = []
    error: IcebergProblem | None = None
