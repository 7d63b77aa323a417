"""In-memory log, table and catalog, and a clock that is moved by hand: real implementations.

They follow Kafka's and Iceberg's rules where the seam depends on them: offsets taken by transaction
markers, last stable offsets, aborted records, trimming, topic ids; snapshots with parents and
summaries, compare-and-swap commits, serializable overwrites, compaction, expiry, rollback, tags.
Tests and the simulator use them in the place of the real ones; nothing in them is random or takes
time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.base import (
    PROPERTY_PREFIX,
    READ_COMMITTED,
    ColdPlan,
    Deadline,
    LogBounds,
    OffsetRange,
    Offsets,
    RawBatch,
    ScanRequest,
    Snapshot,
    SnapshotRef,
    TableSchema,
    TableState,
)
from seamline.connectors.iceberg.boundary import SUMMARY_KEY, TAG, encode
from seamline.connectors.tiering import Batch
from seamline.sql.errors import (
    COLD_FILE_MISSING,
    COMMIT_CONFLICT,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TABLE_NOT_FOUND,
    TOPIC_NOT_FOUND,
    SeamlineError,
)

# --- Time ----------------------------------------------------------------------------------------


class ManualClock:
    """Milliseconds since the epoch, moved by hand."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def advance(self, milliseconds: int = 1) -> int:
        """Moves the clock and gives its new time."""
        self.now_ms += milliseconds
        return self.now_ms


class NoDeadline:
    """A deadline that never comes."""

    def check(self) -> None:
        """See `Deadline.check`."""

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return 3600.0

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - never called
        """See `Deadline.on_end`."""
        return lambda: None


# --- The log -------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Record:
    """One offset of a partition: a record, or the marker that ends a transaction.

    Attributes:
        offset: Its offset.
        timestamp_ms: Its time.
        key: Key bytes.
        value: Value bytes; None for a tombstone.
        transaction: The transaction it belongs to, None outside of one.
        marker: `commit` or `abort` for a marker, else empty.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    transaction: int | None = None
    marker: str = ""


class _Partition:
    """The records of one partition, from `start` on."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.epoch_ends: dict[int, int] = {}
        self.records: list[Record] = []
        self.times: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.aborted: set[int] = set()

    def append(self, record: Record) -> None:
        self.records.append(record)
        self.times[record.offset] = record.timestamp_ms
        self.end = record.offset + 1

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction, or the end."""
        return min(self.open.values(), default=self.end)

    def visible(self, record: Record, isolation: str) -> bool:
        if record.marker:
            return False
        return isolation != READ_COMMITTED or record.transaction not in self.aborted


class _Topic:
    def __init__(self, topic_id: str, partitions: int) -> None:
        self.topic_id = topic_id
        self.partitions = [_Partition() for _ in range(partitions)]


class MemoryLog:
    """A cluster: `HotLog`, and the operations that change it."""

    def __init__(self, clock: ManualClock | None = None, cluster_id: str = "memory") -> None:
        self.clock = clock or ManualClock()
        self.cluster_id = cluster_id
        self._topics: dict[str, _Topic] = {}
        self._ids = itertools.count(1)
        self._transactions = itertools.count(1)

    # --- Changing it ---------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int) -> str:
        """Creates a topic, in the place of one of the same name; gives its id."""
        topic = _Topic(f"topic-{next(self._ids)}", partitions)
        self._topics[name] = topic
        return topic.topic_id

    def add_partitions(self, name: str, count: int = 1) -> None:
        """Adds partitions."""
        self._topic(name).partitions.extend(_Partition() for _ in range(count))

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        transaction: int | None = None,
    ) -> int:
        """Appends a record and gives its offset."""
        log = self._topic(topic).partitions[partition]
        offset = log.end
        if transaction is not None:
            log.open.setdefault(transaction, offset)
        log.append(Record(offset, self.clock.now_ms, key, value, transaction))
        return offset

    def begin(self) -> int:
        """Starts a transaction."""
        return next(self._transactions)

    def end_transaction(self, topic: str, transaction: int, *, commit: bool) -> None:
        """Writes the marker of a transaction to every partition it wrote to."""
        for log in self._topic(topic).partitions:
            if log.open.pop(transaction, None) is None:
                continue
            if not commit:
                log.aborted.add(transaction)
            marker = "commit" if commit else "abort"
            log.append(Record(log.end, self.clock.now_ms, None, None, transaction, marker))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Trims the log: offsets below `before` are gone."""
        log = self._topic(topic).partitions[partition]
        log.start = max(log.start, min(before, log.end))
        log.records = [record for record in log.records if record.offset >= log.start]

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """An unclean election: offsets from `end` on are lost, and a new leader goes on there."""
        log = self._topic(topic).partitions[partition]
        log.end = max(log.start, min(end, log.end))
        log.records = [record for record in log.records if record.offset < log.end]
        log.open = {t: first for t, first in log.open.items() if first < log.end}
        log.epoch_ends = {epoch: min(e, log.end) for epoch, e in log.epoch_ends.items()}
        log.epoch_ends[log.epoch] = log.end
        log.epoch += 1

    def compact(self, topic: str) -> None:
        """Log compaction below the stable end: of each key only the newest record stays."""
        for log in self._topic(topic).partitions:
            newest = {r.key: r.offset for r in log.records if r.key is not None and not r.marker}
            log.records = [
                r
                for r in log.records
                if r.marker
                or r.key is None
                or r.offset >= log.stable_end
                or newest[r.key] == r.offset
            ]

    def committed(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of every record below the stable ends that was not aborted."""
        return [
            (number, record.offset, record.value)
            for number, log in enumerate(self._topic(topic).partitions)
            for record in log.records
            if record.offset < log.stable_end and log.visible(record, READ_COMMITTED)
        ]

    def times(self, topic: str) -> dict[tuple[int, int], int]:
        """The time of every (partition, offset) there has been, trimmed ones too."""
        return {
            (number, offset): timestamp_ms
            for number, log in enumerate(self._topic(topic).partitions)
            for offset, timestamp_ms in log.times.items()
        }

    # --- HotLog --------------------------------------------------------------------------------

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        deadline.check()
        return {name: self._bounds(name, isolation) for name in topics}

    def offsets_at(self, topic: str, timestamp_ms: int, deadline: Deadline) -> Offsets:
        """See `HotLog.offsets_at`."""
        deadline.check()
        return Offsets(
            {
                number: next(
                    (r.offset for r in log.records if r.timestamp_ms >= timestamp_ms),
                    log.stable_end,
                )
                for number, log in enumerate(self._topic(topic).partitions)
            }
        )

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """See `HotLog.read`: one batch a range."""
        deadline.check()
        for wanted in ranges:
            self._check_epoch(topic, wanted, (epochs or {}).get(wanted.partition))
        left = max_records
        for wanted in ranges:
            log = self._topic(topic).partitions[wanted.partition]
            if wanted.start < log.start:
                raise SeamlineError(
                    LOG_TRIMMED, f"partition {wanted.partition} starts at {log.start}"
                )
            found = [
                r
                for r in log.records
                if wanted.start <= r.offset < wanted.end_exclusive and log.visible(r, isolation)
            ][:left]
            if found:
                yield _raw_batch(wanted.partition, found)
            if left is not None:
                left -= len(found)
                if left <= 0:
                    return

    def _bounds(self, name: str, isolation: str) -> LogBounds:
        topic = self._topic(name)
        logs = list(enumerate(topic.partitions))
        high = Offsets({number: log.end for number, log in logs})
        stable = Offsets({number: log.stable_end for number, log in logs})
        return LogBounds(
            topic=name,
            topic_id=topic.topic_id,
            cluster_id=self.cluster_id,
            start=Offsets({number: log.start for number, log in logs}),
            end=stable if isolation == READ_COMMITTED else high,
            high_watermark=high,
            isolation=isolation,
            leader_epochs=Offsets({number: log.epoch for number, log in logs}),
        )

    def _check_epoch(self, topic: str, wanted: OffsetRange, epoch: int | None) -> None:
        log = self._topic(topic).partitions[wanted.partition]
        if epoch is not None and log.epoch_ends.get(epoch, log.end) < wanted.start:
            raise SeamlineError(
                LOG_TRUNCATED, f"partition {wanted.partition} was cut below {wanted.start}"
            )

    def _topic(self, name: str) -> _Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise SeamlineError(TOPIC_NOT_FOUND, f"topic {name} does not exist")
        return topic


def _raw_batch(partition: int, records: Sequence[Record]) -> RawBatch:
    return RawBatch(
        partitions=[partition] * len(records),
        offsets=[record.offset for record in records],
        timestamps_ms=[record.timestamp_ms for record in records],
        keys=[record.key for record in records],
        values=[record.value for record in records],
        headers=[None] * len(records),
    )


# --- The table -----------------------------------------------------------------------------------

Row = tuple[int | None, int | None, bytes | None, int | None]
"""(partition, offset, value, batch); a row of a foreign writer has None for partition and
offset."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Files:
    """The rows of a snapshot, and those of its commit alone."""

    rows: frozenset[Row]
    added: frozenset[Row]


class MemoryTable:
    """A table of rows that come from a log: `TierTable`, `ColdTable`, and what others do to it.

    Args:
        name: Full name.
        schema: Its columns.
        properties: Table properties.
        clock: Gives commits their time.
        log: The cluster its topic is in.
    """

    def __init__(
        self,
        name: tuple[str, ...],
        schema: TableSchema,
        properties: Mapping[str, str],
        clock: ManualClock,
        log: MemoryLog,
    ) -> None:
        self._clock = clock
        self._log = log
        self._ids = itertools.count(1)
        self._files: dict[int, _Files] = {}
        self._state = TableState(
            name=name,
            uuid=f"table-{id(self):x}",
            properties=dict(properties),
            schemas={schema.schema_id: schema},
            current_schema_id=schema.schema_id,
            snapshots={},
            refs={},
            current_snapshot_id=None,
        )

    @property
    def state(self) -> TableState:
        """See `ColdTable.state`."""
        return self._state

    def rows(self, snapshot_id: int | None) -> frozenset[Row]:
        """The rows of a snapshot.

        Raises:
            SeamlineError: COLD_FILE_MISSING when its files are gone.
        """
        if snapshot_id is None:
            return frozenset()
        files = self._files.get(snapshot_id)
        if files is None:
            raise SeamlineError(COLD_FILE_MISSING, f"files of snapshot {snapshot_id} are gone")
        return files.rows

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:  # noqa: ARG002
        """See `ColdTable.plan`: rows, not files, so there is nothing to name."""
        return ColdPlan(snapshot_id, (), total_rows=len(self.rows(snapshot_id)))

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return plan

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:  # noqa: ARG002 - there are none
        """See `ColdTable.deleted_rows`."""
        return None

    def offsets_at(
        self, snapshot_id: int | None, timestamp_ms: int, ranges: Sequence[OffsetRange]
    ) -> Offsets:
        """See `ColdTable.offsets_at`; a record's time is asked of the log that it came from."""
        times = self._log.times(self._state.properties[f"{PROPERTY_PREFIX}topic"])
        found: dict[int, int] = {}
        for partition, offset, _, _ in self.rows(snapshot_id):
            for wanted in ranges:
                if (
                    partition == wanted.partition
                    and offset is not None
                    and wanted.start <= offset < wanted.end_exclusive
                    and times[partition, offset] >= timestamp_ms
                ):
                    found[partition] = min(offset, found.get(partition, offset))
        return Offsets(found)

    # --- TierTable -----------------------------------------------------------------------------

    def load(self) -> TableState:
        """See `TierTable.load`."""
        return self._state

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        return any(self._batch_rows(batch, deadline))

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`: what Iceberg's serializable overwrite does."""
        self.write_rows(batch, frozenset(self._batch_rows(batch, NoDeadline())))

    def write_rows(self, batch: Batch, rows: frozenset[Row]) -> None:
        """The commit alone, of rows that were read before."""
        since = self._since(batch.snapshot_id)
        for snapshot in since:
            if any(
                (row[3] or 0) >= batch.mark
                for row in self._files[snapshot].added
                if row[3] is not None
            ):
                raise SeamlineError(COMMIT_CONFLICT, "conflicting files were added")
        head = self._state.current_snapshot_id
        kept = frozenset(r for r in self.rows(head) if r[3] is None or r[3] < batch.mark)
        self._commit("overwrite", kept | rows, rows, {SUMMARY_KEY: encode(batch.boundary)})

    def commit_mark(self, batch: Batch) -> None:
        """See `TierTable.commit_mark`."""
        if self._state.current_snapshot_id != batch.snapshot_id:
            raise SeamlineError(COMMIT_CONFLICT, "the table has changed")
        summary = {SUMMARY_KEY: encode(batch.boundary)}
        self._commit("append", self.rows(batch.snapshot_id), frozenset(), summary)

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        if snapshot_id in self._state.snapshots:
            self._set_refs({TAG: SnapshotRef(snapshot_id, "tag")})

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        if self._state.current_snapshot_id != snapshot_id:
            raise SeamlineError(COMMIT_CONFLICT, "the head has moved on")
        self._set_head(to)

    # --- What others do ------------------------------------------------------------------------

    def create(self, summary: Mapping[str, str]) -> None:
        """The first snapshot."""
        self._commit("append", frozenset(), frozenset(), summary)

    def append_foreign(self, value: bytes) -> None:
        """Another writer's rows, which do not come from the log."""
        row: Row = (None, None, value, None)
        rows = self.rows(self._state.current_snapshot_id)
        self._commit("append", rows | {row}, frozenset({row}), {})

    def compact(self) -> None:
        """Rewrites files without changing rows."""
        rows = self.rows(self._state.current_snapshot_id)
        self._commit("replace", rows, frozenset(), {})

    def roll_back(self, snapshot_id: int) -> None:
        """Moves the head to an older snapshot."""
        self._set_head(snapshot_id)

    def expire(self, keep: Iterable[int] = ()) -> None:
        """Drops every snapshot that no ref and nobody named keeps, with the files only it has."""
        kept = {ref.snapshot_id for ref in self._state.refs.values()} | set(keep)
        self._state = dataclasses.replace(
            self._state,
            snapshots={i: s for i, s in self._state.snapshots.items() if i in kept},
        )
        self._files = {i: files for i, files in self._files.items() if i in kept}

    # --- Commits -------------------------------------------------------------------------------

    def _batch_rows(self, batch: Batch, deadline: Deadline) -> Iterator[Row]:
        isolation = batch.boundary.isolation
        for raw in self._log.read(batch.binding.topic, batch.ranges, isolation, deadline):
            for partition, offset, value in zip(
                raw.partitions, raw.offsets, raw.values, strict=True
            ):
                yield (partition, offset, value, batch.mark)

    def _since(self, snapshot_id: int) -> list[int]:
        """Ids of the commits after a snapshot, up to the head."""
        since: list[int] = []
        for snapshot in self._state.ancestors(self._state.current_snapshot_id):
            if snapshot.snapshot_id == snapshot_id:
                return since
            since.append(snapshot.snapshot_id)
        raise SeamlineError(
            COMMIT_CONFLICT, f"snapshot {snapshot_id} is not in the table's history"
        )

    def _commit(
        self,
        operation: str,
        rows: frozenset[Row],
        added: frozenset[Row],
        summary: Mapping[str, str],
    ) -> None:
        snapshot = Snapshot(
            snapshot_id=next(self._ids),
            parent_id=self._state.current_snapshot_id,
            timestamp_ms=self._clock.advance(),
            operation=operation,
            summary=dict(summary),
            schema_id=self._state.current_schema_id,
        )
        self._files[snapshot.snapshot_id] = _Files(rows, added)
        self._state = dataclasses.replace(
            self._state, snapshots={**self._state.snapshots, snapshot.snapshot_id: snapshot}
        )
        self._set_head(snapshot.snapshot_id)

    def _set_head(self, snapshot_id: int) -> None:
        self._state = dataclasses.replace(
            self._state,
            current_snapshot_id=snapshot_id,
            snapshot_log=(*self._state.snapshot_log, (self._clock.now_ms, snapshot_id)),
        )
        self._set_refs({"main": SnapshotRef(snapshot_id, "branch")})

    def _set_refs(self, refs: Mapping[str, SnapshotRef]) -> None:
        self._state = dataclasses.replace(self._state, refs={**self._state.refs, **refs})


class MemoryCatalog:
    """A catalog of such tables."""

    def __init__(self, name: str = "lake") -> None:
        self.name = name
        self._tables: dict[tuple[str, ...], MemoryTable] = {}

    def add(self, table: MemoryTable) -> None:
        """Puts a table in, in the place of one of the same name."""
        self._tables[table.state.name[1:]] = table

    def drop(self, identifier: tuple[str, ...]) -> None:
        """Takes a table out."""
        del self._tables[identifier]

    def load(self, identifier: tuple[str, ...]) -> MemoryView:
        """See `Catalog.load`: the table as it is now, whatever happens to it later."""
        table = self._tables.get(identifier)
        if table is None:
            raise SeamlineError(TABLE_NOT_FOUND, f"table {'.'.join(identifier)} does not exist")
        return MemoryView(table)

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return sorted({identifier[:-1] for identifier in self._tables})

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return sorted(i for i in self._tables if i[:-1] == namespace)


class MemoryView:
    """A loaded table: its state is frozen, its files are the table's."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.state = table.state

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        return self.table.plan(snapshot_id, request)

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return plan

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return self.table.deleted_rows(plan)


def seam_rows(table: MemoryTable, log: MemoryLog, seam: Any) -> list[Row]:
    """The rows a seam stands for: those of its snapshot, and those of its tail."""
    rows = list(table.rows(seam.snapshot_id))
    if seam.cold_end is not None:
        rows = [r for r in rows if r[0] is None or (r[1] or 0) < seam.cold_end.get(r[0], 2**63)]
    for raw in log.read(seam.topic, seam.hot_ranges, seam.isolation, NoDeadline()):
        rows += [
            (partition, offset, value, None)
            for partition, offset, value in zip(
                raw.partitions, raw.offsets, raw.values, strict=True
            )
        ]
    return rows
