"""Goal: tokens are made as documented, shared, renewed in time, and outlive what makes them.

Method: a real token endpoint on loopback for client credentials; the clouds' own libraries, offline
or against that endpoint; a clock that the test moves for the life of tokens.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import threading
import urllib.parse

import jwt
import pytest
from pydantic import ValidationError
from support.cloud_identities import AZURE_TOKEN, GOOGLE_TOKEN, GoogleTokens, ManagedIdentity
from support.identity_provider import SECRET, IdentityProvider
from support.registry import Registry, registries

from seamline.connectors.config import ClusterConfig, LoginConfig, SchemaRegistryConfig
from seamline.connectors.kafka.clients import properties_of
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.connectors.logins import LOGINS, LoginError, Token, TokenSource, token_source
from seamline.errors import KAFKA_UNAVAILABLE, SCHEMA_REGISTRY_UNAVAILABLE, SeamlineError
from seamline.gateway.config.load import load

IDP = {"type": "oidc", "url": "https://idp/t", "client_id": "a", "client_secret": "hunter2"}
registry = pytest.fixture(registries)


class Maker:
    """Makes tokens `1`, `2`, … that live for a minute, unless it is away."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.made = self.tries = 0
        self.is_away = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self) -> Token:
        self.tries += 1
        self.may_answer.wait(30)
        if self.is_away:
            raise OSError("away, and hunter2 is the secret")
        self.made += 1
        return Token(str(self.made), self.now + 60)

    def source(self) -> TokenSource:
        return TokenSource(self, ("hunter2",), clock=lambda: self.now)


def test_a_token_is_renewed_before_it_expires() -> None:
    maker = Maker()
    source = maker.source()
    for now, value in ((0, "1"), (39, "1"), (41, "2"), (80, "2"), (82, "3"), (900, "4")):
        maker.now = 1000.0 + now
        assert source.token(patient=True).value == value
    assert maker.tries == 4


def test_a_valid_token_is_used_without_waiting_for_the_next() -> None:
    maker = Maker()
    source = maker.source()
    source.token()
    maker.may_answer.clear()
    maker.now += 50
    assert [source.token().value for _ in range(3)] == ["1"] * 3
    maker.may_answer.set()
    assert source.token(patient=True).value == "2"
    assert maker.tries == 2


def test_many_ask_once() -> None:
    maker = Maker()
    source = maker.source()
    maker.may_answer.clear()
    values: list[str] = []
    threads = [
        threading.Thread(target=lambda: values.append(source.token().value)) for _ in "x" * 9
    ]
    for thread in threads:
        thread.start()
    maker.may_answer.set()
    for thread in threads:
        thread.join()
    assert (values, maker.tries) == (["1"] * 9, 1)


def test_an_outage_of_two_minutes() -> None:
    maker = Maker()
    source = maker.source()
    source.token()
    maker.is_away = True
    outcomes = []
    for _ in range(120):
        maker.now += 1
        try:
            outcomes.append(source.token(patient=True).value)
        except LoginError as error:
            outcomes.append(str(error))
    said = "away, and ****** is the secret"
    assert outcomes == ["1"] * 59 + [said] * 61
    assert maker.tries < 20  # with pauses of ten seconds
    maker.is_away = False
    maker.now += 10
    assert source.token().value == "2"


def test_a_refused_token_is_replaced_once() -> None:
    maker = Maker()
    source = maker.source()
    first = source.token()
    source.refuse(first)
    assert source.token() is first  # another one would not be accepted either
    maker.now += 6
    source.refuse(first)
    source.refuse(first)
    assert source.token().value == "2"
    maker.now += 6
    source.refuse(first)  # late: it is not the present one
    assert source.token().value == "2"


def test_client_credentials() -> None:
    with IdentityProvider() as provider:
        login = LoginConfig(**provider.login, scope="kafka")
        token = token_source(login).token()
        assert token_source(login.model_copy()).token() is token
        assert provider.is_valid(token.value)
        claims = jwt.decode(token.value, options={"verify_signature": False})
        assert claims["exp"] - 10 < token.expires_at <= claims["exp"]
        assert SECRET not in repr(login)
        assert token.value not in repr(token)
        for wrong, said in (
            ({"client_secret": "hunter2"}, "HTTP 401: invalid_client: not Basic ******"),
            ({"scope": "more"}, "HTTP 400: invalid_scope: no such scope"),
            ({"url": f"{provider.url}/keys/x"}, "HTTP 404: not_found"),
        ):
            with pytest.raises(LoginError) as refused:
                token_source(LoginConfig(**{**provider.login, **wrong})).token()
            assert said in str(refused.value)
        provider.is_away = True
        config = ClusterConfig(
            name="c", bootstrap_servers="x:1", login=LoginConfig(**provider.login, scope="registry")
        )
        with pytest.raises(SeamlineError) as raised:
            properties_of(config)
        assert raised.value.code is KAFKA_UNAVAILABLE
        assert "clusters.c.login" in (raised.value.hint or "")


def test_properties_of_a_client() -> None:
    with IdentityProvider() as provider:
        login = LoginConfig(**provider.login, extensions="logicalCluster=lkc-1,identityPoolId=a=b")
        config = ClusterConfig(name="c", bootstrap_servers="x:1", login=login)
        properties = properties_of(config)
        value, expires_at, principal, extensions = properties.pop("oauth_cb")("")
        assert value in provider.issued
        assert len(provider.issued) == 1
        assert (expires_at > 0, principal) == (True, "")
        assert extensions == {"logicalCluster": "lkc-1", "identityPoolId": "a=b"}
        assert properties.items() > config.client_properties().items()
        assert properties["security.protocol"] == "sasl_ssl"
        plain = config.model_copy(update={"properties": {"security.protocol": "sasl_plaintext"}})
        assert properties_of(plain)["security.protocol"] == "sasl_plaintext"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type": "", "url": "https://idp/t"}, "is not a type of login"),
        ({"type": "kerberos"}, "is not a type of login"),
        ({"type": "oidc", "client_id": "a", "client_secret": "b"}, "url"),
        ({"type": "aws_msk_iam"}, "is missing; the login aws_msk_iam needs it"),
        ({"type": "azure"}, "scope"),
        ({"type": "google", "region": "x"}, "is not a setting of the login google"),
        ({"url": "http://idp.example.com/token"}, "must be https"),
        ({"url": "http://127.0.0.1.example.com/token"}, "must be https"),
        ({"url": "http://127.0.0.1@example.com/token"}, "must be https"),
        ({"url": "ftp://127.0.0.1/token"}, "must be https"),
        ({"url": "/token"}, "must be https"),
        ({"extensions": "a"}, "must be name=value pairs"),
        ({"extensions": "auth=me"}, "auth"),
    ],
)
def test_wrong_settings(settings: dict[str, str], said: str) -> None:
    good = IDP
    LoginConfig(**good)
    for host in ("localhost", "127.0.0.1", "[::1]:8080"):
        LoginConfig(**{**good, "url": f"http://{host}/token"})
    with pytest.raises(ValidationError) as raised:
        LoginConfig(**(settings if "type" in settings else {**good, **settings}))
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_msk_iam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    token = token_source(LoginConfig(type="aws_msk_iam", region="eu-west-1")).token()
    url = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    assert parts.netloc == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert "wJalrXUtnFEMI" not in url


def test_google(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = tmp_path / "account.json"
    with GoogleTokens() as tokens:
        account.write_text(tokens.account)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        login = LoginConfig(type="google")
        token = token_source(login).token()
        assert token.value == GOOGLE_TOKEN
        parts = LOGINS["google"].of_kafka(token).split(".")
        header, claims, secret = (base64.urlsafe_b64decode(p + "=" * (-len(p) % 4)) for p in parts)
        assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        assert secret == GOOGLE_TOKEN.encode()
        said = json.loads(claims)
        assert said["sub"] == "seamline@project.iam.gserviceaccount.com"
        assert (said["iss"], said["scope"]) == ("Google", "kafka")
        assert said["exp"] == token.expires_at > said["iat"]
    with pytest.raises(LoginError, match="client_id"):
        LOGINS["google"].of_kafka(Token("x", 1.0))


def test_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    with ManagedIdentity() as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identity.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", identity.header)
        scope = "https://hub.servicebus.windows.net/.default"
        token = token_source(LoginConfig(type="azure", scope=scope)).token()
        assert token.value == AZURE_TOKEN
        assert identity.resources == ["https://hub.servicebus.windows.net"]


def test_a_registry_gets_another_token_when_one_is_refused(registry: Registry) -> None:
    maker = Maker()
    config = SchemaRegistryConfig(
        url=registry.url,
        login=LoginConfig(
            **{**IDP, "extensions": "logicalCluster=lsrc-1,identityPoolId=pool-1,other=x"}
        ),
    )
    schemas = SchemaRegistry(config, maker.source())
    registry.register("a", '"long"')
    registry.register("b", '"int"')
    valid = {"1"}
    registry.accepts = valid.__contains__
    assert schemas.by_id(1).text == '"long"'
    assert registry.headers["target-sr-cluster"] == "lsrc-1"
    assert registry.headers["Confluent-Identity-Pool-Id"] == "pool-1"
    maker.now += 10
    valid.clear()
    valid.add("2")
    asked = len(registry.asked)
    assert schemas.by_id(2).text == '"int"'
    assert (len(registry.asked) - asked, maker.made) == (2, 2)
    maker.now += 10
    valid.clear()
    for _ in range(2):
        with pytest.raises(SeamlineError, match="HTTP 401") as raised:
            schemas.latest("a")
        assert raised.value.code is SCHEMA_REGISTRY_UNAVAILABLE
    assert maker.made == 3  # another one would not be accepted either
    maker.now += 70
    maker.is_away = True
    with pytest.raises(SeamlineError, match="the login oidc has no token") as raised:
        schemas.latest("a")
    assert "login of schema_registry" in (raised.value.hint or "")
    maker.is_away = False
    maker.now += 10
    registry.accepts = None
    assert schemas.latest("a") is not None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"login": {"type": "aws_msk_iam", "region": "x"}}, "is a login to Kafka only"),
        ({"token": "hunter2"}, "set only one of them"),
        ({"url": "http://registry:8081"}, "must be https"),
    ],
)
def test_wrong_settings_of_registries(settings: dict[str, object], said: str) -> None:
    good = {"url": "https://registry", "login": IDP}
    SchemaRegistryConfig.model_validate(good)
    with pytest.raises(ValidationError) as raised:
        SchemaRegistryConfig.model_validate({**good, **settings})
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_every_documented_login_can_be_pasted(tmp_path: pathlib.Path) -> None:
    text = (pathlib.Path(__file__).parents[3] / "docs/security.md").read_text(encoding="utf-8")
    secret = tmp_path / "oauth"
    secret.write_text("hunter2\n")
    blocks = [b for b in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "login:" in b]
    types = set()
    for number, block in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        catalogs = "catalogs:\n  lake: {type: sql, uri: 'sqlite://', warehouse: 'file:///w'}\n"
        (folder / "c.yaml").write_text(catalogs + block.replace("/run/secrets/oauth", str(secret)))
        loaded = load(folder / "c.yaml", environment={})
        assert "hunter2" not in repr(loaded.config)
        clusters = loaded.config.clusters.values()
        types |= {cluster.login.type for cluster in clusters if cluster.login}
    assert types == LOGINS.keys()
