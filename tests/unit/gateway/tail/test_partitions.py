"""Goal: what a follower knows of its partitions costs as much as there is of it.

Method: partitions are asked for their positions, and the questions are counted.
"""

from __future__ import annotations

from typing import cast

import pytest

from seamline.gateway.tail.partitions import CachedPartitions, PartitionRead
from seamline.gateway.tail.store import SegmentStore
from seamline.seam.offsets import OffsetRange

COUNT = 300


class CountingPartitions(CachedPartitions):
    """Counts how often a position is asked for."""

    asks = 0

    def position(self, partition: int) -> int:
        self.asks += 1
        return super().position(partition)


@pytest.mark.parametrize("order", [1, -1])
def test_waiting_for_many_partitions_asks_for_few_of_them_each_time(order: int) -> None:
    partitions = CountingPartitions(cast("SegmentStore", None))  # there are no segments
    for number in range(COUNT):
        partitions.add(number, 0, None, None, 0.0)
    left = [(number, 1) for number in range(COUNT)]
    answers = []
    for number in range(COUNT)[::order]:
        answers.append(partitions.have_reached(left))
        partitions.publish(PartitionRead(OffsetRange(number, 0, 1), None, None, None), 1.0)
    assert partitions.have_reached(left)
    assert not any(answers)
    assert partitions.asks <= 2 * COUNT
