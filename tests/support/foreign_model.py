"""What a table that others write to must hold: a model of plain rows, and of every snapshot seen.

The model knows three ways in which a topic and a table are one: every record is a row, the newest
record of each key is a row, or somebody else's sink makes every record a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

APPEND, UPSERT, ADOPTED = "append", "upsert", "adopted"
PARTITIONS = (0, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row.

    Attributes:
        id: Its id.
        text: Its text.
        n: Its number.
        place: Partition and offset of its record; None if somebody else made it.
    """

    id: int
    text: str | None
    n: int | None
    place: tuple[int, int] | None = None

    @property
    def values(self) -> tuple[int, str | None, int | None]:
        """What a query selects."""
        return (self.id, self.text, self.n)


@dataclasses.dataclass(frozen=True, slots=True)
class Cold:
    """What a snapshot holds: its rows, and the first offset of each partition that it does not."""

    rows: tuple[Row, ...] = ()
    ends: Mapping[int, int] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(PARTITIONS, 0)
    )

    def changed(self, change: Callable[[Row], Row | None], more: Iterable[Row] = ()) -> Cold:
        """The same with other rows."""
        kept = [row for row in map(change, self.rows) if row is not None]
        return dataclasses.replace(self, rows=(*kept, *more))


class Model:
    """A topic and a table.

    Args:
        mode: How the two are one.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.log: dict[int, list[Row | int]] = {partition: [] for partition in PARTITIONS}
        self.cold = Cold()
        self.past: dict[int, Cold] = {}

    def produce(self, partition: int, record: Row | int) -> None:
        """Adds a record; a number is the key of a record without a value."""
        if isinstance(record, Row):
            place = (partition, len(self.log[partition]))
            record = dataclasses.replace(record, place=place)
        self.log[partition].append(record)

    @property
    def ends(self) -> dict[int, int]:
        """The ends of the log."""
        return {partition: len(records) for partition, records in self.log.items()}

    def tail(self, cold: Cold) -> list[Row | int]:
        """The records that a snapshot does not hold; those of a key are in order."""
        return [r for p, records in self.log.items() for r in records[cold.ends[p] :]]

    def joined(self, cold: Cold) -> list[Row]:
        """The rows of a snapshot with the log after it."""
        if self.mode != UPSERT:
            return [*cold.rows, *(r for r in self.tail(cold) if isinstance(r, Row))]
        newest: dict[int, Row | int] = {
            (r.id if isinstance(r, Row) else r): r for r in self.tail(cold)
        }
        kept = [row for row in cold.rows if row.id not in newest]
        return [*kept, *(r for r in newest.values() if isinstance(r, Row))]

    @property
    def rows(self) -> list[Row]:
        """The rows of the table now."""
        return self.joined(self.cold)

    def tiered(self) -> Cold:
        """What the table holds once the whole log is in it."""
        return Cold(tuple(self.rows), self.ends)
