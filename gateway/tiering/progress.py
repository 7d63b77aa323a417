"""The progress of one table's tiering: what it has done, what it does now, and what waits."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import SeamlineError
from seamline.gateway.tiering.backlog import Backlog, BacklogOf
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of
from seamline.seam.evolution import Change
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch


@dataclasses.dataclass(slots=True)
class Stage:
    """What a step is doing.

    Attributes:
        name: What it does, for people.
        offsets: Offsets of the batch, once there is one.
        since: When it began to, on the monotonic clock.
        done: Tasks of Spark that have been completed, where Spark says so.
        tasks: Tasks of Spark in all.
        moved_at: When anything of this last changed, on the monotonic clock.
    """

    name: str
    offsets: int = 0
    since: float = dataclasses.field(default_factory=time.monotonic)
    done: int = 0
    tasks: int = 0
    moved_at: float = dataclasses.field(default_factory=time.monotonic)

    def count(self, done: int, tasks: int) -> None:
        """Notes how many tasks there are, and how many have been completed."""
        if (done, tasks) != (self.done, self.tasks):
            self.done, self.tasks, self.moved_at = done, tasks, time.monotonic()


@dataclasses.dataclass(slots=True)
class Progress:
    """The progress of one table so far, for the metrics and the screen.

    Attributes:
        table: Its name.
        steps: Commits made.
        offsets: Offsets tiered.
        backlog: What waited when it was last measured; None before.
        errors: The number of failed steps, by the name of the error.
        last_error: Why the last step failed; None once one has succeeded again.
        last_commit_at: Seconds since the epoch.
        last_success_at: The same for the last step that succeeded, even with nothing to do.
        step_since: When the step began that is running, on the monotonic clock; None between steps.
        stage: What that step is doing.
        backlog_of: Measures what waits; None before the table was first loaded.
    """

    table: str
    steps: int = 0
    offsets: int = 0
    backlog: Backlog | None = None
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    last_error: SeamlineError | None = None
    last_commit_at: float | None = None
    last_success_at: float | None = None
    step_since: float | None = None
    stage: Stage | None = None
    backlog_of: BacklogOf | None = None

    def begin(self) -> None:
        """Notes that a step begins."""
        self.stage = Stage("opening the table")
        self.step_since = self.stage.since

    def end(self) -> None:
        """Notes that the step has ended, whatever became of it."""
        self.step_since = self.stage = None

    @property
    def step_s(self) -> float:
        """Seconds since the running step began; 0 between steps."""
        since = self.step_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def still_s(self) -> float:
        """Seconds since anything of the running step last changed; 0 between steps."""
        stage = self.stage
        return 0.0 if stage is None else time.monotonic() - stage.moved_at


class WatchedTable:
    """`TierTable` over another, which notes what is being done with it."""

    def __init__(self, inner: TierTable, log: HotLog, progress: Progress) -> None:
        self._inner = inner
        self._log = log
        self._progress = progress

    def load(self) -> TableState:
        """See `TierTable.load`; notes how far the table is."""
        self._note("loading the table")
        state = self._inner.load()
        binding = TopicBinding.from_properties(state.properties)
        if binding is not None:
            with contextlib.suppress(SeamlineError):  # the step says what is wrong with it
                self._note_boundary(binding.topic, boundary_of(state, state.current_snapshot_id))
        return state

    def _note_boundary(self, topic: str, boundary: Boundary) -> None:
        backlog = self._progress.backlog_of
        if backlog is None or backlog.topic != topic:
            backlog = BacklogOf(self._log, topic, boundary.isolation, boundary.next)
            self._progress.backlog_of = backlog
        backlog.boundary = boundary.next

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `TierTable.require_single_writer`."""
        self._note("looking for other writers")
        self._inner.require_single_writer(snapshot_id)

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        self._note("reading the first records", batch)
        return self._inner.has_rows(batch, deadline)

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self._note("reading, decoding and writing", batch)
        self._inner.commit_rows(batch)

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        self._note("changing columns", batch)
        return self._inner.evolve(batch, deadline)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        self._note("committing the boundary", batch)
        self._inner.commit_boundary(batch)

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        self._note("tagging the snapshot")
        self._inner.keep(snapshot_id)

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        self._note("taking the commit back")
        self._inner.take_back(snapshot_id, to)

    def _note(self, name: str, batch: Batch | None = None) -> None:
        self._progress.stage = Stage(name, batch.offsets if batch is not None else 0)
