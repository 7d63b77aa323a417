"""Goal: changes are exactly the offsets between two ends, or a named error.

Method: seams written by hand, one rule per test;
what holds for every history is in the property tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from support import seams

from seamline.errors import (
    HISTORY_CHANGED,
    INVALID_ARGUMENT,
    INVALID_TOKEN,
    TOPIC_RECREATED,
    ErrorCode,
    SeamlineError,
)
from seamline.seam.changes import between, cold_predicate, logged
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import Places
from seamline.seam.seam import ColdPart, ColdSpan, LogPart, Seam
from seamline.sql import columns
from seamline.sql.predicates import describe

LATER = Seam(
    table=("lake", "default", "bids"),
    table_uuid="table-1",
    schema_id=0,
    cold=ColdPart(7),
    log=LogPart(topic="bids", topic_id="topic-1"),
    boundary=Offsets({0: 10, 1: 20}),
    end=Offsets({0: 15, 1: 20}),
)

_FIELDS = {field.name: field for field in columns.METADATA_FIELDS}
OWN = Places((_FIELDS[columns.PARTITION],), (_FIELDS[columns.OFFSET],), _FIELDS[columns.BATCH])


def earlier(end: dict[int, int], **changes: Any) -> Seam:
    return seams.replace(LATER, boundary=Offsets(), end=Offsets(end), **changes)


def refused(code: ErrorCode, later: Seam, before: Seam) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        between(later, before)
    assert caught.value.code is code
    return caught.value


def test_both_tiers_begin_at_the_earlier_end() -> None:
    found = between(LATER, earlier({0: 12, 1: 5}))
    assert found.since == Offsets({0: 12, 1: 5})
    assert found.hot_ranges == (OffsetRange(0, 12, 15),)
    predicate = cold_predicate(found, OWN)
    assert predicate is not None
    assert describe(predicate) == "(_kafka_partition = 1 AND _kafka_offset >= 5)"
    assert found.whole == LATER
    assert found.key != LATER.key


def test_a_partition_that_the_earlier_read_did_not_know_is_read_from_its_start() -> None:
    assert between(LATER, earlier({0: 15})).since == Offsets({0: 15, 1: 0})


def test_everything_comes_after_the_beginning() -> None:
    found = between(LATER, None)
    assert found.since == Offsets({0: 0, 1: 0})
    assert found.hot_ranges == LATER.hot_ranges


def test_the_beginning_is_that_of_the_first_log() -> None:
    second = seams.replace(LATER, boundary=Offsets({0: 0, 1: 0}), first_batch=30)
    found = between(second, None)
    assert found.cold_span == ColdSpan(Offsets({0: 0, 1: 0}), None, 30, takes_earlier=True)
    assert not found.is_hot, "rows of the first log are in the snapshot"
    assert cold_predicate(found, OWN) is None
    with pytest.raises(SeamlineError) as caught:
        logged(found, LogBounds("bids", "topic-1", "c", Offsets(), LATER.end, LATER.end))
    assert caught.value.code is TOPIC_RECREATED
    since = between(second, seams.replace(earlier({0: 0}), first_batch=30))
    assert since.since == found.since
    assert since.cold_span == ColdSpan(found.since, None, 30, takes_earlier=False)
    assert since.key != found.key, "they are not the same rows"
    assert since.is_hot


def test_the_snapshot_is_not_read_for_what_is_in_the_log_alone() -> None:
    assert between(LATER, earlier({0: 10, 1: 20})).is_hot
    assert not between(LATER, earlier({0: 9, 1: 20})).is_hot
    assert not LATER.is_hot


def test_the_later_one_must_be_the_later_one() -> None:
    error = refused(INVALID_ARGUMENT, LATER, earlier({0: 16, 1: 20}))
    assert "partition 0" in error.message
    refused(INVALID_ARGUMENT, LATER, earlier({0: 15, 1: 20, 2: 1}))


def test_rows_that_others_have_changed_are_no_changes() -> None:
    refused(HISTORY_CHANGED, seams.replace(LATER, foreign_change_id=7), earlier({0: 1}))


def test_a_snapshot_alone_says_nothing_of_the_log() -> None:
    refused(INVALID_TOKEN, LATER, earlier({}, topic_id=""))


@pytest.mark.parametrize("offsets_max", range(1, 22))
def test_pieces_end_where_the_next_ones_begin(offsets_max: int) -> None:
    """At both sides of the boundary, until everything was read once."""
    at, read = earlier({0: 4, 1: 15}), 0
    while at.end != LATER.end:
        piece = between(LATER, at, offsets_max=offsets_max)
        assert piece.since == at.end
        assert all(piece.boundary[p] <= end for p, end in piece.end.items())
        covered = sum(end - at.end[p] for p, end in piece.end.items())
        assert 0 < covered <= offsets_max
        read, at = read + covered, piece.whole
    assert read == 16


def test_a_piece_leaves_out_later_rows_of_the_snapshot() -> None:
    piece = between(LATER, earlier({0: 0, 1: 0}), offsets_max=7)
    assert piece.end == Offsets({0: 3, 1: 4})
    assert piece.cold_end == piece.end == piece.boundary
    kept = between(LATER, earlier({0: 10, 1: 20}), offsets_max=2)
    assert (kept.end, kept.cold_end) == (Offsets({0: 12, 1: 20}), None)


def test_of_many_partitions_the_least_offset_is_said() -> None:
    many = Offsets({p: 10 + p for p in range(100)})
    later = seams.replace(LATER, boundary=many, end=many)
    found = cold_predicate(between(later, earlier(dict.fromkeys(many, 5))), OWN)
    assert found is not None
    assert describe(found) == "_kafka_offset >= 5"
