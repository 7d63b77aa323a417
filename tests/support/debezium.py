"""Debezium for tests: Postgres from the system, its connector for Kafka Connect from Maven Central.

The jars are fetched once a user, beside the product's own. Postgres refuses to run as root; a test
that does runs it as the user `postgres`, whom its package has made.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.java import find_java
from seamline.gateway.dev.local.ports import free_port
from seamline.seam.encoding import digest
from support.maven import fetched
from support.waiting import wait_until

VERSION = "3.6.1.Final"
_COORDINATES = (
    *("connect-runtime", "connect-json", "connect-transforms"),
    *("debezium-connector-postgres", "debezium-connector-mysql"),
    *("debezium-embedded", "debezium-api"),
)
_LIBRARY = pathlib.Path("/usr/lib/postgresql")


def program(name: str) -> str | None:
    """The path of one of Postgres's programs; None if it is not installed."""
    found = [str(path) for path in sorted(_LIBRARY.glob(f"*/bin/{name}"))]
    return found[-1] if found else shutil.which(name)


def _jars() -> pathlib.Path:
    """The folder of the jars."""
    wanted = [
        f"io.debezium:{module}:{VERSION}"
        if module.startswith("debezium")
        else f"org.apache.kafka:{module}:4.1.2"
        for module in _COORDINATES
    ]
    description = ivy.module_description("debezium", wanted, transitive=True)
    return fetched(f"debezium-{digest(description)}", description)


class Postgres:
    """A database server with a logical log.

    Args:
        directory: Its folder, which everybody may enter.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.port = free_port()
        self._data = directory / "data"
        self._data.mkdir(parents=True)
        self._user = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(self._data, "postgres")
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres")
        settings = {"wal_level": "logical", "port": self.port, "fsync": "off"}
        settings |= {"listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''"}
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._data / "log"), "-w", "start")

    def _run(self, name: str, *arguments: str) -> None:
        path = program(name)
        assert path is not None
        subprocess.run(
            [path, *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            **self._user,  # type: ignore[call-overload]
        )

    def execute(self, *statements: str) -> str:
        """Runs statements, each in a transaction of its own; returns what they print."""
        done = subprocess.run(
            [
                *(str(program("psql")), "-qAtX", "-v", "ON_ERROR_STOP=1"),
                *("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "postgres"),
            ],
            input=";\n".join(["SET timezone = 'UTC'", *statements]) + ";\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, table: str) -> dict[int, dict[str, Any]]:
        """The rows of a table in its own JSON, by their `id`."""
        lines = self.execute(f"SELECT row_to_json(t) FROM {table} t").splitlines()
        return {row["id"]: row for row in map(json.loads, lines)}

    def close(self) -> None:
        """Ends it."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def connectors(
    directory: pathlib.Path,
    servers: str,
    postgres: Postgres,
    tables: Sequence[str],
    settings: Mapping[str, Mapping[str, str]],
) -> Iterator[None]:
    """A worker of Kafka Connect with one connector for each name, which begins its topics' names.

    Args:
        directory: Folder of its files.
        servers: The address of the broker.
        postgres: The database.
        tables: The tables whose changes are captured.
        settings: What each connector is told besides.
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
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "table.include.list": ",".join(f"public.{table}" for table in tables),
            "publication.autocreate.mode": "filtered",
            "publication.name": name,
            "slot.name": name,
            "topic.prefix": name,
            "topic.creation.enable": "true",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "3",
            "poll.interval.ms": "100",
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


def wait_for_slots(postgres: Postgres, count: int) -> None:
    """Waits until so many connectors read the log of the database."""
    sql = "SELECT count(*) FROM pg_replication_slots WHERE active"
    wait_until(lambda: int(postgres.execute(sql)) == count, 180, "the connectors to read")
