"""A world of names: catalogs and clusters in memory, with the tables and topics given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fakes.memory import ManualClock, MemoryCatalog, MemoryLog, MemoryTable

from seamline.connectors.config import CatalogConfig, ClusterConfig
from seamline.gateway.access.rights import OPERATOR
from seamline.gateway.catalogs.silent import Silent
from seamline.gateway.config.model import Config
from seamline.seam.table import TableSchema
from seamline.sql.types import BIGINT, Field

SCHEMA = TableSchema(0, (Field("id", BIGINT),))


class NamedSources:
    """`Sources` in memory.

    Args:
        catalogs: Identifiers of the tables of each catalog.
        clusters: Topics of each cluster.
    """

    rights = OPERATOR
    silent = Silent()

    def __init__(
        self,
        catalogs: Mapping[str, Sequence[tuple[str, ...]]],
        clusters: Mapping[str, Sequence[str]],
    ) -> None:
        self._clock = ManualClock()
        self._catalogs = {name: MemoryCatalog(name) for name in catalogs}
        self._logs = {name: MemoryLog(self._clock) for name in clusters}
        for name, topics in clusters.items():
            for topic in topics:
                self._logs[name].create_topic(topic, 1)
        log = next(iter(self._logs.values()))
        for name, identifiers in catalogs.items():
            for identifier in identifiers:
                table = MemoryTable((name, *identifier), SCHEMA, {}, self._clock, log)
                self._catalogs[name].add(table)
        self._config = Config(
            catalogs={name: CatalogConfig(name=name, type="in-memory") for name in catalogs},
            clusters={
                name: ClusterConfig(name=name, bootstrap_servers="nowhere:1") for name in clusters
            },
            default_catalog=next(iter(catalogs)),
            default_cluster=next(iter(clusters)),
        )

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        return self._config

    def cold(self, name: str) -> MemoryCatalog:
        """See `Sources.cold`."""
        return self._catalogs[name]

    def log(self, name: str) -> MemoryLog:
        """See `Sources.log`."""
        return self._logs[name]
