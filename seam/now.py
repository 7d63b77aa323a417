"""The current seam: the newest snapshot, and the log from its boundary to its end.

Pure, and fails closed: if the two tiers cannot be proven to meet without a gap or an overlap, the
answer is a named error, never fewer or more rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.seam.boundary import ColdSide
from seamline.seam.gaps import below
from seamline.seam.history_checks import recreated, require, trimmed, truncated
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam
from seamline.seam.table import TableState


def pin(
    state: TableState,
    cold: ColdSide,
    bounds: LogBounds,
    *,
    cluster: str,
    bounds_are_newer: bool = False,
    may_lack_records: bool = False,
) -> Seam | None:
    """Pins one table to its seam.

    Args:
        state: The table's metadata.
        cold: The snapshot to read.
        bounds: What the log holds, under the boundary's isolation.
        cluster: Name of the cluster in the configuration.
        bounds_are_newer: Whether `bounds` were read after `state`. Normally the ends are read
            first, so a boundary past the log's end may just mean that a commit landed in between.
            If the ends were read again afterwards, it means that the log has lost records.
        may_lack_records: Whether the log may begin after the boundary. Whoever reads the seam must
            then check each range against the log's start before its rows are used.

    Returns:
        The seam, or None if the bounds are too old to decide and must be read again.

    Raises:
        SeamlineError: TOPIC_RECREATED, LOG_TRIMMED or LOG_TRUNCATED.
    """
    boundary = cold.boundary
    require(recreated(bounds.topic, bounds.topic_id, boundary.topic_id))
    starts = {partition: boundary.next.get(partition, 0) for partition in bounds.end}
    if not may_lack_records:
        require(trimmed(bounds, starts))
    behind = truncated(bounds, starts)
    if behind is not None:
        if bounds_are_newer:
            raise behind
        return None
    ends = {partition: max(starts[partition], end) for partition, end in bounds.end.items()}
    only_cold = {p: offset for p, offset in boundary.next.items() if p not in ends}
    held = sum(max(0, bounds.high_watermark.get(p, end) - end) for p, end in ends.items())
    gaps = below(boundary.gaps, bounds.topic_id, ends)
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        schema_id=state.current_schema_id,
        cold=ColdPart.of(state, cold),
        log=LogPart.of(bounds, cluster, pending=held, gaps=gaps),
        boundary=Offsets({**starts, **only_cold}),
        end=Offsets({**ends, **only_cold}),
    )


def invisible(bounds: LogBounds, offsets: Mapping[int, int]) -> str | None:
    """Returns why the log is not yet readable up to every wanted end; None if it is.

    Args:
        bounds: What the log holds.
        offsets: Exclusive ends that must be readable, per partition.
    """
    for partition, stop in offsets.items():
        end = bounds.end.get(partition)
        if end is None:
            return f"topic {bounds.topic} has no partition {partition}"
        if end >= stop:
            continue
        held = bounds.high_watermark.get(partition, end)
        if held >= stop:
            return (
                f"offset {stop - 1} of partition {partition} of topic {bounds.topic} exists, but a "
                f"transaction that began at offset {end} is still open"
            )
        return (
            f"partition {partition} of topic {bounds.topic} ends at {held}: it does not hold "
            f"offset {stop - 1}"
        )
    return None
