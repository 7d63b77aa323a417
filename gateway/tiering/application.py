"""A tiering application: one Spark, any number of tables, each in a loop of its own.

A table that cannot continue, for whatever reason, is reported and tried again with growing pauses;
the others continue. A batch that loses to other commits is half as large the next time, and so
takes less time in which it can lose. Stopping lets the current batch finish. Health depends on when
a step of each table last succeeded.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from seamline.connectors import supervision
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.supervision import Backoff, Loop
from seamline.errors import (
    COMMIT_CONFLICT,
    SeamlineError,
)
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.names import TableName
from seamline.gateway.tiering.progress import Progress, WatchedTable
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import Tables
from seamline.seam.tiering import Outcome, Step

_LOG = logging.getLogger("seamline.tiering")

CONFLICT_PATIENCE_S = 600.0
"""How long batches that lose to other commits are tried again before `run` without an interval
gives up."""
_MEASURE_EVERY_S = 5.0
_HALVINGS_MAX = 10
_CONFLICT_PAUSES_MAX = 6
_DICE = secrets.SystemRandom()


Report = Callable[[Progress, Step | SeamlineError, float], None]
"""(progress, what the step did, seconds it took)"""


@runtime_checkable
class CountsTasks(Protocol):
    """`Tables` that know how much of a batch has been done."""

    def tasks(self, name: TableName) -> tuple[int, int]:
        """Returns how many tasks of a table's batch are done, and how many there are."""


class TieringApplication:
    """Tiers tables until it is told to stop.

    Args:
        tables: Opens them.
        records_max: Maximum number of offsets in a batch.
        backoff: Pauses after failures of a table.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        records_max: int,
        backoff: Backoff = Backoff(),  # noqa: B008 - a frozen value
    ) -> None:
        self._tables = tables
        self._records_max = records_max
        self._backoff = backoff
        self._stop = threading.Event()
        self._loops: dict[str, Loop] = {}
        self.progress: dict[str, Progress] = {}

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Lets each table finish its batch, then ends `run`."""
        self._stop.set()
        for loop in list(self._loops.values()):
            loop.stop()

    def run(
        self,
        names: Sequence[TableName],
        *,
        interval_s: float | None,
        report: Report,
    ) -> list[SeamlineError]:
        """Tiers the tables.

        Args:
            names: The tables.
            interval_s: Seconds between checks of an idle table; None tiers what is in the log and
                stops.
            report: Called after every step of every table.

        Returns:
            Why tables could not be tiered to their ends, when `interval_s` is None.
        """
        measuring = Loop("tier-backlog", lambda: self.measure(names))
        for name in dict.fromkeys(names):
            self.progress[name.display] = Progress(name.display)
            self._loops[name.display] = self._loop(name, interval_s, report)
        if self._stop.is_set():
            self.stop()
        for loop in self._loops.values():
            loop.join()
        measuring.stop()
        errors = [progress.last_error for progress in self.progress.values()]
        return [error for error in errors if error is not None]

    def measure(self, names: Sequence[TableName]) -> float:
        """Measures what waits of each table, and how far its batch is; returns when to do it again.

        What cannot be measured keeps its last value, whose age the metrics show.
        """
        for name in names:
            progress = self.progress.get(name.display)
            if progress is None:
                continue
            stage, backlog_of = progress.stage, progress.backlog_of
            if stage is not None and isinstance(self._tables, CountsTasks):
                stage.count(*self._tables.tasks(name))
            if backlog_of is not None:
                deadline = StatementDeadline(_MEASURE_EVERY_S)
                try:
                    progress.backlog = backlog_of.measure(deadline)
                except SeamlineError as error:
                    _LOG.info("%s: its backlog is unknown: %s", name.display, error)
                finally:
                    deadline.close()
        return _MEASURE_EVERY_S

    def health(self, unhealthy_after_s: float) -> tuple[bool, dict[str, Any]]:
        """Returns whether every table is healthy, and the state of each; JSON-ready.

        Args:
            unhealthy_after_s: A table is unhealthy without a successful step for this long, unless
                its first step since then still makes progress.
        """
        tables: dict[str, Any] = {}
        for name, loop in list(self._loops.items()):
            is_there = loop.is_alive or loop.has_finished
            progress = self.progress[name]
            error, stage = progress.last_error, progress.stage
            quiet_s = loop.quiet_s
            if stage is not None and not loop.failures_in_a_row:
                quiet_s = min(quiet_s, progress.still_s)
            is_well = is_there and (loop.has_finished or quiet_s <= unhealthy_after_s)
            tables[name] = {
                "is_well": is_well,
                "is_there": is_there,
                "seconds_since_success": round(loop.quiet_s, 1),
                "failures_in_a_row": loop.failures_in_a_row,
                "stage": stage.name if stage is not None else None,
                "seconds_in_step": round(progress.step_s, 1),
                "seconds_without_progress": round(progress.still_s, 1),
                "error": error.code.name if error is not None else None,
            }
        is_well = all(table["is_well"] for table in tables.values())
        return is_well, {"status": "ok" if is_well else "failing", "tables": tables}

    def _loop(self, name: TableName, interval_s: float | None, report: Report) -> Loop:
        progress = self.progress[name.display]
        started = time.monotonic()
        lost, lost_since = 0, started  # conflicts in a row, and when they began

        def step() -> float | None:
            nonlocal started, lost
            started = time.monotonic()
            progress.begin()
            try:
                done = self._step(name, self._records_max >> min(lost, _HALVINGS_MAX))
            finally:
                progress.end()
            lost = 0
            progress.last_error = None
            progress.last_success_at = time.time()
            if done.outcome is not Outcome.IDLE:
                progress.steps += 1
                progress.offsets += done.offsets
                progress.last_commit_at = progress.last_success_at
            supervision.attempt("tier-report", lambda: report(progress, done, elapsed_s()))
            return interval_s if done.outcome is Outcome.IDLE or done.lag == 0 else 0.0

        def failed(error: SeamlineError, failures: int) -> float | None:
            nonlocal lost, lost_since
            progress.errors[error.code.name] += 1
            progress.last_error = error
            supervision.attempt("tier-report", lambda: report(progress, error, elapsed_s()))
            if error.code is COMMIT_CONFLICT:
                lost_since = lost_since if lost else started
                lost += 1
                if interval_s is not None or time.monotonic() < lost_since + CONFLICT_PATIENCE_S:
                    return _DICE.uniform(0, self._backoff.pause_s(min(lost, _CONFLICT_PAUSES_MAX)))
            else:
                lost = 0
            return None if interval_s is None else self._backoff.pause_s(failures)

        def elapsed_s() -> float:
            return time.monotonic() - started

        return Loop("tier", step, after_failure=failed, is_told=True)

    def _step(self, name: TableName, records_max: int) -> Step:
        table, log = self._tables.open(name)
        table = WatchedTable(table, log, self.progress[name.display])
        # requests to the log have their own limits; a batch takes as long as its size requires
        return tier_once(table, log, NoDeadline(), records_max=max(1, records_max))
