"""A warehouse in an object store: a real S3 server, tables created, tiered into and read there.

Goal: what holds on local files holds on S3, deletes included, with DuckDB locked down.
Method: SeaweedFS from its wheel on loopback; rows are put into the table as a foreign engine would
(PyIceberg), and the tail stays in Kafka.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.gateway import Gateway
from support.object_storage import BUCKET, ObjectStorage, object_storage
from support.stack import Stack

from seamline.connectors.config import CatalogConfig
from seamline.errors import SeamlineError

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    with object_storage(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def remote(stack: Stack, s3: ObjectStorage, tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway whose catalog keeps its warehouse there."""
    flags = {
        **stack.flags,
        "state_directory": str(tmp_path / "gateway"),
        "catalogs.lake.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalogs.lake.warehouse": f"s3://{BUCKET}/{tmp_path.name}",
    }
    config = stack.configured(flags)
    lake = config.catalogs["lake"].model_copy(update={"properties": s3.properties})
    running = Gateway(config.model_copy(update={"catalogs": {"lake": lake}}))
    try:
        yield running
    finally:
        running.close()


@pytest.mark.soak
def test_a_table_on_s3(stack: Stack, remote: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i, "text": "hot"} for i in range(5)])
    remote.rows(f"CREATE TABLE {name} (id bigint, text varchar) WITH (topic = '{name}')")
    table = remote.parts.connections.catalog("lake").load(("default", name)).iceberg
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([{"id": i, "text": "a"} for i in range(100, 200)], schema))
    table.append(pa.Table.from_pylist([{"id": i, "text": "b"} for i in range(200, 210)], schema))

    rows = remote.rows(f"SELECT text, count(*), min(id), max(id) FROM {name} GROUP BY text")
    assert sorted(rows) == [("a", 100, 100, 199), ("b", 10, 200, 209), ("hot", 5, 0, 4)]
    assert remote.rows(f"SELECT id FROM {name} WHERE id = 150") == [(150,)]
    paths = remote.rows(f'SELECT path FROM "{name}$files"')
    assert all(path.startswith(f"s3://{BUCKET}/") for (path,) in paths)
    for (path,) in paths[:1]:
        table.io.delete(path)
    with pytest.raises(SeamlineError) as caught:
        remote.rows(f"SELECT count(*), max(text) FROM {name}")
    assert caught.value.code.name == "COLD_FILE_MISSING"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.prove
def test_spark_tiers_and_reads_with_the_catalogs_properties_alone(
    stack: Stack, s3: ObjectStorage, tmp_path: pathlib.Path, name: str
) -> None:
    """Nothing of Spark's is set by hand: neither the library for the store, nor its jars."""
    lake = CatalogConfig(
        name="lake",
        type="sql",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"s3://{BUCKET}/{tmp_path.name}",
        properties=s3.properties,
    )
    with stack.over(lake, tmp_path) as there:
        there.create_topic(name, 2)
        there.produce(name, [{"id": i} for i in range(100)])
        there.create_table(name, "id bigint")
        there.tier(name)
        there.produce(name, [{"id": i} for i in range(100, 120)])
        with contextlib.closing(Gateway(there.config)) as gateway:
            for engine in ("duckdb", "spark"):
                found = gateway.rows(f"SELECT count(*), min(id), max(id) FROM {name}", engine)
                assert found == [(120, 0, 119)]
            cold = gateway.rows(f'SELECT count(*) FROM "{name}$cold"', "duckdb")
            assert cold == [(100,)]
            maintain = f"ALTER TABLE {name} EXECUTE"
            assert dict(gateway.rows(f"{maintain} optimize"))["added_data_files_count"] == 1
            assert gateway.rows(f"{maintain} remove_orphan_files") == [("deleted_files_count", 0)]
            assert gateway.rows(f"SELECT count(*) FROM {name}") == [(120,)]
