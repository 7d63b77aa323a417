"""Names of tables in statements: which catalog, schema, table and variant they stand for.

A name has one to three parts. `catalog.schema.table` is complete; missing parts come from the
session. When the first part names a Kafka cluster, the rest is a topic: `cluster.topic` or
`cluster.default."topic"`. A suffix after `$` selects a variant: `$cold`, `$hot`, or a table about
the table.
"""

from __future__ import annotations

import dataclasses

from seamline.gateway.config import Config
from seamline.sql.errors import CATALOG_NOT_FOUND, TABLE_NOT_FOUND, SeamlineError

VARIANTS = ("cold", "hot", "seam", "snapshots", "files", "tail")
INFORMATION_SCHEMA = "information_schema"


@dataclasses.dataclass(frozen=True, slots=True)
class TableName:
    """A resolved name.

    Attributes:
        catalog: Name of the catalog; empty for a topic.
        cluster: Name of the cluster; empty for a table of a catalog.
        path: (namespace…, table) in the catalog, or (topic,).
        variant: One of `VARIANTS`, or empty.
    """

    catalog: str
    cluster: str
    path: tuple[str, ...]
    variant: str = ""

    @property
    def full(self) -> tuple[str, ...]:
        """All parts, catalog or cluster first, without the variant."""
        return (self.catalog or self.cluster, *self.path)

    @property
    def display(self) -> str:
        """Dotted name for messages."""
        return ".".join(self.full) + (f"${self.variant}" if self.variant else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """What a request leaves unsaid in names."""

    catalog: str
    schema: str


def session(config: Config, catalog: str | None = None, schema: str | None = None) -> Session:
    """The session of a request.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND.
    """
    catalog = catalog or config.default_catalog
    if catalog not in config.catalogs:
        raise SeamlineError(CATALOG_NOT_FOUND, f"catalog {catalog} does not exist")
    return Session(catalog, schema or config.default_schema)


def resolve(parts: tuple[str, ...], session: Session, config: Config) -> TableName:
    """What a name stands for.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND, TABLE_NOT_FOUND.
    """
    *front, last = parts
    last, variant = _split_variant(last)
    if front and front[0] in config.clusters:
        return TableName("", front[0], (last,), variant)
    match front:
        case []:
            return TableName(session.catalog, "", (*_namespace(session.schema), last), variant)
        case [schema]:
            return TableName(session.catalog, "", (*_namespace(schema), last), variant)
        case [catalog, schema]:
            if catalog not in config.catalogs:
                raise SeamlineError(CATALOG_NOT_FOUND, f"catalog {catalog} does not exist")
            return TableName(catalog, "", (*_namespace(schema), last), variant)
    raise SeamlineError(TABLE_NOT_FOUND, f"{'.'.join(parts)} has too many parts")


def _split_variant(name: str) -> tuple[str, str]:
    table, mark, variant = name.rpartition("$")
    if not mark:
        return name, ""
    if variant.lower() not in VARIANTS:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"there is no table {name}",
            hint=f"After $ comes one of: {', '.join(VARIANTS)}.",
        )
    return table, variant.lower()


def _namespace(schema: str) -> tuple[str, ...]:
    """A schema of several levels is written with dots in one quoted name."""
    return tuple(schema.split("."))
