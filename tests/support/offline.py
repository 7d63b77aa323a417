"""What needs no broker: a catalog in one file; a cluster that nobody answers for, or in memory."""

from __future__ import annotations

import pathlib
from typing import Any

from fakes.memory import MemoryLog

from seamline.gateway.config.files import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.connections import Connections

_TEXT = """
catalogs:
  lake:
    type: sql
    uri: sqlite:///{folder}/catalog.db
    warehouse: file://{folder}/warehouse
clusters:
  default:
    bootstrap_servers: 127.0.0.1:1
limits:
  duckdb_threads: 1
  memory_bytes: 256MiB
"""


def write(folder: pathlib.Path, more: str = "") -> pathlib.Path:
    """Writes the configuration file into a folder, with more lines of YAML at its end."""
    file = folder / FILE_NAME
    file.write_text(_TEXT.format(folder=folder) + more, encoding="utf-8")
    return file


def config(folder: pathlib.Path, **flags: str) -> Config:
    """The configuration; `http__port` sets `http.port`."""
    values = {name.replace("__", "."): value for name, value in flags.items()}
    return load(write(folder), environment={}, flags=values).config


def load_config(folder: pathlib.Path, more: str = "") -> Config:
    """The configuration, with more lines of YAML."""
    return load(write(folder, more), environment={}).config


class MemoryConnections(Connections):
    """Real catalogs, and one log in memory as every cluster.

    Args:
        config: Which catalogs there are.
        memory: The log, a new one if none is given.
    """

    def __init__(self, config: Config, memory: MemoryLog | None = None) -> None:
        super().__init__(config)
        self.memory = memory or MemoryLog()

    def log(self, name: str) -> Any:
        """See `Connections.log`."""
        return self.memory
