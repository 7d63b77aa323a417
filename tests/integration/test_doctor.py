"""Goal: what is wrong with a cluster or a table is told apart from what looks the same to a client.

Method: a real broker with a listener for each way of getting in, one of which gives an address that
leads nowhere; tables of the embedded stack to which the worst has happened. The command runs in a
process of its own.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import programs
from support.certificates import Authority
from support.own_broker import running_broker
from support.ports import reserved_port
from support.stack import Stack

from seamline.connectors.config import ClusterConfig
from seamline.connectors.jvm import jars
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.kafka.writing import write
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.log import READ_COMMITTED

pytestmark = pytest.mark.integration

NAMES = ("kafka", "controller", "tls", "login", "away")
SETTINGS = """
listeners=PLAINTEXT://127.0.0.1:{kafka},TLS://127.0.0.1:{tls},LOGIN://127.0.0.1:{login},\
AWAY://127.0.0.1:{away},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{kafka},TLS://127.0.0.1:{tls},LOGIN://127.0.0.1:{login},\
AWAY://127.0.0.1:1
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_PLAINTEXT,AWAY:PLAINTEXT,\
CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required user_ann="right";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
"""

LOGIN = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "right",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A broker: the ports of its listeners, and the authority that signed its certificate."""
    folder = tmp_path_factory.mktemp("broker")
    ports = {name: reserved_port() for name in NAMES}
    authority = Authority(folder, "authority")
    pair = authority.sign("broker")
    keystore = folder / "keystore.pem"
    keystore.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    with running_broker(folder, ports, SETTINGS.format(**ports, keystore=keystore)):
        yield {**ports, "ca": str(authority.file)}


def examined(*arguments: str, **variables: str) -> list[dict[str, Any]]:
    command = programs.seamline("doctor", "--format", "json", *arguments)
    done = programs.run(command, variables)
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == any(f["status"] == "wrong" for f in found)
    return found


def lines(found: list[dict[str, Any]], subject: str) -> str:
    return "\n".join(f"{f['status']} {f['message']}" for f in found if f["about"] == subject)


@pytest.mark.soak
def test_a_cluster_that_cannot_be_used_says_why(
    broker: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    login = LOGIN
    tls = {"security.protocol": "ssl", "ssl.ca.location": broker["ca"]}
    clusters = {
        "good": ("kafka", {}),
        "good-tls": ("tls", tls),
        "good-login": ("login", login),
        "no-tls-there": ("kafka", tls),
        "tls-there": ("tls", {}),
        "unknown-authority": ("tls", {"security.protocol": "ssl"}),
        "wrong-password": ("login", {**login, "sasl.password": "wrong!!"}),
        "no-login-there": ("kafka", login),
        "login-there": ("login", {}),
        "away": ("away", {}),
    }
    file = tmp_path / "seamline.yaml"
    body = {
        "catalogs": {
            "lake": {
                "type": "sql",
                "uri": f"sqlite:///{tmp_path}/catalog.db",
                "warehouse": f"file://{tmp_path}/warehouse",
            }
        },
        "clusters": {
            name: {"bootstrap_servers": f"127.0.0.1:{broker[listener]}", "properties": own}
            for name, (listener, own) in clusters.items()
        },
    }
    file.write_text(json.dumps(body))
    found = examined("--config", str(file), "--timeout", "60s", PATH="/usr/bin:/bin")
    said = {name: lines(found, f"Cluster {name}") for name in clusters}
    for name in ("good", "good-tls", "good-login"):
        assert "speaks Kafka 4.1" in said[name], said[name]
        assert "ok the client can log in, and sees 1 broker" in said[name], said[name]
        assert "wrong" not in said[name]
    assert "ok the cluster's clock agrees with ours" in said["good"]
    assert "speaks Kafka's protocol without TLS" in said["no-tls-there"]
    assert "speaks TLS, but this client does not" in said["tls-there"]
    assert "is not trusted: " in said["unknown-authority"]
    assert "the login is refused: " in said["wrong-password"]
    assert "the login is refused: " in said["no-login-there"]
    assert "brokers accept connections, but do not answer this client" in said["login-there"]
    assert "which cannot be reached from here" in said["away"]
    remedies = {f["about"].removeprefix("Cluster "): f["remedy"] for f in found if f["remedy"]}
    assert "That port takes no login" in remedies["no-login-there"]
    assert "They may require a login" in remedies["login-there"]
    assert "advertised.listeners" in remedies["away"]


@pytest.mark.parametrize(
    ("listener", "properties", "message", "remedy"),
    [
        ("login", {**LOGIN, "sasl.password": "wrong!!"}, "the login is refused: ", "sasl.password"),
        ("kafka", LOGIN, "the login is refused: ", "That port takes no login"),
        ("tls", {"security.protocol": "ssl"}, "TLS fails: ", "ssl.ca.location"),
    ],
)
def test_reads_and_writes_say_what_the_broker_refuses(
    broker: dict[str, Any], listener: str, properties: dict[str, str], message: str, remedy: str
) -> None:
    servers = f"127.0.0.1:{broker[listener]}"
    config = ClusterConfig(name="c", bootstrap_servers=servers, properties=properties)
    record = NewRecord(None, b"{}")
    deadline = StatementDeadline(60)
    calls: list[Callable[[Cluster], object]] = [
        lambda cluster: KafkaLog(cluster).bounds(["t"], READ_COMMITTED, deadline),
        lambda cluster: KafkaLog(cluster).topics(deadline),
        lambda cluster: KafkaLog(cluster).append("t", [record]),
        lambda cluster: write(cluster, "t", [[record]], None, deadline),
    ]

    def failure(call: Callable[[Cluster], object]) -> SeamlineError:
        with contextlib.closing(Cluster(config)) as cluster:
            with pytest.raises(SeamlineError) as caught:
                call(cluster)
            return caught.value

    with concurrent.futures.ThreadPoolExecutor() as pool:
        failures = list(pool.map(failure, calls))
    for error in failures:
        assert error.code is KAFKA_UNAVAILABLE
        assert message in error.message
        assert remedy in error.hint


def test_tables_say_what_statements_over_them_would(stack: Stack, tmp_path: pathlib.Path) -> None:
    names = [f"doctored_{kind}" for kind in ("good", "again", "waiting")]
    good, again, waiting = names
    for name in names:
        stack.create_topic(name, 1)
        stack.create_table(name, "id bigint")
        stack.produce(name, [{"id": n} for n in range(3)])
    stack.move_boundary(good)
    stack.recreate_topic(again, 1)
    found = examined("--timeout", "60s", "--read-only", **stack.environment)
    said = lines(found, "Tables")
    assert f"ok lake.default.{good}: boundary and log agree, 0 offsets only in the log" in said
    assert f"wrong lake.default.{again}: topic {again} was recreated" in said
    assert f"warning lake.default.{waiting}: 3 offsets are only in the log" in said
    assert "ok Spark at " in lines(found, "Spark")


def test_jars_are_as_large_as_is_said() -> None:
    for wanted in (jars.KAFKA, jars.SPARK):
        folder = jars.fetch(wanted, jars.cache_directory(os.environ), print)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        assert wanted.megabytes == pytest.approx(size, rel=0.1)
