"""A table format of its own: a folder of Parquet files, each named after the offset it ends at.

A table is the folder of its names in the warehouse, and the copy of a topic with one partition. The
file `12.parquet` has the records from where the file before it ends up to offset 12. Each file adds
a snapshot, whose id is that offset.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from seamline.connectors.cache import Cache
from seamline.connectors.config import CatalogConfig
from seamline.connectors.dependencies import Dependency, storage_of
from seamline.connectors.duckdb.audit import cold_scan
from seamline.connectors.duckdb.engine import open_scan
from seamline.connectors.iceberg.boundaries.adoption import (
    Adoptable,
    provider_named,
    require_foreign,
)
from seamline.connectors.iceberg.boundaries.provider import Adopted, Answer, Provider
from seamline.connectors.iceberg.boundaries.registry import Logs
from seamline.connectors.iceberg.boundaries.writers import Writer
from seamline.connectors.iceberg.file_contents import FileReader
from seamline.connectors.places import TablePlaces
from seamline.connectors.table_formats import TableFormat
from seamline.errors import TABLE_NOT_FOUND, SeamlineError
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import EXACT
from seamline.seam.files import FIELD_ID, ColdPlan, DataFile, ScanRequest
from seamline.seam.history_checks import outrun, require
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import Snapshot, TableSchema, TableState
from seamline.sql.types import BIGINT, VARCHAR, Field

FOLDERS = TableFormat(
    name="folders",
    title="Folder",
    catalog_types=("folders",),
    catalog="support.folders:FolderCatalog",
)
SCHEMA = TableSchema(
    0,
    (
        Field("id", BIGINT, field_id=1),
        Field("item", VARCHAR, field_id=2),
        Field("k_offset", BIGINT, field_id=3),
    ),
)
"""Every table has these columns."""
_STORED = pa.schema(
    [
        pa.field(column.name, type_, metadata={FIELD_ID: str(column.field_id)})
        for column, type_ in zip(SCHEMA.columns, (pa.int64(), pa.string(), pa.int64()), strict=True)
    ]
)


def append(folder: pathlib.Path, end: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds a file, and so a snapshot: the rows of the records up to an offset."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=_STORED), folder / f"{end}.parquet")


class FileNames(Provider[Adopted]):
    """The boundary provider: the name of a snapshot's newest file is the offset it ends at."""

    name = "file-names"
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        return Answer(self.adopted.start.raised(Offsets({0: snapshot.snapshot_id})))


_WRITER = Writer("a writer of folders", FileNames.name, columns={"k_offset": "offset"})


class FolderTable:
    """A loaded table: `ColdTable` over a folder."""

    def __init__(self, state: TableState, io: FileIO, files: FileReader) -> None:
        self.state = state
        self.file_access = io
        self._files = files

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        of_snapshot = [s.snapshot_id for s in self.state.ancestors(snapshot_id)]
        paths = [pathlib.Path(self.state.location, f"{end}.parquet") for end in of_snapshot]
        TablePlaces.of(self.state.display_name, self.state.location, ()).require(map(str, paths))
        files = tuple(
            DataFile(str(path), "PARQUET", path.stat().st_size, pq.read_metadata(path).num_rows)
            for path in paths
        )
        return ColdPlan(
            snapshot_id=snapshot_id,
            files=files,
            total_files=len(files),
            total_rows=sum(file.record_count for file in files),
            only_duckdb="a Folder table",
            wanted=frozenset(f.field_id for f in SCHEMA.columns if f.name in request.columns),
        )

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return self._files.inspect(self.file_access, plan)

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`."""
        raise FOLDERS.refuses(f"table {self.state.display_name}")

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        return frozenset()

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        require(outrun(self.state, snapshot_id))

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return None

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`: without times, the first offset that a range has at all."""
        if snapshot_id is None or not ranges:
            return Offsets()
        (wanted,) = ranges
        with open_scan(cold_scan(self, snapshot_id, SCHEMA.columns)) as (connection, relation):
            first = connection.sql(
                f"SELECT min(k_offset) FROM ({relation})"
                f" WHERE k_offset >= {wanted.start} AND k_offset < {wanted.end_exclusive}"
            ).fetchall()[0][0]
        return Offsets() if first is None else Offsets({wanted.partition: int(first)})


class FolderCatalog:
    """The tables that the configuration lists: a `FormatCatalog`."""

    def __init__(
        self, config: CatalogConfig, tables: Mapping[str, Mapping[str, str]], logs: Logs
    ) -> None:
        self.name = config.name
        self.dependencies: tuple[Dependency, ...] = (storage_of(config.name),)
        self._warehouse = pathlib.Path(config.warehouse)
        self._properties = {
            tuple(full.split(".")[1:]): own
            for full, own in tables.items()
            if full.split(".")[0] == config.name
        }
        self._io, self._files = load_file_io({}), FileReader()
        self._answers: Cache[tuple[object, ...], tuple[Answer | None]] = Cache(100)
        self._logs = logs

    def load(self, identifier: tuple[str, ...]) -> FolderTable:
        """See `Catalog.load`."""
        if identifier not in self._properties:
            name = ".".join((self.name, *identifier))
            raise SeamlineError(TABLE_NOT_FOUND, f"table {name} does not exist")
        own = self._properties[identifier].items()
        properties = {PROPERTY_PREFIX + k.replace("_", "-"): v for k, v in own}
        return self._table(identifier, properties)

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return sorted({identifier[:-1] for identifier in self._properties})

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return namespace in self.namespaces()

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return sorted(i for i in self._properties if i[:-1] == namespace)

    def adoptable(
        self,
        identifier: tuple[str, ...],
        location: str | None,
        provider: str | None,
        options: Mapping[str, str],
    ) -> Adoptable:
        """See `FormatCatalog.adoptable`."""
        if provider is not None:
            provider_named(provider, (FileNames.name,))
        table = self._table(identifier, {}, location)
        require_foreign(table.state)
        return Adoptable(
            table.state,
            _WRITER,
            options,
            lambda properties: self._table(identifier, properties, location),
        )

    def _table(
        self,
        identifier: tuple[str, ...],
        properties: Mapping[str, str],
        location: str | None = None,
    ) -> FolderTable:
        folder = pathlib.Path(location or self._warehouse.joinpath(*identifier))
        ends = sorted(int(path.stem) for path in folder.glob("*.parquet"))
        snapshots = {
            end: Snapshot(
                end,
                parent,
                (folder / f"{end}.parquet").stat().st_mtime_ns // 1_000_000,
                "append",
                {},
                SCHEMA.schema_id,
                number,
            )
            for number, (end, parent) in enumerate(zip(ends, [None, *ends], strict=False), 1)
        }
        binding = TopicBinding.from_properties(properties)
        bare = TableState(
            name=(self.name, *identifier),
            uuid=str(folder),
            properties=properties,
            schemas={SCHEMA.schema_id: SCHEMA},
            current_schema_id=SCHEMA.schema_id,
            snapshots=snapshots,
            refs={},
            current_snapshot_id=ends[-1] if ends else None,
            snapshot_log=tuple((s.timestamp_ms, end) for end, s in snapshots.items()),
            location=str(folder),
            metadata_location=f"{folder}/{len(ends)}",
        )
        if binding is None:
            return FolderTable(bare, self._io, self._files)
        cluster = binding.cluster
        adopted = Adopted(bare, binding, lambda: self._logs(cluster), self._answers)
        state = dataclasses.replace(bare, provider=FileNames(adopted))
        return FolderTable(state, self._io, self._files)
