"""Ports of loopback for servers that must be told on which one to listen.

A port that the system hands out is free for a moment only: any connection or server may take it
before the intended server listens, or while that restarts. The ports from here are below the range
that systems hand out, and each belongs to one process of the tests until that process ends.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import random
import tempfile

from seamline.gateway.dev.local.ports import is_free

_RANGE = range(21_000, 32_000)
_FOLDER = pathlib.Path(tempfile.gettempdir()) / f"seamline-test-ports-{os.getuid()}"


def reserved_port() -> int:
    """A port on which nobody listens, and that no other call returns while this process lives."""
    _FOLDER.mkdir(exist_ok=True)
    for port in random.sample(_RANGE, len(_RANGE)):
        lock = os.open(_FOLDER / str(port), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        if is_free(port):
            return port  # the lock stays until this process ends
        os.close(lock)
    raise OSError("no free ports")
