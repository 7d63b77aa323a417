"""Goal: the seam is placed by the protocol's rules, and whatever cannot be exact has its name.

Method: facts written by hand, one rule per test: boundaries, bounds and table states as values.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import seams

from seamline.errors import (
    HISTORY_CHANGED,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    TOKEN_EXPIRED,
    TOPIC_RECREATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.query import tokens
from seamline.seam import now, past, repeat
from seamline.seam.boundary import Boundary, ColdSide
from seamline.seam.history_checks import require, rolled_back
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam, cold_only, hot_only
from seamline.seam.table import Snapshot, TableSchema, TableState

STATE = TableState(
    name=("lake", "default", "bids"),
    uuid="table-1",
    properties={},
    schemas={3: TableSchema(3, ())},
    current_schema_id=3,
    snapshots={},
    refs={},
    current_snapshot_id=7,
)


def boundary(**changes: Any) -> Boundary:
    """A snapshot that holds [0, 10) of partition 0 and [0, 20) of partition 1."""
    known = Boundary(
        snapshot_id=7,
        cluster_id="c",
        topic="bids",
        topic_id="topic-1",
        isolation="read_committed",
        start=Offsets({0: 0, 1: 0}),
        next=Offsets({0: 10, 1: 20}),
    )
    return dataclasses.replace(known, **changes)


def bounds(**changes: Any) -> LogBounds:
    """A log of [0, 15) and [5, 20), with nothing pending."""
    end = changes.get("end", {0: 15, 1: 20})
    known = LogBounds(
        topic="bids",
        topic_id="topic-1",
        cluster_id="c",
        start=Offsets({0: 0, 1: 5}),
        end=Offsets(end),
        high_watermark=Offsets(end),
    )
    given = {k: Offsets(v) if isinstance(v, dict) else v for k, v in changes.items()}
    offsets: dict[str, Any] = given
    return dataclasses.replace(known, **offsets)


def pin(known: Boundary, log: LogBounds, **options: Any) -> Seam | None:
    return now.pin(STATE, ColdSide(7, known), log, cluster="default", **options)


def placed(known: Boundary, log: LogBounds, **options: Any) -> Seam:
    seam = pin(known, log, **options)
    assert seam is not None
    return seam


def refused(code: ErrorCode, work: Any) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        work()
    assert caught.value.code is code, caught.value
    return caught.value


# --- Placing it ----------------------------------------------------------------------------------


def test_the_tail_is_what_lies_between_boundary_and_end() -> None:
    seam = placed(boundary(), bounds())
    assert seam.boundary == Offsets({0: 10, 1: 20})
    assert seam.end == Offsets({0: 15, 1: 20})
    assert seam.hot_ranges == (OffsetRange(0, 10, 15),)
    assert (seam.cold.snapshot_id, seam.schema_id, seam.log.cluster) == (7, 3, "default")
    assert (seam.log.topic_id, seam.table_uuid) == ("topic-1", "table-1")


def test_another_topic_of_the_same_name_is_refused_however_far_it_has_grown() -> None:
    log = bounds(topic_id="topic-2", end={0: 1000, 1: 1000})
    error = refused(TOPIC_RECREATED, lambda: pin(boundary(), log))
    assert "topic-2" in error.message
    assert "topic-1" in error.message


@pytest.mark.parametrize("start", [11, 15])
def test_a_hole_between_table_and_log_is_refused(start: int) -> None:
    """Also when nothing is left to read: one offset is as much a loss as all of them."""
    error = refused(LOG_TRIMMED, lambda: pin(boundary(), bounds(start={0: start, 1: 5})))
    assert error.details == {"partition": 0, "log_start": start, "boundary": 10}


def test_a_log_that_starts_at_the_boundary_has_no_hole() -> None:
    seam = placed(boundary(), bounds(start={0: 10, 1: 20}))
    assert seam.hot_ranges == (OffsetRange(0, 10, 15),)


def test_a_boundary_past_the_stable_end_raises_the_end_if_the_log_is_really_there() -> None:
    """The boundary may count past a marker, or a transaction was settled after the ends."""
    log = bounds(end={0: 8, 1: 20}, high_watermark={0: 12, 1: 20})
    seam = placed(boundary(), log)
    assert seam.end[0] == seam.boundary[0] == 10
    assert seam.hot_ranges == ()


def test_a_boundary_past_the_log_is_looked_at_again_and_then_means_lost_records() -> None:
    log = bounds(end={0: 9, 1: 20})
    assert pin(boundary(), log) is None
    error = refused(LOG_TRUNCATED, lambda: pin(boundary(), log, bounds_are_newer=True))
    assert error.details == {"partition": 0, "log_end": 9, "boundary": 10}


def test_a_new_partition_is_read_from_its_first_offset() -> None:
    log = bounds(start={0: 0, 1: 5, 2: 0}, end={0: 10, 1: 20, 2: 4})
    assert placed(boundary(), log).hot_ranges == (OffsetRange(2, 0, 4),)


def test_a_new_partition_that_was_trimmed_before_it_was_tiered_is_a_hole() -> None:
    log = bounds(start={0: 0, 1: 5, 2: 1}, end={0: 10, 1: 20, 2: 4})
    refused(LOG_TRIMMED, lambda: pin(boundary(), log))


def test_a_partition_that_only_the_table_knows_keeps_its_cold_rows() -> None:
    seam = placed(boundary(), bounds(start={0: 0}, end={0: 15}))
    assert (seam.boundary[1], seam.end[1]) == (20, 20)
    assert seam.hot_ranges == (OffsetRange(0, 10, 15),)


def test_pending_offsets_are_those_past_the_end_of_the_read() -> None:
    log = bounds(end={0: 12, 1: 20}, high_watermark={0: 14, 1: 27})
    assert placed(boundary(), log).log.pending == 2 + 7
    raised = bounds(end={0: 8, 1: 20}, high_watermark={0: 12, 1: 20})
    assert placed(boundary(), raised).log.pending == 2


def test_skipped_records_of_the_snapshot_are_told() -> None:
    assert placed(boundary(skipped=4), bounds()).cold.skipped == 4


# --- One tier alone ------------------------------------------------------------------------------


def test_a_topic_without_a_table_is_all_tail() -> None:
    seam = hot_only(("default", "bids"), bounds(), cluster="default")
    assert seam.hot_ranges == (OffsetRange(0, 0, 15), OffsetRange(1, 5, 20))
    assert (seam.cold.snapshot_id, seam.table_uuid) == (None, "")


def test_a_table_without_a_topic_has_no_tail() -> None:
    seam = cold_only(STATE, 7)
    assert (seam.hot_ranges, seam.log.topic, seam.schema_id) == ((), "", 3)
    assert cold_only(STATE, 7, schema_id=1).schema_id == 1


# --- Placing it again ----------------------------------------------------------------------------

TOKEN = Seam(
    table=STATE.name,
    table_uuid="table-1",
    schema_id=1,
    cold=ColdPart(7),
    log=LogPart(topic_id="topic-1", format="json", on_error="null"),
    boundary=Offsets({0: 10, 1: 20}),
    end=Offsets({0: 15, 1: 20}),
)
ALIKE: dict[str, Any] = {
    "schema_id": 1,
    "format": "json",
    "on_error": "null",
    "decoded_from": Offsets({0: 10, 1: 20}),
}
OWN = ColdSide(7, boundary())
LATER = ColdSide(9, boundary(snapshot_id=9, next=Offsets({0: 40, 1: 40}), **ALIKE))


def repeated(log: LogBounds, *sides: ColdSide, state: TableState = STATE, **changes: Any) -> Seam:
    token = seams.replace(TOKEN, **changes)
    return repeat.repeat(state, token, sides, log, cluster="default")


def test_a_token_remembers_what_it_needs_to_place_the_same_seam() -> None:
    first = placed(boundary(), bounds())
    token = tokens.decode(tokens.encode(first))
    log = bounds(end={0: 99, 1: 99})
    assert repeat.repeat(STATE, token, [OWN], log, cluster="default") == first


@pytest.mark.parametrize(
    "changes",
    [{"table_uuid": "table-0"}, {"topic_id": "topic-0"}, {"end": Offsets({0: 16, 1: 20})}],
)
def test_another_history_is_refused(changes: dict[str, Any]) -> None:
    refused(HISTORY_CHANGED, lambda: repeated(bounds(), OWN, **changes))


def test_a_log_that_lost_what_the_snapshot_holds_repeats_it() -> None:
    """Nothing of the log is needed where the token ends at the boundary."""
    assert repeated(bounds(end={0: 15, 1: 3}), OWN).hot_ranges == (OffsetRange(0, 10, 15),)


def test_a_trimmed_tail_is_taken_from_a_later_snapshot_up_to_the_end() -> None:
    trimmed = bounds(start={0: 11, 1: 5})
    refused(TOKEN_EXPIRED, lambda: repeated(trimmed, OWN))
    seam = repeated(trimmed, OWN, LATER)
    assert (seam.cold.snapshot_id, seam.hot_ranges) == (9, ())
    assert seam.cold_end == seam.end == seam.boundary == TOKEN.end


def test_a_partition_added_since_has_no_part_in_what_is_repeated() -> None:
    grown = boundary(snapshot_id=9, next=Offsets({0: 40, 1: 40, 2: 5}), **ALIKE)
    log = bounds(start={0: 11, 1: 5, 2: 0}, end={0: 40, 1: 40, 2: 5})
    seam = repeated(log, ColdSide(9, grown))
    assert seam.cold_end == Offsets({0: 15, 1: 20, 2: 0})
    assert seam.end == TOKEN.end


def test_a_later_snapshot_whose_rows_somebody_changed_cannot_stand_in() -> None:
    changed = dataclasses.replace(LATER, foreign_change_id=8)
    error = refused(TOKEN_EXPIRED, lambda: repeated(bounds(), changed))
    assert "rows have been changed since" in error.message
    assert repeated(bounds(), dataclasses.replace(OWN, foreign_change_id=8)).cold.snapshot_id == 7


@pytest.mark.parametrize(
    "change",
    [
        {"schema_id": 2},
        {"format": "raw"},
        {"on_error": "skip"},
        {"decoded_from": Offsets({0: 11, 1: 20})},
    ],
)
def test_a_later_snapshot_that_was_decoded_otherwise_cannot_stand_in(
    change: dict[str, Any],
) -> None:
    other = dataclasses.replace(LATER, boundary=dataclasses.replace(LATER.boundary, **change))
    error = refused(TOKEN_EXPIRED, lambda: repeated(bounds(), other))
    assert "on_error" in error.message
    assert repeated(bounds(), OWN, other).log.on_error == "null", "the log is decoded as it was"


def test_trimming_what_the_snapshot_holds_does_not_expire_the_token() -> None:
    seam = repeated(bounds(start={0: 10, 1: 20}), OWN)
    assert seam.hot_ranges == (OffsetRange(0, 10, 15),)
    assert seam.cold_end is None
    beyond = bounds(start={0: 10, 1: 25}, end={0: 15, 1: 30})
    assert repeated(beyond, OWN) == seam


def test_a_plain_table_is_repeated_by_its_snapshot() -> None:
    kept = dataclasses.replace(STATE, snapshots={7: Snapshot(7, None, 0, "append", {})})
    assert repeat.repeat_cold(kept, TOKEN) == cold_only(kept, 7, schema_id=1)
    refused(TOKEN_EXPIRED, lambda: repeat.repeat_cold(STATE, TOKEN))
    other = dataclasses.replace(kept, uuid="table-2")
    refused(HISTORY_CHANGED, lambda: repeat.repeat_cold(other, TOKEN))


def test_a_topic_is_repeated_from_where_it_was_read() -> None:
    first = hot_only(("default", "bids"), bounds(), cluster="default")
    token = tokens.decode(tokens.encode(first))

    def again(log: LogBounds) -> Seam:
        return repeat.repeat_topic(first.table, token, log, cluster="default")

    assert again(bounds(end={0: 99, 1: 99})) == first
    empty = dataclasses.replace(token, boundary=Offsets({0: 0, 1: 20}))
    trimmed = bounds(start={0: 0, 1: 25}, end={0: 15, 1: 30})
    seam = repeat.repeat_topic(first.table, empty, trimmed, cluster="default")
    assert seam.hot_ranges == (OffsetRange(0, 0, 15),)
    refused(TOKEN_EXPIRED, lambda: again(bounds(start={0: 1, 1: 5})))
    refused(HISTORY_CHANGED, lambda: again(bounds(end={0: 14, 1: 20})))
    refused(HISTORY_CHANGED, lambda: again(bounds(topic_id="topic-2")))


# --- The past ------------------------------------------------------------------------------------

PAST = dataclasses.replace(STATE, snapshots={7: Snapshot(7, None, 0, "append", {}, schema_id=2)})


def travel(ends: dict[int, int], log: LogBounds, *sides: ColdSide) -> Seam:
    return past.travel(PAST, sides, Offsets(ends), log, cluster="default", as_of="then")


def test_a_moment_is_the_snapshot_of_then_and_the_log_up_to_then() -> None:
    seam = travel({0: 12, 1: 18}, bounds(), OWN, LATER)
    assert (seam.cold.snapshot_id, seam.schema_id, seam.as_of) == (7, 2, "then")
    assert seam.hot_ranges == (OffsetRange(0, 10, 12),)
    assert seam.end == Offsets({0: 12, 1: 20}), "what was tiered by then belongs to it"


def test_no_moment_lies_past_the_stable_end() -> None:
    log = bounds(end={0: 12, 1: 20}, high_watermark={0: 30, 1: 20})
    assert travel({0: 25, 1: 20}, log, OWN).end[0] == 12


def test_a_moment_whose_log_is_trimmed_is_read_from_a_later_snapshot() -> None:
    trimmed = bounds(start={0: 11, 1: 5})
    seam = travel({0: 12, 1: 20}, trimmed, OWN, LATER)
    assert (seam.cold.snapshot_id, seam.cold_end) == (9, Offsets({0: 12, 1: 20}))
    refused(LOG_TRIMMED, lambda: travel({0: 12, 1: 20}, trimmed, OWN))
    changed = dataclasses.replace(LATER, foreign_change_id=8)
    refused(LOG_TRIMMED, lambda: travel({0: 12, 1: 20}, trimmed, OWN, changed))


# --- Sessions ------------------------------------------------------------------------------------


def line(*parents: int | None) -> TableState:
    """Snapshots 1, 2, … with these parents; the last one is the head."""
    snapshots = {
        number: Snapshot(number, parent, 0, "append", {})
        for number, parent in enumerate(parents, start=1)
    }
    return dataclasses.replace(STATE, snapshots=snapshots, current_snapshot_id=len(parents))


def seen(snapshot_id: int) -> Seam:
    return seams.replace(TOKEN, snapshot_id=snapshot_id)


def test_a_session_goes_on_along_its_line() -> None:
    current = seams.replace(placed(boundary(), bounds()), snapshot_id=3)
    assert rolled_back(line(None, 1, 2), current, seen(1)) is None


def test_a_session_on_a_line_that_was_left_is_told() -> None:
    current = seams.replace(placed(boundary(), bounds()), snapshot_id=3)
    refused(HISTORY_CHANGED, lambda: require(rolled_back(line(None, 1, 1), current, seen(2))))


def test_a_session_whose_snapshot_expired_is_told_by_the_boundary() -> None:
    gone = line(None, 1, 2)
    expired = dataclasses.replace(gone, snapshots={3: gone.snapshots[3]})
    current = seams.replace(placed(boundary(), bounds()), snapshot_id=3)
    assert rolled_back(expired, current, seen(1)) is None
    behind = seams.replace(current, boundary=Offsets({0: 9, 1: 20}))
    refused(HISTORY_CHANGED, lambda: require(rolled_back(expired, behind, seen(1))))


def test_a_session_whose_snapshot_expired_after_it_was_left_is_told() -> None:
    whole = dataclasses.replace(line(None, 1, 1), current_snapshot_id=1)
    left = dataclasses.replace(whole, snapshots={1: whole.snapshots[1]})
    current = seams.replace(placed(boundary(), bounds()), snapshot_id=1)
    refused(HISTORY_CHANGED, lambda: require(rolled_back(left, current, seen(3))))


def test_a_session_that_saw_a_foreign_change_must_find_it() -> None:
    gone = line(None, 1, 2)
    expired = dataclasses.replace(gone, snapshots={3: gone.snapshots[3]})
    current = seams.replace(placed(boundary(), bounds()), snapshot_id=3)
    before = seams.replace(seen(1), foreign_change_id=1)
    same, other = (seams.replace(current, foreign_change_id=change) for change in (1, 3))
    assert rolled_back(expired, same, before) is None
    assert rolled_back(expired, other, seen(1)) is None
    refused(HISTORY_CHANGED, lambda: require(rolled_back(expired, other, before)))
    parent = seams.replace(before, snapshot_id=2)
    assert rolled_back(expired, other, parent) is None


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({0: 12}, None),
        ({0: 14}, "a transaction that began at offset 12 is still open"),
        ({0: 15}, "ends at 14: it does not hold offset 14"),
        ({2: 1}, "has no partition 2"),
    ],
)
def test_what_is_not_readable_yet_has_a_reason(wanted: dict[int, int], why: str | None) -> None:
    log = bounds(end={0: 12, 1: 20}, high_watermark={0: 14, 1: 20})
    found = now.invisible(log, wanted)
    assert found is None if why is None else why in str(found)
