"""Followers in the simulator's one thread: they read where a statement waits, and nowhere else.

What they ask the log passes through the plan of whoever waits for them, so that others come between
there, too.
"""

from __future__ import annotations

import logging
import math
import pathlib
from collections.abc import Callable, Mapping

import pyarrow as pa
from fakes.memory import Row

from seamline.connectors.protocols.engine_tails import SpilledTail
from seamline.connectors.protocols.hot_logs import FollowableLog
from seamline.gateway.tail.follower import Follower
from seamline.gateway.tail.followers import Budget, Followers
from seamline.gateway.tail.source import FollowedTable
from seamline.seam.offsets import Offsets
from seamline.sql import columns as names

Follow = Callable[[FollowableLog], Followers]
"""Makes the followers of a gateway that has one cluster."""

_BUDGET = Budget(memory_bytes=2**40, disk_bytes=0, idle_seconds=math.inf)
_NOWHERE = pathlib.Path("nothing is spilled")

logging.getLogger("seamline.tail").addHandler(logging.NullHandler())


class OneThread(Followers):
    """Followers without threads, of tables with the columns of the first schema.

    The decoder cannot give the columns that later ones have.

    Args:
        log: The cluster.
    """

    def __init__(self, log: FollowableLog) -> None:
        super().__init__(lambda _: log, _BUDGET, _NOWHERE, readers=0)

    def follow(
        self,
        table: FollowedTable,
        cluster: str,
        boundary: Offsets,
        epochs: Mapping[int, int],
        asked_at: float,
    ) -> Follower | None:
        """See `Followers.follow`."""
        if table.source.schema_id:
            return None
        return super().follow(table, cluster, boundary, epochs, asked_at)


def rows_of(tail: list[Row] | pa.Table | SpilledTail) -> list[Row]:
    """The rows of a tail, whoever gave it."""
    if isinstance(tail, list):
        return tail
    assert isinstance(tail, pa.Table)
    asked = (names.PARTITION, names.OFFSET, "value")
    columns = (tail.column(name).to_pylist() for name in asked)
    return [(*row, None) for row in zip(*columns, strict=True)]
