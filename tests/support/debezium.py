"""Debezium for tests: a worker of Kafka Connect with Debezium's connectors, from Maven Central."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.java import find_java
from seamline.gateway.dev.local.ports import free_port
from seamline.seam.encoding import digest
from support.databases import Database
from support.maven import fetched

_VERSION = "3.6.1.Final"
_COORDINATES = (
    *(f"org.apache.kafka:connect-{part}:4.1.2" for part in ("runtime", "json", "transforms")),
    *(f"io.debezium:debezium-{part}:{_VERSION}" for part in ("embedded", "api")),
    *(f"io.debezium:debezium-connector-{part}:{_VERSION}" for part in ("postgres", "mysql")),
    "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",
)


def _jars() -> pathlib.Path:
    """The folder of the jars."""
    description = ivy.module_description("debezium", _COORDINATES, transitive=True)
    return fetched(f"debezium-{digest(description)}", description)


def avro(registry: str) -> dict[str, str]:
    """The settings that make a connector write Avro.

    Args:
        registry: The address of Apicurio's API that is Confluent's.
    """
    said = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry.replace("ccompat/v7", "registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
    }
    return {
        "schema.name.adjustment.mode": "avro",
        "field.name.adjustment.mode": "avro",
        **{f"{part}.converter{k}": v for part in ("key", "value") for k, v in said.items()},
    }


@contextlib.contextmanager
def connectors(
    directory: pathlib.Path,
    servers: str,
    database: Database,
    tables: Sequence[str],
    settings: Mapping[str, Mapping[str, str]],
) -> Iterator[None]:
    """A worker of Kafka Connect with one connector for each name, which begins its topics' names.

    Args:
        directory: Folder of its files.
        servers: The address of the broker.
        database: The database.
        tables: The tables whose changes are captured.
        settings: Further settings of each connector.
    """

    def write(name: str, properties: Mapping[str, str]) -> str:
        path = directory / f"{name}.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in properties.items()), encoding="utf-8")
        return str(path)

    converter = "org.apache.kafka.connect.json.JsonConverter"
    both = {"key.converter": converter, "value.converter": converter}
    worker = {
        "bootstrap.servers": servers,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": str(directory / "offsets"),
        **both,
    }
    files = [write("worker", worker)]
    for name, own in settings.items():
        common = {
            "name": name,
            "topic.prefix": name,
            "topic.creation.enable": "true",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "3",
            "poll.interval.ms": "100",
            **database.source(name, tables, directory),
        }
        files.append(write(name, {**common, **own}))
    command = [
        *(str(find_java(os.environ).path), "-Xmx600m", "-cp", f"{_jars()}/*"),
        *("org.apache.kafka.connect.cli.ConnectStandalone", *files),
    ]
    with (directory / "connect.log").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
