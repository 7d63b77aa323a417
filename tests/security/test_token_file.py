"""Goal: tokens are added, given to others and revoked without a restart.

Method: a gateway whose tokens are in a file that changes while it runs, asked by plain requests.
"""

from __future__ import annotations

import hashlib
import logging
import pathlib
from collections.abc import Iterator

import pytest
from support import offline
from support.gateway import Gateway

from seamline.errors import INVALID_CONFIG, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import Presented


def entry(name: str, token: str, more: str = "") -> str:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return f'  - {{name: {name}, sha256: "{digest}"{more}}}\n'


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "tokens.yaml"
    file.write_text("tokens:\n" + entry("ann", "apple"))
    return file


@pytest.fixture
def gateway(tmp_path: pathlib.Path, file: pathlib.Path) -> Iterator[Gateway]:
    more = f"auth:\n  token_file: {file}\n  tokens:\n  {entry('bob', 'boehm').strip()}\n"
    made = Gateway(offline.load_config(tmp_path, more))
    yield made
    made.close()


def who(gateway: Gateway, token: str) -> int:
    """The status of a request that shows a token."""
    client = gateway.app.test_client()
    shown = {"Authorization": f"Bearer {token}"}
    return client.get("/api/v1/statements", headers=shown).status_code


def test_what_is_added_is_taken_and_what_is_gone_is_not(
    gateway: Gateway, file: pathlib.Path
) -> None:
    assert (who(gateway, "apple"), who(gateway, "pear"), who(gateway, "boehm")) == (200, 401, 200)
    file.write_text("tokens:\n" + entry("ann", "apple") + entry("ann", "pear"))
    assert (who(gateway, "apple"), who(gateway, "pear")) == (200, 200), (
        "one takes over from the other"
    )
    file.write_text("tokens:\n" + entry("ann", "pear"))
    assert (who(gateway, "apple"), who(gateway, "pear")) == (401, 200)
    file.write_text("tokens:\n" + entry("ann", "pear", ', expires: "2020-01-01T00:00:00Z"'))
    assert who(gateway, "pear") == 401


def test_who_was_let_in_before_is_asked_again(tmp_path: pathlib.Path, file: pathlib.Path) -> None:
    config = offline.load_config(tmp_path, f"auth: {{token_file: {file}}}")
    authentication = Authentication(config)
    ann = authentication.identify(Presented("Bearer apple"))
    assert authentication.again(ann).principal.name == "ann"
    file.write_text("tokens: []\n")
    with pytest.raises(SeamlineError) as caught:
        authentication.again(ann)
    assert caught.value.code is UNAUTHENTICATED


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ("Bearer pear", "the access token has expired"),
        ("Bearer quince", "the access token is not known"),
        ("Basic YW5uOmFwcGxl", "this gateway accepts no passwords"),
        ("Digest apple", "the Authorization header is of no known kind"),
    ],
)
def test_who_is_refused_is_told_why(
    tmp_path: pathlib.Path, file: pathlib.Path, shown: str, why: str
) -> None:
    with file.open("a") as more:
        more.write(entry("ann", "pear", ', expires: "2020-01-01T00:00:00Z"'))
    authentication = Authentication(offline.load_config(tmp_path, f"auth: {{token_file: {file}}}"))
    with pytest.raises(SeamlineError) as caught:
        authentication.identify(Presented(shown))
    assert (caught.value.code, caught.value.message) == (UNAUTHENTICATED, why)


WRONG = {
    "tokens: [{name: ann, sha256: secret}]": "tokens.0.sha256",
    "token: []": "token:",
    "[]": "must hold keys and values",
    "tokens: [": "is not YAML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_says_nothing_is_refused_at_the_start_and_ignored_later(
    tmp_path: pathlib.Path, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = offline.load_config(tmp_path, f"auth: {{token_file: {file}}}")
    authentication = Authentication(config)
    file.write_text(text)
    with pytest.raises(SeamlineError) as caught:
        Authentication(config)
    assert caught.value.code is INVALID_CONFIG
    assert WRONG[text] in caught.value.message
    assert "secret" not in caught.value.message
    with caplog.at_level(logging.ERROR, "seamline.access"):
        assert authentication.identify(Presented("Bearer apple")).principal.name == "ann"
    assert "still using the previous tokens" in caplog.text
