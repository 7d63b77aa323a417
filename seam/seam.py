"""The seam: where a read stops taking the cold snapshot and starts taking the log.

A `Seam` is frozen. Its guarantee: for every partition p, the rows of the snapshot are the records
of [table start, boundary[p]) and the hot read takes [boundary[p], end[p]); together every committed
record below `end` once. One seam per table per statement, for both engines.

It is one value in all its uses. What a statement reads, what its token repeats, what a session
must not fall behind, what a virtual snapshot holds, what a receipt shows and what Spark's executors
are given is a seam, or the part of it that is needed there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState

SeamKey: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Seam:
    """What one statement reads of one table, exactly.

    Attributes:
        table: Full name of the table, catalog first.
        table_uuid: Iceberg's id of it.
        snapshot_id: The cold snapshot; None when there is no cold side.
        schema_id: Schema both tiers are read with.
        cluster: Name of the cluster in the configuration; empty when there is no hot side.
        topic: Name of the topic.
        topic_id: Kafka's id of it.
        isolation: What the log is read under.
        format: How its records are decoded: the text of an `Encoding`.
        on_error: What becomes of bad records.
        boundary: `B`: first offset not in the snapshot, per partition of the log or the table.
        end: `E`: exclusive end of the statement's reading, at least `boundary`.
        pending: Offsets past `end` that open transactions hold back.
        cold_end: When set, cold rows at or past these offsets do not belong to the seam: a later
            snapshot stands in for the one the seam was made with.
        skipped: Bad records the snapshot leaves out under the policy `skip`.
        epochs: Leader epochs the log had at `boundary`, where known.
        end_epochs: Those it had at `end`.
        foreign_change_id: See `Boundary.foreign_change_id`, at the snapshot.
        sequence_number: How late the snapshot was committed, among those of the table.
        as_of: The moment of this table's past that the statement names, as written; empty for now.
        provider: Who said where `boundary` is; empty for Seamline itself.
        trust: How far that can be trusted; see `boundary.EXACT`.
        since: When set, only records at or past these offsets are read: the changes since an
            earlier seam. It has every partition of `end`.
        is_logged: Whether all of it is read from the log, what is in the snapshot as well: the
            changes of an upsert table, whose snapshot no longer has what was replaced.
    """

    table: tuple[str, ...]
    table_uuid: str
    snapshot_id: int | None
    schema_id: int
    cluster: str = ""
    topic: str = ""
    topic_id: str = ""
    isolation: str = ""
    format: str = ""
    on_error: str = ""
    boundary: Offsets = dataclasses.field(default_factory=Offsets)
    end: Offsets = dataclasses.field(default_factory=Offsets)
    pending: int = 0
    cold_end: Offsets | None = None
    skipped: int = 0
    epochs: Offsets = dataclasses.field(default_factory=Offsets)
    end_epochs: Offsets = dataclasses.field(default_factory=Offsets)
    foreign_change_id: int | None = None
    sequence_number: int = 0
    as_of: str = ""
    provider: str = ""
    trust: str = ""
    since: Offsets | None = None
    is_logged: bool = False

    @property
    def identity(self) -> str:
        """What it is a seam of, whatever a statement calls it: a table's id, or a topic's name."""
        return self.table_uuid or ".".join(self.table)

    @property
    def key(self) -> SeamKey:
        """Unique among a statement's seams: a table has one for each part of it asked for."""
        whole = (self.identity, *(part.lower() for part in self.table), self.as_of)
        return whole if self.since is None else (*whole, f"{self.since} to {self.end}")

    @property
    def whole(self) -> Seam:
        """All that is below its end, whatever part of that is read."""
        if self.since is None:
            return self
        return dataclasses.replace(self, since=None, is_logged=False)

    @property
    def begins(self) -> Offsets:
        """The first offsets that only the log holds, of what is read."""
        if self.since is None:
            return self.boundary
        return self.since if self.is_logged else self.boundary.raised(self.since)

    @property
    def is_hot(self) -> bool:
        """Whether everything that is read is in the log, since changes begin past the boundary."""
        return self.since is not None and self.begins == self.since

    @property
    def hot_ranges(self) -> tuple[OffsetRange, ...]:
        """The tail: half-open ranges that only the log holds, empty ones left out."""
        begins = self.begins
        return tuple(
            OffsetRange(partition, begins[partition], end)
            for partition, end in self.end.items()
            if end > begins[partition]
        )

    @property
    def hot_offsets(self) -> int:
        """Offsets in the tail; rows are at most as many."""
        return sum(len(r) for r in self.hot_ranges)

    def decoded_by(self, format_: str, on_error: str) -> Seam:
        """The same offsets, decoded in a certain way."""
        return dataclasses.replace(self, format=format_, on_error=on_error)

    @property
    def display_name(self) -> str:
        """Dotted name for messages."""
        name = ".".join(self.table)
        if self.since is not None:
            name = f"changes of {name}"
        return f"{name} as of {self.as_of}" if self.as_of else name

    def to_json(self) -> dict[str, Any]:
        """All of it; partitions are decimal strings, the only keys JSON has."""
        return {
            field.name: _to_json(getattr(self, field.name)) for field in dataclasses.fields(self)
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Seam:
        """The inverse of `to_json`; unknown fields are ignored.

        Raises:
            KeyError, ValueError: when it is not a seam.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        given = {name: value for name, value in body.items() if name in names}
        offsets = {
            name: Offsets.from_json(value)
            for name, value in given.items()
            if name in _OFFSETS and value is not None
        }
        return cls(**{**given, **offsets, "table": tuple(given["table"])})


_OFFSETS = frozenset({"boundary", "end", "cold_end", "epochs", "end_epochs", "since"})


def _to_json(value: Any) -> Any:
    match value:
        case Offsets():
            return value.to_json()
        case tuple():
            return list(value)
    return value


def hot_only(name: tuple[str, ...], bounds: LogBounds, *, cluster: str, schema_id: int = 0) -> Seam:
    """The seam of a topic without a table: everything the log holds is the tail."""
    return Seam(
        table=name,
        table_uuid="",
        snapshot_id=None,
        schema_id=schema_id,
        cluster=cluster,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        isolation=bounds.isolation,
        boundary=Offsets({p: bounds.start.get(p, 0) for p in bounds.end}),
        end=bounds.end,
        end_epochs=bounds.leader_epochs,
        pending=bounds.pending,
    )


def cold_only(
    state: TableState, snapshot_id: int | None, *, schema_id: int | None = None, as_of: str = ""
) -> Seam:
    """The seam of an Iceberg table without a topic: the snapshot is everything."""
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        snapshot_id=snapshot_id,
        schema_id=state.current_schema_id if schema_id is None else schema_id,
        sequence_number=state.sequence_number(snapshot_id),
        as_of=as_of,
    )
