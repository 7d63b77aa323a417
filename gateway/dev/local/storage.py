"""The broker's files: its settings, and its storage, which is formatted once.

The storage directory exists only once it is formatted: a temporary directory is formatted and then
renamed, so an interrupted start leaves nothing half done.
"""

from __future__ import annotations

import base64
import contextlib
import pathlib
import re
import struct
import subprocess
import tempfile
import uuid

from seamline.connectors.jvm.java import Java
from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.dev.local.broker_log import start_failure
from seamline.gateway.dev.local.ports import HOST, Ports
from seamline.gateway.process import uninterrupted

_FORMAT_S_MAX = 60.0
_CLUSTER_ID = re.compile(r"^cluster\.id=(\S+)$", re.MULTILINE)


def server_properties(data: pathlib.Path, ports: Ports) -> str:
    """Returns the settings of a broker that is its own controller, on loopback, without replicas.

    The short session lets a killed broker come back without waiting for its old session. Records
    stay until somebody deletes them: Kafka counts its default retention of seven days from record
    timestamps, so example data with older timestamps would be gone within minutes.
    """
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{ports.controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{ports.kafka},CONTROLLER://{HOST}:{ports.controller}
advertised.listeners=PLAINTEXT://{ports.bootstrap_servers}
log.dirs={_escaped(str(data))}
auto.create.topics.enable=false
log.retention.ms=-1
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=4000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def format_once(data: pathlib.Path, java: Java, jars: pathlib.Path, ports: Ports) -> None:
    """Creates the storage directory unless it exists.

    Raises:
        SeamlineError: LOCAL_STACK_FAILED, DISK_FULL.
    """
    if data.is_dir():
        return
    log = data.with_name("format.log")  # kept on failure, as the error names it
    with tempfile.TemporaryDirectory(prefix="format-", dir=data.parent) as scratch:
        new = pathlib.Path(scratch, "data")
        properties = pathlib.Path(scratch, "server.properties")
        properties.write_text(server_properties(new, ports), encoding="utf-8")
        _run_storage_tool(java, jars, properties, log)
        new.rename(data)
    log.unlink()


def cluster_id(data: pathlib.Path) -> str:
    """Returns the id that formatting gave the storage, which no other broker has.

    Raises:
        SeamlineError: LOCAL_STACK_FAILED when there is none.
    """
    path = data / "meta.properties"
    match = _CLUSTER_ID.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    if match is None:
        raise SeamlineError(
            LOCAL_STACK_FAILED,
            f"{path} does not contain the broker's identity",
            hint=f"Restore it, or remove {data} to start with an empty broker.",
        )
    return match[1]


def _run_storage_tool(
    java: Java, jars: pathlib.Path, properties: pathlib.Path, log: pathlib.Path
) -> None:
    command = [
        *(str(java.path), "-Xmx256m", "-cp", f"{jars}/*"),
        *("kafka.tools.StorageTool", "format", "--config", str(properties)),
        f"--cluster-id={_new_cluster_id()}",
    ]
    try:
        with log.open("wb") as output, contextlib.ExitStack() as at_the_end:
            with uninterrupted():  # otherwise a tool that is not registered yet keeps running
                tool = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
                at_the_end.callback(tool.wait)
                at_the_end.callback(tool.kill)
            code = tool.wait(_FORMAT_S_MAX)
            if code != 0:
                raise subprocess.CalledProcessError(code, command)
    except subprocess.SubprocessError as error:
        raise start_failure(log, "the broker's storage cannot be formatted") from error


def _escaped(text: str) -> str:
    """Escapes what is not ASCII, because Java reads property files as Latin-1."""
    utf16 = text.encode("utf-16-be")
    units = struct.unpack(f">{len(utf16) // 2}H", utf16)
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


def _new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
