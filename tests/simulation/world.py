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
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fakes.foreign import ends_of as copied_ends
from fakes.foreign import summary as copied_summary
from fakes.memory import (
    LogState,
    ManualClock,
    MemoryCatalog,
    MemoryLog,
    MemoryTable,
    Row,
    SavedTable,
    Untimed,
)

from seamline.connectors.iceberg.boundaries.fluss import Fluss
from seamline.connectors.iceberg.boundaries.registry import PROPERTY
from seamline.errors import SeamlineError
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import REWRITE, SUMMARY_KEY, Boundary, encode, renewed
from seamline.seam.hands import handed_over, taken_over
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.resuming import unverified
from seamline.seam.table import Snapshot, TableSchema, TableState
from seamline.seam.tiering import Batch
from seamline.sql import columns
from seamline.sql.types import VARBINARY, Field

TOPIC = "orders"
CLUSTER = "hot"
CATALOG = "lake"
TABLE = (CATALOG, "default", "orders")
SCHEMA = TableSchema(0, (Field("value", VARBINARY), *columns.METADATA_FIELDS))
VERSIONS_MAX = 3
BINDING = TopicBinding(CLUSTER, TOPIC, format="raw")


HandOver = Callable[[TableState, LogBounds, str], Boundary]
TakeOver = Callable[[TableState, LogBounds], Boundary]


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
        is_copied: Whether its newest rows are the other writer's, and not ours; None where one has
            just taken the place of the other.
        is_doubled: Whether both have written since one took the place of the other.
        hands: How often the table had changed hands.
        lost: (topic id, partition, offset) of what it lacks, as the log had lost it.
        earlier: The rows in it that are records of topics that had the name before.
    """

    parent_id: int | None
    mark: Mark
    foreign: tuple[bytes, ...] = ()
    is_copied: bool | None = False
    is_doubled: bool = False
    hands: int = 0
    lost: frozenset[tuple[str, int, int]] = frozenset()
    earlier: frozenset[tuple[int, int, bytes]] = frozenset()


class Copier(NamedTuple):
    """Another writer that copies the topic into the table, and is at work.

    Attributes:
        next: The first offsets that it has not committed, per partition.
        rows: What it has read and not committed yet; None when it has read nothing.
        reached: The first offsets that it has not read.
    """

    next: tuple[tuple[int, int], ...]
    rows: tuple[Row, ...] | None = None
    reached: tuple[tuple[int, int], ...] = ()


History = tuple[tuple[Sent, ...], ...]
"""Per partition everything ever sent to it, by offset."""


class Truncation(NamedTuple):
    """A log of `sent` records lost those from `end` on, when the table had `commits` snapshots.

    One more may have been under way, of records that were read before.
    """

    topic_id: str
    partition: int
    end: int
    sent: int
    commits: int
    under_way: bool


class Truth(NamedTuple):
    """What really happened; hashable, never changed in place.

    Attributes:
        topic_id: The topic that has the name now.
        histories: (topic id, everything sent to it) of each topic that ever had it.
        committed: Transactions that were committed.
        compacted: (topic id, partition, offset) of records that compaction of the log removed.
        pasts: Every snapshot there ever was; ids count from 1.
        upheavals: How often what had been readable was taken away: by a rollback, a topic or a
            table recreated, a log that was cut.
        cuts: Every time a log was cut.
        began: Topic, partition and where the table began in it; where it is silent, at 0.
        open: The transaction that has not ended, if any.
        copier: The other writer, while it is at work.
        hands: How often the table has changed hands.
        version: Of the schema that producers use: how many columns it has more than the first.
    """

    topic_id: str
    histories: tuple[tuple[str, History], ...]
    committed: frozenset[int] = frozenset()
    compacted: frozenset[tuple[str, int, int]] = frozenset()
    pasts: tuple[Past, ...] = ()
    upheavals: int = 0
    cuts: tuple[Truncation, ...] = ()
    began: tuple[tuple[str, int, int], ...] = ()
    open: int | None = None
    copier: Copier | None = None
    hands: int = 0
    version: int = 0

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
        bounds = self.log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]
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
        """Sends a record outside a transaction; returns the offset after it."""
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

    def new_schema(self) -> None:
        """Producers continue with a schema of one column more; their records say so."""
        self.truth = self.truth._replace(version=min(self.truth.version + 1, VERSIONS_MAX))

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
            copier=None,
        )

    def truncate(self, partition: int, end: int, *, under_way: bool = False) -> None:
        """An unclean election loses the records from `end` on, whole transactions at a time.

        Args:
            partition: The partition.
            end: Where the new leader continues, at most.
            under_way: Whether a commit may be under way.
        """
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
        commits = len(self.truth.pasts)
        cut = Truncation(self.truth.topic_id, partition, end, len(sent), commits, under_way)
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
        text = f"{self.truth.topic_id}/{partition}/{offset}/{self.truth.upheavals}"
        value = text.encode() + b"+" * self.truth.version
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
        try:
            self.table.require_single_writer(self.table.state.current_snapshot_id)
        except SeamlineError:
            return  # ours does nothing then: nobody could know any more
        if unverified(self.table.state) is not None:
            return  # the batch may have to be taken back
        with contextlib.suppress(SeamlineError):
            boundary = renewed(self.table.state)
            if boundary is not None:
                self.table.commit_without_rows({SUMMARY_KEY: encode(boundary)})
                self.note_commits()
        self.table.expire()

    def roll_back(self, snapshot_id: int) -> None:
        """Somebody moves the head of a table that we fill to another snapshot."""
        if self.is_adopted:
            return
        self.table.roll_back(snapshot_id)
        self.truth = self.truth._replace(upheavals=self.truth.upheavals + 1)

    def recreate_table(self) -> None:
        """Drops the table and creates another of the same name, from what the log still holds."""
        bounds = self.log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]
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
            copier=None,
        )
        self.note_commits()

    # --- Another writer of the table -----------------------------------------------------------

    @property
    def is_adopted(self) -> bool:
        """Whether another writer fills the table, and Seamline does not."""
        return self.table.state.provider is not None

    def hand_over(self, decide: HandOver = handed_over) -> None:
        """Another writer continues where the pipeline is, whatever it is doing.

        Writers without epochs cannot notice a log that has lost records.
        """
        if self.is_adopted or any(cut.end < cut.sent for cut in self.truth.cuts):
            return
        with contextlib.suppress(SeamlineError):
            state = self.table.state
            self.table.require_single_writer(state.current_snapshot_id)
            boundary = decide(state, self._bounds(), Fluss.name)
            said = {
                PROPERTY: Fluss.name,
                f"{PROPERTY_PREFIX}boundary-start": json.dumps(boundary.next.to_json()),
                f"{PROPERTY_PREFIX}topic-id": boundary.topic_id,
                f"{PROPERTY_PREFIX}cluster-id": boundary.cluster_id,
            }
            self.table.change_hands({SUMMARY_KEY: encode(boundary)}, said)
            copier = Copier(tuple(boundary.next.items()))
            self.truth = self.truth._replace(copier=copier, hands=self.truth.hands + 1)
            self.note_commits()

    def take_over(self, decide: TakeOver = taken_over, *, is_stopped: bool = True) -> None:
        """The pipeline continues where the other writer is, who was to be stopped before."""
        if not self.is_adopted:
            return
        with contextlib.suppress(SeamlineError):
            state = self.table.state
            self.table.require_single_writer(state.current_snapshot_id)
            boundary = decide(state, self._bounds())
            gone = [f"{PROPERTY_PREFIX}{key}" for key in ("topic-id", "cluster-id")]
            gone += [PROPERTY, f"{PROPERTY_PREFIX}boundary-start"]
            self.table.change_hands({SUMMARY_KEY: encode(boundary)}, {}, gone)
            copier = None if is_stopped else self.truth.copier
            self.truth = self.truth._replace(copier=copier, hands=self.truth.hands + 1)
            self.note_commits()

    def copier_reads(self, records_max: int = 2) -> None:
        """The other writer reads what comes next; if it was stopped, from where the table is."""
        copier = self.truth.copier
        if copier is None and self.is_adopted and self.head.mark.topic_id == self.truth.topic_id:
            copier = Copier(self.head.mark.next)
        if copier is None or copier.rows is not None:
            return
        held, bounds = dict(copier.next), self._bounds()
        reached = {p: min(end, held.get(p, 0) + records_max) for p, end in bounds.end.items()}
        reached = {p: max(held.get(p, 0), end) for p, end in reached.items()}
        ranges = [OffsetRange(p, held.get(p, 0), end) for p, end in reached.items()]
        rows: list[Row] = []
        try:
            for raw in self.log.read(TOPIC, ranges, READ_COMMITTED, Untimed()):
                found = zip(raw.partitions, raw.offsets, raw.values, strict=True)
                rows += [(*row, None) for row in found]
        except SeamlineError:  # what it needs is gone: it ends
            self.truth = self.truth._replace(copier=None)
            return
        ends = tuple(sorted({**held, **reached}.items()))
        self.truth = self.truth._replace(copier=copier._replace(rows=tuple(rows), reached=ends))

    def copier_commits(self) -> None:
        """The other writer commits what it has read, whoever fills the table now."""
        copier = self.truth.copier
        if copier is None or copier.rows is None:
            return
        self.table.append_copied(copier.rows, copied_summary(dict(copier.reached)))
        self.truth = self.truth._replace(copier=Copier(copier.reached))
        self.note_commits(is_copied=True)

    def double(self, partition: int, *, is_marked: bool) -> None:
        """Somebody copies the first record of a partition into a table that we fill."""
        value = self.truth.history[partition][0].value if self.truth.history[partition] else None
        if self.is_adopted or value is None:
            return
        said = copied_summary({partition: 1}) if is_marked else {}
        self.table.append_copied(((partition, 0, value, None),), said)
        self.note_commits(is_copied=True)

    def lags_behind(self) -> bool:
        """Whether the table lacks records that can be read."""
        held = dict(self.head.mark.next)
        return any(held.get(p, 0) < end for p, end in self._bounds().end.items())

    def _bounds(self) -> LogBounds:
        return self.log.bounds([TOPIC], READ_COMMITTED, Untimed())[TOPIC]

    def must_resume(self) -> bool:
        """Whether the table cannot go on before somebody accepts a loss."""
        return self.head.mark.topic_id != self.truth.topic_id or bool(self.lost_now())

    def lost_now(self) -> frozenset[tuple[str, int, int]]:
        """What is in no tier any more, and neither in the table nor known to be lost."""
        held, topic_id = dict(self.head.mark.next), self.truth.topic_id
        if self.head.mark.topic_id != topic_id:
            held = {}
        ((_, topic),) = self.log.save().topics
        return frozenset(
            (topic_id, number, offset)
            for number, partition in enumerate(topic.partitions)
            for offset in range(held.get(number, 0), partition.start)
        )

    def note_commits(
        self,
        foreign: tuple[bytes, ...] = (),
        *,
        is_copied: bool = False,
        lost: frozenset[tuple[str, int, int]] = frozenset(),
    ) -> None:
        """Writes down what new snapshots carry.

        Args:
            foreign: Values of foreign rows they add.
            is_copied: Whether the other writer has made them.
            lost: What they say is lost for the first time.
        """
        commits = self.table.save().commits
        while len(self.truth.pasts) < commits:
            snapshot = self.table.state.snapshots[len(self.truth.pasts) + 1]
            parent = self.past(snapshot.parent_id)
            past = self._past_of(snapshot, parent, is_copied)
            past = past._replace(foreign=(parent.foreign if parent else ()) + foreign)
            held = dict(past.mark.next)
            lost = frozenset(place for place in lost if place[2] < held.get(place[1], 0))
            past = past._replace(lost=past.lost | lost)
            self.truth = self.truth._replace(pasts=(*self.truth.pasts, past))

    def _past_of(self, snapshot: Snapshot, parent: Past | None, is_copied: bool) -> Past:
        text = snapshot.summary.get(SUMMARY_KEY)
        is_doubled = parent is not None and parent.is_doubled
        if text is not None:
            body = json.loads(text)
            is_handed = "handed_to" in body
            is_hands = is_handed or ("taken" in body and body["taken"] == body["base"])
            base = self.past(body.get("base"))
            is_late = not is_hands and base is not None and base.hands < self.truth.hands
            has_doubled = is_late and (self.is_adopted or self._has_doubles(snapshot.snapshot_id))
            mark = _mark(snapshot.snapshot_id, text)
            return Past(
                snapshot.parent_id,
                mark,
                is_copied=None if is_handed else False,
                is_doubled=is_doubled or has_doubled,
                hands=self.truth.hands,
                lost=base.lost if base is not None else frozenset(),
                earlier=self._earlier_of(snapshot.snapshot_id, base, mark),
            )
        assert parent is not None
        if not is_copied:
            added_to = parent.is_copied is not False and snapshot.operation != REWRITE
            return parent._replace(
                parent_id=snapshot.parent_id,
                is_copied=added_to or parent.is_copied,
                hands=self.truth.hands,
            )
        mark = parent.mark
        if self.is_adopted:
            ends = copied_ends(snapshot.summary) or {}
            together = tuple(Offsets(mark.next).raised(ends).items())
            mark = Mark(snapshot.snapshot_id, mark.topic_id, together)
        has_doubled = is_doubled or not self.is_adopted
        return parent._replace(
            parent_id=snapshot.parent_id,
            mark=mark,
            foreign=(),
            is_copied=True,
            is_doubled=has_doubled,
            hands=self.truth.hands,
        )

    def _earlier_of(
        self, snapshot_id: int, base: Past | None, mark: Mark
    ) -> frozenset[tuple[int, int, bytes]]:
        if base is None or base.mark.topic_id == mark.topic_id:
            return base.earlier if base is not None else frozenset()
        return frozenset(
            (partition, offset, value)
            for partition, offset, value, _ in self.table.records(snapshot_id)
            if partition is not None and offset is not None and value is not None
        )

    def _has_doubles(self, snapshot_id: int) -> bool:
        places = [row[:2] for row in self.table.records(snapshot_id) if row[0] is not None]
        return len(set(places)) < len(places)

    @property
    def head(self) -> Past:
        """The table's current snapshot."""
        past = self.past(self.table.state.current_snapshot_id)
        assert past is not None
        return past

    def past(self, snapshot_id: int | None) -> Past | None:
        """What is remembered of a snapshot."""
        return None if snapshot_id is None else self.truth.pasts[snapshot_id - 1]


class Accepting:
    """A table whose commits without rows say that what is lost by then is accepted.

    Args:
        world: The world of the table.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.has_lost_nothing = False
        inner = world.table
        self.load, self.keep = inner.load, inner.keep
        self.has_rows, self.commit_rows = inner.has_rows, inner.commit_rows
        self.evolve = inner.evolve
        self.require_single_writer = inner.require_single_writer

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`: a batch that may not stand, and was read perhaps."""
        world = self._world
        world.table.take_back(snapshot_id, to)
        world.truth = world.truth._replace(upheavals=world.truth.upheavals + 1)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        self._commit(lambda: self._world.table.commit_boundary(batch))

    def commit_without_rows(self, summary: Mapping[str, str]) -> None:
        """A commit of whoever does not ask for the head."""
        self._commit(lambda: self._world.table.commit_without_rows(summary))

    def _commit(self, commit: Callable[[], None]) -> None:
        world = self._world
        world.note_commits()
        lost = world.lost_now()
        commit()
        world.note_commits(lost=lost)
        before = world.past(world.head.parent_id)
        is_same_log = before is not None and world.head.mark.topic_id == before.mark.topic_id
        if before is not None and is_same_log and world.head.lost <= before.lost:
            self.has_lost_nothing = True


def _first(bounds: LogBounds, start: Offsets) -> Boundary:
    """The boundary a new table begins with."""
    return Boundary(
        0, bounds.cluster_id, bounds.topic, bounds.topic_id, bounds.isolation, start, start
    )


class _StillClock(ManualClock):
    """A clock that shows the same time forever."""

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
