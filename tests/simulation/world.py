"""A log and its table, and the truth about both: every record ever sent and what became of it.

Whatever happens to log and table happens through a `World`, which writes down what the oracle must
know and what neither of them keeps: trimmed, compacted and aborted records, the boundaries that
snapshots carried, the rows of foreign writers. `save` and `restore` make any moment cheap to go
back to.
"""

from __future__ import annotations

import contextlib
import functools
import json
from typing import NamedTuple

from fakes.memory import (
    LogState,
    ManualClock,
    MemoryCatalog,
    MemoryLog,
    MemoryTable,
    SavedTable,
)

from seamline.connectors.protocols import NoDeadline
from seamline.errors import SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, encode, renewed
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.table import TableSchema
from seamline.sql import columns
from seamline.sql.types import VARBINARY, Field

TOPIC = "orders"
CLUSTER = "hot"
CATALOG = "lake"
TABLE = (CATALOG, "default", "orders")
SCHEMA = TableSchema(0, (Field("value", VARBINARY), *columns.METADATA_FIELDS))
BINDING = TopicBinding(CLUSTER, TOPIC, format="raw")


class Sent(NamedTuple):
    """One offset as the producer knows it: a record, or a marker (`value` is None)."""

    value: bytes | None
    transaction: int | None = None
    timestamp_ms: int = 0


class Mark(NamedTuple):
    """A boundary as a summary says it: the snapshot that carries it, the topic, the offsets."""

    snapshot_id: int
    topic_id: str
    next: tuple[tuple[int, int], ...]


class Past(NamedTuple):
    """What is remembered of a snapshot, also after it has expired.

    Attributes:
        parent_id: Its parent.
        mark: The boundary that holds at it: its own, or its nearest marked ancestor's.
        foreign: Values of the foreign rows in it.
    """

    parent_id: int | None
    mark: Mark
    foreign: tuple[bytes, ...] = ()


History = tuple[tuple[Sent, ...], ...]
"""Per partition everything ever sent to it, by offset."""


class Cut(NamedTuple):
    """A log of `sent` records lost those from `end` on, when the table had `commits` snapshots."""

    topic_id: str
    partition: int
    end: int
    sent: int
    commits: int


class Truth(NamedTuple):
    """What really happened; hashable, never changed in place.

    Attributes:
        topic_id: The topic that has the name now.
        histories: (topic id, everything sent to it) of each topic that ever had it.
        committed: Transactions that were committed.
        compacted: (topic id, partition, offset) of records that compaction of the log removed.
        pasts: Every snapshot there ever was; ids count from 1.
        upheavals: How often what had been readable was taken away: by a rollback, a topic or a
            table made anew, a log that was cut.
        cuts: Every time a log was cut.
        began: Topic, partition and where the table began in it; where it is silent, at 0.
        open: The transaction that has not ended, if any.
    """

    topic_id: str
    histories: tuple[tuple[str, History], ...]
    committed: frozenset[int] = frozenset()
    compacted: frozenset[tuple[str, int, int]] = frozenset()
    pasts: tuple[Past, ...] = ()
    upheavals: int = 0
    cuts: tuple[Cut, ...] = ()
    began: tuple[tuple[str, int, int], ...] = ()
    open: int | None = None

    @property
    def history(self) -> History:
        """Everything sent to the topic that has the name now."""
        return dict(self.histories)[self.topic_id]


class Moment(NamedTuple):
    """A saved world."""

    log: LogState
    table: SavedTable
    truth: Truth
    now_ms: int


class World:
    """The world; every change is a method.

    Args:
        partitions: How many the topic has at first.
        ticks: Whether the clock moves with every commit; a search keeps it still, so that moments
            that differ in nothing else are the same.
    """

    def __init__(self, partitions: int = 2, *, ticks: bool = True) -> None:
        self.clock = ManualClock() if ticks else _StillClock()
        self.log = MemoryLog(self.clock)
        topic_id = self.log.create_topic(TOPIC, partitions)
        self.truth = Truth(topic_id, ((topic_id, ((),) * partitions),))
        properties = BINDING.to_properties()
        self.table = MemoryTable(TABLE, SCHEMA, properties, self.clock, self.log, uuid="table-1")
        self.catalog = MemoryCatalog(CATALOG)
        self.catalog.add(self.table)
        bounds = self.log.bounds([TOPIC], READ_COMMITTED, NoDeadline())[TOPIC]
        self.table.create({SUMMARY_KEY: encode(_first(bounds, bounds.start))})
        self.note_commits()

    def save(self) -> Moment:
        """This moment."""
        return Moment(self.log.save(), self.table.save(), self.truth, self.clock.now_ms)

    def restore(self, moment: Moment) -> None:
        """Goes to another moment."""
        self.log.restore(moment.log)
        self.table.restore(moment.table)
        self.truth = moment.truth
        self.clock.now_ms = moment.now_ms

    # --- The log -------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        """Partitions of the topic now."""
        return len(self.truth.history)

    def ends(self) -> list[int]:
        """Per partition how much was ever sent: the next offset."""
        return [len(sent) for sent in self.truth.history]

    def append(self, partition: int, *, key: bytes | None = None, age_ms: int = 0) -> int:
        """Sends a record outside of a transaction; gives the offset after it."""
        return self._send(partition, None, key, age_ms)

    def append_in_transaction(self, partition: int) -> int:
        """Sends a record in the open transaction, which begins if there is none."""
        if self.truth.open is None:
            self.truth = self.truth._replace(open=self.log.begin())
        return self._send(partition, self.truth.open, None, 0)

    def end_transaction(self, *, commit: bool) -> None:
        """Ends the open transaction."""
        transaction = self.truth.open
        assert transaction is not None
        touched = [
            number
            for number, sent in enumerate(self.truth.history)
            if any(entry.transaction == transaction for entry in sent)
        ]
        self.log.end_transaction(TOPIC, transaction, commit=commit)
        for partition in touched:
            self._write_down(partition, Sent(None, transaction, self.clock.now_ms))
        committed = self.truth.committed | ({transaction} if commit else set())
        self.truth = self.truth._replace(open=None, committed=committed)

    def trim(self, partition: int, before: int) -> None:
        """DeleteRecords, or retention."""
        self.log.delete_records(TOPIC, partition, before)

    def compact_log(self) -> None:
        """Kafka's compaction: of each key only the newest record stays."""
        before = _positions(self.log)
        self.log.compact(TOPIC)
        gone = {(self.truth.topic_id, *place) for place in before - _positions(self.log)}
        self.truth = self.truth._replace(compacted=self.truth.compacted | gone)

    def recreate_topic(self, partitions: int) -> None:
        """Deletes the topic and creates another of the same name."""
        topic_id = self.log.create_topic(TOPIC, partitions)
        self.truth = self.truth._replace(
            topic_id=topic_id,
            histories=(*self.truth.histories, (topic_id, ((),) * partitions)),
            upheavals=self.truth.upheavals + 1,
            open=None,
        )

    def truncate(self, partition: int, end: int) -> None:
        """An unclean election loses the records from `end` on, whole transactions at a time."""
        sent = self.truth.history[partition]
        while end < len(sent):
            touched = {entry.transaction for entry in sent[end:]} - {None}
            first = next((i for i, e in enumerate(sent) if e.transaction in touched), end)
            if first >= end:
                break
            end = first
        ((_, topic),) = self.log.save().topics
        end = max(end, topic.partitions[partition].start)
        history = self.truth.history
        self.log.truncate(TOPIC, partition, end)
        self._set_history((*history[:partition], sent[:end], *history[partition + 1 :]))
        cut = Cut(self.truth.topic_id, partition, end, len(sent), len(self.truth.pasts))
        opened = self.truth.open
        if all(e.transaction != opened for entries in self.truth.history for e in entries):
            opened = None
        self.truth = self.truth._replace(
            upheavals=self.truth.upheavals + (end < len(sent)),
            cuts=(*self.truth.cuts, cut),
            open=opened,
        )

    def add_partition(self) -> None:
        """Gives the topic one more partition."""
        self.log.add_partitions(TOPIC)
        self._set_history((*self.truth.history, ()))

    def _send(self, partition: int, transaction: int | None, key: bytes | None, age_ms: int) -> int:
        offset = len(self.truth.history[partition])
        value = f"{self.truth.topic_id}/{partition}/{offset}/{self.truth.upheavals}".encode()
        moment = self.clock.now_ms - age_ms
        self.log.produce(
            TOPIC, partition, value, key=key, transaction=transaction, timestamp_ms=moment
        )
        self._write_down(partition, Sent(value, transaction, moment))
        return offset + 1

    def _write_down(self, partition: int, sent: Sent) -> None:
        history = self.truth.history
        grown = (*history[partition], sent)
        self._set_history((*history[:partition], grown, *history[partition + 1 :]))

    def _set_history(self, history: History) -> None:
        *others, (topic_id, _) = self.truth.histories
        self.truth = self.truth._replace(histories=(*others, (topic_id, history)))

    # --- The table -----------------------------------------------------------------------------

    def append_foreign(self) -> None:
        """Another engine adds a row of its own."""
        value = f"foreign/{len(self.truth.pasts)}".encode()
        self.table.append_foreign(value)
        self.note_commits(foreign=(value,))

    def compact_table(self) -> None:
        """Another engine, or maintenance, rewrites the files."""
        self.table.compact()
        self.note_commits()

    def expire(self) -> None:
        """Maintenance: the head gets the boundary, then what no ref names is dropped.

        Expiry takes snapshots of a certain age only: whatever is committed in between is safe.
        """
        with contextlib.suppress(SeamlineError):
            boundary = renewed(self.table.state)
            if boundary is not None:
                self.table.commit_without_rows({SUMMARY_KEY: encode(boundary)})
                self.note_commits()
        self.table.expire()

    def roll_back(self, snapshot_id: int) -> None:
        """Somebody moves the head of the table to another snapshot."""
        self.table.roll_back(snapshot_id)
        self.truth = self.truth._replace(upheavals=self.truth.upheavals + 1)

    def recreate_table(self) -> None:
        """Drops the table and creates another of the same name, from what the log still holds."""
        bounds = self.log.bounds([TOPIC], READ_COMMITTED, NoDeadline())[TOPIC]
        uuid = f"table-{self.truth.upheavals + 2}"
        properties = BINDING.to_properties()
        table = MemoryTable(TABLE, SCHEMA, properties, self.clock, self.log, uuid=uuid)
        # ids of snapshots are never used twice
        table.restore(table.save()._replace(commits=self.table.save().commits))
        table.create({SUMMARY_KEY: encode(_first(bounds, bounds.start))})
        self.table.restore(table.save())
        self.truth = self.truth._replace(
            upheavals=self.truth.upheavals + 1,
            cuts=(),
            began=tuple((bounds.topic_id, *start) for start in bounds.start.items()),
        )
        self.note_commits()

    def note_commits(self, foreign: tuple[bytes, ...] = ()) -> None:
        """Writes down what new snapshots carry.

        Args:
            foreign: Values of foreign rows they add.
        """
        commits = self.table.save().commits
        while len(self.truth.pasts) < commits:
            snapshot = self.table.state.snapshots[len(self.truth.pasts) + 1]
            parent = self.past(snapshot.parent_id)
            text = snapshot.summary.get(SUMMARY_KEY)
            own = None if text is None else _mark(snapshot.snapshot_id, text)
            mark = own or (parent and parent.mark)
            assert mark is not None
            past = Past(snapshot.parent_id, mark, (parent.foreign if parent else ()) + foreign)
            self.truth = self.truth._replace(pasts=(*self.truth.pasts, past))

    @property
    def head(self) -> Past:
        """The table's current snapshot."""
        past = self.past(self.table.state.current_snapshot_id)
        assert past is not None
        return past

    def past(self, snapshot_id: int | None) -> Past | None:
        """What is remembered of a snapshot."""
        return None if snapshot_id is None else self.truth.pasts[snapshot_id - 1]


def _first(bounds: LogBounds, start: Offsets) -> Boundary:
    """The boundary a new table begins with."""
    return Boundary(
        0, bounds.cluster_id, bounds.topic, bounds.topic_id, bounds.isolation, start, start
    )


class _StillClock(ManualClock):
    """A clock that shows the same time for ever."""

    def advance(self, milliseconds: int = 0) -> int:
        """The time."""
        return self.now_ms


@functools.lru_cache(maxsize=4096)
def _mark(snapshot_id: int, text: str) -> Mark:
    body = json.loads(text)
    pairs = sorted((int(partition), int(offset)) for partition, offset in body["next"].items())
    return Mark(snapshot_id, body["topic_id"], tuple(pairs))


def _positions(log: MemoryLog) -> set[tuple[int, int]]:
    ((_, topic),) = log.save().topics
    return {
        (number, record.offset)
        for number, partition in enumerate(topic.partitions)
        for record in partition.records
    }
