"""The judge: what a statement, a commit and a table may be, from the truth alone.

Nothing here asks the product; whatever it returned is compared with every record that was ever
sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fakes.memory import Row, shown

from seamline.errors import SeamlineError
from seamline.seam.boundary import boundary_of
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import Snapshot
from simulation.reading import ALL, PARTS, TIERS, TWICE, Answer
from simulation.world import VERSIONS_MAX, Past, Truncation, Truth, World

Place = tuple[int, int, bytes]
"""(partition, offset, value) of a record of the log."""


Lost = frozenset[tuple[str, int, int]]
"""(topic id, partition, offset) of what a snapshot lacks, as the log had lost it."""


class Violation(Exception):  # noqa: N818 - it is what the tests look for, not an error of theirs
    """An invariant does not hold; the message opens with its number."""


class Started(NamedTuple):
    """The world when a statement began.

    Attributes:
        topic_id: The topic at that time.
        stable: Per partition the last stable offset at that time.
        snapshot_id: The head of the table.
        upheavals: How often something had been taken away.
        cuts: How often the log had been cut.
        now_ms: The time.
        hands: How often the table had changed hands.
        began: Where the table began.
    """

    topic_id: str
    stable: tuple[int, ...]
    snapshot_id: int | None
    upheavals: int
    cuts: tuple[Truncation, ...]
    now_ms: int
    hands: int
    began: tuple[tuple[str, int, int], ...]


def started(world: World) -> Started:
    """The world now, for a statement that begins."""
    truth = world.truth
    head = world.table.state.current_snapshot_id
    return Started(
        truth.topic_id,
        stable_ends(world),
        head,
        truth.upheavals,
        truth.cuts,
        world.clock.now_ms,
        truth.hands,
        truth.began,
    )


def stable_ends(world: World) -> tuple[int, ...]:
    """Last stable offsets, from what was sent."""
    opened = world.truth.open
    ((_, topic),) = world.log.save().topics
    return tuple(
        max(
            log.start,
            next((i for i, e in enumerate(sent) if opened and e.transaction == opened), len(sent)),
        )
        for sent, log in zip(world.truth.history, topic.partitions, strict=True)
    )


def asked(statement: str) -> Callable[[int, int], bool]:
    """Whether a statement asks for an offset of a partition."""
    return PARTS.get(statement, lambda _partition, _offset: True)


def problems(world: World, statement: str = ALL) -> frozenset[str]:
    """Why a statement that reads the world as it is now must fail; nothing if it must not."""
    mark = world.head.mark
    found = set()
    if not _is_marked(world):
        found.add("BOUNDARY_MISSING")
    if world.head.is_doubled:
        found |= {"SECOND_WRITER", "BOUNDARY_MISSING"}
        if _is_trimmed(world):  # up to a boundary that is no longer trusted
            found.add("LOG_TRIMMED")
    if world.head.is_copied and not world.is_adopted:  # whoever knew no longer reports it
        found |= {"SECOND_WRITER", "BOUNDARY_MISSING"}
    if mark.topic_id != world.truth.topic_id:
        return frozenset({*found, "TOPIC_RECREATED"})
    next_offsets = dict(mark.next)
    ((_, topic),) = world.log.save().topics
    for number, partition in enumerate(topic.partitions):
        lost = range(next_offsets.get(number, 0), partition.start)
        if any(asked(statement)(number, offset) for offset in lost):
            found.add("LOG_TRIMMED")
        if partition.end < next_offsets.get(number, 0):
            found.add("LOG_TRUNCATED")
    if world.truth.cuts and _holds_what_was_lost(world):
        found.add("LOG_TRUNCATED")
    if any(_is_below(world, cut, cut.commits) for cut in world.truth.cuts):
        found.add("LOG_TRUNCATED")
    return frozenset(found)


def _is_trimmed(world: World) -> bool:
    """Whether the log has lost its oldest records."""
    ((_, topic),) = world.log.save().topics
    return any(partition.start > 0 for partition in topic.partitions)


def _holds_what_was_lost(world: World) -> bool:
    """Whether a row of the table is not what the log has at its place, or ever had since."""
    history = world.truth.history
    return any(
        partition is not None
        and offset is not None
        and not (
            partition < len(history)
            and offset < len(history[partition])
            and history[partition][offset].value == value
        )
        and (partition, offset, value) not in world.head.earlier
        for partition, offset, value, _ in world.table.records(
            world.table.state.current_snapshot_id
        )
    )


def _is_below(world: World, cut: Truncation, commits: int) -> bool:
    """Whether the table held records that a cut took out of the log, after so many commits."""
    snapshot_id = world.table.state.current_snapshot_id
    while snapshot_id is not None and snapshot_id > commits:
        snapshot_id = world.truth.pasts[snapshot_id - 1].parent_id
    past = world.past(snapshot_id)
    return (
        past is not None
        and past.mark.topic_id == cut.topic_id == world.head.mark.topic_id
        and dict(past.mark.next).get(cut.partition, 0) > cut.end
    )


def _is_marked(world: World) -> bool:
    """Whether the snapshot is kept that the boundary of the head is from."""
    return world.head.mark.snapshot_id in {s.snapshot_id for s in _line(world)}


def _line(world: World) -> Iterable[Snapshot]:
    return world.table.state.ancestors(world.table.state.current_snapshot_id)


# --- Statements ----------------------------------------------------------------------------------


def check_answer(world: World, answer: Answer, begun: Started, statement: str) -> None:
    """Compares the answer of a statement that began at `begun` and has just ended with the truth.

    Raises:
        Violation: what is wrong with it.
    """
    if world.truth.cuts != begun.cuts:
        return  # what was read was true when it was read
    check_exact(world, answer, statement)
    check_fresh(world, answer.seam, begun)


def check_exact(world: World, answer: Answer, statement: str) -> None:
    """The answer is the records below its own ends, once each, whatever moment it is of.

    Raises:
        Violation: what is wrong with it.
    """
    if len(answer.seams) != 1:
        raise Violation(f"6 one seam per table: {len(answer.seams)}")
    seam = answer.seam
    if statement == TWICE and Counter(answer.scans[0]) != Counter(answer.scans[1]):
        raise Violation(f"6 two references of one table differ: {answer.scans}")
    if statement == TIERS:
        tiers = Counter(answer.scans[1]) + Counter(answer.scans[2])
        if Counter(answer.scans[0]) != tiers:
            raise Violation(f"6 a table is not its two tiers: {answer.scans}")
    version, past = seam.schema_id, world.past(seam.cold.snapshot_id)
    lost = past.lost if past is not None else frozenset()
    check_rows(
        world.truth,
        answer.rows,
        seam.log.topic_id,
        seam.end,
        statement,
        version=version,
        lost=lost,
        earlier=past.earlier if past is not None else frozenset(),
    )
    if not world.truth.hands:
        _check_gaps(seam, lost)
    if statement not in PARTS and past is not None:
        _check_foreign(answer, past)


def _check_gaps(seam: Seam, lost: Lost) -> None:
    """A seam names what is lost below its end, and nothing else."""
    named = {
        (gap.topic_id, gap.partition, offset)
        for gap in seam.log.gaps
        for offset in range(gap.start, gap.end_exclusive)
    }
    of_log = {place for place in lost if place[0] == seam.log.topic_id}
    below = {place for place in of_log if place[2] < seam.end.get(place[1], 0)}
    if named != below:
        raise Violation(f"22 lost are {sorted(below)}, and the seam says {sorted(named)}")


def _check_foreign(answer: Answer, past: Past) -> None:
    foreign = sorted(row[2] or b"" for row in answer.rows if row[0] is None)
    if foreign != sorted(past.foreign):
        raise Violation(f"2 foreign rows {foreign}, of {past.foreign}")


def check_fresh(world: World, seam: Seam, begun: Started) -> None:
    """The answer shows everything that was there when the statement began.

    Raises:
        Violation: what it leaves out.
    """
    check_ends(world, seam.log.topic_id, seam.end, begun)
    if world.truth.upheavals == begun.upheavals and not _is_ancestor(
        world.truth, begun.snapshot_id, seam.cold.snapshot_id
    ):
        raise Violation(f"2 snapshot {seam.cold.snapshot_id} is older than the statement")


def check_past(world: World, answer: Answer, moment_ms: int, begun: Started) -> None:
    """The answer is the table of that time, and what the log had by then.

    Raises:
        Violation: what is wrong with it.
    """
    seam, truth = answer.seam, world.truth
    past = world.past(seam.cold.snapshot_id)
    check_rows(
        truth,
        answer.rows,
        seam.log.topic_id,
        seam.end,
        version=seam.schema_id,
        lost=past.lost if past is not None else frozenset(),
        earlier=past.earlier if past is not None else frozenset(),
    )
    then = _past_at(world, moment_ms)
    _check_foreign(answer, then)
    held = dict(then.mark.next)
    history = dict(truth.histories)[seam.log.topic_id]
    for partition, offset, value, _ in answer.rows:
        if partition is None or offset is None or offset < held.get(partition, 0):
            continue
        if past is not None and _is_shown(past.earlier, (partition, offset, value or b"")):
            continue
        if moment_ms < history[partition][offset].timestamp_ms:
            raise Violation(f"7 {partition}/{offset} is later than {moment_ms}")
    for partition, end in seam.end.items():
        if end < held.get(partition, 0):
            raise Violation(f"7 partition {partition} ends at {end}, before the snapshot of then")
        if begun.topic_id != seam.log.topic_id or begun.upheavals != truth.upheavals:
            continue
        stable = begun.stable[partition] if partition < len(begun.stable) else 0
        if end < stable and history[partition][end].timestamp_ms <= moment_ms:
            raise Violation(f"7 {partition}/{end} was there at {moment_ms} and is left out")


def is_past_kept(world: World, moment_ms: int) -> bool:
    """Whether the snapshot of that time is still there, and the log from its boundary on."""
    state = world.table.state
    snapshot_id = [s for at, s in state.snapshot_log if at <= moment_ms][-1]
    held = dict(world.truth.pasts[snapshot_id - 1].mark.next)
    ((_, topic),) = world.log.save().topics
    return snapshot_id in state.snapshots and all(
        partition.start <= held.get(number, 0) for number, partition in enumerate(topic.partitions)
    )


def _past_at(world: World, moment_ms: int) -> Past:
    log = world.table.state.snapshot_log
    return world.truth.pasts[[s for at, s in log if at <= moment_ms][-1] - 1]


def check_rows(
    truth: Truth,
    rows: Iterable[Row],
    topic_id: str,
    end: Offsets,
    statement: str = ALL,
    *,
    version: int = VERSIONS_MAX,
    lost: Lost = frozenset(),
    earlier: frozenset[Place] = frozenset(),
) -> None:
    """The rows of the log in an answer are those below its end, once each.

    Args:
        truth: What was sent.
        rows: The answer; foreign rows are ignored.
        topic_id: The topic it says it read.
        end: Its exclusive ends.
        statement: What was asked for.
        version: The schema whose columns are shown; without it, all that were sent.
        lost: What the table lacks, as it was lost and that was accepted.
        earlier: The rows of topics that had the name before.
    """
    is_asked = asked(statement)
    found = Counter(
        (row[0], row[1], row[2])
        for row in rows
        if row[0] is not None and is_asked(row[0], row[1] or 0)
    )
    for place, count in found.items():
        if count > 1:
            raise Violation(f"3 duplicate: {place} is there {count} times")
    wanted = frozenset(
        place
        for place in expected(truth, topic_id, end, version)
        if is_asked(*place[:2]) and (topic_id, *place[:2]) not in lost
    ) | frozenset(
        (partition, offset, shown(value, version) or b"")
        for partition, offset, value in earlier
        if is_asked(partition, offset)
    )
    if found.keys() == wanted:
        return
    extra = sorted(map(str, found.keys() - wanted))
    if extra:
        raise Violation(f"4, 14 not committed below the end, or of another log: {extra}")
    missing = {p for p in wanted - found.keys() if (topic_id, *p[:2]) not in truth.compacted}
    if missing:
        raise Violation(f"2, 5 missing below the end {dict(end)}: {sorted(map(str, missing))}")


def _is_shown(places: Iterable[Place], place: Place) -> bool:
    """Whether a row is one of some, in the columns of whichever schema."""
    first = (*place[:2], shown(place[2], 0))
    return any(first == (*other[:2], shown(other[2], 0)) for other in places)


def expected(
    truth: Truth, topic_id: str, end: Offsets, version: int = VERSIONS_MAX
) -> frozenset[Place]:
    """Every record committed below the ends, in the columns of a schema."""
    history = dict(truth.histories)[topic_id]
    began = {partition: offset for topic, partition, offset in truth.began if topic == topic_id}
    return frozenset(
        (partition, offset, shown(entry.value, version) or b"")
        for partition, sent in enumerate(history)
        for offset, entry in enumerate(sent[: end.get(partition, 0)])
        if entry.value is not None
        and offset >= began.get(partition, 0)
        and (entry.transaction is None or entry.transaction in truth.committed)
    )


def check_ends(world: World, topic_id: str, end: Offsets, begun: Started) -> None:
    """Ends reach what was stable when the statement began, and no further than what is now.

    A partition that is left out, though it was there, would hide its records.
    """
    if topic_id != world.truth.topic_id:
        return  # the topic was recreated after it was read
    now = stable_ends(world)
    if begun.topic_id == topic_id and begun.upheavals == world.truth.upheavals:
        for partition, stable in enumerate(begun.stable):
            if end.get(partition, 0) < stable:
                raise Violation(f"2, 15 partition {partition} ends at {end}, {stable} was stable")
    for partition, offset in end.items():
        if partition < len(now) and offset > now[partition]:
            raise Violation(f"4 partition {partition} is read to {offset}, stable is {now}")


def check_failure(code: str, causes: Iterable[str]) -> None:
    """A statement may fail only for a reason that was there while it ran.

    One that meets a topic created again in the middle of its reading may also wait in vain, or, at
    its last attempt, find it shorter.

    Raises:
        Violation: there was none of that name.
    """
    causes = set(causes)
    if causes & {"TOPIC_RECREATED", "LOG_TRUNCATED"}:
        causes.add("DEADLINE_EXCEEDED")
    if "TOPIC_RECREATED" in causes:
        causes.add("LOG_TRUNCATED")
    if code not in causes:
        raise Violation(f"2 refused with {code}, without a cause (known: {sorted(causes)})")


def _is_ancestor(truth: Truth, older: int | None, newer: int | None) -> bool:
    while newer is not None and newer != older:
        newer = truth.pasts[newer - 1].parent_id
    return newer == older


# --- Tables --------------------------------------------------------------------------------------


def check_table(world: World) -> None:
    """The head of the table holds exactly what its boundary says, and the product knows it.

    Raises:
        Violation: what is wrong.
    """
    head = world.head
    snapshot_id = world.table.state.current_snapshot_id
    mark = head.mark
    try:
        known = boundary_of(world.table.state, snapshot_id)
    except SeamlineError as error:
        if error.code.name not in problems(world):
            raise Violation(f"1 the boundary is not found: {error}") from error
    else:
        is_same = known.topic_id == mark.topic_id and tuple(known.next.items()) == mark.next
        if not is_same and not head.is_doubled:
            raise Violation(f"1, 11 boundary {known.next} for {mark}")
    cuts = [cut for cut in world.truth.cuts if cut.under_way]
    is_whole = not head.is_doubled and "LOG_TRUNCATED" not in problems(world)
    is_whole &= not any(_is_below(world, cut, cut.commits + 1) for cut in cuts)
    if mark.topic_id == world.truth.topic_id and is_whole:
        # rows of a log that has been replaced are refused by every read, whatever they are
        rows = world.table.records(snapshot_id)
        check_rows(
            world.truth,
            rows,
            mark.topic_id,
            Offsets(mark.next),
            lost=head.lost,
            earlier=head.earlier,
        )


def check_progress(world: World) -> None:
    """No commit takes the boundary back; one that did, its own tierer takes back.

    Raises:
        Violation: it did, and nobody is at work on it any more.
    """
    head = world.head
    parent, mark = world.past(head.parent_id), head.mark
    if parent is not None and not head.is_doubled and parent.mark.topic_id == mark.topic_id:
        before, after = dict(parent.mark.next), dict(mark.next)
        if any(after.get(partition, 0) < offset for partition, offset in before.items()):
            raise Violation(f"10 the boundary went back from {before} to {after}")


def check_maintained(world: World) -> None:
    """Whatever maintenance did, the boundary can still be found.

    Raises:
        Violation: its snapshot has expired.
    """
    if not _is_marked(world) and not world.head.is_copied:  # what others report is not
        raise Violation(f"1 the boundary of {world.head} has expired")
