"""Goal: no task of Spark's is for a few records, and none reads a partition in two places.

Method: ranges of random partitions and lengths.
"""

from __future__ import annotations

import random

from seamline.connectors.spark import splits
from seamline.seam.offsets import OffsetRange


def test_small_ranges_share_a_task() -> None:
    small = [OffsetRange(partition, 100, 300) for partition in range(100)]
    assert list(splits._together(small)) == [tuple(small)]


def test_shared_ranges_are_bounded_and_all_there() -> None:
    chance = random.Random(1)
    for _ in range(200):
        parts = [
            OffsetRange(partition, start, start + chance.choice([1, 900, 24_000, 250_000]))
            for partition in range(chance.randint(1, 8))
            for start in range(0, chance.randint(1, 3) * 250_000, 250_000)
        ]
        shared = list(splits._together(parts))
        assert [part for one in shared for part in one] == parts
        for one in shared:
            assert len({part.partition for part in one}) == len(one)
            assert len(one) == 1 or sum(map(len, one)) <= splits._SHARED_OFFSETS
