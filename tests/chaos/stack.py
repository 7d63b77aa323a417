"""The stack under attack: brokers behind proxies, Spark, gateways, tiering; each its own process.

A second gateway keeps no tail and reads none: Spark's executors read those of its statements. Both
share the secret of tokens, so that each repeats what the other has answered.

Beside it runs a second Spark, the one that other hands and maintenance work with. It is not
attacked: what they do to a table must succeed.

All of it lives in one folder and listens on loopback. A broker has two listeners: one advertises
its proxy, and is the only one that the product's parts know; the other is for the nemesis and for
the independent consumer, whose own requests must not be lost.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka.admin import AdminClient
from support.java import SHORT_LIVED_JAVA
from support.ports import reserved_port
from support.waiting import wait_until

import seamline
from chaos import archives
from chaos.brokers import PORTS, Brokers, direct_client
from chaos.processes import Process, Watcher, behind_others
from chaos.proxy import HOST, Proxy
from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
from seamline.connectors.spark import class_archive
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.settings import environment as spark_environment
from seamline.gateway.app.spark import settings as spark_settings
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.dev.local import settings
from seamline.gateway.dev.local.catalog import prepare_catalog

READY_S = 300.0
_GATEWAYS = ("gateway", "narrow gateway")
_REGISTRY = f"clusters.{settings.CLUSTER}.schema_registry.url"
_NARROW = {"SEAMLINE_LIMITS__DUCKDB_TAIL_ROWS_MAX": "0", "SEAMLINE_TAIL__FOLLOW": "false"}
"""A gateway that reads no tail itself: every one is read by Spark's executors."""


class ChaosStack:
    """Everything that runs.

    Args:
        directory: Holds all of it; must be empty.
        tables: What the pipeline tiers.
        sacrificed: What a second pipeline tiers: tables that come and go, which none survives.
        registry_port: Of the registry of schemas, which the product knows through a proxy.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        tables: Sequence[str],
        sacrificed: Sequence[str],
        registry_port: int,
    ) -> None:
        self.directory = directory
        names = ("spark", "other spark", *_GATEWAYS, "registry")
        ports = [reserved_port() for _ in range(len(names) + PORTS)]
        self._ports = dict(zip(names, ports, strict=False))
        self.url, self.narrow_url = (_address(self._ports[name]) for name in _GATEWAYS)
        self.config_file = directory / FILE_NAME
        (directory / "warehouse").mkdir(parents=True)
        (directory / "kafka").mkdir()
        java, kafka_jars = find_java(os.environ), jars.kafka_jars(lambda _: None)
        self.brokers = Brokers(
            directory / "kafka", java, kafka_jars, ports[len(names) :], os.environ
        )
        self.direct_servers = self.brokers.direct_servers
        self.proxied_servers = self.brokers.proxied_servers
        self.network = self.brokers.network
        self.registry = Proxy(self._ports["registry"], registry_port)
        self._registry_port = registry_port
        self._prepare_catalog()
        class_archive.prepare(lambda _: None)
        self._spark_servers = {name: self._spark_server(name) for name in ("spark", "other spark")}
        self.spark_url = self._spark_servers["spark"]._address
        self.other_spark_url = self._spark_servers["other spark"]._address
        self.admin = AdminClient(direct_client(self.direct_servers))
        self.connections = Connections(self._config(self.direct_servers))
        self.spark = self._spark("spark")
        self.other_spark = self._spark("other spark")
        self.gateway = self._gateway("gateway", self.url, {})
        self.narrow_gateway = self._gateway("narrow gateway", self.narrow_url, _NARROW)
        self._tier_engines = itertools.cycle(("spark", "local", "auto"))
        self.tierer = self._process("tierer", lambda: self._tier_command(tables))
        self.other_tierer = self._process("other tierer", lambda: self._tier_command(sacrificed))
        self._watcher: Watcher | None = None

    @property
    def processes(self) -> tuple[Process, ...]:
        """The product's processes and the brokers: what is attacked."""
        return (
            *self.brokers.processes.values(),
            self.spark,
            *self.gateways,
            self.tierer,
            self.other_tierer,
        )

    @property
    def gateways(self) -> tuple[Process, ...]:
        """Both gateways."""
        return (self.gateway, self.narrow_gateway)

    @property
    def all_processes(self) -> tuple[Process, ...]:
        """Those, and the Spark of other hands, which is left in peace."""
        return (*self.processes, self.other_spark)

    def start(self, *more: Process) -> None:
        """Starts brokers, both Sparks and both gateways, and watches them and some more.

        Tiering is started by the caller, once its tables are there.
        """
        self._archive_classes_of_brokers()
        self.brokers.start(READY_S)
        self.spark.start()
        self.other_spark.start()
        for gateway in self.gateways:
            gateway.start()
        self.spark.wait_until_ready(READY_S)
        self.other_spark.wait_until_ready(READY_S)
        for gateway in self.gateways:
            gateway.wait_until_ready(READY_S)
        self._watcher = Watcher([*self.all_processes, *more])

    def close(self) -> None:
        """Ends everything."""
        if self._watcher is not None:
            self._watcher.close()
        for process in reversed(self.all_processes):
            process.end()
        self.brokers.close()
        self.registry.close()
        self.connections.close()

    def command(self, *arguments: str) -> list[str]:
        """A command of the product over this stack."""
        return [sys.executable, "-m", "seamline.cli", *arguments]

    @property
    def environment(self) -> Mapping[str, str]:
        """How the product's commands find their configuration."""
        return {
            **spark_environment(),
            **SHORT_LIVED_JAVA,
            "SEAMLINE_CONFIG": str(self.config_file),
            "SEAMLINE_SPARK__REMOTE": self.spark_url,
            f"SEAMLINE_{_REGISTRY.upper().replace('.', '__')}": _address(self._ports["registry"]),
        }

    # --- Set-up --------------------------------------------------------------------------------

    def _prepare_catalog(self) -> None:
        prepare_catalog(settings.catalog_config(self.directory), settings.SCHEMA)
        text = settings.new_text(self.directory, self.proxied_servers)
        text += "limits:\n  duckdb_threads: 1\n  statement_seconds_max: 60\n"
        text += "tokens:\n  secret: chaos-of-two-gateways\n"
        self.config_file.write_text(text, encoding="utf-8")

    def _config(self, bootstrap_servers: str) -> Config:
        cluster = f"clusters.{settings.CLUSTER}"
        flags = {
            f"{cluster}.bootstrap_servers": bootstrap_servers,
            f"{cluster}.properties.log_level": "0",
            _REGISTRY: _address(self._registry_port),
            "spark.remote": self.spark_url,
        }
        return load(self.config_file, environment={}, flags=flags).config

    def _process(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        is_ready: Callable[[], bool] = lambda: True,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        environment = {**self.environment, **(variables or {})}
        log = self.directory / f"{name}.log"
        return Process(name, command, log, environment, is_ready=is_ready)

    def _archive_classes_of_brokers(self) -> None:
        archives.make(
            "broker",
            self.brokers.command(1),
            self.environment,
            self.directory / "archives.log",
            self._let_the_broker_work,
        )

    def _let_the_broker_work(self) -> None:
        wait_until(self.brokers.one_works, READY_S, "the broker")

    # --- Commands ------------------------------------------------------------------------------

    def _spark(self, name: str) -> Process:
        port = self._ports[name]
        return self._process(
            name,
            lambda: self._spark_command(name),
            lambda: _listens(port),
        )

    def _spark_command(self, name: str) -> list[str]:
        folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory)
        return behind_others(self._spark_servers[name]._command(pathlib.Path(folder)))

    def _spark_server(self, name: str) -> ConnectServer:
        flags = {"spark.master": "local[2]", "spark.driver_memory": "1g"}
        local = load(self.config_file, environment={}, flags=flags).config
        made = dataclasses.replace(spark_settings(local), directory=self.directory / name)
        server = ConnectServer(made)
        server._port = self._ports[name]  # the same at every start, as a cluster's is
        return server

    def _gateway(self, name: str, url: str, variables: Mapping[str, str]) -> Process:
        state = {"SEAMLINE_STATE_DIRECTORY": str(self.directory / f"{name} state")}
        return self._process(
            name,
            lambda: self.command("serve", "--port", str(self._ports[name])),
            lambda: _answers(url),
            {**state, **variables},
        )

    def _tier_command(self, tables: Sequence[str]) -> list[str]:
        engine = next(self._tier_engines)
        options = ("--interval", "2s", "--max-records", "2000", "--engine", engine)
        return behind_others(self.command("tier", *tables, *options))


def _address(port: int) -> str:
    return f"http://{HOST}:{port}"


def _answers(url: str) -> bool:
    try:
        with seamline.connect(url) as connection:
            return bool(connection.execute("SELECT 1", timeout=5).fetchall() == [(1,)])
    except seamline.Error:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
