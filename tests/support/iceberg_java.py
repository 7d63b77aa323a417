"""Iceberg's own Java library, for what it says of metadata: it checks more than Python's does.

Spark, Trino, Flink and every other engine on Java load tables through it, so what it refuses, they
cannot read.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from seamline.connectors.jvm.jars import spark_jars
from seamline.connectors.jvm.java import find_java


class IcebergJava:
    """Iceberg's library in a Java process.

    Args:
        jvm: The process.
    """

    def __init__(self, jvm: Any) -> None:
        self._parser = jvm.org.apache.iceberg.TableMetadataParser

    def problem(self, metadata: str) -> str | None:
        """What is wrong with table metadata, None when it can be loaded."""
        try:
            self._parser.fromJson("file:///metadata.json", metadata)
        except Py4JJavaError as error:
            return str(error.java_exception)
        return None


@contextlib.contextmanager
def iceberg_java() -> Iterator[IcebergJava]:
    """The library until the block ends."""
    own = pathlib.Path(pyspark.__file__).parent / "jars"
    jars = [*map(str, spark_jars(print)), str(own / "*")]
    gateway = JavaGateway.launch_gateway(
        classpath=os.pathsep.join(jars),
        die_on_exit=True,
        java_path=str(find_java(os.environ).path),
    )
    try:
        yield IcebergJava(gateway.jvm)
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()  # which is what it lives by
        gateway.java_process.wait(30)
