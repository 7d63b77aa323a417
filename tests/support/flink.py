"""Flink for tests: a cluster in one Java process, which its own SQL drives, from Maven Central."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway

from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.java import find_java
from seamline.seam.encoding import digest
from support.maven import fetched

_VERSION = "2.1.1"
_COORDINATES = (
    *(f"org.apache.flink:flink-{part}:{_VERSION}" for part in ("clients", "runtime", "json")),
    *(f"org.apache.flink:flink-connector-{part}:{_VERSION}" for part in ("base", "files")),
    *(
        f"org.apache.flink:flink-table-{part}:{_VERSION}"
        for part in ("planner-loader", "runtime", "api-java-bridge")
    ),
    "org.apache.flink:flink-connector-kafka:5.0.0-2.1",
    "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.slf4j:slf4j-simple:1.7.36",
)
_OPENED = ("io", "lang", "net", "nio", "text", "time", "util", "util.concurrent")
_OPTIONS = (
    *("-Xmx900m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
)


def _classpath() -> str:
    description = ivy.module_description("flink", _COORDINATES, transitive=True)
    jars = fetched(f"flink-{digest(description)}", description)
    spark = pathlib.Path(pyspark.__file__).parent / "jars"  # has Hadoop, which Iceberg needs
    found = (path for name in ("hadoop-client-*", "py4j-*") for path in spark.glob(f"{name}.jar"))
    return os.pathsep.join([f"{jars}/*", *map(str, sorted(found))])


class Flink:
    """A Java process with Flink; each job has a cluster of its own in it.

    Args:
        directory: Where checkpoints and the log go.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "flink.log").open("ab")
        self._gateway = JavaGateway.launch_gateway(
            classpath=_classpath(),
            die_on_exit=True,
            javaopts=list(_OPTIONS),
            java_path=str(find_java(os.environ).path),
            redirect_stdout=self._log,
            redirect_stderr=self._log,
        )
        self.jvm: Any = self._gateway.jvm

    def close(self) -> None:
        """Ends the process."""
        self._gateway.shutdown()
        self._gateway.java_process.stdin.close()  # which is what it lives by
        self._gateway.java_process.wait(60)
        self._log.close()

    def kill(self) -> None:
        """Ends the process in the middle of whatever it does."""
        self._gateway.java_process.kill()
        self._gateway.java_process.stdin.close()
        self._gateway.java_process.wait(60)
        self._gateway.close()
        self._log.close()

    def session(
        self,
        *,
        parallelism: int = 2,
        streaming: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> Any:
        """A table environment.

        Args:
            parallelism: How many subtasks each operator has.
            streaming: Whether its jobs run on, with a checkpoint every half second.
            settings: Further settings of Flink.
        """
        known = {
            "jobmanager.bind-host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.host": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.address": "127.0.0.1",
            "rest.bind-port": "0",
            "execution.runtime-mode": "STREAMING" if streaming else "BATCH",
            "parallelism.default": str(parallelism),
            "taskmanager.numberOfTaskSlots": "16",
            "taskmanager.memory.managed.size": "128m",
            "taskmanager.memory.network.min": "64m",
            "taskmanager.memory.network.max": "64m",
            "execution.checkpointing.dir": (self.directory / "checkpoints").as_uri(),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "table.exec.uid.generation": "ALWAYS",
            **({"execution.checkpointing.interval": "500ms"} if streaming else {}),
            **(settings or {}),
        }
        java = self.jvm.java.util.HashMap()
        for name, value in known.items():
            java.put(name, value)
        configuration = self.jvm.org.apache.flink.configuration.Configuration.fromMap(java)
        api = self.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
        environment = api.createLocalEnvironment(configuration)
        tables = self.jvm.org.apache.flink.table.api.bridge.java.StreamTableEnvironment
        return tables.create(environment)

    def checkpoint(self) -> str | None:
        """The newest complete checkpoint."""
        found = (self.directory / "checkpoints").glob("*/chk-*/_metadata")
        newest = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
        return newest.parent.as_uri() if newest is not None else None


def catalog(directory: pathlib.Path) -> str:
    """The statement that makes the catalog of a local stack known."""
    return f"""CREATE CATALOG lake WITH ('type' = 'iceberg',
        'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', 'jdbc.schema-version' = 'V1',
        'uri' = 'jdbc:sqlite:{directory}/catalog.db?busy_timeout=30000',
        'warehouse' = 'file://{directory}/warehouse', 'cache-enabled' = 'false')"""
