"""One table, against the UNION of its topic and its files that people write in Trino and in Spark.

Both read the same rows: Trino by its connectors for Iceberg and Kafka, Spark by Iceberg's and its
own source for Kafka. Their unions need no boundary here, since no record has been copied yet.

    python benchmarks/unions.py [--cold 2000000] [--hot 200000] [--only trino,spark]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Producer
from harness import Comparison, compare, report, verdict_of, with_descendants
from pyiceberg.catalog.rest import RestCatalog
from queries import COLUMNS, PARTITIONS, PROPERTIES, QUERIES, ROWS, id_of, send
from stand import Stand, as_computed, say, stand

import seamline
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.dev.local.ports import free_port
from seamline.gateway.tiering.tables import start_spark

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))

from support.maven import fetched
from support.rest_catalog import rest_catalog
from support.trino_server import Trino, java
from support.waiting import wait_until

GOALS = {"trino": 40, "spark": 80}
"""How many times as long the other's union takes, in the geometric mean of the statements."""
REPEATS = 5
TRINO = "476"
"""The newest version that is published with its connector for Kafka."""
_IVY = """
<ivy-module version="2.0">
<info organisation="seamline" module="trino-server"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="io.trino" name="trino-server" rev="{version}" transitive="false"
            conf="default-&gt;default">
<artifact name="trino-server" type="tar.gz" ext="tar.gz"/>
</dependency>
</dependencies>
</ivy-module>
"""
STATEMENTS = {**QUERIES, "point": "SELECT id, customer, channel, amount FROM sales WHERE id = {id}"}

Union = Callable[[str], list[Any]]
"""The rows of a statement over `sales`, which is the union."""

_TRINO = """
WITH sales AS (
  SELECT id, customer, channel, amount FROM files.default.sales
  UNION ALL
  SELECT id, customer, channel, CAST(amount AS decimal(12, 2)) FROM log.default.sales
) """
_TRINO_TYPES = {"id": "BIGINT", "customer": "BIGINT", "channel": "VARCHAR", "amount": "VARCHAR"}
_SPARK = """
WITH sales AS (
  SELECT id, customer, channel, amount FROM lake.default.sales
  UNION ALL
  SELECT r.id, r.customer, r.channel, r.amount FROM (
    SELECT from_json(
      CAST(value AS string), 'id bigint, customer bigint, channel string, amount decimal(12, 2)'
    ) AS r FROM log)
) """


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=2_000_000)
    options.add_argument("--hot", type=int, default=200_000)
    options.add_argument("--only", default="trino,spark")
    chosen = options.parse_args()
    with stand() as running, tempfile.TemporaryDirectory() as scratch:
        running.create("sales", COLUMNS, "--key", "id", partitions=PARTITIONS)
        running.fill_table("sales", chosen.cold, ROWS, PROPERTIES)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 20})
        send(producer, chosen.cold, chosen.hot)
        connections = Connections(load(running.directory / FILE_NAME, environment={}).config)
        with contextlib.closing(connections), seamline.connect(running.url) as connection:
            as_computed(connection)
            comparisons: list[Comparison] = []
            for name in chosen.only.split(","):
                with UNIONS[name](running, connections, pathlib.Path(scratch)) as union:
                    measured = against(connection, name, union, chosen)
                mean = 1 / statistics.geometric_mean(c.ratio for c in measured)
                verdict = verdict_of(mean >= GOALS[name])
                print(f"{name}: {mean:.0f} times as long in the geometric mean: {verdict}")
                comparisons += measured
            report(comparisons, "unions")


def against(
    connection: seamline.Connection, name: str, union: Union, chosen: argparse.Namespace
) -> list[Comparison]:
    """Each statement on both sides."""
    comparisons = []
    for label, statement in STATEMENTS.items():
        sql = statement.format(id=id_of(chosen.cold))
        say(f"measuring {label} against {name}")
        comparisons.append(
            compare(
                f"{label}, against {name}, {chosen.cold:,} cold and {chosen.hot:,} hot rows",
                lambda sql=sql: connection.execute(sql).fetchall(),  # type: ignore[misc]
                lambda sql=sql: union(sql),  # type: ignore[misc]
                goal=1 / GOALS[name],
                processes=sorted(with_descendants([os.getpid()]) - {os.getpid()}),
                repeats=REPEATS,
                notes={"sql": sql},
            )
        )
    return comparisons


@contextlib.contextmanager
def trino(running: Stand, connections: Connections, scratch: pathlib.Path) -> Iterator[Union]:
    """Trino over the topic, and over the table's files by a REST catalog of Iceberg's own."""
    fields = [{"name": n, "mapping": n, "type": type_} for n, type_ in _TRINO_TYPES.items()]
    described = {
        "tableName": "sales",
        "schemaName": "default",
        "topicName": "sales",
        "message": {"dataFormat": "json", "fields": fields},
    }
    tables = scratch / "tables"
    tables.mkdir()
    (tables / "sales.json").write_text(json.dumps(described), encoding="utf-8")
    table = connections.catalog("lake").load(("default", "sales")).iceberg
    with rest_catalog(scratch) as url:
        catalog = RestCatalog("files", uri=url)
        catalog.create_namespace("default")
        catalog.register_table(("default", "sales"), table.metadata_location)
        log = {
            "connector.name": "kafka",
            "kafka.nodes": running.bootstrap_servers,
            "kafka.table-names": "default.sales",
            "kafka.table-description-dir": str(tables),
        }
        files = {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": url,
            "fs.hadoop.enabled": "true",  # files of this machine
        }
        with trino_server(scratch / "trino", {"files": files, "log": log}) as server:
            yield lambda sql: server.rows(_TRINO + sql, "files")


@contextlib.contextmanager
def trino_server(
    directory: pathlib.Path, catalogs: Mapping[str, Mapping[str, str]]
) -> Iterator[Trino]:
    """Trino as it is released, over some catalogs, until the block ends."""
    program = java()
    assert program is not None, "Trino needs Java 25 beside the Java of Seamline"
    say(f"fetching Trino {TRINO}, once")
    name = f"trino-server-{TRINO}"
    home = fetched(name, _IVY.format(version=TRINO), unpack=_unpack) / name
    port = free_port()
    (directory / "catalog").mkdir(parents=True)
    for name, properties in catalogs.items():
        _write(directory / "catalog" / f"{name}.properties", properties)
    _write(
        directory / "config.properties",
        {
            "node.environment": "benchmark",
            "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1",
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://127.0.0.1:{port}",
            "plugin.dir": str(home / "plugin"),
            "catalog.config-dir": str(directory / "catalog"),
        },
    )
    say(f"starting Trino {TRINO}")
    log = directory / "trino.log"
    command = [str(program), "-Xmx4g", "--add-modules", "jdk.incubator.vector"]
    command += [f"-Dconfig={directory}/config.properties", "-cp", f"{home}/lib/*"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "io.trino.server.TrinoServer"],
            cwd=directory,  # where it keeps its data
            stdout=output,
            stderr=output,
            env={k: v for k, v in os.environ.items() if k != "JDK_JAVA_OPTIONS"},
        ) as process,
    ):
        try:
            started = b"SERVER STARTED"
            wait_until(
                lambda: started in log.read_bytes() or process.poll() is not None,
                what="Trino",
                seconds=900,
            )
            assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:]
            yield Trino(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _unpack(folder: pathlib.Path) -> None:
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    archive.unlink()


def _write(file: pathlib.Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{k}={v}\n" for k, v in properties.items()), encoding="utf-8")


@contextlib.contextmanager
def spark(running: Stand, connections: Connections, scratch: pathlib.Path) -> Iterator[Union]:  # noqa: ARG001 - as all
    """Spark over the topic and the table, in this process."""
    session = start_spark(connections)
    try:
        source = session.read.format("kafka").option("subscribe", "sales")
        source = source.option("kafka.bootstrap.servers", running.bootstrap_servers)
        source.load().createOrReplaceTempView("log")
        yield lambda sql: [tuple(row) for row in session.sql(_SPARK + sql).collect()]
    finally:
        session.stop()


UNIONS = {"trino": trino, "spark": spark}


if __name__ == "__main__":
    main()
