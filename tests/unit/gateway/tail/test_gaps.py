"""What is known about the gaps of a cached partition, and of what was read in addition."""

from __future__ import annotations

import pytest

from seamline.connectors.kafka.tail import Looked
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.tail.gaps import NO_GAPS, Span, gaps_in
from seamline.seam.compaction import Seen
from seamline.seam.offsets import OffsetRange


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([3, 4, 5, 6], None),
        ([4, 5, 6], (3, 4)),
        ([3, 4, 5], (6, 7)),
        ([3, 6], (4, 6)),
        ([4, 6], (3, 6)),
        ([], (3, 7)),
    ],
)
def test_where_a_part_has_no_records(offsets: list[int], found: Span | None) -> None:
    assert gaps_in(OffsetRange(0, 3, 7), offsets) == found


def test_what_was_replaced_is_known_once_the_log_was_asked_afterwards() -> None:
    gaps = NO_GAPS.read(None, 1.0)
    assert gaps.replaced(0, 9) == 0
    gaps = gaps.read((3, 5), 2.0)
    assert gaps.settled(2.0, 9) == gaps, "perhaps asked before it was read"
    assert gaps.replaced(0, 9) is None
    assert gaps.replaced(5, 9) == gaps.replaced(0, 3) == 0, "they lie elsewhere"
    known = gaps.settled(3.0, 9)
    assert known.replaced(0, 9) == 9
    assert known.replaced(5, 9) == 0
    more = known.read((7, 8), 4.0).read((10, 12), 5.0)
    assert more.replaced(0, 7) == 9
    assert more.replaced(0, 8) is more.replaced(11, 12) is None
    assert more.settled(6.0, 14).replaced(0, 12) == 14
    assert more.settled(6.0, 14).settled(7.0, 12).replaced(0, 12) == 12, "more is known by now"
    assert more.settled(6.0, 14).settled(7.0, 16).replaced(0, 12) == 14


def seen(start: int, end: int, *offsets: int) -> Seen:
    looked = Looked([OffsetRange(1, start, end)])
    other = [0] * len(offsets)
    for partitions in (other, [1] * len(offsets)):
        looked.at(RawBatch(partitions, offsets, [], [], [], []))
    (found,) = looked.seen
    return found


def test_a_later_reading_continues_an_earlier_one_of_which_nothing_has_gone() -> None:
    earlier = seen(10, 20, 10, 12, 19)
    assert not earlier.is_whole
    assert seen(10, 13, 10, 11, 12).is_whole
    assert seen(10, 10).is_whole, "nothing can be missing of nothing"
    assert seen(10, 20, 10, 12, 19).continues(earlier)
    assert seen(10, 22, 10, 12, 19, 20, 21).continues(earlier)
    assert seen(12, 22, 12, 19, 20, 21).continues(earlier), "the rest has been tiered"
    assert seen(20, 22, 20, 21).continues(earlier)
    assert not seen(10, 22, 10, 12, 19, 21).continues(earlier), "a gap in what has come since"
    assert not seen(10, 22, 10, 19, 20, 21).continues(earlier), "one more has gone"
    assert not seen(9, 22, 9, 10, 12, 19, 20, 21).continues(earlier), "it begins before"
    assert not seen(10, 19, 10, 12).continues(earlier), "it ends before"
