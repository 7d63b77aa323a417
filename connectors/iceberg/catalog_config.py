"""PyIceberg's catalogs as the configuration names them, the SQL one made fit for many loads.

None takes a table's properties for settings: which code is loaded, who is asked and with which key
is for the configuration to say, and for a catalog.
"""

from __future__ import annotations

import functools
from typing import Any

from pyiceberg.catalog import Catalog as PyCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor
from pyiceberg.table import StagedTable
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import EMPTY_DICT, IcebergBaseModel, Properties
from requests import Session

from seamline.connectors.cache import Cache
from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.metadata_properties import PYTHON_CODE, require_no_code

METADATA_CACHED_MAX = 256
REST_TIMEOUT_S = (10.0, 60.0)
"""For connecting to a REST catalog, and for every wait for a part of its answer."""


class GuardedCatalog(PyCatalog):
    """What every catalog of PyIceberg's does otherwise here."""

    def _load_file_io(
        self,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 - a table's
        location: str | None = None,
    ) -> FileIO:
        return super()._load_file_io(location=location)

    def _update_and_stage_table(
        self, current_table: PyTable | None, *arguments: Any, **named: Any
    ) -> StagedTable:
        if current_table is not None:
            name = ".".join((self.name, *current_table.name()))
            require_no_code(name, current_table.metadata.properties, PYTHON_CODE)
        inherited: Any = super()
        staged: StagedTable = inherited._update_and_stage_table(  # noqa: SLF001 - overridden
            current_table, *arguments, **named
        )
        return staged


class _CachingSqlCatalog(GuardedCatalog, SqlCatalog):
    """PyIceberg's SQL catalog, parsing each metadata file once."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._metadata: Cache[str, TableMetadata] = Cache(METADATA_CACHED_MAX)

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        """Also writes version 3, which PyIceberg reads and commits but does not write itself."""
        if not isinstance(metadata, TableMetadataV3):
            SqlCatalog._write_metadata(metadata, io, metadata_path)  # noqa: SLF001 - overridden
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


class _PatientRestCatalog(GuardedCatalog, RestCatalog):
    """PyIceberg's REST catalog, waiting so long for an answer and no longer.

    How a table's files are reached is the catalog's to say, beside the table's metadata.
    """

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return RestCatalog._load_file_io(self, properties, location)  # noqa: SLF001 - overridden

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


def open_catalog(config: CatalogConfig) -> GuardedCatalog:
    """The catalog a configuration describes."""
    properties: dict[str, Any] = {**config.address, **config.properties}
    if config.type == "sql":
        return _CachingSqlCatalog(config.name, **properties)
    if config.type == "rest":
        return _PatientRestCatalog(config.name, **properties)
    catalog: Any = load_catalog(config.name, type=config.type, **properties)
    kind = type(catalog)
    catalog.__class__ = type(kind.__name__, (GuardedCatalog, kind), {})
    guarded: GuardedCatalog = catalog
    return guarded
