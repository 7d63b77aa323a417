"""Catalogs of cold tables and of views."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.sql.types import Field


class Catalog(Protocol):
    """An Iceberg catalog. Names are (namespace…, table), without the catalog's own name."""

    name: str

    def load(self, identifier: tuple[str, ...]) -> ColdTable:
        """Returns the table as it is now.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE.
        """

    def namespaces(self) -> list[tuple[str, ...]]:
        """Returns every namespace, at every level, sorted."""

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """Whether the namespace exists."""

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the identifiers of the tables of a namespace, sorted.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A view of a catalog.

    Attributes:
        columns: Its columns, as they were when the view was created.
        texts: Its query, by dialect.
        catalog: The default catalog of names in it; None means the catalog that holds it.
        namespace: The default namespace of names in it.
        comment: Its owner's comment.
        owner: The user with whose rights it reads; None if with those of whoever reads it.
    """

    columns: tuple[Field, ...]
    texts: Mapping[str, str] = dataclasses.field(hash=False)
    catalog: str | None = None
    namespace: tuple[str, ...] = ()
    comment: str | None = None
    owner: str | None = None


class Views(Protocol):
    """The views of a catalog, by (namespace…, view)."""

    def names(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the names of the views in a namespace, sorted."""

    def find(self, identifier: tuple[str, ...]) -> View | None:
        """Returns the view of that name, or None if there is none."""


@runtime_checkable
class HasViews(Protocol):
    """A catalog that may also hold views."""

    @property
    def view_store(self) -> Views:
        """Its views."""


def views_of(catalog: object) -> Views | None:
    """Returns the views of a catalog, or None if it cannot hold any."""
    return catalog.view_store if isinstance(catalog, HasViews) else None
