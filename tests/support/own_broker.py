"""A broker with listeners and settings of a test's own, in a process of its own."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
from seamline.connectors.kafka import probing
from seamline.errors import SeamlineError
from seamline.gateway.dev.local import storage
from seamline.gateway.dev.local.ports import Ports
from support import programs
from support.waiting import wait_until


@contextlib.contextmanager
def running_broker(
    folder: pathlib.Path, ports: Mapping[str, int], settings: str, options: Sequence[str] = ()
) -> Iterator[None]:
    """A broker, once it answers.

    Args:
        folder: Where its files are.
        ports: The ports of its listeners, among them `kafka`, a plain one, and `controller`.
        settings: What its settings say about listeners, and whatever else.
        options: Options of its virtual machine.
    """
    java, own = find_java({"PATH": "/usr/bin"}), Ports(ports["kafka"], ports["controller"])
    libraries = jars.kafka_jars(print)
    storage.format_once(folder / "data", java, libraries, own)
    plain = storage.server_properties(folder / "data", own)
    kept = [line for line in plain.splitlines() if "listeners=" not in line]
    file = folder / "server.properties"
    file.write_text("\n".join(kept) + settings)
    machine = [str(java.path), "-Xmx512m", *options]
    command = [*machine, "-cp", f"{libraries}/*", "kafka.Kafka", str(file)]

    def is_up() -> bool:
        try:
            return probing.probe("127.0.0.1", ports["kafka"], {}).clock_ahead_s is not None
        except SeamlineError:
            return False

    with programs.running(command, {}, folder / "log"):
        wait_until(is_up, 180, "the broker to answer")
        yield
