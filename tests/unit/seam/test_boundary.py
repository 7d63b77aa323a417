"""Goal: a snapshot's boundary is its own or its nearest marked ancestor's, or there is none.

Method: snapshots made by hand: marks, inheritance, expired parents, broken and foreign marks.
"""

from __future__ import annotations

import dataclasses
import json

import pytest

from seamline.errors import BOUNDARY_INVALID, BOUNDARY_MISSING, SeamlineError
from seamline.seam.boundary import SUMMARY_KEY, TAG, Boundary, boundary_of, decode, encode
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, SnapshotRef, TableSchema, TableState

BOUNDARY = Boundary(
    snapshot_id=1,
    cluster_id="c",
    topic="bids",
    topic_id="id",
    isolation="read_committed",
    start=Offsets({0: 0, 10: 5}),
    next=Offsets({0: 7, 10: 9}),
    max_timestamp_ms=Offsets({0: 1_700_000_000_000}),
    skipped=2,
    schema_id=4,
)
MARK = {SUMMARY_KEY: encode(BOUNDARY)}


def snapshot(snapshot_id: int, parent: int | None, summary: dict[str, str]) -> Snapshot:
    return Snapshot(snapshot_id, parent, 0, "append", summary)


def table(*snapshots: Snapshot) -> TableState:
    return TableState(
        name=("lake", "default", "t"),
        uuid="u",
        properties={},
        schemas={0: TableSchema(0, ())},
        current_schema_id=0,
        snapshots={s.snapshot_id: s for s in snapshots},
        refs={},
        current_snapshot_id=snapshots[-1].snapshot_id if snapshots else None,
    )


def test_a_boundary_comes_back_as_it_was_written() -> None:
    assert decode(snapshot(1, None, MARK)) == BOUNDARY


def test_partitions_are_ordered_as_numbers() -> None:
    assert list(json.loads(MARK[SUMMARY_KEY])["next"]) == ["0", "10"]


def test_commits_that_do_not_mark_inherit() -> None:
    state = table(snapshot(1, None, MARK), snapshot(2, 1, {}), snapshot(3, 2, {"x": "y"}))
    assert boundary_of(state, 3) == BOUNDARY


def test_the_nearest_mark_counts_and_a_rollback_takes_it_back() -> None:
    later = {SUMMARY_KEY: encode(dataclasses.replace(BOUNDARY, next=Offsets({0: 8, 10: 9})))}
    state = table(snapshot(1, None, MARK), snapshot(2, 1, later), snapshot(3, 2, {}))
    assert boundary_of(state, 3).next[0] == 8
    assert boundary_of(state, 1).next[0] == 7


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (table(), "it has no snapshot yet"),
        (table(snapshot(2, 1, {})), "parent 1 of snapshot 2 has expired"),
        (table(snapshot(1, None, {})), "its first snapshot, 1, carries none"),
    ],
)
def test_without_a_mark_in_reach_there_is_no_boundary(state: TableState, why: str) -> None:
    with pytest.raises(SeamlineError, match=why) as caught:
        boundary_of(state, state.current_snapshot_id)
    assert caught.value.code is BOUNDARY_MISSING


@pytest.mark.parametrize("summary", [MARK, {}], ids=["marked", "not marked"])
def test_what_the_tag_keeps_is_the_way_back(summary: dict[str, str]) -> None:
    """Others have committed twice, and an expiry has removed the first of these commits."""
    lost = table(snapshot(1, None, summary), snapshot(3, 2, {}))
    state = dataclasses.replace(lost, refs={TAG: SnapshotRef(1, "tag")})
    with pytest.raises(SeamlineError, match="parent 2 of snapshot 3 has expired") as caught:
        boundary_of(state, 3)
    assert ("Roll the table back to snapshot 1" in caught.value.hint) is bool(summary)
    if summary:
        assert boundary_of(state, 1) == BOUNDARY


BODY = json.loads(MARK[SUMMARY_KEY])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        json.dumps({**BODY, "v": 2}),  # and no first batch
        json.dumps({**BODY, "v": 3}),
        json.dumps({**BODY, "next": {"x": 1}}),
        json.dumps({**BODY, "next": {"0": "y"}}),
        json.dumps({**BODY, "next": {"0": 7.5}}),
        json.dumps({**BODY, "next": {"0": True}}),
        json.dumps({**BODY, "next": [1]}),
        json.dumps({**BODY, "start": None}),
        json.dumps({k: v for k, v in BODY.items() if k != "topic_id"}),
    ],
)
def test_a_mark_that_is_not_understood_is_never_passed_over(text: str) -> None:
    """The one before it would read rows twice."""
    state = table(snapshot(1, None, MARK), snapshot(2, 1, {SUMMARY_KEY: text}))
    with pytest.raises(SeamlineError) as caught:
        boundary_of(state, 2)
    assert caught.value.code is BOUNDARY_INVALID
