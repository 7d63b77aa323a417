"""Goal: a Spark that we start obeys nobody else on this machine, and shows nobody its secrets.

Method: servers and pipelines are started with canaries wherever the configuration takes a secret.
Whatever is started by them is watched from its first moment on: no command line and no environment
may hold a canary or the token, and no file that others can read. Then the server is asked by
clients that do not know the token, on every port it listens on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import secrets
import shlex
import socket
import stat
import struct
import threading
from collections.abc import Iterator, Mapping

import grpc
import psutil
import pytest
import yaml
from click.testing import CliRunner
from support import offline, programs
from support.stack import Stack

from seamline.commands.spark_conf import spark_conf
from seamline.connectors.spark import submission
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.sessions import connect
from seamline.connectors.spark.settings import SparkSettings, environment
from seamline.gateway.app.spark import settings
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load

CANARY = f"canary{secrets.token_hex(8)}"
CONF = {
    "spark.sql.catalog.lake.s3.secret-access-key": CANARY,
    "spark.sql.catalog.lake.note": f"{CANARY} with a space, a =, a \\, a # and an ü",
    "spark.driver.extraJavaOptions": f'"-Dsome.password={CANARY} \\" x" -Dother.password={CANARY}',
}


class Watch:
    """Watches whatever this process has started until it is closed."""

    def __init__(self) -> None:
        self.command_lines: set[str] = set()
        self.environments: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def holds(self, secret: str) -> list[str]:
        """Where the secret was seen."""
        return [text for text in self.command_lines | self.environments if secret in text]

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    self.command_lines.add(" ".join(process.cmdline()))
                    self.environments.add(repr(sorted(process.environ().items())))


def readable_by_others(folder: pathlib.Path, secret: str) -> list[pathlib.Path]:
    """Files with the secret in them that are not their owner's alone."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077 and secret.encode() in path.read_bytes()
    ]


@dataclasses.dataclass
class Running:
    """A server of ours, started with canaries, and what was seen of it meanwhile."""

    server: ConnectServer
    url: str
    watch: Watch
    folder: pathlib.Path

    @property
    def port(self) -> int:
        return self.server._port

    @property
    def token(self) -> str:
        return self.server._token


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("spark-server")
    config = offline.config(folder, tokens__secret=f"signs-{CANARY}")
    made = settings(config)
    made = dataclasses.replace(made, conf=CONF)
    before = dict(os.environ)
    os.environ.update({"SEAMLINE_SOMETHING": CANARY, "OF_THE_GATEWAY": f"signs-{CANARY}"})
    try:
        with contextlib.closing(ConnectServer(made)) as server:
            with contextlib.closing(Watch()) as watch:
                url = server.url()
            yield Running(server, url, watch, folder)
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.mark.spark
def test_secrets_are_on_no_command_line(running: Running) -> None:
    assert any("SparkSubmit" in line for line in running.watch.command_lines), "it was watched"
    assert running.watch.holds(CANARY) == []
    assert running.watch.holds(running.token) == []
    left = [path for path in running.folder.rglob("*.properties") if "kafka" not in path.parts]
    assert left == []
    assert list(running.folder.rglob("java.options")) == []
    for secret in (CANARY, running.token):
        assert readable_by_others(running.folder, secret) == []


@pytest.mark.spark
def test_the_settings_arrive_all_the_same(running: Running) -> None:
    session = connect(running.url)
    try:
        note = "spark.sql.catalog.lake.note"
        assert session.conf.get(note) == CONF[note]
        assert session.conf.get("spark.sql.shuffle.partitions") == str(os.cpu_count())
    finally:
        session.stop()


def refused(url: str) -> None:
    """The server runs no statement for such a client, which is as PySpark makes it."""
    session = connect(url, attempts=0)
    try:
        with pytest.raises(Exception, match=r"(?i)token|authenti"):
            session.sql("SELECT 1").collect()
    finally:
        session.client.close()


@pytest.mark.spark
def test_a_client_without_the_token_is_refused(running: Running) -> None:
    for url in (
        f"sc://127.0.0.1:{running.port}",
        f"sc://localhost:{running.port}",
        f"sc://localhost:{running.port}/;token={running.token}x",
        f"sc://localhost:{running.port}/;token={running.token[:-1]}",
        f"sc://localhost:{running.port}/;token=",
        f"sc://localhost:{running.port}/;token={running.token.swapcase()}",
    ):
        refused(url)
    session = connect(running.url)
    assert session.sql("SELECT 1").collect()[0][0] == 1
    session.stop()


@pytest.mark.spark
def test_every_call_of_the_server_wants_the_token(running: Running) -> None:
    """Not only statements: each method that the protocol has, and those of gRPC itself."""
    from pyspark.sql.connect.proto import base_pb2_grpc

    with grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        methods = [name for name in vars(stub) if not name.startswith("_")]
        assert len(methods) >= 9
        paths = [f"/spark.connect.SparkConnectService/{name}" for name in methods]
        paths.append("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        for path in paths:
            call = channel.stream_stream(path)
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([b""]), timeout=20))
            assert caught.value.code() in {
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.UNIMPLEMENTED,
            }, path


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            connections = one.net_connections("tcp")
            found |= {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}
    return sorted((address[0], address[1]) for address in found)


@pytest.mark.spark
def test_no_other_port_is_open_to_everybody(running: Running) -> None:
    """The ports between Spark's parts listen on loopback, and require Spark's own secret first."""
    assert running.server._keeper is not None
    ports = listening(psutil.Process(running.server._keeper.pid))
    assert len(ports) >= 2
    assert {ip.removeprefix("::ffff:") for ip, _ in ports} == {"127.0.0.1"}
    for _, port in ports:
        if port != running.port:
            assert "Expected SaslMessage" in answer_of_spark(port), port


def answer_of_spark(port: int) -> str:
    """What one of Spark's ports answers to an unauthenticated request."""
    body = b"\x00" * 16
    request = struct.pack(">BqI", 3, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        return connection.recv(65536).decode("latin-1")


@pytest.mark.prove
def test_the_token_goes_to_our_own_loopback_only(running: Running) -> None:
    """A name may stand for several addresses, and somebody else may listen on another of them."""
    own = connect(running.url)
    assert own.client._builder.endpoint == f"127.0.0.1:{running.port}"
    own.client.close()
    for host in ("spark.example", "localhost"):
        other = connect(f"sc://{host}:15002/;use_ssl=true;token=t")
        assert other.client._builder.endpoint == f"{host}:15002"
        other.client.close()


# --- What is handed over -------------------------------------------------------------------------


def parsed(text: str) -> Mapping[str, str]:
    """A property file as Java reads it: this much of its grammar is written."""
    unescape = re.compile(r"\\u([0-9a-f]{4})")
    pairs = (line.split("=", 1) for line in text.splitlines())
    utf16 = {
        unescape.sub(lambda m: chr(int(m[1], 16)), k): unescape.sub(lambda m: chr(int(m[1], 16)), v)
        for k, v in pairs
    }
    return {
        k.encode("utf-16", "surrogatepass").decode("utf-16"): v.encode(
            "utf-16", "surrogatepass"
        ).decode("utf-16")
        for k, v in utf16.items()
    }


def test_files_hold_what_was_handed_over_and_are_private(tmp_path: pathlib.Path) -> None:
    conf = {
        "spark.a": "plain",
        "spark.b b": " = : # ! \\ \n \t ${env:HOME} '\" ",
        "spark.ü": "日本 😀 \x01",
        "spark.driver.extraJavaOptions": "-Da='b c' -Dd=\\\\e",
    }
    old = os.umask(0)
    try:
        given = submission.options(conf, tmp_path)
    finally:
        os.umask(old)
    assert given == [
        "--properties-file",
        str(tmp_path / "spark.properties"),
        "--load-spark-defaults",
    ]
    found = parsed((tmp_path / "spark.properties").read_text())
    assert found == {
        **conf,
        "spark.driver.extraJavaOptions": f'"@{tmp_path}/java.options"',
    }
    assert (tmp_path / "java.options").read_text() == '"-Da=b c"\n"-Dd=\\\\e"\n'
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_sparks_environment_has_none_of_our_settings() -> None:
    before = dict(os.environ)
    os.environ.update({"SEAMLINE_TOKENS__SECRET": CANARY, "ELSEWHERE": CANARY, "AWS_PROFILE": "p"})
    try:
        assert CANARY not in environment({CANARY}).values()
        assert environment({CANARY})["AWS_PROFILE"] == "p"
        assert "SEAMLINE_TOKENS__SECRET" not in environment()
    finally:
        os.environ.clear()
        os.environ.update(before)


# --- The pipeline, whose Spark runs in its own process -------------------------------------------


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_a_pipeline_puts_no_secret_on_a_command_line(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": i} for i in range(10)])
    tree = yaml.safe_load(stack.file.read_text())
    tree["spark"] = {"conf": CONF, "master": "local[2]", "driver_memory": "700m"}
    tree["state_directory"] = str(tmp_path / "state")
    tree["tokens"] = {"secret": f"signs-{CANARY}"}
    file = tmp_path / FILE_NAME
    file.write_text(yaml.safe_dump(tree))
    file.chmod(0o600)
    assert load(file, environment={}).config.spark.remote is None
    variables = {k: v for k, v in stack.environment.items() if not k.startswith("SEAMLINE_")}
    variables |= {"SEAMLINE_CONFIG": str(file), "SIGNS": f"signs-{CANARY}"}
    log = tmp_path / "tier.log"
    with (
        contextlib.closing(Watch()) as watch,
        programs.running(programs.seamline("tier", name, "--once"), variables, log) as process,
    ):
        assert process.wait(300) == 0, log.read_text()
    assert stack.load(name).state.current_snapshot_id is not None
    assert [line for line in watch.command_lines if "pyspark-shell" in line and "java" in line]
    assert [line for line in watch.command_lines if CANARY in line] == []
    spark = [text for text in watch.environments if "_PYSPARK_DRIVER_CONN_INFO_PATH" in text]
    assert spark
    assert [text for text in spark if CANARY in text] == []
    assert readable_by_others(tmp_path, CANARY) == []
    assert list(tmp_path.rglob("spark.properties")) == []


# --- What is printed for others ------------------------------------------------------------------


def test_the_printed_command_shows_no_token() -> None:
    """Everybody reads commands in the list of processes; Iceberg takes the variable's value."""
    printed = CliRunner().invoke(spark_conf, ["--form", "shell", "--access-token", CANARY])
    assert CANARY not in printed.stdout
    words = shlex.split(printed.stdout.replace("\\\n", " "))
    assert "spark.sql.catalog.live.token=env:SEAMLINE_TOKEN" in words
    assert "SEAMLINE_TOKEN" in printed.stderr


def test_settings_have_a_place_for_what_is_withheld(tmp_path: pathlib.Path) -> None:
    config = offline.config(tmp_path, tokens__secret=CANARY)
    made: SparkSettings = settings(config)
    assert made.withheld == {CANARY}
