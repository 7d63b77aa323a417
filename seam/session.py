"""What a session has seen: the furthest seam of each table, and of each topic without a table.

Merging takes the maximum: the greater ends of each log, the later snapshot of each table. It is
commutative, associative and idempotent, so threads, connections and gateways may pass on what they
know in any order, and nothing that was seen is forgotten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam


def merge(seams: Iterable[Seam]) -> tuple[Seam, ...]:
    """Merges seams into one per table and log, in an order that depends only on these.

    Seams of one table whose logs are different topics stay separate: the next reader must learn
    that the topic was recreated. A read of the snapshot alone says nothing about the log and
    takes nothing away from what is known.
    """
    furthest: dict[tuple[str, str], Seam] = {}
    for seam in seams:
        key = (seam.identity, seam.log.topic_id)
        other = furthest.get(key)
        furthest[key] = seam if other is None else _further(other, seam)
    with_log = {identity for identity, topic_id in furthest if topic_id}
    return tuple(
        furthest[identity, topic_id]
        for identity, topic_id in sorted(furthest)
        if topic_id or identity not in with_log
    )


def _further(one: Seam, other: Seam) -> Seam:
    """Returns what two seams of the same table and log have seen together."""
    later = max(one, other, key=_age)
    ends = {p: max(_end(one, p), _end(other, p)) for p in (*one.end, *other.end)}
    epochs = Offsets({p: epoch for p, (_, epoch) in ends.items() if epoch >= 0})
    return dataclasses.replace(
        later,
        boundary=Offsets({p: later.boundary.get(p, 0) for p in ends}),
        end=Offsets({p: end for p, (end, _) in ends.items()}),
        log=dataclasses.replace(later.log, end_epochs=epochs),
    )


def _age(seam: Seam) -> tuple[object, ...]:
    """Sort key for a table's seams: a total order, so the later of two is always the same one."""
    return (
        seam.cold.sequence_number,
        sum(seam.boundary.values()),
        seam.cold.snapshot_id or 0,
        seam.schema_id,
        seam.table,
        tuple((p, start) for p, start in seam.boundary.items() if start),
        seam.cold.foreign_change_id or 0,
    )


def _end(seam: Seam, partition: int) -> tuple[int, int]:
    """Returns an end and its leader epoch; among equal ends, the later epoch is the one to keep."""
    return seam.end.get(partition, 0), seam.log.end_epochs.get(partition, -1)
