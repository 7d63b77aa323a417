"""What needs no broker: a catalog in one file; a cluster that nobody answers for, or in memory."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from fakes.memory import MemoryLog

from seamline.errors import SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from support.gateway import Gateway

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


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[Gateway]:
    """A gateway whose catalog has its default schema, for tables that others make there."""
    gateway = Gateway(config(folder))
    gateway.parts.connections.catalog("lake").pyiceberg.create_namespace("default")
    yield gateway
    gateway.close()


class MemoryWorld:
    """A gateway over a catalog in one file, and a log in memory."""

    def __init__(self, folder: pathlib.Path) -> None:
        settings = config(folder)
        connections = MemoryConnections(settings)
        self.memory = connections.memory
        self.gateway = Gateway(settings, connections=connections)
        self.catalog = connections.catalog("lake").pyiceberg

    def rows(self, sql: str, **options: str) -> list[tuple[object, ...]]:
        """The rows of a statement."""
        return self.gateway.rows(sql, **options)

    def refused(self, sql: str) -> SeamlineError:
        """The error that a statement must end with."""
        with pytest.raises(SeamlineError) as caught:
            self.rows(sql)
        return caught.value
