"""Fills the demo's tables with another writer: Iceberg's official sink in Kafka Connect.

The tables are created as their owner would create them. The sink copies the topics into them and
keeps doing so, and one command adopts each table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import tables
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.dev.demo import bids
from seamline.gateway.dev.local.connect import POSITIONS, ConnectWorker, Sink

if TYPE_CHECKING:
    import seamline
    from seamline.gateway.dev.demo.scenario import Demo

SCHEMA = "default"
POSITION_COLUMNS = ", k_partition integer, k_offset bigint"
_TABLES = (("bids", bids.BIDS_COLUMNS), ("auctions", bids.AUCTIONS_COLUMNS))
_WHERE = (
    "SELECT k_partition, count(*), count(DISTINCT k_offset), min(k_offset), max(k_offset)"
    " FROM bids GROUP BY k_partition ORDER BY k_partition"
)


class ForeignSink:
    """A Kafka Connect sink, and the adopted tables that it fills."""

    log = "connect/connect"

    def __init__(self) -> None:
        self._worker: ConnectWorker | None = None

    def begin(self, demo: Demo, connections: Connections) -> None:
        """See `Filling.begin`."""
        catalog = connections.catalog(connections.config.default_catalog)
        for name, columns in _TABLES:
            fields = tables.parse_fields(columns + POSITION_COLUMNS)
            catalog.pyiceberg.create_table((SCHEMA, name), to_schema(fields))
        cluster = connections.config.clusters[connections.config.default_cluster]
        self._worker = ConnectWorker(demo.directory, cluster.bootstrap_servers)
        sinks = [Sink(name, f"{SCHEMA}.{name}", POSITIONS) for name, _ in _TABLES]
        self._worker.start(find_java(os.environ), jars.connect_jars(demo.report), sinks)
        demo.say("Kafka Connect copies both topics with Iceberg's sink")
        demo.report("waiting for the first commits of the sink")
        patience = demo.patience(self.session, self.log)
        for name, _ in _TABLES:
            while catalog.load((SCHEMA, name)).state.current_snapshot_id is None:
                if not self.is_running() or patience.is_over:
                    raise demo.gave_up("the sink has not committed", patience, self.log)
                time.sleep(0.5)
        for name, _ in _TABLES:
            columns = "partition=k_partition,offset=k_offset"
            self._run(demo, "table", "adopt", name, "--topic", name, "--columns", columns, "--yes")

    def is_running(self) -> bool:
        """See `Filling.is_running`."""
        return self._worker is not None and self._worker.is_running

    @property
    def session(self) -> int:
        """See `Filling.session`."""
        assert self._worker is not None
        assert self._worker.pid is not None
        return self._worker.pid

    def kill(self, demo: Demo) -> bool:  # noqa: ARG002
        """See `Filling.kill`: what another writer loses is not ours to show."""
        return False

    def restart(self, demo: Demo) -> None:
        """See `Filling.restart`: it was not killed."""

    def check(self, demo: Demo, connection: seamline.Connection) -> bool:
        """See `Filling.check`: each record's position occurs once, and the audits are clean."""
        cursor = connection.execute(_WHERE)
        rows = sorted(cursor.fetchall())
        (part,) = cursor.receipt["tables"]
        expected = [(int(p), end, end, 0, end - 1) for p, end in sorted(part["end"].items()) if end]
        exact = rows == expected
        demo.say(
            f"\nwhere each record came from: {sum(row[1] for row in rows):,} rows "
            f"for {sum(row[2] for row in rows):,} offsets, boundary by {part['boundary_provider']} "
            f"({part['boundary_trust']}): {'exact' if exact else 'WRONG'}"
        )
        audits = [self._run(demo, "table", "audit", name) for name, _ in _TABLES]
        return exact and not any(audits)

    def stop(self) -> None:
        """See `Filling.stop`."""
        if self._worker is not None:
            self._worker.stop()

    def _run(self, demo: Demo, *arguments: str) -> int:
        """Runs a `seamline` command, shows its output, and returns its exit code."""
        demo.say(f"\n$ seamline {' '.join(arguments)}")
        done = subprocess.run(
            _command(arguments),
            env={**os.environ, "SEAMLINE_CONFIG": str(demo.directory / FILE_NAME)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            demo.say(f"  {line}")
        return done.returncode


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "seamline.cli", *arguments]
