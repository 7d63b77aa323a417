"""Lists the schemas and tables of a catalog or a cluster, for SHOW and others.

Everything is listed under a name that `resolution.resolve` resolves to the same object. A listing
never fails as a whole: if one entry or one schema cannot be read, its entry says so, and the others
are still listed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from seamline.connectors.protocols.catalogs import Outlines, View, outlines_of, views_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.supervision import named
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    KAFKA_UNAVAILABLE,
    SCHEMA_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.names import (
    CLUSTER_SCHEMA,
    INFORMATION_SCHEMA,
    SYSTEM_CATALOG,
    SYSTEM_SCHEMAS,
    TableName,
)
from seamline.gateway.system import shapes
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of
from seamline.seam.table import TableState
from seamline.seam.tiering import lag
from seamline.sql import columns
from seamline.sql.types import Field

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """A listed table, view or topic, and what is shown of it.

    Attributes:
        source: The catalog or cluster.
        schema: The schema, as it is listed; None stands for a whole catalog that cannot be listed.
        name: The table; None stands for a whole schema that cannot be listed.
        columns: Its columns; empty if they cannot be read.
        binding: Its binding to a topic; None for a plain table.
        state: Its loaded state, where more is needed than is shown.
        comment: Its comment.
        error: Why some of it cannot be shown.
        view: The view; None for a view that cannot be read, and for anything else.
        is_view: Whether it is a view.
    """

    source: str
    schema: str | None = None
    name: TableName | None = None
    columns: tuple[Field, ...] = ()
    binding: TopicBinding | None = None
    state: TableState | None = dataclasses.field(default=None, repr=False)
    comment: str | None = None
    error: SeamlineError | None = None
    view: View | None = None
    is_view: bool = False

    @property
    def display(self) -> str:
        """Its full name, as far as it is known: that of a table, a schema or a source."""
        if self.name is not None:
            return self.name.display
        parts = (self.source, self.schema) if self.schema is not None else (self.source,)
        return names.text_of(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Only:
    """Which tables are wanted; None means all, whatever they are called.

    Attributes:
        catalog: The catalog or cluster.
        schema: The schema, as it is listed.
        table: The table.
    """

    catalog: str | None = None
    schema: str | None = None
    table: str | None = None


EVERYTHING = Only()
Listing = Callable[[Sources, str, Deadline, Only], Iterator[Listed]]
"""Lists the contents of a catalog or a cluster, as far as they are wanted."""

_UNAVAILABLE = (KAFKA_UNAVAILABLE, CATALOG_UNAVAILABLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A unified table and how much of its topic has not been tiered.

    Attributes:
        table: The table, or an entry for tables that cannot be listed.
        offsets: The number of offsets that have not been tiered; None when that is unknown.
        error: Why it is unknown.
    """

    table: Listed
    offsets: int | None
    error: SeamlineError | None


def catalogs(sources: Sources) -> list[str]:
    """Returns the names of catalogs, and of clusters, which are addressed like catalogs."""
    configured = [*sources.config.catalogs, *sources.config.clusters, SYSTEM_CATALOG]
    return sorted(name for name in configured if sources.rights.sees_catalog(name))


def schemas(sources: Sources, source: str) -> list[str]:
    """Returns the schemas of a catalog or a cluster.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    sources.rights.check_catalog(source)
    if source in sources.config.clusters:
        own = [CLUSTER_SCHEMA]
    elif source == SYSTEM_CATALOG:
        own = list(SYSTEM_SCHEMAS)
    else:
        own = [names.schema_text(namespace) for namespace in sources.cold(source).namespaces()]
    seen = [schema for schema in own if sources.rights.sees_schema(source, schema)]
    return sorted([*seen, INFORMATION_SCHEMA])


def tables(sources: Sources, source: str, schema: str, deadline: Deadline) -> list[TableName]:
    """Returns the tables, or topics, of a schema, without those of `information_schema`.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE.
    """
    if not sources.rights.sees_schema(source, schema):
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {source}.{schema} does not exist")
    if source == SYSTEM_CATALOG:
        shape = shapes.SHAPES.get(schema.lower(), {})
        names_ = [TableName(source, "", (schema.lower(), table), is_system=True) for table in shape]
    elif source in sources.config.clusters:
        topics = sources.log(source).topics(deadline)
        names_ = [TableName("", source, (topic,)) for topic in topics]
    else:
        tables = sources.cold(source).tables(names.namespace_of(schema))
        names_ = [TableName(source, "", identifier) for identifier in tables]
    return [name for name in names_ if sources.rights.table(name).sees]


def views(sources: Sources, source: str, schema: str) -> list[TableName]:
    """Returns the views of a schema; only catalogs have any.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    store = views_of(sources.cold(source)) if source in sources.config.catalogs else None
    paths = store.names(names.namespace_of(schema)) if store is not None else []
    seen = [TableName(source, "", identifier) for identifier in paths]
    return [name for name in seen if sources.rights.table(name).sees]


def all_tables(
    sources: Sources, source: str, deadline: Deadline, only: Only = EVERYTHING
) -> Iterator[Listed]:
    """Yields every table and view of a catalog, or topic of a cluster, with what is shown of it.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE when not even its schemas can be listed.
    """
    outlines = functools.cache(
        lambda schema: outlines_of(sources.cold(source), names.namespace_of(schema))
    )
    for listed in all_names(sources, source, deadline, only):
        if listed.name is None or listed.schema is None:
            yield listed
        elif listed.is_view:
            yield _listed_view(sources, source, listed.schema, listed.name)
        else:
            yield _listed(sources, outlines, listed.schema, listed.name)


def all_views(
    sources: Sources, source: str, deadline: Deadline, only: Only = EVERYTHING
) -> Iterator[Listed]:
    """Yields every view of a catalog, with what is shown of it, and no table.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE when not even its schemas can be listed.
    """
    for listed in all_names(sources, source, deadline, only):
        if listed.is_view and listed.name is not None and listed.schema is not None:
            yield _listed_view(sources, source, listed.schema, listed.name)


def everything(
    sources: Sources, listing: Listing, deadline: Deadline, only: Only = EVERYTHING
) -> Iterator[Listed]:
    """Yields the contents of every catalog and cluster; an entry with an error if one is down.

    Args:
        sources: Catalogs and clusters.
        listing: `all_tables`, or `all_names`.
        deadline: The statement's.
        only: What is wanted; no catalog or cluster is asked for anything else.
    """
    for source in catalogs(sources):
        if only.catalog in {None, source}:

            def entries(source: str = source) -> list[Listed]:
                return list(listing(sources, source, deadline, only))

            yield from _asked(sources, source, entries)


def schemas_or_none(sources: Sources, source: str) -> list[str]:
    """Returns the schemas of a catalog or a cluster; none if it is unavailable."""
    if source in sources.config.clusters:
        return schemas(sources, source)

    def entries() -> list[Listed]:
        return [Listed(source, schema) for schema in schemas(sources, source)]

    return [one.schema for one in _asked(sources, source, entries) if one.schema is not None]


def all_names(
    sources: Sources, source: str, deadline: Deadline, only: Only = EVERYTHING
) -> Iterator[Listed]:
    """Yields every table and view of a catalog, or topic of a cluster, without loading it.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE when not even its schemas can be listed.
    """
    for schema in schemas(sources, source):
        if schema == INFORMATION_SCHEMA or only.schema not in {None, schema}:
            continue
        listed, error = _tried(lambda s=schema: tables(sources, source, s, deadline))  # type: ignore[misc]
        if error is not None:
            yield Listed(source, schema, error=error)
        for name in listed or ():
            if only.table in {None, name.table}:
                yield Listed(source, schema, name)
        seen, error = _tried(lambda s=schema: views(sources, source, s))  # type: ignore[misc]
        if error is not None and listed is not None:
            yield Listed(source, schema, error=error)
        for name in seen or ():
            if only.table in {None, name.table}:
                yield Listed(source, schema, name, is_view=True)


def unified(sources: Sources, deadline: Deadline) -> Iterator[Waiting]:
    """Yields every unified table of every catalog, and whatever cannot be read and may be one."""
    gone: dict[str, SeamlineError] = {}
    for catalog in sources.config.catalogs:
        listed, error = _tried(lambda c=catalog: list(all_tables(sources, c, deadline)))  # type: ignore[misc]
        if error is not None:
            yield Waiting(Listed(catalog, error=error), None, error)
        for table in listed or ():
            if table.is_view:
                continue
            if table.error is not None:
                yield Waiting(table, None, table.error)
            elif table.binding is not None and table.name is not None:
                yield from _unified(sources, table, table.name, gone, deadline)


def _unified(
    sources: Sources,
    table: Listed,
    name: TableName,
    gone: dict[str, SeamlineError],
    deadline: Deadline,
) -> Iterator[Waiting]:
    """Yields a table with its state, unless it has become a plain table meanwhile."""

    def load() -> tuple[TableState, TopicBinding | None]:
        state = sources.cold(name.catalog).load(name.path).state
        return state, TopicBinding.from_properties(state.properties)

    loaded, error = _tried(load)
    if loaded is None:
        yield Waiting(dataclasses.replace(table, error=error), None, error)
        return
    state, binding = loaded
    if binding is not None:
        table = dataclasses.replace(table, state=state, binding=binding)
        yield _waiting(sources, table, state, binding, gone, deadline)


def _listed(
    sources: Sources, outlines: Callable[[str], Outlines], schema: str, name: TableName
) -> Listed:
    source = name.full[0]
    if name.is_system:
        shape = shapes.SHAPES[schema][name.table]
        return Listed(source, schema, name, tuple(Field(*column) for column in shape.items()))
    if name.cluster:
        binding = TopicBinding(name.cluster, name.path[-1])
        return Listed(source, schema, name, columns.TOPIC_FIELDS, binding)
    outline, error = _tried(lambda: outlines(schema)(name.path))
    if outline is None:
        return Listed(source, schema, name, error=error)
    own = sources.rights.table(name).columns(outline.columns)
    return Listed(
        *(source, schema, name, own, outline.binding),
        comment=outline.comment,
        error=outline.error,
    )


def _listed_view(sources: Sources, source: str, schema: str, name: TableName) -> Listed:
    store = views_of(sources.cold(source))
    view, error = _tried(lambda: store.find(name.path) if store is not None else None)
    rights = sources.rights.table(name)
    own = rights.columns(view.columns) if view is not None else ()
    if view is not None and rights.restriction:
        view = dataclasses.replace(view, texts={})  # whose text reveals what may not be seen
    comment = view.comment if view is not None else None
    return Listed(
        *(source, schema, name, own), comment=comment, error=error, view=view, is_view=True
    )


def _waiting(
    sources: Sources,
    table: Listed,
    state: TableState,
    binding: TopicBinding,
    gone: dict[str, SeamlineError],
    deadline: Deadline,
) -> Waiting:
    """Counts a table's offsets; a cluster that does not answer is asked once, and put in `gone`."""

    def offsets() -> int:
        boundary = boundary_of(state, state.current_snapshot_id)
        if binding.cluster in gone:
            raise gone[binding.cluster]
        log = sources.log(binding.cluster)
        bounds = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
        return lag(boundary, bounds)

    ends, error = _tried(offsets)
    if error is not None and error.code is KAFKA_UNAVAILABLE:
        gone[binding.cluster] = error
    return Waiting(table, ends, error)


def _asked(sources: Sources, source: str, entries: Callable[[], list[Listed]]) -> list[Listed]:
    """Returns the entries of a source, or one that says why there are none; see `Silent`."""
    silent = sources.silent
    why = silent.why(source)
    if why is not None:
        return [Listed(source, error=why)]
    asked_at = silent.clock()
    answer, error = _tried(entries)
    listed = [Listed(source, error=error)] if answer is None else answer
    errors = [one.error for one in listed]
    if errors and errors[0] and all(e is not None and e.code in _UNAVAILABLE for e in errors):
        silent.note(source, errors[0], asked_at)
    return listed


def _tried(work: Callable[[], T]) -> tuple[T | None, SeamlineError | None]:
    """Returns the result of the work, or the error it failed with, whatever it raised."""
    try:
        return work(), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - one entry keeps no other from being listed
        return None, named(error)
