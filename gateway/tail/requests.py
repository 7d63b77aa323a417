"""Requests for tails, and what answers them: the values and Protocols around `tails`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from seamline.connectors.cache import Cache
from seamline.connectors.kafka.tail import Tail
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.tail.source import FollowedTable, RowSource
from seamline.planners.plan.physical import TailRead
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam


@dataclasses.dataclass(frozen=True, slots=True)
class CachedEnds:
    """Ends of a topic that are known without asking the log.

    Attributes:
        bounds: What is cached, in the form of a log's bounds, which do not show the leaders of now.
        epochs: Leader epochs that show whether a log still holds what is cached, where known.
        as_of: Every record committed before this moment is below the ends.
        complete_at: The same moment on the monotonic clock.
    """

    bounds: LogBounds
    epochs: Offsets
    as_of: datetime.datetime
    complete_at: float

    def with_epochs(self, seam: Seam) -> Seam:
        """Returns a seam with the leader epochs of its ends: the table's where it holds all."""
        at_ends = {
            partition: self.epochs if seam.boundary[partition] < end else seam.cold.epochs
            for partition, end in seam.end.items()
        }
        end_epochs = Offsets({p: epochs[p] for p, epochs in at_ends.items() if p in epochs})
        return dataclasses.replace(seam, log=dataclasses.replace(seam.log, end_epochs=end_epochs))


class TailRows(Protocol):
    """Reads the rows of a log: all that the catalog needs to know about tails."""

    def read(self, request: TailRead, deadline: Deadline) -> Tail:
        """Returns the decoded rows of ranges of a seam's log, all in memory.

        Args:
            request: The seam, and ranges within its tail; the log must still be the seam's own.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: BAD_RECORD, LOG_TRIMMED, TOPIC_RECREATED, TAIL_TOO_LARGE,
                KAFKA_UNAVAILABLE.
        """


class TailReader(Protocol):
    """Reads and decodes a tail; implemented by `read_tail`."""

    def __call__(
        self,
        log: HotLog,
        ranges: Sequence[OffsetRange],
        isolation: str,
        spec: DecoderSpec,
        names: Sequence[str],
        deadline: Deadline,
        *,
        size_bytes_max: int,
        add_bytes: Callable[[int], None],
        epochs: Mapping[int, int] | None = None,
    ) -> Tail:
        """See `read_tail`."""


_SOURCES_MAX = 256
_sources: Cache[int, RowSource] = Cache(_SOURCES_MAX)
"""By the id of their decoder, which they keep: while they do, no other decoder has it."""


def followed_table(seam: Seam, decoder: DecoderSpec) -> FollowedTable:
    """Returns what a follower that serves a seam follows."""
    source = _sources.get(id(decoder))
    own = seam.log.topic_id, seam.log.isolation, seam.schema_id
    if source is None or own != (source.topic_id, source.isolation, source.schema_id):
        source = RowSource(seam.log.topic_id, seam.log.isolation, decoder, seam.schema_id)
        _sources.put(id(decoder), source)
    return FollowedTable(seam.table, seam.table_uuid, source)


def length_of(ranges: Sequence[OffsetRange]) -> int:
    """Returns the number of offsets in all ranges together."""
    return sum(len(r) for r in ranges)


def ends_cached(ranges: Sequence[OffsetRange], missing: Sequence[OffsetRange]) -> Mapping[int, int]:
    """Returns the ends up to which each partition's rows come from the follower."""
    ends = {r.partition: r.end_exclusive for r in ranges if r not in missing}
    for gap in missing:
        if gap.end_exclusive == ends.get(gap.partition):
            ends[gap.partition] = gap.start
    return ends
