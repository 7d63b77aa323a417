"""What every way to tier does the same: it reads a batch's table and log, and commits boundaries.

Who writes the rows of a batch is left to subclasses: Spark, or this process.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Iterator

import pyarrow as pa

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.kafka.formats.bad_records import dead_letters
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import AppendsRecords, HotLog
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import SCHEMA_NOT_EVOLVED, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import TAG, check_columns
from seamline.seam.evolution import Change
from seamline.seam.records import DecoderSpec
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch

_PROBE_RECORDS = 500
PATIENCE_S = 120.0
"""How long a commit that needs no new files is tried again while others get in first."""


class IcebergTierTable(abc.ABC):
    """`TierTable` over an Iceberg table, except for the rows of batches.

    Args:
        catalog: The table's catalog.
        identifier: Its name there.
        log: The cluster its topic is in.
        opened: The table, if it has just been loaded; the first `load` returns it.
    """

    def __init__(
        self,
        catalog: IcebergCatalog,
        identifier: tuple[str, ...],
        log: HotLog,
        *,
        opened: IcebergTable | None = None,
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._log = log
        self._opened = opened
        self._last: IcebergTable | None = None

    @abc.abstractmethod
    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""

    @abc.abstractmethod
    def _count_skipped(self, batch: Batch, spec: DecoderSpec) -> int:
        """Counts the records of a batch that the policy `skip` leaves out."""

    @abc.abstractmethod
    def _bad_records(self, batch: Batch, spec: DecoderSpec) -> Iterator[pa.RecordBatch]:
        """Yields the bad records of a batch, as rows of `DecoderSpec.errors`."""

    def _write_dead_letters(self, batch: Batch) -> None:
        """Writes the bad records of a batch to the topic that the table names for them, if any.

        This comes before the commit of the batch, and again with each attempt. So each bad record
        of a committed batch is there at least once.
        """
        topic = batch.binding.dead_letter_topic
        if not topic or not batch.ranges:
            return
        assert isinstance(self._log, AppendsRecords)
        table = self._last or self._table()
        for bad in self._bad_records(batch, self._spec(table, batch)):
            letters = dead_letters(bad, batch.binding.topic, table.state.display_name)
            if letters:
                self._log.append(topic, letters)

    def load(self) -> TableState:
        """See `TierTable.load`."""
        opened, self._opened = self._opened, None
        table = opened or self._table()
        self._last = table
        state = table.state
        table.require_own_writer()
        table.require_own_manifests(state.current_snapshot_id)
        if TopicBinding.from_properties(state.properties) is not None:
            check_columns(state)
        return state

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `TierTable.require_single_writer`."""
        (self._last or self._table()).require_single_writer(snapshot_id)

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`: reads until the first record that yields a row.

        Records are decoded here, so that a registry that hangs blocks none of Spark's workers.
        Unless records may be skipped, a batch that has any records may hold rows further on.
        """
        spec = self._spec(self._last or self._table(), batch)
        decoder = Decoder(spec, schemas_of(self._log, deadline))
        topic, isolation = batch.binding.topic, batch.boundary.isolation
        is_empty = True
        for raw in self._log.read(
            topic,
            batch.ranges,
            isolation,
            deadline,
            epochs=batch.base_epochs,
            max_records=_PROBE_RECORDS,
        ):
            if decoder.decode(raw).rows.num_rows:
                return True
            is_empty = is_empty and len(raw) == 0
        if batch.binding.on_error != "skip":
            return not is_empty
        records = self._log.read(topic, batch.ranges, isolation, deadline)
        return any(decoder.decode(raw).rows.num_rows for raw in records)

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`: reads the batch once more, until nothing needs to change."""
        table = self._table()
        made: list[Change] = []
        if table.state.current_schema_id != batch.schema_id:
            return ()
        spec, schemas = self._spec(table, batch), schemas_of(self._log, deadline)
        decoder = Decoder(spec, schemas)
        topic, isolation = batch.binding.topic, batch.boundary.isolation
        for raw in self._log.read(topic, batch.ranges, isolation, deadline):
            while needed := _needed(decoder, raw):
                commits.evolve(table, needed)
                made += needed
                table = self._table()
                decoder = Decoder(
                    DecoderSpec.of(batch.binding, table.state.schema.columns).tiering(table.state),
                    schemas,
                )
        return tuple(made)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        self._write_dead_letters(batch)
        skipped = 0
        if batch.ranges and batch.binding.on_error == "skip":
            skipped = self._count_skipped(batch, self._spec(self._last or self._table(), batch))
        boundary = batch.boundary_with(skipped)
        commits.insist_on_head(
            self._table,
            batch.snapshot_id,
            lambda table: commits.commit_boundary(table, boundary),
        )

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`.

        If another process moves the tag meanwhile, it moves it further, which is just as good.
        """
        first = self._last or self._table()
        tables = itertools.chain([first], iter(self._table, None))

        def move() -> None:
            table = next(tables)
            if table.state.refs.get(TAG) == first.state.refs.get(TAG):
                commits.tag_boundary(table, snapshot_id)

        with contextlib.suppress(SeamlineError):
            commits.insist(move)

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        commits.insist_on_head(
            self._table, snapshot_id, lambda table: commits.move_head(table, snapshot_id, to)
        )

    def _table(self) -> IcebergTable:
        return self._catalog.load(self._identifier)

    def _spec(self, table: IcebergTable, batch: Batch) -> DecoderSpec:
        schema = table.state.schemas[batch.schema_id]
        return DecoderSpec.of(batch.binding, schema.columns).tiering(table.state)


def _needed(decoder: Decoder, raw: RawBatch) -> tuple[Change, ...]:
    """Returns the changes that the columns need before records can be written."""
    try:
        decoder.decode_all(raw)
    except SeamlineError as error:
        if error.code is not SCHEMA_NOT_EVOLVED or decoder.watch is None:
            raise
        return decoder.watch.needed
    return ()
