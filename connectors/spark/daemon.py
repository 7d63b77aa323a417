"""The process that Spark's Python workers are forked from, with their imports already done.

Spark starts it as `python -m seamline.connectors.spark.daemon pyspark.worker`. Spark's own daemon
imports next to nothing, so each worker would spend a second of processor time on importing pandas,
Arrow, the decoder and the kernels, and keep a copy of them; here that is done once. It must start
no thread: threads do not survive a fork.

Spark starts a daemon for every session and keeps it for as long as Spark runs. A daemon without
workers for a minute gives its memory back: it becomes a process that only keeps its port, and
ends when Spark asks there for a worker. Spark's connection is reset then, and it starts a daemon
again. If the port were free in between, Spark could connect to whatever process got it since.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import socket
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

MODULES = (
    "pandas",
    "pyarrow",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "seamline.connectors.spark.decoding",
    "seamline.connectors.spark.kernels",
)
"""What workers import."""
_IDLE_S = 60.0
"""How long it waits for a new worker; Spark itself ends workers that are idle for a minute."""
_KEEP_PORT = """
import os, select, sys
port = int(sys.argv[1])
while port not in select.select([0, port], [], [])[0] and os.read(0, 4):
    pass
"""
"""Ends when somebody connects, which resets the connection, or when Spark closes the input."""


def main() -> None:
    """Imports what workers import, then serves Spark until Spark ends."""
    for name in MODULES:
        importlib.import_module(name)
    from pyspark import daemon  # reads from the command line which worker to run

    daemon.select = types.SimpleNamespace(select=_select_until_idle(), error=select.error)
    gc.freeze()  # else garbage collection in the workers copies shared memory
    daemon.manager()


def _select_until_idle() -> Callable[..., tuple[list[Any], list[Any], list[Any]]]:
    """Returns what the daemon waits with, a second at a time, for Spark and for its port."""
    used_at = time.monotonic()

    def wait(readers: Sequence[Any], *others: Any) -> tuple[list[Any], list[Any], list[Any]]:
        nonlocal used_at
        ready = select.select(readers, *others)
        if any(ready) or _has_workers():
            used_at = time.monotonic()
        elif time.monotonic() - used_at > _IDLE_S:
            _, port = readers
            _only_keep(port)
        return ready

    return wait


def _only_keep(port: socket.socket) -> NoReturn:
    port.set_inheritable(True)
    command = (sys.executable, "-I", "-S", "-c", _KEEP_PORT, str(port.fileno()))
    os.execv(sys.executable, command)  # noqa: S606  # no shell is wanted


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
