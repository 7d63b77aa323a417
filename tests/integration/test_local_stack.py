"""Goal: `seamline local` starts, finds, recovers and stops the stack, and every obstacle is named.

Method: real brokers in folders of the test, real signals, real commands in processes of their own.
After each test no process that mentions its folder may be left.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from support.ports import reserved_port
from support.waiting import wait_until

from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.jvm.jars import cache_directory, kafka_jars
from seamline.connectors.jvm.java import find_java
from seamline.errors import (
    DISK_FULL,
    INVALID_ARGUMENT,
    INVALID_CONFIG,
    LOCAL_STACK_FAILED,
    PORT_TAKEN,
    SeamlineError,
)
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.dev.local import state
from seamline.gateway.dev.local.broker import Broker
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.dev.local.stack import LocalStack
from seamline.gateway.dev.local.state import State
from seamline.gateway.process import ProcessIdentity, identify

pytestmark = pytest.mark.integration

TOPIC = "kept"
SCHEMA = Schema(NestedField(1, "n", LongType(), required=False))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder for a stack; the test must leave no process of it."""
    folder = tmp_path / "state"
    yield folder
    left = processes_of(folder)
    for process in left:
        process.kill()
        process.wait(60)
    assert [process.pid for process in left] == []


@pytest.fixture
def local(folder: pathlib.Path) -> Iterator[LocalStack]:
    """A stack that is stopped after the test."""
    stack = LocalStack(folder)
    yield stack
    stack.down(silent)


def processes_of(folder: pathlib.Path) -> list[psutil.Process]:
    """Processes whose command mentions the folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(folder) in " ".join(process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def silent(_: str) -> None:
    """Takes no progress."""


def configuration(folder: pathlib.Path) -> Config:
    """What a gateway would read."""
    return load(folder / "seamline.yaml", environment={}).config


def produce(servers: str, count: int) -> None:
    """Makes the topic and writes records that the broker acknowledged."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, str(number))
    assert producer.flush(30) == 0


def consume(servers: str, count: int) -> list[str]:
    """The first records of the topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages = consumer.consume(count, 30)
        return [(message.value() or b"").decode() for message in messages]
    finally:
        consumer.close()


def kill_broker(stack: LocalStack) -> None:
    """What a crash does, and a reboot."""
    pid = stack.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not stack.status().running, what="the killed broker is gone")


def command(folder: pathlib.Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """`seamline local` in a process of its own, in a session of its own as a terminal gives."""
    verb, *rest = arguments
    return subprocess.Popen(
        [sys.executable, "-m", "seamline.cli", "local", verb, "--state", str(folder), *rest],
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder: pathlib.Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with command(folder, *arguments, **environment) as process:
        output, errors = process.communicate(timeout=180)
    return process.returncode, output, errors


# --- Up and down ------------------------------------------------------------------------------


@pytest.mark.soak
def test_up_gives_what_a_gateway_needs(local: LocalStack, folder: pathlib.Path) -> None:
    status = local.up(silent)
    config = configuration(folder)
    assert status.ready
    assert status.bootstrap_servers == config.clusters["kafka"].bootstrap_servers
    produce(status.bootstrap_servers, 3)
    assert consume(status.bootstrap_servers, 3) == ["0", "1", "2"]
    catalog = IcebergCatalog(config.catalogs["lake"]).pyiceberg
    assert catalog.list_namespaces() == [("default",)]
    table = catalog.create_table("default.t", SCHEMA)
    assert table.location().startswith(f"file://{folder}/warehouse/")
    catalog.close()
    database = sqlite3.connect(folder / "catalog.db")
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


@pytest.mark.soak
def test_broker_listens_on_loopback_only(local: LocalStack) -> None:
    process = psutil.Process(local.up(silent).pid)
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


@pytest.mark.soak
def test_down_keeps_the_data_and_the_port(local: LocalStack, folder: pathlib.Path) -> None:
    servers = local.up(silent, kafka_port=reserved_port()).bootstrap_servers
    assert servers is not None
    produce(servers, 100)
    catalog = IcebergCatalog(configuration(folder).catalogs["lake"]).pyiceberg
    catalog.create_table("default.t", SCHEMA)
    catalog.close()
    assert local.down(silent)
    assert not local.status().running
    assert processes_of(folder) == []
    assert local.up(silent).bootstrap_servers == servers
    assert consume(servers, 100) == [str(number) for number in range(100)]
    again = IcebergCatalog(configuration(folder).catalogs["lake"]).pyiceberg
    assert again.list_tables("default") == [("default", "t")]
    again.close()


@pytest.mark.soak
def test_second_up_finds_the_first(local: LocalStack, folder: pathlib.Path) -> None:
    first = local.up(silent)
    assert LocalStack(folder).up(silent) == first
    code, output, _ = run(folder, "up")
    assert code == 0
    assert f"on {first.bootstrap_servers} (process {first.pid})" in output


@pytest.mark.soak
def test_two_at_once_start_one_broker(local: LocalStack, folder: pathlib.Path) -> None:
    both = [command(folder, "up") for _ in range(2)]
    answers = [process.communicate(timeout=180) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    status = local.status()
    assert all(f"(process {status.pid})" in output for output, _ in answers)
    assert len(processes_of(folder)) == 1


@pytest.mark.soak
def test_up_in_another_folder_is_another_stack(local: LocalStack, tmp_path: pathlib.Path) -> None:
    other = LocalStack(tmp_path / "state-2")
    try:
        assert local.up(silent).bootstrap_servers != other.up(silent).bootstrap_servers
    finally:
        other.down(silent)


def test_down_and_status_where_nothing_runs(folder: pathlib.Path) -> None:
    assert run(folder, "down") == (0, "", "nothing is running\n")
    code, output, _ = run(folder, "status")
    assert (code, output.split(";")[0]) == (3, f"nothing is running in {folder}")
    assert not folder.exists()


@pytest.mark.soak
def test_commands_tell_how_to_connect(folder: pathlib.Path) -> None:
    code, output, errors = run(folder, "up")
    assert code == 0, errors
    code, as_json, _ = run(folder, "status", "--json")
    assert code == 0
    status = json.loads(as_json)
    assert (status["running"], status["ready"]) == (True, True)
    for text in (status["bootstrap_servers"], status["config_file"], "seamline serve"):
        assert text in output
    assert f"kafka: starting on {status['bootstrap_servers']}" in errors
    assert run(folder, "down")[2] == "stopped; the data is kept\n"


# --- Crashes ----------------------------------------------------------------------------------


def test_killed_broker_is_recovered(local: LocalStack) -> None:
    first = local.up(silent, kafka_port=reserved_port())
    assert first.bootstrap_servers is not None
    produce(first.bootstrap_servers, 100)
    kill_broker(local)
    said: list[str] = []
    again = local.up(said.append)
    assert again.bootstrap_servers == first.bootstrap_servers
    assert again.pid != first.pid
    assert consume(first.bootstrap_servers, 100) == [str(number) for number in range(100)]
    assert any("recovering its data" in line for line in said)


@pytest.mark.soak
def test_broker_whose_starter_was_killed_is_found(local: LocalStack, folder: pathlib.Path) -> None:
    with command(folder, "up") as starter:
        wait_until(lambda: local.status().running, what="the broker's process is on record")
        starter.kill()
    pid = local.status().pid
    assert local.up(silent).pid == pid


@pytest.mark.soak
def test_stranger_with_the_recorded_id_is_left_alone(
    local: LocalStack, folder: pathlib.Path
) -> None:
    folder.mkdir()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            recorded = ProcessIdentity(stranger.pid, "another boot/1")
            state.write(folder / "local.json", State(Ports(19092, 19093), recorded))
            assert not local.status().running
            assert local.up(silent).pid != stranger.pid
            assert local.down(silent)
            state.write(folder / "local.json", State(Ports(19092, 19093), recorded))
            assert not local.down(silent)
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.soak
def test_broker_that_is_not_on_record_keeps_others_off_its_data(
    local: LocalStack, folder: pathlib.Path
) -> None:
    local.up(silent)
    record = (folder / "local.json").rename(folder / "lost.json")
    with pytest.raises(SeamlineError, match="an unknown broker is still running") as caught:
        local.up(silent)
    assert caught.value.code is LOCAL_STACK_FAILED
    assert "fuser" in caught.value.hint
    record.rename(folder / "local.json")
    assert local.status().ready


@pytest.mark.soak
def test_broker_that_hangs_is_told_and_can_be_stopped(local: LocalStack) -> None:
    pid = local.up(silent).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    status = local.status()
    assert (status.running, status.ready) == (True, False)
    assert local.down(silent)
    assert identify(pid) is None


# --- Ctrl-C -----------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_foreground_ends_with_its_broker(folder: pathlib.Path, number: int) -> None:
    with command(folder, "up", "--foreground") as process:
        assert process.stdout is not None
        assert any("Ctrl-C stops everything" in line for line in process.stdout)
        assert len(processes_of(folder)) == 2  # the command and the broker
        process.send_signal(number)
        assert process.wait(60) == 0
    assert processes_of(folder) == []


@pytest.mark.one_in(prove=12)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupted_up_leaves_no_process(folder: pathlib.Path, number: int, moment: str) -> None:
    with command(folder, "up") as process:
        assert process.stderr is not None
        assert any("kafka: starting" in line for line in process.stderr)
        if moment == "after":
            wait_until((folder / "local.json").exists, what="the broker's process is on record")
        process.send_signal(number)
        assert process.wait(60) == 130
    assert processes_of(folder) == []
    assert not LocalStack(folder).status().running


@pytest.mark.soak
def test_foreground_ends_with_down(local: LocalStack, folder: pathlib.Path) -> None:
    with command(folder, "up", "--foreground") as process:
        wait_until(lambda: local.status().ready, what="the stack is up")
        assert local.down(silent)
        assert process.wait(60) == 0


@pytest.mark.soak
def test_foreground_tells_when_the_broker_dies(local: LocalStack, folder: pathlib.Path) -> None:
    with command(folder, "up", "--foreground") as process:
        assert process.stdout is not None
        assert any("Ctrl-C stops everything" in line for line in process.stdout)
        kill_broker(local)
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert "LOCAL_STACK_FAILED: the broker exited on its own" in process.stderr.read()


# --- Obstacles --------------------------------------------------------------------------------


@pytest.mark.soak
def test_taken_port_is_named(local: LocalStack, folder: pathlib.Path) -> None:
    port = reserved_port()
    with socket.create_server(("127.0.0.1", port)):
        code, _, errors = run(folder, "up", "--kafka-port", str(port))
    assert code == 1
    assert f"error: PORT_TAKEN: port {port} is taken by another program\nhint: " in errors
    assert local.up(silent, kafka_port=port).bootstrap_servers == f"127.0.0.1:{port}"


@pytest.mark.soak
def test_port_that_somebody_took_meanwhile_is_replaced(
    local: LocalStack, folder: pathlib.Path
) -> None:
    first = local.up(silent, kafka_port=reserved_port()).bootstrap_servers
    assert first is not None
    produce(first, 3)
    local.down(silent)
    file = folder / "seamline.yaml"
    file.write_text(file.read_text() + "limits: {duckdb_threads: 3}  # mine\n")
    with socket.create_server(("127.0.0.1", int(first.split(":")[1]))):
        second = local.up(silent).bootstrap_servers
    assert second not in (None, first)
    assert configuration(folder).clusters["kafka"].bootstrap_servers == second
    assert configuration(folder).limits.duckdb_threads == 3
    assert file.read_text().endswith("# mine\n")
    assert consume(str(second), 3) == ["0", "1", "2"]


@pytest.mark.soak
def test_port_lost_between_choosing_and_binding_is_named(folder: pathlib.Path) -> None:
    folder.mkdir()
    java, jars = find_java(os.environ), kafka_jars(silent)
    broker = Broker(folder / "kafka")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = Ports(other.getsockname()[1], reserved_port())
        broker.prepare(java, jars, ports)
        process = broker.launch(java, jars)
        with pytest.raises(SeamlineError, match=f"port {ports.kafka} is taken") as caught:
            broker.wait_until_ready(process, ports)
    assert caught.value.code is PORT_TAKEN
    broker.stop(process)


@pytest.mark.soak
def test_other_port_than_the_running_one_is_refused(local: LocalStack) -> None:
    first = local.up(silent)
    with pytest.raises(SeamlineError, match="already running on port") as caught:
        local.up(silent, kafka_port=1)
    assert caught.value.code is INVALID_ARGUMENT
    assert local.status() == first


def test_full_disk_is_named(folder: pathlib.Path) -> None:
    with pytest.raises(SeamlineError, match="MiB are free") as caught:
        LocalStack(folder, free_bytes_min=1 << 60).up(silent)
    assert caught.value.code is DISK_FULL


@pytest.mark.soak
def test_broker_that_dies_while_starting_is_named_with_its_log(
    local: LocalStack, folder: pathlib.Path
) -> None:
    local.up(silent)
    local.down(silent)
    identity = folder / "kafka" / "data" / "meta.properties"
    identity.write_text(identity.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(SeamlineError, match="exited during startup") as caught:
        local.up(silent)
    assert caught.value.code is LOCAL_STACK_FAILED
    assert f"{folder}/kafka/broker.log says: " in caught.value.message
    assert "node.id" in caught.value.message or "node id" in caught.value.message


@pytest.mark.soak
def test_configuration_that_cannot_be_read_is_named_and_nothing_stays(
    local: LocalStack, folder: pathlib.Path
) -> None:
    local.up(silent)
    local.down(silent)
    (folder / "seamline.yaml").write_text("clusters: {")
    with pytest.raises(SeamlineError) as caught:
        local.up(silent)
    assert caught.value.code is INVALID_CONFIG
    assert processes_of(folder) == []


def test_folder_that_cannot_be_used_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SeamlineError, match="cannot be used: Not a directory") as caught:
        LocalStack(tmp_path / "file" / "state").up(silent)
    assert caught.value.code is LOCAL_STACK_FAILED
    with pytest.raises(SeamlineError, match="has '#' in its path") as caught:
        LocalStack(tmp_path / "a#b").up(silent)
    assert caught.value.code is INVALID_ARGUMENT


@pytest.mark.one_in(prove=3)
@pytest.mark.parametrize(
    ("says", "error", "remedy"),
    [
        (None, "JAVA_NOT_FOUND: there is no java on PATH", "Install Java 17 or 21"),
        ("11.0.2", "Java 11, which is too old", "Install Java 17 or 21"),
        ("25.0.1", "Java 25, which is newer than Spark 4.0 supports", "Install Java 17 or 21"),
    ],
)
def test_wrong_java_is_named(
    folder: pathlib.Path, tmp_path: pathlib.Path, says: str | None, error: str, remedy: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    if says is not None:
        (programs / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n")
        (programs / "java").chmod(0o755)
    code, _, errors = run(folder, "up", PATH=str(programs), JAVA_HOME="")
    assert code == 1
    first, second = errors.splitlines()
    assert error in first
    assert remedy in second


@pytest.mark.soak
def test_second_time_needs_no_network(
    local: LocalStack, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    local.up(silent)
    local.down(silent)
    nobody = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"
    code, _, errors = run(
        folder,
        "up",
        HOME=str(tmp_path / "empty"),
        JAVA_TOOL_OPTIONS=nobody,
        SEAMLINE_JARS=str(cache_directory(os.environ)),
    )
    assert code == 0, errors
    assert "fetching" not in errors
    assert local.status().ready
