"""What a follower has cached, in numbers: for `t$tail` and the metrics."""

from __future__ import annotations

import dataclasses

from seamline.gateway.tail.follower import Follower


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a followed topic.

    Attributes:
        partition: Its number.
        cached_from: First offset cached.
        position: First offset not read yet.
        end: The log's end as last seen.
        segments: Segments cached, including those on disk.
        segments_on_disk: Those on disk.
        rows: Rows in all of them.
        memory_bytes: Bytes they take in memory.
        disk_bytes: Bytes they take on disk.
    """

    partition: int
    cached_from: int
    position: int
    end: int
    segments: int
    segments_on_disk: int
    rows: int
    memory_bytes: int
    disk_bytes: int

    @property
    def lag(self) -> int:
        """Offsets that are in the log but not cached."""
        return self.end - self.position


def status(follower: Follower) -> list[PartitionStatus]:
    """Returns the status of each partition of a follower."""
    ends = follower.ends
    rows = []
    for partition, cached in follower.partitions.items():
        on_disk = [s for s in cached.segments if s.file is not None]
        in_memory = [s for s in cached.segments if s.file is None]
        rows.append(
            PartitionStatus(
                partition=partition,
                cached_from=cached.cached_from,
                position=cached.position,
                end=max(cached.position, ends.get(partition, 0)),
                segments=len(cached.segments),
                segments_on_disk=len(on_disk),
                rows=sum(s.row_count for s in cached.segments),
                memory_bytes=sum(s.size_bytes for s in in_memory),
                disk_bytes=sum(s.size_bytes for s in on_disk),
            )
        )
    return rows
