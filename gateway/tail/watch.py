"""Checks that rows read in the background belong to the very topic that a statement asks for.

Cached rows need no check of the log's start. A read in progress must check afterwards that the
start of the log has not passed it, but the broker returned cached rows for a position that it still
kept at the time, and the record at an offset never changes. What may change is the topic: a
subscription goes by name, and continues with a topic that is recreated under that name. So rows
count as this topic's only if its id was requested after they were consumed, and was still the same.
It is requested by the statement, if that pinned its seam later, by the follower's own check every
second (every ten, while there are no statements), or by one more check for this statement. An end
that lies before a position shows that the log was truncated. Another leader may mean the same, and
is asked. If the topic is another one or was truncated, everything cached is discarded.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.kafka.continuity import check_not_truncated
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import LOG_TRUNCATED, READ_CONFLICT, TOPIC_RECREATED, SeamlineError
from seamline.gateway.tail.source import FollowedTable
from seamline.seam.history_checks import recreated, require, shortened
from seamline.seam.log import LogBounds

_SPOILS = frozenset({TOPIC_RECREATED, LOG_TRUNCATED})


def check(
    log: HotLog,
    table: FollowedTable,
    bounds: LogBounds,
    positions: Mapping[int, int],
    epochs: Mapping[int, int],
    deadline: Deadline,
) -> None:
    """Checks that everything below the positions is of this topic.

    Args:
        log: The cluster.
        table: What is followed.
        bounds: What the log holds, requested after the positions were reached.
        positions: The positions.
        epochs: Leader epochs of the newest records below them, where known.
        deadline: Bounds the time.

    Raises:
        SeamlineError: TOPIC_RECREATED or LOG_TRUNCATED when it is not, or the log's own error.
    """
    in_log = {p: position for p, position in positions.items() if p in bounds.end}
    require(
        recreated(table.topic, bounds.topic_id, table.source.topic_id),
        shortened(table.topic, bounds.end, in_log),
    )
    check_not_truncated(log, bounds, positions, epochs, deadline)


def for_statement(error: SeamlineError | None) -> SeamlineError | None:
    """Returns what a follower's error means for a statement that has rows from it.

    Returns:
        The error to raise, so that everything is read afresh; None when the rows remain valid.
    """
    if error is None or error.code not in _SPOILS:
        return None
    return SeamlineError(READ_CONFLICT, error.message)
