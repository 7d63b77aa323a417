"""The only module that uses PyIceberg's internals, where there is no public one.

Everything here may break with any new version of PyIceberg, which is why the project is pinned to a
minor version. The catalogs use no table's properties as settings: only the configuration and the
catalog decide which code is loaded, and which addresses and keys are used. No catalog opens
metadata where no table may be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa
from pydantic import ValidationError as PydanticError
from pydantic import model_validator
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.catalog import Catalog as PyCatalog
from pyiceberg.catalog import MetastoreCatalog, rest
from pyiceberg.catalog.rest import (
    CREDENTIAL,
    Capability,
    Endpoint,
    Endpoints,
    IdentifierKind,
    RestCatalog,
    TableResponse,
)
from pyiceberg.catalog.rest.auth import AUTH_MANAGER, AuthManager
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.conversions import from_json, to_json
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ValidationError,
)
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluationVisitor,
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluationVisitor,
    visit,
)
from pyiceberg.io import S3_SIGNER, FileIO, load_file_io
from pyiceberg.io import pyarrow as files_of_arrow
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import _dataframe_to_data_files, _TablePartition
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, _SetFreshIDs, visit_with_partner
from pyiceberg.serializers import Compressor, GzipCompressor
from pyiceberg.table import (
    CommitTableResponse,
    StagedTable,
    Transaction,
)
from pyiceberg.table import Table as PyTable
from pyiceberg.table import update as table_update
from pyiceberg.table.deletion_vector import DeletionVector, _extract_vector_payload
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import (
    EMPTY_DICT,
    IcebergBaseModel,
    Identifier,
    Properties,
    Record,
    TableVersion,
)
from pyiceberg.types import (
    IcebergType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from requests import HTTPError, ReadTimeout, Response, Session
from requests.exceptions import InvalidJSONError
from sqlalchemy import Select, bindparam, select
from sqlalchemy import insert as sql_insert
from sqlalchemy import update as sql_update

from seamline.connectors import http
from seamline.connectors.cache import Cache
from seamline.connectors.config import LoginConfig
from seamline.connectors.dependencies import Dependency
from seamline.connectors.iceberg import foreign_metadata, unpacking
from seamline.connectors.iceberg.guard import CatalogGuard
from seamline.connectors.iceberg.heads import HEADS_BYTES_MAX, HeadParser, bytes_of
from seamline.connectors.iceberg.metadata_properties import (
    PYTHON_CODE,
    readable_by_others,
    require_no_code,
    require_own_places,
)
from seamline.connectors.iceberg.parquet_writer import ParquetModel
from seamline.connectors.iceberg.rest_logins import (
    has_other_token,
    tokens_of_credential,
    tokens_of_login,
)
from seamline.connectors.iceberg.transforms import partitions
from seamline.connectors.iceberg.update_ids import identified, renumbered
from seamline.errors import NUMERIC_OVERFLOW, SCHEMA_NOT_FOUND, SeamlineError

_HEADS_MAX = 2
"""How many heads of a table are cached: statements that began before a commit need the earlier."""
CONNECT_S = 5.0
READ_S = 20.0
"""How long a REST catalog may be silent before it answers what changes nothing."""
ANSWER_S = 60.0
"""How long any answer of it may take until its last byte."""
_NEEDED_FOR_VIEWS = frozenset({Capability.V1_LIST_VIEWS, Capability.V1_LOAD_VIEW})


# --- Catalogs ------------------------------------------------------------------------------------


class GuardedCatalog(PyCatalog):
    """A PyIceberg catalog with what all of them do differently here.

    Attributes:
        guard: Decides where the files of a table may be.
        dependency: What requests are calls to, once the catalog is open; opening it is one call.
    """

    guard: CatalogGuard
    dependency: Dependency | None = None

    def call(self) -> contextlib.AbstractContextManager[None]:
        """One call to the catalog."""
        return contextlib.nullcontext() if self.dependency is None else self.dependency.call()

    def _load_file_io(
        self,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 - a table's properties
        location: str | None = None,
    ) -> FileIO:
        if location is not None:
            self.guard.places.require(location)
        return super()._load_file_io(location=location)

    def _update_and_stage_table(
        self,
        current_table: PyTable | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is not None:
            updates = renumbered(updates, current_table.metadata)
            foreign_metadata.require_lists(current_table)
            places, properties = self.guard.check(current_table), current_table.metadata.properties
            require_no_code(places.table, properties, PYTHON_CODE)
            require_own_places(places, properties)
        inherited: Any = super()
        staged: StagedTable = inherited._update_and_stage_table(
            current_table, table_identifier, requirements, updates
        )
        return staged


class CountedCatalog(GuardedCatalog):
    """A catalog whose methods are each a call to its dependency; the first base of its class."""

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        """Writes metadata; also of version 3, which PyIceberg itself only reads and commits."""
        if not isinstance(metadata, TableMetadataV3):
            MetastoreCatalog._write_metadata(metadata, io, metadata_path)
            return
        compressor = Compressor.get_compressor(metadata_path).bytes_compressor()
        with io.new_output(metadata_path).create() as target:
            target.write(compressor(_text(metadata)))


def _counted(name: str) -> Callable[..., Any]:
    def method(catalog: CountedCatalog, *arguments: Any, **named: Any) -> Any:
        with catalog.call():
            return getattr(super(CountedCatalog, catalog), name)(*arguments, **named)

    return method


for _name in (
    "commit_table", "create_namespace", "create_table", "drop_namespace", "drop_table",
    "list_namespaces", "list_tables", "load_namespace_properties", "load_table",
    "namespace_exists", "purge_table", "register_table", "rename_table", "table_exists",
    "update_namespace_properties",
):  # fmt: skip
    setattr(CountedCatalog, _name, _counted(_name))


_Heads = Mapping[str, TableMetadata]
"""The metadata of the newest heads of a table, by location, the newest last."""


class CachingSqlCatalog(GuardedCatalog, SqlCatalog):
    """PyIceberg's SQL catalog, which here parses each metadata file only once.

    It stores the levels of a namespace joined by dots, and asks here whether a namespace exists
    before it does anything else with it: one that has a level with a dot never does, since it would
    be another namespace than the one that access rules have seen.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._heads: Cache[tuple[str, str], _Heads] = Cache(
            HEADS_BYTES_MAX, weight=lambda heads: max(map(bytes_of, heads.values()))
        )

    def namespace_exists(self, identifier: str | Identifier) -> bool:
        """Whether there is a namespace with exactly these levels."""
        return _can_be_joined(identifier) and super().namespace_exists(identifier)

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Creates a namespace.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND when it would be another one.
        """
        if not _can_be_joined(namespace):
            raise SeamlineError(
                SCHEMA_NOT_FOUND,
                f"catalog {self.name} has no schemas with a dot within a level of the name",
                hint='Write the levels without quotes around each: "outer.inner".',
            )
        super().create_namespace(namespace, properties)

    @staticmethod
    def identifier_to_database_and_table(
        identifier: str | Identifier,
        err: type[ValueError | NoSuchTableError | NoSuchNamespaceError] = ValueError,
    ) -> tuple[str, str]:
        """Splits a name; a transaction that creates a table in a nested namespace needs it, too."""
        *namespace, table = PyCatalog.identifier_to_tuple(identifier)
        if not namespace:
            raise err(f"table {table} has no namespace")
        return PyCatalog.namespace_to_string(tuple(namespace)), table

    def load_table(self, identifier: str | Identifier) -> PyTable:
        """Loads a table, which every statement does; PyIceberg builds its query every time.

        Raises:
            NoSuchTableError: when there is none of that name.
        """
        namespace = PyCatalog.namespace_to_string(PyCatalog.namespace_from(identifier))
        name = PyCatalog.table_name_from(identifier)
        named = {"namespace": namespace, "name": name}
        with self.engine.connect() as connection:
            found = connection.execute(self._table_row, named).first()
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        return self._convert_orm_to_iceberg(found)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the names of the tables of a namespace.

        Raises:
            NoSuchNamespaceError: when there is no such namespace.
        """
        return list(self.heads(namespace))

    def heads(self, namespace: str | Identifier) -> dict[Identifier, str | None]:
        """Returns where the metadata of each table of a namespace is, by name, in one query.

        Raises:
            NoSuchNamespaceError: when there is no such namespace.
        """
        if namespace and not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")
        table, levels = IcebergTables, PyCatalog.identifier_to_tuple(namespace)
        query = select(table.table_name, table.metadata_location).where(
            table.catalog_name == self.name,
            table.table_namespace == PyCatalog.namespace_to_string(namespace),
        )
        of_tables = self._iceberg_type_filter()
        with self.engine.connect() as connection:
            rows = connection.execute(query if of_tables is None else query.where(of_tables))
            return {(*levels, name): location for name, location in rows}

    @functools.cached_property
    def _table_row(self) -> Select[str, str, str | None]:
        """The query for a table's row, without the columns that older catalogs lack."""
        table = IcebergTables
        found = select(table.table_namespace, table.table_name, table.metadata_location).where(
            table.catalog_name == self.name,
            table.table_namespace == bindparam("namespace"),
            table.table_name == bindparam("name"),
        )
        of_tables = self._iceberg_type_filter()
        return found if of_tables is None else found.where(of_tables)

    def _convert_orm_to_iceberg(self, orm_table: Any) -> PyTable:
        name = orm_table.table_namespace, orm_table.table_name
        location, heads = orm_table.metadata_location, self._heads.get(name) or {}
        metadata = heads.get(location or "")
        if metadata is None or location is None:
            self.guard.places.require(location or "")
            table = super()._convert_orm_to_iceberg(orm_table)
            kept = list(heads.items())[1 - _HEADS_MAX :]
            self._heads.put(name, {**dict(kept), table.metadata_location: table.metadata})
            return table
        return PyTable(
            identifier=(*orm_table.table_namespace.split("."), orm_table.table_name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )


def _text(metadata: TableMetadata) -> bytes:
    """Returns metadata as JSON; also of version 3, which PyIceberg itself does not write."""
    if isinstance(metadata, TableMetadataV3):
        metadata = metadata.model_copy(update={"next_row_id": metadata.next_row_id or 0})
    return IcebergBaseModel.model_dump_json(metadata).encode()


def _can_be_joined(namespace: str | Identifier) -> bool:
    return not any("." in level for level in PyCatalog.identifier_to_tuple(namespace))


class PatientRestCatalog(GuardedCatalog, RestCatalog):
    """PyIceberg's REST catalog, with a limit on the time that its answers take.

    The catalog may say how a table's files are reached; the table's metadata may not. Tokens are
    shared by all threads and renewed before they expire, whoever makes them.

    Args:
        name: The catalog's name in the configuration.
        login: Its login; none if its properties say how to log in, if at all.
        properties: PyIceberg's properties.
    """

    def __init__(self, name: str, login: LoginConfig | None = None, **properties: str) -> None:
        self._login = login
        super().__init__(name, **properties)

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        credential = self.properties.get(CREDENTIAL)
        if self._login:
            return tokens_of_login(self.name, self._login)
        if credential is not None:
            fields = self._extract_optional_oauth_params()
            return tokens_of_credential(self.name, session, self.auth_url, credential, fields)
        return super()._create_legacy_oauth2_auth_manager(session)

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        io = RestCatalog._load_file_io(self, properties, location)
        if S3_SIGNER not in io.properties:  # whatever else opens files has no use for tokens
            io.properties.pop(AUTH_MANAGER, None)
        return io

    def _response_to_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> PyTable:
        table = super()._response_to_table(identifier_tuple, _without_properties(table_response))
        table.metadata = table_response.metadata
        setattr(table, _VENDED, table_response.storage_credentials)
        return table

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        bare = _without_properties(table_response)
        table = super()._response_to_staged_table(identifier_tuple, bare)
        table.metadata = table_response.metadata
        return table

    def _config_headers(self, session: Session) -> None:
        """Prepares a new session, before it is used to ask for a token."""
        super()._config_headers(session)
        http.bound(session)
        request = functools.partial(self._request, session.request)
        session.request = request  # type: ignore[method-assign]

    def _request(
        self, request: Callable[..., Response], method: str, url: str, **named: Any
    ) -> Response:
        silence_s = READ_S if method.upper() in {"GET", "HEAD"} else ANSWER_S
        try:
            with self.call(), http.answered_within(ANSWER_S):
                answer = request(method, url, **named, timeout=(CONNECT_S, silence_s))
                if has_other_token(self._auth_manager, answer):
                    answer = request(method, url, **named, timeout=(CONNECT_S, silence_s))
                _require_object(answer)
                return answer
        except http.NoAnswerError as error:  # of a commit, it means that its outcome is unknown
            raise ReadTimeout(str(error)) from error


def _require_object(answer: Response) -> None:
    """Rejects a successful answer that is no JSON object, such as a proxy's page or half an answer.

    It says nothing about the table; of a commit, it does not say whether it landed.

    Raises:
        InvalidJSONError: It is not.
    """
    body = answer.content.strip()
    if answer.ok and body and not (body.startswith(b"{") and body.endswith(b"}")):
        raise InvalidJSONError(f"an answer of {len(body)} bytes is no JSON object")


_VENDED = "seamline_vended"
"""Name of the attribute of tables that holds the credentials vended for their files."""


def vended_credentials(table: PyTable) -> list[tuple[str, dict[str, str]]]:
    """Returns what a REST catalog has vended with a table: prefixes, and properties for each.

    If it has vended none by prefix, the table's settings apply to the table's own location.
    """
    location = f"{table.metadata.location.rstrip('/')}/"
    of_prefixes = [(one.prefix, dict(one.config)) for one in getattr(table, _VENDED, ())]
    return of_prefixes or [(location, dict(table.config))]


def _without_properties(response: TableResponse) -> TableResponse:
    metadata = response.metadata.model_copy(update={"properties": {}})
    return response.model_copy(update={"metadata": metadata})


def stage(
    transaction: Transaction,
    updates: Callable[[PyTable], tuple[TableUpdate, ...]],
    requirements: tuple[TableRequirement, ...] = (),
) -> None:
    """Adds updates to a transaction, such as one that creates a table.

    Args:
        transaction: The transaction.
        updates: Makes the updates for the table, which may be yet to be created, but knows where
            its files go.
        requirements: What they require of the table, as it is now in the transaction.
    """
    transaction._apply(updates(transaction._table), requirements)


def new_location(catalog: PyCatalog, identifier: tuple[str, ...]) -> str | None:
    """Returns a location for a new table that no other table has; None if its catalog chooses one.

    A table that was renamed stays where it is, so the location for a name may be taken.
    """
    if not isinstance(catalog, MetastoreCatalog):
        return None
    namespace = PyCatalog.namespace_to_string(identifier[:-1])
    default = catalog._resolve_table_location(None, namespace, identifier[-1])
    return f"{default}-{uuid.uuid4().hex}"


def write_files(
    metadata: TableMetadata, rows: pa.Table | pa.RecordBatchReader, io: FileIO
) -> Iterator[DataFile]:
    """Writes rows to data files of a table's current schema and partition spec.

    Args:
        metadata: The table's metadata.
        rows: The rows, as PyIceberg appends them; a reader only without partitions.
        io: Writes the files.

    Raises:
        OSError: when a file cannot be written.
    """
    for file in _dataframe_to_data_files(metadata, rows, io):
        file.spec_id = metadata.default_spec_id
        yield file


@dataclasses.dataclass(frozen=True, slots=True)
class _Partition:
    """What PyIceberg's writer needs from a partition."""

    partition: Record
    path: str

    def to_path(self) -> str:
        return self.path


def _partitions(
    spec: PartitionSpec, schema: Schema, arrow_table: pa.Table
) -> Iterator[_TablePartition]:
    """Splits rows as PyIceberg does, also by NaN, by both zeros, and by one column twice.

    Raises:
        SeamlineError: NUMERIC_OVERFLOW.
    """
    try:
        found = partitions(arrow_table, schema, spec.fields)
    except ArithmeticError as error:
        words = ", ".join(f"{field.transform} of {field.name}" for field in spec.fields)
        raise SeamlineError(
            NUMERIC_OVERFLOW, f"a partition is below the least value of its type: {words}"
        ) from error
    for partition, places in found:
        key: Any = _Partition(partition, spec.partition_to_path(partition, schema))
        yield _TablePartition(key, arrow_table.take(places).combine_chunks())


files_of_arrow._determine_partitions = _partitions
FileFormatFactory._registry[FileFormat.PARQUET] = ParquetModel()


def serves_views(catalog: RestCatalog) -> bool:
    """Whether the catalog says that it has views."""
    return catalog._supported_endpoints >= _NEEDED_FOR_VIEWS


def load_view(catalog: RestCatalog, identifier: tuple[str, ...]) -> bytes:
    """Returns the catalog's own response to loading a view.

    Raises:
        NoSuchViewError: there is no such view.
        RESTError: the catalog fails.
    """
    parts = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)
    answer = catalog._session.get(catalog.url(Endpoints.load_view, **parts))
    try:
        answer.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchViewError})
    return bytes(answer.content)


def put_view(
    catalog: PyCatalog, identifier: tuple[str, ...], body: dict[str, Any], *, replace: bool
) -> None:
    """Creates a view in a REST catalog, or changes it, which PyIceberg cannot do.

    Args:
        catalog: The catalog.
        identifier: The view.
        body: What to send: the request that creates a view, or the one that commits a change.
        replace: Whether the view is there already.

    Raises:
        RESTError: the catalog fails.
    """
    assert isinstance(catalog, RestCatalog)
    parts = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)
    if replace:
        url = catalog.url(Endpoints.load_view, **parts)
    else:
        url = catalog.url(Endpoints.create_view, namespace=parts["namespace"])
    answer = catalog._session.post(url, json=body)
    try:
        answer.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchViewError, 409: CommitFailedException})


# --- Changes by clients --------------------------------------------------------------------------

_ATTEMPTS_MAX = 5
_LOST = "Table has been updated by another process"
"""How PyIceberg's SQL catalog reports that another commit came in between."""


def metadata_text(metadata: TableMetadata) -> bytes:
    """Returns metadata as the JSON that other engines are given."""
    properties = readable_by_others(metadata.properties)
    return _text(metadata.model_copy(update={"properties": properties}))


def file_io(catalog: GuardedCatalog, location: str) -> FileIO:
    """Returns a reader of metadata files that are where tables of the catalog may be."""
    return catalog._load_file_io(location=location)


def staged(
    catalog: PyCatalog, identifier: tuple[str, ...], schema: Schema, **named: Any
) -> PyTable:
    """Returns a table as it would be created."""
    return catalog.create_table_transaction(identifier, schema, **named)._table


def committed(
    catalog: PyCatalog,
    identifier: tuple[str, ...],
    table: PyTable | None,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> tuple[TableMetadata, str]:
    """Commits, and returns the new metadata and where it is.

    A commit that only lost a race is repeated while its requirements hold.

    Raises:
        CommitFailedException: a requirement does not hold.
    """
    named = table or _unmade(catalog, identifier)
    made: CommitTableResponse | None = None
    attempt = 0
    while made is None:
        attempt += 1
        try:
            made = catalog.commit_table(named, requirements, _applicable(updates, table))
        except CommitFailedException as error:
            if not str(error).startswith(_LOST) or attempt == _ATTEMPTS_MAX:
                raise
    return made.metadata, made.metadata_location


def committed_together(
    catalog: PyCatalog,
    commits: Sequence[
        tuple[tuple[str, ...], tuple[TableRequirement, ...], tuple[TableUpdate, ...]]
    ],
) -> None:
    """Commits to several tables of a SQL catalog, all or none.

    Args:
        catalog: The catalog.
        commits: Names, requirements and updates of the tables, each at most once.

    Raises:
        CommitFailedException: a requirement does not hold, or another commit came in between.
    """
    assert isinstance(catalog, CachingSqlCatalog)
    made: list[tuple[tuple[str, ...], str | None, StagedTable]] = []
    for identifier, requirements, updates in commits:
        known = catalog.load_table(identifier) if catalog.table_exists(identifier) else None
        own = catalog._update_and_stage_table(
            known, identifier, requirements, _applicable(updates, known)
        )
        if known is None or own.metadata != known.metadata:
            catalog._write_metadata(own.metadata, own.io, own.metadata_location)
            made.append((identifier, known.metadata_location if known else None, own))
    table = IcebergTables
    with catalog.engine.begin() as connection:
        for identifier, before, own in made:
            namespace = PyCatalog.namespace_to_string(identifier[:-1])
            if before is None:
                row = catalog._create_table_row(namespace, identifier[-1], own.metadata_location)
                connection.execute(sql_insert(table).values(**row))
                continue
            changed = connection.execute(
                sql_update(table)
                .where(
                    table.catalog_name == catalog.name,
                    table.table_namespace == namespace,
                    table.table_name == identifier[-1],
                    table.metadata_location == before,
                )
                .values(metadata_location=own.metadata_location, previous_metadata_location=before)
            )
            if changed.rowcount < 1:
                raise CommitFailedException(f"{_LOST}: {namespace}.{identifier[-1]}")


def announces(catalog: PyCatalog, endpoint: str) -> bool:
    """Whether a catalog is a REST catalog that says that it has an endpoint."""
    return isinstance(catalog, RestCatalog) and (
        Endpoint.from_string(endpoint) in catalog._supported_endpoints
    )


def forwarded(
    catalog: PyCatalog, method: str, path: Sequence[str], body: Any = None
) -> tuple[int, bytes]:
    """Forwards a request to a REST catalog.

    Args:
        catalog: The catalog.
        method: The HTTP method.
        path: The parts of the path below the catalog's prefix, not encoded.
        body: The JSON to send.

    Returns:
        The status and the body of the answer, whatever they are.
    """
    assert isinstance(catalog, RestCatalog)
    url = catalog.url("/".join(quote(part, safe="") for part in path))
    answer = catalog._session.request(method, url, json=body)
    return answer.status_code, bytes(answer.content)


def _unmade(catalog: PyCatalog, identifier: tuple[str, ...]) -> PyTable:
    """Returns the identification of a table that does not exist yet."""
    metadata = MetastoreCatalog._empty_table_metadata()
    return StagedTable(identifier, metadata, "", catalog=catalog, io=load_file_io())


def _applicable(updates: tuple[TableUpdate, ...], table: PyTable | None) -> tuple[TableUpdate, ...]:
    """Returns updates that PyIceberg can apply: with all ids, and without removals of nothing."""
    known = set(table.metadata.properties) if table is not None else set()
    found: list[TableUpdate] = []
    for update in identified(updates, table.metadata if table is not None else None):
        if isinstance(update, SetPropertiesUpdate):
            known |= set(update.updates)
        if isinstance(update, RemovePropertiesUpdate):
            removals = [name for name in update.removals if name in known]
            found.append(RemovePropertiesUpdate(removals=removals))
            continue
        found.append(update)
    return tuple(found)


# --- Metadata ------------------------------------------------------------------------------------


_PARSER = HeadParser()


def _understand_others() -> None:
    """Patches PyIceberg to accept metadata that it does not know by itself."""
    known: Any = IcebergType.handle_primitive_type
    types: Any = IcebergType
    defaults: Any = (from_json, to_json)
    parse = TableMetadataUtil.parse_raw

    def type_of(value: Any, handler: Any) -> Any:
        found = foreign_metadata.type_of(value) if isinstance(value, str) else None
        return known(value, handler) if found is None else found

    def parsed(data: str) -> TableMetadata:
        return _PARSER.parsed(data, _complete, lambda metadata: metadata)

    def _complete(data: str) -> TableMetadata:
        if '"manifests"' not in data:
            return parse(data)
        return _metadata_of(json.loads(data))

    def _metadata_of(body: Any) -> TableMetadata:
        try:
            return TableMetadataUtil.parse_obj(foreign_metadata.completed(body))
        except PydanticError as error:
            raise ValidationError(error) from error

    for fine in (TimestampNanoType, TimestamptzNanoType):
        for conversion, own in zip(defaults, foreign_metadata.MOMENTS, strict=True):
            conversion.register(fine)(own)
    types.handle_primitive_type = type_of
    TableMetadataUtil.parse_raw = staticmethod(parsed)  # type: ignore[method-assign]
    rest.TableResponse = _AnyTableResponse  # type: ignore[misc]


def _unpack_no_bombs() -> None:
    """Patches PyIceberg to unpack files of a warehouse, of every codec, within bounds."""
    files: Any = GzipCompressor
    files.stream_decompressor = lambda _, packed: io.BytesIO(unpacking.gunzipped(packed.read()))
    codecs: Any = KNOWN_CODECS
    codecs["deflate"].decompress = staticmethod(unpacking.inflated)
    codecs["bzip2"].decompress = staticmethod(unpacking.unzipped)
    codecs["zstandard"].decompress = staticmethod(unpacking.unpacked_zstandard)
    codecs["snappy"].decompress = staticmethod(unpacking.unpacked_snappy)
    codecs["snappy"].compress = staticmethod(unpacking.packed_snappy)  # needs another library


def _write_version_3() -> None:
    """Patches PyIceberg to commit to tables of version 3, which it only half supports.

    It refuses upgrades, and would number rows again from 0 after a snapshot that says nothing about
    its rows. Columns of new tables keep their defaults, which it leaves out.
    """
    updates: Any = table_update
    updates.SUPPORTED_TABLE_FORMAT_VERSION = 3
    known = updates._apply_table_update

    def applied(change: Any, metadata: TableMetadata, context: Any) -> TableMetadata:
        counts = metadata.format_version >= 3 and isinstance(change, AddSnapshotUpdate)
        if counts and change.snapshot.added_rows is None:
            raise ValueError("Cannot add a snapshot without its added rows")
        found: TableMetadata = known(change, metadata, context)
        if isinstance(found, TableMetadataV3) and found.next_row_id is None:
            found = found.model_copy(update={"next_row_id": 0})
        return found

    def struct(self: Any, struct: StructType, results: list[Callable[[], Any]]) -> StructType:
        ids = [self._get_and_increment(field.field_id) for field in struct.fields]
        return StructType(
            *(
                field.model_copy(update={"field_id": own_id, "field_type": result()})
                for own_id, field, result in zip(ids, struct.fields, results, strict=True)
            )
        )

    updates._apply_table_update = applied
    fresh: Any = _SetFreshIDs
    fresh.struct = struct


def _copy_no_schemas() -> None:
    """Patches PyIceberg to share schemas and partition specs between copies of metadata.

    They never change, but keep what was looked up in them, so that copying one failed whenever
    another thread looked something up meanwhile.
    """
    for frozen in (Schema, PartitionSpec):
        own: Any = frozen
        own.__deepcopy__ = lambda self, memo=None: self  # noqa: ARG005


def _metadata_of_response(response: TableResponse) -> TableMetadata:
    return response.metadata


class _AnyTableResponse(TableResponse):
    @classmethod
    def model_validate_json(cls, json_data: Any, **named: Any) -> Self:
        """Parses a response."""
        parse: Callable[[str], Self] = functools.partial(super().model_validate_json, **named)
        return _PARSER.parsed(json_data, parse, _metadata_of_response, ("metadata",))

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, body: Any) -> Any:
        if not isinstance(body, dict) or "metadata" not in body:
            return body
        return {**body, "metadata": foreign_metadata.completed(body["metadata"])}


_understand_others()
_write_version_3()
_unpack_no_bombs()
_copy_no_schemas()


# --- Scans ---------------------------------------------------------------------------------------


def statistics_evaluator(
    schema: Schema, row_filter: BooleanExpression, *, case_sensitive: bool
) -> Callable[[DataFile], bool]:
    """Returns PyIceberg's own test for which files a scan keeps by their statistics."""
    return _InclusiveMetricsEvaluator(
        schema, row_filter, case_sensitive, include_empty_files=True
    ).eval


def is_decided(schema: Schema, condition: BooleanExpression, file: DataFile) -> bool:
    """Whether a bound condition is true of every row of a file, or of none, by its statistics."""
    if visit(condition, _StrictMetricsEvaluationVisitor(schema.as_struct(), file)):
        return True
    return not visit(condition, _InclusiveMetricsEvaluationVisitor(file))


# --- Manifests and deletes -----------------------------------------------------------------------


def live_entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """Returns the entries of a manifest that are not deleted, with the fields of version 3.

    Raises:
        OSError: when it cannot be read.
    """
    return tuple(
        entry
        for entry in inheriting_entries(io, manifest)
        if entry.status != ManifestEntryStatus.DELETED
    )


def inheriting_entries(io: FileIO, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yields the entries of a manifest, with what they inherit from the list that names it.

    Raises:
        OSError: when it cannot be read.
    """
    for entry in all_entries(io, manifest.manifest_path):
        yield _inherit_from_manifest(entry, manifest)


def paths_in(io: FileIO, path: str, *, deleted: bool) -> Iterator[str]:
    """Yields the files that a manifest names.

    Args:
        io: Reads the manifest.
        path: Where it is.
        deleted: Whether to include deleted files, which an expiry removes from storage.

    Raises:
        OSError: when it cannot be read.
    """
    for entry in all_entries(io, path):
        if deleted or entry.status != ManifestEntryStatus.DELETED:
            yield entry.data_file.file_path


def all_entries(io: FileIO, path: str) -> Iterator[ManifestEntry]:
    """Yields the entries of a manifest, with the fields of version 3.

    Raises:
        OSError: when it cannot be read.
        ValueError: when an entry lacks a required field.
    """
    with _EntryReader(
        io.new_input(path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for entry in reader:
            file = entry.data_file
            needed = (entry.status, file.file_path, file.file_format, file.record_count,
                      file.file_size_in_bytes)  # fmt: skip
            if None in needed:
                raise ValueError("an entry lacks its status, or its file's path, format or size")
            yield entry


class _EntryReader(AvroFile[ManifestEntry]):
    """Reads doubles in full; PyIceberg's fast decoder truncates them to 32 bits."""

    def __enter__(self) -> Self:
        super().__enter__()
        found: Any = _Readers(self.read_types, self.read_enums)
        wanted: Any = self.read_schema
        self.reader = visit_with_partner(self.schema, wanted, found, SchemaPartnerAccessor())
        return self


class _Readers(ReadSchemaResolver):
    def visit_double(self, double_type: Any, partner: Any) -> Reader:  # noqa: ARG002 - PyIceberg's
        return _DOUBLES


class _DoubleReader(Reader):
    def read(self, decoder: Any) -> float:
        found: float = _DOUBLE.unpack(decoder.read(_DOUBLE.size))[0]
        return found

    def skip(self, decoder: Any) -> None:
        decoder.skip(_DOUBLE.size)


_DOUBLES: Reader = _DoubleReader()  # type: ignore[no-untyped-call]


_DOUBLE = struct.Struct("<d")


def vector_positions(blob: bytes) -> list[int]:
    """Returns the positions of rows in a deletion vector, which is a blob of a Puffin file."""
    bitmaps = DeletionVector._deserialize_bitmap(_extract_vector_payload(blob))
    return [(key << 32) + low for key, bitmap in enumerate(bitmaps) for low in bitmap]


# --- Manifests -----------------------------------------------------------------------------------

UNCOMPRESSED: Any = "null"


class ManifestWriter(ManifestWriterV2):
    """Writes manifests of version 2 or 3, of data or of deletes."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        io: FileIO,
        path: str,
        version: TableVersion,
        content: ManifestContent = ManifestContent.DATA,
    ) -> None:
        self._content = content
        super().__init__(spec, schema, io.new_output(path), 0, UNCOMPRESSED)
        self._version = version

    def content(self) -> ManifestContent:
        """Returns what its files hold."""
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": self._content.name.lower()}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """Returns the Avro writer; PyIceberg's own leaves out what version 3 adds."""
        schema = self._with_partition(self.version)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    @property
    def version(self) -> TableVersion:
        """The format version."""
        return self._version
