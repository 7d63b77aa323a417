"""The seam: where a read stops taking the cold snapshot and starts taking the log.

A `Seam` is frozen. Its guarantee: for every partition p, the snapshot's rows are the records of
[table start, boundary[p]), and the hot read takes [boundary[p], end[p]). Together they are every
committed record below `end`, exactly once, but for those in `gaps`, which are in no tier. Both
engines use one seam per table per statement.

The same value serves every purpose. What a statement reads, what its token repeats, what a session
must not fall behind, what a virtual snapshot holds, what a receipt shows, and what Spark's
executors are given: each is a seam, or the part of one that is needed there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from seamline.seam.boundary import ColdSide
from seamline.seam.gaps import Gap
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState

SeamKey: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ColdSpan:
    """Which of a snapshot's rows a read takes, where that is not all of them.

    Rows of earlier logs have offsets of those logs, so `start` and `end` do not concern them.

    Attributes:
        start: If set, only rows of records at or past these offsets, of partitions listed here.
        end: If set, no rows of records at or past these offsets, or of partitions not listed here.
        first_batch: Rows with a lesser `_kafka_batch`, or none, are of earlier logs; 0 if there are
            no earlier logs.
        takes_earlier: Whether the rows of earlier logs are all taken, or none of them.
    """

    start: Offsets | None = None
    end: Offsets | None = None
    first_batch: int = 0
    takes_earlier: bool = True

    def condition(
        self, below: Callable[[Offsets], str], past: Callable[[Offsets], str], batch: str
    ) -> str:
        """Returns the condition for its rows, in the SQL of both engines.

        Args:
            below: Returns the condition for rows that are not at or past some offsets.
            past: Returns the condition for rows of records at or past some offsets.
            batch: The column with the batch that wrote a row; NULL if there is none.
        """
        of_log = [below(self.end)] if self.end is not None else []
        of_log += [past(self.start)] if self.start is not None else []
        within = " AND ".join(of_log) or "TRUE"
        if not self.first_batch:
            return within
        is_earlier = f"coalesce({batch}, 0) < {self.first_batch}"
        if self.takes_earlier:
            return f"({is_earlier} OR ({within}))"
        return f"(NOT {is_earlier} AND {within})"


@dataclasses.dataclass(frozen=True, slots=True)
class ColdPart:
    """The snapshot that a seam reads, and what its boundary says of it.

    Attributes:
        snapshot_id: The cold snapshot; None without a cold side.
        sequence_number: The snapshot's place in the order of the table's commits.
        foreign_change_id: See `Boundary.foreign_change_id`; the value at the snapshot.
        provider: The provider that reported the boundary; empty for Seamline itself.
        trust: How far the boundary can be trusted; see `boundary.EXACT`.
        epochs: Leader epochs the log had at the seam's `boundary`, where known.
        skipped: Bad records the snapshot leaves out under the policy `skip`.
        earlier_logs: How many logs the table continued before this one, whose rows the snapshot
            holds.
        first_batch: See `Boundary.first_batch`; the value at the snapshot.
    """

    snapshot_id: int | None = None
    sequence_number: int = 0
    foreign_change_id: int | None = None
    provider: str = ""
    trust: str = ""
    epochs: Offsets = dataclasses.field(default_factory=Offsets)
    skipped: int = 0
    earlier_logs: int = 0
    first_batch: int = 0

    @classmethod
    def of(cls, state: TableState, side: ColdSide) -> ColdPart:
        """Returns the part for a snapshot of a table, and its boundary."""
        return cls(
            snapshot_id=side.snapshot_id,
            sequence_number=state.sequence_number(side.snapshot_id),
            foreign_change_id=side.foreign_change_id,
            provider=side.boundary.provider,
            trust=side.boundary.trust,
            epochs=side.boundary.epochs,
            skipped=side.boundary.skipped,
            earlier_logs=len(side.boundary.earlier_logs),
            first_batch=side.boundary.first_batch,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class LogPart:
    """The log that a seam reads, and how its records are decoded.

    Attributes:
        cluster: Name of the cluster in the configuration; empty without a hot side.
        topic: Name of the topic.
        topic_id: Kafka's id of the topic.
        isolation: The isolation level the log is read under.
        end_epochs: Leader epochs the log had at the seam's `end`, where known.
        pending: Offsets past `end` that open transactions hold back.
        gaps: Records below `end` that were lost before they were tiered, whose loss was accepted.
        format: How the records are decoded: the text of an `Encoding`.
        on_error: How bad records are handled.
    """

    cluster: str = ""
    topic: str = ""
    topic_id: str = ""
    isolation: str = ""
    end_epochs: Offsets = dataclasses.field(default_factory=Offsets)
    pending: int = 0
    gaps: tuple[Gap, ...] = ()
    format: str = ""
    on_error: str = ""

    @classmethod
    def of(
        cls, bounds: LogBounds, cluster: str, *, pending: int = 0, gaps: tuple[Gap, ...] = ()
    ) -> LogPart:
        """Returns the part for what a log holds, of a cluster in the configuration."""
        return cls(
            cluster=cluster,
            topic=bounds.topic,
            topic_id=bounds.topic_id,
            isolation=bounds.isolation,
            end_epochs=bounds.leader_epochs,
            pending=pending,
            gaps=gaps,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeRange:
    """Where changes begin that are read instead of the whole table; they end where the seam does.

    Attributes:
        since: Only records at or past these offsets are read: the changes since an earlier seam.
            It has every partition of the seam's `end`.
        begins_first: Whether changes begin with the first row there is, of whichever log.
        is_logged: Whether everything is read from the log, including what is in the snapshot. This
            is so for changes of an upsert table, whose snapshot no longer has replaced rows.
    """

    since: Offsets
    begins_first: bool = False
    is_logged: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Seam:
    """Exactly what one statement reads of one table.

    Attributes:
        table: Full name of the table, catalog first.
        table_uuid: Iceberg's id of the table.
        schema_id: Schema both tiers are read with.
        cold: The snapshot that is read.
        log: The log that is read.
        boundary: `B`: first offset not in the snapshot, per partition of the log or the table.
        end: `E`: exclusive end of what the statement reads, at least `boundary`.
        cold_end: If set, cold rows at or past these offsets do not belong to the seam, because a
            later snapshot stands in for the one the seam was made with.
        as_of: The past moment the statement names for this table, as written; empty for now.
        changes: If set, only changes are read.
    """

    table: tuple[str, ...]
    table_uuid: str
    schema_id: int
    cold: ColdPart = ColdPart()
    log: LogPart = LogPart()
    boundary: Offsets = dataclasses.field(default_factory=Offsets)
    end: Offsets = dataclasses.field(default_factory=Offsets)
    cold_end: Offsets | None = None
    as_of: str = ""
    changes: ChangeRange | None = None

    @property
    def identity(self) -> str:
        """Identifies what it is a seam of, under any name: a table's id, or a topic's name."""
        return self.table_uuid or ".".join(self.table)

    @property
    def key(self) -> SeamKey:
        """Unique among a statement's seams: a table has one for each part that is requested."""
        whole = (self.identity, *(part.lower() for part in self.table), self.as_of)
        if self.changes is None:
            return whole
        begin = "the first" if self.changes.begins_first else str(self.changes.since)
        return (*whole, f"{begin} to {self.end}")

    @property
    def whole(self) -> Seam:
        """The seam of everything below the end, whichever part of that this one reads."""
        return self if self.changes is None else dataclasses.replace(self, changes=None)

    @property
    def since(self) -> Offsets | None:
        """Where the changes that are read begin; None for the whole table."""
        return None if self.changes is None else self.changes.since

    @property
    def is_logged(self) -> bool:
        """Whether changes are read that are all taken from the log; see `ChangeRange`."""
        return self.changes is not None and self.changes.is_logged

    @property
    def cold_span(self) -> ColdSpan | None:
        """Which of the snapshot's rows are read; None for all."""
        if self.cold_end is None and self.changes is None:
            return None
        takes_earlier = self.changes is None or self.changes.begins_first
        return ColdSpan(self.since, self.cold_end, self.cold.first_batch, takes_earlier)

    @property
    def begins(self) -> Offsets:
        """Where the read of the log begins, per partition."""
        if self.changes is None:
            return self.boundary
        since = self.changes.since
        return since if self.changes.is_logged else self.boundary.raised(since)

    @property
    def is_hot(self) -> bool:
        """Whether it is a seam of changes that are all read from the log."""
        if self.changes is None or self.begins != self.changes.since:
            return False
        return not (self.changes.begins_first and self.cold.first_batch)

    @property
    def hot_ranges(self) -> tuple[OffsetRange, ...]:
        """The tail: half-open ranges to read from the log, without empty ones."""
        begins = self.begins
        return tuple(
            OffsetRange(partition, begins[partition], end)
            for partition, end in self.end.items()
            if end > begins[partition]
        )

    @property
    def hot_offsets(self) -> int:
        """Offsets in the tail; there are at most as many rows."""
        return sum(len(r) for r in self.hot_ranges)

    def decoded_by(self, format_: str, on_error: str) -> Seam:
        """Returns the same seam with the given decoding."""
        log = dataclasses.replace(self.log, format=format_, on_error=on_error)
        return dataclasses.replace(self, log=log)

    @property
    def display_name(self) -> str:
        """Dotted name for messages."""
        name = ".".join(self.table)
        if self.changes is not None:
            name = f"changes of {name}"
        return f"{name} as of {self.as_of}" if self.as_of else name

    def to_json(self) -> dict[str, Any]:
        """Returns the fields of all its parts; partitions are decimal strings, as JSON keys are."""
        body: dict[str, Any] = {"since": None, "begins_first": False, "is_logged": False}
        for part in (self, self.cold, self.log, *([self.changes] if self.changes else ())):
            names = (field.name for field in dataclasses.fields(part))
            body |= {name: _to_json(getattr(part, name)) for name in names if name not in _PARTS}
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Seam:
        """The inverse of `to_json`; unknown fields are ignored.

        Raises:
            KeyError, ValueError: when it is not a seam.
        """
        return dataclasses.replace(
            _part(cls, body),
            table=tuple(body["table"]),
            cold=_part(ColdPart, body),
            log=_part(LogPart, body),
            changes=None if body.get("since") is None else _part(ChangeRange, body),
        )


_PARTS = frozenset({"cold", "log", "changes"})
_OFFSETS = frozenset({"boundary", "end", "cold_end", "epochs", "end_epochs", "since"})
_Part = TypeVar("_Part", Seam, ColdPart, LogPart, ChangeRange)


def _part(kind: type[_Part], body: Mapping[str, Any]) -> _Part:
    names = {field.name for field in dataclasses.fields(kind)} & body.keys()
    return kind(**{name: _from_json(name, body[name]) for name in names})


def _from_json(name: str, value: Any) -> Any:
    if name in _OFFSETS and value is not None:
        return Offsets.from_json(value)
    return tuple(map(Gap.from_json, value)) if name == "gaps" else value


def _to_json(value: Any) -> Any:
    match value:
        case Offsets():
            return value.to_json()
        case tuple():
            return [_to_json(each) for each in value]
        case Gap():
            return value.to_json()
    return value


def hot_only(name: tuple[str, ...], bounds: LogBounds, *, cluster: str) -> Seam:
    """Returns the seam of a topic without a table: everything the log holds is the tail."""
    return Seam(
        table=name,
        table_uuid="",
        schema_id=0,
        log=LogPart.of(bounds, cluster, pending=bounds.pending),
        boundary=Offsets({p: bounds.start.get(p, 0) for p in bounds.end}),
        end=bounds.end,
    )


def cold_only(
    state: TableState, snapshot_id: int | None, *, schema_id: int | None = None, as_of: str = ""
) -> Seam:
    """Returns the seam of an Iceberg table without a topic: the snapshot is everything."""
    return Seam(
        table=state.name,
        table_uuid=state.uuid,
        schema_id=state.current_schema_id if schema_id is None else schema_id,
        cold=ColdPart(snapshot_id, state.sequence_number(snapshot_id)),
        as_of=as_of,
    )
