"""Tables that may be adopted, and what their catalogs tell about the writers that fill them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from seamline.connectors.dependencies import Dependency
from seamline.connectors.iceberg.boundaries.registry import PROVIDERS
from seamline.connectors.iceberg.boundaries.writers import BY_COLUMNS, FLINK, Writer, writer_of
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.errors import ADOPTION_REFUSED, INVALID_ARGUMENT, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.table import TableState
from seamline.sql.near import did_you_mean


@dataclasses.dataclass(frozen=True, slots=True)
class Adoptable:
    """A table before it is adopted.

    Attributes:
        state: Its metadata.
        writer: The writer that fills it.
        options: The options of the writer's boundary provider.
        as_if: Returns the table as it would be with the given Seamline properties.
    """

    state: TableState
    writer: Writer
    options: Mapping[str, str]
    as_if: Callable[[Mapping[str, str]], ColdTable]


class FormatCatalog(Catalog, Protocol):
    """A catalog of any table format. It is made of its settings, the configured tables and logs."""

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The servers that it needs."""

    def adoptable(
        self,
        identifier: tuple[str, ...],
        location: str | None,
        provider: str | None,
        options: Mapping[str, str],
    ) -> Adoptable:
        """Returns a table and its writer.

        Args:
            identifier: The table.
            location: Where it is, if given; for formats whose tables the configuration lists.
            provider: The boundary provider, if given: it overrides what the table shows.
            options: The provider's options, as far as given.

        Raises:
            SeamlineError: ADOPTION_REFUSED when Seamline itself fills the table, when it has no
                snapshot, or when its writer is unknown; TABLE_NOT_FOUND, INVALID_ARGUMENT, ….
        """


def require_foreign(state: TableState) -> None:
    """Requires a table that Seamline does not fill itself and that has a snapshot.

    Raises:
        SeamlineError: ADOPTION_REFUSED.
    """
    bound = TopicBinding.from_properties(state.properties)
    if bound is not None and bound.boundary_provider is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {state.display_name} is bound to topic {bound.topic}, and Seamline "
            "itself fills it",
            hint="`seamline table hand-over` lets another writer continue.",
        )
    if state.current_snapshot_id is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {state.display_name} has no snapshot yet",
            hint="Adopt it once its writer has committed.",
        )


def chosen_writer(state: TableState, provider: str | None) -> Writer:
    """Returns an Iceberg table's writer; a provider that is given overrides the detected one.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    detected = writer_of(state)
    if provider is None:
        return detected
    by_name = {writer.name.lower(): writer for writer in (*BY_COLUMNS, FLINK)}
    name = provider_named(provider, (*PROVIDERS, *by_name))
    return dataclasses.replace(detected, provider=name) if name in PROVIDERS else by_name[name]


def provider_named(provider: str, names: Collection[str]) -> str:
    """Returns a provider's name in lower case, if it is one of these.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    name = provider.lower()
    if name not in names:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"the boundary provider {provider!r} is not known",
            hint=did_you_mean(name, list(names)) or f"It must be one of: {', '.join(names)}.",
        )
    return name
