"""Goal: a JSON Web Token of the configured provider says who asks, and nothing else that looks so.

Method: a real server with a real key set, tokens signed here with every kind of key, and forged in
every way that is known. Keys are changed, and the server goes away, while the gateway runs.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hmac
import http.server
import json
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jwt
import pytest
import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from fakes.memory import ManualClock
from support import offline
from support.doors import FAULTS, Door, Way
from support.gateway import Gateway

import seamline
from seamline.errors import LOGIN_KEYS_UNAVAILABLE, SeamlineError
from seamline.gateway.access import json_web_tokens
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import JWT, Presented
from seamline.gateway.access.json_web_tokens import FetchedKeys, Key
from seamline.gateway.access.rights import Principal

ISSUER = "https://identity.example/realms/people"
AUDIENCE = "seamline"
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
KEYS: dict[str, Any] = {
    "RS256": RSA,
    "PS384": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def public(key: Any, key_id: str | None, algorithm: str, **more: str) -> dict[str, Any]:
    """An entry of a key set."""
    family = jwt.get_algorithm_by_name(algorithm)
    found = dict(family.to_jwk(key.public_key(), as_dict=True))
    return {**found, **({"kid": key_id} if key_id else {}), **more}


def token(algorithm: str, key: Any = None, *, kid: str | None = None, **claims: Any) -> str:
    """A token; claims that are None are left out."""
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 600, **claims}
    return jwt.encode(
        {name: value for name, value in body.items() if value is not None},
        key or KEYS[algorithm],
        algorithm,
        headers={"kid": kid or algorithm},
    )


class Provider:
    """An identity provider: a server that gives its keys."""

    def __init__(self) -> None:
        self.keys: Any = [public(key, name, name) for name, key in KEYS.items()]
        self.status = 200
        self.asked = 0
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                self.send_response(provider.status)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": provider.keys}).encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Says nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def close(self) -> None:
        """Goes away."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with contextlib.closing(Provider()) as running:
        yield running


def settings(jwks: str) -> str:
    return f"""
tail: {{follow: false}}
auth:
  jwt:
    jwks: {jwks}
    issuer: {ISSUER}
    audience: {AUDIENCE}
    groups_claim: realm_access.roles
"""


@pytest.fixture
def known(provider: Provider, tmp_path: pathlib.Path) -> Authentication:
    return Authentication(offline.load_config(tmp_path, settings(provider.url)))


def who(known: Authentication, text: str) -> Principal:
    return known.identify(Presented(f"Bearer {text}", address="127.0.0.1")).principal


def refused(known: Authentication, text: str) -> str:
    """The name of the error that a token is refused with."""
    with pytest.raises(SeamlineError) as caught:
        who(known, text)
    assert text not in caught.value.message
    return caught.value.code.name


# --- Who is let in -------------------------------------------------------------------------------


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signed_token_says_who_asks(known: Authentication, algorithm: str) -> None:
    assert who(known, token(algorithm)) == Principal("ann")
    roles = {"roles": ["readers", 7, "writers"]}
    assert who(known, token(algorithm, realm_access=roles)).groups == ("readers", "writers")


def test_its_groups_feed_the_rules_on_every_route(
    provider: Provider, tmp_path: pathlib.Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("queries:\n- {group: readers, allow: [execute]}\n", encoding="utf-8")
    config = offline.load_config(tmp_path, settings(provider.url) + f"  rules: {rules}\n")
    with contextlib.closing(Gateway(config)) as gateway:
        roles = {"roles": ["readers"]}
        text = token("RS256", realm_access=roles)
        with gateway.connect(access_token=lambda: text) as connection:
            assert connection.execute("SELECT current_user").fetchall() == [("ann",)]
        with gateway.connect(access_token=token("RS256")) as connection:
            with pytest.raises(seamline.Error) as caught:
                connection.execute("SELECT 1")
            assert caught.value.code.name == "PERMISSION_DENIED"
        with urllib3.PoolManager(retries=False) as pool:
            for wanted, given in ((200, text), (401, text[:-4] + "AAAA")):
                headers = {"Authorization": f"Bearer {given}"}
                url = f"{gateway.url}/iceberg/v1/config"
                assert pool.request("GET", url, headers=headers).status == wanted


def test_keys_may_be_in_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [public(KEYS["ES256"], "ES256", "ES256")]}))
    known = Authentication(offline.load_config(tmp_path, settings(str(file))))
    assert who(known, token("ES256")).name == "ann"
    assert refused(known, token("RS256")) == "UNAUTHENTICATED"
    file.write_text(json.dumps({"keys": [public(RSA, "RS256", "RS256")]}))
    assert who(known, token("RS256")).name == "ann"


def test_who_was_known_is_known_until_the_token_ends(known: Authentication) -> None:
    found = known.identify(Presented(f"Bearer {token('RS256', jti='7')}"))
    assert (found.method, found.credential) == (JWT, "7")
    assert known.again(found) == found
    over = int(time.time()) - 1
    ending = known.identify(Presented(f"Bearer {token('RS256', exp=over)}"))
    assert ending.expires == over + 30  # seconds of leeway


# --- Who is not ----------------------------------------------------------------------------------

NOW = int(time.time())
PEM = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 86_400}
    parts = (json.dumps(header).encode(), json.dumps(body).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def by_public_key() -> str:
    """Signed with HMAC, the public key being the secret."""
    text = unsigned({"alg": "HS256", "kid": "RS256"}).rpartition(".")[0]
    signature = hmac.digest(PEM, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


WRONG: Mapping[str, Callable[[], str]] = {
    "of another audience": lambda: token("RS256", aud="elsewhere"),
    "of no audience": lambda: token("RS256", aud=None),
    "of another issuer": lambda: token("RS256", iss=ISSUER + "/"),
    "of no issuer": lambda: token("RS256", iss=None),
    "over": lambda: token("RS256", exp=NOW - 600),
    "without an end": lambda: token("RS256", exp=None),
    "not begun": lambda: token("RS256", nbf=NOW + 86_400),
    "of nobody": lambda: token("RS256", sub=None),
    "of an empty name": lambda: token("RS256", sub=""),
    "by another key": lambda: token("RS256", OTHER_RSA),
    "by a key of another name": lambda: token("RS256", kid="ES256"),
    "by an unknown key": lambda: token("RS256", kid="nobody's"),
    "unsigned": lambda: unsigned({"alg": "none", "kid": "RS256"}),
    "unsigned, in other letters": lambda: unsigned({"alg": "nOnE", "kid": "RS256"}),
    "by the public key": by_public_key,
    "with its own key": lambda: jwt.encode(
        {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 86_400},
        OTHER_RSA,
        "RS256",
        headers={"jwk": public(OTHER_RSA, None, "RS256"), "kid": "RS256"},
    ),
    "with a name that is no text": lambda: unsigned({"alg": "RS256", "kid": ["RS256"]}, b"x"),
    "no token": lambda: "a.b.c",
    "a part of one": lambda: token("RS256").rpartition(".")[0] + ".",
}


@pytest.mark.one_in(test=5)
@pytest.mark.parametrize("kind", WRONG)
def test_a_token_that_is_not_right_is_refused(known: Authentication, kind: str) -> None:
    assert who(known, token("RS256")).name == "ann"
    assert refused(known, WRONG[kind]()) == "UNAUTHENTICATED"


def test_a_set_may_say_less_or_more_of_its_keys(provider: Provider, tmp_path: pathlib.Path) -> None:
    provider.keys = [
        public(OTHER_RSA, "RS256", "RS256", use="enc"),
        {"kty": "oct", "kid": "HS256", "k": base64.urlsafe_b64encode(b"s" * 32).decode()},
        {"kty": "new", "kid": "new"},
        {"kty": "RSA", "kid": "broken", "n": "?", "e": "?"},
        public(RSA, "only", "RS256", alg="PS256"),
    ]
    known = Authentication(offline.load_config(tmp_path, settings(provider.url)))
    assert who(known, token("PS256", RSA, kid="only")).name == "ann"
    assert refused(known, token("RS256", RSA, kid="only")) == "UNAUTHENTICATED"
    assert refused(known, token("RS256", OTHER_RSA)) == "UNAUTHENTICATED"
    assert refused(known, token("HS256", b"s" * 32, kid="HS256")) == "UNAUTHENTICATED"


# --- Keys come and go ----------------------------------------------------------------------------


def test_without_the_provider_known_keys_hold_and_others_are_named(
    known: Authentication, provider: Provider
) -> None:
    provider.status = 500
    assert refused(known, token("RS256")) == "LOGIN_KEYS_UNAVAILABLE"
    assert provider.asked == 1
    assert refused(known, token("RS256")) == "LOGIN_KEYS_UNAVAILABLE"
    assert provider.asked == 1, "at most once a minute"


@pytest.mark.parametrize("fault", ["status", "not a set", "silence"])
def test_strangers_are_not_told_where_keys_come_from(
    provider: Provider, tmp_path: pathlib.Path, fault: str
) -> None:
    url = provider.url
    if fault == "status":
        provider.status = 500
    elif fault == "not a set":
        provider.keys = []
    else:
        url = "http://127.0.0.1:1/people"
    known = Authentication(offline.load_config(tmp_path, settings(url)))
    with pytest.raises(SeamlineError) as caught:
        who(known, token("RS256"))
    assert caught.value.code is LOGIN_KEYS_UNAVAILABLE
    assert "127.0.0.1" not in str(caught.value.to_json())


class Clockwork:
    """Keys that are fetched by a clock of ours."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.names = ["a"]
        self.is_down = False
        self.asked = 0
        self.keys = FetchedKeys(self._fetch, lambda: self.clock.now_ms / 1000)

    def _fetch(self) -> Sequence[Key]:
        self.asked += 1
        if self.is_down:
            raise SeamlineError(LOGIN_KEYS_UNAVAILABLE, "down")
        return [Key(name, (), None) for name in self.names]

    def finds(self, name: str) -> bool | None:
        """Whether a key is known; None when that is unknown."""
        try:
            return bool(self.keys.named(name))
        except SeamlineError as error:
            assert error.code is LOGIN_KEYS_UNAVAILABLE
            return None

    def wait(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))


def test_a_new_key_is_fetched_at_once_but_not_more_than_once_a_minute() -> None:
    made = Clockwork()
    assert made.finds("a")
    made.names = ["b"]
    assert made.finds("b") is False
    made.wait(59)
    assert made.finds("b") is False
    assert made.asked == 1
    made.wait(1)
    assert made.finds("b")
    assert made.finds("a") is False
    assert made.asked == 2


def test_a_key_that_is_gone_is_refused_however_long_nobody_has_asked() -> None:
    made = Clockwork()
    assert made.finds("a")
    made.names = ["b"]
    made.wait(599)
    assert made.finds("a")
    made.wait(9 * 3600)
    assert made.finds("a") is False
    assert made.asked == 2


def test_known_keys_hold_for_a_day_without_the_provider() -> None:
    made = Clockwork()
    assert made.finds("a")
    made.is_down = True
    made.wait(23 * 3600)
    assert made.finds("a")
    assert made.finds("b") in {False, None}
    made.wait(3600)
    assert made.finds("a") is None
    made.is_down = False
    made.wait(60)
    assert made.finds("a")


# --- Settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("{jwks: keys.json, issuer: i}", "auth.jwt.audience is missing"),
        ("{jwks: keys.json, audience: a}", "auth.jwt.issuer is missing"),
        ("{issuer: i, audience: a}", "auth.jwt.jwks is missing"),
        ("{jwks: 'http://identity.example/k', issuer: i, audience: a}", "must be https"),
        ("{jwks: 'ftp://identity.example/k', issuer: i, audience: a}", "must be https"),
        ("{jwks: /nowhere, issuer: i, audience: a}", "No such file"),
        ("{jwks: WORDS, issuer: i, audience: a}", "is not a JSON Web Key Set"),
        ("{jwks: EMPTY, issuer: i, audience: a}", "has no key that verifies"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    tmp_path: pathlib.Path, lines: str, said: str
) -> None:
    for name, text in (("WORDS", "words"), ("EMPTY", '{"keys": []}')):
        (tmp_path / name).write_text(text)
        lines = lines.replace(name, str(tmp_path / name))
    with pytest.raises(SeamlineError) as caught:
        Authentication(offline.load_config(tmp_path, f"auth: {{jwt: {lines}}}\n"))
    assert caught.value.code.name == "INVALID_CONFIG"
    assert said in caught.value.message


@pytest.mark.parametrize("way", FAULTS)
def test_logins_do_not_wait_for_a_provider_that_is_away_longer_than_for_one_answer(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (
        ("_FETCHED_S", 0.3),
        ("_FETCH_S", urllib3.Timeout(connect=0.3, read=0.3)),
        ("_AGAIN_S", 3600.0),
    ):
        monkeypatch.setattr(json_web_tokens, name, limit)
    with Door(lambda _method, _path: (200, json.dumps({"keys": []}).encode())) as door:
        door.turn(way)
        keys = FetchedKeys(lambda: json_web_tokens._fetched(door.url))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            logins = [pool.submit(keys.named, "RS256") for _ in range(4)]
            errors = [login.exception() for login in logins]
        assert {getattr(error, "code", None) for error in errors} == {LOGIN_KEYS_UNAVAILABLE}
        assert keys.dependency.outage is not None
