"""A Java library in a process of its own, for what the original says."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway

from seamline.connectors.jvm.java import find_java


@contextlib.contextmanager
def java_library(*jars: pathlib.Path, options: Sequence[str] = ()) -> Iterator[Any]:
    """The Java process, until the block ends.

    Args:
        jars: What it loads.
        options: Further options of its Java.
    """
    own = pathlib.Path(pyspark.__file__).parent / "jars"
    gateway = JavaGateway.launch_gateway(
        classpath=os.pathsep.join([*map(str, jars), str(own / "*")]),
        die_on_exit=True,
        javaopts=list(options),
        java_path=str(find_java(os.environ).path),
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()  # which is what it lives by
        gateway.java_process.wait(60)
