"""The provider `watermark`: the time up to which the writer says that it has copied everything.

A time is not a position in a log: a record that arrives late, or has a wrong time, may be below the
boundary and not in the table, or the other way round. So the boundary is only a hint, and is
refused unless the owner of the table accepts that. It suits only topics whose record times are set
by the log itself.
"""

from __future__ import annotations

import datetime

from seamline.connectors.iceberg.boundaries.provider import (
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
)
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.seam.boundary import HINT
from seamline.seam.table import Snapshot

VALID_THROUGH = "kafka.connect.valid-through-ts"
"""ISO 8601."""
WATERMARK = "automq.watermark"
"""Milliseconds since the epoch."""


class Watermark(Provider[AdoptedIceberg]):
    """Reads the watermarks of the Iceberg sink and of AutoMQ."""

    name = "watermark"
    trust = HINT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        with invalid(f"the watermark of snapshot {snapshot.snapshot_id}"):
            moment_ms = _milliseconds(snapshot)
        if moment_ms is None:
            return None
        binding, log = self.adopted.binding, self.adopted.log()
        bounds = log.bounds([binding.topic], binding.isolation, NoDeadline())[binding.topic]
        ends = log.offsets_at(binding.topic, bounds.topic_id, bounds.end, moment_ms, NoDeadline())
        return Answer(self.adopted.start.raised(ends))


def _milliseconds(snapshot: Snapshot) -> int | None:
    if WATERMARK in snapshot.summary:
        return int(snapshot.summary[WATERMARK])
    text = snapshot.summary.get(VALID_THROUGH)
    if text is None:
        return None
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
