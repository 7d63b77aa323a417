"""`seamline tier`: the pipeline that moves the tail of topics into their tables."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from seamline.connectors import supervision
from seamline.errors import SeamlineError
from seamline.gateway import process
from seamline.gateway.catalogs.connections import Connections
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
    from seamline.gateway.names import TableName
    from seamline.gateway.tiering.application import TieringApplication
    from seamline.gateway.tiering.progress import Progress
    from seamline.gateway.tiering.tables import AutoTables, LocalTables, SparkTables
    from seamline.seam.tiering import Step


ENGINES = ("auto", "spark", "local")
BRIEF_OFFSETS_MAX = 1_000_000
"""Offsets that Spark tiers before code that Java compiles well would be worth the compilation."""
_QUIET_S = 5.0


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
    "Spark where PySpark is installed, else local, unless given.",
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
    connections = Connections(load_config(config_file, settings).config)
    names = [table_of(text, connections) for text in tables]
    look_at(names, connections)
    from seamline.gateway.tiering.application import TieringApplication

    opened = _tables(engine, connections, names if once else (), verbose=verbose)
    application = TieringApplication(opened, records_max=max_records)
    stop_on_signals(application)
    server = None
    if metrics_port is not None:
        from seamline.gateway.tiering.server import serve_metrics

        server = serve_metrics(application, metrics_host, metrics_port, unhealthy_after)
    try:
        failures = application.run(
            names,
            interval_s=None if once else interval,
            report=show_step,
            watch=show_stage if sys.stderr.isatty() else None,
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
    engine: str | None, connections: Connections, once: Sequence[TableName], *, verbose: bool
) -> LocalTables | SparkTables | AutoTables:
    """Returns what opens tables for an engine; those that are tiered once may be few records."""
    from seamline.gateway.tiering import tables

    def start() -> Any:
        click.echo("starting Spark …", err=True)
        is_brief = bool(once) and tables.waiting(connections, once) <= BRIEF_OFFSETS_MAX
        with clocked("starting Spark", is_shown=sys.stderr.isatty()):
            return tables.start_spark(connections, verbose=verbose, is_brief=is_brief)

    has_spark = importlib.util.find_spec("pyspark") is not None
    if engine is None:
        engine = "spark" if has_spark else "local"
    if engine == "local":
        return tables.LocalTables(connections)
    if engine == "auto":
        return tables.AutoTables(connections, start)
    return tables.SparkTables(connections, start())


def stop_on_signals(application: TieringApplication) -> None:
    """Lets the first Ctrl-C or SIGTERM finish current batches; a second one ends at once.

    A closed terminal, whose signal reaches all its programs, counts as well.
    """

    def stop(_: int) -> None:
        click.echo("stopping after the current batch …", err=True)
        application.stop()

    process.tell_of_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), stop)


@contextlib.contextmanager
def clocked(what: str, *, is_shown: bool, every_s: float = _QUIET_S) -> Iterator[None]:
    """Prints from time to time how long the block has been running, if that is to be shown."""
    began_at, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(every_s):
            click.echo(f"{what}, {time.monotonic() - began_at:.0f} s", err=True)

    if is_shown:
        supervision.start("clock", tell)
    try:
        yield
    finally:
        ended.set()


def show_stage(progress: Progress) -> None:
    """Prints what a step is doing and how far it is, unless it has only begun."""
    stage = progress.stage
    if stage is not None and progress.step_s >= _QUIET_S:
        offsets = f" {stage.offsets:,} offsets" if stage.offsets else ""
        tasks = f", {stage.done:,} of {stage.tasks:,} tasks" if stage.tasks else ""
        click.echo(
            f"{progress.table}: {stage.name}{offsets}{tasks}, {progress.step_s:.0f} s", err=True
        )


def show_step(progress: Progress, step: Step | SeamlineError, seconds: float) -> None:
    """Prints one line per step, but only one line while a table is idle."""
    from seamline.seam.tiering import Outcome

    if isinstance(step, SeamlineError):
        click.echo(f"error: {progress.table}: {step}", err=True)
    elif step.outcome is Outcome.ROWS:
        rate = step.offsets / seconds if seconds else 0
        click.echo(
            f"{progress.table}: {step.offsets:,} offsets in {seconds:.1f} s "
            f"({rate:,.0f}/s), lag {step.lag:,}",
            err=True,
        )
    elif step.outcome is Outcome.EVOLVED:
        click.echo(f"{progress.table}: {'; '.join(map(str, step.changes))}", err=True)
    elif step.outcome is Outcome.PROGRESS:
        click.echo(
            f"{progress.table}: {step.offsets:,} offsets without rows, lag {step.lag:,}", err=True
        )
    elif progress.steps == 0:
        click.echo(f"{progress.table}: nothing to tier", err=True)
    sys.stderr.flush()
