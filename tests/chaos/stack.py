"""The stack under attack: broker behind the proxy, Spark, gateway, tiering; each its own process.

Beside it runs a second Spark, the one that other hands and maintenance work with. It is not
attacked: what they do to a table is to happen.

All of it lives in one folder and listens on loopback. The broker has two listeners: one advertises
the proxy, and is the only one that the product's parts know; the other is for the nemesis and for
the independent consumer, whose own requests must not be lost.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.java import SHORT_LIVED_JAVA
from support.waiting import wait_until

import seamline
from chaos import archives
from chaos.processes import Process, Watcher
from chaos.proxy import HOST, Proxy
from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.sessions import connect
from seamline.connectors.spark.settings import environment as spark_environment
from seamline.gateway.config.files import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.connections import Connections
from seamline.gateway.dev.local import settings, storage
from seamline.gateway.dev.local.catalog import prepare_catalog
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.spark import settings as spark_settings

READY_S = 90.0
_REPLACED = ("listeners=", "advertised.", "broker.session.", "broker.heartbeat.")
_BROKER = """
listeners=PLAINTEXT://{host}:{direct},PROXIED://{host}:{behind},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{direct},PROXIED://{host}:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.segment.delete.delay.ms=1000
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
num.io.threads=4
num.network.threads=2
"""


class ChaosStack:
    """Everything that runs.

    Args:
        directory: Holds all of it; must be empty.
        tables: What the pipeline tiers.
        sacrificed: What a second pipeline tiers: tables that come and go, which none survives.
    """

    def __init__(
        self, directory: pathlib.Path, tables: Sequence[str], sacrificed: Sequence[str]
    ) -> None:
        self.directory = directory
        names = ("direct", "behind", "proxy", "controller", "spark", "other spark", "gateway")
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.direct_servers = f"{HOST}:{self._ports['direct']}"
        self.proxied_servers = f"{HOST}:{self._ports['proxy']}"
        self.url = f"http://{HOST}:{self._ports['gateway']}"
        self.config_file = directory / FILE_NAME
        self._prepare_folder()
        self._spark_servers = {name: self._spark_server(name) for name in ("spark", "other spark")}
        self.spark_url = self._spark_servers["spark"]._address
        self.other_spark_url = self._spark_servers["other spark"]._address
        self.admin = AdminClient(direct_client(self.direct_servers))
        self.connections = Connections(self._config(self.direct_servers))
        self.proxy = Proxy(self._ports["proxy"], self._ports["behind"])
        self.broker = self._process(
            "broker", self._broker_command, self._broker_answers, archives.environment("broker")
        )
        self.spark = self._spark("spark")
        self.other_spark = self._spark("other spark")
        self.gateway = self._process("gateway", self._gateway_command, self._gateway_answers)
        self.tierer = self._process("tierer", lambda: self._tier_command(tables))
        self.other_tierer = self._process("other tierer", lambda: self._tier_command(sacrificed))
        self._watcher: Watcher | None = None

    @property
    def processes(self) -> tuple[Process, ...]:
        """The product's processes and the broker: what is attacked."""
        return (self.broker, self.spark, self.gateway, self.tierer, self.other_tierer)

    @property
    def all_processes(self) -> tuple[Process, ...]:
        """Those, and the Spark of other hands, which is left in peace."""
        return (*self.processes, self.other_spark)

    def start(self, *more: Process) -> None:
        """Starts broker, both Sparks and the gateway, and watches them and some more.

        Tiering is started by the caller, once its tables are there.
        """
        self._make_archives()
        self.broker.start()
        self.spark.start()
        self.other_spark.start()
        self.broker.wait_until_ready(READY_S)
        self.gateway.start()
        self.spark.wait_until_ready(READY_S)
        self.other_spark.wait_until_ready(READY_S)
        self.gateway.wait_until_ready(READY_S)
        self._watcher = Watcher([*self.all_processes, *more])

    def close(self) -> None:
        """Ends everything."""
        if self._watcher is not None:
            self._watcher.close()
        for process in reversed(self.all_processes):
            process.end()
        self.proxy.close()
        self.connections.close()

    def command(self, *arguments: str) -> list[str]:
        """A command of the product over this stack."""
        return [sys.executable, "-m", "seamline.cli", *arguments]

    @property
    def environment(self) -> Mapping[str, str]:
        """What the product's commands find their configuration by."""
        return {
            **spark_environment(),
            **SHORT_LIVED_JAVA,
            "SEAMLINE_CONFIG": str(self.config_file),
            "SEAMLINE_SPARK__REMOTE": self.spark_url,
        }

    # --- Set-up --------------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        (self.directory / "warehouse").mkdir(parents=True)
        (self.directory / "kafka").mkdir()
        prepare_catalog(settings.catalog_config(self.directory), settings.SCHEMA)
        text = settings.new_text(self.directory, self.proxied_servers)
        text += "limits:\n  duckdb_threads: 1\n"
        self.config_file.write_text(text, encoding="utf-8")
        ports = Ports(self._ports["direct"], self._ports["controller"])
        data = self.directory / "kafka" / "data"
        self._java = find_java(os.environ)
        self._kafka_jars = jars.kafka_jars(lambda _: None)
        storage.format_once(data, self._java, self._kafka_jars, ports)
        plain = storage.server_properties(data, ports).splitlines()
        kept = [line for line in plain if not line.startswith(_REPLACED)]
        own = _BROKER.format(host=HOST, **self._ports)
        self._properties = self.directory / "kafka" / "server.properties"
        self._properties.write_text("\n".join(kept) + own, encoding="utf-8")

    def _config(self, bootstrap_servers: str) -> Config:
        cluster = f"clusters.{settings.CLUSTER}"
        flags = {
            f"{cluster}.bootstrap_servers": bootstrap_servers,
            f"{cluster}.properties.log_level": "0",
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

    def _make_archives(self) -> None:
        log = self.directory / "archives.log"
        archives.make(
            "broker", self._broker_command(), self.environment, log, self._let_the_broker_work
        )
        archives.make(
            "spark",
            self._spark_command("spark"),
            self.environment,
            log,
            self._let_spark_work,
        )

    def _let_the_broker_work(self) -> None:
        wait_until(self._broker_answers, READY_S, "the broker")
        topic = "first"
        self.admin.create_topics([NewTopic(topic, 1)])[topic].result(READY_S)
        producer = Producer(direct_client(self.direct_servers))
        producer.produce(topic, b"first")
        producer.flush(READY_S)
        self.admin.delete_topics([topic])[topic].result(READY_S)

    def _let_spark_work(self) -> None:
        wait_until(lambda: _listens(self._ports["spark"]), READY_S, "Spark")
        session = connect(self.spark_url)
        table = f"{settings.CATALOG}.{settings.SCHEMA}.first"
        for statement in (
            f"CREATE TABLE {table} (id bigint, text string) USING iceberg",
            f"INSERT INTO {table} SELECT id, CAST(id AS string) FROM range(10)",
            f"SELECT text, count(*) FROM {table} GROUP BY text",
            f"DROP TABLE {table}",
        ):
            session.sql(statement).collect()
        session.client.close()

    # --- Commands ------------------------------------------------------------------------------

    def _broker_command(self) -> list[str]:
        return [
            *(str(self._java.path), "-Xmx512m"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", f"{self._kafka_jars}/*", "kafka.Kafka", str(self._properties)),
        ]

    def _spark(self, name: str) -> Process:
        port = self._ports[name]
        return self._process(
            name,
            lambda: self._spark_command(name),
            lambda: _listens(port),
            archives.environment("spark"),
        )

    def _spark_command(self, name: str) -> list[str]:
        folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory)
        return self._spark_servers[name]._command(pathlib.Path(folder))

    def _spark_server(self, name: str) -> ConnectServer:
        flags = {"spark.master": "local[2]", "spark.driver_memory": "1g"}
        local = load(self.config_file, environment={}, flags=flags).config
        made = dataclasses.replace(spark_settings(local), directory=self.directory / name)
        server = ConnectServer(made)
        server._port = self._ports[name]  # the same at every start, as a cluster's is
        return server

    def _gateway_command(self) -> list[str]:
        return self.command("serve", "--port", str(self._ports["gateway"]))

    def _tier_command(self, tables: Sequence[str]) -> list[str]:
        return self.command("tier", *tables, "--interval", "2s", "--max-records", "2000")

    # --- Readiness -----------------------------------------------------------------------------

    def _broker_answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _gateway_answers(self) -> bool:
        try:
            with seamline.connect(self.url) as connection:
                return bool(connection.execute("SELECT 1", timeout=5).fetchall() == [(1,)])
        except seamline.Error:
            return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def direct_client(servers: str) -> dict[str, Any]:
    """Settings of clients that are to find a broker again as soon as it is back."""
    return {
        "bootstrap.servers": servers,
        "log_level": 0,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free, outside what systems give to outgoing connections."""
    found: list[int] = []
    for port in range(21_000 + os.getpid() % 4_000, 32_000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError("no free ports")
