"""Tiering in this process: the tail as Arrow, written as Parquet, with no Spark and no Java.

The rows of a batch are decoded by the same decoder, and written in the layout that the table's
properties, partitions and order ask for. Their files are committed with the new boundary, in one
snapshot on top of whatever others have committed meanwhile, unless another batch from the same
boundary has landed. A batch of an upsert table also deletes, by position, the rows that it
replaces. Which these are is found by a join on DuckDB, again for each head that it is tried on.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from seamline.connectors.duckdb.engine import find_hidden_rows
from seamline.connectors.duckdb.hidden import ANY_ROWS, HiddenRowsCache, key_scan, without_positions
from seamline.connectors.iceberg.errors import storage_errors
from seamline.connectors.iceberg.parquet_types import as_stored
from seamline.connectors.iceberg.tables import commits, row_changes, writing
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tables.tiering import PATIENCE_S, IcebergTierTable
from seamline.connectors.iceberg.tail_files import in_order
from seamline.connectors.kafka.formats.bad_records import decoder_of
from seamline.connectors.kafka.formats.decoder import Decoded
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.newest import newest_rows, without_deletes
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engine_tails import FollowedTail
from seamline.errors import (
    COMMIT_CONFLICT,
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    NUMERIC_OVERFLOW,
    SeamlineError,
)
from seamline.seam.boundary import SUMMARY_KEY, decode, encode
from seamline.seam.history_checks import require
from seamline.seam.records import DecoderSpec
from seamline.seam.tiering import Batch, overtaken
from seamline.seam.upserts import Newest

_PART_BYTES = 128 << 20
"""About as many bytes of decoded rows are held and written at once."""
_MEMORY_BYTES = 1 << 30
"""The memory that finding the rows that a batch replaces may use."""


class LocalTierTable(IcebergTierTable):
    """`TierTable` whose batches this process writes; see `IcebergTierTable` for its arguments."""

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`.

        Raises:
            SeamlineError: also NOT_SUPPORTED for a partition transform, a column type or, in an
                upsert table, data files that only Spark can write or read.
        """
        table = self._table()
        require(overtaken(table.state, batch))
        self._write_dead_letters(batch)
        local = _LocalBatch(batch, self._spec(table, batch), table, self._table)
        try:
            local.write(self._records(batch, local.spec))
            require(commits.insist(local.commit, patience_s=PATIENCE_S))
        except BaseException as error:
            local.discard(error)
            raise

    def _bad_records(self, batch: Batch, spec: DecoderSpec) -> Iterator[pa.RecordBatch]:
        return (decoded.rows for decoded in self._records(batch, spec.errors))

    def _records(self, batch: Batch, spec: DecoderSpec) -> Iterator[Decoded]:
        deadline = NoDeadline()  # requests to the log have their own limits
        decoder = decoder_of(spec, schemas_of(self._log, deadline))
        topic, isolation = batch.binding.topic, batch.boundary.isolation
        for raw in self._log.read(topic, batch.ranges, isolation, deadline):
            yield decoder.decode(raw, batch.batch_id)

    def _count_skipped(self, batch: Batch, spec: DecoderSpec) -> int:
        return sum(decoded.skipped for decoded in self._records(batch, spec))


class _LocalBatch:
    """One batch: its files are written once, and committed as often as need be."""

    def __init__(
        self,
        batch: Batch,
        spec: DecoderSpec,
        opened: IcebergTable,
        load: Callable[[], IcebergTable],
    ) -> None:
        self.spec = spec
        self._batch = batch
        self._opened = opened
        self._load = load
        self._newest = Newest.of(batch.binding, spec)
        self._skipped = 0
        self._files: list[DataFile] = []
        self._replacing = spec.arrow_schema.empty_table()  # the newest row of each key
        self._may_have_landed = False
        if self._newest is not None:
            row_changes.require_row_changes(opened)

    def write(self, records: Iterable[Decoded]) -> None:
        """Writes the rows that the batch adds, a part at a time."""
        for part in self._parts(records):
            if self._newest is None:
                self._write_rows(part)
            else:
                rows = pa.concat_tables([self._replacing, part])
                self._replacing = newest_rows(rows, self._newest)
        if self._newest is not None:
            self._write_rows(without_deletes(self._replacing))

    def _parts(self, records: Iterable[Decoded]) -> Iterator[pa.Table]:
        part: list[pa.RecordBatch] = []
        held_bytes = 0
        for decoded in records:
            self._skipped += decoded.skipped
            if decoded.rows.num_rows:
                part.append(decoded.rows)
                held_bytes += decoded.rows.nbytes
            if held_bytes >= _PART_BYTES:
                yield pa.Table.from_batches(part)
                part, held_bytes = [], 0
        if part:
            yield pa.Table.from_batches(part)

    def _write_rows(self, rows: pa.Table) -> None:
        metadata, io = self._opened.iceberg.metadata, self._opened.iceberg.io
        columns = self.spec.stored
        rows = rows.select([column.name for column in columns])
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        if order is not None and order.fields:
            rows, _ = in_order(as_stored(rows, columns), metadata.schema(), order)
        name = self._opened.state.display_name
        try:
            with storage_errors(f"table {name}"):
                self._files += writing.write_files(metadata, io, rows.to_batches())
        except SeamlineError as error:
            if error.code is not NUMERIC_OVERFLOW:
                raise
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"a row of {name} has no partition: {error.message}; partition the table by "
                "another width, such as a power of two",
            ) from error

    def commit(self) -> SeamlineError | None:
        """Tries to land the batch, once.

        Returns:
            Why the batch has to start again; None once it has landed.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another commit got in first, and this may be tried
                again; what finding the replaced rows and committing raise.
        """
        table = self._load()
        error = overtaken(table.state, self._batch)
        if error is None and row_changes.layout_of(table) != row_changes.layout_of(self._opened):
            name = table.state.display_name
            error = SeamlineError(
                COMMIT_CONFLICT, f"the partitions of table {name} changed while a batch was written"
            )
        if error is not None:
            return error
        table.require_own_writer()
        table.require_own_manifests(table.state.current_snapshot_id)
        boundary = self._batch.boundary_with(self._skipped)
        replaced = self._replaced(table)
        self._may_have_landed = True
        row_changes.commit_batch(table, self._files, replaced, {SUMMARY_KEY: encode(boundary)})
        return None

    def discard(self, error: BaseException) -> None:
        """Removes the files after a failure, if the batch certainly has not landed."""
        if self._may_have_landed:
            is_refused = isinstance(error, SeamlineError) and error.code is COMMIT_CONFLICT
            if not is_refused or self._has_landed():
                return
        for file in self._files:
            with contextlib.suppress(OSError):
                self._opened.iceberg.io.delete(file.file_path)

    def _has_landed(self) -> bool:
        """Whether a commit that was reported as refused may be in the table, perhaps by a rival."""
        try:
            snapshots = self._load().state.snapshots.values()
        except SeamlineError:
            return True
        boundaries = map(decode, snapshots)
        return any(b is not None and b.next == self._batch.boundary.next for b in boundaries)

    def _replaced(self, table: IcebergTable) -> Mapping[str, np.ndarray]:
        """Returns the positions of the head's rows that the batch replaces, by file."""
        if self._newest is None or not self._replacing.num_rows:
            return {}
        boundary, state = self._batch.boundary, table.state
        followed = FollowedTail(self, boundary.start, boundary.next)
        scan = key_scan(
            table, state.current_snapshot_id, self._batch.schema_id, self._newest, followed
        )
        plan = scan.cold
        assert plan is not None
        if not plan.files:
            return {}
        problem = without_positions(plan)
        if problem is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"upsert table {state.display_name} has {problem}: only Spark finds the rows "
                "that a batch replaces",
                hint="Tier with --engine spark.",
            )
        hidden = find_hidden_rows(
            scan,
            self._replacing,
            lambda files: table.deleted_rows(dataclasses.replace(plan, files=tuple(files))),
            HiddenRowsCache(rows_max=ANY_ROWS, file_rows_max=ANY_ROWS),
            NoDeadline(),
            memory_bytes=_MEMORY_BYTES,
        )
        replaced = {}
        for file in plan.files:
            positions = np.setdiff1d(hidden.positions(file.path), hidden.deleted[file.path])
            if len(positions):
                replaced[file.path] = positions
        return replaced
