"""Goal: gaps say which offsets are lost, however many there are and in whatever order they come.

Method: generated gaps, compared with the sets of their offsets; a boundary that carries them, read
again; a table that goes on, by hand.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.errors import LOG_TRUNCATED, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.seam.boundary import SUMMARY_KEY, Boundary, EarlierLog, decode, encode
from seamline.seam.gaps import GAPS_MAX, Gap, below, merged, past, same_below
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.resuming import resumed
from seamline.seam.table import Snapshot, TableSchema, TableState

Lost = set[tuple[str, int, int]]


@st.composite
def some_gaps(draw: st.DrawFn, most: int = 8) -> list[Gap]:
    """Gaps that do not overlap, in any order."""
    starts = draw(st.lists(st.integers(0, 60), unique=True, max_size=most))
    found = []
    for start in starts:
        topic_id, partition = draw(st.sampled_from("ab")), draw(st.integers(0, 1))
        found.append(Gap(topic_id, partition, start, start + 1, 1, start, "me"))
    return found


def lost(gaps: list[Gap] | tuple[Gap, ...]) -> Lost:
    return {(g.topic_id, g.partition, o) for g in gaps for o in range(g.start, g.end_exclusive)}


@examples(100)
@given(some_gaps())
def test_neighbours_are_one_and_nothing_is_added(gaps: list[Gap]) -> None:
    found = merged(gaps)
    assert lost(found) == lost(gaps)
    assert sum(gap.offsets for gap in found) == len(lost(gaps))
    assert merged([*found, *found[:0]]) == found
    for one in found:
        assert ((one.topic_id, one.partition, one.end_exclusive)) not in lost(gaps)


@examples(100)
@given(some_gaps(), some_gaps(), st.integers(0, 61))
def test_gaps_are_compared_by_the_offsets_below_an_end(
    one: list[Gap], other: list[Gap], end: int
) -> None:
    ends = {0: end, 1: 7}
    expected = [
        {place for place in lost(each) if place[0] == "a" and place[2] < ends[place[1]]}
        for each in (one, other)
    ]
    assert lost(below(one, "a", ends)) == expected[0]
    assert same_below(one, other, "a", ends) == (expected[0] == expected[1])


def test_there_is_a_bound_past_which_the_nearest_are_named_together() -> None:
    gaps = [Gap("a", 0, start, start + 1, 1) for start in range(0, 4 * GAPS_MAX, 2)]
    found = merged([*gaps, Gap("a", 1, 1000, 1010, 10)])
    assert len(found) <= GAPS_MAX
    assert lost(found) >= lost(gaps)
    assert sum(gap.offsets for gap in found) == len(gaps) + 10
    many = [Gap("a", partition, 0, 1, 1) for partition in range(2 * GAPS_MAX)]
    assert len(merged(many)) == len(many), "one for each partition"


def test_an_offset_in_a_gap_is_passed_unless_records_are_among_it() -> None:
    gaps = (Gap("a", 0, 4, 6, 2), Gap("a", 0, 10, 20, 5))
    assert [past(gaps, 0, offset) for offset in (3, 4, 5, 6, 12)] == [3, 6, 6, 6, 12]
    assert past(gaps, 1, 4) == 4


# --- Going on ------------------------------------------------------------------------------------

BEFORE = Boundary(
    1,
    "c",
    "t",
    "topic-1",
    "read_committed",
    Offsets(),
    Offsets({0: 4, 1: 5}),
    epochs=Offsets({0: 1}),
)


def state(boundary: Boundary) -> TableState:
    snapshot = Snapshot(1, None, 0, "append", {SUMMARY_KEY: encode(boundary)}, 0)
    return TableState(
        name=("lake", "default", "t"),
        uuid="u",
        properties={},
        schemas={0: TableSchema(0, ())},
        current_schema_id=0,
        snapshots={1: snapshot},
        refs={},
        current_snapshot_id=1,
    )


def log(start: dict[int, int], topic_id: str = "topic-1", end: int = 10) -> LogBounds:
    ends = Offsets(dict.fromkeys(start, end))
    return LogBounds("t", topic_id, "c", Offsets(start), ends, ends, leader_epochs=Offsets({0: 2}))


def test_a_table_goes_on_from_where_the_log_begins() -> None:
    found = resumed(state(BEFORE), log({0: 6, 1: 5, 2: 3}), now_ms=77, by="me")
    assert dict(found.next) == dict(found.start) == {0: 6, 1: 5, 2: 3}
    assert found.gaps == (
        Gap("topic-1", 0, 4, 6, 2, 77, "me"),
        Gap("topic-1", 2, 0, 3, 3, 77, "me"),
    )
    assert found.base_id == 1
    written = Snapshot(2, 1, 0, "append", {SUMMARY_KEY: encode(found)}, 0)
    assert decode(written) == dataclasses.replace(found, snapshot_id=2)
    again = resumed(state(found), log({0: 8, 1: 5, 2: 3}), now_ms=78, by="you")
    assert again.gaps[0] == Gap("topic-1", 0, 4, 8, 4, 78, "you")


def test_a_table_begins_anew_in_another_log() -> None:
    found = resumed(state(BEFORE), log({0: 0, 1: 2, 2: 0}, "topic-2"), now_ms=77, by="me")
    assert (found.topic_id, dict(found.next)) == ("topic-2", {0: 0, 1: 2, 2: 0})
    assert found.start == found.next
    assert found.earlier_logs == (EarlierLog("topic-1", BEFORE.next, 77, "me"),)
    assert found.gaps == (Gap("topic-2", 1, 0, 2, 2, 77, "me"),)
    assert found.first_batch == 9, "no row of the earlier log is of a later batch"
    written = Snapshot(2, 1, 0, "append", {SUMMARY_KEY: encode(found)}, 0)
    assert json.loads(written.summary[SUMMARY_KEY])["v"] == 2, "older readers would mix the logs"
    assert decode(written) == dataclasses.replace(found, snapshot_id=2)
    more = dataclasses.replace(found, next=Offsets({0: 7, 1: 7, 2: 7}))
    third = resumed(state(more), log({0: 0}, "topic-3"), now_ms=78, by="me")
    assert [log.topic_id for log in third.earlier_logs] == ["topic-1", "topic-2"]
    assert third.first_batch == 9 + 21
    assert third.gaps == found.gaps
    for number in range(4, 40):
        third = resumed(state(third), log({0: 0}, f"topic-{number}"), now_ms=0, by="me")
    assert [log.topic_id for log in third.earlier_logs] == [f"topic-{n}" for n in range(23, 39)]


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        (log({0: 4, 1: 5}), STATEMENT_NOT_ALLOWED),
        (log({0: 0, 1: 0}), STATEMENT_NOT_ALLOWED),
        (log({0: 2, 1: 2}, end=3), LOG_TRUNCATED),
    ],
)
def test_nothing_is_accepted_that_was_not_lost(bounds: LogBounds, code: object) -> None:
    with pytest.raises(SeamlineError) as caught:
        resumed(state(BEFORE), bounds, now_ms=0, by="me")
    assert caught.value.code is code
