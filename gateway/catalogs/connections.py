"""The configured clusters and catalogs, imported and connected on first use.

Kafka clients do not survive a fork: create `Connections` in the process that uses them.
"""

from __future__ import annotations

import copy
import dataclasses
import pkgutil
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from seamline.errors import CATALOG_NOT_FOUND, INVALID_CONFIG, MISSING_EXTRA, SeamlineError
from seamline.gateway.catalogs.silent import Silent

if TYPE_CHECKING:
    from seamline.connectors.config import CatalogConfig
    from seamline.connectors.dependencies import Outage
    from seamline.connectors.iceberg.boundaries.adoption import FormatCatalog
    from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
    from seamline.connectors.kafka.cluster import Cluster
    from seamline.connectors.kafka.log import KafkaLog
    from seamline.connectors.protocols.catalogs import Catalog
    from seamline.connectors.protocols.hot_logs import HotLog
    from seamline.connectors.table_formats import TableFormat
    from seamline.gateway.access.rights import Rights
    from seamline.gateway.config.model import Config

T = TypeVar("T")
_BATCH_BYTES_LEAST = 256 << 20
"""Enough for a record of the largest size, whatever buffers the client tries on the way."""


class Sources(Protocol):
    """What statements read from: `Connections`, or anything with the same interface."""

    @property
    def config(self) -> Config:
        """The configuration, which names every cluster and catalog."""

    @property
    def rights(self) -> Rights:
        """The rights of the caller."""

    @property
    def silent(self) -> Silent:
        """The clusters and catalogs that recently failed to answer."""

    def cold(self, name: str) -> Catalog:
        """Returns the catalog of that name, whatever format its tables have."""

    def log(self, name: str) -> HotLog:
        """Returns the topics of the cluster of that name."""


@dataclasses.dataclass(frozen=True, slots=True)
class GivenTo:
    """The same sources, for use with other rights.

    Attributes:
        sources: The sources.
        rights: See `Sources.rights`.
    """

    sources: Sources
    rights: Rights

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        return self.sources.config

    @property
    def silent(self) -> Silent:
        """See `Sources.silent`."""
        return self.sources.silent

    def cold(self, name: str) -> Catalog:
        """See `Sources.cold`."""
        return self.sources.cold(name)

    def log(self, name: str) -> HotLog:
        """See `Sources.log`."""
        return self.sources.log(name)


def as_owner(sources: Sources, owner: str | None) -> Sources:
    """Returns sources as the owner of a view may use them; None stands for their own user."""
    return sources if owner is None else GivenTo(sources, sources.rights.of(owner))


class Connections:
    """Clients of every external system in the configuration. Safe to share between threads.

    Attributes:
        given: The rights of whoever uses these connections; None for the gateway's own.
        silent: See `Sources.silent`.
    """

    given: Rights | None = None

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._catalogs: dict[str, FormatCatalog] = {}
        self._clusters: dict[str, Cluster] = {}
        self._logs: dict[str, KafkaLog] = {}
        self.silent = Silent()

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._config

    def given_to(self, rights: Rights) -> Connections:
        """Returns the same clients, for use with other rights."""
        other = copy.copy(self)
        other.given = rights
        return other

    @property
    def rights(self) -> Rights:
        """The rights of whoever uses these connections; unrestricted unless `given_to` set some."""
        from seamline.gateway.access.rights import OPERATOR

        return OPERATOR if self.given is None else self.given

    def cold(self, name: str) -> FormatCatalog:
        """See `Sources.cold`.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND, MISSING_EXTRA.
        """
        return self._opened(name)  # type: ignore[no-any-return]

    def catalog(self, name: str) -> IcebergCatalog:
        """Returns the catalog of that name, for callers that do more than read.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND; NOT_SUPPORTED when its tables are read-only.
        """
        format_ = self.format(name)
        if not format_.is_writable:
            raise format_.refuses(f"catalog {name}")
        return self._opened(name)  # type: ignore[no-any-return]

    def format(self, name: str) -> TableFormat:
        """Returns the format of the tables of the catalog of that name.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND.
        """
        return self._catalog_config(name).format

    def _opened(self, name: str) -> Any:
        """Returns a catalog, of the class that its format names."""
        opened = self._catalogs.get(name)
        if opened is not None:
            return opened
        config, tables = self._catalog_config(name), self._config.tables
        try:
            catalog_class = pkgutil.resolve_name(config.format.catalog)
        except ImportError as error:
            extra = config.format.extra
            if extra is None:
                raise
            raise SeamlineError(
                MISSING_EXTRA,
                f"catalog {name} needs the extra {extra}",
                hint=f"pip install 'seamline[gateway,{extra}]'",
            ) from error
        return self._once(self._catalogs, name, lambda: catalog_class(config, tables, self.log))

    def _catalog_config(self, name: str) -> CatalogConfig:
        config = self._config.catalogs.get(name)
        if config is None:
            raise SeamlineError(CATALOG_NOT_FOUND, f"catalog {name} does not exist")
        return config

    def cluster(self, name: str) -> Cluster:
        """Returns the clients of the cluster of that name.

        Raises:
            SeamlineError: INVALID_CONFIG when the configuration does not name it.
        """
        from seamline.connectors.kafka.cluster import BATCH_BYTES_MAX, Cluster

        config = self._config.clusters.get(name)
        if config is None:
            raise SeamlineError(
                INVALID_CONFIG,
                f"the configuration has no cluster {name!r}",
                hint="Add it under clusters; a table's seamline.cluster names it.",
            )
        batch_bytes_max = min(
            BATCH_BYTES_MAX, max(self._config.tail.memory_bytes, _BATCH_BYTES_LEAST)
        )
        return self._once(self._clusters, name, lambda: Cluster(config, batch_bytes_max))

    def log(self, name: str) -> KafkaLog:
        """Returns the topics of the cluster of that name.

        Raises:
            SeamlineError: INVALID_CONFIG when the configuration does not name it.
        """
        from seamline.connectors.kafka.log import KafkaLog

        cluster = self.cluster(name)
        return self._once(self._logs, name, lambda: KafkaLog(cluster))

    def outages(self) -> list[Outage]:
        """Returns the dependencies that have been used and do not answer, by kind and name."""
        with self._lock:
            used = [
                *(used for catalog in self._catalogs.values() for used in catalog.dependencies),
                *(cluster.dependency for cluster in self._clusters.values()),
            ]
            logs = list(self._logs.values())
        registries = [getattr(log.schemas, "dependency", None) for log in logs]
        outages = [each.outage for each in (*used, *registries) if each is not None]
        present = {(outage.kind, outage.name): outage for outage in outages if outage is not None}
        return [present[key] for key in sorted(present)]

    def close(self) -> None:
        """Closes idle clients."""
        with self._lock:
            clusters = list(self._clusters.values())
        for cluster in clusters:
            cluster.close()

    def _once(self, made: dict[str, T], name: str, make: Callable[[], T]) -> T:
        with self._lock:
            if name not in made:
                made[name] = make()
            return made[name]
