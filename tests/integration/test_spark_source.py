"""`format("seamline")` in a Spark of its own, against a gateway over HTTP.

Goal: a batch holds what SQL answers; a stream goes from cold into hot and holds every record once,
over restarts, tiering and trimming.
Method: a classic Spark session in a process of its own (a Connect one runs in this process) reads
and writes what it read as JSON; the test changes the table between its runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pytest
from support.captured import CapturedUsers
from support.cloud_registries import AzureRegistry, Glue, of_glue
from support.gateway import Gateway
from support.identity_provider import IdentityProvider
from support.live import canonical
from support.stack import Stack

from seamline.connectors.spark.splits import Options, Table
from seamline.errors import INVALID_ARGUMENT, SeamlineError

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, price decimal(10, 2), tag uuid, at timestamp(6) with time zone, item row(a integer, b array(varchar))"  # noqa: E501
TAG = "0f8fad5b-d9cb-469f-a165-70867728950e"

READER = """
import json, sys
from pyspark.sql import SparkSession
import seamline.spark

url, tables, mode, where, given, wanted, condition = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
seamline.spark.register(spark)
for number, table in enumerate(json.loads(tables)):
    options = {"url": url, "table": table, **json.loads(given)}
    if mode == "batch":
        rows = spark.read.format("seamline").options(**options).load()
    else:
        stream = spark.readStream.format("seamline").options(**options).load()
        target = f"{where}/{number}"
        query = (
            stream.writeStream.format("parquet").option("path", target + "/rows")
            .option("checkpointLocation", target + "/checkpoint").trigger(availableNow=True).start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(target + "/rows")
    for row in rows.where(condition).selectExpr(*wanted.split(", ")).toJSON().collect():
        print("ROW " + json.dumps([number, json.loads(row)]))
"""


WANTED = "id, price, tag, at, item, _kafka_partition, _kafka_offset"


def read(
    gateway: Gateway, name: str, mode: str, where: pathlib.Path, *how: str, **options: str
) -> list[dict[str, Any]]:
    """The rows of a table, by id; see `read_all`."""
    (rows,) = read_all(gateway, [name], mode, where, *how, **options)
    return sorted(rows, key=lambda row: row["id"])


def read_all(
    gateway: Gateway,
    names: Sequence[str],
    mode: str,
    where: pathlib.Path,
    wanted: str = WANTED,
    condition: str = "TRUE",
    **options: str,
) -> list[list[dict[str, Any]]]:
    """The rows of each table, read by one session; a null has no entry."""
    script = where / "reader.py"
    script.write_text(READER, encoding="utf-8")
    environment = {n: v for n, v in os.environ.items() if not n.startswith("SPARK_")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    named = [json.dumps(list(names)), mode, str(where), json.dumps(options), wanted, condition]
    done = subprocess.run(
        [sys.executable, str(script), gateway.url, *named],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows: list[list[dict[str, Any]]] = [[] for _ in names]
    for line in done.stdout.splitlines():
        if line.startswith("ROW "):
            number, row = json.loads(line[4:])
            rows[number].append(row)
    return rows


def records(ids: range) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "price": f"{i}.25",
            "tag": TAG,
            "at": "2026-11-21T10:00:00.123456Z",
            "item": {"a": i, "b": ["x", None]},
        }
        for i in ids
    ]


@pytest.mark.parametrize("streams", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_batch_and_stream(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path, streams: bool
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, records(range(100)))
    stack.tier(name)
    stack.produce(name, records(range(100, 150)))

    found = read(gateway, name, "batch", tmp_path)
    places = gateway.rows(f"SELECT id, _kafka_partition, _kafka_offset FROM {name} ORDER BY id")
    assert [(r["id"], r["_kafka_partition"], r["_kafka_offset"]) for r in found] == places
    assert found[7]["price"] == 7.25
    for row in (found[7], found[107]):
        assert (row["tag"], row["at"]) == (TAG, "2026-11-21T10:00:00.123Z")
    assert found[7]["item"]["a"] == 7
    assert found[107]["item"]["a"] == 107

    if not streams:
        return
    assert [r["id"] for r in read(gateway, name, "stream", tmp_path)] == list(range(150))
    stack.produce(name, records(range(150, 200)))
    stack.tier(name)
    stack.produce(name, records(range(200, 210)))
    end = dict(gateway.rows(f'SELECT "partition", boundary FROM "{name}$seam"'))
    stack.trim(name, end)
    assert [r["id"] for r in read(gateway, name, "stream", tmp_path)] == list(range(210))


@pytest.mark.soak
def test_upserts_are_read_as_rows_and_followed_as_changes(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(
        name, "id bigint, text varchar", mode="upsert", primary_key=("id",), key="id"
    )
    happened = [(1, "old"), (2, "old"), (3, "old"), (2, None), (1, "new"), (2, "again"), (3, None)]

    def happen(changes: list[tuple[int, str | None]]) -> None:
        values = [text and {"id": id_, "text": text} for id_, text in changes]
        stack.produce(name, values, keys=[str(id_) for id_, _ in changes])

    happen(happened[:3])
    stack.tier(name)
    happen(happened[3:])
    rows = [{"id": 1, "text": "new"}, {"id": 2, "text": "again"}]
    assert read(gateway, name, "batch", tmp_path, "id, text") == rows
    # only what has been replaced fulfils it
    assert not read(gateway, name, "batch", tmp_path, "id, text", "text = 'old'")

    def followed() -> list[tuple[int, str | None, bool]]:
        wanted = "id, text, _kafka_deleted, _kafka_offset"
        found = read(gateway, name, "stream", tmp_path, wanted, changes="true")
        in_order = sorted(found, key=lambda row: row["_kafka_offset"])
        return [(row["id"], row.get("text"), row["_kafka_deleted"]) for row in in_order]

    assert followed() == [(id_, text, text is None) for id_, text in happened]
    stack.tier(name)
    stack.trim(name, {0: 5})
    happened.append((3, "anew"))
    happen(happened[-1:])
    assert followed() == [(id_, text, text is None) for id_, text in happened]
    with pytest.raises(AssertionError, match=r"(?s)NOT_SUPPORTED.*option\(\\?\"changes"):
        read(gateway, name, "stream", tmp_path, "id, text")


def capture(stack: Stack, topic: str, captured: CapturedUsers, count: int) -> None:
    """Writes what happens to a database to a topic of one partition."""
    changes = list(captured.happen(count))
    keys = [key for key, _, _ in changes]
    stack.produce(topic, [value for _, value, _ in changes], partition=0, keys=keys)


def tiered_here(stack: Stack, name: str) -> None:
    """Tiers a table in this process."""
    stack.tier_engine = "local"
    try:
        stack.tier(name)
    finally:
        stack.tier_engine = "spark"


SOURCES = ("mongodb", "debezium_mongodb", "dms", "goldengate", "qlik", "qlik_data")


@pytest.mark.prove
def test_changes_of_any_source_are_the_same_on_spark(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path
) -> None:
    tables, databases = {}, {}
    for envelope in SOURCES:
        topic = tables[envelope] = f"{name}_{envelope}"
        databases[envelope] = CapturedUsers(random.Random(len(envelope)), envelope)
        stack.create_topic(topic, 1)
        options: dict[str, Any] = {"mode": "changelog", "envelope": envelope}
        options |= {"primary_key": ("id",), "spellings": ("text_numbers",), "topic": topic}
        for own_name in (topic, f"{topic}_here"):
            stack.create_table(own_name, "id bigint, name varchar, score integer", **options)
        for count in (20, 20):  # the second batch replaces rows of the first
            capture(stack, topic, databases[envelope], count)
            stack.tier(topic)
            tiered_here(stack, f"{topic}_here")
        rows = canonical(databases[envelope].rows())
        for own_name in (topic, f"{topic}_here"):
            cold = gateway.rows(f'SELECT id, name, score FROM "{own_name}$cold"', "duckdb")
            assert canonical(cold) == rows, envelope
        capture(stack, topic, databases[envelope], 20)
    columns = "id, name, score"
    found = read_all(gateway, [*tables.values()], "batch", tmp_path, columns)
    for (envelope, table), read_rows in zip(tables.items(), found, strict=True):
        rows = canonical(databases[envelope].rows())
        on_spark = [tuple(map(row.get, columns.split(", "))) for row in read_rows]
        assert canonical(on_spark) == rows, envelope
        answer = gateway.rows(f"SELECT {columns} FROM {table}", "duckdb")
        assert canonical(answer) == rows, envelope
    every = " UNION ALL ".join(f"SELECT '{e}', {columns} FROM {t}" for e, t in tables.items())
    assert canonical(gateway.rows(every, "spark")) == canonical(
        [(envelope, *row) for envelope, database in databases.items() for row in database.rows()]
    )
    columns += ", _kafka_deleted, _kafka_offset"
    found = read_all(gateway, [*tables.values()], "stream", tmp_path, columns, changes="true")
    for (envelope, table), read_rows in zip(tables.items(), found, strict=True):
        streamed = [tuple(map(row.get, columns.split(", "))) for row in read_rows]
        changes = gateway.rows(f'SELECT {columns} FROM "{table}$changes"', "duckdb")
        assert canonical(streamed) == canonical(changes), envelope


ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})

CREATE_ORDERS = "CREATE TABLE {name} (id bigint) WITH (topic = '{name}', format = 'avro')"


def order(id_: int) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, json.loads(ORDER), {"id": id_})
    return sink.getvalue()


def refusal_of(gateway: Gateway, name: str, **options: str) -> str:
    """What the options of a read lack, as the driver says before there are tasks."""
    table = Table.place(Options.of({"url": gateway.url, "table": name, **options}))
    with pytest.raises(SeamlineError) as caught:
        table.hot_splits(table.seam.hot_ranges, {}, table.seam.end, table.seam.log.end_epochs)
    assert caught.value.code is INVALID_ARGUMENT
    return caught.value.message


@pytest.mark.prove
def test_executors_reach_the_registry_of_glue(
    stack: Stack, name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    stack.create_topic(name, 1)
    with Glue() as glue:
        version = glue.register(ORDER)
        registry = {"type": "glue", "region": "eu-west-1", "url": glue.url}
        with gateway_of(stack, registry, tmp_path) as gateway:
            gateway.rows(
                f"CREATE TABLE {name} (id bigint) WITH (topic = '{name}', format = 'avro')"
            )
            values = [of_glue(version, order(i), is_compressed=i % 2 == 0) for i in range(20)]
            stack.produce(name, values)
            rows = read(gateway, name, "batch", tmp_path, "id")
            assert [row["id"] for row in rows] == list(range(20))
            message = refusal_of(gateway, name, **{"registry.username": "ann"})
            assert "registry.type: uses the AWS credentials" in message


@pytest.mark.prove
def test_executors_log_in_to_the_registry_of_azure(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 1)
    with IdentityProvider() as provider, AzureRegistry(provider.is_valid) as azure:
        schema_id = azure.register(ORDER)
        login = {f"login.{setting}": value for setting, value in provider.login.items()}
        registry = {"type": "azure", "url": azure.url, **login}
        with gateway_of(stack, registry, tmp_path) as gateway:
            gateway.rows(
                f"CREATE TABLE {name} (id bigint) WITH (topic = '{name}', format = 'avro')"
            )
            content_type = f"avro/binary+{schema_id}".encode()
            headers: list[tuple[str, bytes | None]] = [("content-type", content_type)]
            stack.produce(name, map(order, range(20)), headers=[headers] * 20)
            options = {f"registry.{setting}": value for setting, value in login.items()}
            rows = read(gateway, name, "batch", tmp_path, "id", **options)
            assert [row["id"] for row in rows] == list(range(20))
            assert "the type azure needs url, and login or token" in refusal_of(gateway, name)
            plain = f"{name}_plain"
            gateway.rows(
                f"CREATE TABLE {plain} (raw varbinary) WITH (topic = '{name}', format = 'raw')"
            )
            assert len(read_all(gateway, [plain], "batch", tmp_path, "raw")[0]) == 20


@contextlib.contextmanager
def gateway_of(stack: Stack, registry: dict[str, str], tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway of its own, whose cluster has a registry."""
    own = {f"clusters.default.schema_registry.{name}": value for name, value in registry.items()}
    config = stack.configured({**stack.flags, **own, "state_directory": str(tmp_path / "state")})
    with contextlib.closing(Gateway(config)) as gateway:
        yield gateway


@pytest.mark.soak
def test_what_cannot_be_read_says_why(gateway: Gateway, name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match="TABLE_NOT_FOUND"):
        read(gateway, name, "batch", tmp_path)


def test_a_topic_without_a_table_says_so(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    assert code_of(gateway, f"default.default.{name}") == "NOT_A_UNIFIED_TABLE"


@pytest.mark.parametrize("part", ["hot", "changes"])
def test_a_part_of_a_table_says_so(stack: Stack, gateway: Gateway, name: str, part: str) -> None:
    stack.create_topic(name, 1)
    mode = "upsert" if part == "changes" else "append"
    keys = ("id",) if part == "changes" else ()
    stack.create_table(name, "id bigint", mode=mode, primary_key=keys, key="id")
    assert code_of(gateway, f'"{name}${part}"') == "NOT_SUPPORTED"


def code_of(gateway: Gateway, table: str) -> str:
    with pytest.raises(SeamlineError) as caught:
        Table.place(Options.of({"url": gateway.url, "table": table}))
    return caught.value.code.name
