"""Serves tables to other engines: pins them, writes their tail as files, and composes metadata.

A unified table is pinned as for any statement, and its seam becomes a virtual snapshot. Writing the
tail and composing metadata are separate from pinning, because a planned scan needs neither. A plain
table is served unchanged, and so is a unified table whose tail is empty.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.manifest import ManifestEntry

from seamline.connectors import supervision
from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.errors import metadata_errors, storage_errors
from seamline.connectors.iceberg.metadata_files import MetadataFile, MetadataFiles
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.supervision import Loop
from seamline.errors import SNAPSHOT_GONE, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import Config
from seamline.gateway.iceberg_rest import snapshots, tail_deletes, tail_store
from seamline.gateway.iceberg_rest.leases import Lease, Leases
from seamline.gateway.iceberg_rest.metadata import MetadataWriter, ServedMetadata
from seamline.gateway.iceberg_rest.plan_files import PlanFiles
from seamline.gateway.iceberg_rest.served_table import ServedTable, is_unified, served_tail
from seamline.gateway.iceberg_rest.snapshots import ServedSnapshots
from seamline.gateway.iceberg_rest.storage import SnapshotStorage
from seamline.gateway.iceberg_rest.tail_store import TailSegment
from seamline.gateway.iceberg_rest.writer import SnapshotWriter
from seamline.gateway.names import TableName
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.tail.requests import TailRows
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam

LISTED_MAX = 100
"""Maximum number of virtual snapshots, the newest, that metadata lists beside the current one."""
_SWEEP_S = 15.0


class ServedTables:
    """The tables that one gateway serves. Safe to share between threads.

    Args:
        config: The configuration.
        connections: Catalogs.
        gatherer: Pins tables.
        tails: Returns the rows of tails.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        config: Config,
        connections: Connections,
        gatherer: Gatherer,
        tails: TailRows,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._clock = clock
        self._gatherer = gatherer
        self._tails = tails
        self._connections = connections
        state = pathlib.Path(config.state_directory)
        self._leases = Leases(state / "leases", config.iceberg.lease_seconds)
        self.storage = SnapshotStorage(config, connections)
        self.snapshots = ServedSnapshots(self._leases)
        self._writer = SnapshotWriter(
            self._leases,
            self.snapshots,
            self.storage,
            tails,
            tail_offsets_max=config.iceberg.tail_offsets_max,
            memory_bytes=config.limits.memory_bytes,
        )
        self.plan_files = PlanFiles(self._leases)
        self._metadata = MetadataWriter(self._leases)
        self._files = MetadataFiles()
        self._sweeper = Loop("leases", self._sweep, delay_s=_SWEEP_S)

    def catalog_config(self, name: TableName) -> CatalogConfig:
        """Returns the configuration of a table's catalog."""
        return self._config.catalogs[name.catalog]

    def locations(self, table: ServedTable) -> tuple[str, ...]:
        """Returns the locations of the files that a table's metadata names."""
        ours = (self.storage.folder_of(table),) if is_unified(table.cold) else ()
        shared = self.catalog_config(table.name).data_locations
        return (table.cold.state.location, *ours, *shared)

    def close(self) -> None:
        """Stops expiring leases; leased files are left for the next gateway."""
        self._sweeper.stop()
        self._sweeper.join()

    # --- Pinning -------------------------------------------------------------------------------

    def pin(self, name: TableName, deadline: Deadline) -> ServedTable:
        """Returns the table as it is now.

        Raises:
            SeamlineError: with a code that names the cause; see `seam`.
        """
        pinned = self._gatherer.pin_table(name, deadline)
        assert isinstance(pinned.cold, IcebergTable)
        return self._served(name, pinned.cold, pinned.facts.seam, pinned.facts.decoder)

    def load(self, name: TableName) -> ServedTable:
        """Returns the table without its tail, for reading its own snapshots.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        cold = self._connections.catalog(name.catalog).load(name.path)
        file = self._file(name, cold)
        return ServedTable(name, cold, file, file.body, None)

    def pin_again(
        self, name: TableName, snapshot_id: int, deadline: Deadline
    ) -> ServedTable | None:
        """Returns the table at one of its virtual snapshots, or None if it has none with that id.

        Raises:
            SeamlineError: SNAPSHOT_GONE when the table would be read differently now.
        """
        cold = self._connections.catalog(name.catalog).load(name.path)
        snapshot = self.snapshots.find(cold.state.uuid, snapshot_id)
        binding = TopicBinding.from_properties(cold.state.properties)
        if snapshot is None or binding is None:
            return None
        schema = cold.state.schemas.get(snapshot.seam.schema_id)
        schemas = schemas_of(self._connections.log(binding.cluster), deadline)
        binding = pinned(binding, schemas)
        decoder = None if schema is None else DecoderSpec.of(binding, schema.columns)
        table = self._served(name, cold, snapshot.seam, decoder)
        if table.tail is None or table.source() != snapshot.source:
            raise SeamlineError(
                SNAPSHOT_GONE, f"virtual snapshot {snapshot_id} of {name.display} has ended"
            )
        return dataclasses.replace(
            table, tail=dataclasses.replace(table.tail, snapshot_id=snapshot_id)
        )

    def _served(
        self, name: TableName, cold: IcebergTable, seam: Seam, decoder: DecoderSpec | None
    ) -> ServedTable:
        file = self._file(name, cold)
        if not is_unified(cold):
            return ServedTable(name, cold, file, file.body, None)
        tail = served_tail(cold, seam, decoder)
        moment_ms = int(self._clock() * 1000) - virtual.SKEW_MS
        return ServedTable(name, cold, file, virtual.readable_base(file.body), tail, moment_ms)

    def _file(self, name: TableName, cold: IcebergTable) -> MetadataFile:
        state = cold.state
        read_for = (state.uuid, state.current_snapshot_id)
        with metadata_errors(name.catalog, name.path):
            return self._files.read(cold.iceberg.io, state.metadata_location, read_for)

    # --- Serving -------------------------------------------------------------------------------

    def metadata(
        self, table: ServedTable, deadline: Deadline, *, planned: bool, only_referenced: bool
    ) -> ServedMetadata:
        """Returns the table's metadata; the files it names can be read as long as a lease lasts.

        Args:
            table: The table.
            deadline: The deadline of the request.
            planned: Whether its scans will be planned here; otherwise its tail is written now.
            only_referenced: Whether to leave out snapshots that no branch or tag names.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        if not planned:
            table.require_own_files()
        current = None
        if table.tail is not None:
            current = (
                self._writer.announced(table) if planned else self._writer.written(table, deadline)
            )
        others = self.snapshots.newest(table.uuid, LISTED_MAX, written=not planned)
        if current is not None:
            others = [s for s in others if s.snapshot.snapshot_id != current.snapshot.snapshot_id]
            self._leases.renew(current.leases)
        with storage_errors(f"table {table.name.display}"):
            return self._metadata.compose(
                table,
                current,
                others,
                self.storage,
                planned=planned,
                only_referenced=only_referenced,
            )

    def segments(self, table: ServedTable) -> list[TailSegment] | None:
        """Returns the files of the table's whole tail, or None unless all of them are written."""
        assert table.tail is not None
        return self._writer.segments(table)

    def hidden(self, table: ServedTable, deadline: Deadline) -> tuple[ManifestEntry, ...]:
        """Returns the deletes of the table's tail; none unless it is an upsert table.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        return self._writer.hidden(table, deadline)

    def rows(
        self,
        table: ServedTable,
        ranges: Sequence[OffsetRange],
        columns: Sequence[str],
        deadline: Deadline,
    ) -> pa.Table:
        """Returns rows of the table's tail.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        return self._tails.read(table.tail_read(ranges, columns), deadline).rows

    # --- Expiring leases -----------------------------------------------------------------------

    def collect(self) -> int:
        """Removes the files of leases that have ended, and returns the number of these leases."""
        ended = self._leases.expire()
        for lease in ended:
            if not supervision.attempt("leases", functools.partial(self._remove, lease)):
                self._leases.put_back(lease)  # the next round tries again
        return len(ended)

    def _remove(self, lease: Lease) -> None:
        if lease.kind == snapshots.KIND:
            self.snapshots.drop(lease.body)
        elif lease.kind == tail_store.KIND:
            self._writer.store.drop(lease.lease_id)
        elif lease.kind == tail_deletes.KIND:
            self._writer.deletes.drop(lease.lease_id)
        if self.storage.remove(lease.paths):
            self._leases.forget(lease)

    def _sweep(self) -> float:
        self.collect()
        return _SWEEP_S
