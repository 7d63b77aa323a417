"""Which catalog, schema, table and variant the name of a table in a statement refers to.

One rule resolves every name, so a name that `information_schema` or SHOW lists always refers to the
listed object:

    table                  in the session's schema
    schema.table           in the session's catalog; only when that has no such schema, and a
                           cluster of this name is configured, a topic of the cluster
    catalog.schema.table   in that catalog; a cluster is a catalog with the one schema `default`,
                           whose tables are its topics; `system` is the gateway's own

If a catalog, cluster, schema or table does not exist as it is spelled, it is looked up in lower
case.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from seamline.errors import (
    CATALOG_NOT_FOUND,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    TOPIC_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.names import (
    CLUSTER_SCHEMA,
    INFORMATION_SCHEMA,
    SYSTEM_CATALOG,
    SYSTEM_SCHEMAS,
    VARIANTS,
    TableName,
    namespace_of,
    schema_text,
    split_variant,
    text_of,
)
from seamline.sql.near import did_you_mean
from seamline.sql.session_zone import UTC

if TYPE_CHECKING:
    from seamline.gateway.access.rights import Rights
    from seamline.gateway.catalogs.connections import Sources
    from seamline.gateway.config.model import Config


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """The defaults for names in a request, and its time zone.

    Attributes:
        catalog: The default catalog or cluster.
        schema: The default schema in it.
        time_zone: The canonical name of the zone in which local times become instants.
    """

    catalog: str
    schema: str
    time_zone: str = UTC


def session(
    config: Config,
    catalog: str | None = None,
    schema: str | None = None,
    rights: Rights | None = None,
) -> Session:
    """Returns the session of a request.

    Args:
        config: The configuration.
        catalog: The catalog or cluster that the request names, if it names one.
        schema: The schema that it names.
        rights: The caller's; None for the operator.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND.
    """
    source = _source(catalog, config, rights) if catalog else config.default_catalog
    own = CLUSTER_SCHEMA if source in config.clusters else config.default_schema
    return Session(source, schema or own)


def resolve(
    parts: Sequence[str], session: Session, sources: Sources, *, is_new: bool = False
) -> TableName:
    """Resolves a name; only loading the table shows whether it exists.

    Args:
        parts: The name.
        session: The defaults for parts that it leaves out.
        sources: Catalogs and clusters, as the caller may see them.
        is_new: Whether it names something to be created.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND, SCHEMA_NOT_FOUND, TABLE_NOT_FOUND; CATALOG_UNAVAILABLE
            when the first part may be a schema or a cluster, and the catalog does not answer.
    """
    name = _resolved(parts, session, sources)
    if is_new:
        name = _in_existing_schema(name, sources)
    else:
        try:
            sources.rights.check_visible(name)
        except SeamlineError as error:
            if error.code is TOPIC_NOT_FOUND:
                hint = nearest_topic(name.cluster, name.table, sources)
            elif error.code is TABLE_NOT_FOUND:
                hint = nearest(name, sources)
            else:
                raise
            raise SeamlineError(error.code, error.message, hint=hint) from error
    return name


def _resolved(parts: Sequence[str], session: Session, sources: Sources) -> TableName:
    *front, last = parts
    if len(front) > 2:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"{text_of(parts)} has too many parts",
            hint='Write a schema of several levels as one part: catalog."level.level".table.',
        )
    catalog, schema = resolve_schema(front, session, sources)
    if schema.lower() == INFORMATION_SCHEMA or catalog == SYSTEM_CATALOG:
        path = (schema.lower(), last.lower())
        return named(catalog, path, "", sources.config, is_system=True)
    if catalog in sources.config.clusters:
        return named(catalog, (last,), "", sources.config)
    table, variant = split_variant(last)
    return named(catalog, (*namespace_of(schema), table), variant, sources.config)


def _in_existing_schema(name: TableName, sources: Sources) -> TableName:
    """Returns the name of a new table in the schema that exists, if only its case differs."""
    if not name.is_own_table or name.schema == name.schema.lower():
        return name
    schema = find_schema(sources, name.catalog, name.schema)
    if schema is None:
        return name
    return dataclasses.replace(name, path=(*namespace_of(schema), name.path[-1]))


def nearest(name: TableName, sources: Sources) -> str | None:
    """Returns a hint for a table that does not exist: the nearest table, or schema, that does.

    A schema with the name of a cluster hides that cluster's topics from short names; the hint then
    names the topic in full.
    """
    near, cluster = _near(name, sources), name.schema.lower()
    if cluster in sources.config.clusters and sources.rights.sees_catalog(cluster):
        topic = text_of((cluster, CLUSTER_SCHEMA, name.path[-1]))
        return f"{f'{near} ' if near else ''}The topic with that name would be {topic}."
    return near


@contextlib.contextmanager
def suggesting_topics(cluster: str, topic: str, sources: Sources) -> Iterator[None]:
    """Adds the most similar topics to an error raised inside for a topic that does not exist."""
    try:
        yield
    except SeamlineError as error:
        if error.code is TOPIC_NOT_FOUND:
            error.hint = nearest_topic(cluster, topic, sources) or error.hint
        raise


def nearest_topic(cluster: str, topic: str, sources: Sources) -> str | None:
    """Returns a hint with the most similar topics of a cluster; None if none can be listed."""
    with contextlib.suppress(SeamlineError):  # the first error is the one to report
        listed = sources.log(cluster).topics(StatementDeadline(_SUGGESTED_WITHIN_S))
        rights = sources.rights
        seen = [name for name in listed if rights.table(TableName("", cluster, (name,))).sees]
        return did_you_mean(topic, seen)
    return None


_SUGGESTED_WITHIN_S = 2.0


def _near(name: TableName, sources: Sources) -> str | None:
    """Suggests similar tables of its schema, or similar schemas if the schema does not exist."""
    from seamline.connectors.protocols.catalogs import views_of  # a command's help needs no pyarrow

    catalog, rights, namespace = sources.cold(name.catalog), sources.rights, name.path[:-1]
    with contextlib.suppress(SeamlineError):  # the first error is the one to report
        if catalog.has_namespace(namespace):
            views = views_of(catalog)
            paths = [*catalog.tables(namespace), *(views.names(namespace) if views else ())]
            there = (TableName(name.catalog, "", path) for path in paths)
            seen = [namespace_.path[-1] for namespace_ in there if rights.table(namespace_).sees]
            own, sign, variant = name.path[-1].rpartition("$")
            if sign and own.lower() in seen:
                return did_you_mean(variant, VARIANTS) or f"There are: {', '.join(VARIANTS)}."
            return did_you_mean(name.path[-1], seen)
        schemas = [schema_text(namespace_) for namespace_ in catalog.namespaces()]
        shown = [schema for schema in schemas if rights.sees_schema(name.catalog, schema)]
        return did_you_mean(name.schema, shown)
    return None


def resolve_schema(parts: Sequence[str], session: Session, sources: Sources) -> tuple[str, str]:
    """Resolves the parts before a table's name to a catalog or cluster, and a schema of it.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND; SCHEMA_NOT_FOUND for a schema that a cluster or `system`
            does not have.
    """
    config = sources.config
    match parts:
        case []:
            catalog, schema = session.catalog, session.schema
        case [schema]:
            catalog = session.catalog
            cluster = _spelt(schema, config.clusters)
            if cluster is not None and not has_schema(sources, catalog, schema):
                catalog, schema = cluster, CLUSTER_SCHEMA
        case _:
            catalog, schema = _source(parts[0], config, sources.rights), parts[1]
    sources.rights.check_catalog(catalog)
    schemas = _fixed_schemas(catalog, sources)
    if schemas and not has_schema(sources, catalog, schema):
        raise SeamlineError(
            SCHEMA_NOT_FOUND,
            f"schema {schema} of {catalog} does not exist",
            hint=f"It has the schemas {', '.join(schemas)} and {INFORMATION_SCHEMA}.",
        )
    return catalog, schema


def _fixed_schemas(source: str, sources: Sources) -> tuple[str, ...]:
    """Returns the schemas of a cluster or of `system`; none for a catalog, which has its own."""
    if source in sources.config.clusters:
        return (CLUSTER_SCHEMA,)
    return SYSTEM_SCHEMAS if source == SYSTEM_CATALOG else ()


def named(
    source: str, path: tuple[str, ...], variant: str, config: Config, *, is_system: bool = False
) -> TableName:
    """Returns the name of a table of a source, which is a catalog or a cluster."""
    if source in config.clusters:
        return TableName("", source, path, variant, is_system)
    return TableName(source, "", path, variant, is_system)


def has_schema(sources: Sources, source: str, schema: str) -> bool:
    """Whether a catalog or a cluster has a schema that the caller may see; see `find_schema`."""
    return find_schema(sources, source, schema) is not None


def find_schema(sources: Sources, source: str, schema: str) -> str | None:
    """Returns a schema of a catalog or a cluster as it is listed, if the caller may see it.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE.
    """
    if schema.lower() == INFORMATION_SCHEMA:
        return INFORMATION_SCHEMA
    schemas = _fixed_schemas(source, sources)
    if schemas:
        return _spelt(schema, schemas)
    if not sources.rights.sees_schema(source, schema_text(namespace_of(schema))):
        return None
    catalog = sources.cold(source)
    spellings = dict.fromkeys((namespace_of(schema), namespace_of(schema.lower())))
    return next((schema_text(path) for path in spellings if catalog.has_namespace(path)), None)


def _source(name: str, config: Config, rights: Rights | None) -> str:
    """Returns the catalog or cluster of a name, if it may be seen."""
    every = (*config.catalogs, *config.clusters, SYSTEM_CATALOG)
    sources = [source for source in every if rights is None or rights.sees_catalog(source)]
    spelt = _spelt(name, sources)
    if spelt is None:
        raise SeamlineError(
            CATALOG_NOT_FOUND, f"catalog {name} does not exist", hint=did_you_mean(name, sources)
        )
    return spelt


def _spelt(name: str, names: Container[str]) -> str | None:
    return next((text for text in (name, name.lower()) if text in names), None)
