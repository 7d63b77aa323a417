"""AWS Glue and S3 for tests, as Moto has them, on loopback."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from seamline.connectors.config import CatalogConfig

_BUCKET, _REGION = "lake", "us-east-1"
_KEYS = {"access-key-id": "key", "secret-access-key": "secret"}


def glue_config(url: str, folder: str) -> CatalogConfig:
    """Glue in a configuration, with the tables in a folder of its bucket."""
    return CatalogConfig(
        name="lake",
        type="glue",
        warehouse=f"s3://{_BUCKET}/{folder}",
        properties={
            "glue.endpoint": url,
            **{f"glue.{name}": value for name, value in _KEYS.items()},
            "s3.endpoint": url,
            **{f"s3.{name}": value for name, value in _KEYS.items()},
            "s3.path-style-access": "true",
            "client.region": _REGION,
        },
        spark={"glue.endpoint": url},
    )


@contextlib.contextmanager
def glue() -> Iterator[str]:
    """A running server, with one bucket; meanwhile the environment has the keys, for Spark.

    Yields:
        Its address.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in _KEYS.items():
                environment.setenv(f"AWS_{name.replace('-', '_').upper()}", value)
            boto3.client("s3", endpoint_url=url, region_name=_REGION).create_bucket(Bucket=_BUCKET)
            yield url
    finally:
        server.stop()
