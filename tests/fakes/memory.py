"""In-memory log, table and catalog, and a clock that is moved by hand: real implementations.

They follow Kafka's and Iceberg's rules where the seam depends on them: offsets taken by transaction
markers, last stable offsets, aborted records, trimming, topic ids; snapshots with parents and
summaries, files that snapshots share, compare-and-swap commits, serializable overwrites,
compaction, expiry, rollback, tags. Tests and the simulator use them in place of the real ones;
nothing in them is random or takes time. Log and table keep immutable values only, so that `save`
and `restore` cost nothing: that is how a search goes back to an earlier moment.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from fakes import foreign
from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.protocols.hot_logs import Polled
from seamline.connectors.protocols.raw_records import Headers, NewRecord, RawBatch
from seamline.errors import (
    COLD_FILE_MISSING,
    COMMIT_CONFLICT,
    DEADLINE_EXCEEDED,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    SCHEMA_NOT_EVOLVED,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    TOPIC_NOT_FOUND,
    SeamlineError,
)
from seamline.seam.binding import PROPERTY_PREFIX
from seamline.seam.boundary import SUMMARY_KEY, TAG, encode
from seamline.seam.evolution import AddColumn, Change
from seamline.seam.files import ColdPlan, DataFile, ScanRequest
from seamline.seam.history_checks import recreated, require
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import ColdSpan, Seam
from seamline.seam.table import Snapshot, SnapshotRef, TableSchema, TableState
from seamline.seam.tiering import Batch
from seamline.sql import columns
from seamline.sql.predicates import And, Comparison, In, Or, Predicate
from seamline.sql.types import BIGINT, Field

# --- Time ----------------------------------------------------------------------------------------


class Untimed(NoDeadline):
    """A deadline in a world where no time passes."""

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`: it is over at once."""


class ManualClock:
    """Milliseconds since the epoch, moved by hand."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def advance(self, milliseconds: int = 1) -> int:
        """Moves the clock and gives its new time."""
        self.now_ms += milliseconds
        return self.now_ms


# --- The log -------------------------------------------------------------------------------------


class Record(NamedTuple):
    """One offset of a partition: a record, or the marker that ends a transaction.

    Attributes:
        offset: Its offset.
        timestamp_ms: Its time.
        key: Key bytes.
        value: Value bytes; None for a tombstone.
        transaction: The transaction it belongs to, None outside one.
        marker: `commit` or `abort` for a marker, else empty.
        headers: Names and values of its headers.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    transaction: int | None = None
    marker: str = ""
    headers: Headers = ()


class _Partition(NamedTuple):
    """The records of one partition, from `start` on; never changed in place.

    `open` holds (transaction, its first offset here) of each transaction without an end, `times`
    the time of every offset there has been, `epoch_ends` (epoch, end) of the leaders before this
    one.
    """

    start: int = 0
    end: int = 0
    epoch: int = 0
    epoch_ends: tuple[tuple[int, int], ...] = ()
    records: tuple[Record, ...] = ()
    times: tuple[int, ...] = ()
    open: tuple[tuple[int, int], ...] = ()
    aborted: frozenset[int] = frozenset()

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction, or the end.

        Records that are gone hold nothing back.
        """
        return max(self.start, min((first for _, first in self.open), default=self.end))

    def epoch_of(self, record: Record) -> int:
        """The epoch of the leader that appended a record."""
        ended = (epoch for epoch, end in self.epoch_ends if record.offset < end)
        return next(ended, self.epoch)

    def append(self, record: Record) -> _Partition:
        return self._replace(
            end=record.offset + 1,
            records=(*self.records, record),
            times=(*self.times, record.timestamp_ms),
        )

    def visible(self, record: Record, isolation: str) -> bool:
        if record.marker:
            return False
        return isolation != READ_COMMITTED or record.transaction not in self.aborted


class _Topic(NamedTuple):
    topic_id: str
    partitions: tuple[_Partition, ...]

    def with_partition(self, number: int, partition: _Partition) -> _Topic:
        front, back = self.partitions[:number], self.partitions[number + 1 :]
        return _Topic(self.topic_id, (*front, partition, *back))


class LogState(NamedTuple):
    """Everything a `MemoryLog` holds, immutable and hashable."""

    topics: tuple[tuple[str, _Topic], ...] = ()
    topics_made: int = 0
    transactions_made: int = 0


class MemoryLog:
    """A cluster: `HotLog`, and the operations that change it."""

    def __init__(self, clock: ManualClock | None = None, cluster_id: str = "memory") -> None:
        self.clock = clock or ManualClock()
        self.cluster_id = cluster_id
        self._topics: dict[str, _Topic] = {}
        self._topics_made = 0
        self._transactions_made = 0
        self._known_bounds: dict[tuple[str, str], tuple[_Topic, LogBounds]] = {}
        self._changed = threading.Condition()
        self._compacted: set[str] = set()
        self.topic_settings: dict[str, dict[str, str]] = {}
        self.compaction_lag_ms = 0
        self.confirmed_ends = ConfirmedEnds()

    def save(self) -> LogState:
        """Everything it holds now."""
        topics = tuple(sorted(self._topics.items()))
        return LogState(topics, self._topics_made, self._transactions_made)

    def restore(self, state: LogState) -> None:
        """Goes back, or forward, to what `save` returned."""
        self.confirmed_ends = ConfirmedEnds()  # those of another history
        self._topics = dict(state.topics)
        self._topics_made = state.topics_made
        self._transactions_made = state.transactions_made

    # --- Changing it ---------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int) -> str:
        """Creates a topic, replacing one of the same name; returns its id."""
        self._topics_made += 1
        topic_id = f"topic-{self._topics_made}"
        self._set_topic(name, _Topic(topic_id, (_Partition(),) * partitions))
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        del self._topics[name]

    def add_partitions(self, name: str, count: int = 1) -> None:
        """Adds partitions."""
        topic = self._topic(name)
        more = (_Partition(),) * count
        self._set_topic(name, topic._replace(partitions=topic.partitions + more))

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        transaction: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> int:
        """Appends a record and gives its offset."""
        with self._changed:
            log = self._partition(topic, partition)
            offset = log.end
            if transaction is not None and all(known != transaction for known, _ in log.open):
                log = log._replace(open=(*log.open, (transaction, offset)))
            moment = self.clock.now_ms if timestamp_ms is None else timestamp_ms
            made = Record(offset, moment, key, value, transaction, headers=tuple(headers))
            self._set(topic, partition, log.append(made))
        return offset

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """See `AppendsRecords.append`; appends to the first partition."""
        for key, value, headers in records:
            self.produce(topic, 0, value, key=key, headers=headers)

    def begin(self) -> int:
        """Starts a transaction."""
        self._transactions_made += 1
        return self._transactions_made

    def end_transaction(self, topic: str, transaction: int, *, commit: bool) -> None:
        """Writes the marker of a transaction to every partition it wrote to."""
        marker = "commit" if commit else "abort"
        for number, log in enumerate(self._topic(topic).partitions):
            still_open = tuple(entry for entry in log.open if entry[0] != transaction)
            if still_open == log.open:
                continue
            ended = log.append(
                Record(log.end, self.clock.now_ms, None, None, transaction, marker)
            )._replace(open=still_open)
            if not commit:
                ended = ended._replace(aborted=log.aborted | {transaction})
            self._set(topic, number, ended)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Trims the log: offsets below `before` are gone."""
        log = self._partition(topic, partition)
        start = max(log.start, min(before, log.end))
        kept = tuple(record for record in log.records if record.offset >= start)
        self._set(topic, partition, log._replace(start=start, records=kept))

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """An unclean election: offsets from `end` on are lost, and a new leader continues there."""
        log = self._partition(topic, partition)
        end = max(log.start, min(end, log.end))
        earlier = tuple((epoch, min(known, end)) for epoch, known in log.epoch_ends)
        cut = log._replace(
            end=end,
            epoch=log.epoch + 1,
            epoch_ends=(*earlier, (log.epoch, end)),
            records=tuple(record for record in log.records if record.offset < end),
            times=log.times[:end],
            open=tuple(entry for entry in log.open if entry[1] < end),
        )
        self._set(topic, partition, cut)

    def compact(
        self,
        topic: str,
        before: Mapping[int, int] = MappingProxyType({}),
        forgotten: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Log compaction below the stable end: of each key only the newest record stays.

        It goes no further than to the first record that is younger than `compaction_lag_ms`.

        Args:
            topic: The topic.
            before: Records from these offsets on are too young for it.
            forgotten: Of those below these offsets not even a delete stays.
        """
        self._compacted.add(topic)
        for number, log in enumerate(self._topic(topic).partitions):
            end = min(log.stable_end, before.get(number, log.end), self._young_from(log))
            deletes_from = forgotten.get(number, 0)
            newest = {
                r.key: r.offset
                for r in log.records
                if r.key is not None and log.visible(r, READ_COMMITTED) and r.offset < end
            }
            kept = tuple(
                r
                for r in log.records
                if r.marker
                or r.key is None
                or r.offset >= end
                or (
                    newest.get(r.key, r.offset) <= r.offset
                    and (r.value is not None or r.offset >= deletes_from)
                )
            )
            self._set(topic, number, log._replace(records=kept))

    def settings(self, topic: str, deadline: Deadline) -> Mapping[str, str]:
        """See `TellsSettings.settings`."""
        deadline.check()
        return self.topic_settings.get(topic, {})

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """See `TellsCompaction.is_compacted`."""
        deadline.check()
        return topic in self._compacted

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """See `TellsCompaction.untouched_from`."""
        deadline.check()
        known = self._topic(topic)
        require(recreated(topic, known.topic_id, topic_id))
        if topic not in self._compacted:
            return Offsets(dict.fromkeys(ends, 0))
        young = {p: self._young_from(known.partitions[p]) for p in ends}
        return Offsets({p: o for p, o in young.items() if o < known.partitions[p].end})

    def _young_from(self, log: _Partition) -> int:
        """The first record that compaction may not take yet, nor what follows it."""
        oldest_ms = self.clock.now_ms - self.compaction_lag_ms
        young = (r.offset for r in log.records if r.timestamp_ms > oldest_ms)
        return next(young, log.end) if self.compaction_lag_ms else log.end

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
            for offset, timestamp_ms in enumerate(log.times)
        }

    # --- HotLog --------------------------------------------------------------------------------

    def topics(self, deadline: Deadline) -> list[str]:
        """See `HotLog.topics`."""
        return sorted(self._topics)

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        deadline.check()
        return {name: self._bounds(name, isolation) for name in topics}

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """See `HotLog.offsets_at`."""
        deadline.check()
        known = self._topic(topic)
        require(recreated(topic, known.topic_id, topic_id))
        return Offsets(
            {
                number: next(
                    (
                        r.offset
                        for r in known.partitions[number].records
                        if r.timestamp_ms >= timestamp_ms
                    ),
                    end,
                )
                for number, end in ends.items()
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
        """See `HotLog.read`: one batch per range.

        Kafka delivers nothing past the stable end and lets the reader wait: here it is out of time
        at once.
        """
        left = max_records
        for wanted in ranges:
            deadline.check()
            log = self._partition(topic, wanted.partition)
            _check_epoch(log, wanted, (epochs or {}).get(wanted.partition))
            _check_readable(log, wanted, isolation)
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

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> MemorySubscription:
        """See `FollowableLog.follow`."""
        return MemorySubscription(self, topic, starts, isolation, epochs)

    def poll(
        self,
        topic: str,
        positions: Mapping[int, int],
        isolation: str,
        epochs: Mapping[int, int],
        wait_s: float,
    ) -> Polled:
        """What is past the positions, waiting for it at most that long."""
        with self._changed:
            polled = self._past(topic, positions, isolation, epochs)
            if not polled.positions and wait_s > 0:
                self._changed.wait(wait_s)
                polled = self._past(topic, positions, isolation, epochs)
            return polled

    def _past(
        self,
        name: str,
        positions: Mapping[int, int],
        isolation: str,
        epochs: Mapping[int, int],
    ) -> Polled:
        batches: list[RawBatch] = []
        moved: dict[int, int] = {}
        newest: dict[int, int] = {}
        for partition, position in positions.items():
            log = self._partition(name, partition)
            end = log.stable_end if isolation == READ_COMMITTED else log.end
            wanted = OffsetRange(partition, position, max(position, end))
            _check_epoch(log, wanted, epochs.get(partition))
            if not log.start <= position <= log.end:
                where = f"partition {partition} holds [{log.start}, {log.end})"
                raise SeamlineError(LOG_TRIMMED, f"{where}, not {position}")
            found = [
                r for r in log.records if position <= r.offset < end and log.visible(r, isolation)
            ]
            if found:
                batches.append(_raw_batch(partition, found))
                newest[partition] = log.epoch_of(found[-1])
            if end > position:
                moved[partition] = end
        return Polled(tuple(batches), moved, newest)

    def _bounds(self, name: str, isolation: str) -> LogBounds:
        topic = self._topic(name)
        known = self._known_bounds.get((name, isolation))
        if known is not None and known[0] is topic:
            return known[1]
        logs = list(enumerate(topic.partitions))
        high = Offsets({number: log.end for number, log in logs})
        stable = Offsets({number: log.stable_end for number, log in logs})
        bounds = LogBounds(
            topic=name,
            topic_id=topic.topic_id,
            cluster_id=self.cluster_id,
            start=Offsets({number: log.start for number, log in logs}),
            end=stable if isolation == READ_COMMITTED else high,
            high_watermark=high,
            isolation=isolation,
            leader_epochs=Offsets({number: log.epoch for number, log in logs}),
        )
        self._known_bounds[name, isolation] = (topic, bounds)
        return bounds

    def _topic(self, name: str) -> _Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise SeamlineError(TOPIC_NOT_FOUND, f"topic {name} does not exist", subject=name)
        return topic

    def _partition(self, name: str, number: int) -> _Partition:
        partitions = self._topic(name).partitions
        if number >= len(partitions):
            raise SeamlineError(LOG_TRUNCATED, f"topic {name} has no partition {number} any more")
        return partitions[number]

    def _set(self, name: str, number: int, partition: _Partition) -> None:
        self._set_topic(name, self._topics[name].with_partition(number, partition))

    def _set_topic(self, name: str, topic: _Topic) -> None:
        with self._changed:
            self._topics[name] = topic
            self._changed.notify_all()


def _check_epoch(log: _Partition, wanted: OffsetRange, epoch: int | None) -> None:
    if epoch is not None and dict(log.epoch_ends).get(epoch, log.end) < wanted.start:
        raise SeamlineError(
            LOG_TRUNCATED, f"partition {wanted.partition} was cut below {wanted.start}"
        )


def _check_readable(log: _Partition, wanted: OffsetRange, isolation: str) -> None:
    end = log.stable_end if isolation == READ_COMMITTED else log.end
    where = f"partition {wanted.partition}"
    if wanted.start < log.start:
        raise SeamlineError(LOG_TRIMMED, f"{where} starts at {log.start}")
    if wanted.end_exclusive > log.end:
        raise SeamlineError(LOG_TRUNCATED, f"{where} ends at {log.end}")
    if wanted.end_exclusive > end:
        raise SeamlineError(DEADLINE_EXCEEDED, f"{where} is stable up to {end} only")


class MemorySubscription:
    """See `Subscription`. Like Kafka's, it goes by the topic's name, whatever its id is by now."""

    def __init__(
        self,
        log: MemoryLog,
        topic: str,
        starts: Offsets,
        isolation: str,
        epochs: Mapping[int, int],
    ) -> None:
        self._log = log
        self._topic = topic
        self._positions = dict(starts)
        self._isolation = isolation
        self._epochs = dict(epochs)

    def poll(self, wait_s: float) -> Polled:
        """See `Subscription.poll`."""
        polled = self._log.poll(self._topic, self._positions, self._isolation, self._epochs, wait_s)
        self._positions.update(polled.positions)
        self._epochs.update(polled.epochs)
        return polled

    def close(self, *, lost: bool = False) -> None:
        """See `Subscription.close`."""


def _raw_batch(partition: int, records: Sequence[Record]) -> RawBatch:
    return RawBatch(
        partitions=[partition] * len(records),
        offsets=[record.offset for record in records],
        timestamps_ms=[record.timestamp_ms for record in records],
        keys=[record.key for record in records],
        values=[record.value for record in records],
        headers=[record.headers or None for record in records],
    )


# --- The table -----------------------------------------------------------------------------------

Row = tuple[int | None, int | None, bytes | None, int | None]
"""(partition, offset, value, batch); a row of a foreign writer has None for partition and
offset."""


class MemoryFile(NamedTuple):
    """A data file: its name, and its rows in order."""

    path: str
    rows: tuple[Row, ...]


class _Content(NamedTuple):
    """The files of a snapshot, and those of them its own commit added."""

    files: tuple[MemoryFile, ...]
    added: tuple[MemoryFile, ...]


class SavedTable(NamedTuple):
    """Everything a `MemoryTable` holds; nothing in it is ever changed."""

    state: TableState
    contents: Mapping[int, _Content]
    commits: int


_uuids = itertools.count(1)


def version_of(value: bytes | None) -> int:
    """How many more columns a record has than the first schema: a plus for each."""
    return 0 if value is None else len(value) - len(value.rstrip(b"+"))


def shown(value: bytes | None, version: int) -> bytes | None:
    """What a table of some schema shows of a record: no more columns than its own."""
    more = version_of(value) - version
    return value if value is None or more <= 0 else value[:-more]


def _extra(first: int, end: int) -> tuple[Field, ...]:
    return tuple(Field(f"{EXTRA}{number}", BIGINT) for number in range(first, end))


EXTRA = "extra_"
"""The names of the columns that later schemas have."""


@functools.cache
def _evolved(schema: TableSchema, version: int) -> TableSchema:
    """The schema of a later version, once for all tables."""
    return TableSchema(version, (*schema.columns, *_extra(schema.schema_id, version)))


class MemoryTable:
    """A table of rows that come from a log: `TierTable`, `ColdTable`, and what others do to it.

    Args:
        name: Full name.
        schema: Its columns.
        properties: Table properties.
        clock: Gives commits their time.
        log: The cluster its topic is in.
        uuid: Its id; a new one when left out.
    """

    def __init__(
        self,
        name: tuple[str, ...],
        schema: TableSchema,
        properties: Mapping[str, str],
        clock: ManualClock,
        log: MemoryLog,
        uuid: str | None = None,
    ) -> None:
        self._clock = clock
        self._log = log
        self._commits = 0
        self._contents: dict[int, _Content] = {}
        self._state = TableState(
            name=name,
            uuid=uuid or f"table-{next(_uuids)}",
            properties=dict(properties),
            schemas={schema.schema_id: schema},
            current_schema_id=schema.schema_id,
            snapshots={},
            refs={},
            current_snapshot_id=None,
        )

    def save(self) -> SavedTable:
        """Everything it holds now."""
        return SavedTable(self._state, self._contents, self._commits)

    def restore(self, saved: SavedTable) -> None:
        """Goes back, or forward, to what `save` returned."""
        self._state = saved.state
        self._contents = dict(saved.contents)
        self._commits = saved.commits

    @property
    def state(self) -> TableState:
        """See `ColdTable.state`."""
        return self._state

    def records(self, snapshot_id: int | None) -> tuple[Row, ...]:
        """The rows of a snapshot, as often as its files hold them.

        Raises:
            SeamlineError: COLD_FILE_MISSING when its files are gone.
        """
        return tuple(row for file in self._files(snapshot_id) for row in file.rows)

    def rows(self, snapshot_id: int | None) -> frozenset[Row]:
        """The rows of a snapshot, each once; see `records`."""
        return frozenset(self.records(snapshot_id))

    def open(self, path: str) -> tuple[Row, ...]:
        """The rows of a file.

        Raises:
            SeamlineError: COLD_FILE_MISSING when no snapshot that is kept has it.
        """
        for content in self._contents.values():
            for file in content.files:
                if file.path == path:
                    return file.rows
        raise SeamlineError(COLD_FILE_MISSING, f"file {path} is gone")

    @property
    def file_access(self) -> None:
        """See `ColdTable.file_access`: its rows need none."""

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`: prunes as well as anybody could, by partition and offset."""
        files = self._files(snapshot_id)
        kept = [f for f in files if any(may_match(request.predicate, row) for row in f.rows)]
        return ColdPlan(
            snapshot_id,
            tuple(DataFile(f.path, "memory", 10 * len(f.rows), len(f.rows)) for f in kept),
            total_files=len(files),
            total_rows=sum(len(f.rows) for f in files),
        )

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return plan

    def require_single_writer(
        self, snapshot_id: int | None, state: TableState | None = None
    ) -> None:
        """See `ColdTable.require_single_writer`, of the table as it is, or was loaded."""

        def added(snapshot_id: int) -> tuple[MemoryFile, ...]:
            content = self._contents.get(snapshot_id)
            if content is None:
                raise SeamlineError(COLD_FILE_MISSING, f"files of {snapshot_id} are gone")
            return content.added

        foreign.require_single_writer(state or self._state, snapshot_id, added)

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return None

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`: it has no files."""

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        return frozenset()

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`; a record's time is asked of the log that it came from."""
        times = self._log.times(self._state.properties[f"{PROPERTY_PREFIX}topic"])
        found: dict[int, int] = {}
        for partition, offset, _, batch in self.records(snapshot_id):
            if (batch or 0) < first_batch:
                continue
            for wanted in ranges:
                if (
                    partition == wanted.partition
                    and offset is not None
                    and wanted.start <= offset < wanted.end_exclusive
                    and times.get((partition, offset), -1) >= first_ms
                ):
                    found[partition] = min(offset, found.get(partition, offset))
        return Offsets(found)

    # --- TierTable -----------------------------------------------------------------------------

    def load(self) -> TableState:
        """See `TierTable.load`."""
        return self._state

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        return bool(self.read_rows(batch, deadline))

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`: what Iceberg's serializable overwrite does."""
        self.write_rows(batch, self.read_rows(batch, Untimed()))

    def read_rows(
        self, batch: Batch, deadline: Deadline, *, is_cut: bool = False
    ) -> tuple[Row, ...]:
        """The rows a batch writes, as its log gives them now.

        Args:
            batch: The batch.
            deadline: Bounds requests to the log.
            is_cut: Whether what has no column is left out.

        Raises:
            SeamlineError: SCHEMA_NOT_EVOLVED, when it is not.
        """
        rows = self._read_rows(batch, deadline)
        if is_cut:
            return tuple((p, o, shown(value, batch.schema_id), b) for p, o, value, b in rows)
        if any(version_of(value) > batch.schema_id for _, _, value, _ in rows):
            raise SeamlineError(SCHEMA_NOT_EVOLVED, "there are records with more columns")
        return rows

    def _read_rows(self, batch: Batch, deadline: Deadline) -> tuple[Row, ...]:
        return tuple(
            (partition, offset, value, batch.batch_id)
            for raw in self._log.read(
                batch.binding.topic, batch.ranges, batch.boundary.isolation, deadline
            )
            for partition, offset, value in zip(
                raw.partitions, raw.offsets, raw.values, strict=True
            )
        )

    def write_rows(self, batch: Batch, rows: Iterable[Row]) -> None:
        """The commit alone, of rows that were read before."""
        for snapshot in self._since(batch.snapshot_id):
            for file in self._contents[snapshot].added:
                if any(
                    (row[3] if row[3] is not None else -1) >= batch.batch_id for row in file.rows
                ):
                    raise SeamlineError(COMMIT_CONFLICT, "conflicting files were added")
        kept = tuple(
            file
            for file in self._files(self._state.current_snapshot_id)
            if any(row[3] is None or row[3] < batch.batch_id for row in file.rows)
        )
        self._commit("overwrite", kept, tuple(rows), {SUMMARY_KEY: encode(batch.boundary)})

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        state, rows = self._state, self._read_rows(batch, deadline)
        wanted = max((version_of(value) for _, _, value, _ in rows), default=0)
        if state.current_schema_id != batch.schema_id or wanted <= batch.schema_id:
            return ()
        schema = _evolved(state.schema, wanted)
        schemas = {**state.schemas, wanted: schema}
        self._state = dataclasses.replace(state, schemas=schemas, current_schema_id=wanted)
        return tuple(
            AddColumn((field.name,), field.type) for field in _extra(batch.schema_id, wanted)
        )

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        if self._state.current_snapshot_id != batch.snapshot_id:
            raise SeamlineError(COMMIT_CONFLICT, "the table has changed")
        self.commit_without_rows({SUMMARY_KEY: encode(batch.boundary)})

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        if snapshot_id in self._state.snapshots:
            self._set_refs({TAG: SnapshotRef(snapshot_id, "tag")})

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        if self._state.current_snapshot_id != snapshot_id or to not in self._state.snapshots:
            raise SeamlineError(COMMIT_CONFLICT, "the head has moved on, or its parent has expired")
        self._set_head(to)

    # --- What others do ------------------------------------------------------------------------

    def create(self, summary: Mapping[str, str]) -> None:
        """The first snapshot."""
        self.commit_without_rows(summary)

    def commit_without_rows(self, summary: Mapping[str, str]) -> None:
        """A commit without rows."""
        self._commit("append", self._files(self._state.current_snapshot_id), (), summary)

    def append_foreign(self, value: bytes) -> None:
        """Another writer's rows, which do not come from the log."""
        files = self._files(self._state.current_snapshot_id)
        self._commit("append", files, ((None, None, value, None),), {})

    def append_copied(self, rows: tuple[Row, ...], summary: Mapping[str, str]) -> None:
        """Records of the log, by another writer, and what its commit says about them."""
        files = self._files(self._state.current_snapshot_id)
        self._commit("append", files, rows, summary)

    def change_hands(
        self, summary: Mapping[str, str], properties: Mapping[str, str], without: Iterable[str] = ()
    ) -> None:
        """A commit without rows that also says who fills the table from now on."""
        self.commit_without_rows(summary)
        kept = {k: v for k, v in self._state.properties.items() if k not in set(without)}
        self._set_properties({**kept, **properties})

    def compact(self) -> None:
        """Rewrites all files into one, without changing rows."""
        files = self._files(self._state.current_snapshot_id)
        rows = tuple(row for file in files for row in file.rows)
        self._commit("replace", (), rows, {})

    def set_property(self, name: str, value: str) -> None:
        """Somebody sets a property; nothing is committed."""
        self._set_properties({**self._state.properties, name: value})

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        state = self._state
        provider = foreign.provider_of(state.name, state.uuid, properties)
        self._state = dataclasses.replace(state, properties=properties, provider=provider)

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
        self._contents = {i: content for i, content in self._contents.items() if i in kept}

    # --- Commits -------------------------------------------------------------------------------

    def _files(self, snapshot_id: int | None) -> tuple[MemoryFile, ...]:
        if snapshot_id is None:
            return ()
        content = self._contents.get(snapshot_id)
        if content is None:
            raise SeamlineError(COLD_FILE_MISSING, f"files of snapshot {snapshot_id} are gone")
        return content.files

    def _since(self, snapshot_id: int) -> list[int]:
        """Ids of the commits after a snapshot, up to the head; the snapshot may have expired."""
        since: list[int] = []
        parent = None
        for snapshot in self._state.ancestors(self._state.current_snapshot_id):
            if snapshot.snapshot_id == snapshot_id:
                return since
            since.append(snapshot.snapshot_id)
            parent = snapshot.parent_id
        if parent == snapshot_id:
            return since
        raise SeamlineError(
            COMMIT_CONFLICT, f"snapshot {snapshot_id} is not in the table's history"
        )

    def _commit(
        self,
        operation: str,
        kept: tuple[MemoryFile, ...],
        rows: tuple[Row, ...],
        summary: Mapping[str, str],
    ) -> None:
        self._commits += 1
        snapshot = Snapshot(
            snapshot_id=self._commits,
            parent_id=self._state.current_snapshot_id,
            timestamp_ms=self._clock.advance(),
            operation=operation,
            summary=dict(summary),
            schema_id=self._state.current_schema_id,
            sequence_number=self._commits,
        )
        new = (MemoryFile(f"file-{self._commits}", rows),) if rows else ()
        added = () if operation == "replace" else new
        self._contents = {**self._contents, self._commits: _Content(kept + new, added)}
        snapshots = {**self._state.snapshots, self._commits: snapshot}
        self._state = dataclasses.replace(self._state, snapshots=snapshots)
        self._set_head(self._commits)

    def _set_head(self, snapshot_id: int) -> None:
        self._state = dataclasses.replace(
            self._state,
            current_snapshot_id=snapshot_id,
            snapshot_log=(*self._state.snapshot_log, (self._clock.now_ms, snapshot_id)),
            refs={**self._state.refs, "main": SnapshotRef(snapshot_id, "branch")},
        )

    def _set_refs(self, refs: Mapping[str, SnapshotRef]) -> None:
        self._state = dataclasses.replace(self._state, refs={**self._state.refs, **refs})


def may_match(predicate: Predicate | None, row: Row) -> bool:
    """Whether a row may satisfy a predicate, as far as its partition and offset show."""
    match predicate:
        case And(parts):
            return all(may_match(part, row) for part in parts)
        case Or(parts):
            return any(may_match(part, row) for part in parts)
        case Comparison(columns.PARTITION | columns.OFFSET as column, sign, int(wanted)):
            found = row[0] if column == columns.PARTITION else row[1]
            return found is not None and _COMPARE[sign](found, wanted)
        case In(columns.PARTITION | columns.OFFSET as column, values):
            return (row[0] if column == columns.PARTITION else row[1]) in values
    return True


_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "=": int.__eq__,
    "<>": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


class MemoryCatalog:
    """A catalog of such tables."""

    def __init__(self, name: str = "lake") -> None:
        self.name = name
        self._tables: dict[tuple[str, ...], MemoryTable] = {}

    def add(self, table: MemoryTable) -> None:
        """Puts a table in, in place of one of the same name."""
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
        return sorted({i[:levels] for i in self._tables for levels in range(1, len(i))})

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return namespace in self.namespaces()

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        if not self.has_namespace(namespace):
            raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {'.'.join(namespace)} does not exist")
        return sorted(i for i in self._tables if i[:-1] == namespace)


class MemoryView:
    """A loaded table: its state is frozen, its files are the table's."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.state = table.state

    @property
    def file_access(self) -> None:
        """See `ColdTable.file_access`: its rows need none."""

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        return self.table.plan(snapshot_id, request)

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return plan

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        self.table.require_single_writer(snapshot_id, self.state)

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return self.table.deleted_rows(plan)

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`."""
        self.table.require_fit_for_spark(snapshot_id)

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        return self.table.misleading_columns(snapshot_id)

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`."""
        return self.table.offsets_at(snapshot_id, first_ms, ranges, first_batch)


def is_within(row: Row, span: ColdSpan) -> bool:
    """Whether a row of a snapshot is among those of a span."""
    partition, offset, _, batch = row
    if (batch or 0) < span.first_batch:
        return span.takes_earlier
    if partition is None:
        return span.start is None
    is_past = span.start is None or (offset or 0) >= span.start.get(partition, 2**63)
    return is_past and (span.end is None or (offset or 0) < span.end.get(partition, 0))


def seam_rows(table: MemoryTable, log: MemoryLog, seam: Seam) -> list[Row]:
    """The rows a seam stands for: those of its snapshot, and those of its tail."""
    rows = list(table.records(seam.cold.snapshot_id))
    if seam.cold_span is not None:
        rows = [row for row in rows if is_within(row, seam.cold_span)]
    for raw in log.read(seam.log.topic, seam.hot_ranges, seam.log.isolation, Untimed()):
        rows += [
            (partition, offset, value, None)
            for partition, offset, value in zip(
                raw.partitions, raw.offsets, raw.values, strict=True
            )
        ]
    return rows
