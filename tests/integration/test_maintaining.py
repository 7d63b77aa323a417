"""Goal: ALTER TABLE … EXECUTE maintains tables, and neither rows nor a boundary are lost by it.

Method: the statements on the gateway's own Spark, also as Trino's Python client sends them, on
plain tables and on tables over a topic; then both engines read them, and a pipeline continues.
"""

from __future__ import annotations

import functools
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import trino
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import DEADLINE_EXCEEDED, INVALID_ARGUMENT, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.boundary import TAG, boundary_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]

DAY_S = 86_400
CONDITIONS = (
    "ok", "NOT ok", "small = -7", "small > 2.5", "small = 2.5", "id BETWEEN 1 AND 3",
    "price >= 12345.6789", "price < -0.5", "ratio <> 0.1e0", "name = 'it''s'",
    "name = '\\'", "name LIKE 'ü😀%'", "name IN ('a', 'b''\\n')", "data = X'00ff'",
    "day >= DATE '2024-02-29'", "at < TIMESTAMP '2024-02-29 01:02:03.123456 Europe/Berlin'",
    "\"then\" = TIMESTAMP '1969-12-31 23:59:59.999999'", "day IS NULL OR NOT (id > 1 AND ok)",
)  # fmt: skip


@pytest.fixture(scope="module")
def brief(stack: Stack) -> Iterator[Gateway]:
    """A gateway that accepts no token after a second."""
    state = str(pathlib.Path(stack.config.state_directory) / "brief")
    flags = {"tokens.age_seconds_max": "1", "state_directory": state}
    running = Gateway(stack.configured(flags))
    yield running
    running.close()


def files(stack: Stack, name: str, part: str) -> set[str]:
    """The paths of a partition's files."""
    tasks = stack.load(name).iceberg.scan().plan_files()
    return {task.file.file_path for task in tasks if task.file.partition[0] == part}


def execute(gateway: Gateway, name: str, procedure: str) -> dict[str, int]:
    """Runs a procedure, and returns its metrics."""
    return dict(gateway.rows(f"ALTER TABLE {name} EXECUTE {procedure}"))


def test_small_files_are_merged_where_the_condition_says(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    columns = "(k bigint, part varchar) WITH (partitioning = ARRAY['part'])"
    gateway.rows(f"CREATE TABLE {name} {columns}")
    for n in range(3):
        gateway.rows(f"INSERT INTO {name} VALUES ({n}, 'it''s'), ({n}, 'b')")
    others = files(stack, name, "b")
    merged = execute(gateway, name, f"optimize WHERE {name}.part = 'it''s' AND k < 10")
    assert (merged["rewritten_data_files_count"], merged["added_data_files_count"]) == (3, 1)
    assert (len(files(stack, name, "it's")), files(stack, name, "b")) == (1, others)
    small = execute(gateway, name, "optimize(file_size_threshold => '1B')")
    assert small["rewritten_data_files_count"] == 0
    whole = execute(gateway, name, "optimize(file_size_threshold => '10GB')")
    assert whole["rewritten_data_files_count"] == 3
    assert execute(gateway, name, "optimize_manifests")["rewritten_manifests_count"] > 1
    assert gateway.rows(f"SELECT part, sum(k), count(*) FROM {name} GROUP BY 1 ORDER BY 1") == [
        ("b", 3, 3),
        ("it's", 3, 3),
    ]


@pytest.mark.soak
def test_conditions_on_columns_of_every_type(gateway: Gateway, name: str) -> None:
    gateway.rows(
        f"CREATE TABLE {name} (id bigint, ok boolean, small integer, price decimal(20, 4), "
        "ratio double, single real, name varchar, data varbinary, day date, "
        "at timestamp with time zone, then timestamp)"
    )
    for procedure in ("optimize", "optimize_manifests", "expire_snapshots", "remove_orphan_files"):
        assert set(execute(gateway, name, procedure).values()) == {0}  # nor does it fail
    gateway.rows(f"INSERT INTO {name} (id) VALUES 1, 2")
    for condition in CONDITIONS:
        assert execute(gateway, name, f"optimize WHERE {condition}")["added_data_files_count"] == 0


@pytest.mark.one_in(prove=2)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_over_a_topic_keeps_its_rows_and_its_boundary(
    stack: Stack, gateway: Gateway, brief: Gateway, name: str, mode: str
) -> None:
    stack.create_topic(name, 2)
    keyed: dict[str, Any] = {"key": "id", "primary_key": ("id",)} if mode == "upsert" else {}
    stack.create_table(name, "id bigint, v bigint", mode=mode, **keyed)
    for n in range(3):
        numbers = range(n, n + 5)
        stack.produce(name, [{"id": i, "v": n} for i in numbers], keys=list(map(str, numbers)))
        stack.tier(name)
    stack.produce(name, [{"id": 3, "v": 9}], keys=["3"])
    sql = f"SELECT id, v FROM {name} ORDER BY id, v"
    before = gateway.rows(sql)
    with pytest.raises(SeamlineError, match="retention_threshold is 1d") as caught:
        execute(gateway, name, "expire_snapshots('1d', 1)")
    assert caught.value.code is INVALID_ARGUMENT
    assert execute(gateway, name, "expire_snapshots")["expired_snapshots_count"] == 0
    assert execute(gateway, name, "optimize")["rewritten_data_files_count"] > 1
    expire = functools.partial(execute, brief, name, "expire_snapshots('1s', 1)")
    wait_until(lambda: expire()["expired_snapshots_count"] > 0)
    state = stack.load(name).state
    assert boundary_of(state, state.current_snapshot_id).snapshot_id == state.refs[TAG].snapshot_id
    for engine in ("duckdb", "spark"):
        assert gateway.rows(sql, engine) == before
    stack.produce(name, [{"id": 3, "v": 10}], keys=["3"])
    stack.tier(name)
    assert (3, 10) in gateway.rows(f'SELECT id, v FROM "{name}$cold"')


@pytest.mark.soak
def test_orphans_are_old_files_in_the_tables_own_folders(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    gateway.rows(f"CREATE TABLE {name} AS SELECT 1 AS k")
    location = pathlib.Path(urlsplit(stack.load(name).iceberg.location()).path)
    paths = [location / "data" / "old.parquet", location / "metadata" / "old.avro"]
    kept = [location / "data" / "new.parquet", location / "other" / "data" / "old.parquet"]
    for path in (*paths, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    old = time.time() - 8 * DAY_S
    for path in location.rglob("*.*"):
        if path != kept[0]:
            os.utime(path, (old, old))
    for age, count in (("9d", 0), ("7d", 2), ("7d", 0)):
        done = execute(gateway, name, f"remove_orphan_files(retention_threshold => '{age}')")
        assert done == {"deleted_files_count": count}
    assert [path.exists() for path in (*paths, *kept)] == [False, False, True, True]
    assert gateway.rows(f"SELECT k FROM {name}") == [(1,)]


def test_work_on_spark_ends_with_its_deadline(gateway: Gateway) -> None:
    spark = gateway.parts.spark
    assert spark is not None
    endless = "SELECT sum(a.id * b.id) FROM range(10000000) AS a, range(10000000) AS b"
    with pytest.raises(SeamlineError) as caught:
        spark.work(lambda session: session.sql(endless).collect(), StatementDeadline(3.0))
    assert caught.value.code is DEADLINE_EXCEEDED
    found = spark.work(lambda session: session.sql("SELECT 1").collect(), StatementDeadline(60.0))
    assert [tuple(row) for row in found] == [(1,)]


def test_trinos_client_maintains_tables(gateway: Gateway, name: str) -> None:
    gateway.rows(f"CREATE TABLE {name} AS SELECT 1 AS k")
    gateway.rows(f"INSERT INTO {name} VALUES 2")
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    options: dict[str, Any] = {"user": "ann", "catalog": "lake", "schema": "default"}
    with connect(host=address.hostname, port=address.port, **options) as connection:
        cursor = connection.cursor()
        cursor.execute(f"ALTER TABLE {name} EXECUTE optimize WHERE k < ?", [9])
        assert dict(cursor.fetchall())["rewritten_data_files_count"] == 2
        assert cursor.update_type == "ALTER TABLE EXECUTE"
        assert [column[0] for column in cursor.description] == ["metric_name", "metric_value"]
        with pytest.raises(trino.exceptions.TrinoUserError, match="Did you mean optimize"):
            cursor.execute(f"ALTER TABLE {name} EXECUTE optimise").fetchall()
