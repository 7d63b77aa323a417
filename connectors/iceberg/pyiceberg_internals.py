"""The one place that reaches into PyIceberg: what it keeps to itself and we cannot do without.

Everything here may break with any new version of PyIceberg, which is why the project is pinned to a
minor one. The catalogs take no table's properties for settings: which code is loaded, and which
addresses and keys are used, is for the configuration and the catalog to say. None opens
metadata where no table may lie.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, Self

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.catalog import Catalog as PyCatalog
from pyiceberg.catalog.rest import Capability, Endpoints, IdentifierKind, RestCatalog, TableResponse
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchViewError
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)
from pyiceberg.schema import visit_with_partner
from pyiceberg.serializers import Compressor
from pyiceberg.table import ManifestGroupPlanner, StagedTable, Transaction
from pyiceberg.table import Table as PyTable
from pyiceberg.table.deletion_vector import DeletionVector, _extract_vector_payload
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import TableUpdate
from pyiceberg.typedef import EMPTY_DICT, IcebergBaseModel, Properties
from requests import HTTPError, Session

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.guard import CatalogGuard
from seamline.connectors.iceberg.metadata_properties import (
    PYTHON_CODE,
    require_no_code,
    require_own_places,
)

METADATA_CACHED_MAX = 256
REST_TIMEOUT_S = (10.0, 60.0)
"""For connecting to a REST catalog, and for every wait for a part of its answer."""
_NEEDED_FOR_VIEWS = frozenset({Capability.V1_LIST_VIEWS, Capability.V1_LOAD_VIEW})


# --- Catalogs ------------------------------------------------------------------------------------


class GuardedCatalog(PyCatalog):
    """What every catalog of PyIceberg's does differently here.

    Attributes:
        guard: Says of a table where its files may lie.
    """

    guard: CatalogGuard

    def _load_file_io(
        self,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 - a table's
        location: str | None = None,
    ) -> FileIO:
        if location is not None:
            self.guard.places.require(location)
        return super()._load_file_io(location=location)

    def _update_and_stage_table(
        self, current_table: PyTable | None, *arguments: Any, **named: Any
    ) -> StagedTable:
        if current_table is not None:
            places, properties = self.guard.check(current_table), current_table.metadata.properties
            require_no_code(places.table, properties, PYTHON_CODE)
            require_own_places(places, properties)
        inherited: Any = super()
        staged: StagedTable = inherited._update_and_stage_table(current_table, *arguments, **named)
        return staged


class CachingSqlCatalog(GuardedCatalog, SqlCatalog):
    """PyIceberg's SQL catalog, parsing each metadata file once."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._metadata: Cache[str, TableMetadata] = Cache(METADATA_CACHED_MAX)

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        """Also writes version 3, which PyIceberg reads and commits but does not write itself."""
        if not isinstance(metadata, TableMetadataV3):
            SqlCatalog._write_metadata(metadata, io, metadata_path)
            return
        complete = metadata.model_copy(update={"next_row_id": metadata.next_row_id or 0})
        text = IcebergBaseModel.model_dump_json(complete)
        compressor = Compressor.get_compressor(metadata_path).bytes_compressor()
        with io.new_output(metadata_path).create() as target:
            target.write(compressor(text.encode()))

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> PyTable:
        location = orm_table.metadata_location
        metadata = self._metadata.get(location or "")
        if metadata is None or location is None:
            self.guard.places.require(location or "")
            table = super()._convert_orm_to_iceberg(orm_table)
            self._metadata.put(table.metadata_location, table.metadata)
            return table
        return PyTable(
            identifier=(*orm_table.table_namespace.split("."), orm_table.table_name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )


class PatientRestCatalog(GuardedCatalog, RestCatalog):
    """PyIceberg's REST catalog, with a time-out for its answers.

    The catalog may say how a table's files are reached; the table's metadata may not.
    """

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return RestCatalog._load_file_io(self, properties, location)

    def _response_to_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> PyTable:
        table = super()._response_to_table(identifier_tuple, _without_properties(table_response))
        table.metadata = table_response.metadata
        return table

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        bare = _without_properties(table_response)
        table = super()._response_to_staged_table(identifier_tuple, bare)
        table.metadata = table_response.metadata
        return table

    def _create_session(self) -> Session:
        session = super()._create_session()
        request = functools.partial(session.request, timeout=REST_TIMEOUT_S)
        session.request = request  # type: ignore[method-assign]
        return session


def _without_properties(response: TableResponse) -> TableResponse:
    metadata = response.metadata.model_copy(update={"properties": {}})
    return response.model_copy(update={"metadata": metadata})


def stage(transaction: Transaction, updates: Callable[[PyTable], tuple[TableUpdate, ...]]) -> None:
    """Adds updates to a transaction that creates a table.

    Args:
        transaction: The transaction.
        updates: Makes them for the table that will be created, which knows where its files go.
    """
    transaction._apply(updates(transaction._table))


def serves_views(catalog: RestCatalog) -> bool:
    """Whether the catalog says that it has views."""
    return catalog._supported_endpoints >= _NEEDED_FOR_VIEWS


def load_view(catalog: RestCatalog, identifier: tuple[str, ...]) -> bytes:
    """The catalog's own answer to loading a view.

    Raises:
        NoSuchViewError: there is none.
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
    catalog: PyCatalog, identifier: tuple[str, ...], metadata: dict[str, Any], *, replace: bool
) -> None:
    """Makes a view in a REST catalog, or its next version, which PyIceberg cannot.

    Raises:
        RESTError: the catalog fails.
    """
    assert isinstance(catalog, RestCatalog)
    parts = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)
    version, schema = metadata["versions"][-1], metadata["schemas"][-1]
    if not replace:
        url = catalog.url(Endpoints.create_view, namespace=parts["namespace"])
        body = {
            "name": parts["view"],
            "schema": schema,
            "view-version": version,
            "properties": metadata["properties"],
        }
    else:
        url = catalog.url(Endpoints.load_view, **parts)
        body = {
            "requirements": [{"type": "assert-view-uuid", "uuid": metadata["view-uuid"]}],
            "updates": [
                {"action": "add-schema", "schema": schema},
                {"action": "add-view-version", "view-version": {**version, "schema-id": -1}},
                {"action": "set-current-view-version", "view-version-id": -1},
                {"action": "set-properties", "updates": metadata["properties"]},
            ],
        }
    answer = catalog._session.post(url, json=body)
    try:
        answer.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchViewError, 409: CommitFailedException})


# --- Scans ---------------------------------------------------------------------------------------


class Evaluators:
    """PyIceberg's own decisions on which manifests and files a scan keeps.

    Args:
        planner: The scan's.
    """

    def __init__(self, planner: ManifestGroupPlanner) -> None:
        self.by_statistics: Callable[[DataFile], bool] = planner._build_metrics_evaluator()
        self._manifests = functools.cache(planner._build_manifest_evaluator)
        self._partitions = functools.cache(planner._build_partition_evaluator)

    def of_manifest(self, manifest: ManifestFile) -> bool:
        """Whether its summaries of partitions let a row through."""
        return self._manifests(manifest.partition_spec_id)(manifest)

    def by_partition(self, file: DataFile) -> bool:
        """Whether its partition lets a row through."""
        return self._partitions(file.spec_id)(file)


# --- Manifests and deletes -----------------------------------------------------------------------


def live_entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """The entries of a manifest that are not deleted, with the fields of version 3.

    Raises:
        OSError: when it cannot be read.
    """
    return tuple(
        _inherit_from_manifest(entry, manifest)
        for entry in _entries(io, manifest.manifest_path)
        if entry.status != ManifestEntryStatus.DELETED
    )


def paths_in(io: FileIO, path: str, *, deleted: bool) -> Iterator[str]:
    """The files that a manifest names.

    Args:
        io: Reads it.
        path: Where it is.
        deleted: Also those that are deleted, which an expiry removes from the storage.

    Raises:
        OSError: when it cannot be read.
    """
    for entry in _entries(io, path):
        if deleted or entry.status != ManifestEntryStatus.DELETED:
            yield entry.data_file.file_path


def _entries(io: FileIO, path: str) -> Iterator[ManifestEntry]:
    with _EntryReader(
        io.new_input(path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        yield from reader


class _EntryReader(AvroFile[ManifestEntry]):
    """Reads doubles whole: PyIceberg's fast decoder cuts them to 32 bits."""

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
    """The positions of rows in a deletion vector, a blob of a Puffin file."""
    bitmaps = DeletionVector._deserialize_bitmap(_extract_vector_payload(blob))
    return [(key << 32) + low for key, bitmap in enumerate(bitmaps) for low in bitmap]
