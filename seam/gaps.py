"""Gaps: records that a log lost before they were in the table, and whose loss was accepted.

A boundary names the gaps of its snapshot, and its descendants inherit them, so a snapshot says what
it lacks. A read over a gap is exact about the records that exist. Neighbouring gaps are one. There
is a bound on their number, past which the nearest are named together: such a gap covers records
that exist, and says how many do not. Pure.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

GAPS_MAX = 64
"""With more gaps than this, those of a partition are named together, nearest first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Lost records of one partition.

    Attributes:
        topic_id: Kafka's id of the topic.
        partition: The partition.
        start: The first offset that was lost.
        end_exclusive: The offset after the last one.
        offsets: How many were lost; there were at most as many records.
        accepted_ms: When the loss was accepted, in milliseconds since the epoch.
        accepted_by: Who accepted it.
    """

    topic_id: str
    partition: int
    start: int
    end_exclusive: int
    offsets: int
    accepted_ms: int = 0
    accepted_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns all fields."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Gap:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: when it is not a gap.
        """
        return cls(
            topic_id=str(body["topic_id"]),
            partition=int(body["partition"]),
            start=int(body["start"]),
            end_exclusive=int(body["end_exclusive"]),
            offsets=int(body["offsets"]),
            accepted_ms=int(body.get("accepted_ms", 0)),
            accepted_by=str(body.get("accepted_by", "")),
        )


def merged(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Returns the same gaps in order: neighbours joined, and no more of them than there may be."""
    in_order = sorted(gaps, key=lambda gap: (gap.topic_id, gap.partition, gap.start))
    in_order = _joined(in_order, 0)
    while len(in_order) > GAPS_MAX:
        between = [
            other.start - one.end_exclusive
            for one, other in itertools.pairwise(in_order)
            if _is_same_partition(one, other)
        ]
        if not between:
            break  # one for each partition
        in_order = _joined(in_order, min(between))
    return tuple(in_order)


def _joined(gaps: list[Gap], distance_max: int) -> list[Gap]:
    joined: list[Gap] = []
    for gap in gaps:
        last = joined[-1] if joined else None
        if (
            last is not None
            and _is_same_partition(last, gap)
            and gap.start - last.end_exclusive <= distance_max
        ):
            joined[-1] = _union(last, gap)
        else:
            joined.append(gap)
    return joined


def _union(one: Gap, other: Gap) -> Gap:
    """Returns two gaps as one, which was accepted when the later was."""
    later = max(one, other, key=lambda gap: gap.accepted_ms)
    end = max(one.end_exclusive, other.end_exclusive)
    return dataclasses.replace(
        later,
        start=one.start,
        end_exclusive=end,
        offsets=min(one.offsets + other.offsets, end - one.start),
    )


def _is_same_partition(one: Gap, other: Gap) -> bool:
    return (one.topic_id, one.partition) == (other.topic_id, other.partition)


def below(gaps: Iterable[Gap], topic_id: str, end: Mapping[int, int]) -> tuple[Gap, ...]:
    """Returns what is in a log's gaps below an end, per partition."""
    kept = []
    for gap in gaps:
        stop = min(gap.end_exclusive, end.get(gap.partition, 0))
        if gap.topic_id == topic_id and gap.start < stop:
            offsets = min(gap.offsets, stop - gap.start)
            kept.append(dataclasses.replace(gap, end_exclusive=stop, offsets=offsets))
    return tuple(kept)


def same_below(
    one: Iterable[Gap], other: Iterable[Gap], topic_id: str, end: Mapping[int, int]
) -> bool:
    """Whether the same offsets of a log are missing below an end, whenever that was accepted."""
    return _ranges(below(one, topic_id, end)) == _ranges(below(other, topic_id, end))


def _ranges(gaps: Iterable[Gap]) -> list[tuple[int, int, int]]:
    return [(gap.partition, gap.start, gap.end_exclusive) for gap in merged(gaps)]


def past(gaps: Iterable[Gap], partition: int, offset: int) -> int:
    """Returns the offset, or the end of the gap that it is in."""
    for gap in gaps:
        is_whole = gap.offsets == gap.end_exclusive - gap.start
        if is_whole and gap.partition == partition and gap.start <= offset < gap.end_exclusive:
            return gap.end_exclusive
    return offset
