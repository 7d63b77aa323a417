"""Other engines write plain tables through our catalog.

Goal: what DuckDB and Spark commit where `iceberg.writes` is set is what our own SQL then reads.
Method: a gateway without a broker, and each engine as published, in an environment of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline
from support.gateway import Gateway
from support.java import SHORT_LIVED_JAVA

from readers.catalogue import READERS
from readers.environments import Python
from readers.test_readers import RUNTIME_3_5
from seamline.connectors.jvm.jars import cache_directory, fetch, spark_jars
from seamline.spark.catalog import EXTENSIONS, configuration

pytestmark = [
    pytest.mark.integration,
    pytest.mark.soak,
    pytest.mark.timeout(3600),  # environments are made when an engine is first asked for
]

ENGINES = {"DuckDB": "duckdb_writer", "Spark 4.0": "spark_writer", "Spark 3.5": "spark_writer"}
WRITES = (
    "CREATE TABLE {t} (id bigint, word {text})",
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "DELETE FROM {t} WHERE id = 2",
    "UPDATE {t} SET word = 'z' WHERE id = 3",
    "MERGE INTO {t} USING (SELECT 1 AS id) AS s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} ADD COLUMN n bigint",
    "INSERT INTO {t} VALUES (4, 'd', 5)",
)
SPARK_ALONE = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
    "DELETE FROM {t} WHERE id = 3",
    "ALTER TABLE {t} CREATE BRANCH audit",
    "INSERT INTO {t}.branch_audit VALUES (6, 'f', 7)",
    "CALL live.system.fast_forward('{s}', 'main', 'audit')",
    "CREATE TABLE {t}_2 USING iceberg AS SELECT id FROM {t}",
    "CREATE OR REPLACE TABLE {t}_2 USING iceberg PARTITIONED BY (id) AS SELECT id, n FROM {t}",
    "CALL live.system.rewrite_data_files(table => '{s}', options => map('rewrite-all', 'true'))",
    "CALL live.system.expire_snapshots(table => '{s}', "
    "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1)",
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that passes writes on."""
    folder = tmp_path_factory.mktemp("writers")
    config = offline.load_config(folder, "iceberg: {writes: true}\n")
    lake = config.catalogs["lake"]
    own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
    own.create_namespace("sales")
    with contextlib.closing(Gateway(config)) as made:
        yield made


def run(engine: str, gateway: Gateway, statements: Sequence[str]) -> None:
    """Runs statements in an engine.

    Raises:
        AssertionError: with what the engine says when one of them fails.
    """
    reader = next(reader for reader in READERS if reader.name == engine)
    assert isinstance(reader.program, Python)
    told: dict[str, Any] = {"url": gateway.url, "statements": list(statements)}
    if reader.spark:
        told["conf"] = _conf(gateway.url, reader.spark)
    program = Python((ENGINES[engine],), reader.program.packages)
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    tests = str(pathlib.Path(__file__).parents[1])
    done = subprocess.run(
        program.command(json.dumps(told)),
        env={**plain, **SHORT_LIVED_JAVA, "PYTHONPATH": tests, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def _conf(url: str, version: str) -> dict[str, str]:
    if version == "3.5":
        jars = [fetch(RUNTIME_3_5, cache_directory(os.environ), print) / RUNTIME_3_5.file_names[0]]
    else:
        jars = [path for path in spark_jars(print) if "iceberg" in path.name]
    return {
        **configuration(url, name="live"),
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_written_is_read(gateway: Gateway, engine: str) -> None:
    name = f"t_{engine.lower().replace(' ', '_').replace('.', '_')}"
    named = {"t": f"live.sales.{name}", "s": f"sales.{name}"}
    is_spark = engine.startswith("Spark")
    named["text"] = "string" if is_spark else "varchar"
    run(engine, gateway, [s.format(**named) for s in (*WRITES, *(SPARK_ALONE * is_spark))])
    expected: list[tuple[Any, ...]] = [(4, "d", 5), (6, "f", 7)]
    found = gateway.rows(f"SELECT id, word, n FROM lake.sales.{name} ORDER BY id", "duckdb")
    assert found == (expected if is_spark else [(3, "z", None), (4, "d", 5)])
    if is_spark:
        rows = gateway.rows(f"SELECT id, n FROM lake.sales.{name}_2 ORDER BY id", "duckdb")
        assert rows == [(4, 5), (6, 7)]
