"""Changes that clients of the Iceberg REST catalog ask for, made in the catalog behind it.

Only tables without a topic are changed. A change is refused if the table would then be, have files,
or have files written where its catalog's tables may not, or would choose code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    ResolveError,
    TableAlreadyExistsError,
)
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table as PyTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)
from sqlalchemy.exc import IntegrityError

from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.errors import (
    can_exist,
    catalog_errors,
    commit_errors,
    metadata_errors,
    namespace_errors,
    storage_errors,
)
from seamline.connectors.iceberg.foreign_metadata import files_of
from seamline.connectors.iceberg.guard import named_files
from seamline.connectors.iceberg.metadata_properties import (
    JAVA_CODE,
    PYTHON_CODE,
    require_no_code,
    require_own_places,
)
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.iceberg.tables.view_store import PROPERTY as VIEW_PROPERTY
from seamline.connectors.iceberg.update_ids import with_field_ids, with_spec_ids
from seamline.connectors.places import TablePlaces
from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_READ_ONLY,
    CATALOG_UNAVAILABLE,
    COMMIT_CONFLICT,
    INVALID_REQUEST,
    NOT_SUPPORTED,
    SCHEMA_EXISTS,
    SCHEMA_NOT_EMPTY,
    SCHEMA_NOT_FOUND,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    VIEW_NOT_FOUND,
    SeamlineError,
)
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding

Identifier = tuple[str, ...]
T = TypeVar("T")
_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])
_REQUIREMENTS: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])
_SCHEMA: TypeAdapter[Schema] = TypeAdapter(Schema)
_SPEC: TypeAdapter[PartitionSpec] = TypeAdapter(PartitionSpec)
_ORDER: TypeAdapter[SortOrder] = TypeAdapter(SortOrder)

_AS_WRITTEN: Any = {"mode": "json", "by_alias": True, "exclude_none": True}
TOGETHER = "POST /v1/{prefix}/transactions/commit"
"""The endpoint of a REST catalog that commits to several tables."""
CREATE_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/views"
"""The endpoint of a REST catalog that creates views."""
_TOGETHER_PATH = ("transactions", "commit")
_CODES = {
    "NoSuchViewException": VIEW_NOT_FOUND,
    "NoSuchNamespaceException": SCHEMA_NOT_FOUND,
    "NoSuchTableException": TABLE_NOT_FOUND,
    "AlreadyExistsException": TABLE_EXISTS,
    "CommitFailedException": COMMIT_CONFLICT,
}
_STATUSES = {
    400: INVALID_REQUEST,
    401: CATALOG_ACCESS_DENIED,
    403: CATALOG_ACCESS_DENIED,
    404: VIEW_NOT_FOUND,
    406: NOT_SUPPORTED,
    409: COMMIT_CONFLICT,
    422: INVALID_REQUEST,
}
"""What a REST catalog's answer means if its type says nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A table after a change.

    Attributes:
        metadata: Its metadata.
        location: Where the metadata is; None for a table that is only staged.
    """

    metadata: TableMetadata
    location: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class NewTable:
    """A table that a client requests.

    Attributes:
        identifier: Its name.
        schema: Its columns, in the specification's form.
        spec: How it is partitioned; None if it is not.
        order: How it is sorted; None if it is not.
        location: Where it should be; None leaves it to the catalog.
        properties: Its properties.
    """

    identifier: Identifier
    schema: Mapping[str, Any]
    spec: Mapping[str, Any] | None = None
    order: Mapping[str, Any] | None = None
    location: str | None = None
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit to one table."""

    identifier: Identifier
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @classmethod
    def of(
        cls, identifier: Identifier, requirements: Sequence[Any], updates: Sequence[Any]
    ) -> TableCommit:
        """Returns the commit that a client describes.

        Raises:
            SeamlineError: INVALID_REQUEST.
        """
        return cls(
            identifier,
            _parsed(_REQUIREMENTS, list(requirements), "requirements"),
            _parsed(_UPDATES, with_spec_ids(updates), "updates"),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the commit in the specification's form."""
        *namespace, name = self.identifier
        return {
            "identifier": {"namespace": namespace, "name": name},
            "requirements": _REQUIREMENTS.dump_python(self.requirements, **_AS_WRITTEN),
            "updates": _UPDATES.dump_python(self.updates, **_AS_WRITTEN),
        }

    @property
    def creates(self) -> bool:
        """Whether no such table may exist yet."""
        return any(isinstance(r, AssertCreate) for r in self.requirements)


class AssertPlain(ValidatableTableRequirement):
    """The table must not have a topic."""

    type: Literal["assert-plain"] = "assert-plain"

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Validates the requirement against the table as it is now.

        Raises:
            CommitFailedException: when the table has a topic.
        """
        if base_metadata is not None and f"{PROPERTY_PREFIX}topic" in base_metadata.properties:
            raise CommitFailedException("the table was bound to a topic meanwhile")


class CatalogChanges:
    """Changes one catalog. Safe to share between threads."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog

    # --- Namespaces ------------------------------------------------------------------------------

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Creates a namespace.

        Raises:
            SeamlineError: SCHEMA_EXISTS, SCHEMA_NOT_FOUND for an impossible name,
                CATALOG_READ_ONLY, CATALOG_UNAVAILABLE.
        """
        self._require_not_ours(properties)
        self._require_allowed_below(namespace, properties)
        pyiceberg = self._catalog.pyiceberg
        with namespace_errors(self._catalog.name, namespace):
            try:
                pyiceberg.create_namespace(namespace, dict(properties))
            except (NamespaceAlreadyExistsError, IntegrityError) as error:
                name = ".".join((self._catalog.name, *namespace))
                raise SeamlineError(SCHEMA_EXISTS, f"schema {name} already exists") from error

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drops a namespace without tables, views and inner namespaces.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, SCHEMA_NOT_EMPTY, CATALOG_UNAVAILABLE.
        """
        catalog = self._catalog
        if (
            catalog.tables(namespace)
            or catalog.view_store.names(namespace)
            or catalog.child_namespaces(namespace)
        ):
            name = ".".join((catalog.name, *namespace))
            raise SeamlineError(SCHEMA_NOT_EMPTY, f"schema {name} is not empty")
        catalog.drop_namespace(namespace)

    def change_namespace(
        self, namespace: Identifier, removals: Iterable[str], updates: Mapping[str, str]
    ) -> dict[str, list[str]]:
        """Changes properties of a namespace, and returns which were updated, removed and missing.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_READ_ONLY, CATALOG_UNAVAILABLE.
        """
        self._require_not_ours((*removals, *updates))
        self._require_allowed_below(namespace, updates)
        with namespace_errors(self._catalog.name, namespace):
            found = self._catalog.pyiceberg.update_namespace_properties(
                namespace, removals=set(removals), updates=dict(updates)
            )
        return {"updated": found.updated, "removed": found.removed, "missing": found.missing}

    # --- Tables ----------------------------------------------------------------------------------

    def create(self, new: NewTable, *, staged: bool) -> Changed:
        """Creates a table, or says what it would be, for a commit that creates it later.

        Raises:
            SeamlineError: TABLE_EXISTS, SCHEMA_NOT_FOUND, INVALID_REQUEST, LOCATION_NOT_ALLOWED,
                PROPERTY_NOT_ALLOWED, CATALOG_READ_ONLY, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
        """
        name = self._name(new.identifier)
        schema = _parsed(_SCHEMA, new.schema, "schema")
        spec = UNPARTITIONED_PARTITION_SPEC
        if new.spec is not None:
            spec = _parsed(_SPEC, with_field_ids(new.spec), "partition-spec")
        order = UNSORTED_SORT_ORDER
        if new.order is not None and new.order.get("fields"):
            order = _parsed(_ORDER, {"order-id": 1, **new.order}, "write-order")
        properties = {TableProperties.FORMAT_VERSION: "2", **new.properties}
        catalog = self._catalog.pyiceberg
        self._require_namespace(new.identifier[:-1])
        self._require_free(new.identifier)
        location = (
            new.location.rstrip("/")
            if new.location
            else pyiceberg_internals.new_location(catalog, new.identifier)
        )
        if location is not None:
            self._require_allowed(name, location, properties)
        self._require_not_ours(properties)
        with (
            catalog_errors(self._catalog.name, new.identifier),
            storage_errors(f"warehouse of {self._catalog.name}"),
            _as_invalid(),
        ):
            if staged and catalog.table_exists(new.identifier):
                raise TableAlreadyExistsError
            options: dict[str, Any] = {
                "location": location,
                "partition_spec": spec,
                "sort_order": order,
                "properties": properties,
            }
            table: PyTable = (
                pyiceberg_internals.staged(catalog, new.identifier, schema, **options)
                if staged
                else catalog.create_table(new.identifier, schema, **options)
            )
        return Changed(table.metadata, None if staged else table.metadata_location)

    def register(self, identifier: Identifier, location: str) -> Changed:
        """Creates a table from a metadata file.

        Raises:
            SeamlineError: TABLE_EXISTS, SCHEMA_NOT_FOUND, LOCATION_NOT_ALLOWED, CATALOG_READ_ONLY
                if the table would have a topic, COLD_FILE_MISSING, COLD_FILE_INVALID,
                CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
        """
        name, catalog = self._name(identifier), self._catalog.pyiceberg
        self._require_namespace(identifier[:-1])
        self._require_free(identifier)
        catalog.guard.places.require(location)
        with metadata_errors(self._catalog.name, identifier):
            io = pyiceberg_internals.file_io(catalog, location)
            metadata = FromInputFile.table_metadata(io.new_input(location))
        self._require_not_ours(metadata.properties)
        places = self._require_allowed(name, metadata.location, metadata.properties)
        places.require([location])
        with catalog_errors(self._catalog.name, identifier):
            table = catalog.register_table(identifier, location)
        catalog.guard.check(table)
        return Changed(table.metadata, table.metadata_location)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Renames a table.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, TABLE_EXISTS, SCHEMA_NOT_FOUND, CATALOG_READ_ONLY,
                CATALOG_UNAVAILABLE.
        """
        self._name(destination)
        self.plain(source)
        self._require_namespace(destination[:-1])
        self._require_free(destination)
        with catalog_errors(self._catalog.name, destination):
            self._catalog.pyiceberg.rename_table(source, destination)

    def drop(self, identifier: Identifier, *, purge: bool) -> None:
        """Drops a table; its files are deleted only with `purge`.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_READ_ONLY, LOCATION_NOT_ALLOWED,
                CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE.
        """
        self.plain(identifier)
        with storage_errors(f"table {'.'.join((self._catalog.name, *identifier))}"):
            self._catalog.drop(identifier, purge=purge)

    def plain(self, identifier: Identifier) -> IcebergTable:
        """Returns a table that may be changed here.

        Raises:
            SeamlineError: CATALOG_READ_ONLY for a table with a topic; TABLE_NOT_FOUND, and others
                as for a load.
        """
        table = self._catalog.load(identifier)
        if TopicBinding.from_properties(table.state.properties) is not None:
            raise SeamlineError(
                CATALOG_READ_ONLY,
                f"table {table.state.display_name} has a topic, and changes only through its "
                "topic, tiering and the gateway's statements",
            )
        return table

    # --- Commits ---------------------------------------------------------------------------------

    def checked(self, commit: TableCommit) -> PyTable | None:
        """Returns the table of a commit that may be made; None if it would create the table.

        Raises:
            SeamlineError: as `plain`; LOCATION_NOT_ALLOWED, PROPERTY_NOT_ALLOWED.
        """
        name = self._name(commit.identifier)
        if commit.creates:
            self._require_namespace(commit.identifier[:-1])
            self._require_free(commit.identifier)
        known = None if commit.creates else self.plain(commit.identifier)
        properties: dict[str, str] = {}
        location = None if known is None else known.state.location
        own_id = None if known is None else known.iceberg.metadata.table_uuid
        for update in commit.updates:
            if isinstance(update, SetPropertiesUpdate):
                properties |= update.updates
            elif isinstance(update, RemovePropertiesUpdate):
                self._require_not_ours(update.removals)
            elif isinstance(update, SetLocationUpdate):
                location = update.location
            elif isinstance(update, AssignUUIDUpdate) and own_id not in (None, update.uuid):
                raise SeamlineError(INVALID_REQUEST, f"table {name} must keep its uuid")
        self._require_not_ours(properties)
        if location is None:
            raise SeamlineError(INVALID_REQUEST, f"the commit creates {name} without a location")
        places = self._require_allowed(name, location, properties)
        if known is not None and location != known.state.location:
            places.require(named_files(known.iceberg))
        places.require(_files_of(commit.updates))
        return known.iceberg if known is not None else None

    def commit(self, table: PyTable | None, commit: TableCommit) -> Changed:
        """Commits to a table.

        Args:
            table: What `checked` returned.
            commit: The commit.

        Raises:
            SeamlineError: COMMIT_CONFLICT when a requirement does not hold, or another commit won;
                INVALID_REQUEST when the updates contradict the table, TABLE_EXISTS,
                CATALOG_UNAVAILABLE when the outcome is not known.
        """
        with commit_errors(self._name(commit.identifier)), _as_invalid():
            try:
                metadata, location = pyiceberg_internals.committed(
                    self._catalog.pyiceberg,
                    commit.identifier,
                    table,
                    self._required(commit),
                    commit.updates,
                )
            except TableAlreadyExistsError as error:  # created meanwhile
                raise CommitFailedException(str(error)) from error
        return Changed(metadata, location)

    def _required(self, commit: TableCommit) -> tuple[Any, ...]:
        """Returns what a commit requires, so that nobody binds the table to a topic meanwhile."""
        is_elsewhere = isinstance(self._catalog.pyiceberg, RestCatalog)
        return commit.requirements if is_elsewhere else (*commit.requirements, AssertPlain())

    @property
    def commits_together(self) -> bool:
        """Whether the catalog can commit to several tables, all or none."""
        catalog = self._catalog.pyiceberg
        return isinstance(catalog, SqlCatalog) or pyiceberg_internals.announces(catalog, TOGETHER)

    def commit_all(self, commits: Sequence[TableCommit]) -> None:
        """Commits to several tables, all or none.

        Args:
            commits: The commits, each of which has been `checked`.

        Raises:
            SeamlineError: as `commit`; NOT_SUPPORTED where the catalog cannot.
        """
        catalog = self._catalog.pyiceberg
        names = [self._name(commit.identifier) for commit in commits]
        if len(set(names)) < len(names):
            raise SeamlineError(INVALID_REQUEST, "the commit names a table twice")
        if not self.commits_together:
            message = f"catalog {self._catalog.name} commits to one table at a time"
            raise SeamlineError(NOT_SUPPORTED, message)
        with commit_errors(", ".join(names)), _as_invalid():
            try:
                if isinstance(catalog, SqlCatalog):
                    pyiceberg_internals.committed_together(
                        catalog, [(c.identifier, self._required(c), c.updates) for c in commits]
                    )
                else:
                    changes = [commit.to_json() for commit in commits]
                    self._forward("POST", _TOGETHER_PATH, {"table-changes": changes})
            except IntegrityError as error:  # created meanwhile
                raise CommitFailedException("a table already exists") from error

    # --- Views -----------------------------------------------------------------------------------

    @property
    def changes_views(self) -> bool:
        """Whether the catalog can also change its views."""
        return self._catalog.has_views and pyiceberg_internals.announces(
            self._catalog.pyiceberg, CREATE_VIEW
        )

    def change_view(self, method: str, path: Sequence[str], body: Any = None) -> bytes:
        """Passes a change of a view on to the catalog, and returns the catalog's answer.

        Args:
            method: The HTTP method.
            path: The path below the catalog's prefix, in parts; namespaces are tuples.
            body: The client's JSON.

        Raises:
            SeamlineError: NOT_SUPPORTED where the catalog has no views; VIEW_NOT_FOUND,
                SCHEMA_NOT_FOUND, TABLE_EXISTS, COMMIT_CONFLICT, INVALID_REQUEST,
                CATALOG_ACCESS_DENIED, CATALOG_UNAVAILABLE.
        """
        if not self.changes_views:
            message = f"catalog {self._catalog.name} has no views that can be changed here"
            raise SeamlineError(NOT_SUPPORTED, message, hint="Use CREATE VIEW.")
        with catalog_errors(self._catalog.name):
            return self._forward(method, path, body)

    def _forward(self, method: str, path: Sequence[str], body: Any) -> bytes:
        status, answer = pyiceberg_internals.forwarded(self._catalog.pyiceberg, method, path, body)
        if status < 300:
            return answer
        try:
            error = json.loads(answer)["error"]
            kind, message = str(error["type"]), str(error["message"])
        except (ValueError, LookupError, TypeError):
            kind, message = "", f"HTTP {status}"
        code = _CODES.get(kind) or _STATUSES.get(status, CATALOG_UNAVAILABLE)
        raise SeamlineError(code, f"catalog {self._catalog.name}: {message}")

    # --- Checks ----------------------------------------------------------------------------------

    def _name(self, identifier: Identifier) -> str:
        """Returns the full name of a table that may exist."""
        if len(identifier) < 2 or not can_exist(identifier):
            raise SeamlineError(
                INVALID_REQUEST,
                "a table's name needs a schema, and no part may be empty or surrounded by spaces",
            )
        return ".".join((self._catalog.name, *identifier))

    def _require_namespace(self, namespace: Identifier) -> None:
        if not self._catalog.has_namespace(namespace):
            name = ".".join((self._catalog.name, *namespace))
            raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {name} does not exist")

    def _require_allowed(
        self, name: str, location: str, properties: Mapping[str, str]
    ) -> TablePlaces:
        """Returns where a table's files may be, if it may be there and have the properties."""
        places = self._catalog.pyiceberg.guard.places.of_table(name, location)
        require_no_code(name, properties, JAVA_CODE, PYTHON_CODE)
        require_own_places(places, properties)
        return places

    def _require_allowed_below(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Requires that new tables of a namespace may be where its properties say."""
        location = properties.get("location")
        if location is not None:
            name = ".".join((self._catalog.name, *namespace, "new"))
            self._catalog.pyiceberg.guard.places.of_table(name, f"{location.rstrip('/')}/new")

    def _require_free(self, identifier: Identifier) -> None:
        """Requires that none of our views has the name of a new table."""
        if not self._catalog.has_views and identifier in self._catalog.view_store.names(
            identifier[:-1]
        ):
            raise SeamlineError(TABLE_EXISTS, f"{'.'.join(identifier)} is a view")

    @staticmethod
    def _require_not_ours(properties: Iterable[str]) -> None:
        for name in properties:
            if name.startswith((PROPERTY_PREFIX, VIEW_PROPERTY)):
                raise SeamlineError(
                    CATALOG_READ_ONLY,
                    f"the property {name} belongs to the gateway and cannot be changed here",
                    hint="Bind tables to topics with CREATE TABLE or seamline table adopt.",
                )


def _files_of(updates: Iterable[TableUpdate]) -> Iterator[str]:
    """Yields the files that updates name."""
    for update in updates:
        if isinstance(update, AddSnapshotUpdate):
            yield from files_of(update.snapshot)
        elif isinstance(update, SetStatisticsUpdate):
            yield update.statistics.statistics_path
        elif isinstance(update, SetPartitionStatisticsUpdate):
            yield update.partition_statistics.statistics_path


def _parsed(kind: TypeAdapter[T], value: Any, what: str) -> T:
    try:
        return kind.validate_python(value)
    except (ValidationError, ValueError, TypeError, LookupError) as error:
        problem = " ".join(str(error).split())[:300]
        raise SeamlineError(INVALID_REQUEST, f"{what} cannot be parsed: {problem}") from error


@contextlib.contextmanager
def _as_invalid() -> Iterator[None]:
    """Reports what PyIceberg rejects in a request, before anything is changed."""
    try:
        yield
    except (IcebergValidationError, ValueError, ResolveError) as error:
        problem = " ".join(str(error).split())[:300]
        raise SeamlineError(INVALID_REQUEST, problem) from error
