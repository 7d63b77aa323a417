"""A catalog of the Delta tables that the configuration lists. They are read-only.

A table is at its property `location`, or in the folder of its name under the warehouse. Its
versions are its snapshots. Loading an unchanged table costs two requests, which check that its
newest commit is still there and has no successor.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping

from pyiceberg.io import FileIO, load_file_io

from seamline.connectors.cache import Cache
from seamline.connectors.config import CatalogConfig
from seamline.connectors.delta.boundaries import (
    OPERATION,
    PROVIDERS,
    TRANSACTION,
    AdoptedDelta,
    DeltaProvider,
    KafkaDeltaIngest,
)
from seamline.connectors.delta.log import Commit, DeltaLog, History, path_of
from seamline.connectors.delta.schemas import FieldIds, table_schema
from seamline.connectors.delta.table import DeltaTable
from seamline.connectors.delta.versions import (
    Source,
    Version,
    Versions,
    delta_errors,
    no_table,
    storage_options,
)
from seamline.connectors.delta.writers import WRITERS, filler_of
from seamline.connectors.dependencies import Dependency, storage_of
from seamline.connectors.iceberg.boundaries.adoption import (
    Adoptable,
    provider_named,
    require_foreign,
)
from seamline.connectors.iceberg.boundaries.provider import Answers
from seamline.connectors.iceberg.boundaries.registry import Logs
from seamline.connectors.iceberg.file_contents import FileReader
from seamline.connectors.places import TablePlaces
from seamline.errors import (
    COLD_FILE_INVALID,
    INVALID_CONFIG,
    SNAPSHOT_GONE,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.table import Snapshot, TableSchema, TableState

LOCATION = "location"
_ANSWERS_MAX = 10_000


class DeltaCatalog:
    """Implements `Catalog` over the tables that the configuration lists. Safe to share.

    Args:
        config: How to reach the tables.
        tables: The properties of tables, by full name.
        logs: Returns the topics of a cluster, for boundary providers.
    """

    def __init__(
        self, config: CatalogConfig, tables: Mapping[str, Mapping[str, str]], logs: Logs
    ) -> None:
        self.config = config
        self.name = config.name
        self.storage = storage_of(config.name)
        self._shared = _Shared(
            self.storage,
            Versions(),
            FileReader(),
            Cache(_ANSWERS_MAX),
            logs,
            load_file_io(dict(config.properties)),
        )
        self._own = {
            tuple(rest): own
            for full, own in tables.items()
            for catalog, *rest in [full.split(".")]
            if catalog == config.name
        }
        self._tables = {
            identifier: _ConfiguredTable(config, (config.name, *identifier), own, self._shared)
            for identifier, own in self._own.items()
        }

    def load(self, identifier: tuple[str, ...]) -> DeltaTable:
        """See `Catalog.load`.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, INVALID_CONFIG, NOT_SUPPORTED, COLD_FILE_INVALID,
                STORAGE_UNAVAILABLE.
        """
        table = self._tables.get(identifier)
        if table is None:
            name = ".".join((self.name, *identifier))
            raise SeamlineError(TABLE_NOT_FOUND, f"table {name} does not exist")
        return table.load()

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """See `FormatCatalog.dependencies`."""
        return (self.storage,)

    def adoptable(
        self,
        identifier: tuple[str, ...],
        location: str | None,
        provider: str | None,
        options: Mapping[str, str],
    ) -> Adoptable:
        """See `FormatCatalog.adoptable`."""
        table = self._as_if(identifier, {}, location)
        require_foreign(table.state)
        filler = filler_of(table, provider and provider_named(provider, WRITERS), options)
        return Adoptable(
            table.state,
            filler.writer,
            filler.options,
            lambda properties: self._as_if(identifier, properties, location),
        )

    def _as_if(
        self, identifier: tuple[str, ...], properties: Mapping[str, str], location: str | None
    ) -> DeltaTable:
        """Returns a table as if the configuration said this about it, and nothing else.

        Args:
            identifier: Its name, which need not be in the configuration.
            properties: The Seamline properties that it should have.
            location: Where it is, if not at its configured location or in the folder of its name.

        Raises:
            SeamlineError: as `load`.
        """
        path = location or self._own.get(identifier, {}).get(LOCATION)
        settings = {k.removeprefix(PROPERTY_PREFIX): v for k, v in properties.items()}
        own = {**({LOCATION: path} if path else {}), **settings}
        table = _ConfiguredTable(self.config, (self.name, *identifier), own, self._shared)
        try:
            return table.load()
        except SeamlineError as error:
            is_configured = location is None and identifier in self._own
            if error.code is not INVALID_CONFIG or is_configured:
                raise
            raise SeamlineError(
                TABLE_NOT_FOUND,
                f"there is no Delta table at {table.location}",
                hint="Say where it is, with --location or under `tables:` in the configuration.",
            ) from error

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return sorted({identifier[:-1] for identifier in self._tables})

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return namespace in self.namespaces()

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return sorted(i for i in self._tables if i[:-1] == namespace)


@dataclasses.dataclass(frozen=True, slots=True)
class _Shared:
    """What the tables of a catalog share."""

    storage: Dependency
    versions: Versions
    files: FileReader
    answers: Answers
    logs: Logs
    io: FileIO


class _ConfiguredTable:
    """A table, and what has been seen of it so far."""

    def __init__(
        self,
        config: CatalogConfig,
        name: tuple[str, ...],
        own: Mapping[str, str],
        shared: _Shared,
    ) -> None:
        location = own.get(LOCATION) or "/".join((config.warehouse.rstrip("/"), *name[1:]))
        location = location.removeprefix("file://").rstrip("/")
        self._name, self._shared = name, shared
        self._source = Source(".".join(name), location, storage_options(config.properties))
        self._data_locations = config.data_locations
        self._properties = {PROPERTY_PREFIX + k.replace("_", "-"): v for k, v in own.items()}
        self._ids = FieldIds()
        self._lock = threading.Lock()
        self._log: DeltaLog | None = None
        self._history: History = ()
        self._state: TableState | None = None
        self._gone: frozenset[Commit] = frozenset()

    @property
    def location(self) -> str:
        """The table's location."""
        return self._source.location

    def load(self) -> DeltaTable:
        """Returns the table as it is now."""
        with self._shared.storage.call():
            return self._load()

    def _load(self) -> DeltaTable:
        with delta_errors(self._source.name):
            if self._log is None:
                self._log = DeltaLog(self._source.files())
            history = self._log.history(self._history)  # one per caller: it must be fresh
        if not history:
            raise no_table(self._source.name)
        with self._lock:
            state, gone = self._state, self._gone
            is_new = state is None or history != self._history
        if state is None or is_new:
            state = self._made(history, gone)
            with self._lock:
                if self._gone == gone:  # else a version has been vacuumed meanwhile
                    self._state, self._history = state, history
        return self._table(state, history)

    def _table(self, state: TableState, history: History) -> DeltaTable:
        return DeltaTable(
            state,
            self._versions(history),
            TablePlaces.of(self._source.name, self._source.location, self._data_locations),
            self._shared.io,
            self._shared.files,
            lambda snapshot_id: self._forget(history, snapshot_id),
        )

    def _versions(self, history: History) -> Callable[[int], Version]:
        first = history[0].version

        def at(snapshot_id: int) -> Version:
            if not 0 <= snapshot_id - first < len(history):
                raise SeamlineError(
                    SNAPSHOT_GONE, f"version {snapshot_id} of {self._source.name} is no longer kept"
                )
            return self._shared.versions.at(self._source, history[snapshot_id - first])

        return at

    def _forget(self, history: History, snapshot_id: int) -> None:
        """Drops a version whose files have been vacuumed, whatever the log says."""
        with self._lock:
            self._gone |= {commit for commit in history if commit.version == snapshot_id}
            self._state = None

    def _made(self, history: History, gone: frozenset[Commit]) -> TableState:
        head = self._shared.versions.at(self._source, history[-1])
        try:
            schemas = self._schemas(history, head)
        except (ValueError, TypeError, LookupError) as error:
            raise SeamlineError(
                COLD_FILE_INVALID, f"a schema of {self._source.name} cannot be read: {error!r}"
            ) from error
        state = TableState(
            name=self._name,
            uuid=head.uuid,
            properties=self._properties,
            schemas={schema.schema_id: schema for schema in schemas},
            current_schema_id=schemas[-1].schema_id,
            snapshots={
                commit.version: _snapshot(commit, schema)
                for commit, schema in zip(history, schemas, strict=True)
                if commit not in gone
            },
            refs={},
            current_snapshot_id=history[-1].version,
            snapshot_log=tuple((commit.timestamp_ms, commit.version) for commit in history),
            location=self._source.location,
            metadata_location=f"{self._source.location}/{path_of(history[-1].version)}",
        )
        return dataclasses.replace(state, provider=self._provider(state, history))

    def _schemas(self, history: History, head: Version) -> list[TableSchema]:
        """Returns the schema of each version."""
        by_text: dict[str, TableSchema] = {}

        def read(text: str) -> TableSchema:
            if text not in by_text:
                by_text[text] = table_schema(text, self._ids)
            return by_text[text]

        if any(commit.schema for commit in history[1:]) and history[0].schema is None:
            current = read(self._shared.versions.at(self._source, history[0]).schema_text)
        else:
            current = read(history[0].schema or head.schema_text)
        schemas = []
        for commit in history:
            current = read(commit.schema) if commit.schema is not None else current
            schemas.append(current)
        return schemas

    def _provider(self, state: TableState, history: History) -> DeltaProvider | None:
        try:
            binding = TopicBinding.from_properties(state.properties)
        except SeamlineError:
            return None  # anyone who needs the binding gets the same error
        if binding is None:
            return None
        logs = self._shared.logs
        # each of them refuses an unknown name, when it is asked for the boundary
        return PROVIDERS.get(binding.boundary_provider or "", KafkaDeltaIngest)(
            AdoptedDelta(
                state=state,
                binding=binding,
                log=lambda: logs(binding.cluster),
                answers=self._shared.answers,
                table=self._table(state, history),
                version=self._versions(history),
            )
        )


def _snapshot(commit: Commit, schema: TableSchema) -> Snapshot:
    summary = {f"{TRANSACTION}{name}": str(last) for name, last in commit.transactions.items()}
    if commit.name:
        summary[OPERATION] = commit.name
    if commit.rows_added is not None:
        summary["added-records"] = str(commit.rows_added)
    return Snapshot(
        snapshot_id=commit.version,
        parent_id=commit.version - 1 if commit.version else None,
        timestamp_ms=commit.timestamp_ms,
        operation=commit.operation,
        summary=summary,
        schema_id=schema.schema_id,
        sequence_number=commit.version,
    )
