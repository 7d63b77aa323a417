"""Checks: whether a log is the one that is meant, and still holds what was seen of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from seamline.errors import LOG_TRIMMED, LOG_TRUNCATED, TOPIC_RECREATED, SeamlineError
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets


@dataclasses.dataclass(frozen=True, slots=True)
class LogRead:
    """What was read of a log, and what it was taken for.

    Attributes:
        topic: Name of the topic.
        topic_id: The id that it must have.
        isolation: What it was read under.
        ranges: What was read.
        end: Exclusive ends the log was found to have before, per partition.
        end_epochs: Leader epochs of then, where known.
    """

    topic: str
    topic_id: str
    isolation: str
    ranges: tuple[OffsetRange, ...]
    end: Offsets
    end_epochs: Offsets


def check_same_topic(topic: str, topic_id: str, wanted_id: str) -> None:
    """A topic must be the one that is meant, not another of the same name.

    Raises:
        SeamlineError: TOPIC_RECREATED.
    """
    if topic_id != wanted_id:
        raise SeamlineError(
            TOPIC_RECREATED, f"topic {topic} was created again: it is {topic_id}, not {wanted_id}"
        )


def check_holds(bounds: LogBounds, ranges: Sequence[OffsetRange]) -> None:
    """The log must hold ranges that it held when they were read.

    Raises:
        SeamlineError: LOG_TRIMMED, LOG_TRUNCATED.
    """
    for wanted in ranges:
        place = f"partition {wanted.partition} of topic {bounds.topic}"
        kept_from = bounds.start.get(wanted.partition, 0)
        if kept_from > wanted.start:
            raise SeamlineError(
                LOG_TRIMMED,
                f"{place} was trimmed to {kept_from} while it was read from {wanted.start}",
                details={
                    "partition": wanted.partition,
                    "log_start": kept_from,
                    "boundary": wanted.start,
                },
            )
        end = bounds.high_watermark.get(wanted.partition, 0)
        if end < wanted.end_exclusive:
            raise SeamlineError(
                LOG_TRUNCATED,
                f"{place} now ends at {end}: it was read to {wanted.end_exclusive}",
                details={"partition": wanted.partition, "log_end": end},
            )
