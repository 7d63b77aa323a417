"""Opens tables for tiering: on Spark, in this process, or on whichever suits a batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from seamline.connectors import supervision
from seamline.connectors.config import ClusterConfig
from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.files import is_full
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.jvm.ivy import Report
from seamline.connectors.machine import cores
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.spark import submission
from seamline.connectors.spark.errors import named_errors
from seamline.connectors.spark.sessions import Sessions, open_session
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import (
    NOT_SUPPORTED,
    SPARK_UNAVAILABLE,
    TAIL_TOO_LARGE,
    SeamlineError,
)
from seamline.gateway.app.spark import settings
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.names import TableName
from seamline.gateway.process import interrupted_by_signals
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import Batch, lag

_LOG = logging.getLogger("seamline.tiering")

LOCAL_OFFSETS_MAX = 500_000
"""Offsets beyond which a batch is worth the start of Spark."""
_WAITING_S_MAX = 30.0


class Tables(Protocol):
    """Opens tables for tiering."""

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """Returns the table as it is now, and the cluster its topic is in.

        Raises:
            SeamlineError: NOT_A_UNIFIED_TABLE, or why it cannot be opened.
        """


@interrupted_by_signals()
def start_spark(
    connections: Connections,
    report: Report = _LOG.info,
    *,
    verbose: bool = False,
    is_brief: bool = False,
) -> Any:
    """Opens a Spark session for tiering and maintenance: remote if configured, else in-process.

    SIGTERM during the start aborts it, like Ctrl-C.

    Args:
        connections: The connections, for their configuration.
        report: Takes progress.
        verbose: Whether a Spark in this process logs; its failures are always raised.
        is_brief: Whether it works for less than a minute; see `settings`.

    Raises:
        SeamlineError: SPARK_UNAVAILABLE, JAVA_NOT_FOUND, JARS_UNAVAILABLE, …
    """
    config = connections.config
    if config.spark.remote is not None:
        report("connecting to Spark")
        with named_errors(NoDeadline()):
            return open_session(config.spark.remote)
    made = settings(config, report, is_brief=is_brief)
    report(f"starting Spark {config.spark.master}")
    try:
        spark = submission.start_interruptibly(made, is_quiet=not verbose)
    except ImportError:
        raise
    except Exception as error:
        if is_full(error):
            raise supervision.named(error) from error
        raise SeamlineError(SPARK_UNAVAILABLE, f"Spark did not start: {error}") from error
    spark.sparkContext.setLogLevel("WARN" if verbose else "OFF")
    return spark


class _Opened:
    """What any way to tier needs of a table, as it is now."""

    def __init__(self, connections: Connections, name: TableName) -> None:
        self.catalog: IcebergCatalog = connections.catalog(name.catalog)
        self.table: IcebergTable = self.catalog.load(name.path)
        binding = TopicBinding.required(self.table.state.properties, name.display)
        self.topic = binding.topic
        self.log = connections.log(binding.cluster)
        self.cluster: ClusterConfig = connections.cluster(binding.cluster).config


def waiting(connections: Connections, names: Iterable[TableName]) -> int:
    """Returns how many offsets wait, except those of tables that cannot be opened."""
    return sum(_waiting(connections, name) for name in names)


def _waiting(connections: Connections, name: TableName) -> int:
    deadline = StatementDeadline(_WAITING_S_MAX)
    try:
        parts = _Opened(connections, name)
        state = parts.table.state
        boundary = boundary_of(state, state.current_snapshot_id)
        bounds = parts.log.bounds([parts.topic], boundary.isolation, deadline)[parts.topic]
    except SeamlineError:  # its first step says why
        return 0
    finally:
        deadline.close()
    return lag(boundary, bounds)


class LocalTables:
    """Tables whose batches this process writes."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        parts = _Opened(self._connections, name)
        made = LocalTierTable(parts.catalog, name.path, parts.log, opened=parts.table)
        return made, parts.log

    def close(self) -> None:
        """Does nothing: there is no Spark to end."""


class SparkTables:
    """Tables that Spark writes."""

    def __init__(self, connections: Connections, spark: Any) -> None:
        self._connections = connections
        self._spark = spark
        self._sessions = Sessions.beside(spark)

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        parts = _Opened(self._connections, name)
        if not self._is_remote:
            self._spark.sparkContext.setJobGroup(name.display, f"tiering of {name.display}")
        made = SparkTierTable(
            self._sessions,
            parts.catalog,
            name.path,
            parts.log,
            parts.cluster,
            tasks_min=cores(),
            opened=parts.table,
        )
        return made, parts.log

    def tasks(self, name: TableName) -> tuple[int, int]:
        """See `CountsTasks.tasks`; zeros for a remote Spark, which does not say."""
        if self._is_remote:
            return 0, 0
        tracker = self._spark.sparkContext.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(name.display))
        ids = {stage for job in jobs if job is not None for stage in job.stageIds}
        stages = [info for info in map(tracker.getStageInfo, sorted(ids)) if info is not None]
        return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)

    def close(self) -> None:
        """Ends Spark."""
        self._sessions.close()
        submission.stop(self._spark)

    @property
    def _is_remote(self) -> bool:
        return self._connections.config.spark.remote is not None


class AutoTables:
    """Tables whose small batches this process writes, and whose large ones Spark does.

    Spark starts with the first batch that needs it.

    Args:
        connections: Clusters and catalogs.
        start: Starts Spark; see `start_spark`.
        local_offsets_max: Offsets beyond which a batch is worth the start of Spark.
    """

    def __init__(
        self,
        connections: Connections,
        start: Callable[[], Any],
        *,
        local_offsets_max: int = LOCAL_OFFSETS_MAX,
    ) -> None:
        self._connections = connections
        self._start = start
        self._local_offsets_max = local_offsets_max
        self._starting = threading.Lock()
        self._on_spark: SparkTables | None = None

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        parts = _Opened(self._connections, name)

        def on_spark() -> TierTable:
            return self._spark_tables().open(name)[0]

        return _SizedTierTable(parts, name, on_spark, self._local_offsets_max), parts.log

    def tasks(self, name: TableName) -> tuple[int, int]:
        """See `CountsTasks.tasks`; zeros unless Spark runs."""
        return self._on_spark.tasks(name) if self._on_spark is not None else (0, 0)

    def close(self) -> None:
        """Ends Spark, if it has started."""
        if self._on_spark is not None:
            self._on_spark.close()

    def _spark_tables(self) -> SparkTables:
        with self._starting:
            if self._on_spark is None:
                self._on_spark = SparkTables(self._connections, self._start())
            return self._on_spark


class _SizedTierTable(LocalTierTable):
    """A table whose batches are written by this process or by Spark, whichever suits them."""

    def __init__(
        self,
        parts: _Opened,
        name: TableName,
        on_spark: Callable[[], TierTable],
        local_offsets_max: int,
    ) -> None:
        super().__init__(parts.catalog, name.path, parts.log, opened=parts.table)
        self._name = name
        self._on_spark = on_spark
        self._local_offsets_max = local_offsets_max

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        if batch.offsets <= self._local_offsets_max:
            try:
                super().commit_rows(batch)
            except SeamlineError as error:
                if error.code not in (NOT_SUPPORTED, TAIL_TOO_LARGE):
                    raise
                _LOG.info("%s: Spark writes the batch: %s", self._name.display, error)
            else:
                return
        self._on_spark().commit_rows(batch)
