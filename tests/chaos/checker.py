"""The checker: pure functions from a recorded history to the violations in it.

A read is right when it holds, for every partition, exactly the records of the log below the end
that its receipt names, as the table's policy shows them, and when that end is not behind anything
that was known to be readable before the read was sent; or when it answers one error that its table
may answer. A past moment is judged by the times of the records, a stream's batch by its two ends,
and what is read again by what it was the first time, whoever reads it. Two oracles tell Kafka's
faults from ours: what producers were acknowledged, and what an independent consumer of committed
records saw. What the log itself has lost or duplicated is counted as Kafka's.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import itertools
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaos.history import (
    BAD_ID,
    NO_ID,
    NO_PARTITION,
    Acknowledged,
    Column,
    EarlierLog,
    Event,
    ForeignRow,
    Lagged,
    Logged,
    Read,
    RegistryDisturbed,
    Rows,
    SchemaRegistered,
    Sent,
    TableClosed,
    TableOpened,
    TableSpoiled,
    TransactionEnded,
    price_of,
    unpack,
    unpack_cells,
)
from seamline.errors import ERRORS

OF_SCHEMAS = frozenset({"SCHEMA_NOT_EVOLVED"})
OF_REGISTRY = frozenset({"SCHEMA_REGISTRY_UNAVAILABLE"})
PASSING = (
    frozenset(code.name for code in ERRORS.values() if code.retriable)
    | {"DEADLINE_EXCEEDED", "CANCELED", "STATEMENT_NOT_FOUND"}
) - (OF_SCHEMAS | OF_REGISTRY)
"""Errors that any read may end with while parts of the system are down: when asked again, it
answers."""

SPARK_PASSING = frozenset({"SPARK_FAILED"})
PAST_PASSING = frozenset({"TABLE_NOT_FOUND", "LOG_TRIMMED"})
"""For a moment or a snapshot that is no longer kept."""

EXPIRED_FILE = "COLD_FILE_MISSING"
"""For readers that are given names of files, which may be expired before they are read."""

CLOCK_S = 1.0
"""How far records may be behind the clock that a past moment is named by."""

TIMESTAMP_MS_MAX = 253_402_300_799_999
"""A record's time after this, or before 1970, is null."""

_POLICIES = ("fail", "skip", "null")
_EMPTIES_NULLS = frozenset({"pyiceberg"})
"""Readers that return null lists and maps of rows as empty ones; see docs/readers.md."""
TOKEN_PASSING = frozenset({"TOKEN_EXPIRED"})


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen.

    Attributes:
        kind: Which rule it breaks.
        table: Where.
        op: Number of the read; 0 when it belongs to none.
        detail: What was seen and what should have been.
    """

    kind: str
    table: str
    op: int
    detail: str


@dataclasses.dataclass(slots=True)
class Verdict:
    """What the checker found.

    Attributes:
        violations: Ours.
        kafka_faults: What the log itself did wrong.
        reads: Reads by outcome: `ok` or the name of the error.
        checked_rows: Rows of the answered reads.
        repeats: Reads repeated by token that were compared with their first.
        engine_repeats: Those on another engine than the first.
        kinds: Answered reads by what they were.
    """

    violations: list[Violation] = dataclasses.field(default_factory=list)
    kafka_faults: list[Violation] = dataclasses.field(default_factory=list)
    reads: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    checked_rows: int = 0
    repeats: int = 0
    engine_repeats: int = 0
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass(slots=True)
class Life:
    """One table from its creation to its end.

    Attributes:
        opened: How it began.
        spoilings: What was done to it, each time.
        closed: How it ended.
    """

    opened: TableOpened
    spoilings: list[TableSpoiled] = dataclasses.field(default_factory=list)
    closed: TableClosed | None = None

    def overlaps(self, read: Read) -> bool:
        """Whether it may have been this table that a read met."""
        until = self.closed.ended if self.closed else float("inf")
        return self.opened.invoked <= read.ended and read.invoked <= until

    def spoiled_before(self, moment: float, read: Read) -> TableSpoiled | None:
        """What a read that knows the state at that time must fail for."""
        reads_tail = read.is_present and read.filter.is_empty
        of_read = (s for s in self.spoilings if s.must_fail and (reads_tail or not s.is_in_tail))
        return next((spoiled for spoiled in of_read if spoiled.ended < moment), None)


class Log:
    """What the independent consumer saw of one topic's incarnation."""

    def __init__(self) -> None:
        self._records: dict[int, dict[int, tuple[int, str]]] = {}
        self._times: dict[int, dict[int, int]] = collections.defaultdict(dict)
        self._headers: dict[int, dict[int, int]] = collections.defaultdict(dict)
        self._bodies: dict[int, dict[int, Any]] = collections.defaultdict(dict)
        self._columns: dict[tuple[int, str], Column] = {}
        self._in_order: dict[int, list[tuple[int, tuple[int, str]]]] = {}
        self._replaced: dict[int, frozenset[int]] = {}

    def add(self, seen: Logged) -> Iterator[str]:
        """Takes records in; returns what contradicts earlier ones."""
        records = self._records.setdefault(seen.partition, {})
        for policy in _POLICIES:
            self._columns.pop((seen.partition, policy), None)
        self._in_order.pop(seen.partition, None)
        for offset, id_, key in seen.records:
            known = records.setdefault(offset, (id_, key))
            if known[0] != id_:
                yield f"partition {seen.partition} offset {offset}: {known[0]}, later {id_}"
        offsets = [offset for offset, _, _ in seen.records]
        self._times[seen.partition].update(zip(offsets, seen.timestamps_ms, strict=False))
        self._headers[seen.partition].update(zip(offsets, seen.headers, strict=False))
        self._bodies[seen.partition].update(zip(offsets, seen.bodies, strict=False))

    @property
    def partitions(self) -> Iterable[int]:
        """Its partitions that hold a record."""
        return self._records.keys()

    def column(self, partition: int, policy: str) -> Column:
        """The rows of its records in order, under a policy for bad ones."""
        if (partition, policy) not in self._columns:
            rows = [
                (offset, NO_ID if id_ == BAD_ID and policy == "null" else id_)
                for offset, (id_, _) in sorted(self._records.get(partition, {}).items())
                if id_ != BAD_ID or policy != "skip"
            ]
            self._columns[partition, policy] = (
                array("q", (offset for offset, _ in rows)),
                array("q", (id_ for _, id_ in rows)),
            )
        return self._columns[partition, policy]

    def newest(self, partition: int, ends: range, key: str) -> Column:
        """The newest record of each key, of those in a range of offsets; a null deletes its key.

        Bad records, and those that describe no row, change nothing.

        Args:
            partition: The partition.
            ends: The range.
            key: The only key that is asked for; all where it is empty.
        """
        if partition not in self._in_order:
            self._in_order[partition] = sorted(self._records.get(partition, {}).items())
        found: dict[str, tuple[int, int]] = {}
        for offset, (id_, its_key) in self._in_order[partition]:
            if id_ == BAD_ID or offset not in ends or (key and its_key != key):
                continue
            found[its_key] = (offset, id_)
        rows = sorted(row for row in found.values() if row[1] != NO_ID)
        return array("q", (offset for offset, _ in rows)), array("q", (id_ for _, id_ in rows))

    def id_at(self, partition: int, offset: int) -> int | None:
        """The id of a record; None when there is none."""
        found = self._records.get(partition, {}).get(offset)
        return None if found is None else found[0]

    def headers_at(self, partition: int, offset: int) -> int:
        """How many headers a record has."""
        return self._headers[partition].get(offset, 0)

    def body_at(self, partition: int, offset: int) -> Any:
        """A record's contents, by its writer's names; None for a missing one."""
        return self._bodies[partition].get(offset)

    def time_at(self, partition: int, offset: int) -> int | None:
        """A record's time as the table shows it; None for one that it cannot show."""
        found = self._times[partition].get(offset, -1)
        return found if 0 <= found <= TIMESTAMP_MS_MAX else None

    def first_later_than(self, partition: int, moment_ms: int) -> int | None:
        """Offset of the first record after a moment; None when there is none."""
        times = self._times[partition]
        return min((o for o, at_ms in times.items() if at_ms > moment_ms), default=None)

    def replaced(self, partition: int) -> frozenset[int]:
        """Offsets that compaction may drop: a later record has the same key, or it is a null."""
        if partition not in self._replaced:
            latest: set[str] = set()
            dropped = []
            for offset, (id_, key) in sorted(
                self._records.get(partition, {}).items(), reverse=True
            ):
                if key in latest or id_ == NO_ID:
                    dropped.append(offset)
                latest.add(key)
            self._replaced[partition] = frozenset(dropped)
        return self._replaced[partition]


class Names:
    """The names that fields have had; none of two fields."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def learn(self, schema: Any) -> None:
        """Adds an Avro schema, or a part of one: aliases are in the order they were given."""
        match schema:
            case list():
                for branch in schema:
                    self.learn(branch)
            case dict():
                for member in schema.get("fields", ()):
                    self._first[member["name"]] = (*member.get("aliases", ()), member["name"])[0]
                    self.learn(member["type"])
                for inside in ("type", "items", "values"):
                    self.learn(schema.get(inside))

    def by_first(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Fields by the first name that each had."""
        return {self._first.get(name, name): value for name, value in row.items()}

    def is_field(self, name: str) -> bool:
        """Whether a name is a field's, and no key of a map."""
        return name in self._first

    def difference(self, got: Any, said: Any, *, whole: bool) -> str:
        """Where a row differs from its record; empty where it does not.

        Args:
            got: What is in the table, by its names.
            said: What the record says, by its writer's.
            whole: Whether every field must have its column.
        """
        match got, said:
            case dict(), dict():
                mine, its = self.by_first(got), self.by_first(said)
                lost = {
                    name for name in its.keys() - mine.keys() if whole or not self.is_field(name)
                }
                if lost:
                    return f"no column for {sorted(lost)}"
                inside = ((name, mine[name], its.get(name)) for name in mine)
            case list(), list() if len(got) == len(said):
                inside = ((str(i), *pair) for i, pair in enumerate(zip(got, said, strict=True)))
            case _:
                return "" if got == said else f"{got!r} for {said!r}"
        for name, one, other in inside:
            if found := self.difference(one, other, whole=whole):
                return f"{name}: {found}"
        return ""


class Facts:
    """Everything in a history that reads are judged by."""

    def __init__(self) -> None:
        self.lives: dict[str, list[Life]] = {}
        self.logs: dict[str, Log] = collections.defaultdict(Log)
        self.sent: dict[int, Sent] = {}
        self.acknowledged: dict[int, Acknowledged] = {}
        self.outcomes: dict[str, str] = {}
        self.foreign: dict[str, set[int]] = collections.defaultdict(set)
        self.topic_ids: dict[str, set[str]] = collections.defaultdict(set)
        self.contradictions: list[str] = []
        self.visible: list[tuple[float, str, int, int]] = []
        self.lags: list[Lagged] = []
        self.disturbed: list[RegistryDisturbed] = []
        self.names = Names()

    def take(self, event: Event) -> None:
        """Takes an event in."""
        match event:
            case TableOpened():
                self.lives.setdefault(event.table, []).append(Life(event))
            case TableSpoiled():
                self.lives[event.table][-1].spoilings.append(event)
            case TableClosed():
                self.lives[event.table][-1].closed = event
            case Sent():
                self.sent[event.id] = event
            case Acknowledged():
                self.acknowledged[event.id] = event
            case TransactionEnded():
                self.outcomes[event.transaction] = event.outcome
            case Lagged():
                self.lags.append(event)
            case RegistryDisturbed():
                self.disturbed.append(event)
            case SchemaRegistered():
                self.names.learn(json.loads(event.text))
            case ForeignRow():
                self.foreign[event.table].add(event.id)
            case Logged():
                self.contradictions.extend(self.logs[event.topic_id].add(event))
                self.topic_ids[event.topic].add(event.topic_id)
                end = event.records[-1][0] + 1
                self.visible.append((event.at, event.topic_id, event.partition, end))
            case Read() if not event.error and event.is_present:
                for partition, end in event.end.items():
                    self.visible.append((event.ended, event.topic_id, partition, end))
            case _:
                pass

    def is_compacted(self, topic_id: str) -> bool:
        """Whether Kafka may drop records of a topic that later ones replace."""
        lives = itertools.chain.from_iterable(self.lives.values())
        return any(life.opened.compacted and life.opened.topic_id == topic_id for life in lives)

    def is_disturbed(self, read: Read) -> bool:
        """Whether the registry was unavailable while a read ran."""
        return any(d.invoked < read.ended and read.invoked < d.ended for d in self.disturbed)

    def known_from(self, read: Read) -> float:
        """The moment up to which a read must know everything: when it was sent, or a lag began."""
        lagging = (
            g.invoked for g in self.lags if g.invoked < read.ended and read.invoked < g.ended
        )
        return min((read.invoked, *lagging))

    def is_aborted(self, id_: int) -> bool:
        """Whether a record belongs to a transaction that was aborted."""
        sent = self.sent.get(id_)
        return sent is not None and self.outcomes.get(sent.transaction) == "abort"


Floor = Mapping[tuple[str, int], int]
"""(topic id, partition) to an end that was readable before."""


def check(events: Callable[[], Iterable[Event]]) -> Verdict:
    """Judges a history.

    Args:
        events: Returns the events, each time it is called; they are read twice, so that the
            rows of no more than a few reads are held at once.
    """
    facts = Facts()
    for event in events():
        facts.take(event)
    verdict = Verdict()
    verdict.kafka_faults.extend(_kafka_faults(facts))
    first_reads: dict[int, Read] = {}
    sessions: dict[tuple[str, str], Session] = collections.defaultdict(Session)
    reads = (event for event in events() if isinstance(event, Read))
    for read, floor in _with_floors(_by_invocation(reads), facts):
        verdict.reads[read.error or "ok"] += 1
        if read.error:
            verdict.violations.extend(check_error(read, facts))
            continue
        rows = unpack(read.rows)
        verdict.checked_rows += sum(len(offsets) for offsets, _ in rows.values())
        verdict.kinds[kind_of(read)] += 1
        verdict.violations.extend(check_answer(read, rows, facts))
        if read.is_present:
            verdict.violations.extend(check_floor(read, floor))
        if read.moment is not None:
            verdict.violations.extend(check_moment(read, floor, facts))
        elif read.token_of is None and read.version is None:
            verdict.violations.extend(sessions[read.session, read.table].check(read))
        if read.token_of is None:
            first_reads[read.op] = read
        elif (first := first_reads.get(read.token_of)) is not None:
            verdict.repeats += 1
            verdict.engine_repeats += first.engine != read.engine
            verdict.violations.extend(check_repeat(read, first, facts))
    return verdict


def kind_of(read: Read) -> str:
    """What a read was, in the terms of a run's report."""
    if read.way != "sql":
        what = f"{read.way}, {read.form}"
    elif read.moment is not None:
        what = "past moment"
    elif read.version is not None:
        what = "snapshot by its id"
    elif read.token_of is not None:
        what = "repeated by token"
    else:
        what = f"{read.freshness}, {read.form}"
    price = ", by price" if read.filter.price_sign else ""
    return f"{what}{price}, {read.engine}"


def _by_invocation(reads: Iterable[Read]) -> Iterator[Read]:
    """Reads in the order they were sent; they are recorded in the order they ended.

    A read is held back until none that was sent earlier can still follow: statements are bounded
    by their deadlines.
    """
    held: list[tuple[float, int, Read]] = []
    for read in reads:
        heapq.heappush(held, (read.invoked, read.op, read))
        while held and held[0][0] < read.ended - _STATEMENT_S_MAX:
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]


_STATEMENT_S_MAX = 200.0


def _with_floors(reads: Iterable[Read], facts: Facts) -> Iterator[tuple[Read, Floor]]:
    """Each read with what was known to be readable before it was sent, or before a lag."""
    visible = collections.deque(sorted(facts.visible))
    lags = collections.deque(sorted(facts.lags, key=lambda lag: lag.invoked))
    floor: dict[tuple[str, int], int] = {}
    before: dict[float, Floor] = {}

    def advance(moment: float) -> None:
        while visible and visible[0][0] < moment:
            _, topic_id, partition, end = visible.popleft()
            floor[topic_id, partition] = max(end, floor.get((topic_id, partition), 0))

    for read in reads:
        while lags and lags[0].invoked < read.invoked:
            began = lags.popleft().invoked
            advance(began)
            before[began] = dict(floor)
        advance(read.invoked)
        yield read, before.get(facts.known_from(read), floor)


# --- Errors --------------------------------------------------------------------------------------


def check_error(read: Read, facts: Facts) -> Iterator[Violation]:
    """A read that fails must fail with an error that its table may answer."""
    allowed = set(PASSING)
    if read.engine == "spark":
        allowed |= SPARK_PASSING
    if read.token_of is not None:
        allowed |= TOKEN_PASSING
    if read.moment is not None or read.version is not None:
        allowed |= PAST_PASSING
    if read.way not in {"sql", "changes"}:
        allowed.add(EXPIRED_FILE)
    lives = [life for life in facts.lives.get(read.table, []) if life.overlaps(read)]
    for life in lives:
        allowed |= set(life.opened.errors)
        if life.opened.has_schemas:
            allowed |= OF_SCHEMAS | (OF_REGISTRY if facts.is_disturbed(read) else set())
        if life.opened.changes_hands and (read.moment is not None or read.version is not None):
            allowed.add("BOUNDARY_MISSING")  # only its writer at that time could know
        if life.opened.earlier and (read.moment is not None or read.version is not None):
            allowed.add("TOPIC_RECREATED")  # of the log before
        for spoiled in life.spoilings:
            if spoiled.invoked <= read.ended:
                allowed.add(spoiled.error)
            if spoiled.invoked <= read.ended and read.invoked <= spoiled.ended:
                allowed.add("TOPIC_NOT_FOUND")  # deleted, and not yet there again
    if len(lives) != 1 or lives[0].closed is not None or lives[0].opened.ended > read.invoked:
        allowed |= {"TABLE_NOT_FOUND", "HISTORY_CHANGED", "TOPIC_NOT_FOUND"}
    if read.error not in allowed:
        yield Violation("error", read.table, read.op, f"{read.error}: {read.message[:300]}")


# --- Answers -------------------------------------------------------------------------------------


def check_answer(read: Read, rows: Rows, facts: Facts) -> list[Violation]:
    """A read that answers must be exact for a table that it may have met."""
    lives = [life for life in facts.lives.get(read.table, []) if life.overlaps(read)]
    found: list[Violation] = []
    for life in lives:
        if life.opened.topic_id != read.topic_id:
            problem = f"the receipt names topic {read.topic_id}, not {life.opened.topic_id}"
            found = found or [Violation("wrong topic", read.table, read.op, problem)]
        elif spoiled := life.spoiled_before(facts.known_from(read), read):
            problem = f"answered, and should be {spoiled.error}"
            found = [Violation("spoiled table read", read.table, read.op, problem)]
        else:
            found = list(_check_exact(read, rows, life, facts))
            if not found:
                return []
    return found or [Violation("no such table", read.table, read.op, "answered")]


def _check_exact(read: Read, rows: Rows, life: Life, facts: Facts) -> Iterator[Violation]:
    if read.form in ("rows", "columns"):
        for partition in sorted({*rows, *partitions_of(read, life, facts.logs)}):
            got = rows.get(partition, (array("q"), array("q")))
            if partition == NO_PARTITION:
                yield from _check_foreign(read, got, facts)
            else:
                yield from _check_partition(read, partition, got, life, facts)
    if read.form == "columns":
        yield from _check_cells(read, facts)
    elif read.form == "groups":
        yield from _check_groups(read, life, facts.logs)
    elif read.form == "meta":
        yield from _check_meta(read, life, facts.logs)
    elif read.form == "twice":
        yield from _check_twice(read, life, facts.logs)
    for partition, offset in read.after.items():
        if read.end.get(partition, 0) <= offset:
            detail = (
                f"partition {partition} is read to {read.end.get(partition)}, not past {offset}"
            )
            yield Violation("read-your-writes", read.table, read.op, detail)


def expected(read: Read, partition: int, life: Life, logs: Mapping[str, Log]) -> Column:
    """The rows a partition must give, those that may be missing included."""
    log = logs[read.topic_id]
    start = max(life.opened.start.get(partition, 0), read.start.get(partition, 0))
    if life.opened.is_upsert:
        ends = range(start, read.end.get(partition, 0))
        offsets, ids = log.newest(partition, ends, read.filter.key)
    else:
        offsets, ids = log.column(partition, life.opened.policy)
    first = bisect.bisect_left(offsets, start)
    last = bisect.bisect_left(offsets, read.end.get(partition, 0))
    offsets, ids = offsets[first:last], ids[first:last]
    opened = life.opened
    if read.filter.is_empty and not opened.gaps and not opened.earlier:
        return offsets, ids
    pairs = _outside(zip(offsets, ids, strict=True), partition, opened.gaps)
    if not any(read.start.values()):  # a stream brings rows of earlier logs with its first batch
        pairs += [
            pair for log in opened.earlier for pair in _of_earlier(log, partition, life, logs)
        ]
    kept = [pair for pair in sorted(pairs) if read.filter.passes(partition, *pair)]
    return array("q", (o for o, _ in kept)), array("q", (i for _, i in kept))


Pairs = list[tuple[int, int]]


def _outside(pairs: Iterable[tuple[int, int]], partition: int, gaps: list[list[int]]) -> Pairs:
    """Those (offset, id) of a partition that are in none of the gaps."""
    lost = [range(begin, end) for number, begin, end in gaps if number == partition]
    return [pair for pair in pairs if not any(pair[0] in gap for gap in lost)]


def _of_earlier(earlier: EarlierLog, partition: int, life: Life, logs: Mapping[str, Log]) -> Pairs:
    """The (offset, id) of a partition that a table holds of an earlier log."""
    held = range(earlier.start.get(partition, 0), earlier.end.get(partition, 0))
    found = zip(*logs[earlier.topic_id].column(partition, life.opened.policy), strict=True)
    return _outside((pair for pair in found if pair[0] in held), partition, earlier.gaps)


def may_be_missing(life: Life, log: Log, partition: int, offset: int, id_: int) -> bool:
    """Whether somebody else, or compaction, may have taken the row away."""
    modulus = life.opened.touched_modulus
    if modulus and id_ % modulus == 0:
        return True
    return life.opened.compacted and offset in log.replaced(partition)


def _check_partition(
    read: Read, partition: int, got: Column, life: Life, facts: Facts
) -> Iterator[Violation]:
    log = facts.logs[read.topic_id]
    wanted = expected(read, partition, life, facts.logs)
    if got == wanted:
        return
    counts = collections.Counter(zip(*got, strict=True))
    must = set(zip(*wanted, strict=True))
    for (offset, id_), count in sorted(counts.items()):
        where = f"partition {partition} offset {offset} id {id_}"
        if count > 1:
            yield Violation("duplicate", read.table, read.op, f"{where}, {count} times")
        if (offset, id_) not in must:
            yield _unexpected(read, partition, offset, id_, facts)
    present = {offset for offset, _ in counts}
    for offset, id_ in sorted(must - counts.keys()):
        is_there = offset in present and not life.opened.earlier  # under another id, as said above
        if not is_there and not may_be_missing(life, log, partition, offset, id_):
            kind = "lost write" if id_ in facts.acknowledged else "hole"
            detail = (
                f"partition {partition} offset {offset} id {id_}, boundary "
                f"{read.boundary.get(partition)}, end {read.end.get(partition)}"
            )
            yield Violation(kind, read.table, read.op, detail)


def _check_cells(read: Read, facts: Facts) -> Iterator[Violation]:
    """Each row is what its record says; what was tiered has a column for all of it.

    A token's columns are those it was given with, wherever its rows are by now.
    """
    log = facts.logs[read.topic_id]
    for partition, rows in unpack_cells(read.cells).items():
        boundary = read.boundary.get(partition, 0) if read.token_of is None else 0
        for offset, cells in rows:
            got = dict(zip(read.names, cells, strict=True))
            said = log.body_at(partition, offset)
            if read.way in _EMPTIES_NULLS:
                got, said = _without_empty(got), _without_empty(said)
            problem = facts.names.difference(got, said, whole=offset < boundary)
            if said is not None and problem:
                detail = f"partition {partition} offset {offset}, boundary {boundary}: {problem}"
                yield Violation("wrong value", read.table, read.op, detail)


def _without_empty(value: Any) -> Any:
    """The value with empty parts replaced by null."""
    match value:
        case dict():
            return {name: _without_empty(item) for name, item in value.items()}
        case list() | tuple():
            return [_without_empty(item) for item in value] or None
    return value


def _unexpected(read: Read, partition: int, offset: int, id_: int, facts: Facts) -> Violation:
    known = facts.logs[read.topic_id].id_at(partition, offset)
    detail = (
        f"partition {partition} offset {offset} id {id_}, boundary {read.boundary.get(partition)}, "
        f"end {read.end.get(partition)}, the log has {known}"
    )
    kind = "phantom"
    if facts.is_aborted(id_):
        kind = "aborted read"
    elif known is not None and known != id_:
        kind = "inconsistent offset"
    elif known is not None and not offset < read.end.get(partition, 0):
        kind = "past the end"
    elif known is not None:
        kind = "not asked for"
    return Violation(kind, read.table, read.op, detail)


def _check_foreign(read: Read, got: Column, facts: Facts) -> Iterator[Violation]:
    """Rows of somebody else: each at most once, and only rows that somebody did add."""
    for id_, count in collections.Counter(got[1]).items():
        if count > 1:
            yield Violation("duplicate", read.table, read.op, f"foreign row {id_}, {count} times")
        if id_ not in facts.foreign[read.table]:
            yield Violation("phantom", read.table, read.op, f"foreign row {id_} was never added")


def partitions_of(read: Read, life: Life, logs: Mapping[str, Log]) -> set[int]:
    """The partitions that a table has rows of."""
    earlier = (log.topic_id for log in life.opened.earlier)
    return {p for topic_id in (read.topic_id, *earlier) for p in logs[topic_id].partitions}


def _check_groups(read: Read, life: Life, logs: Mapping[str, Log]) -> Iterator[Violation]:
    """Conservation: count, sum, count distinct and greatest offset of each partition."""
    got = {values[0]: tuple(values[1:]) for values in read.values if values[0] != NO_PARTITION}
    if len(got) < sum(values[0] != NO_PARTITION for values in read.values):
        yield Violation("duplicate", read.table, read.op, f"a group stands twice: {read.values}")
    log = logs[read.topic_id]
    for partition in sorted({*got, *partitions_of(read, life, logs)}):
        offsets, ids = expected(read, partition, life, logs)
        known = [id_ for id_ in ids if id_ != NO_ID]
        wanted = (len(ids), sum(known), len(set(known)), offsets[-1]) if len(ids) else None
        if got.get(partition) == wanted:
            continue
        optional = sum(
            may_be_missing(life, log, partition, o, i) for o, i in zip(offsets, ids, strict=True)
        )
        count = got[partition][0] if partition in got else 0
        if optional and len(ids) - optional <= count <= len(ids):
            continue
        detail = f"partition {partition}: {got.get(partition)}, should be {wanted}"
        yield Violation("conservation", read.table, read.op, detail)


def _check_meta(read: Read, life: Life, logs: Mapping[str, Log]) -> Iterator[Violation]:
    """Prices, headers and times of each partition: count and sum, sum, count, least and greatest.

    Where rows may be missing, or are of several logs, it is unknown what is right.
    """
    if life.opened.earlier:
        return
    log = logs[read.topic_id]
    got = {values[0]: values[1:] for values in read.values if values[0] != NO_PARTITION}
    for partition in sorted({*got, *log.partitions}):
        offsets, ids = expected(read, partition, life, logs)
        found = list(zip(offsets, ids, strict=True))
        if any(may_be_missing(life, log, partition, o, i) for o, i in found):
            continue
        prices = [int(price.scaleb(2)) for i in ids if (price := price_of(i)) is not None]
        headers = sum(log.headers_at(partition, o) for o in offsets)
        times = [at for o in offsets if (at := log.time_at(partition, o)) is not None]
        least, greatest = min(times, default=-1), max(times, default=-1)
        wanted = [len(ids), len(prices), sum(prices), headers, len(times), least, greatest]
        if got.get(partition, [0, 0, 0, 0, 0, -1, -1]) != wanted:
            detail = f"partition {partition}: {got.get(partition)}, should be {wanted}"
            yield Violation("other columns", read.table, read.op, detail)


def _check_twice(read: Read, life: Life, logs: Mapping[str, Log]) -> Iterator[Violation]:
    """Two references of one statement see one seam, and count what is there."""
    ((first, second),) = read.values
    if first != second:
        detail = f"two references of one statement count {first} and {second}"
        yield Violation("seam per reference", read.table, read.op, detail)
    most, least, log = 0, 0, logs[read.topic_id]
    for partition in partitions_of(read, life, logs):
        offsets, ids = expected(read, partition, life, logs)
        most += len(ids)
        least += len(ids) - sum(
            may_be_missing(life, log, partition, o, i) for o, i in zip(offsets, ids, strict=True)
        )
    if life.opened.touched_modulus:
        return  # rows of somebody else count, too
    if not least <= first <= most:
        detail = f"counts {first}, should be {least} to {most}"
        yield Violation("conservation", read.table, read.op, detail)


# --- Between reads -------------------------------------------------------------------------------


def check_floor(read: Read, floor: Floor) -> Iterator[Violation]:
    """A read must reach at least as far as was readable before it was sent."""
    for (topic_id, partition), least in floor.items():
        if topic_id == read.topic_id and read.end.get(partition, 0) < least:
            detail = (
                f"partition {partition} is read to {read.end.get(partition)}; offset {least - 1} "
                f"was readable before"
            )
            yield Violation("backward read", read.table, read.op, detail)


class Session:
    """What a session has read of one table, whichever of its threads read it."""

    def __init__(self) -> None:
        self._running: list[tuple[float, int, Read]] = []
        self._reached: dict[tuple[str, int], tuple[int, int]] = {}

    def check(self, read: Read) -> Iterator[Violation]:
        """A session never goes back behind what had ended when the read was sent.

        Args:
            read: The next one, in the order they were sent.
        """
        while self._running and self._running[0][0] < read.invoked:
            _, op, before = heapq.heappop(self._running)
            for partition, end in before.end.items():
                place = before.topic_id, partition
                self._reached[place] = max((end, op), self._reached.get(place, (0, 0)))
        heapq.heappush(self._running, (read.ended, read.op, read))
        for (topic_id, partition), (end, op) in self._reached.items():
            if topic_id == read.topic_id and read.end.get(partition, 0) < end:
                detail = f"partition {partition}: {read.end.get(partition)} after {end} (#{op})"
                yield Violation("session went back", read.table, read.op, detail)


def check_moment(read: Read, floor: Floor, facts: Facts) -> Iterator[Violation]:
    """A past moment holds every record up to the first later one, and none that was sent later.

    Records after one that is later may be there: the snapshot of that time may hold them. Those
    that compaction may have dropped prove nothing: the first later record may be one of them.
    """
    assert read.moment is not None
    log = facts.logs[read.topic_id]
    is_compacted = facts.is_compacted(read.topic_id)
    for partition in log.partitions:
        end = read.end.get(partition, 0)
        later = log.first_later_than(partition, read.moment_ms)
        least = floor.get((read.topic_id, partition), 0)
        if later is not None:
            least = min(least, later)
        if end < least:
            detail = f"partition {partition} is read to {end}; all before {least} are of then"
            yield Violation("short of the moment", read.table, read.op, detail)
        if later is None:
            continue
        offsets, ids = log.column(partition, "fail")
        first, last = bisect.bisect_left(offsets, later), bisect.bisect_left(offsets, end)
        for offset, id_ in zip(offsets[first:last], ids[first:last], strict=True):
            if is_compacted and offset in log.replaced(partition):
                continue
            sent = facts.sent.get(id_)
            if sent is not None and sent.at > read.moment + CLOCK_S:
                detail = (
                    f"partition {partition} offset {offset} id {id_} was sent "
                    f"{sent.at - read.moment:.1f} s later"
                )
                yield Violation("past the moment", read.table, read.op, detail)
                break


def check_repeat(read: Read, first: Read, facts: Facts) -> Iterator[Violation]:
    """The same rows again, whoever reads them: of a token, a past moment, a snapshot, a batch.

    A past moment may have more of them the second time, if these are of that time and came late.
    """
    kind = "token repeat differs" if read.engine == first.engine else "engine disagreement"
    if read.way != first.way:
        kind = "reader disagreement"
    elif read.moment is not None or read.version is not None:
        kind = "the past differs"
    elif read.way == "source":
        kind = "batch differs"
    if read.end != first.end:
        if read.moment is None or not _came_late(read, first, facts.logs[read.topic_id]):
            yield Violation(kind, read.table, read.op, f"ends {read.end}, #{first.op} {first.end}")
        return
    mine, theirs = unpack(read.rows), unpack(first.rows)
    if (mine, read.values) == (theirs, first.values):
        if read.way != "source" and read.moment is None:  # those have columns of now
            yield from _check_same_cells(read, first, kind)
        return
    shown = []
    for partition in sorted({*mine, *theirs}):
        ours = collections.Counter(zip(*mine.get(partition, ((), ())), strict=True))
        old = collections.Counter(zip(*theirs.get(partition, ((), ())), strict=True))
        if facts.is_compacted(read.topic_id):
            dropped = facts.logs[read.topic_id].replaced(partition)
            old = collections.Counter(r for r in old.elements() if r in ours or r[0] not in dropped)
        more, less = list((ours - old).items())[:3], list((old - ours).items())[:3]
        if more or less:
            shown.append(f"partition {partition}: new {more}, missing {less}")
    if not shown and read.values == first.values:
        return
    shown = shown or [f"{first.values}, now {read.values}"]
    was, now = f"{first.way}, {first.engine}", f"{read.way}, {read.engine}"
    detail = f"#{first.op} by {was}, now by {now}: {'; '.join(shown)}"
    yield Violation(kind, read.table, read.op, detail)


def _check_same_cells(read: Read, first: Read, kind: str) -> Iterator[Violation]:
    if read.names != first.names:
        yield Violation(kind, read.table, read.op, f"{read.names}, #{first.op} {first.names}")
        return
    now, was = unpack_cells(read.cells), unpack_cells(first.cells)
    if not _EMPTIES_NULLS.isdisjoint({read.way, first.way}):
        now, was = ({p: _without_empty(rows) for p, rows in of.items()} for of in (now, was))
    if now != was:
        place = next(place for place in now if now[place] != was[place])
        pairs = zip(now[place], was[place], strict=True)
        one, other = next((one, other) for one, other in pairs if one != other)
        detail = f"#{first.op}: partition {place}: {one}, was {other}, of {read.names}"
        yield Violation(kind, read.table, read.op, detail)


def _came_late(read: Read, first: Read, log: Log) -> bool:
    """Whether a past moment's ends have only moved over records of that time."""
    for partition in {*read.end, *first.end}:
        now, before = read.end.get(partition, 0), first.end.get(partition, 0)
        later = log.first_later_than(partition, read.moment_ms)
        if now < before or (now > before and later is not None and now > later):
            return False
    return True


# --- Kafka's own ---------------------------------------------------------------------------------


def _kafka_faults(facts: Facts) -> Iterator[Violation]:
    """What the log itself lost, duplicated or changed: no reader is responsible for it."""
    for text in facts.contradictions:
        yield Violation("log changed", "", 0, text)
    for topic, topic_ids in facts.topic_ids.items():
        places: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        for topic_id in topic_ids:
            log = facts.logs[topic_id]
            for partition in log.partitions:
                for offset, id_ in zip(*log.column(partition, "fail"), strict=True):
                    if id_ >= 0:
                        places[id_].append((partition, offset))
        for id_, found in places.items():
            if len(found) > 1:
                yield Violation("doubled in the log", topic, 0, f"id {id_} at {found}")
            if facts.is_aborted(id_):
                yield Violation("aborted in the log", topic, 0, f"id {id_} at {found}")
        yield from _lost_in_log(facts, topic, places)


def _lost_in_log(
    facts: Facts, topic: str, places: Mapping[int, list[tuple[int, int]]]
) -> Iterator[Violation]:
    for id_, ack in facts.acknowledged.items():
        sent = facts.sent.get(id_)
        if sent is None or sent.topic != topic or id_ in places:
            continue
        if sent.transaction == "" or facts.outcomes.get(sent.transaction) == "commit":
            detail = f"id {id_} acknowledged at partition {ack.partition} offset {ack.offset}"
            yield Violation("lost by the log", topic, 0, detail)


def describe(violations: Sequence[Violation], most: int = 20) -> str:
    """The first violations as lines."""
    lines = [f"  {v.kind}: {v.table} #{v.op}: {v.detail}" for v in violations[:most]]
    if len(violations) > most:
        lines.append(f"  … and {len(violations) - most} more")
    return "\n".join(lines)


def by_kind(violations: Iterable[Violation]) -> dict[str, int]:
    """The number of each kind."""
    return dict(sorted(collections.Counter(v.kind for v in violations).items()))
