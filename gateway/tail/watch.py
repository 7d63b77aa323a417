"""Whether rows read in the background are of the very topic that a statement asks for.

Why rows held need no look at the log's start. A read in progress must check afterwards that the
start of the log has not passed it; rows held were given by the broker for a position that it still
kept at the time, and the records of an offset never change. What may change is the topic: a
subscription goes by name, and a topic created again goes on under it. So rows count as this
topic's only when its id was asked for, and found the same, after they were consumed: by the
statement that pinned its seam later, by the follower's own look every second, or by one more look
for this statement. An end that lies before a position says that the log was truncated. In both
cases everything held is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.protocols import Deadline, HotLog
from seamline.errors import LOG_TRUNCATED, READ_CONFLICT, TOPIC_RECREATED, SeamlineError
from seamline.gateway.tail.lineage import Subject
from seamline.seam.log import LogBounds

_SPOILS = frozenset({TOPIC_RECREATED, LOG_TRUNCATED})


def look(
    log: HotLog, subject: Subject, positions: Mapping[int, int], deadline: Deadline
) -> LogBounds:
    """What the log holds now; everything read below the positions is of this topic.

    Args:
        log: The cluster.
        subject: What is followed.
        positions: Where reading was before this call.
        deadline: The statement's.

    Raises:
        SeamlineError: TOPIC_RECREATED or LOG_TRUNCATED when it is not, or what the log answers.
    """
    topic = subject.topic
    bounds = log.bounds([topic], subject.lineage.isolation, deadline)[topic]
    if bounds.topic_id != subject.lineage.topic_id:
        raise SeamlineError(
            TOPIC_RECREATED, f"topic {topic} was created again while it was followed"
        )
    check_ends(topic, positions, bounds.end)
    return bounds


def check_ends(topic: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Ends asked for after the positions were reached cannot lie before them.

    Raises:
        SeamlineError: LOG_TRUNCATED.
    """
    for partition, position in positions.items():
        end = ends.get(partition, position)
        if end < position:
            raise SeamlineError(
                LOG_TRUNCATED,
                f"partition {partition} of topic {topic} now ends at {end}, but {position} had "
                "been read",
                details={"partition": partition, "log_end": end, "position": position},
            )


def for_statement(error: SeamlineError | None) -> SeamlineError | None:
    """What a follower's error means for a statement that has rows of it.

    Returns:
        The error to raise, so that everything is read afresh; None when the rows stay good.
    """
    if error is None or error.code not in _SPOILS:
        return None
    return SeamlineError(READ_CONFLICT, error.message)
