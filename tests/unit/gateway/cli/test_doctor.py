"""Goal: `seamline doctor` says what is wrong and what to do, in bounded time, and no secret.

Method: the command in this process, over configurations that are wrong in known ways; what they
name is nothing, a listener that never answers, or a gateway. `tests/integration/test_doctor.py` has
real brokers.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from support import offline
from support.certificates import Authority
from support.gateway import Gateway
from support.registry import Registry

from seamline.cli import root
from seamline.connectors.config import ClusterConfig, SchemaRegistryConfig
from seamline.connectors.kafka import probing
from seamline.dbapi.version import VERSION
from seamline.gateway.doctor import certificates, clusters, resources


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["doctor", *arguments], prog_name="seamline")


def examined(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what was found."""
    done = doctor("--format", "json", *arguments)
    body = json.loads(done.stdout)
    assert body["version"] == VERSION
    found: list[dict[str, Any]] = body["findings"]
    levels = [finding["status"] for finding in found]
    assert body["summary"] == {level: levels.count(level) for level in body["summary"]}
    assert sum(body["summary"].values()) == len(found)
    return done.exit_code, found


def about(found: list[dict[str, Any]], subject: str) -> list[tuple[str, str]]:
    return [(f["status"], f["message"]) for f in found if f["about"] == subject]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where connections are taken, and nothing is ever said."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_a_registry_is_told_from_what_else_answers_there() -> None:
    with Registry() as registry:
        config = ClusterConfig(
            name="c",
            bootstrap_servers="h:1",
            schema_registry=SchemaRegistryConfig(url=registry.url),
        )
        (good,) = clusters.schema_registry(config, 5.0)
        assert (good.level.value, "answers" in good.text) == ("ok", True)
        registry.of_nothing = b"<html>nothing here</html>"
        (wrong,) = clusters.schema_registry(config, 5.0)
    assert (wrong.level.value, "HTTP 404" in wrong.text) == ("wrong", True)
    assert "url of schema_registry" in wrong.remedy


def test_what_is_away_is_named_and_what_is_there_is_tried(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    code, found = examined("--config", str(file), "--set", "http.port=0")
    assert code == 1
    assert about(found, "Cluster default") == [("wrong", "nothing listens on 127.0.0.1:1")]
    assert about(found, "Catalog lake") == [
        ("ok", "it answers, and lists 0 schemas without a table"),
        ("ok", "it may be written to: a schema was created and dropped"),
        ("ok", f"warehouse file://{tmp_path}/warehouse: a file was written, read and removed"),
    ]
    assert about(found, "Configuration") == [("ok", f"{file} is valid, plus 1 from flag")]
    assert about(found, "Tables")[0][0] == "skipped"
    assert all(f["remedy"] for f in found if f["status"] in {"warning", "wrong"})
    assert list((tmp_path / "warehouse").iterdir()) == []


def test_nothing_is_written_where_nothing_may_be(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    _, found = examined("--config", str(file), "--read-only")
    assert ("skipped", "whether it may be written to: --read-only") in about(found, "Catalog lake")
    assert not (tmp_path / "warehouse").exists()


def test_without_a_configuration_the_machine_is_looked_at(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEAMLINE_HOME", str(tmp_path))
    code, found = examined()
    assert code == 1
    assert about(found, "Configuration")[0] == ("wrong", "there is no configuration file")
    assert ("ok", f"Seamline {VERSION}") in about(found, "Installation")
    assert about(found, "Java and jars")


def test_every_wrong_value_is_a_line(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path, "http: {port: 99999}\nnonsense: 1\n")
    code, found = examined("--config", str(file))
    assert code == 1
    lines = [text for status, text in about(found, "Configuration") if status == "wrong"]
    assert len(lines) == 2
    assert any(text.startswith("http.port") for text in lines)
    assert any(text.startswith("nonsense is not a setting") for text in lines)


def test_memory_that_does_not_suffice_is_named() -> None:
    budgets = {"the gateway": 1 << 30, "Spark": resources.spark_bytes("2g")}
    assert resources.memory(4 << 30, budgets).level.value == "ok"
    short = resources.memory(2 << 30, budgets)
    assert (short.level.value, "spark.driver_memory" in short.remedy) == ("warning", True)
    assert resources.spark_bytes("1536M") == 1536 << 20
    assert resources.open_files(256).remedy.startswith("ulimit -n")


def test_a_proxy_in_between_is_named_without_its_password() -> None:
    urls = {"Catalog near": "http://127.0.0.1:8181", "Catalog far": "https://lake.example"}
    proxy = {"http_proxy": "http://ann:hunter22@proxy.example:3128", "no_proxy": "intern.example"}
    environment = {**proxy, "HTTPS_PROXY": proxy["http_proxy"]}
    near, far = resources.proxies(urls, environment)
    assert (near.level.value, near.remedy) == (
        "warning",
        "export no_proxy=intern.example,127.0.0.1",
    )
    assert (far.level.value, far.text) == (
        "ok",
        "Catalog far at lake.example is asked through the proxy proxy.example",
    )
    assert [*resources.proxies(urls, {**environment, "no_proxy": "127.0.0.1,.example"})] == []


def test_certificates_that_end_are_named(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.sign("gateway")
    ends = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc
    files = {"http.tls.certificate": str(pair.certificate), "http.tls.client_ca": None}
    days = {-30: "ok", -3: "warning", 1: "wrong"}
    for distance, level in days.items():
        (finding,) = certificates.look(files, ends + datetime.timedelta(days=distance))
        assert (finding.level.value, str(pair.certificate) in finding.text) == (level, True)


SECRETS = ("g3heim-password", "t0ken-of-spark", "registry-pw", "hunter22hunter")


def test_no_secret_is_shown(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seamline.yaml"
    file.write_text(
        f"""
catalogs:
  away: {{type: rest, uri: "http://ann:{SECRETS[0]}@127.0.0.1:1/"}}
  sql: {{type: sql, uri: "postgresql+psycopg2://ann:{SECRETS[0]}@127.0.0.1:1/x", warehouse: "file:///x"}}
clusters:
  kafka:
    bootstrap_servers: "127.0.0.1:1"
    properties: {{security.protocol: sasl_plaintext, sasl.password: {SECRETS[3]}}}
    schema_registry: {{url: "http://127.0.0.1:1", username: a, password: {SECRETS[2]}}}
spark: {{remote: "sc://127.0.0.1:1/;token={SECRETS[1]}"}}
http: {{port: 0}}
"""
    )
    for form in ("text", "json"):
        done = doctor("--config", str(file), "--format", form)
        assert done.exit_code == 1
        assert "CATALOG_UNAVAILABLE" in done.output or form == "text"
        assert not [secret for secret in SECRETS if secret in done.output]


def test_what_never_answers_takes_no_longer_than_it_may(
    tmp_path: pathlib.Path, silent_port: int
) -> None:
    file = offline.write(tmp_path, f"  other: {{bootstrap_servers: '127.0.0.1:{silent_port}'}}\n")
    text = file.read_text().replace("limits:\n", "").replace("  duckdb_threads: 1\n", "")
    text = text.replace("  memory_bytes: 256MiB\n", "")
    text = text.replace(
        "clusters:", f"  rest: {{type: rest, uri: 'http://127.0.0.1:{silent_port}'}}\nclusters:"
    )
    file.write_text(text)
    began = time.monotonic()
    code, found = examined("--config", str(file), "--timeout", "1s")
    assert time.monotonic() - began < 30  # a catalog may be waited for twice as long
    assert code == 1
    assert about(found, "Catalog rest") == [("wrong", "no answer within 1 s")]


@pytest.mark.prove
def test_a_gateway_is_recognised_and_is_no_broker(
    tmp_path: pathlib.Path, offline_gateway: Gateway, silent_port: int
) -> None:
    port = offline_gateway.url.rpartition(":")[2]
    file = offline.write(tmp_path, f"http: {{port: {port}}}\n")
    servers = f"--set=clusters.default.bootstrap_servers=127.0.0.1:{port}"
    _, found = examined("--config", str(file), servers)
    running = f"a gateway answers at http://127.0.0.1:{port}, of this version"
    assert ("ok", running) in about(found, "Disk, port and gateway")
    ((status, text),) = about(found, "Cluster default")
    assert status == "wrong"
    assert text.startswith(f"what listens on 127.0.0.1:{port} ")
    assert "broker" in text
    file.write_text(file.read_text().replace(f"port: {port}", f"port: {silent_port}"))
    _, found = examined("--config", str(file))
    assert any(
        text.startswith(f"port {silent_port} of 127.0.0.1 cannot be used")
        for _, text in about(found, "Disk, port and gateway")
    )


def test_people_see_lines_that_fit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = doctor("--config", str(offline.write(tmp_path)), "--read-only")
    assert done.exit_code == 1
    assert "Cluster default\n  wrong   nothing listens on 127.0.0.1:1\n" in done.stdout
    assert "          → Start the broker, or correct the port.\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 wrong, ")
    long = [line for line in done.stdout.splitlines() if len(line) > 60 and "/" not in line]
    assert not long


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("a:1,b", [("a", 1), ("b", 9092)]),
        (" SSL://a.b:93 , [::1]:9 ", [("a.b", 93), ("::1", 9)]),
    ],
)
def test_addresses_are_read_as_clients_read_them(
    servers: str, expected: list[tuple[str, int]]
) -> None:
    assert probing.addresses(servers) == expected
