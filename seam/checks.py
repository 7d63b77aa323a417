"""Every check that a log or a table is the one that is meant, and still holds what was seen of it.

Every read goes by names and offsets, and both may mean something else a moment later: a
topic or a table is created again under its name, retention trims the start of a log, an unclean
election loses its end and other records take their place, a table is rolled back. Planners,
readers, followers, the pipeline and virtual snapshots ask here, and nowhere else.

A check returns the error that it found, or None. Its caller raises that with `require`, or says
what it means to the reader: that a token has expired, that a session's history has changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from seamline.errors import (
    HISTORY_CHANGED,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    SECOND_WRITER,
    TABLE_TIERED_ELSEWHERE,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.seam.boundary import Boundary, decode
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import TableState


def require(*found: SeamlineError | None) -> None:
    """Raises the first error there is.

    Raises:
        SeamlineError: that one.
    """
    for error in found:
        if error is not None:
            raise error


def history_changed(found: SeamlineError | None) -> SeamlineError | None:
    """What was found, as an error for a client that has read before."""
    return found and SeamlineError(HISTORY_CHANGED, found.message, details=found.details)


# --- The same topic? ------------------------------------------------------------------------------


def recreated(topic: str, topic_id: str, expected_id: str) -> SeamlineError | None:
    """Whether a topic is not the one that is meant, but another of its name."""
    if topic_id == expected_id:
        return None
    return SeamlineError(
        TOPIC_RECREATED, f"topic {topic} was created again: its id is {topic_id}, not {expected_id}"
    )


# --- Trimmed? -------------------------------------------------------------------------------------


def trimmed(bounds: LogBounds, starts: Mapping[int, int]) -> SeamlineError | None:
    """Whether a log no longer holds the offsets from the given starts on.

    Args:
        bounds: What the log holds.
        starts: Per partition the first offset that is needed.
    """
    for partition, start in starts.items():
        kept_from = bounds.start.get(partition, 0)
        if kept_from > start:
            return SeamlineError(
                LOG_TRIMMED,
                f"partition {partition} of topic {bounds.topic} starts at {kept_from}, and is "
                f"needed from {start} on: {kept_from - start} offsets are gone",
                details={"partition": partition, "log_start": kept_from, "boundary": start},
            )
    return None


# --- Truncated? -----------------------------------------------------------------------------------


def truncated(bounds: LogBounds, ends: Mapping[int, int]) -> SeamlineError | None:
    """Whether a log ends before offsets that it has held.

    Args:
        bounds: What the log holds.
        ends: Per partition an exclusive end that it had.
    """
    return shortened(bounds.topic, bounds.high_watermark, ends)


def shortened(
    topic: str, found: Mapping[int, int], ends: Mapping[int, int]
) -> SeamlineError | None:
    """Whether ends of a log lie before those of the same kind that it had earlier.

    Args:
        topic: Name of the topic.
        found: The ends; a partition that is not among them has nothing left.
        ends: The earlier ones.
    """
    for partition, end in ends.items():
        if found.get(partition, 0) < end:
            return SeamlineError(
                LOG_TRUNCATED,
                f"partition {partition} of topic {topic} ends at {found.get(partition, 0)}, and "
                f"has ended at {end} before: it has lost records",
                details={
                    "partition": partition,
                    "log_end": found.get(partition, 0),
                    "boundary": end,
                },
            )
    return None


# --- Another leader? ------------------------------------------------------------------------------


def doubtful(
    bounds: LogBounds, ends: Mapping[int, int], epochs: Mapping[int, int]
) -> tuple[OffsetRange, ...]:
    """Ends below which other records may lie by now, as empty ranges to ask the log about.

    An unclean election loses the end of a log, and once it has grown again offsets alone do not
    show that. A leader's epoch does: where it has changed, the log knows where each epoch ended.
    What has been trimmed away can no longer be checked, and passes.

    Args:
        bounds: What the log holds now.
        ends: Exclusive ends of what was seen, per partition.
        epochs: The leader epochs at that time, where known.
    """
    return tuple(
        OffsetRange(partition, end, end)
        for partition, end in ends.items()
        if end > 0
        and end >= bounds.start.get(partition, 0)
        and partition in epochs
        and bounds.leader_epochs.get(partition, epochs[partition]) != epochs[partition]
    )


# --- The same table? ------------------------------------------------------------------------------


def dropped(state: TableState, table_uuid: str) -> SeamlineError | None:
    """Whether a table is not the one that is meant, but another of its name."""
    if state.uuid == table_uuid:
        return None
    return SeamlineError(
        HISTORY_CHANGED, f"table {state.display_name} was dropped and created again"
    )


# --- Our table? -----------------------------------------------------------------------------------


def tiered_elsewhere(state: TableState) -> SeamlineError | None:
    """Whether another writer copies the topic into a table, so that nobody else may."""
    if state.provider is None:
        return None
    return SeamlineError(
        TABLE_TIERED_ELSEWHERE,
        f"table {state.display_name} is filled by another writer (boundary provider "
        f"{state.provider.name}), and never tiered here",
    )


def outrun(state: TableState, snapshot_id: int | None) -> SeamlineError | None:
    """Whether a batch of ours has landed in a table that was handed over while it was written.

    Its rows are those that the other writer begins with.
    """
    since: set[int] = set()
    batches: list[Boundary] = []
    for snapshot in state.ancestors(snapshot_id):
        since.add(snapshot.snapshot_id)
        boundary = decode(snapshot)
        if boundary is None:
            continue
        if not boundary.handed_to:
            batches.append(boundary)
            continue
        for batch in batches:
            if batch.base_id not in since:
                return SeamlineError(
                    SECOND_WRITER,
                    f"snapshot {batch.snapshot_id} of {state.display_name} has records of the "
                    "topic by Seamline's pipeline, and another writer was to go on before it",
                    details={"snapshot_id": batch.snapshot_id},
                )
        return None
    return None


# --- Rolled back? ---------------------------------------------------------------------------------


def moved_back(boundary: Mapping[int, int], earlier: Mapping[int, int]) -> bool:
    """Whether a boundary lies before an earlier one of its table in any partition."""
    return any(boundary.get(partition, 0) < offset for partition, offset in earlier.items())


def rolled_back(state: TableState, seam: Seam, earlier: Seam) -> SeamlineError | None:
    """Whether a seam is on another line of snapshots than an earlier one of its table.

    Where a part of the line has expired, what others changed on it must be what it was: whether a
    later change builds on an earlier one, or replaced it, can no longer be known.
    """
    if earlier.snapshot_id is None or seam.snapshot_id == earlier.snapshot_id:
        return None
    line = list(state.ancestors(seam.snapshot_id))
    known = {snapshot.snapshot_id for snapshot in line}
    expired = line[-1].parent_id if line else None
    if earlier.snapshot_id in known or earlier.snapshot_id == expired:
        return None
    if expired is None or moved_back(seam.boundary, earlier.boundary):
        problem = f"was rolled back behind snapshot {earlier.snapshot_id}"
    elif seam.foreign_change_id == earlier.foreign_change_id or earlier.foreign_change_id in (
        None,
        expired,
        *known,
    ):
        return None
    else:
        problem = (
            f"was changed since by others, and snapshot {earlier.snapshot_id} has expired: "
            "whether their changes stand on it can no longer be told"
        )
    return SeamlineError(HISTORY_CHANGED, f"table {state.display_name} {problem}")


# --- After a read ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class LogRead:
    """What was read of a log, and what it was taken for.

    Attributes:
        topic: Name of the topic.
        topic_id: The id that it must have.
        isolation: What it was read under.
        ranges: What was read.
        end: Exclusive ends the log was found to have before, per partition.
        end_epochs: Leader epochs at that time, where known.
    """

    topic: str
    topic_id: str
    isolation: str
    ranges: tuple[OffsetRange, ...]
    end: Offsets
    end_epochs: Offsets

    @classmethod
    def of(cls, seam: Seam, ranges: Sequence[OffsetRange]) -> LogRead:
        """A read of ranges of a seam's tail."""
        return cls(
            seam.topic, seam.topic_id, seam.isolation, tuple(ranges), seam.end, seam.end_epochs
        )

    @classmethod
    def within(cls, bounds: LogBounds, ranges: Sequence[OffsetRange]) -> LogRead:
        """A read of ranges that lie within what the log was found to hold."""
        return cls(
            bounds.topic,
            bounds.topic_id,
            bounds.isolation,
            tuple(ranges),
            bounds.end,
            bounds.leader_epochs,
        )

    @property
    def starts(self) -> dict[int, int]:
        """The first offset read of each partition."""
        return {r.partition: r.start for r in self.ranges}

    @property
    def ends(self) -> dict[int, int]:
        """Ends the log must still have in the partitions that were read."""
        return {r.partition: max(r.end_exclusive, self.end[r.partition]) for r in self.ranges}


def spoiled(bounds: LogBounds, read: LogRead) -> SeamlineError | None:
    """Whether a read proves nothing, by what the log holds after it; `doubtful` is asked besides.

    The topic is still the same, so it was the same all the time. The log still starts no later than
    the read did, so nothing was trimmed away under it. Its end is what it was or has grown.
    """
    return (
        recreated(read.topic, bounds.topic_id, read.topic_id)
        or trimmed(bounds, read.starts)
        or truncated(bounds, {r.partition: r.end_exclusive for r in read.ranges})
    )
