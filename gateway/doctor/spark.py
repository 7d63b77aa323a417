"""Checks Spark: its client, and the server that is configured or would be started."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import urllib.parse
from collections.abc import Iterator
from typing import Any

from seamline.connectors.kafka import probing
from seamline.errors import SPARK_UNAVAILABLE, SeamlineError
from seamline.gateway.config.model import Config
from seamline.gateway.doctor.findings import Finding, Level, of_error, ok, skipped, warning

START_S = 150.0
ANSWER_S = 30.0
"""Seconds for a Spark server, where opening a session takes longer than anything else."""
_PORT = 15002


def look(config: Config, *, starts: bool) -> Iterator[Finding]:
    """Checks Spark as it is configured.

    Args:
        config: The configuration.
        starts: Whether to start a local server to see whether that works.
    """
    if importlib.util.find_spec("pyspark") is None:
        yield warning(
            "PySpark is not installed: scans that are too large for DuckDB fail, nothing is tiered",
            "pip install 'seamline[spark]'",
        )
        return
    version = importlib.metadata.version("pyspark")
    remote = config.spark.remote
    if remote is not None:
        yield from _remote(remote)
    elif starts:
        yield _local(config)
    else:
        yield skipped(
            f"PySpark {version} is started when needed ({config.spark.master}); --spark tries it"
        )


def _remote(url: str) -> Iterator[Finding]:
    parts = urllib.parse.urlsplit(url)
    where = f"{parts.hostname}:{parts.port or _PORT}"
    try:
        probing.reach(parts.hostname or "", parts.port or _PORT)
        yield ok(_asked(url, f"Spark at {where}"))
    except SeamlineError as error:
        remedy = "Start the Spark Connect server, or correct spark.remote."
        yield Finding(Level.WRONG, error.message, remedy, SPARK_UNAVAILABLE.name)


def _local(config: Config) -> Finding:
    from seamline.connectors.spark.server import ConnectServer
    from seamline.gateway.app.spark import settings

    try:
        with contextlib.closing(ConnectServer(settings(config))) as server:
            return ok(_asked(server.url(), f"a local Spark ({config.spark.master}) started, and"))
    except SeamlineError as error:
        return of_error(error, Level.WARNING)


def _asked(url: str, who: str) -> str:
    """Runs the smallest query on a server, and returns a text about its answer.

    Raises:
        SeamlineError: SPARK_UNAVAILABLE.
    """
    from seamline.connectors.spark.sessions import let_go, open_session

    session: Any = None
    try:
        session = open_session(url)
        version = session.version
        session.sql("SELECT 1").collect()
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SeamlineError(SPARK_UNAVAILABLE, f"{who} does not answer: {reason}") from error
    finally:
        if session is not None:
            let_go(session)
    return f"{who} answers: Spark {version}"
