"""Goal: what needs a REST catalog that takes only tokens lives on when they expire or are revoked.

Method: a gateway, and tiering, over a catalog on loopback that checks each request's token; a token
endpoint that goes away; a clock that the test moves for the life of tokens.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import json
import pathlib
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from pyiceberg.exceptions import AuthorizationExpiredError, UnauthorizedError
from support import offline
from support.gateway import Gateway
from support.guarded_catalog import CREDENTIAL, GuardedCatalog
from support.identity_provider import SECRET, IdentityProvider

from seamline.connectors.config import CatalogConfig, LoginConfig
from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.logins import token_source
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import CATALOG_ACCESS_DENIED, CATALOG_UNAVAILABLE, SeamlineError
from seamline.gateway.tiering.step import tier_once

LIFE_S = 600


class World:
    """A gateway over a catalog that takes tokens of an identity provider, and a log in memory."""

    def __init__(self, folder: pathlib.Path, provider: IdentityProvider) -> None:
        self.now = time.time()
        self.provider = provider
        self.revoked: set[str] = set()
        self.catalog = GuardedCatalog(
            folder, lambda token: token in provider.issued and token not in self.revoked
        )
        login = LoginConfig(**provider.login)
        token_source(login, clock=lambda: self.now)
        plain = offline.config(folder)
        lake = CatalogConfig(
            name="lake",
            type="rest",
            uri=self.catalog.url,
            locations=((folder / "warehouse").as_uri(),),
            login=login,
        )
        other = plain.catalogs["lake"].model_copy(update={"name": "other"})
        catalogs = {"lake": lake, "other": other}
        changed = {"catalogs": catalogs, "default_catalog": "lake"}
        config = plain.model_copy(update=changed)
        self._connections = offline.MemoryConnections(config)
        self._config = config
        self._log = self._connections.memory
        self.iceberg = self._connections.catalog("lake")
        self.count = 0

    @functools.cached_property
    def gateway(self) -> Gateway:
        """The gateway, with its table."""
        self._log.create_topic("t", 1)
        made = Gateway(self._config, connections=self._connections)
        made.rows("CREATE TABLE t (id bigint) WITH (topic = 't')")
        return made

    def close(self) -> None:
        """Ends the gateway, if there is one."""
        if "gateway" in self.__dict__:
            self.gateway.close()

    def step(self) -> None:
        """A record is written, read hot, tiered, and read cold."""
        tiered = LocalTierTable(self.iceberg, ("default", "t"), self._log)
        self._log.produce("t", 0, json.dumps({"id": self.count}).encode())
        self.count += 1
        self.read()
        tier_once(tiered, self._log, NoDeadline(), records_max=1_000)
        self.read()

    def read(self) -> None:
        """All rows are there, once."""
        rows = self.gateway.rows("SELECT id FROM t ORDER BY id")
        assert rows == [(number,) for number in range(self.count)]

    def is_catalog_away(self) -> bool:
        """Whether monitoring sees that the catalog cannot be used."""
        return self.iceberg.dependency.outage is not None

    def refused(self) -> SeamlineError:
        """The error of a statement that must fail."""
        with pytest.raises(SeamlineError) as caught:
            self.read()
        return caught.value


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    with IdentityProvider(LIFE_S) as provider:
        made = World(tmp_path, provider)
        with made.catalog, contextlib.closing(made):
            yield made


def test_tokens_expire_and_their_endpoint_is_away_for_two_minutes(world: World) -> None:
    provider = world.provider
    _ = world.gateway
    assert len(provider.issued) == 1
    world.now += 450
    provider.is_away = True
    tries = len(provider.requests)
    for _ in range(2):
        world.step()
        world.now += 60
    assert set(world.catalog.tokens) == set(provider.issued)
    assert 1 <= len(provider.requests) - tries <= 4
    world.now += 60
    error = world.refused()
    assert error.code is CATALOG_UNAVAILABLE
    assert "the login oidc has no token" in error.message
    assert "catalogs.lake.login" in (error.hint or "")
    assert world.is_catalog_away()
    assert world.gateway.rows("SHOW SCHEMAS FROM other")
    provider.is_away, provider.life_s = False, 10 * LIFE_S
    world.now += 10
    world.read()
    assert not world.is_catalog_away()
    assert len(provider.issued) == 2


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_is_revoked_is_replaced_once(world: World, status: int) -> None:
    provider = world.provider
    world.catalog.refusal = status
    names = world.iceberg.pyiceberg.list_namespaces
    world.now += 10
    world.revoked.update(provider.issued)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: names(), range(16))) == [[]] * 16
    assert len(provider.issued) == 2
    world.now += 10
    world.revoked.update(provider.issued)
    provider.is_away = True
    with pytest.raises(SeamlineError, match="the login oidc has no token"):
        names()
    provider.is_away = False
    world.now += 10
    assert names() == []
    world.revoked.update(provider.issued)  # what was made just now, so another would be, too
    with pytest.raises(UnauthorizedError if status == 401 else AuthorizationExpiredError):
        names()
    assert len(provider.issued) == 3


def test_commits_go_on_when_a_token_is_revoked(world: World) -> None:
    _ = world.gateway
    for number in range(2):
        world.now += 10
        world.revoked.update(world.provider.issued)
        world.step()
        assert len(world.provider.issued) == number + 2


def test_a_login_that_is_refused(world: World) -> None:
    login = LoginConfig(**{**world.provider.login, "client_secret": "hunter2"})
    config = CatalogConfig(name="lake", type="rest", uri=world.catalog.url, login=login)
    with pytest.raises(SeamlineError) as caught:
        _ = IcebergCatalog(config).pyiceberg
    assert caught.value.code is CATALOG_ACCESS_DENIED
    assert "HTTP 401: invalid_client" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert SECRET not in repr(world.iceberg.config)


def test_a_credential_of_pyiceberg_has_one_token_for_all(tmp_path: pathlib.Path) -> None:
    with GuardedCatalog(tmp_path) as server:
        catalog = IcebergCatalog(_config(server, credential=CREDENTIAL, audience="a"))
        catalog.pyiceberg.create_namespace("n")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: catalog.pyiceberg.list_namespaces(), range(8)))
        assert found == [[("n",)]] * 8
        assert set(server.tokens) == {"own 1"}
        (form,) = server.forms
        assert form == {
            "grant_type": "client_credentials",
            "client_id": "id",
            "client_secret": "hunter2:x",
            "scope": "catalog",
            "audience": "a",
        }
        with pytest.raises(SeamlineError) as caught:
            _ = IcebergCatalog(_config(server, credential="id:hunter3")).pyiceberg
        assert caught.value.code is CATALOG_ACCESS_DENIED
        assert "HTTP 401: invalid_client" in caught.value.message
        assert "catalogs.lake.properties" in (caught.value.hint or "")
        assert "hunter3" not in caught.value.message


def test_only_what_has_files_signed_gets_tokens(tmp_path: pathlib.Path) -> None:
    with GuardedCatalog(tmp_path) as server:
        for signer in ({}, {"s3.signer": "S3V4RestSigner"}):
            properties = {"credential": CREDENTIAL, **signer}
            catalog = IcebergCatalog(_config(server, **properties)).pyiceberg
            io = pickle.loads(pickle.dumps(catalog._load_file_io()))
            manager = io.properties.get("auth.manager")
            assert (manager is not None) == bool(signer)
            if manager is not None:
                assert manager.auth_header() == "Bearer own 1"


def _config(server: GuardedCatalog, **properties: str) -> CatalogConfig:
    properties["oauth2-server-uri"] = f"{server.url}/v1/oauth/tokens"
    return CatalogConfig(name="lake", type="rest", uri=server.url, properties=properties)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type": "hive"}, "is a setting of the type rest"),
        ({"properties": {"credential": "a:hunter2"}}, "set only one of them"),
        ({"uri": "http://catalog.example"}, "must be https"),
        ({"login": {"type": "aws_msk_iam", "region": "x"}}, "is a login to Kafka only"),
        ({"login": {"type": "azure", "scope": "s", "extensions": "a=b"}}, "logins to catalogs"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], said: str) -> None:
    good = {
        "name": "lake",
        "type": "rest",
        "uri": "https://catalog.example",
        "login": {"type": "google"},
    }
    CatalogConfig.model_validate(good)
    with pytest.raises(ValidationError) as raised:
        CatalogConfig.model_validate({**good, **settings})
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)
