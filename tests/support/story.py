"""A topic in memory with a table over it, and an account of what was committed to the topic.

The account is kept beside the log, so that trimming, tiering and expiry cannot change it: it is
what a stitched read must agree with.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from fakes.memory import ManualClock, MemoryLog, MemoryTable, seam_rows

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam import now, repeat
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, boundary_of, cold_side, encode, kept_side
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import TableSchema
from seamline.seam.tiering import Step
from seamline.sql.types import VARCHAR, Field

TOPIC = "bids"
NAME = ("lake", "default", TOPIC)
NO_DEADLINE = NoDeadline()
BINDING = TopicBinding("default", TOPIC)

Position = tuple[int, int]
"""(partition, offset)"""


class Story:
    """What happens to the topic and to the table.

    Args:
        partitions: Partitions the topic begins with.
    """

    def __init__(self, partitions: int = 2) -> None:
        self.log = MemoryLog(ManualClock())
        self.log.create_topic(TOPIC, partitions)
        self.committed: dict[Position, bytes] = {}
        self.foreign: list[bytes] = []
        self._values = itertools.count()
        self._undecided: dict[int, dict[Position, bytes]] = {}
        schema = TableSchema(0, (Field("value", VARCHAR),))
        self.table = MemoryTable(NAME, schema, BINDING.to_properties(), self.log.clock, self.log)
        self.table.create({SUMMARY_KEY: encode(first_boundary(self.bounds()))})

    # --- The topic -----------------------------------------------------------------------------

    def produce(
        self, partition: int, transaction: int | None = None, value: bytes | None = None
    ) -> Position:
        """Appends a record; with a value of its own, unless given."""
        value = value or str(next(self._values)).encode()
        offset = self.log.produce(TOPIC, partition, value, transaction=transaction)
        into = self.committed if transaction is None else self._undecided[transaction]
        into[partition, offset] = value
        return partition, offset

    def begin(self) -> int:
        """Starts a transaction."""
        transaction = self.log.begin()
        self._undecided[transaction] = {}
        return transaction

    def end(self, transaction: int, *, commit: bool) -> None:
        """Ends a transaction."""
        written = self._undecided.pop(transaction)
        self.log.end_transaction(TOPIC, transaction, commit=commit)
        if commit:
            self.committed.update(written)

    @property
    def open_transactions(self) -> list[int]:
        """Those that have begun and not ended."""
        return list(self._undecided)

    def bounds(self) -> LogBounds:
        """What the log holds now."""
        return self.log.bounds([TOPIC], READ_COMMITTED, NO_DEADLINE)[TOPIC]

    # --- The table -----------------------------------------------------------------------------

    def tier(self, records_max: int = 1000) -> Step:
        """One step of tiering."""
        return tier_once(self.table, self.log, NO_DEADLINE, records_max=records_max)

    def append_foreign(self) -> None:
        """A row that does not come from the log."""
        value = f"foreign {next(self._values)}".encode()
        self.foreign.append(value)
        self.table.append_foreign(value)

    def expire(self) -> None:
        """Expires what neither the head nor its boundary needs."""
        marked = self.boundary.snapshot_id
        line = [s.snapshot_id for s in self.table.state.ancestors(self.head)]
        self.table.expire(line[: line.index(marked) + 1])

    @property
    def head(self) -> int:
        """The current snapshot."""
        head = self.table.state.current_snapshot_id
        assert head is not None
        return head

    @property
    def boundary(self) -> Boundary:
        """The boundary at the head."""
        return boundary_of(self.table.state, self.head)

    # --- Reading -------------------------------------------------------------------------------

    def pin(self, bounds: LogBounds | None = None) -> Seam | None:
        """The seam of a read whose ends were asked for before the table; now, unless given."""
        binding = TopicBinding.from_properties(self.table.state.properties)
        assert binding is not None
        seam = now.pin(
            self.table.state,
            cold_side(self.table.state, self.head),
            bounds or self.bounds(),
            cluster="default",
            bounds_are_newer=bounds is None,
        )
        if seam is None:
            return None
        return seam.decoded_by(str(binding.encoding), binding.on_error)

    def repeat(self, token: Seam) -> Seam:
        """The seam of an earlier read again: of its own snapshot, or of the head in its place."""
        state = self.table.state
        own = kept_side(state, token.cold.snapshot_id)
        sides = [side for side in (own, cold_side(state, self.head)) if side is not None]
        return repeat.repeat(state, token, sides, self.bounds(), cluster="default")

    def rows(self, seam: Seam) -> list[bytes]:
        """The values that a read of a seam finds, doubles included."""
        return sorted(row[2] or b"" for row in seam_rows(self.table, self.log, seam))

    def expected(self, end: Mapping[int, int]) -> list[bytes]:
        """The values of every record committed below the ends, and of every foreign row."""
        below = [value for (p, o), value in self.committed.items() if o < end.get(p, 0)]
        return sorted([*below, *self.foreign])


def first_boundary(bounds: LogBounds) -> Boundary:
    """The boundary of a table that has just been created: where the log begins."""
    return Boundary(
        snapshot_id=0,
        cluster_id=bounds.cluster_id,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        isolation=bounds.isolation,
        start=bounds.start,
        next=Offsets(bounds.start),
    )
