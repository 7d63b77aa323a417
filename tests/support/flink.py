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


_LOCAL = {
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "rest.bind-port": "0",
    "taskmanager.numberOfTaskSlots": "16",
    "taskmanager.memory.managed.size": "128m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
}
_CATALOG = "org.apache.iceberg.jdbc.JdbcCatalog"


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
            **_LOCAL,
            "execution.runtime-mode": "STREAMING" if streaming else "BATCH",
            "parallelism.default": str(parallelism),
            "execution.checkpointing.dir": (self.directory / "checkpoints").as_uri(),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "table.exec.uid.generation": "ALWAYS",
            **({"execution.checkpointing.interval": "500ms"} if streaming else {}),
            **(settings or {}),
        }
        tables = self.jvm.org.apache.flink.table.api.bridge.java.StreamTableEnvironment
        return tables.create(self._environment(known))

    def _environment(self, settings: Mapping[str, str]) -> Any:
        configuration = self.jvm.org.apache.flink.configuration.Configuration
        api = self.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
        return api.createLocalEnvironment(configuration.fromMap(self._map(settings)))

    def _map(self, entries: Mapping[str, str]) -> Any:
        found = self.jvm.java.util.HashMap()
        for name, value in entries.items():
            found.put(name, value)
        return found

    def maintenance(self, stack: pathlib.Path, table: str, *, expire: bool) -> Any:
        """A job that rewrites the files of a table again and again.

        Args:
            stack: The directory of the local stack whose catalog has the table.
            table: Its schema and name, with a dot.
            expire: Whether it expires the table's snapshots, too.
        """
        flink, duration = self.jvm.org.apache.iceberg.flink, self.jvm.java.time.Duration
        loader = flink.CatalogLoader.custom(
            "lake",
            self._map(_catalog(stack)),
            self.jvm.org.apache.hadoop.conf.Configuration(),
            _CATALOG,
        )
        identifier = self.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(table)
        api = flink.maintenance.api
        locks = {"jdbc.user": "", "jdbc.password": "", "init-lock-tables": "true"}
        lock = api.JdbcLockFactory(
            f"jdbc:sqlite:{self.directory}/{table}.db",
            table,
            self._map({**locks, "flink-maintenance.lock.jdbc.init-lock-tables": "true"}),
        )
        environment = self._environment(
            {**_LOCAL, "parallelism.default": "1", "execution.checkpointing.interval": "500ms"}
        )
        tasks = api.TableMaintenance.forTable(
            environment, flink.TableLoader.fromCatalog(loader, identifier), lock
        )
        tasks.rateLimit(duration.ofMillis(500)).lockCheckDelay(duration.ofMillis(500))
        tasks.add(api.RewriteDataFiles.builder().scheduleOnCommitCount(3).rewriteAll(True))
        if expire:
            expiry = api.ExpireSnapshots.builder().scheduleOnCommitCount(5).retainLast(3)
            tasks.add(expiry.maxSnapshotAge(duration.ofSeconds(10)))
        tasks.append()
        return environment.executeAsync(table)

    def checkpoint(self) -> str | None:
        """The newest complete checkpoint."""
        found = (self.directory / "checkpoints").glob("*/chk-*/_metadata")
        newest = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
        return newest.parent.as_uri() if newest is not None else None


def _catalog(directory: pathlib.Path) -> dict[str, str]:
    return {
        "jdbc.schema-version": "V1",
        "uri": f"jdbc:sqlite:{directory}/catalog.db?busy_timeout=30000",
        "warehouse": f"file://{directory}/warehouse",
    }


def catalog(directory: pathlib.Path) -> str:
    """The statement that makes the catalog of a local stack known."""
    told = {
        "type": "iceberg",
        "catalog-impl": _CATALOG,
        "cache-enabled": "false",
        **_catalog(directory),
    }
    options = ", ".join(f"'{name}' = '{value}'" for name, value in told.items())
    return f"CREATE CATALOG lake WITH ({options})"
