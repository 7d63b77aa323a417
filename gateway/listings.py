"""What there is: the schemas and tables of a catalog or a cluster, as SHOW and others list them.

Whatever is listed here is listed under the name that `names.resolve` reads as it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from seamline.connectors.base import Deadline, TopicBinding
from seamline.gateway import names
from seamline.gateway.connections import Sources
from seamline.gateway.names import CLUSTER_SCHEMA, INFORMATION_SCHEMA, TableName
from seamline.sql import columns
from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """A table, or a topic, and what is told of it.

    Attributes:
        name: Its name.
        columns: Its columns.
        binding: The topic behind it; None for a plain table.
    """

    name: TableName
    columns: tuple[Field, ...]
    binding: TopicBinding | None


def catalogs(sources: Sources) -> list[str]:
    """Catalogs, and clusters, which are called like catalogs."""
    return sorted([*sources.config.catalogs, *sources.config.clusters])


def schemas(sources: Sources, source: str) -> list[str]:
    """Schemas of a catalog or a cluster.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE.
    """
    if source in sources.config.clusters:
        return [CLUSTER_SCHEMA, INFORMATION_SCHEMA]
    own = [names.schema_text(namespace) for namespace in sources.catalog(source).namespaces()]
    return sorted([*own, INFORMATION_SCHEMA])


def tables(sources: Sources, source: str, schema: str, deadline: Deadline) -> list[TableName]:
    """Tables of a schema, or topics; those of `information_schema` are the gateway's own.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE.
    """
    if source in sources.config.clusters:
        topics = sources.log(source).topics(deadline)
        return [TableName("", source, (topic,)) for topic in topics]
    found = sources.catalog(source).tables(names.namespace_of(schema))
    return [TableName(source, "", identifier) for identifier in found]


def all_tables(sources: Sources, source: str, deadline: Deadline) -> Iterator[Listed]:
    """Every table of a catalog, or topic of a cluster, with what is told of it.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE.
    """
    for schema in schemas(sources, source):
        if schema != INFORMATION_SCHEMA:
            for name in tables(sources, source, schema, deadline):
                yield _listed(sources, name)


def _listed(sources: Sources, name: TableName) -> Listed:
    if name.cluster:
        return Listed(name, columns.TOPIC_FIELDS, TopicBinding(name.cluster, name.path[-1]))
    state = sources.catalog(name.catalog).load(name.path).state
    return Listed(name, state.schema.columns, TopicBinding.from_properties(state.properties))
