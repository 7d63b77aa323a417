"""Checks that a log or table is the intended one and still holds what was seen of it.

Every read relies on names and offsets, and the meaning of both may change a moment later. A topic
or table is recreated under the same name. Retention trims the start of a log. An unclean
leader election loses its end, and other records take their place. A table is rolled back. Planners,
readers, followers, the pipeline and virtual snapshots all use these checks and no others.

A check returns the error it found, or None. Its caller raises the error with `require`, or
translates it for the reader: a token has expired, or a session's history has changed.
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


def require(*errors: SeamlineError | None) -> None:
    """Raises the first of the given errors, if there is one.

    Raises:
        SeamlineError: the first error found.
    """
    for error in errors:
        if error is not None:
            raise error


def history_changed(error: SeamlineError | None) -> SeamlineError | None:
    """Converts an error into HISTORY_CHANGED, for a client that has read before."""
    return error and SeamlineError(HISTORY_CHANGED, error.message, details=error.details)


# --- The same topic? ------------------------------------------------------------------------------


def recreated(topic: str, topic_id: str, expected_id: str) -> SeamlineError | None:
    """Returns an error if a topic is not the expected one, but another with the same name."""
    if topic_id == expected_id:
        return None
    return SeamlineError(
        TOPIC_RECREATED, f"topic {topic} was recreated: its id is {topic_id}, not {expected_id}"
    )


# --- Trimmed? -------------------------------------------------------------------------------------


def trimmed(bounds: LogBounds, starts: Mapping[int, int]) -> SeamlineError | None:
    """Returns an error if a log no longer holds the offsets from the given starts onwards.

    Args:
        bounds: What the log holds.
        starts: The first offset needed, per partition.
    """
    return missing(bounds.topic, bounds.start, starts)


def missing(
    topic: str, log_start: Mapping[int, int], starts: Mapping[int, int]
) -> SeamlineError | None:
    """Returns an error if a log begins after the given starts.

    Args:
        topic: Name of the topic.
        log_start: The first offset that is still kept, per partition.
        starts: The first offset needed, per partition.
    """
    for partition, start in starts.items():
        kept_from = log_start.get(partition, 0)
        if kept_from > start:
            return SeamlineError(
                LOG_TRIMMED,
                f"partition {partition} of topic {topic} starts at {kept_from}, but is "
                f"needed from {start} on: {kept_from - start} offsets are gone",
                details={"partition": partition, "log_start": kept_from, "boundary": start},
            )
    return None


# --- Truncated? -----------------------------------------------------------------------------------


def truncated(bounds: LogBounds, ends: Mapping[int, int]) -> SeamlineError | None:
    """Returns an error if a log ends before offsets that it held earlier.

    Args:
        bounds: What the log holds.
        ends: An exclusive end that the log had earlier, per partition.
    """
    return shortened(bounds.topic, bounds.high_watermark, ends)


def shortened(
    topic: str, offsets: Mapping[int, int], ends: Mapping[int, int]
) -> SeamlineError | None:
    """Returns an error if ends of a log are before earlier ends of the same kind.

    Args:
        topic: Name of the topic.
        offsets: The current ends; a partition that is missing here has nothing left.
        ends: The earlier ends.
    """
    for partition, end in ends.items():
        if offsets.get(partition, 0) < end:
            return SeamlineError(
                LOG_TRUNCATED,
                f"partition {partition} of topic {topic} ends at {offsets.get(partition, 0)}, but "
                f"ended at {end} before: it has lost records",
                details={
                    "partition": partition,
                    "log_end": offsets.get(partition, 0),
                    "boundary": end,
                },
            )
    return None


# --- Another leader? ------------------------------------------------------------------------------


def doubtful(
    bounds: LogBounds, ends: Mapping[int, int], epochs: Mapping[int, int]
) -> tuple[OffsetRange, ...]:
    """Returns ends below which records may have been replaced, as empty ranges to check in the log.

    An unclean election loses the end of a log. Once the log has grown again, offsets alone do not
    reveal the loss, but the leader epoch does: if it has changed, the log knows where each epoch
    ended. Whatever has been trimmed away can no longer be checked, and passes.

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
    """Returns an error if a table is not the expected one, but another with the same name."""
    if state.uuid == table_uuid:
        return None
    return SeamlineError(HISTORY_CHANGED, f"table {state.display_name} was dropped and recreated")


# --- Our table? -----------------------------------------------------------------------------------


def tiered_elsewhere(state: TableState) -> SeamlineError | None:
    """Returns an error if another writer copies the topic into the table: only one writer may."""
    if state.provider is None:
        return None
    return SeamlineError(
        TABLE_TIERED_ELSEWHERE,
        f"table {state.display_name} is filled by another writer (boundary provider "
        f"{state.provider.name}), and is never tiered here",
    )


def outrun(state: TableState, snapshot_id: int | None) -> SeamlineError | None:
    """Returns an error if a Seamline batch landed in a table that was handed over meanwhile.

    The other writer begins with the same rows as that batch.
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
                    "topic by Seamline's pipeline, but another writer was to continue before it",
                    details={"snapshot_id": batch.snapshot_id},
                )
        return None
    return None


# --- Rolled back? ---------------------------------------------------------------------------------


def moved_back(boundary: Mapping[int, int], earlier: Mapping[int, int]) -> bool:
    """Whether a boundary is before an earlier one of the same table in any partition."""
    return any(boundary.get(partition, 0) < offset for partition, offset in earlier.items())


def rolled_back(state: TableState, seam: Seam, earlier: Seam) -> SeamlineError | None:
    """Returns an error if a seam is on a different line of snapshots than an earlier one.

    If part of the line has expired, the earlier seam's foreign change (if any) must still be the
    newest one or still be on the line. Otherwise it can no longer be known whether a later change
    builds on it or replaced it.
    """
    cold, before = seam.cold, earlier.cold
    if before.snapshot_id is None or cold.snapshot_id == before.snapshot_id:
        return None
    line = list(state.ancestors(cold.snapshot_id))
    line_ids = {snapshot.snapshot_id for snapshot in line}
    expired = line[-1].parent_id if line else None
    if before.snapshot_id in line_ids or before.snapshot_id == expired:
        return None
    if expired is None or moved_back(seam.boundary, earlier.boundary):
        problem = f"was rolled back to before snapshot {before.snapshot_id}"
    elif before.foreign_change_id in (None, cold.foreign_change_id, expired, *line_ids):
        return None
    else:
        problem = (
            f"was changed since by others, and snapshot {before.snapshot_id} has expired: "
            "whether their changes build on it is no longer known"
        )
    return SeamlineError(HISTORY_CHANGED, f"table {state.display_name} {problem}")


# --- After a read ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class LogRead:
    """What was read from a log, and the state the log was assumed to be in.

    Attributes:
        topic: Name of the topic.
        topic_id: The id that the topic must have.
        isolation: The isolation level it was read under.
        ranges: The ranges that were read.
        end: Exclusive ends the log was found to have before the read, per partition.
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
        """Describes a read of ranges of a seam's tail."""
        log = seam.log
        return cls(log.topic, log.topic_id, log.isolation, tuple(ranges), seam.end, log.end_epochs)

    @classmethod
    def within(cls, bounds: LogBounds, ranges: Sequence[OffsetRange]) -> LogRead:
        """Describes a read of ranges that are within what the log was found to hold."""
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
    """Returns an error if a read cannot be trusted, judging by what the log holds afterwards.

    If the topic is still the same, it was the same all the time. If the log still starts no later
    than the read did, nothing was trimmed away during the read. The log's end must be unchanged or
    have grown. Callers must check `doubtful` as well.
    """
    return (
        recreated(read.topic, bounds.topic_id, read.topic_id)
        or trimmed(bounds, read.starts)
        or truncated(bounds, {r.partition: r.end_exclusive for r in read.ranges})
    )
