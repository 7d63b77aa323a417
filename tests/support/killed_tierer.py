"""A program that tiers one batch of a table and is killed at a step of it: `TABLE STEP ENGINE`.

The kill is a real SIGKILL that the process sends to itself, so nothing of it runs afterwards.
"""

from __future__ import annotations

import os
import signal
import sys

from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import find_file
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import LocalTables, SparkTables, start_spark
from support.tierers import At, Interrupted


def main(table: str, step: str, engine: str) -> None:
    """Tiers until it is killed."""
    loaded = load(find_file(None, os.environ), environment=os.environ).config
    connections = Connections(loaded)
    name = resolution.resolve((table,), resolution.session(loaded), connections)
    tables: LocalTables | SparkTables = LocalTables(connections)
    if engine == "spark":
        tables = SparkTables(connections, start_spark(connections))
    inner, log = tables.open(name)
    killed = Interrupted(inner, {At(step): lambda: os.kill(os.getpid(), signal.SIGKILL)})
    tier_once(killed, log, no_deadline(), records_max=1_000_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
