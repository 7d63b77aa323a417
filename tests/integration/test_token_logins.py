"""Goal: whatever lives by tokens lives on while they expire and nobody issues new ones.

Method: a real broker that verifies tokens with the identity provider's keys and ends connections
whose token has expired; a schema registry and a REST catalog that check the token of each request;
tokens of a short life, and an identity provider that is away for longer. A gateway follows two
tables and writes to them; `seamline tier` moves one on Spark, the other in its process.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support import programs
from support.gateway import Gateway
from support.guarded_catalog import GuardedCatalog
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from support.own_broker import running_broker
from support.ports import reserved_port
from support.registry import Registry
from support.waiting import wait_until

from seamline.connectors import supervision
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    KAFKA_UNAVAILABLE,
    SCHEMA_REGISTRY_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway.config.load import load
from seamline.gateway.doctor import clusters

pytestmark = [pytest.mark.integration, pytest.mark.prove, pytest.mark.spark]

_OF_KAFKA = "org.apache.kafka.common.security.oauthbearer"
SETTINGS = f"""
listeners=PLAINTEXT://127.0.0.1:{{kafka}},LOGIN://127.0.0.1:{{login}},\
CONTROLLER://127.0.0.1:{{controller}}
advertised.listeners=PLAINTEXT://127.0.0.1:{{kafka}},LOGIN://127.0.0.1:{{login}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=OAUTHBEARER
listener.name.login.oauthbearer.sasl.jaas.config={_OF_KAFKA}.OAuthBearerLoginModule required;
listener.name.login.oauthbearer.sasl.server.callback.handler.class=\
{_OF_KAFKA}.OAuthBearerValidatorCallbackHandler
listener.name.login.oauthbearer.connections.max.reauth.ms=3600000
sasl.oauthbearer.jwks.endpoint.url={{keys}}
sasl.oauthbearer.expected.audience={AUDIENCE}
sasl.oauthbearer.expected.issuer={ISSUER}
sasl.oauthbearer.clock.skew.seconds=0
"""
TABLES = {"a": "spark", "b": "local"}
"""The tables, and what tiers each of them."""
_OUTAGES = {KAFKA_UNAVAILABLE, CATALOG_UNAVAILABLE, SCHEMA_REGISTRY_UNAVAILABLE}
_NO_TOKEN = "the login oidc has no token"
_PATIENCE_S = 180.0
_LIFE_S = 60
_AWAY_S = 120


class World:
    """What takes tokens, and what was written to its two tables."""

    def __init__(self, folder: pathlib.Path, provider: IdentityProvider) -> None:
        self.folder = folder
        self.provider = provider
        self.ports = {name: reserved_port() for name in ("kafka", "controller", "login")}
        self.registry = Registry()
        self.registry.accepts = provider.is_valid
        self.catalog = GuardedCatalog(folder, provider.is_valid)
        self.file = folder / "seamline.yaml"
        self.written = 0
        self.fastest_s = math.inf
        self.unknown: set[int] = set()
        self.errors: list[SeamlineError] = []
        self.tierers: list[subprocess.Popen[str]] = []
        self.file.write_text(json.dumps(self._config()))

    def _config(self) -> dict[str, Any]:
        def login(scope: str) -> dict[str, str]:
            return {**self.provider.login, "scope": scope}

        lake = {
            "type": "rest",
            "uri": self.catalog.url,
            "locations": [(self.folder / "warehouse").as_uri()],
            "login": login("catalog"),
        }
        cluster = {
            "bootstrap_servers": f"127.0.0.1:{self.ports['login']}",
            "properties": {"security.protocol": "sasl_plaintext"},
            "login": login("kafka"),
            "schema_registry": {"url": self.registry.url, "login": login("registry")},
        }
        return {
            "catalogs": {"lake": lake},
            "clusters": {"default": cluster},
            "spark": {"master": "local[2]"},
            "limits": {"duckdb_threads": 1},
            "state_directory": str(self.folder / "state"),
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Gateway]:
        """The broker with the topics, and a gateway with the tables."""
        keys = f"{self.provider.url}/keys"
        settings = SETTINGS.format(**self.ports, keys=keys)
        option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
        plain = {"bootstrap.servers": f"127.0.0.1:{self.ports['kafka']}", "log_level": 0}
        config = load(self.file, environment={}).config
        with (
            self.registry,
            self.catalog,
            running_broker(self.folder, self.ports, settings, [option]),
        ):
            admin = AdminClient(plain)
            topics = [NewTopic(name, 2) for name in TABLES]
            for future in admin.create_topics(topics).values():
                future.result(30)
            self.plain = Producer(plain)
            with contextlib.closing(Gateway(config)) as self.gateway:
                for name in TABLES:
                    self.registry.register(f"{name}-value", _schema("First"))
                    self.gateway.rows(
                        f"CREATE TABLE {name} (id bigint) WITH (topic = '{name}', format = 'avro')"
                    )
                yield self.gateway

    @contextlib.contextmanager
    def tiering(self) -> Iterator[None]:
        """`seamline tier` for both tables."""
        with contextlib.ExitStack() as stack:
            for name, engine in TABLES.items():
                words = ("tier", name, "--engine", engine, "--interval", "1s")
                command = programs.seamline(*words, "--config", str(self.file))
                log = self.folder / f"{name}.log"
                started = programs.running(command, dict(os.environ), log)
                self.tierers.append(stack.enter_context(started))
            yield

    def insert(self) -> bool:
        """Writes the next number to both tables; returns whether that succeeded."""
        number = self.written
        self.written += 1
        for name in TABLES:
            began = time.monotonic()
            try:
                self.gateway.rows(f"INSERT INTO {name} VALUES ({number})", timeout_s=30)
                self.fastest_s = min(self.fastest_s, time.monotonic() - began)
            except SeamlineError as error:
                self.errors.append(error)
                self.unknown.add(number)
        return number not in self.unknown

    def send_of_new_schema(self) -> None:
        """Writes the next number as a record whose schema nobody has read yet."""
        for name in TABLES:
            schema = _schema("Second")
            value = io.BytesIO()
            fastavro.schemaless_writer(value, json.loads(schema), {"id": self.written})
            schema_id = self.registry.register(f"{name}-value", schema)
            self.plain.produce(name, b"\0" + schema_id.to_bytes(4, "big") + value.getvalue())
        assert self.plain.flush(30) == 0
        self.written += 1

    def agrees(self, name: str, engine: str = "auto") -> bool:
        """Whether each number is there once; those whose INSERT failed may be missing."""
        try:
            ids = [n for (n,) in self.gateway.rows(f"SELECT id FROM {name} ORDER BY id", engine)]
        except SeamlineError as error:
            self.errors.append(error)
            return False
        assert len(ids) == len(set(ids))
        return set(range(self.written)) - self.unknown <= set(ids) <= set(range(self.written))

    def is_cold(self, name: str) -> bool:
        """Whether tiering has moved all rows."""
        assert [tierer.poll() for tierer in self.tierers] == [None, None]
        statement = self.gateway.statement(f"SELECT count(*) FROM {name}")
        if statement.error is not None:
            self.errors.append(statement.error)
            return False
        (table,) = statement.receipt["tables"]
        return bool(table["rows_hot"] == 0)

    def catch_up(self) -> None:
        """Waits until everything reads and tiers what was written."""
        for name in TABLES:
            wait_until(lambda: self.agrees(name), _PATIENCE_S, f"all rows of {name}")  # noqa: B023
            wait_until(lambda: self.is_cold(name), _PATIENCE_S, f"tiering of {name}")  # noqa: B023
            assert self.agrees(name)
        assert self.agrees("a", "spark")


def _schema(name: str) -> str:
    fields = [{"name": "id", "type": "long"}]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def test_whatever_lives_by_tokens_outlives_them(tmp_path: pathlib.Path) -> None:
    with IdentityProvider(_LIFE_S) as provider:
        world = World(tmp_path, provider)
        with world.running(), world.tiering():
            ends_at = time.monotonic() + _LIFE_S
            world.insert()
            world.catch_up()
            while time.monotonic() < ends_at:
                world.insert()
            assert not world.errors
            assert world.fastest_s < 1  # for which a new client with a login sleeps
            provider.is_away = True
            is_over = threading.Event()
            supervision.later(_AWAY_S, "test", is_over.set)
            while not is_over.wait(0.5):
                world.insert()
                world.agrees("a")
            world.send_of_new_schema()
            assert [e.message for e in world.errors if _NO_TOKEN not in e.message] == []
            assert KAFKA_UNAVAILABLE in {error.code for error in world.errors}
            provider.is_away = False
            wait_until(world.insert, _PATIENCE_S, "an INSERT")
            world.catch_up()
            assert {error.code for error in world.errors} <= _OUTAGES
            cluster = load(world.file, environment={}).config.clusters["default"]
            findings = list(clusters.look(cluster, 20))
            assert any("the client can log in" in finding.text for finding in findings), findings
