"""Goal: without tokens only loopback gets in, under its own name; with them only who knows one.

Method: configurations with and without tokens, asked with headers of every kind.
"""

from __future__ import annotations

import hashlib
import pathlib

import pytest
from support import offline

from seamline.errors import SeamlineError
from seamline.gateway.access import authentication
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import Identity, Presented
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import AccessToken, AuthConfig, Config


def identify(config: Config, header: str | None, host: str) -> Identity:
    return Authentication(config).identify(Presented(header, host))


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def open_gateway(tmp_path: pathlib.Path) -> Config:
    return offline.config(tmp_path)


@pytest.fixture
def closed_gateway(open_gateway: Config) -> Config:
    tokens = (
        AccessToken(name="ann", sha256=digest("one").upper()),
        AccessToken(name="bob", sha256=digest("two")),
    )
    return open_gateway.model_copy(update={"auth": AuthConfig(tokens=tokens)})


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8474", "127.8.8.8", "localhost:80", "[::1]", "[::1]:8474"]
)
def test_an_open_gateway_answers_to_loopback(open_gateway: Config, host: str) -> None:
    found = identify(open_gateway, None, host)
    assert found.principal == Principal(authentication.ANONYMOUS)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8474", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0",
     "localhost.evil.example:80", "evil.example:127.0.0.1", "[::2]:80", "::ffff:10.0.0.1"],
)  # fmt: skip
def test_an_open_gateway_answers_to_no_other_name(open_gateway: Config, host: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        identify(open_gateway, None, host)
    assert caught.value.code.name == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("header", "name"), [("Bearer one", "ann"), ("bearer two", "bob"), ("Bearer  two ", "bob")]
)
def test_a_known_token_tells_who_asks(closed_gateway: Config, header: str, name: str) -> None:
    assert identify(closed_gateway, header, "anything.example").principal.name == name


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer three", "Basic one", "one", "Bearer ONE", "Bearer ü",
     f"Bearer {digest('one')}"],
)  # fmt: skip
def test_everybody_else_is_asked_for_one(closed_gateway: Config, header: str | None) -> None:
    with pytest.raises(SeamlineError) as caught:
        identify(closed_gateway, header, "127.0.0.1")
    assert caught.value.code.name == "UNAUTHENTICATED"
    assert "one" not in caught.value.message.split()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example"])
def test_only_with_tokens_it_listens_to_the_outside(
    tmp_path: pathlib.Path, closed_gateway: Config, host: str
) -> None:
    outside = offline.config(tmp_path, http__host=host)
    with pytest.raises(SeamlineError) as caught:
        authentication.check_listening(outside)
    assert caught.value.code.name == "INVALID_CONFIG"
    authentication.check_listening(outside.model_copy(update={"auth": closed_gateway.auth}))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_token(tmp_path: pathlib.Path, host: str) -> None:
    authentication.check_listening(offline.config(tmp_path, http__host=host))


def test_tokens_of_one_name_have_their_own_groups_for_ever(open_gateway: Config) -> None:
    """Also where a session takes a token's place, until that very token is revoked."""
    tokens = tuple(
        AccessToken(name="ann", sha256=digest(text), groups=(f"of {text}",))
        for text in ("one", "two")
    )
    config = open_gateway.model_copy(update={"auth": AuthConfig(tokens=tokens)})
    for text in ("one", "two"):
        found = identify(config, f"Bearer {text}", "")
        assert found.principal == Principal("ann", (f"of {text}",))
        assert Authentication(config).again(found) == found
    fewer = open_gateway.model_copy(update={"auth": AuthConfig(tokens=tokens[:1])})
    with pytest.raises(SeamlineError) as caught:
        Authentication(fewer).again(found)
    assert caught.value.code.name == "UNAUTHENTICATED"
