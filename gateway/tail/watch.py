"""Whether rows read in the background are of the very topic that a statement asks for.

Why cached rows need no look at the log's start: a read in progress must check afterwards that the
start of the log has not passed it, but cached rows were given by the broker for a position that it
still kept at the time, and the records of an offset never change. What may change is the topic: a
subscription goes by name, and continues with a topic created again under it. So rows count as this
topic's only when its id was asked for, and found the same, after they were consumed: by the
statement that pinned its seam later, by the follower's own look every second, or by one more look
for this statement. An end that lies before a position shows that the log was truncated; another
leader may mean the same, and is asked. In all of these cases everything cached is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.continuity import check_not_truncated
from seamline.connectors.protocols import Deadline, HotLog
from seamline.errors import LOG_TRUNCATED, READ_CONFLICT, TOPIC_RECREATED, SeamlineError
from seamline.gateway.tail.source import FollowedTable
from seamline.seam.checks import recreated, require, shortened
from seamline.seam.log import LogBounds

_SPOILS = frozenset({TOPIC_RECREATED, LOG_TRUNCATED})


def look(
    log: HotLog,
    table: FollowedTable,
    positions: Mapping[int, int],
    epochs: Mapping[int, int],
    deadline: Deadline,
) -> LogBounds:
    """What the log holds now; everything read below the positions is of this topic.

    Args:
        log: The cluster.
        table: What is followed.
        positions: Where reading was before this call.
        epochs: Leader epochs of the newest records below them, where known.
        deadline: The statement's.

    Raises:
        SeamlineError: TOPIC_RECREATED or LOG_TRUNCATED when it is not, or what the log answers.
    """
    topic = table.topic
    bounds = log.bounds([topic], table.source.isolation, deadline)[topic]
    known = {p: position for p, position in positions.items() if p in bounds.end}
    require(
        recreated(topic, bounds.topic_id, table.source.topic_id),
        shortened(topic, bounds.end, known),
    )
    check_not_truncated(log, bounds, positions, epochs, deadline)
    return bounds


def for_statement(error: SeamlineError | None) -> SeamlineError | None:
    """What a follower's error means for a statement that has rows of it.

    Returns:
        The error to raise, so that everything is read afresh; None when the rows remain valid.
    """
    if error is None or error.code not in _SPOILS:
        return None
    return SeamlineError(READ_CONFLICT, error.message)
