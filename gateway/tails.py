"""Reading a tail for whoever needs its rows: the one place that knows where they come from.

`TailRows` is all that the rest of the gateway knows of it: the decoded rows of ranges of offsets of
a seam's log, proven to be whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from seamline.connectors.base import Deadline, OffsetRange
from seamline.connectors.kafka.decode import DecoderSpec
from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.gateway.connections import Connections
from seamline.planners import seam as seams
from seamline.planners.physical import TailRead


class TailRows(Protocol):
    """Gives the rows of a log."""

    def read(
        self, wanted: TailRead, decoder: DecoderSpec, columns: Sequence[str], deadline: Deadline
    ) -> Tail:
        """The decoded rows of ranges of a seam's log.

        Args:
            wanted: The seam and the ranges: within its tail, of a log that must still be its own.
            decoder: How records are decoded.
            columns: Columns to keep.
            deadline: The statement's.

        Raises:
            SeamlineError: BAD_RECORD, LOG_TRIMMED, TOPIC_RECREATED, TAIL_TOO_LARGE,
                KAFKA_UNAVAILABLE.
        """


class LogTails:
    """`TailRows` straight from the log.

    Args:
        connections: Clusters.
        size_bytes_max: Bytes of records that one reading may hold.
    """

    def __init__(self, connections: Connections, *, size_bytes_max: int) -> None:
        self._connections = connections
        self._size_bytes_max = size_bytes_max

    def read(
        self, wanted: TailRead, decoder: DecoderSpec, columns: Sequence[str], deadline: Deadline
    ) -> Tail:
        """See `TailRows.read`: read and then checked, the log must still hold what was asked."""
        seam = wanted.seam
        log = self._connections.log(seam.cluster)
        tail = read_tail(
            log,
            wanted.ranges,
            seam.isolation,
            decoder,
            columns,
            deadline,
            size_bytes_max=self._size_bytes_max,
            epochs=wanted.epochs,
        )
        if wanted.ranges:
            after = log.bounds([seam.topic], seam.isolation, deadline)[seam.topic]
            seams.check_after_read(seam, after, _first_offsets(wanted.ranges))
        return tail


def _first_offsets(ranges: Sequence[OffsetRange]) -> dict[int, int]:
    found: dict[int, int] = {}
    for wanted in ranges:
        found[wanted.partition] = min(wanted.start, found.get(wanted.partition, wanted.start))
    return found
