"""Iceberg catalogs through PyIceberg: loading tables as frozen states, creating and dropping them.

Metadata files are immutable, so parsed metadata is cached by location: loading a table that has not
changed costs one lookup in the catalog. All failures of the catalog and of storage are raised as
named errors.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as PyTable
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import SetPropertiesUpdate
from sqlalchemy.exc import IntegrityError

from seamline.connectors.cache import Cache
from seamline.connectors.config import CatalogConfig
from seamline.connectors.dependencies import Dependency, Opener, storage_of
from seamline.connectors.iceberg import moments, namespaces, pyiceberg_internals
from seamline.connectors.iceberg.boundaries.adoption import (
    Adoptable,
    chosen_writer,
    require_foreign,
)
from seamline.connectors.iceberg.boundaries.registry import Logs, Providers
from seamline.connectors.iceberg.boundaries.second_writer import replaced_rows
from seamline.connectors.iceberg.boundary_commits import prepare_boundary
from seamline.connectors.iceberg.catalog_config import open_catalog
from seamline.connectors.iceberg.errors import (
    can_exist,
    catalog_errors,
    is_outage,
    metadata_errors,
    namespace_errors,
    storage_errors,
)
from seamline.connectors.iceberg.file_contents import FileReader
from seamline.connectors.iceberg.guard import named_files
from seamline.connectors.iceberg.metadata_properties import (
    JAVA_CODE,
    PYTHON_CODE,
    require_no_code,
    require_own_places,
)
from seamline.connectors.iceberg.moments import MomentColumns
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.pyiceberg_internals import CachingSqlCatalog, GuardedCatalog
from seamline.connectors.iceberg.schema_changes import named_mapping, text_of
from seamline.connectors.iceberg.states import States, table_state
from seamline.connectors.iceberg.tables.earlier_metadata import EarlierMetadata
from seamline.connectors.iceberg.tables.scan import FileTask, ScanPlanner
from seamline.connectors.iceberg.tables.view_store import PROPERTY, ViewStore
from seamline.connectors.iceberg.type_conversion import json_fields
from seamline.connectors.places import TablePlaces
from seamline.connectors.protocols.catalogs import Outline, Outlines
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    INVALID_CONFIG,
    NOT_SUPPORTED,
    SCHEMA_NOT_EMPTY,
    SeamlineError,
)
from seamline.seam.binding import PROPERTY_PREFIX
from seamline.seam.boundary import Boundary, BoundaryProvider
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.history_checks import outrun, require
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState
from seamline.sql.types import Field

Identifier: TypeAlias = tuple[str, ...]
OUTLINES_BYTES_MAX = 64 << 20
_OUTLINE_BYTES = 4096
"""Includes a binding."""
_COLUMN_BYTES = 512


def _is_ours(name: str) -> bool:
    return name.startswith(PROPERTY_PREFIX)


def _no_logs(cluster: str) -> HotLog:
    raise SeamlineError(INVALID_CONFIG, f"cluster {cluster!r} cannot be reached from here")


class IcebergTable:
    """A loaded table: `ColdTable` over PyIceberg."""

    def __init__(
        self,
        state: TableState,
        table: PyTable,
        places: TablePlaces,
        planner: ScanPlanner,
        files: FileReader,
        storage: Dependency,
    ) -> None:
        self._state = state
        self.iceberg = table
        self._places = places
        self._planner = planner
        self._files = files
        self._storage = storage

    def _with_state(self, state: TableState) -> IcebergTable:
        return IcebergTable(
            state, self.iceberg, self._places, self._planner, self._files, self._storage
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Reads files of the table, whose failures become named errors."""
        with self._storage.call(), storage_errors(f"table {self._state.display_name}"):
            yield

    def with_provider(self, provider: BoundaryProvider | None) -> IcebergTable:
        """Returns the table with another boundary provider, or the table itself for None."""
        if provider is None:
            return self
        state = dataclasses.replace(self._state, provider=provider)
        return self._with_state(state)

    def with_properties(
        self,
        properties: Mapping[str, str],
        provider_of: Callable[[IcebergTable], BoundaryProvider | None],
    ) -> IcebergTable:
        """Returns the table with all of its Seamline properties replaced.

        Args:
            properties: The new properties.
            provider_of: Returns the boundary provider of a table; None if it has none.
        """
        kept = {k: v for k, v in self._state.properties.items() if not _is_ours(k)}
        state = dataclasses.replace(self._state, properties={**kept, **properties}, provider=None)
        made = self._with_state(state)
        return made.with_provider(provider_of(made))

    @property
    def state(self) -> TableState:
        """See `ColdTable.state`."""
        return self._state

    @property
    def file_access(self) -> FileIO:
        """See `ColdTable.file_access`."""
        return self.iceberg.io

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        with self._reading():
            return self._planner.plan(self.iceberg, self._places, self._state, snapshot_id, request)

    def tasks(
        self, snapshot_id: int, pruner: Pruner, besides: Iterable[ManifestEntry] = ()
    ) -> list[FileTask]:
        """Returns the files that a scan of a snapshot must read, as Iceberg describes them.

        Args:
            snapshot_id: The snapshot.
            pruner: Decides which files are left out.
            besides: Deletes that apply in addition to the snapshot's own.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, LOCATION_NOT_ALLOWED,
                STORAGE_UNAVAILABLE.
        """
        with self._reading():
            return self._planner.tasks(self.iceberg, self._places, snapshot_id, pruner, besides)

    def manifests(self, snapshot_id: int) -> tuple[ManifestFile, ...]:
        """Returns the manifests of a snapshot.

        Raises:
            SeamlineError: SNAPSHOT_GONE, COLD_FILE_MISSING, COLD_FILE_INVALID,
                LOCATION_NOT_ALLOWED, STORAGE_UNAVAILABLE.
        """
        with self._reading():
            return self._planner.manifests(self.iceberg, self._places, snapshot_id)

    def entries(self, snapshot_id: int) -> list[ManifestEntry]:
        """Returns the entries of a snapshot's manifests, also of files that were deleted.

        Raises:
            SeamlineError: as `manifests`.
        """
        with self._reading():
            return self._planner.every_entry(self.iceberg, self._places, snapshot_id)

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        if self._state.provider is not None:
            require(replaced_rows(self._state, snapshot_id), outrun(self._state, snapshot_id))
        elif snapshot_id is not None:
            with self._reading():
                self._planner.require_single_writer(
                    self.iceberg, self._places, self._state, snapshot_id
                )

    def require_own_place(self, location: str) -> None:
        """Requires a file that the table names to be where the table's own files may be.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        self._places.require([location])

    def require_own_manifests(self, snapshot_id: int | None) -> None:
        """Requires the manifests of a snapshot to be the table's own, for writers that build on it.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, SNAPSHOT_GONE, COLD_FILE_MISSING,
                STORAGE_UNAVAILABLE.
        """
        if snapshot_id is not None:
            with self._reading():
                self._planner.manifests(self.iceberg, self._places, snapshot_id)

    def require_own_files(self, snapshot_id: int | None) -> None:
        """Requires all that a snapshot names to be the table's own.

        This is for readers that follow the snapshot themselves.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, SNAPSHOT_GONE, COLD_FILE_MISSING,
                STORAGE_UNAVAILABLE.
        """
        if snapshot_id is not None:
            self._require_own_files([snapshot_id], deleted=False)

    def require_own_history(self) -> None:
        """Requires all that any snapshot names or has deleted to be the table's own.

        This is for callers that remove files.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, COLD_FILE_MISSING, STORAGE_UNAVAILABLE.
        """
        self._require_own_files(self._state.snapshots, deleted=True)

    def _require_own_files(self, snapshot_ids: Iterable[int], *, deleted: bool) -> None:
        with self._reading():
            self._planner.require_own_files(
                self.iceberg, self._places, snapshot_ids, deleted=deleted
            )

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`."""
        require_no_code(self._state.display_name, self._state.properties, JAVA_CODE)
        self.require_own_files(snapshot_id)
        if snapshot_id is not None:
            with self._reading():
                self._planner.require_fit_for_spark(self.iceberg, self._places, snapshot_id)

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        if snapshot_id is None:
            return frozenset()
        with self._reading():
            return self._planner.misleading_columns(self.iceberg, self._places, snapshot_id)

    def require_own_writer(self) -> None:
        """Requires that the table neither chooses the code that writes it nor redirects its files.

        Raises:
            SeamlineError: PROPERTY_NOT_ALLOWED.
        """
        require_no_code(self._state.display_name, self._state.properties, JAVA_CODE, PYTHON_CODE)
        require_own_places(self._places, self._state.properties)

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        with self._reading():
            mapping = self.iceberg.metadata.name_mapping()
            return self._files.inspect(self.iceberg.io, plan, mapping)

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        with self._reading():
            return self._files.deleted_rows(self.iceberg.io, plan, self.iceberg.metadata)

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`."""
        if snapshot_id is None or not ranges:
            return Offsets()
        columns = MomentColumns.of(self._state)
        later = moments.later_rows(columns, first_ms, ranges, first_batch)
        request = ScanRequest(self._state.current_schema_id, columns.names, later)
        plan = self.inspect(self.plan(snapshot_id, request))
        problem = plan.unsupported or ("equality deletes" if plan.equality_deletes else None)
        if problem is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"a past moment cannot be looked up in {problem}",
                hint="Compact the table, or read a snapshot with FOR VERSION AS OF.",
            )
        with self._reading():
            return moments.first_offsets(self.iceberg, self._state, columns, snapshot_id, later)


def table_of_file(
    name: tuple[str, ...], table: PyTable, data_locations: Iterable[str] = ()
) -> IcebergTable:
    """Returns a table known by its metadata file alone, for reading without a catalog.

    Args:
        name: Full name, for messages.
        table: The table as PyIceberg loaded it.
        data_locations: Where its files may be, besides its own location.

    Raises:
        SeamlineError: LOCATION_NOT_ALLOWED.
    """
    places = TablePlaces.of(".".join(name), table.metadata.location, data_locations)
    places.require(named_files(table))
    storage = storage_of(".".join(name))
    return IcebergTable(
        table_state(name, table), table, places, ScanPlanner(), FileReader(), storage
    )


class IcebergCatalog:
    """One catalog. Safe to share between threads.

    Args:
        config: How to reach it.
        tables: Further properties of tables, by full name, for tables that may not be written to.
        logs: Returns the log of a cluster, for boundary providers that read it.

    Whatever may raise CATALOG_UNAVAILABLE raises CATALOG_ACCESS_DENIED if the catalog refuses.
    """

    def __init__(
        self,
        config: CatalogConfig,
        tables: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        logs: Logs = _no_logs,
    ) -> None:
        self.config = config
        self._providers = Providers(logs)
        self.name = config.name
        self.dependency = Dependency(
            "catalog", config.name, CATALOG_UNAVAILABLE, is_failure=is_outage
        )
        self.storage = storage_of(config.name)
        self._opener = Opener(self.dependency, self._open)
        self.view_store = ViewStore(self)
        self._planner = ScanPlanner()
        self._files = FileReader()
        self._states = States(config.name, tables)
        self._earlier_metadata = EarlierMetadata()
        self._outlines: Cache[tuple[Identifier, str], Outline] = Cache(
            OUTLINES_BYTES_MAX, weight=_bytes_of
        )

    @property
    def pyiceberg(self) -> GuardedCatalog:
        """The PyIceberg catalog, opened when first used; all who wait for it share the outcome.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE.
        """
        return self._opener.get()

    def _open(self) -> GuardedCatalog:
        with catalog_errors(self.name):
            return open_catalog(self.config, self.dependency)

    def _reading_metadata(self) -> contextlib.AbstractContextManager[None]:
        """Reads a metadata file, whose contents a REST catalog sends itself."""
        is_sent = isinstance(self.pyiceberg, RestCatalog)
        return contextlib.nullcontext() if is_sent else self.storage.call()

    def load(self, identifier: tuple[str, ...]) -> IcebergTable:
        """See `Catalog.load`."""
        with self._reading_metadata(), metadata_errors(self.name, identifier):
            found = self.pyiceberg.load_table(identifier)
            if found.name() != identifier:  # access rules have seen the requested name
                raise NoSuchTableError
            return self._wrap(identifier, found)

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """See `FormatCatalog.dependencies`."""
        return self.dependency, self.storage

    def adoptable(
        self,
        identifier: tuple[str, ...],
        location: str | None,  # noqa: ARG002 - the catalog knows it
        provider: str | None,
        options: Mapping[str, str],
    ) -> Adoptable:
        """See `FormatCatalog.adoptable`."""
        table = self.load(identifier)
        require_foreign(table.state)
        return Adoptable(
            table.state,
            chosen_writer(table.state, provider),
            options,
            lambda properties: table.with_properties(properties, self._providers.of),
        )

    def create(
        self,
        identifier: tuple[str, ...],
        schema: Schema,
        *,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Mapping[str, str],
        boundary: Boundary,
        columns: Sequence[Field] = (),
    ) -> IcebergTable:
        """Creates a table with its first snapshot, which holds a boundary and no rows.

        It takes one commit; where the catalog is not a REST catalog, two for format version 3 or a
        nested namespace. The namespace is created if it is missing. The table keeps a name mapping,
        so that records still reach a column under the name it had when they were written.

        Args:
            identifier: Its name.
            schema: Its columns.
            spec: How it is partitioned.
            order: How it is sorted.
            properties: Its properties.
            boundary: Where it begins.
            columns: Its columns, with the names that they had before; those of type json are
                strings in the schema. May be empty if there is nothing of either.

        Raises:
            SeamlineError: TABLE_EXISTS, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
        """
        with catalog_errors(self.name, identifier), storage_errors(f"warehouse of {self.name}"):
            self.require_namespace(identifier[:-1])
            own = dict(properties)
            table = self._create(identifier, schema, spec, order, own, boundary, columns)
        return self._wrap(identifier, table)

    def require_namespace(self, namespace: tuple[str, ...]) -> None:
        """Creates a namespace if it is missing."""
        if self.pyiceberg.namespace_exists(namespace):
            return
        try:
            self.pyiceberg.create_namespace(namespace)
        except (NamespaceAlreadyExistsError, IntegrityError):
            # somebody else has created it meanwhile, which PyIceberg's SQL catalog may only notice
            # when it inserts its rows
            if not self.pyiceberg.namespace_exists(namespace):
                raise

    def _create(
        self,
        identifier: tuple[str, ...],
        schema: Schema,
        spec: PartitionSpec,
        order: SortOrder,
        properties: dict[str, str],
        boundary: Boundary,
        columns: Sequence[Field],
    ) -> PyTable:
        version = properties.get(TableProperties.FORMAT_VERSION)
        is_nested = isinstance(self.pyiceberg, SqlCatalog) and len(identifier) > 2
        if is_nested or (version == "3" and isinstance(self.pyiceberg, MetastoreCatalog)):
            # PyIceberg creates a transaction's table as version 1 and cannot upgrade it to 3, and
            # creates it in single-level namespaces only.
            table = self.pyiceberg.create_table(
                identifier, schema, partition_spec=spec, sort_order=order, properties=properties
            )
            commit = prepare_boundary(table, boundary)
            updates = (*commit.updates, _column_properties(table, columns))
            self.pyiceberg.commit_table(table, commit.requirements, updates)
            return self.pyiceberg.load_table(identifier)
        transaction = self.pyiceberg.create_table_transaction(
            identifier, schema, partition_spec=spec, sort_order=order, properties=properties
        )
        pyiceberg_internals.stage(
            transaction,
            lambda staged: (
                *prepare_boundary(staged, boundary).updates,
                _column_properties(staged, columns),
            ),
        )
        try:
            return transaction.commit_transaction()
        except CommitFailedException as error:  # it requires that no such table exists yet
            raise TableAlreadyExistsError(str(error)) from error

    def drop(self, identifier: tuple[str, ...], *, purge: bool) -> None:
        """Drops the table from the catalog; its files are deleted only with `purge`.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE; LOCATION_NOT_ALLOWED when files
                of others would be deleted.
        """
        if purge:
            self.load(identifier).require_own_history()
        with catalog_errors(self.name, identifier):
            if purge:
                self.pyiceberg.purge_table(identifier)
            else:
                self.pyiceberg.drop_table(identifier)

    def rename(self, identifier: tuple[str, ...], to: tuple[str, ...]) -> None:
        """Renames a table, in the same catalog.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, TABLE_EXISTS, SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        with catalog_errors(self.name, identifier):
            self.require_namespace(to[:-1])
            self.pyiceberg.rename_table(identifier, to)

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE.
        """
        with catalog_errors(self.name):
            return namespaces.every(self.pyiceberg)

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE.
        """
        if not can_exist(namespace):
            return False
        with catalog_errors(self.name, namespace):
            return self.pyiceberg.namespace_exists(namespace)

    def make_namespace(self, namespace: tuple[str, ...]) -> None:
        """Creates a namespace if it is missing.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND for an impossible name, CATALOG_UNAVAILABLE.
        """
        with namespace_errors(self.name, namespace):
            self.require_namespace(namespace)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drops an empty namespace.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, SCHEMA_NOT_EMPTY, CATALOG_UNAVAILABLE.
        """
        with namespace_errors(self.name, namespace):
            try:
                self.pyiceberg.drop_namespace(namespace)
            except NamespaceNotEmptyError as error:
                name = ".".join((self.name, *namespace))
                raise SeamlineError(SCHEMA_NOT_EMPTY, f"schema {name} is not empty") from error

    def child_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Returns the namespaces directly under a parent, sorted.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        with namespace_errors(self.name, parent):
            return namespaces.below(self.pyiceberg, parent)

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Returns the properties of a namespace, except those that say where its views are.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        with namespace_errors(self.name, namespace):
            found = self.pyiceberg.load_namespace_properties(namespace)
            return {k: str(v) for k, v in found.items() if not k.startswith(PROPERTY)}

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        with namespace_errors(self.name, namespace):
            return sorted(tuple(name) for name in self.pyiceberg.list_tables(namespace))

    def outlines(self, namespace: Identifier) -> Outlines:
        """See `HasOutlines.outlines`.

        A catalog in a database says in one query where the metadata of each table is, so only
        tables that have changed are loaded. Other catalogs must be asked for every table.
        """
        heads: Mapping[Identifier, str | None] = {}
        with namespace_errors(self.name, namespace):
            pyiceberg = self.pyiceberg
            if isinstance(pyiceberg, CachingSqlCatalog):
                with pyiceberg.call():
                    heads = pyiceberg.heads(namespace)

        def outline(identifier: Identifier) -> Outline:
            head = heads.get(identifier)
            remembered = self._outlines.get((identifier, head)) if head is not None else None
            if remembered is not None:
                return remembered
            state = self.load(identifier).state
            made = Outline.of(state)
            if head is not None and state.metadata_location == head:
                self._outlines.put((identifier, head), made)
            return made

        return outline

    @property
    def has_views(self) -> bool:
        """Whether the catalog can list and load views.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE.
        """
        return isinstance(self.pyiceberg, RestCatalog) and pyiceberg_internals.serves_views(
            self.pyiceberg
        )

    def views(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the identifiers of the views of a namespace, in a catalog that has views.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        with namespace_errors(self.name, namespace):
            return sorted(tuple(name) for name in self.pyiceberg.list_views(namespace))

    def view(self, identifier: tuple[str, ...]) -> bytes:
        """Returns the catalog's own response to a request to load a view.

        Raises:
            SeamlineError: VIEW_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        assert isinstance(self.pyiceberg, RestCatalog)
        with catalog_errors(self.name, identifier):
            return pyiceberg_internals.load_view(self.pyiceberg, identifier)

    def _wrap(self, identifier: tuple[str, ...], table: PyTable) -> IcebergTable:
        known = self._states.of(identifier, table)
        places = self.pyiceberg.guard.check(table)
        loaded = IcebergTable(known, table, places, self._planner, self._files, self.storage)
        provider = self._providers.of(loaded)
        if provider is not None:
            return loaded.with_provider(provider)
        found = self._earlier_metadata.completed(known, table)
        return IcebergTable(found, table, places, self._planner, self._files, self.storage)


def _bytes_of(outline: Outline) -> int:
    """Returns about how much memory an outline takes."""
    texts = (f"{column.name}{column.type}{column.comment}" for column in outline.columns)
    return _OUTLINE_BYTES + sum(_COLUMN_BYTES + 10 * len(text) for text in texts)


def _column_properties(table: PyTable, columns: Sequence[Field]) -> SetPropertiesUpdate:
    """Returns the properties that say what Iceberg's schema does not: names of before, and JSON."""
    schema = table.metadata.schema()
    mapping = text_of(named_mapping(schema, columns))
    jsons = json_fields(schema, {(column.name,): column.type for column in columns})
    return SetPropertiesUpdate(updates={TableProperties.DEFAULT_NAME_MAPPING: mapping, **jsons})
