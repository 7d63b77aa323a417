"""A Delta table as a cold side: which files of a version a scan reads, with columns by name.

Only DuckDB reads it. A version older than the current one has files that a vacuum may have removed:
before anything of that version is read, these files are checked to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.io import FileIO

from seamline.connectors.delta.schemas import name_mapping
from seamline.connectors.delta.versions import Version, VersionFile, bounded, schema_of_bounds
from seamline.connectors.duckdb.audit import cold_scan
from seamline.connectors.duckdb.engine import open_scan
from seamline.connectors.iceberg.errors import storage_errors
from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.connectors.iceberg.file_contents import FileReader
from seamline.connectors.iceberg.moments import MomentColumns
from seamline.connectors.iceberg.pruning import statistics_filter
from seamline.connectors.iceberg.tables.scan import NO_PATTERN, is_no_pattern
from seamline.connectors.places import TablePlaces
from seamline.connectors.table_formats import by_catalog_type
from seamline.errors import SNAPSHOT_GONE, SeamlineError
from seamline.seam.files import ColdPlan, DataFile, ScanRequest
from seamline.seam.history_checks import outrun, require
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState
from seamline.sql.types import quoted

ONLY_DUCKDB = "a Delta table"


class DeltaTable:
    """A loaded table: `ColdTable` over versions of a log.

    Args:
        state: Its metadata.
        version: Returns the version of a snapshot.
        places: Where its files may be.
        io: Opens its files.
        files: Reads the footers of its files.
        gone: Called with a snapshot whose files are no longer kept.
    """

    def __init__(
        self,
        state: TableState,
        version: Callable[[int], Version],
        places: TablePlaces,
        io: FileIO,
        files: FileReader,
        gone: Callable[[int], None],
    ) -> None:
        self._state = state
        self._version = version
        self._places = places
        self._io = io
        self._files = files
        self._gone = gone

    @property
    def state(self) -> TableState:
        """See `ColdTable.state`."""
        return self._state

    @property
    def file_access(self) -> FileIO:
        """See `ColdTable.file_access`."""
        return self._io

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        assert snapshot_id is not None
        stored = self._state.schema_of(snapshot_id)
        version = self._version(snapshot_id)
        files = version.files(stored)
        if snapshot_id != self._state.current_snapshot_id:
            self._require_kept(snapshot_id, version)
        requested = self._state.schemas[request.schema_id]
        of_id = {field.field_id: field for field in bounded(stored)}
        fields = {f.name: of_id[f.field_id] for f in requested.columns if f.field_id in of_id}
        keeps = statistics_filter(schema_of_bounds(stored), to_iceberg(request.predicate, fields))
        kept = [file for file in files if keeps(file.file)]
        paths = [file.file.file_path for file in kept]
        self._places.require(paths)
        columns = [column for column in requested.columns if column.name in request.columns]
        return ColdPlan(
            snapshot_id=snapshot_id,
            files=tuple(map(_data_file, kept)),
            total_files=len(files),
            total_rows=sum(max(file.file.record_count, 0) for file in files),
            unsupported=NO_PATTERN if any(map(is_no_pattern, paths)) else None,
            only_duckdb=ONLY_DUCKDB,
            wanted=frozenset(column.field_id for column in columns),
        )

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        if plan.snapshot_id is None:
            return plan
        mapping = name_mapping(self._state.schema_of(plan.snapshot_id))
        with storage_errors(f"table {self._state.display_name}"):
            return self._files.inspect(self._io, plan, mapping, by_name=True)

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:  # noqa: ARG002 - none is
        """See `ColdTable.require_fit_for_spark`.

        Raises:
            SeamlineError: NOT_SUPPORTED, always.
        """
        raise by_catalog_type()["delta"].refuses(f"table {self._state.display_name}")

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:  # noqa: ARG002 - none is
        """See `ColdTable.misleading_columns`: Delta keeps a column's own values for a partition."""
        return frozenset()

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        require(outrun(self._state, snapshot_id))

    def require_own_place(self, location: str) -> None:
        """Checks that a file that the table names is where the table's own files may be.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        self._places.require([location])

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:  # noqa: ARG002 - there are none
        """See `ColdTable.deleted_rows`."""
        return None

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`."""
        assert not first_batch, "no Delta table has continued another log"
        if snapshot_id is None or not ranges:
            return Offsets()
        columns = MomentColumns.of(self._state)
        fields = tuple(f for f in self._state.schema.columns if f.name in columns.names)
        partition, offset, timestamp = (quoted(name.lower()) for name in columns.names)
        lies = " OR ".join(
            f"({partition} = {r.partition} AND {offset} >= {r.start}"
            f" AND {offset} < {r.end_exclusive})"
            for r in ranges
        )
        with open_scan(cold_scan(self, snapshot_id, fields)) as (connection, relation):
            first_offsets = connection.sql(
                f"SELECT {partition}, min({offset}) FROM ({relation}) WHERE ({lies})"
                f" AND epoch_us({timestamp}) >= {first_ms * 1000}"
                f" GROUP BY {partition}"
            ).fetchall()
        return Offsets({int(p): int(first) for p, first in first_offsets})

    def _require_kept(self, snapshot_id: int, version: Version) -> None:
        """Checks that a version's files that the current version lacks are still there."""
        head = self._state.current_snapshot_id
        assert head is not None
        removed = sorted({*version.paths} - {*self._version(head).paths})
        self._places.require(removed)
        with storage_errors(f"table {self._state.display_name}"):
            missing = self._files.missing(self._io, removed)
        if missing:
            self._gone(snapshot_id)
            raise SeamlineError(
                SNAPSHOT_GONE,
                f"version {snapshot_id} of {self._state.display_name} is no longer kept: "
                f"{len(missing)} of its files have been vacuumed",
            )


def _data_file(version_file: VersionFile) -> DataFile:
    file = version_file.file
    return DataFile(
        path=file.file_path,
        format=file.file_format.value,
        size_bytes=file.file_size_in_bytes,
        record_count=max(file.record_count, 0),
        partition=version_file.partition,
    )
