"""What is asked of tails, and who answers: the values and Protocols around `tails`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Protocol

from seamline.connectors.kafka.formats.decoder import DecoderSpec
from seamline.connectors.kafka.tail import Tail
from seamline.connectors.protocols import Deadline, HotLog
from seamline.gateway.tail.lineage import Lineage, Subject
from seamline.planners.physical import TailRead
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import Seam
from seamline.sql.predicates import Predicate


@dataclasses.dataclass(frozen=True, slots=True)
class TailRequest:
    """What a statement needs of one table's log.

    Attributes:
        seam: The cut of the table.
        ranges: What to read, within the seam's tail.
        epochs: See `HotLog.read`.
        decoder: How records are decoded.
        wanted: Columns to keep.
        predicate: Rows for which it is not true may be left out.
        present: Whether the seam is the table's present one.
        pinned_at: A moment on the monotonic clock before the table was loaded.
        asked_at: A moment before the log was asked for the ends; None when it was not.
    """

    seam: Seam
    ranges: tuple[OffsetRange, ...]
    epochs: Offsets
    decoder: DecoderSpec
    wanted: tuple[str, ...]
    predicate: Predicate | None
    present: bool
    pinned_at: float
    asked_at: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class HeldCut:
    """Ends of a topic that were not asked of the log.

    Attributes:
        bounds: What is held here, as the log would say it.
        as_of: Every record committed before this moment is below the ends.
    """

    bounds: LogBounds
    as_of: datetime.datetime


class TailRows(Protocol):
    """Gives the rows of a log: all that the catalog needs to know of tails."""

    def read(
        self, wanted: TailRead, decoder: DecoderSpec, columns: Sequence[str], deadline: Deadline
    ) -> Tail:
        """The decoded rows of ranges of a seam's log, all of them in memory.

        Args:
            wanted: The seam and the ranges: within its tail, of a log that must still be its own.
            decoder: How records are decoded.
            columns: Columns to keep.
            deadline: The statement's.

        Raises:
            SeamlineError: BAD_RECORD, LOG_TRIMMED, TOPIC_RECREATED, TAIL_TOO_LARGE,
                KAFKA_UNAVAILABLE.
        """


class TailReader(Protocol):
    """Reads and decodes a tail; `read_tail` is the one."""

    def __call__(
        self,
        log: HotLog,
        ranges: Sequence[OffsetRange],
        isolation: str,
        spec: DecoderSpec,
        wanted: Sequence[str],
        deadline: Deadline,
        *,
        size_bytes_max: int,
        epochs: Mapping[int, int] | None = None,
    ) -> Tail:
        """See `read_tail`."""


def of_whatever_age(wanted: TailRead, decoder: DecoderSpec, columns: Sequence[str]) -> TailRequest:
    """A request of somebody who does not say when the seam was placed."""
    return TailRequest(
        seam=wanted.seam,
        ranges=wanted.ranges,
        epochs=wanted.epochs,
        decoder=decoder,
        wanted=tuple(columns),
        predicate=None,
        present=False,
        pinned_at=0.0,
        asked_at=None,
    )


def subject_of(seam: Seam, decoder: DecoderSpec) -> Subject:
    """What a follower that serves a seam follows."""
    lineage = Lineage(seam.topic_id, seam.isolation, decoder, seam.schema_id)
    return Subject(seam.table, seam.table_uuid, lineage)


def length_of(ranges: Sequence[OffsetRange]) -> int:
    """Offsets of all ranges together."""
    return sum(len(r) for r in ranges)


def ends_held(ranges: Sequence[OffsetRange], missing: Sequence[OffsetRange]) -> Mapping[int, int]:
    """Up to where each partition's rows come from the follower."""
    ends = {r.partition: r.end_exclusive for r in ranges if r not in missing}
    for gap in missing:
        if gap.end_exclusive == ends.get(gap.partition):
            ends[gap.partition] = gap.start
    return ends
