"""A tiering application: one Spark, any number of tables, each on its own thread and interval.

A table that cannot go on is reported and tried again at the next interval; the others go on.
Stopping lets the batch in hand finish.
"""

from __future__ import annotations

import dataclasses
import http.server
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from seamline.connectors.base import NoDeadline, TopicBinding
from seamline.connectors.spark.sessions import connect
from seamline.connectors.spark.settings import environment
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.connectors.tiering import Outcome, Step, tier_once
from seamline.gateway.connections import Connections
from seamline.gateway.names import TableName
from seamline.gateway.spark import settings
from seamline.sql.errors import (
    COMMIT_CONFLICT,
    NOT_A_UNIFIED_TABLE,
    SPARK_UNAVAILABLE,
    SeamlineError,
)

_LOG = logging.getLogger("seamline.tiering")
CONFLICT_RETRIES = 5


@dataclasses.dataclass(slots=True)
class Progress:
    """What has become of one table so far; read by the metrics and the screen.

    Attributes:
        table: Its name.
        steps: Commits made.
        offsets: Offsets tiered.
        lag: Offsets still waiting after the last step; None before the first.
        errors: Steps that failed.
        last_error: Why the last one did, None once one has worked again.
        last_commit_at: Seconds since the epoch.
    """

    table: str
    steps: int = 0
    offsets: int = 0
    lag: int | None = None
    errors: int = 0
    last_error: SeamlineError | None = None
    last_commit_at: float | None = None


Report = Callable[[Progress, Step | SeamlineError, float], None]
"""(progress, what the step did, seconds it took)"""


def start_spark(connections: Connections) -> Any:
    """A Spark session for tiering and maintenance: remote if configured, else in this process.

    Raises:
        SeamlineError: SPARK_UNAVAILABLE, JAVA_NOT_FOUND, JARS_UNAVAILABLE, …
    """
    config = connections.config
    if config.spark.remote is not None:
        return connect(config.spark.remote)
    from pyspark.sql import SparkSession

    os.environ.update(environment())
    builder = SparkSession.builder.appName("seamline")
    for key, value in settings(config).static_conf().items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise SeamlineError(SPARK_UNAVAILABLE, f"Spark did not start: {error}") from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class TieringApplication:
    """Tiers tables until it is told to stop.

    Args:
        connections: Clusters and catalogs.
        spark: The Spark session.
        records_max: Offsets a batch covers at most.
    """

    def __init__(self, connections: Connections, spark: Any, *, records_max: int) -> None:
        self._connections = connections
        self._spark = spark
        self._records_max = records_max
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self.progress: dict[str, Progress] = {}

    def stop(self) -> None:
        """Lets each table finish its batch, then ends `run`."""
        self._stop.set()

    def run(
        self, names: Sequence[TableName], *, interval_s: float | None, report: Report
    ) -> list[SeamlineError]:
        """Tiers the tables.

        Args:
            names: The tables.
            interval_s: Seconds between looks at an idle table; None tiers what is there and ends.
            report: Called after every step of every table.

        Returns:
            Why tables could not be brought to their end, when `interval_s` is None.
        """
        for name in names:
            self.progress[name.display] = Progress(name.display)
        threads = [
            threading.Thread(
                target=self._run_table, args=(name, interval_s, report), name=f"tier-{name.display}"
            )
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [progress.last_error for progress in self.progress.values()]
        return [error for error in found if error is not None]

    def _run_table(self, name: TableName, interval_s: float | None, report: Report) -> None:
        progress = self.progress[name.display]
        conflicts = 0
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                step = self._step(name)
            except SeamlineError as error:
                progress.errors += 1
                progress.last_error = error
                report(progress, error, time.monotonic() - started)
                conflicts += 1
                if error.code is COMMIT_CONFLICT and conflicts <= CONFLICT_RETRIES:
                    continue
                if interval_s is None:
                    return
                self._stop.wait(interval_s)
                continue
            conflicts = 0
            progress.last_error = None
            progress.lag = step.lag
            if step.outcome is not Outcome.IDLE:
                progress.steps += 1
                progress.offsets += step.offsets
                progress.last_commit_at = time.time()
            report(progress, step, time.monotonic() - started)
            if step.outcome is Outcome.IDLE or step.lag == 0:
                if interval_s is None:
                    return
                self._stop.wait(interval_s)

    def _step(self, name: TableName) -> Step:
        table = self._table(name)
        # requests to the log have limits of their own; a batch takes as long as it is large
        return tier_once(table[0], table[1], NoDeadline(), records_max=self._records_max)

    def _table(self, name: TableName) -> tuple[SparkTierTable, Any]:
        catalog = self._connections.catalog(name.catalog)
        state = catalog.load(name.path).state
        binding = TopicBinding.from_properties(state.properties)
        if binding is None:
            raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {name.display} has no topic")
        log = self._connections.log(binding.cluster)
        cluster = self._connections.cluster(binding.cluster).config
        tasks = os.cpu_count() or 1
        spark = self._session()
        return SparkTierTable(spark, catalog, name.path, log, cluster, tasks_min=tasks), log

    def _session(self) -> Any:
        """The session, or a new one: a remote server that was started again knows no old ones."""
        with self._starting:
            if self._connections.config.spark.remote is not None and self._spark.is_stopped:
                self._spark = start_spark(self._connections)
            return self._spark


# --- Metrics -------------------------------------------------------------------------------------


def metrics_text(application: TieringApplication) -> str:
    """Progress of every table in Prometheus' text format."""
    lines = []
    for metric, kind, attribute in (
        ("seamline_tier_lag_offsets", "gauge", "lag"),
        ("seamline_tier_offsets_total", "counter", "offsets"),
        ("seamline_tier_commits_total", "counter", "steps"),
        ("seamline_tier_errors_total", "counter", "errors"),
        ("seamline_tier_last_commit_timestamp_seconds", "gauge", "last_commit_at"),
    ):
        lines.append(f"# TYPE {metric} {kind}")
        for progress in application.progress.values():
            value = getattr(progress, attribute)
            if value is not None:
                lines.append(f'{metric}{{table="{progress.table}"}} {value}')
    return "\n".join(lines) + "\n"


def serve_metrics(
    application: TieringApplication, host: str, port: int
) -> http.server.ThreadingHTTPServer:
    """Serves `/metrics` until it is shut down. They name tables and count; no data is in them."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers with the metrics, whatever the path."""
            body = metrics_text(application).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
            """Requests are not logged."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="tier-metrics", daemon=True).start()
    return server
