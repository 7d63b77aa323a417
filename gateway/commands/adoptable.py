"""A table that may be adopted: its current state, in either table format, and its writer.

What the user says about the writer takes precedence over what the commits and columns show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from seamline.connectors.iceberg.boundaries.registry import PROVIDERS
from seamline.connectors.iceberg.boundaries.writers import BY_COLUMNS, FLINK, Writer, writer_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.errors import ADOPTION_REFUSED, INVALID_ARGUMENT, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import alterations
from seamline.gateway.names import TableName
from seamline.seam.binding import TopicBinding
from seamline.seam.table import TableState
from seamline.sql.near import did_you_mean

if TYPE_CHECKING:
    from seamline.connectors.delta.catalog import DeltaCatalog
    from seamline.gateway.commands.adopting import Adoption


@dataclasses.dataclass(frozen=True, slots=True)
class Adoptable:
    """A table before it is adopted.

    Attributes:
        state: Its metadata.
        writer: The writer that fills it.
        options: The options of the writer's boundary provider.
        as_if: Returns the table as it would be with the given Seamline properties.
        is_only_read: Whether the table is read-only.
    """

    state: TableState
    writer: Writer
    options: Mapping[str, str]
    as_if: Callable[[Mapping[str, str]], ColdTable]
    is_only_read: bool = False


def look_at(connections: Connections, wanted: Adoption) -> Adoptable:
    """Returns a table's state and its writer.

    Raises:
        SeamlineError: ADOPTION_REFUSED when Seamline itself fills the table, when it has no
            snapshot, or when its writer is unknown; TABLE_NOT_FOUND, INVALID_ARGUMENT,
            MISSING_EXTRA, ….
    """
    if is_delta(connections, wanted.name):
        return _delta(connections, wanted)
    if wanted.location is not None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{wanted.name.display} is not a Delta table: its catalog knows its location",
        )
    table = alterations.load(connections, wanted.name)
    require_foreign(table.state)
    catalog = connections.catalog(wanted.name.catalog)
    return Adoptable(
        table.state,
        _writer(wanted, table.state),
        wanted.options,
        lambda properties: catalog.as_if(table, properties),
    )


def _delta(connections: Connections, wanted: Adoption) -> Adoptable:
    catalog: DeltaCatalog = connections.delta(wanted.name.catalog)
    from seamline.connectors.delta import writers  # the catalog has already required the extra

    def as_if(properties: Mapping[str, str]) -> ColdTable:
        return catalog.as_if(wanted.name.path, properties, wanted.location)

    table = catalog.as_if(wanted.name.path, {}, wanted.location)
    _require_snapshot(table.state)
    provider = wanted.provider and _known(wanted.provider, writers.WRITERS)
    filler = writers.filler_of(table, provider, wanted.options)
    return Adoptable(table.state, filler.writer, filler.options, as_if, is_only_read=True)


def is_delta(connections: Connections, name: TableName) -> bool:
    """Returns whether a table belongs to a catalog of Delta tables, which are read-only."""
    config = connections.config.catalogs.get(name.catalog)
    return config is not None and config.is_delta


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
    _require_snapshot(state)


def _require_snapshot(state: TableState) -> None:
    if state.current_snapshot_id is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {state.display_name} has no snapshot yet",
            hint="Adopt it once its writer has committed.",
        )


def _writer(wanted: Adoption, state: TableState) -> Writer:
    """Returns the table's writer; a provider named by the user overrides the detected one."""
    named = {writer.name.lower(): writer for writer in (*BY_COLUMNS, FLINK)}
    found = writer_of(state)
    if wanted.provider is None:
        return found
    given = _known(wanted.provider, (*PROVIDERS, *named))
    return dataclasses.replace(found, provider=given) if given in PROVIDERS else named[given]


def _known(provider: str, known: Collection[str]) -> str:
    """Returns a provider's name in lower case, if it is known.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    given = provider.lower()
    if given not in known:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"the boundary provider {provider!r} is not known",
            hint=did_you_mean(given, list(known)) or f"It must be one of: {', '.join(known)}.",
        )
    return given
