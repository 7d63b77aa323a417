"""The process that Spark's Python workers are forked from, with their imports already done.

Spark starts it as `python -m seamline.connectors.spark.daemon pyspark.worker`. Spark's own daemon
imports next to nothing, so each worker would spend a second of processor time on importing pandas,
Arrow, the decoder and the kernels, and keep a copy of them; here that is done once. It must start
no thread: threads do not survive a fork.

Spark starts a daemon for every session and keeps it for as long as Spark runs. A daemon without
workers ends after a minute; when its session needs another worker, Spark starts it again.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import time
from typing import Any

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
_LOOK_EVERY_S = 10.0


def main() -> None:
    """Imports what workers import, then serves Spark until Spark ends."""
    for name in MODULES:
        importlib.import_module(name)
    from pyspark import daemon  # reads from the command line which worker to run

    gc.freeze()  # else garbage collection in the workers copies shared memory
    _end_when_idle()
    daemon.manager()


def _end_when_idle() -> None:
    last_used_at = time.monotonic()

    def look(*_: Any) -> None:
        nonlocal last_used_at
        if _has_workers():
            last_used_at = time.monotonic()
        elif time.monotonic() - last_used_at > _IDLE_S:
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY_S, _LOOK_EVERY_S)  # workers do not inherit it


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
