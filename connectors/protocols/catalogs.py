"""Catalogs of cold tables and of views, and outlines: what listings show of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.errors import SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.table import TableState
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
class Outline:
    """What listings show of a table.

    Attributes:
        columns: Its columns.
        binding: Its binding to a topic; None for a plain table.
        error: Why its binding cannot be read.
        comment: Its owner's comment.
    """

    columns: tuple[Field, ...]
    binding: TopicBinding | None = None
    error: SeamlineError | None = None
    comment: str | None = None

    @classmethod
    def of(cls, state: TableState) -> Outline:
        """Returns the outline of a table in a state."""
        shown = state.schema.columns, state.properties.get("comment")
        try:
            binding = TopicBinding.from_properties(state.properties)
        except SeamlineError as error:  # kept without the frames that it passed
            return cls(shown[0], error=error.with_traceback(None), comment=shown[1])
        return cls(shown[0], binding, comment=shown[1])


Outlines: TypeAlias = Callable[[tuple[str, ...]], Outline]
"""Returns the outline of a table; it raises what loading the table does."""


@runtime_checkable
class HasOutlines(Protocol):
    """A catalog that knows at once which tables of a namespace have changed."""

    def outlines(self, namespace: tuple[str, ...]) -> Outlines:
        """Returns the outlines of the tables of a namespace, none older than this call.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """


def outlines_of(catalog: Catalog, namespace: tuple[str, ...]) -> Outlines:
    """Returns the outlines of the tables of a namespace, none older than this call.

    Raises:
        SeamlineError: as `HasOutlines.outlines`.
    """
    if isinstance(catalog, HasOutlines):
        return catalog.outlines(namespace)
    return lambda identifier: Outline.of(catalog.load(identifier).state)


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
