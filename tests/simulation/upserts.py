"""Histories of an upsert table, and the mistakes that they must notice.

Records of a few keys are written and deleted, some in transactions, tiered by rivals and by those
whose replies are lost, compacted, trimmed, expired, and read in between, also by tokens of earlier
reads and as of past moments. Compaction takes what has been replaced at any time, also while a
statement runs, and forgets deletes that have been tiered.
A table of captured changes, in one partition, is also truncated, and not compacted.
Statements are read by the product's own path, and tiered by `tier_once`; the table in memory merges
as its commit does: by compare-and-swap with the head. The judge folds every record that was ever
written below the ends of a read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from fakes.faulty import Fault, FaultyCatalog, FaultyLog, FaultyTierTable
from fakes.memory import ManualClock, MemoryCatalog, MemoryLog, MemoryTable, Row, Untimed
from support import seams

from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engines import EngineScan
from seamline.connectors.protocols.hot_logs import HotLog, TellsCompaction
from seamline.errors import (
    BOUNDARY_MISSING,
    COMMIT_CONFLICT,
    LOG_TRIMMED,
    SNAPSHOT_GONE,
    TABLE_NOT_FOUND,
    TOKEN_EXPIRED,
    SeamlineError,
)
from seamline.gateway.tiering.step import tier_once
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, cold_side, encode
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import TableSchema
from seamline.seam.tiering import Batch
from seamline.seam.upserts import over
from seamline.sql import columns
from seamline.sql.predicates import And, Comparison, IsNull, Or, Predicate
from seamline.sql.types import VARCHAR, Field
from simulation.reading import Answer, RowsEngine, Sources, at_moment, read
from simulation.world import CATALOG, CLUSTER

TOPIC, KEYS, PARTITIONS = "users", 4, 2
NEVER = Untimed()
ALL = f"SELECT k, v FROM {TOPIC}"
BINDING = TopicBinding(
    CLUSTER, TOPIC, mode="upsert", primary_key=("k",), key="k", key_partitions=PARTITIONS
)
CAPTURED = TopicBinding(
    CLUSTER,
    TOPIC,
    mode="changelog",
    envelope="debezium",
    primary_key=("k",),
    key_format="json",
    key_partitions=1,
)
TRUNCATE = b""
"""The key of a truncate, which has none; a record of a row has one."""
Values = dict[bytes, bytes]
Event = tuple[str, int, int]
Meanwhile = tuple[tuple[int, Event], ...]
"""What others do before which call to the outside, counted from 0."""


class WrongReadError(AssertionError):
    """A read returned what it must not."""


@dataclasses.dataclass(frozen=True)
class Ways:
    """How the table is read and written; a mutant has one of them wrong.

    Attributes:
        newest: Of the records of a key, in the order of their offsets, the one that counts.
        hides: Whether a key of the tail hides the snapshot's row.
        deletes: Whether a tombstone removes its key.
        merges: Whether a batch replaces rows, instead of adding some.
        filters_tail: Whether filters on any column leave records of the tail out.
        stands_in: Whether a later snapshot may serve an earlier token.
        tells_compaction: Whether the log says that it is compacted.
        forgets_untiered: Whether deletes are forgotten before they are tiered, which
            `delete.retention.ms` is there to prevent.
        lag_ms: The topic's `min.compaction.lag.ms`.
        sees_gaps: Whether it is noticed where a tail has no records.
        asks_again: Whether ends are asked for again after a tail was read.
        is_captured: Whether the records are changes of a database, which may be truncated.
        truncates_files: Whether a truncate of the tail removes rows of the snapshot.
        truncates_batches: Whether one of a batch removes rows of the table.
        filters_truncates: Whether filters on a key leave truncates out.
    """

    newest: Callable[[list[Row]], Row] = lambda rows: rows[-1]
    hides: bool = True
    deletes: bool = True
    merges: bool = True
    filters_tail: bool = False
    stands_in: bool = False
    tells_compaction: bool = True
    forgets_untiered: bool = False
    lag_ms: int = 0
    sees_gaps: bool = True
    asks_again: bool = True
    is_captured: bool = False
    truncates_files: bool = True
    truncates_batches: bool = True
    filters_truncates: bool = False

    @property
    def binding(self) -> TopicBinding:
        """What binds the table to its topic."""
        return CAPTURED if self.is_captured else BINDING


MUTANTS: Mapping[str, Ways] = {
    "the oldest record of a key counts": Ways(newest=lambda rows: rows[0]),
    "rows of the snapshot are not hidden": Ways(hides=False),
    "tombstones are rows": Ways(deletes=False),
    "a batch adds its rows": Ways(merges=False),
    "filters on any column reach the tail": Ways(filters_tail=True),
    "a later snapshot stands in for an earlier one": Ways(stands_in=True),
    "a compacted log is taken for a whole one": Ways(tells_compaction=False),
    "compaction takes deletes that are not tiered": Ways(forgets_untiered=True),
    "a truncate leaves the snapshot": Ways(is_captured=True, truncates_files=False),
    "a truncate leaves what is tiered": Ways(is_captured=True, truncates_batches=False),
    "filters on a key leave truncates out": Ways(is_captured=True, filters_truncates=True),
}


HASTY: Mapping[str, Ways] = {
    "gaps of a tail are not seen": Ways(sees_gaps=False),
    "ends are not asked for again": Ways(asks_again=False),
    "a compacted log is taken for a whole one": Ways(tells_compaction=False),
}
"""Mistakes that show only where something happens between the steps of a read."""


class UpsertTable(MemoryTable):
    """A table in memory that merges. A row's value is `key=value`; that of a delete, the key."""

    def __init__(self, ways: Ways, clock: ManualClock, log: MemoryLog) -> None:
        own = (Field("k", VARCHAR), Field("v", VARCHAR))
        schema = TableSchema(0, (*own, *columns.METADATA_FIELDS))
        name = (CATALOG, "default", TOPIC)
        super().__init__(name, schema, ways.binding.to_properties(), clock, log)
        self.ways = ways

    def _read_rows(self, batch: Batch, deadline: Deadline) -> tuple[Row, ...]:
        isolation = batch.boundary.isolation
        read = self._log.read(TOPIC, batch.ranges, isolation, deadline)
        return tuple(
            (partition, offset, said(key, value), batch.batch_id)
            for raw in read
            for partition, offset, key, value in zip(
                raw.partitions, raw.offsets, raw.keys, raw.values, strict=True
            )
        )

    def write_rows(self, batch: Batch, rows: object) -> None:
        """The merge, on a branch that becomes `main` where that is what it started from."""
        assert isinstance(rows, tuple)
        if self.state.current_snapshot_id != batch.snapshot_id:
            raise SeamlineError(COMMIT_CONFLICT, "the head is another snapshot by now")
        kept = list(self.records(self.state.current_snapshot_id))
        found = newest(rows, self.ways)
        if TRUNCATE in found and self.ways.truncates_batches:
            kept = []
        if self.ways.merges:
            kept = [row for row in kept if key_of(row) not in found]
        kept += [row for row in found.values() if is_row(row) or not self.ways.deletes]
        self._commit("overwrite", (), tuple(kept), {SUMMARY_KEY: encode(batch.boundary)})


def said(key: bytes | None, value: bytes | None) -> bytes:
    """A record as a row's value."""
    if key is None:
        return TRUNCATE
    return key if value is None else key + b"=" + value


def key_of(row: Row) -> bytes:
    """The key of a row."""
    assert row[2] is not None
    return row[2].partition(b"=")[0]


def is_row(row: Row) -> bool:
    """Whether it is not a delete."""
    return row[2] is not None and b"=" in row[2]


def newest(rows: tuple[Row, ...], ways: Ways) -> dict[bytes, Row]:
    """The record that counts, by key; deletes and the last truncate included."""
    by_key: dict[bytes, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[1] or 0):
        if key_of(row) == TRUNCATE:
            by_key.clear()
        by_key.setdefault(key_of(row), []).append(row)
    return {key: ways.newest(found) for key, found in by_key.items()}


class UpsertHistory:
    """A topic and its upsert table, to which things happen.

    Args:
        ways: How the table is read and written.
    """

    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self.log = MemoryLog(ManualClock())
        self.partitions = 1 if ways.is_captured else PARTITIONS
        self.log.create_topic(TOPIC, self.partitions)
        self.log.compaction_lag_ms = ways.lag_ms
        self.written: list[Row] = []
        self.tokens: list[tuple[Seam, Values]] = []
        self._begun: Offsets | None = None
        self.table = UpsertTable(ways, self.log.clock, self.log)
        bounds = self._bounds()
        first = Boundary(
            *(0, bounds.cluster_id, TOPIC, bounds.topic_id, READ_COMMITTED),
            start=bounds.start,
            next=bounds.start,
        )
        self.table.create({SUMMARY_KEY: encode(first)})
        self._catalog = MemoryCatalog(CATALOG)
        self._catalog.add(self.table)

    def happen(self, event: Event) -> None:
        """One event; an impossible one is skipped."""
        kind, first, second = event
        match kind:
            case "put":
                self._write(first % KEYS, str(second).encode())
            case "delete":
                self._write(first % KEYS, None)
            case "replace":
                self._write(first % KEYS, str(second).encode())
                self._compact(0, 0)
            case "truncate" if self.ways.is_captured:
                offset = self.log.produce(TOPIC, 0, b"{}")
                self.written.append((0, offset, TRUNCATE, None))
            case "transact":
                self._write(first % KEYS, str(second).encode(), self.log.begin())
            case "tier":
                self._tier(self.table, 1 + first % 5)
            case "race":
                self._tier(_Overtaken(self.table, 1 + second % 5), 1 + first % 5)
            case "lost":
                self._tier(_LostReply(self.table), 1 + first % 5)
            case "rewrite":
                self.table.compact()
            case "compact":
                self._compact(first, second)
            case "trim":
                partition = first % self.partitions
                self.log.delete_records(TOPIC, partition, self._boundary().next[partition])
            case "expire":
                marked, head = self._boundary().snapshot_id, self.table.state.current_snapshot_id
                line = [s.snapshot_id for s in self.table.state.ancestors(head)]
                self.table.expire(line[: line.index(marked) + 1])
            case "read":
                self._read_now(first % KEYS, second)
            case "travel":
                self._read_then(first)
            case "repeat" if self.tokens:
                self._read_again(*self.tokens[first % len(self.tokens)])

    def read_while(self, meanwhile: Meanwhile) -> int:
        """A read to which things happen between its steps.

        Returns:
            How many calls to the outside it made.

        Raises:
            SeamlineError: READ_CONFLICT when too much has happened.
        """
        with self._at_work() as begun:
            steps = _Steps(self, meanwhile)
            catalog = FaultyCatalog(self._catalog, steps)
            answer = self._ask(
                ALL, sources=Sources(catalog, cast("HotLog", _Stepwise(self, steps)))
            )
        if any(end > answer.seam.end[partition] for partition, end in begun.items()):
            raise WrongReadError(f"a read ends at {answer.seam.end}, it began at {begun}")
        self._judge(answer, self._fold(answer.seam.end), "a read")
        return steps.count

    def tier_while(self, meanwhile: Meanwhile) -> int:
        """A step of tiering to which things happen between its own; the same."""
        with self._at_work():
            steps = _Steps(self, meanwhile)
            self._tier(FaultyTierTable(cast("Any", self.table), steps), 4)
        return steps.count

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[Offsets]:
        self._begun = self._bounds().end
        yield self._begun
        self._begun = None

    # --- Writing -------------------------------------------------------------------------------

    def _write(self, number: int, value: bytes | None, transaction: int | None = None) -> None:
        key, partition = f"k{number}".encode(), number % self.partitions
        offset = self.log.produce(TOPIC, partition, value, key=key, transaction=transaction)
        self.written.append((partition, offset, said(key, value), None))
        if transaction is not None:
            self.log.end_transaction(TOPIC, transaction, commit=True)

    def _compact(self, number: int, age: int) -> None:
        if self.ways.is_captured:
            return
        held = self._boundary().next
        ends = self._bounds().end
        before = {p: end - (number + p) % 3 for p, end in ends.items()} if age else {}
        forgotten = dict.fromkeys(held, 2**60) if self.ways.forgets_untiered else held
        self.log.compact(TOPIC, before, forgotten if number % 2 else {})

    def _tier(self, table: object, records_max: int) -> None:
        try:
            tier_once(table, self.log, NEVER, records_max=records_max)  # type: ignore[arg-type]
        except SeamlineError as error:
            overtaken = (LOG_TRIMMED,) if self._begun is not None else ()
            if error.code not in (COMMIT_CONFLICT, SNAPSHOT_GONE, *overtaken):
                raise

    # --- Reading -------------------------------------------------------------------------------

    def _bounds(self) -> LogBounds:
        return self.log.bounds([TOPIC], READ_COMMITTED, NEVER)[TOPIC]

    def _boundary(self) -> Boundary:
        state = self.table.state
        return cold_side(state, state.current_snapshot_id).boundary

    def _ask(
        self,
        statement: str,
        asked: Predicate | None = None,
        sources: Sources | None = None,
        **how: Any,
    ) -> Answer:
        self.log.clock.advance()
        log = self.log if self.ways.tells_compaction else _NeverCompacted(self.log)
        sources = sources or Sources(self._catalog, cast("HotLog", log))
        how["sees_gaps"] = self.ways.sees_gaps
        engine = _NewestRows(self.table, self.ways, asked)
        now_ms = self.log.clock.now_ms
        return read(
            sources,
            self.table.open,
            statement,
            engine=engine,
            value_of=said,
            now_ms=now_ms,
            **how,
        )

    def _read_now(self, number: int, value: int) -> None:
        answer = self._ask(ALL)
        wanted = self._fold(answer.seam.end)
        bounds = self._bounds()
        if answer.seam.end != bounds.end:
            raise WrongReadError(f"a read ends at {answer.seam.end}, the log at {bounds.end}")
        self._judge(answer, wanted, "a read")
        asked = And((Comparison("k", "=", f"k{number}"), Comparison("v", "=", str(value))))
        filtered = {k: v for k, v in wanted.items() if matches(asked, k, v)}
        found = self._ask(f"{ALL} WHERE k = 'k{number}' AND v = '{value}'", asked)
        self._judge(found, filtered, f"a read of {asked}", asked)
        self.tokens.append((answer.seam, wanted))

    def _read_then(self, number: int) -> None:
        """A past moment; which it may be refused with is what it needs that is not kept."""
        first_ms = self.table.state.snapshot_log[0][0]
        moment_ms = first_ms + number % (self.log.clock.now_ms - first_ms + 1)
        try:
            answer = self._ask(at_moment(moment_ms, ALL))
        except SeamlineError as error:
            if error.code not in (LOG_TRIMMED, TABLE_NOT_FOUND, BOUNDARY_MISSING):
                raise
            return
        self._judge(answer, self._fold(answer.seam.end), f"the moment {moment_ms}")

    def _read_again(self, token: Seam, before: Values) -> None:
        try:
            answer = self._ask(ALL, token=(token,))
        except SeamlineError as error:
            if error.code is not TOKEN_EXPIRED:
                raise
            if not self.ways.stands_in:
                return
            own = seams.replace(token, snapshot_id=self.table.state.current_snapshot_id)
            boundary = self._boundary().next
            held = {p: min(end, boundary[p]) for p, end in token.end.items()}
            own = seams.replace(own, boundary=Offsets(held), cold_end=token.end)
            answer = self._ask(ALL, token=(own,))
        self._judge(answer, before, "a token")

    def _fold(self, ends: Offsets) -> Values:
        found: Values = {}
        for row in self.written:
            if (row[1] or 0) < ends[row[0] or 0]:
                key, value = parts(row)
                if key == TRUNCATE:
                    found.clear()
                found.pop(key, None)
                if value is not None:
                    found[key] = value
        return found

    def _judge(
        self, answer: Answer, wanted: Values, what: str, asked: Predicate | None = None
    ) -> None:
        """The engine filters afterwards, as every engine does."""
        rows = [(k, v) for k, v in map(parts, answer.rows) if asked is None or matches(asked, k, v)]
        found = sorted((key, value or b"a delete") for key, value in rows)
        if found != sorted(wanted.items()):
            raise WrongReadError(f"{what} gave {found} instead of {sorted(wanted.items())}")


class _NewestRows(RowsEngine):
    """An engine whose result is the newest rows of its input.

    Args:
        table: Gives the rows of files.
        ways: What it does with them.
        asked: The statement's whole filter.
    """

    def __init__(self, table: UpsertTable, ways: Ways, asked: Predicate | None) -> None:
        super().__init__(table.open)
        self._ways = ways
        self._asked = asked

    def rows(self, scan: EngineScan, tails: Mapping[str, Any]) -> list[Row]:
        """See `RowsEngine.rows`."""
        ways = self._ways
        assert scan.newest is not None
        tail: tuple[Row, ...] = tuple(tails[scan.tail]) if scan.tail is not None else ()
        of_key = self._asked if ways.filters_tail else scan.tail_predicate
        if ways.filters_truncates:
            of_key = over(self._asked, scan.newest.key_names)
        found = newest(
            tuple(row for row in tail if of_key is None or matches(of_key, *parts(row))), ways
        )
        cold = self.cold_rows(scan)
        if TRUNCATE in found and ways.truncates_files:
            cold = []
        if ways.hides:
            cold = [row for row in cold if key_of(row) not in found]
        return [*cold, *(row for row in found.values() if is_row(row) or not ways.deletes)]


class _Steps:
    """Lets others act before a call; no call fails. See `fakes.faulty.FaultPlan`."""

    def __init__(self, history: UpsertHistory, meanwhile: Meanwhile) -> None:
        self._history = history
        self._meanwhile = meanwhile
        self.count = 0

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        now, self.count = self.count, self.count + 1
        for number, event in self._meanwhile:
            if number == now:
                self._history.happen(event)
        return Fault.NONE

    def later(self, effect: Callable[[], object]) -> None:
        """See `FaultPlan.later`; nothing comes late."""
        raise AssertionError(effect)


class _Stepwise(FaultyLog):
    """A log to which things happen between calls, and which says whether it is compacted."""

    def __init__(self, history: UpsertHistory, steps: _Steps) -> None:
        super().__init__(history.log, steps)
        log, ways = history.log, history.ways
        self._told: TellsCompaction = log if ways.tells_compaction else _NeverCompacted(log)
        self._asks_again = ways.asks_again
        self._first: dict[str, LogBounds] = {}

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        found = super().bounds(topics, isolation, deadline)
        self._first = self._first or found
        return found if self._asks_again else dict(self._first)

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """See `TellsCompaction.is_compacted`."""
        return self._told.is_compacted(topic, deadline)

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """See `TellsCompaction.untouched_from`."""
        self._plan.at("untouched from")
        return self._told.untouched_from(topic, topic_id, ends, deadline)


class _NeverCompacted:
    """A log that reports no topic as compacted."""

    def __init__(self, inner: MemoryLog) -> None:
        self._inner = inner

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """See `TellsCompaction.is_compacted`."""
        return False

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """See `TellsCompaction.untouched_from`."""
        return Offsets(dict.fromkeys(ends, 0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Overtaken:
    """A tierer that another overtakes just before it commits."""

    def __init__(self, table: UpsertTable, records_max: int) -> None:
        self._table = table
        self._records_max = records_max

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        tier_once(self._table, self._table._log, NEVER, records_max=self._records_max)
        self._table.commit_rows(batch)


class _LostReply:
    """A tierer whose commit lands but seems to have failed."""

    def __init__(self, table: UpsertTable) -> None:
        self._table = table

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self._table.commit_rows(batch)
        raise SeamlineError(SNAPSHOT_GONE, "no reply")


def parts(row: Row) -> tuple[bytes, bytes | None]:
    """Key and value of a row; None for a delete."""
    assert row[2] is not None
    key, mark, value = row[2].partition(b"=")
    return key, value if mark else None


def matches(predicate: Predicate, key: bytes, value: bytes | None) -> bool:
    """Whether a row fulfils a predicate of equalities, or has no key if it asks for that."""
    match predicate:
        case Or(any_of):
            return any(matches(part, key, value) for part in any_of)
        case IsNull("k", negated=False):
            return key == TRUNCATE
        case And(both):
            return all(matches(part, key, value) for part in both)
        case Comparison("k", "=", str(wanted)):
            return key == wanted.encode()
        case Comparison("v", "=", str(wanted)):
            return value == wanted.encode()
    raise AssertionError(predicate)


# --- Histories -----------------------------------------------------------------------------------

_KINDS = (
    *("put",) * 6,
    *("delete",) * 3,
    *("transact", "truncate"),
    *("tier",) * 3,
    *("race", "lost", "rewrite", "compact", "trim", "expire"),
    *("read",) * 4,
    *("repeat",) * 2,
    "travel",
)


def draw(seed: int, length: int = 24) -> list[Event]:
    """A random history."""
    dice = random.Random(seed)
    return [(dice.choice(_KINDS), dice.randrange(60), dice.randrange(3)) for _ in range(length)]


def every(kinds: tuple[Event, ...], length: int) -> Iterator[tuple[Event, ...]]:
    """Every sequence of a few events, with a read at its end."""
    if length == 0:
        yield ((("read", 0, 0)),)
        return
    for rest in every(kinds, length - 1):
        for event in kinds:
            yield (event, *rest)


def interleaved(
    before: tuple[Event, ...], what: str, others: tuple[Event, ...], count: int, ways: Ways = Ways()
) -> Iterator[str]:
    """What goes wrong where that many of `others` happen at every step of a read or of tiering.

    Args:
        before: What has happened before.
        what: `read_while` or `tier_while`.
        others: What may happen meanwhile.
        count: How many of them do.
        ways: How the table is read and written.
    """

    def run(meanwhile: Meanwhile) -> int:
        world = UpsertHistory(ways)
        for event in before:
            world.happen(event)
        calls = int(getattr(world, what)(meanwhile))
        for event in (("read", 0, 0), ("tier", 4, 0), ("read", 0, 0)):
            world.happen(event)
        return calls

    for places in itertools.combinations_with_replacement(range(run(())), count):
        for events in itertools.product(others, repeat=count):
            meanwhile = tuple(zip(places, events, strict=True))
            try:
                run(meanwhile)
            except (WrongReadError, SeamlineError) as error:
                yield f"{before}, {what} {meanwhile}: {error}"


def failure(history: object, ways: Ways = Ways()) -> str | None:
    """What goes wrong in a history; None when nothing does."""
    world = UpsertHistory(ways)
    assert isinstance(history, list | tuple)
    for event in history:
        try:
            world.happen(event)
        except (WrongReadError, SeamlineError) as error:
            return f"{event}: {error}"
    return None
