"""Goal: a stitched read holds every record committed below its ends once, or fails by name.

Method: random stories of a topic and its table (transactions, tiering in pieces, compaction,
foreign rows, expiry, rollback, new partitions, trimming), after each of which the seam is placed
and read. The account that the story keeps beside the log decides. Ends are also read before the
last events of a story, as a gateway reads them before the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.story import TOPIC, Story

from seamline.errors import (
    HISTORY_CHANGED,
    LOG_TRIMMED,
    TOKEN_EXPIRED,
    TOPIC_RECREATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.query import tokens
from seamline.seam.changes import between
from seamline.seam.log import LogBounds
from seamline.seam.seam import Seam

Event = tuple[str, int]
"""What happens, and a number that it may use as it likes."""


def _produce(story: Story, number: int) -> None:
    partitions = len(story.bounds().end)
    transactions = [None, *story.open_transactions]
    story.produce(number % partitions, transactions[number % len(transactions)])


def _end(story: Story, number: int) -> None:
    if story.open_transactions:
        found = story.open_transactions[number % len(story.open_transactions)]
        story.end(found, commit=number % 2 == 0)


def _tier(story: Story, number: int) -> None:
    try:
        story.tier(records_max=1 + number)
    except SeamlineError as error:
        assert error.code is LOG_TRIMMED


def _roll_back(story: Story, number: int) -> None:
    """To a snapshot after the last foreign row, which a rollback would take away."""
    line = []
    for snapshot in story.table.state.ancestors(story.head):
        line.append(snapshot.snapshot_id)
        if snapshot.operation == "append" and "seamline.boundary" not in snapshot.summary:
            break
    known = [snapshot for snapshot in line if snapshot in story.table.state.snapshots]
    story.table.roll_back(known[number % len(known)])


def _trim(story: Story, number: int) -> None:
    partition = number % len(story.bounds().end)
    boundary = story.boundary.next.get(partition, 0)
    story.log.delete_records(TOPIC, partition, max(0, boundary + number // 8 - 3))


EVENTS: dict[str, Callable[[Story, int], object]] = {
    "produce": _produce,
    "begin": lambda story, _: story.begin(),
    "end": _end,
    "tier": _tier,
    "compact": lambda story, _: story.table.compact(),
    "foreign": lambda story, _: story.append_foreign(),
    "expire": lambda story, _: story.expire(),
    "roll back": _roll_back,
    "trim": _trim,
    "add partition": lambda story, _: story.log.add_partitions(TOPIC),
}
WEIGHTED = [*EVENTS, "produce", "produce", "produce", "tier"]
EVENT = st.tuples(st.sampled_from(WEIGHTED), st.integers(0, 40))
STORIES = st.lists(EVENT, max_size=40) | st.lists(EVENT, min_size=15, max_size=60)


def told(events: list[Event], story: Story) -> Story:
    for event, number in events:
        EVENTS[event](story, number)
    return story


def holes(story: Story, bounds: LogBounds) -> bool:
    """Whether the log has lost records that the table does not hold."""
    boundary = story.boundary.next
    return any(start > boundary.get(p, 0) for p, start in bounds.start.items())


def check_read(story: Story, bounds: LogBounds | None = None) -> None:
    """The read is exact, or the log is trimmed past the boundary and it says so."""
    try:
        seam = story.pin(bounds)
        if seam is None:
            assert bounds is not None
            seam = story.pin()
        assert seam is not None
        found = story.rows(seam)
    except SeamlineError as error:
        assert error.code is LOG_TRIMMED
        assert holes(story, story.bounds())
        return
    assert found == story.expected(seam.end)
    assert all(seam.boundary[p] <= end for p, end in seam.end.items())
    assert set(seam.end) >= set(story.boundary.next)
    marked = story.boundary.next
    assert all(seam.boundary[p] == marked.get(p, 0) for p in seam.end)


@examples(300)
@given(STORIES)
def test_every_committed_record_below_the_end_is_read_once(events: list[Event]) -> None:
    story = told(events, Story())
    check_read(story)
    bounds = story.bounds()
    if not holes(story, bounds):
        seam = story.pin()
        assert seam is not None
        assert {p: seam.end[p] for p in bounds.end} == dict(bounds.end)


@examples(300)
@given(STORIES, STORIES)
@example([("produce", 0), ("begin", 0), ("produce", 1)], [("end", 0), ("tier", 0)])
def test_ends_read_before_the_table_are_still_exact(
    before: list[Event], after: list[Event]
) -> None:
    story = told(before, Story())
    bounds = story.bounds()
    check_read(told(after, story), bounds)


@examples(300)
@given(STORIES, STORIES)
@example([], [("add partition", 0), ("produce", 2), ("tier", 40), ("expire", 0)])
def test_a_token_gives_the_same_rows_again_or_says_why_not(
    before: list[Event], after: list[Event]
) -> None:
    story = told(before, Story())
    try:
        seam = story.pin()
        assert seam is not None
        rows = story.rows(seam)
    except SeamlineError:
        return
    told(after, story)
    own_is_kept = seam.cold.snapshot_id in story.table.state.snapshots
    start = story.bounds().start
    tail_is_kept = all(start[r.partition] <= r.start for r in seam.hot_ranges)
    try:
        again = story.repeat(tokens.decode(tokens.encode(seam)))
        assert story.rows(again) == rows
    except SeamlineError as error:
        assert error.code is TOKEN_EXPIRED
        assert not (own_is_kept and tail_is_kept)


@examples(100)
@given(STORIES, st.integers(1, 60))
def test_a_recreated_topic_is_never_read_with_the_old_boundary(
    events: list[Event], records: int
) -> None:
    """Also when the new log has grown past the boundary, so that only the id shows it."""
    story = told(events, Story())
    story.log.create_topic(TOPIC, 2)
    for number in range(records):
        story.log.produce(TOPIC, number % 2, b"other")
    assert refused(story) is TOPIC_RECREATED


def refused(story: Story) -> ErrorCode | None:
    try:
        story.pin()
    except SeamlineError as error:
        return error.code
    return None


# --- Changes -------------------------------------------------------------------------------------


def read(story: Story) -> tuple[Seam, Counter[bytes]] | None:
    """A read of now, as its token remembers it, and its rows; None where the log has a hole."""
    try:
        seam = story.pin()
        assert seam is not None
        return tokens.decode(tokens.encode(seam)), Counter(story.rows(seam))
    except SeamlineError as error:
        assert error.code is LOG_TRIMMED
        return None


def in_pieces(story: Story, later: Seam, earlier: Seam, offsets_max: int) -> Counter[bytes]:
    """The changes between two seams, read a few at a time, each from the token of the last."""
    rows: Counter[bytes] = Counter()
    while True:
        piece = between(later, earlier, offsets_max=offsets_max)
        rows.update(story.rows(piece))
        if piece.end == later.end:
            return rows
        assert piece.whole.end != earlier.end
        earlier = tokens.decode(tokens.encode(piece.whole))


_MAY_CHANGE_ROWS = frozenset({"foreign", "expire", "roll back"})


@examples(300)
@given(STORIES, STORIES, STORIES, st.integers(1, 9))
@example([("produce", 0)], [("produce", 1), ("tier", 9), ("produce", 0)], [], 1)
@example([("produce", 0)], [("add partition", 0), ("produce", 2), ("tier", 9)], [("tier", 9)], 1)
def test_changes_are_the_rows_that_a_later_read_has_and_an_earlier_one_has_not(
    before: list[Event], meanwhile: list[Event], after: list[Event], offsets_max: int
) -> None:
    story = told(before, Story())
    first = read(story)
    second = read(told(meanwhile, story))
    if first is None or second is None:
        return
    told(after, story)
    try:
        later = story.repeat(second[0])
    except SeamlineError as error:
        assert error.code is TOKEN_EXPIRED
        return
    try:
        changes = between(later, first[0])
    except SeamlineError as error:
        assert error.code is HISTORY_CHANGED
        assert any(kind in _MAY_CHANGE_ROWS for kind, _ in meanwhile)
        return
    assert not first[1] - second[1]
    assert Counter(story.rows(changes)) == second[1] - first[1]
    assert in_pieces(story, later, first[0], offsets_max) == second[1] - first[1]
