"""Iceberg's own Java library, for what it says of metadata: it checks more than Python's does.

Spark, Trino, Flink and every other engine on Java load tables through it, so what it refuses, they
cannot read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError

from seamline.connectors.jvm.jars import spark_jars
from support.java_library import java_library


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
    with java_library(*spark_jars(print)) as jvm:
        yield IcebergJava(jvm)
