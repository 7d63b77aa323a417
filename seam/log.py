"""What the log of a topic holds at one moment."""

from __future__ import annotations

import dataclasses

from seamline.seam.offsets import Offsets

READ_COMMITTED = "read_committed"


READ_UNCOMMITTED = "read_uncommitted"


@dataclasses.dataclass(frozen=True, slots=True)
class LogBounds:
    """What the log of one topic holds at one moment.

    Attributes:
        topic: Name.
        topic_id: Kafka's id of this incarnation of the topic; another log has another id.
        cluster_id: Kafka's id of the cluster.
        start: First offset still kept, per partition.
        end: Exclusive stable end under `isolation`: last stable offset or high watermark.
        high_watermark: Exclusive end of what is replicated, including open transactions.
        isolation: `read_committed` or `read_uncommitted`.
        leader_epochs: Leader epoch of each partition at `end`, if the log reports it.
    """

    topic: str
    topic_id: str
    cluster_id: str
    start: Offsets
    end: Offsets
    high_watermark: Offsets
    isolation: str = READ_COMMITTED
    leader_epochs: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def pending(self) -> int:
        """Offsets between the stable end and the high watermark, held back by open transactions."""
        return sum(self.high_watermark.get(p, end) - end for p, end in self.end.items())


ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)
