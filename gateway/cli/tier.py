"""`seamline tier`: the pipeline that moves the tail of topics into their tables."""

from __future__ import annotations

import functools
import importlib.util
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from seamline.errors import SeamlineError
from seamline.gateway import process
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.cli import progress
from seamline.gateway.cli.options import (
    LOG_FORMAT,
    PORT,
    Duration,
    config_options,
    load_config,
    look_at,
    table_of,
)

if TYPE_CHECKING:
    from seamline.gateway.cli.progress import ProgressLine
    from seamline.gateway.names import TableName
    from seamline.gateway.tiering.application import TieringApplication
    from seamline.gateway.tiering.progress import Progress
    from seamline.gateway.tiering.tables import AutoTables, LocalTables, SparkTables
    from seamline.seam.tiering import Step


ENGINES = ("auto", "spark", "local")
BRIEF_OFFSETS_MAX = 1_000_000
"""Offsets that Spark tiers before code that Java compiles well would be worth the compilation."""
_LOGGED_EVERY_S = 30.0
"""Seconds after which a step is logged again where nobody watches."""


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="TABLE…")
@click.option("--once", is_flag=True, help="Tier what is in the log now, then exit.")
@click.option(
    "--interval",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time between checks of an idle table.",
)
@click.option(
    "--max-records",
    type=click.IntRange(min=1),
    default=5_000_000,
    show_default=True,
    help="Maximum number of offsets in a batch.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What writes batches: Spark, this process (local), or whichever suits a batch (auto). "
    "Unless given: Spark where spark.remote names one, local without PySpark, else auto.",
)
@click.option(
    "--metrics-port", type=PORT, help="Serve Prometheus metrics, and /healthz, on this port."
)
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="Address for the metrics."
)
@click.option(
    "--unhealthy-after",
    type=Duration(),
    default="30m",
    show_default=True,
    help="Report unhealthy once no batch of a table has succeeded or progressed for this long.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log more, and show Spark's log.")
@config_options
def tier(
    tables: tuple[str, ...],
    once: bool,
    interval: float,
    max_records: int,
    engine: str | None,
    metrics_port: int | None,
    metrics_host: str,
    unhealthy_after: float,
    verbose: bool,
    config_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Move the tail of each TABLE's topic into the table."""
    if verbose:
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    quiet_s = progress.REPEATED_AFTER_S if sys.stderr.isatty() else _LOGGED_EVERY_S
    with progress.shown("opening the tables", repeated_after_s=quiet_s) as line:
        connections = Connections(load_config(config_file, settings).config)
        names = [table_of(text, connections) for text in tables]
        look_at(names, connections)
        from seamline.gateway.tiering.application import TieringApplication

        opened = _tables(engine, connections, names if once else (), line, verbose=verbose)
        application = TieringApplication(opened, records_max=max_records)
        line.doing = functools.partial(doing, application)
        line.report("")
        stop_on_signals(application)
        server = None
        if metrics_port is not None:
            from seamline.gateway.tiering.server import serve_metrics

            server = serve_metrics(application, metrics_host, metrics_port, unhealthy_after)
        try:
            failures = application.run(
                names,
                interval_s=None if once else interval,
                report=lambda *step: show_step(line.print, *step),
            )
        finally:
            if server is not None:
                server.shutdown()
            opened.close()
            connections.close()
    if once and application.is_stopping:
        raise click.Abort
    if once and failures:  # each was reported as it occurred
        click.get_current_context().exit(1)


def _tables(
    engine: str | None,
    connections: Connections,
    once: Sequence[TableName],
    line: ProgressLine,
    *,
    verbose: bool,
) -> LocalTables | SparkTables | AutoTables:
    """Returns what opens tables for an engine; those that are tiered once may be few records."""
    from seamline.gateway.tiering import tables

    def start() -> Any:
        is_brief = bool(once) and tables.waiting(connections, once) <= BRIEF_OFFSETS_MAX
        try:
            return tables.start_spark(connections, line.report, verbose=verbose, is_brief=is_brief)
        finally:
            line.report("")

    if engine is None:
        engine = default_engine(connections)
    if engine == "local":
        return tables.LocalTables(connections)
    if engine == "auto":
        return tables.AutoTables(connections, start)
    return tables.SparkTables(connections, start())


def default_engine(connections: Connections) -> str:
    """Returns what writes batches unless it is given.

    A Spark that runs anyway writes all; one that has to be started, only what is worth the start.
    """
    if importlib.util.find_spec("pyspark") is None:
        return "local"
    return "auto" if connections.config.spark.remote is None else "spark"


def stop_on_signals(application: TieringApplication) -> None:
    """Lets the first Ctrl-C or SIGTERM finish current batches; a second one ends at once.

    A closed terminal, whose signal reaches all its programs, counts as well.
    """

    def stop(_: int) -> None:
        click.echo("stopping after the current batch …", err=True)
        application.stop()

    process.tell_of_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), stop)


def doing(application: TieringApplication) -> tuple[str, float]:
    """Returns what the steps of all tables are doing and how far they are; see `progress.Doing`."""
    running = [p for p in list(application.progress.values()) if p.stage is not None]
    if not running:
        return "", 0.0
    return "; ".join(map(stage_text, running)), max(p.step_s for p in running)


def stage_text(progress: Progress) -> str:
    """Returns what a step is doing, and how far it is where Spark says so."""
    stage = progress.stage
    if stage is None:
        return ""
    parts = [f"{stage.name} {stage.offsets:,} offsets" if stage.offsets else stage.name]
    if stage.tasks:
        parts.append(f"{stage.done:,} of {stage.tasks:,} tasks")
    return f"{progress.table}: {', '.join(parts)}"


def show_step(
    show: Callable[[str], None], progress: Progress, step: Step | SeamlineError, seconds: float
) -> None:
    """Prints one line per step, but only one line while a table is idle."""
    from seamline.seam.tiering import Outcome

    if isinstance(step, SeamlineError):
        show(f"error: {progress.table}: {step}")
    elif step.outcome is Outcome.ROWS:
        rate = step.offsets / seconds if seconds else 0
        left = f", about {step.lag / rate:,.0f} s left" if rate and step.lag else ""
        show(
            f"{progress.table}: {step.offsets:,} offsets in {seconds:.1f} s "
            f"({rate:,.0f}/s), lag {step.lag:,}{left}",
        )
    elif step.outcome is Outcome.EVOLVED:
        show(f"{progress.table}: {'; '.join(map(str, step.changes))}")
    elif step.outcome is Outcome.PROGRESS:
        show(f"{progress.table}: {step.offsets:,} offsets without rows, lag {step.lag:,}")
    elif progress.steps == 0:
        show(f"{progress.table}: nothing to tier")
