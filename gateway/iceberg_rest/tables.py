"""Live tables: pinned to their seam, their tail written as files, their metadata given out.

A unified table is pinned as for any statement, and its seam is a virtual snapshot. Writing the tail
and describing it are separate from pinning, because a planned scan needs neither. A plain table,
and one whose tail is empty, is given as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.catalog import IcebergTable
from seamline.connectors.iceberg.errors import storage_errors
from seamline.connectors.iceberg.metadata_files import MetadataFiles
from seamline.connectors.protocols import Deadline
from seamline.connectors.supervision import Loop
from seamline.errors import SNAPSHOT_GONE, SeamlineError
from seamline.gateway.config.model import Config
from seamline.gateway.connections import Connections
from seamline.gateway.iceberg_rest import snapshots as records
from seamline.gateway.iceberg_rest import tail_store
from seamline.gateway.iceberg_rest.documents import Document, Documents
from seamline.gateway.iceberg_rest.leases import Lease, Leases
from seamline.gateway.iceberg_rest.plan_files import PlanFiles
from seamline.gateway.iceberg_rest.snapshots import SnapshotRecords
from seamline.gateway.iceberg_rest.storage import LiveStorage
from seamline.gateway.iceberg_rest.table import LiveTable, is_unified, live_tail
from seamline.gateway.iceberg_rest.tail_store import TailSegment
from seamline.gateway.iceberg_rest.writer import SnapshotWriter
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.names import TableName
from seamline.gateway.tail.requests import TailRows
from seamline.planners.physical import TailRead
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam

LISTED_MAX = 100
"""Virtual snapshots that metadata lists beside the current one: the newest."""
_LISTS_CACHED_MAX = 64
_SWEEP_S = 15.0


class LiveTables:
    """The live tables of one gateway. Safe to share between threads.

    Args:
        config: The configuration.
        connections: Catalogs.
        gatherer: Pins tables.
        tails: Gives the rows of tails.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        config: Config,
        connections: Connections,
        gatherer: Gatherer,
        tails: TailRows,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._gatherer = gatherer
        self._tails = tails
        self._connections = connections
        state = pathlib.Path(config.state_directory)
        self._leases = Leases(state / "leases", config.iceberg.lease_seconds)
        self.storage = LiveStorage(config, connections)
        self.records = SnapshotRecords(self._leases)
        self._writer = SnapshotWriter(
            self._leases,
            self.records,
            self.storage,
            self.rows,
            tail_offsets_max=config.iceberg.tail_offsets_max,
        )
        self.plan_files = PlanFiles(self._leases)
        self._documents = Documents(self._leases)
        self._files = MetadataFiles()
        self._sweeper = Loop("leases", self._sweep, delay_s=_SWEEP_S)

    def close(self) -> None:
        """Stops looking after leases; what is leased stays for the next gateway."""
        self._sweeper.stop()
        self._sweeper.join()

    # --- Pinning -------------------------------------------------------------------------------

    def pin(self, name: TableName, deadline: Deadline) -> LiveTable:
        """The table as it is now.

        Raises:
            SeamlineError: named after the cause; see `seam`.
        """
        pinned = self._gatherer.pin_table(name, deadline)
        assert isinstance(pinned.cold, IcebergTable)
        return self._live(name, pinned.cold, pinned.facts.seam, pinned.facts.decoder)

    def load(self, name: TableName) -> LiveTable:
        """The table without its tail, for reading snapshots of its own.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        table = self._connections.catalog(name.catalog).load(name.path)
        with storage_errors(f"table {name.display}"):
            file = self._files.read(table.iceberg.io, table.state.metadata_location)
        return LiveTable(name, table, file, file.body, None)

    def pin_again(self, name: TableName, snapshot_id: int) -> LiveTable | None:
        """The table at one of its virtual snapshots, None when it has none of that id.

        Raises:
            SeamlineError: SNAPSHOT_GONE when the table would now be read in another way.
        """
        table = self._connections.catalog(name.catalog).load(name.path)
        record = self.records.find(table.state.uuid, snapshot_id)
        binding = TopicBinding.from_properties(table.state.properties)
        if record is None or binding is None:
            return None
        schema = table.state.schemas.get(record.seam.schema_id)
        decoder = None
        if schema is not None:
            columns = schema.columns
            decoder = DecoderSpec.of(binding, columns)
        live = self._live(name, table, record.seam, decoder)
        if live.tail is None or live.source() != record.source:
            raise SeamlineError(
                SNAPSHOT_GONE, f"virtual snapshot {snapshot_id} of {name.display} has ended"
            )
        return dataclasses.replace(
            live, tail=dataclasses.replace(live.tail, snapshot_id=snapshot_id)
        )

    def _live(
        self, name: TableName, table: IcebergTable, seam: Seam, decoder: DecoderSpec | None
    ) -> LiveTable:
        with storage_errors(f"table {name.display}"):
            file = self._files.read(table.iceberg.io, table.state.metadata_location)
        if not is_unified(table):
            return LiveTable(name, table, file, file.body, None)
        tail = live_tail(table, seam, decoder)
        moment_ms = int(self._clock() * 1000) - virtual.SKEW_MS
        return LiveTable(name, table, file, virtual.readable_base(file.body), tail, moment_ms)

    # --- Giving out ----------------------------------------------------------------------------

    def document(
        self, live: LiveTable, deadline: Deadline, *, planned: bool, only_referenced: bool
    ) -> Document:
        """The table's metadata, and with it the right to read what it names for a lease.

        Args:
            live: The table.
            deadline: The request's.
            planned: Whether its scans will be planned here; else its tail is written.
            only_referenced: Whether to leave out snapshots that no branch or tag names.

        Raises:
            SeamlineError: named after the cause.
        """
        current = None
        if live.tail is not None:
            current = (
                self._writer.announced(live) if planned else self._writer.written(live, deadline)
            )
        others = self.records.newest(live.uuid, LISTED_MAX, written=not planned)
        if current is not None:
            others = [r for r in others if r.snapshot.snapshot_id != current.snapshot.snapshot_id]
            self._leases.renew(current.leases)
        with storage_errors(f"table {live.name.display}"):
            return self._documents.compose(
                live,
                current,
                others,
                self.storage.io_of(live),
                self.storage.folder_of(live),
                planned=planned,
                only_referenced=only_referenced,
            )

    def segments(self, live: LiveTable) -> list[TailSegment] | None:
        """The files of the table's whole tail, None when they are not all written."""
        assert live.tail is not None
        return self._writer.segments(live)

    def rows(
        self,
        live: LiveTable,
        ranges: Sequence[OffsetRange],
        columns: Sequence[str],
        deadline: Deadline,
    ) -> pa.Table:
        """Rows of the table's tail.

        Raises:
            SeamlineError: named after the cause.
        """
        tail = live.tail
        assert tail is not None
        wanted = TailRead(tail.seam, tuple(ranges), tail.decoder, tuple(columns))
        return self._tails.read(wanted, deadline).rows

    # --- Looking after leases --------------------------------------------------------------------

    def collect(self) -> int:
        """Removes the files of what is not leased any more, and tells how many leases ended."""
        ended = self._leases.expire()
        for lease in ended:
            if not supervision.attempt("leases", functools.partial(self._let_go, lease)):
                self._leases.put_back(lease)  # the next round tries again
        return len(ended)

    def _let_go(self, lease: Lease) -> None:
        if lease.kind == records.KIND:
            self.records.drop(lease.body)
        elif lease.kind == tail_store.KIND:
            self._writer.store.drop(lease.lease_id)
        if self.storage.remove(lease.paths):
            self._leases.forget(lease)

    def _sweep(self) -> float:
        self.collect()
        return _SWEEP_S
