"""What a session has seen: of each table, and of each topic without one, the furthest seam.

What two have seen together is the union, by maximum: of each log the greater ends, of each table
the later snapshot. Merging is commutative, associative and idempotent, so threads, connections and
gateways may pass on what they know in any order, and nothing that was seen is forgotten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam


def merge(seams: Iterable[Seam]) -> tuple[Seam, ...]:
    """One seam of each table and log, in an order that depends on nothing else.

    Logs of one table that are not the same topic stay apart: the next reader must learn that the
    topic was created again. A read of the snapshot alone says nothing of the log, and takes
    nothing away from what is known.
    """
    furthest: dict[tuple[str, str], Seam] = {}
    for seam in seams:
        key = (seam.identity, seam.topic_id)
        known = furthest.get(key)
        furthest[key] = seam if known is None else _further(known, seam)
    with_log = {identity for identity, topic_id in furthest if topic_id}
    return tuple(
        furthest[identity, topic_id]
        for identity, topic_id in sorted(furthest)
        if topic_id or identity not in with_log
    )


def _further(one: Seam, other: Seam) -> Seam:
    """What two seams of a table and a log have seen together."""
    later = max(one, other, key=_age)
    ends = {p: max(_end(one, p), _end(other, p)) for p in (*one.end, *other.end)}
    return dataclasses.replace(
        later,
        boundary=Offsets({p: later.boundary.get(p, 0) for p in ends}),
        end=Offsets({p: end for p, (end, _) in ends.items()}),
        end_epochs=Offsets({p: epoch for p, (_, epoch) in ends.items() if epoch >= 0}),
    )


def _age(seam: Seam) -> tuple[object, ...]:
    """Orders a table's snapshots, by all of this, so that the later of two is always the same."""
    return (
        seam.sequence_number,
        sum(seam.boundary.values()),
        seam.snapshot_id or 0,
        seam.schema_id,
        seam.table,
        tuple((p, start) for p, start in seam.boundary.items() if start),
        seam.foreign_change_id or 0,
    )


def _end(seam: Seam, partition: int) -> tuple[int, int]:
    """An end, and the leader's epoch there; of equal ends the later epoch is the one to know."""
    return seam.end.get(partition, 0), seam.end_epochs.get(partition, -1)
