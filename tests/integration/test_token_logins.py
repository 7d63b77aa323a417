"""Goal: whatever talks to a cluster that takes only tokens lives on while its tokens expire.

Method: a real broker that verifies tokens with the identity provider's keys and ends connections
whose token has expired; tokens of a few seconds; an identity provider that goes away for longer.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.gateway import Gateway
from support.identity_provider import AUDIENCE, ISSUER, SECRET, IdentityProvider
from support.own_broker import running_broker
from support.ports import reserved_port
from support.waiting import wait_until

from seamline.connectors import supervision
from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import no_deadline
from seamline.gateway.doctor import clusters
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import start_spark
from seamline.seam.tiering import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.prove, pytest.mark.spark]

LIFE_S = 6
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
TEXT = """
catalogs:
  lake: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}
clusters:
  default:
    bootstrap_servers: 127.0.0.1:{port}
    properties: {{security.protocol: sasl_plaintext}}
    login:
      type: oidc
      url: {url}
      client_id: seam line
      client_secret: ${{file:{folder}/secret}}
      scope: kafka
spark: {{master: "local[2]"}}
limits: {{duckdb_threads: 1}}
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(LIFE_S) as made:
        yield made


@pytest.fixture(scope="module")
def config(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Config]:
    """The configuration of a gateway over a broker that takes tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    ports = {name: reserved_port() for name in ("kafka", "controller", "login")}
    keys = f"{provider.url}/keys"
    (folder / "secret").write_text(f"{SECRET}\n")
    file = folder / "seamline.yaml"
    file.write_text(TEXT.format(folder=folder, port=ports["login"], url=f"{provider.url}/token"))
    settings = SETTINGS.format(**ports, keys=keys)
    option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    with running_broker(folder, ports, settings, [option]):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['kafka']}", "log_level": 0})
        for future in admin.create_topics([NewTopic("t", 2)]).values():
            future.result(30)
        yield load(file, environment={}).config


@pytest.fixture(scope="module")
def gateway(config: Config) -> Iterator[Gateway]:
    with contextlib.closing(Gateway(config)) as made:
        made.rows("CREATE TABLE t (id bigint) WITH (topic = 't')")
        yield made


def count(gateway: Gateway) -> int:
    ((number,),) = gateway.rows("SELECT count(*) FROM t")
    return int(number)


def wait_for(gateway: Gateway, number: int) -> None:
    """Waits until the table has a number of rows; the marker of a transaction comes a bit later."""
    wait_until(lambda: count(gateway) == number, 30, f"{number} rows")


def insert(gateway: Gateway, number: int) -> None:
    gateway.rows(f"INSERT INTO t VALUES ({number})")


def tier(connections: Connections, *, with_spark: bool) -> int:
    """Tiers the table; gives the number of rows."""
    catalog, log = connections.catalog("lake"), connections.log("default")
    name = ("default", "t")
    if with_spark:
        cluster = connections.cluster("default").config
        table: TierTable = SparkTierTable(
            start_spark(connections), catalog, name, log, cluster, tasks_min=2
        )
    else:
        table = LocalTierTable(catalog, name, log)
    step = tier_once(table, log, no_deadline(), records_max=1000)
    assert step.outcome is Outcome.ROWS
    return step.lag


def test_statements_and_tiering_outlive_tokens(
    gateway: Gateway, config: Config, provider: IdentityProvider
) -> None:
    with contextlib.closing(Connections(config)) as tierer:
        number = 0
        for with_spark in (False, True):
            before = len(provider.issued)
            while len(provider.issued) < before + 2:
                insert(gateway, number)
                number += 1
                wait_for(gateway, number)
            assert tier(tierer, with_spark=with_spark) == 0
            wait_for(gateway, number)
        ids = [n for (n,) in gateway.rows("SELECT id FROM t ORDER BY id")]
        assert ids == list(range(number))


def test_an_identity_provider_that_goes_away(gateway: Gateway, provider: IdentityProvider) -> None:
    first = count(gateway)
    written: list[int] = []
    before = len(provider.requests)
    provider.is_away = True
    cancel = supervision.later(2 * LIFE_S, "test", lambda: setattr(provider, "is_away", False))
    for number in itertools.count(first):
        was_away = provider.is_away
        with contextlib.suppress(SeamlineError):
            insert(gateway, number)
            written.append(number)
            if not was_away:
                break
    cancel()
    assert len(provider.requests) > before + 2
    wait_for(gateway, first + len(written))
    rows = gateway.rows(f"SELECT id FROM t WHERE id >= {first} ORDER BY id")
    assert [number for (number,) in rows] == written


def test_the_doctor_tells_who_refuses(config: Config, provider: IdentityProvider) -> None:
    good = config.clusters["default"]
    findings = list(clusters.look(good, 20))
    assert any("the client can log in" in finding.text for finding in findings), findings
