"""A tiering application: one Spark, any number of tables, each in a loop of its own.

A table that cannot continue, for whatever reason, is reported and tried again with growing pauses;
the others continue. A batch that loses to other commits is half as large the next time, and so
takes less time in which it can lose. Stopping lets the current batch finish. Health depends on when
a step of each table last succeeded.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from seamline.connectors import supervision
from seamline.connectors.files import is_full
from seamline.connectors.jvm.java import find_java
from seamline.connectors.protocols import HotLog, NoDeadline, TierTable
from seamline.connectors.spark.errors import named_errors
from seamline.connectors.spark.sessions import open_session
from seamline.connectors.spark.submission import start_interruptibly
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.connectors.supervision import Backoff, Loop
from seamline.errors import (
    COMMIT_CONFLICT,
    NOT_A_UNIFIED_TABLE,
    SPARK_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway.connections import Connections
from seamline.gateway.process import interrupted_by_signals
from seamline.gateway.query.names import TableName
from seamline.gateway.spark import settings
from seamline.gateway.tiering.step import tier_once
from seamline.seam.binding import TopicBinding
from seamline.seam.tiering import Outcome, Step

CONFLICT_PATIENCE_S = 600.0
"""How long batches that lose to other commits are tried again before `run` without an interval
gives up."""
_HALVINGS_MAX = 10
_CONFLICT_PAUSES_MAX = 6
_DICE = secrets.SystemRandom()


@dataclasses.dataclass(slots=True)
class Progress:
    """The progress of one table so far, for the metrics and the screen.

    Attributes:
        table: Its name.
        steps: Commits made.
        offsets: Offsets tiered.
        lag: Offsets still waiting after the last step; None before the first.
        errors: The number of failed steps, by the name of the error.
        last_error: Why the last step failed; None once one has succeeded again.
        last_commit_at: Seconds since the epoch.
        last_success_at: The same for the last step that succeeded, even with nothing to do.
    """

    table: str
    steps: int = 0
    offsets: int = 0
    lag: int | None = None
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    last_error: SeamlineError | None = None
    last_commit_at: float | None = None
    last_success_at: float | None = None


Report = Callable[[Progress, Step | SeamlineError, float], None]
"""(progress, what the step did, seconds it took)"""


class Tables(Protocol):
    """Opens tables for tiering; implemented by `SparkTables`."""

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """Returns the table as it is now, and the cluster its topic is in.

        Raises:
            SeamlineError: NOT_A_UNIFIED_TABLE, or why it cannot be opened.
        """


@interrupted_by_signals()
def start_spark(connections: Connections, *, verbose: bool = False) -> Any:
    """Opens a Spark session for tiering and maintenance: remote if configured, else in-process.

    SIGTERM during the start aborts it, like Ctrl-C.

    Args:
        connections: The connections, for their configuration.
        verbose: Whether a Spark in this process logs; its failures are always raised.

    Raises:
        SeamlineError: SPARK_UNAVAILABLE, JAVA_NOT_FOUND, JARS_UNAVAILABLE, …
    """
    config = connections.config
    if config.spark.remote is not None:
        with named_errors(NoDeadline()):
            return open_session(config.spark.remote)
    find_java(os.environ)  # reports problems with Java in one line, where Spark takes many
    made = settings(config)
    try:
        spark = start_interruptibly(made, is_quiet=not verbose)
    except ImportError:
        raise
    except Exception as error:
        if is_full(error):
            raise supervision.named(error) from error
        raise SeamlineError(SPARK_UNAVAILABLE, f"Spark did not start: {error}") from error
    spark.sparkContext.setLogLevel("WARN" if verbose else "OFF")
    return spark


class SparkTables:
    """Tables that Spark writes.

    Args:
        connections: Clusters and catalogs.
        spark: The Spark session.
    """

    def __init__(self, connections: Connections, spark: Any) -> None:
        self._connections = connections
        self._spark = spark
        self._starting = threading.Lock()

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        catalog = self._connections.catalog(name.catalog)
        table = catalog.load(name.path)
        binding = TopicBinding.from_properties(table.state.properties)
        if binding is None:
            raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {name.display} has no topic")
        log = self._connections.log(binding.cluster)
        cluster = self._connections.cluster(binding.cluster).config
        tasks = os.cpu_count() or 1
        spark = self._session()
        made = SparkTierTable(
            spark, catalog, name.path, log, cluster, tasks_min=tasks, opened=table
        )
        return made, log

    def _session(self) -> Any:
        """Returns the session, or a new one if a restarted remote server has lost it."""
        with self._starting:
            if self._connections.config.spark.remote is not None and self._spark.is_stopped:
                self._spark = start_spark(self._connections)
            return self._spark


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
        self, names: Sequence[TableName], *, interval_s: float | None, report: Report
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
        for name in dict.fromkeys(names):
            self.progress[name.display] = Progress(name.display)
            self._loops[name.display] = self._loop(name, interval_s, report)
        if self._stop.is_set():
            self.stop()
        for loop in self._loops.values():
            loop.join()
        found = [progress.last_error for progress in self.progress.values()]
        return [error for error in found if error is not None]

    def health(self, unhealthy_after_s: float) -> tuple[bool, dict[str, Any]]:
        """Returns whether every table is healthy, and the state of each; JSON-ready.

        Args:
            unhealthy_after_s: A table without a successful step for this long is unhealthy.
        """
        tables: dict[str, Any] = {}
        for name, loop in list(self._loops.items()):
            is_there = loop.is_alive or loop.has_finished
            is_well = is_there and (loop.has_finished or loop.quiet_s <= unhealthy_after_s)
            error = self.progress[name].last_error
            tables[name] = {
                "is_well": is_well,
                "is_there": is_there,
                "seconds_since_success": round(loop.quiet_s, 1),
                "failures_in_a_row": loop.failures_in_a_row,
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
            done = self._step(name, self._records_max >> min(lost, _HALVINGS_MAX))
            lost = 0
            progress.last_error = None
            progress.lag = done.lag
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
        # requests to the log have their own limits; a batch takes as long as its size requires
        return tier_once(table, log, NoDeadline(), records_max=max(1, records_max))
