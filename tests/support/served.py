"""`seamline serve` as a process of its own, over a catalog in one file and no cluster."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from support import offline
from support.waiting import wait_until


class Served(NamedTuple):
    """A running gateway: its address, and the process that was started."""

    url: str
    pid: int


@contextlib.contextmanager
def serving(folder: pathlib.Path, more: str = "") -> Iterator[Served]:
    """A running gateway.

    Args:
        folder: Where its files are.
        more: Further lines of its configuration.
    """
    file = offline.write(folder, more)
    log = folder / "stderr"
    command = [sys.executable, "-m", "seamline.cli", "serve", "--config", str(file)]
    with log.open("wb") as errors:
        process = subprocess.Popen([*command, "--port", "0"], stderr=errors)

    def address() -> str | None:
        found = re.search(r"gateway on (\S+)", log.read_text())
        assert found or process.poll() is None, log.read_text()
        return found[1] if found else None

    try:
        yield Served(wait_until(address, 120, "the gateway to answer") or "", process.pid)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
