"""Goal: every reader of other makes gets in with each proof that it can show.

Method: real Spark, with the settings that we print, its data source, and PyIceberg, over a real
table that is hot and cold; with a token, a JSON Web Token, and a user's password.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import bcrypt
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pyiceberg.catalog.rest import RestCatalog
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.spark.sessions import connect
from seamline.gateway.config.model import AccessToken, AuthConfig, JwtConfig
from seamline.spark import configuration, register

pytestmark = [pytest.mark.integration, pytest.mark.spark]

KEY = ec.generate_private_key(ec.SECP256R1())
TOKEN = "open sesame"


def web_token() -> str:
    claims = {"iss": "i", "aud": "a", "sub": "jo", "exp": int(time.time()) + 86_400}
    return jwt.encode(claims, KEY, "ES256")


SPARK: Mapping[str, Mapping[str, Any]] = {
    "token": {"token": TOKEN},
    "jwt": {"token": web_token()},
    "password": {"user": "bob", "password": "apple pie"},
}
SOURCE: Mapping[str, Mapping[str, str]] = {
    "token": {"accessToken": TOKEN},
    "jwt": {"accessToken": web_token()},
    "password": {"user": "bob", "password": "apple pie"},
}
PYICEBERG: Mapping[str, Mapping[str, Any]] = {
    "token": {"token": TOKEN},
    "jwt": {"token": web_token()},
    "password": {"auth": {"type": "basic", "basic": {"username": "bob", "password": "apple pie"}}},
}


@pytest.fixture(scope="module")
def own(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("readers")
    passwords, keys = folder / "passwords", folder / "keys.json"
    hashed = bcrypt.hashpw(b"apple pie", bcrypt.gensalt(4)).decode()
    passwords.write_text(f"bob:{hashed}\n", encoding="utf-8")
    public = jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [public]}), encoding="utf-8")
    auth = AuthConfig(
        tokens=(AccessToken(name="ann", sha256=hashlib.sha256(TOKEN.encode()).hexdigest()),),
        passwords=str(passwords),
        jwt=JwtConfig(jwks=str(keys), issuer="i", audience=("a",)),
    )
    changed = {"state_directory": str(folder / "state"), "auth": auth}
    with contextlib.closing(Gateway(stack.config.model_copy(update=changed))) as running:
        yield running


@pytest.fixture(scope="module")
def table(stack: Stack) -> str:
    name = "of_readers"
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": n} for n in range(5)])
    stack.tier(name)
    stack.produce(name, [{"id": n} for n in range(5, 8)])
    return name


@pytest.mark.soak
@pytest.mark.parametrize("proof", SPARK)
def test_readers_get_in_with_each_proof(own: Gateway, stack: Stack, table: str, proof: str) -> None:
    catalog = RestCatalog("live", uri=f"{own.url}/iceberg", **PYICEBERG[proof])
    assert len(catalog.load_table(("default", table)).scan().to_arrow()) == 8
    with contextlib.closing(_Session(stack)) as session:
        for planned in (False, True):
            name = f"live_{proof}_{planned}".lower()
            conf = configuration(own.url, name=name, planned=planned, **SPARK[proof])
            assert session.count(conf, f"SELECT id FROM {name}.default.{table}") == 8
        register(session.spark)
        options = {"url": own.url, "table": table, **SOURCE[proof]}
        assert session.spark.read.format("seamline").options(**options).load().count() == 8


class _Session:
    def __init__(self, stack: Stack) -> None:
        self.spark = connect(stack.spark_url)

    def count(self, conf: Mapping[str, str], sql: str) -> int:
        """The rows of a statement, with further settings."""
        for key, value in conf.items():
            self.spark.conf.set(key, value)
        return int(self.spark.sql(sql).count())

    def close(self) -> None:
        """Ends it."""
        self.spark.stop()
