"""A Kafka Connect worker with Iceberg's official sink, in its own process.

It copies JSON topics into tables of the local stack's catalog on its own, as it would anywhere
else. The demo of adopting and tests use it.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import pyspark
from confluent_kafka.admin import AdminClient, NewTopic

from seamline.connectors.files import make_folder
from seamline.connectors.jvm.java import Java
from seamline.gateway.dev.local.ports import HOST, free_port
from seamline.gateway.process import ProcessIdentity, is_running, spawn_detached, stop

_JAVA_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.iceberg.connect=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_STOP_S_MAX = 30.0
POSITIONS: Mapping[str, str] = {
    "transforms": "position",
    "transforms.position.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.position.partition.field": "k_partition",
    "transforms.position.offset.field": "k_offset",
}
"""Settings with which a sink stores the partition and offset of each record."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sink:
    """One connector.

    Attributes:
        topic: The topic.
        table: The table, as `schema.table`; created when it is missing.
        settings: Further settings.
        commit_ms: Milliseconds between its commits.
    """

    topic: str
    table: str
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    commit_ms: int = 2000

    @property
    def control_topic(self) -> str:
        """Its own control topic."""
        return f"control-{self.topic}"

    def properties(self, directory: pathlib.Path, servers: str) -> dict[str, str]:
        """Returns all its settings, for the catalog of the local stack in a directory."""
        return {
            "name": f"iceberg-{self.topic}",
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "2",
            "topics": self.topic,
            "consumer.override.auto.offset.reset": "earliest",
            "iceberg.tables": self.table,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.topic": self.control_topic,
            "iceberg.control.commit.interval-ms": str(self.commit_ms),
            "iceberg.control.commit.timeout-ms": "30000",
            "iceberg.kafka.bootstrap.servers": servers,
            "iceberg.kafka.auto.offset.reset": "earliest",
            "iceberg.catalog": "lake",
            "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "iceberg.catalog.uri": f"jdbc:sqlite:{directory}/catalog.db?busy_timeout=30000",
            "iceberg.catalog.jdbc.schema-version": "V1",
            "iceberg.catalog.warehouse": f"file://{directory}/warehouse",
            **self.settings,
        }


class ConnectWorker:
    """A standalone worker on the local stack of a directory.

    Args:
        directory: The stack's directory.
        servers: The address of its broker.
        name: Name of the folder in that directory for the worker's files.
    """

    def __init__(self, directory: pathlib.Path, servers: str, name: str = "connect") -> None:
        self._stack = directory
        self._servers = servers
        self._directory = directory / name
        self.log = self._directory / "connect.log"
        self._process: ProcessIdentity | None = None

    def start(self, java: Java, jars: pathlib.Path, sinks: Sequence[Sink]) -> None:
        """Starts the worker with some connectors, and does not wait for them.

        The control topics are created first, since the sink's producers do not create them.
        """
        make_folder(self._directory)
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        topics = admin.list_topics(timeout=30).topics
        missing = [sink.control_topic for sink in sinks if sink.control_topic not in topics]
        if missing:
            for future in admin.create_topics([NewTopic(name, 1) for name in missing]).values():
                future.result(30)
        worker = self._write("worker", self._worker_properties())
        files = [
            self._write(sink.topic, sink.properties(self._stack, self._servers)) for sink in sinks
        ]
        # Iceberg tables on the file system need Hadoop, which PySpark's wheel contains
        hadoop = pathlib.Path(pyspark.__file__).parent / "jars"
        paths = [f"{jars}/*", *map(str, sorted(hadoop.glob("hadoop-client-*.jar")))]
        command = [
            *(str(java.path), *_JAVA_OPTIONS, "-cp", ":".join(paths)),
            "org.apache.kafka.connect.cli.ConnectStandalone",
            *(str(worker), *map(str, files)),
        ]
        self._process = spawn_detached(command, self.log)

    @property
    def is_running(self) -> bool:
        """Whether the worker's process runs."""
        return self._process is not None and is_running(self._process)

    @property
    def pid(self) -> int | None:
        """The id of the worker's process; None before `start`."""
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """Ends the worker, and waits until it has ended."""
        if self._process is not None:
            stop(self._process, _STOP_S_MAX)

    def _worker_properties(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._servers,
            "listeners": f"http://{HOST}:{free_port()}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": f"{self._directory}/offsets",
            "offset.flush.interval.ms": "1000",
            "connector.client.config.override.policy": "All",
        }

    def _write(self, name: str, properties: Mapping[str, str]) -> pathlib.Path:
        path = self._directory / f"{name}.properties"
        lines = (f"{key}={value}\n" for key, value in properties.items())
        path.write_text("".join(lines), encoding="utf-8")
        return path
