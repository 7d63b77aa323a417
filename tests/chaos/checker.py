"""The checker: pure functions from a recorded history to the violations in it.

A read is right when it holds, for every partition, exactly the records of the log below the end
that its receipt names, as the table's policy shows them, and when that end is not behind anything
that was known to be readable before the read was sent; or when it answers one error that its table
may answer. Two oracles tell Kafka's faults from ours: what producers were acknowledged, and what an
independent consumer of committed records saw. What the log itself has lost or doubled is counted as
Kafka's.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from chaos.history import (
    BAD_ID,
    NO_ID,
    NO_PARTITION,
    Acknowledged,
    Column,
    Event,
    ForeignRow,
    Logged,
    Read,
    Rows,
    Sent,
    TableClosed,
    TableOpened,
    TableSpoiled,
    TransactionEnded,
    unpack,
)
from seamline.errors import ERRORS

PASSING = frozenset(
    {code.name for code in ERRORS.values() if code.retriable}
    | {"DEADLINE_EXCEEDED", "CANCELED", "STATEMENT_NOT_FOUND"}
)
"""Errors that any read may end with while parts of the system are down: asked again, it answers."""

SPARK_PASSING = frozenset({"SPARK_FAILED"})
_POLICIES = ("fail", "skip", "null")
TOKEN_PASSING = frozenset({"TOKEN_EXPIRED"})


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen.

    Attributes:
        kind: Which rule it breaks.
        table: Where.
        op: Number of the read; 0 when it is no read's.
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
    """

    violations: list[Violation] = dataclasses.field(default_factory=list)
    kafka_faults: list[Violation] = dataclasses.field(default_factory=list)
    reads: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    checked_rows: int = 0
    repeats: int = 0
    engine_repeats: int = 0


@dataclasses.dataclass(slots=True)
class Life:
    """One table from its creation to its end.

    Attributes:
        opened: How it began.
        spoiled: What was done to it.
        closed: How it ended.
    """

    opened: TableOpened
    spoiled: TableSpoiled | None = None
    closed: TableClosed | None = None

    def overlaps(self, read: Read) -> bool:
        """Whether it may have been this table that a read met."""
        until = self.closed.ended if self.closed else float("inf")
        return self.opened.invoked <= read.ended and read.invoked <= until

    def was_spoiled_before(self, read: Read) -> bool:
        """Whether a read began when the table could no longer be read."""
        return (
            self.spoiled is not None
            and self.spoiled.must_fail
            and self.spoiled.ended < read.invoked
        )

    def may_have_been_spoiled(self, read: Read) -> bool:
        """Whether a read ended after the spoiling began."""
        return self.spoiled is not None and self.spoiled.invoked <= read.ended


class Log:
    """What the independent consumer saw of one topic's incarnation."""

    def __init__(self) -> None:
        self._records: dict[int, dict[int, tuple[int, str]]] = {}
        self._columns: dict[tuple[int, str], Column] = {}
        self._replaced: dict[int, frozenset[int]] = {}

    def add(self, seen: Logged) -> Iterator[str]:
        """Takes records in; gives what contradicts earlier ones."""
        records = self._records.setdefault(seen.partition, {})
        for policy in _POLICIES:
            self._columns.pop((seen.partition, policy), None)
        for offset, id_, key in seen.records:
            known = records.setdefault(offset, (id_, key))
            if known[0] != id_:
                yield f"partition {seen.partition} offset {offset}: {known[0]}, later {id_}"

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

    def id_at(self, partition: int, offset: int) -> int | None:
        """The id of a record; None when there is none."""
        found = self._records.get(partition, {}).get(offset)
        return None if found is None else found[0]

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

    def take(self, event: Event) -> None:
        """Takes an event in."""
        match event:
            case TableOpened():
                self.lives.setdefault(event.table, []).append(Life(event))
            case TableSpoiled():
                self.lives[event.table][-1].spoiled = event
            case TableClosed():
                self.lives[event.table][-1].closed = event
            case Sent():
                self.sent[event.id] = event
            case Acknowledged():
                self.acknowledged[event.id] = event
            case TransactionEnded():
                self.outcomes[event.transaction] = event.outcome
            case ForeignRow():
                self.foreign[event.table].add(event.id)
            case Logged():
                self.contradictions.extend(self.logs[event.topic_id].add(event))
                self.topic_ids[event.topic].add(event.topic_id)
                end = event.records[-1][0] + 1
                self.visible.append((event.at, event.topic_id, event.partition, end))
            case Read() if not event.error and event.token_of is None:
                for partition, end in event.end.items():
                    self.visible.append((event.ended, event.topic_id, partition, end))
            case _:
                pass

    def is_aborted(self, id_: int) -> bool:
        """Whether a record belongs to a transaction that was aborted."""
        sent = self.sent.get(id_)
        return sent is not None and self.outcomes.get(sent.transaction) == "abort"


Floor = Mapping[tuple[str, int], int]
"""(topic id, partition) to an end that was readable before."""


def check(events: Callable[[], Iterable[Event]]) -> Verdict:
    """Judges a history.

    Args:
        events: Gives the events, each time it is called; they are gone through twice, so that the
            rows of no more than a few reads are held at once.
    """
    facts = Facts()
    for event in events():
        facts.take(event)
    verdict = Verdict()
    verdict.kafka_faults.extend(_kafka_faults(facts))
    first_reads: dict[int, Read] = {}
    sessions: dict[tuple[str, str], Read] = {}
    reads = (event for event in events() if isinstance(event, Read))
    for read, floor in _with_floors(_by_invocation(reads), facts.visible):
        verdict.reads[read.error or "ok"] += 1
        if read.error:
            verdict.violations.extend(check_error(read, facts))
            continue
        rows = unpack(read.rows)
        verdict.checked_rows += sum(len(offsets) for offsets, _ in rows.values())
        verdict.violations.extend(check_answer(read, rows, facts))
        if read.token_of is None:
            verdict.violations.extend(check_floor(read, floor))
            verdict.violations.extend(check_session(read, sessions.get((read.session, read.table))))
            sessions[read.session, read.table] = read
            first_reads[read.op] = read
        elif (first := first_reads.get(read.token_of)) is not None:
            verdict.repeats += 1
            verdict.engine_repeats += first.engine != read.engine
            verdict.violations.extend(check_repeat(read, first))
    return verdict


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


def _with_floors(
    reads: Iterable[Read], visible: Sequence[tuple[float, str, int, int]]
) -> Iterator[tuple[Read, Floor]]:
    """Each read with what was known to be readable before it was sent."""
    pending = iter(sorted(visible))
    upcoming = next(pending, None)
    floor: dict[tuple[str, int], int] = {}
    for read in reads:
        while upcoming is not None and upcoming[0] < read.invoked:
            _, topic_id, partition, end = upcoming
            floor[topic_id, partition] = max(end, floor.get((topic_id, partition), 0))
            upcoming = next(pending, None)
        yield read, floor


# --- Errors --------------------------------------------------------------------------------------


def check_error(read: Read, facts: Facts) -> Iterator[Violation]:
    """A read that fails must fail with an error that its table may answer."""
    allowed = set(PASSING)
    if read.engine == "spark":
        allowed |= SPARK_PASSING
    if read.token_of is not None:
        allowed |= TOKEN_PASSING
    lives = [life for life in facts.lives.get(read.table, []) if life.overlaps(read)]
    for life in lives:
        allowed |= set(life.opened.errors)
        if life.spoiled is not None and life.may_have_been_spoiled(read):
            allowed.add(life.spoiled.error)
            if read.invoked <= life.spoiled.ended:
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
        elif life.was_spoiled_before(read):
            assert life.spoiled is not None
            problem = f"answered, and should be {life.spoiled.error}"
            found = [Violation("spoiled table read", read.table, read.op, problem)]
        else:
            found = list(_check_exact(read, rows, life, facts))
            if not found:
                return []
    return found or [Violation("no such table", read.table, read.op, "answered")]


def _check_exact(read: Read, rows: Rows, life: Life, facts: Facts) -> Iterator[Violation]:
    log = facts.logs[read.topic_id]
    if read.form == "rows":
        for partition in sorted({*rows, *log.partitions}):
            got = rows.get(partition, (array("q"), array("q")))
            if partition == NO_PARTITION:
                yield from _check_foreign(read, got, facts)
            else:
                yield from _check_partition(read, partition, got, life, facts)
    elif read.form == "groups":
        yield from _check_groups(read, life, log)
    elif read.form == "twice":
        yield from _check_twice(read, life, log)
    for partition, offset in read.after.items():
        if read.end.get(partition, 0) <= offset:
            detail = (
                f"partition {partition} is read to {read.end.get(partition)}, not past {offset}"
            )
            yield Violation("read-your-writes", read.table, read.op, detail)


def expected(read: Read, partition: int, life: Life, log: Log) -> Column:
    """The rows a partition must give, those that may be missing included."""
    offsets, ids = log.column(partition, life.opened.policy)
    first = bisect.bisect_left(offsets, life.opened.start.get(partition, 0))
    last = bisect.bisect_left(offsets, read.end.get(partition, 0))
    offsets, ids = offsets[first:last], ids[first:last]
    if read.filter.is_empty:
        return offsets, ids
    kept = [
        (offset, id_)
        for offset, id_ in zip(offsets, ids, strict=True)
        if read.filter.passes(partition, offset, id_)
    ]
    return array("q", (o for o, _ in kept)), array("q", (i for _, i in kept))


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
    wanted = expected(read, partition, life, log)
    if got == wanted:
        return
    counts = collections.Counter(zip(*got, strict=True))
    must = dict(zip(*wanted, strict=True))
    for (offset, id_), count in sorted(counts.items()):
        where = f"partition {partition} offset {offset} id {id_}"
        if count > 1:
            yield Violation("duplicate", read.table, read.op, f"{where}, {count} times")
        if must.get(offset) != id_:
            yield _unexpected(read, partition, offset, id_, facts)
    present = {offset for offset, _ in counts}
    for offset, id_ in must.items():
        if offset not in present and not may_be_missing(life, log, partition, offset, id_):
            kind = "lost write" if id_ in facts.acknowledged else "hole"
            detail = (
                f"partition {partition} offset {offset} id {id_}, boundary "
                f"{read.boundary.get(partition)}, end {read.end.get(partition)}"
            )
            yield Violation(kind, read.table, read.op, detail)


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


def _check_groups(read: Read, life: Life, log: Log) -> Iterator[Violation]:
    """Conservation: count, sum, count distinct and greatest offset of each partition."""
    got = {values[0]: tuple(values[1:]) for values in read.values if values[0] != NO_PARTITION}
    if len(got) < sum(values[0] != NO_PARTITION for values in read.values):
        yield Violation("duplicate", read.table, read.op, f"a group stands twice: {read.values}")
    for partition in sorted({*got, *log.partitions}):
        offsets, ids = expected(read, partition, life, log)
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


def _check_twice(read: Read, life: Life, log: Log) -> Iterator[Violation]:
    """Two references of one statement see one seam, and count what is there."""
    ((first, second),) = read.values
    if first != second:
        detail = f"two references of one statement count {first} and {second}"
        yield Violation("seam per reference", read.table, read.op, detail)
    most = least = 0
    for partition in log.partitions:
        offsets, ids = expected(read, partition, life, log)
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


def check_session(read: Read, before: Read | None) -> Iterator[Violation]:
    """A session never goes back."""
    if before is None or before.topic_id != read.topic_id:
        return
    for partition, end in before.end.items():
        if read.end.get(partition, 0) < end:
            detail = f"partition {partition}: {read.end.get(partition)} after {end} (#{before.op})"
            yield Violation("session went back", read.table, read.op, detail)


def check_repeat(read: Read, first: Read) -> Iterator[Violation]:
    """The same statement with the same token gives the same rows, on either engine."""
    kind = "token repeat differs" if read.engine == first.engine else "engine disagreement"
    if read.end != first.end:
        yield Violation(kind, read.table, read.op, f"ends {read.end}, #{first.op} {first.end}")
    mine, theirs = unpack(read.rows), unpack(first.rows)
    if (mine, read.values) == (theirs, first.values):
        return
    shown = []
    for partition in sorted({*mine, *theirs}):
        ours = collections.Counter(zip(*mine.get(partition, ((), ())), strict=True))
        old = collections.Counter(zip(*theirs.get(partition, ((), ())), strict=True))
        more, less = list((ours - old).items())[:3], list((old - ours).items())[:3]
        if more or less:
            shown.append(f"partition {partition}: new {more}, missing {less}")
    detail = f"#{first.op} on {first.engine}, now on {read.engine}: {'; '.join(shown)}"
    yield Violation(kind, read.table, read.op, detail)


# --- Kafka's own ---------------------------------------------------------------------------------


def _kafka_faults(facts: Facts) -> Iterator[Violation]:
    """What the log itself lost, doubled or changed: no reader can answer for it."""
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
    """How many of each kind."""
    return dict(sorted(collections.Counter(v.kind for v in violations).items()))
