"""Starts, awaits and stops one Kafka broker in its own process.

The broker holds a lock on its directory for as long as it lives, by a file descriptor that it
inherits. Two brokers on one directory would corrupt its data; the lock ensures that there is only
one, even if the record of the first was lost.
"""

from __future__ import annotations

import fcntl
import pathlib
import shutil
import time
from typing import TYPE_CHECKING

from seamline.connectors.files import disk_full, private_folder
from seamline.connectors.jvm.java import Java
from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.dev.local import storage
from seamline.gateway.dev.local.broker_log import start_failure
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.process import ProcessIdentity, is_running, spawn_detached, stop

if TYPE_CHECKING:
    from seamline.connectors.kafka.cluster import Cluster

READY_S_MAX = 120.0
FREE_BYTES_MIN = 200 << 20
_STOP_S_MAX = 15.0
_ANSWER_S_MAX = 1.0
_ASK_EVERY_S = 0.05

_JAVA_OPTIONS = (
    "-Xmx1g",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
)


class Broker:
    """The broker of one directory."""

    def __init__(self, directory: pathlib.Path, *, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        self._directory = directory
        self._free_bytes_min = free_bytes_min
        self._data = directory / "data"
        self._properties = directory / "server.properties"
        self._lock = directory / "broker.lock"
        self.log = directory / "broker.log"

    def prepare(self, java: Java, jars: pathlib.Path, ports: Ports) -> None:
        """Writes the broker's settings, and formats its storage the first time.

        Raises:
            SeamlineError: DISK_FULL, LOCAL_STACK_FAILED.
        """
        private_folder(self._directory)
        self._require_space()
        storage.format_once(self._data, java, jars, ports)
        self._properties.write_text(storage.server_properties(self._data, ports), encoding="utf-8")
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))

    def launch(self, java: Java, jars: pathlib.Path) -> ProcessIdentity:
        """Starts the process without waiting for it.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED when a broker already has this directory.
        """
        command = [
            *(str(java.path), *_JAVA_OPTIONS, f"-XX:ErrorFile={self._directory}/java-crash.log"),
            *("-cp", f"{jars}/*", "kafka.Kafka", str(self._properties)),
        ]
        with self._lock.open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SeamlineError(
                    LOCAL_STACK_FAILED,
                    f"an unknown broker is still running in {self._directory}",
                    hint=f"`fuser {self._lock}` shows its process; end it and try again.",
                ) from error
            return spawn_detached(command, self.log, inherited=[lock.fileno()])

    def wait_until_ready(self, process: ProcessIdentity, ports: Ports) -> None:
        """Waits until the broker answers a client.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED, PORT_TAKEN or DISK_FULL, if it never will.
        """
        deadline = time.monotonic() + READY_S_MAX
        cluster = self._client(ports)
        try:
            while not self._answers(cluster):
                if not is_running(process):
                    raise start_failure(self.log, "the broker exited during startup")
                if time.monotonic() > deadline:
                    self._require_space()  # without space it neither starts nor exits
                    raise start_failure(
                        self.log, f"the broker did not answer within {READY_S_MAX:.0f} s"
                    )
                time.sleep(_ASK_EVERY_S)
        finally:
            cluster.close()

    def is_ready(self, ports: Ports) -> bool:
        """Returns whether the broker answers a client now."""
        cluster = self._client(ports)
        try:
            return self._answers(cluster)
        finally:
            cluster.close()

    def stop(self, process: ProcessIdentity) -> None:
        """Ends the process and waits until it is gone.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED when the system does not end it.
        """
        if not stop(process, _STOP_S_MAX):
            raise SeamlineError(
                LOCAL_STACK_FAILED,
                f"the broker's process {process.pid} does not stop",
                hint="Its disk may not be responding; check the system's log.",
            )

    def _answers(self, cluster: Cluster) -> bool:
        """Returns whether this very broker, identified by its cluster id, has fully started."""
        from confluent_kafka import KafkaException

        try:
            metadata = cluster.admin.list_topics(timeout=_ANSWER_S_MAX)
        except KafkaException:
            return False
        ours = storage.cluster_id(self._data)
        return metadata.cluster_id == ours and bool(metadata.brokers)

    def _client(self, ports: Ports) -> Cluster:
        from seamline.connectors.config import ClusterConfig
        from seamline.connectors.kafka.cluster import Cluster

        return Cluster(
            ClusterConfig(
                name="local",
                bootstrap_servers=ports.bootstrap_servers,
                properties={"reconnect.backoff.max.ms": "100"},
            )
        )

    def _require_space(self) -> None:
        free_bytes = shutil.disk_usage(self._directory).free
        if free_bytes < self._free_bytes_min:
            raise disk_full(
                self._directory,
                f": {free_bytes >> 20} MiB are free, {self._free_bytes_min >> 20} MiB are needed",
            )
