"""Checks that a tail holds the newest record of every key, even if its topic is compacted.

It does if no record of it was gone when it was read, or if every such record has been replaced
below its end. Otherwise the end has to be a later one, and the statement is read afresh. What was
learned about the part that has been read already is kept, so that only the short part that has
arrived since can raise the same question again. See `seam.compaction`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from seamline.connectors.cache import Cache
from seamline.connectors.kafka.continuity import Overtaken, overtaken
from seamline.connectors.kafka.tail import Looked
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.catalogs.connections import Sources
from seamline.planners.plan.physical import TailRead
from seamline.seam import compaction
from seamline.seam.compaction import Seen
from seamline.seam.history_checks import LogRead
from seamline.seam.offsets import Offsets

_KNOWN_MAX = 256
_LOOKED_OFFSETS_MAX = 100_000_000
"""The maximum number of offsets that are looked at; each takes one byte of memory."""

Settle = Callable[[float, Offsets], None]
"""Takes a moment, and the offsets below which everything that was gone by then has been
replaced."""


class _Part(NamedTuple):
    cluster: str
    topic_id: str
    isolation: str
    partition: int
    leader_epoch: int | None
    """Another leader may have lost what had replaced the records that were gone."""


class _Known(NamedTuple):
    """What a partition held when it was read, and below which offset its gaps were replaced."""

    seen: Seen
    replaced_below: int


class NewestOfKeys:
    """Checks tails of upsert tables. Safe to share between threads."""

    def __init__(self, connections: Sources) -> None:
        self._connections = connections
        self._known: Cache[_Part, _Known] = Cache(_KNOWN_MAX)

    def check(
        self,
        request: TailRead,
        seen: Sequence[Seen],
        cached: Mapping[int, int | None],
        settle: Settle,
        deadline: Deadline,
    ) -> None:
        """Checks that a tail that was read here holds the newest record of every key.

        Args:
            request: The tail.
            seen: Which offsets had records, in the ranges that were read from the log for it.
            cached: Per cached partition, the offset below which everything that was missing from it
                has been replaced; None where that is not known.
            settle: Notes what is learned about the cached partitions.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: READ_CONFLICT when it may not hold them; otherwise as
                `continuity.check_read`.
        """
        ends = {r.partition: r.end_exclusive for r in request.ranges}
        doubtful = {p for p, below in cached.items() if below is None or below > ends[p]}
        unknown = self._unknown(request, seen)
        doubtful |= {part.range.partition for part in unknown}
        if doubtful:
            asked_at = time.monotonic()
            overtaken = self._overtaken(request, doubtful, deadline)
            settle(asked_at, overtaken.replaced_below)
            self._conclude(request, unknown, overtaken)

    def check_left(self, request: TailRead, deadline: Deadline) -> None:
        """Checks the same for a tail that Spark's workers have read, where gaps are unknown.

        What is still in the log was there for them, too, so the log is read again where that
        matters.

        Raises:
            SeamlineError: as `check`.
        """
        doubtful = {r.partition for r in request.ranges}
        overtaken = self._overtaken(request, doubtful, deadline)
        if not overtaken.ends:
            return
        ranges = [r for r in request.ranges if r.partition in overtaken.ends]
        if sum(map(len, ranges)) > _LOOKED_OFFSETS_MAX:
            self._conclude(request, (), overtaken)
        looked, seam = Looked(ranges), request.seam
        log = self._log(request)
        for records in log.read(seam.log.topic, ranges, seam.log.isolation, deadline):
            looked.at(records)
        unknown = self._unknown(request, looked.seen)
        if unknown:
            doubtful = {part.range.partition for part in unknown}
            self._conclude(request, unknown, self._overtaken(request, doubtful, deadline))

    def _unknown(self, request: TailRead, seen: Sequence[Seen]) -> list[Seen]:
        """Returns the parts of a tail that may lack records that were replaced past its end."""
        return [s for s in seen if not s.is_whole and not self._is_known(request, s)]

    def _is_known(self, request: TailRead, seen: Seen) -> bool:
        newest = self._known.get(_part(request, seen.range.partition))
        if newest is None or newest.replaced_below > seen.range.end_exclusive:
            return False
        return seen.continues(newest.seen)

    def _overtaken(self, request: TailRead, partitions: set[int], deadline: Deadline) -> Overtaken:
        read = LogRead.of(request.seam, request.ranges)
        return overtaken(self._log(request), read, sorted(partitions), deadline)

    def _conclude(self, request: TailRead, unknown: Sequence[Seen], overtaken: Overtaken) -> None:
        for part in unknown:
            below = overtaken.replaced_below[part.range.partition]
            self._known.put(_part(request, part.range.partition), _Known(part, below))
        if overtaken.ends:
            raise compaction.conflict(request.seam.log.topic, overtaken.ends)

    def _log(self, request: TailRead) -> HotLog:
        return self._connections.log(request.seam.log.cluster)


def _part(request: TailRead, partition: int) -> _Part:
    seam = request.seam
    epoch = seam.log.end_epochs.get(partition)
    return _Part(seam.log.cluster, seam.log.topic_id, seam.log.isolation, partition, epoch)
