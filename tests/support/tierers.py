"""Tiering with something in its way: a `TierTable` that does more at the steps of the protocol."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.seam.evolution import Change
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch


class At(enum.Enum):
    """The steps of one batch, in their order."""

    PLANNED = "planned"
    PROBED = "probed"
    COMMITTED = "committed"
    CHECKED = "checked"
    KEPT = "kept"


class Interrupted:
    """A table on which something happens at a step of the batch.

    Args:
        inner: The table.
        events: What happens at which step.
    """

    def __init__(self, inner: TierTable, events: Mapping[At, Callable[[], object]]) -> None:
        self._inner = inner
        self._events = events

    def load(self) -> TableState:
        """See `TierTable.load`."""
        return self._inner.load()

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `TierTable.require_single_writer`."""
        self._inner.require_single_writer(snapshot_id)

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        self._reach(At.PLANNED)
        return self._inner.has_rows(batch, deadline)

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self._reach(At.PROBED)
        self._inner.commit_rows(batch)
        self._reach(At.COMMITTED)

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        return self._inner.evolve(batch, deadline)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        self._reach(At.PROBED)
        self._inner.commit_boundary(batch)
        self._reach(At.COMMITTED)

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        self._reach(At.CHECKED)
        self._inner.keep(snapshot_id)
        self._reach(At.KEPT)

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        self._inner.take_back(snapshot_id, to)

    def _reach(self, at: At) -> None:
        event = self._events.get(at)
        if event is not None:
            event()
