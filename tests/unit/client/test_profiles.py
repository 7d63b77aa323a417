"""Goal: what a command says comes first, then variables, then the profile; secrets are never in it.

Method: files of every kind, right and wrong, and each of the three places with and without a value.
"""

from __future__ import annotations

import itertools
import os
import pathlib
from typing import Any

import pytest

from seamline.commands import options, profiles
from seamline.errors import INVALID_CONFIG, SeamlineError

FILE = """
profile = "one"
[profiles.one]
url = "http://one"
user = "ada"
schema = "s"
[profiles.two]
url = "http://two"
token_file = "{folder}/token"
ca = "~/ca.pem"
[profiles.three]
token_command = ["printf", "from a command\\n"]
"""


@pytest.fixture
def home(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment with profiles."""
    folder = tmp_path / "seamline"
    folder.mkdir()
    (folder / "config.toml").write_text(FILE.format(folder=tmp_path), encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_profiles_by_name(home: dict[str, str], tmp_path: pathlib.Path) -> None:
    assert profiles.names(home) == ["one", "three", "two"]
    assert profiles.load(None, home).url == "http://one"
    assert profiles.load(None, {**home, "SEAMLINE_PROFILE": "two"}).url == "http://two"
    two = profiles.load("two", {**home, "SEAMLINE_PROFILE": "one"}).credentials()
    assert two.ca == str(pathlib.Path.home() / "ca.pem")
    (tmp_path / "token").write_text("first\n")
    assert two.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    assert two.authorization() == "Bearer second"
    three = profiles.load("three", home).credentials()
    assert three.authorization() == "Bearer from a command"


def test_without_a_file_nothing_is_said(tmp_path: pathlib.Path) -> None:
    nowhere = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert profiles.load(None, nowhere) == profiles.Profile()
    assert profiles.names(nowhere) == []


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("[profiles.a]", "b", "there is no profile b"),
        ("[profiles.a]\ntoken = 'secret'", "a", "the profile a has no token"),
        ("[profiles.a]\nurl = 1", "a", "url of the profile a is not text"),
        ("[profiles.a]\nuser = 'u'\ntoken_file = 'f'", "a", "more than one of"),
        ("port = 1", None, "the file has no port"),
        ("profile = ", None, "config.toml: "),
    ],
)
def test_a_file_that_is_wrong_is_named(
    tmp_path: pathlib.Path, text: str, name: str | None, message: str
) -> None:
    (tmp_path / "seamline").mkdir()
    (tmp_path / "seamline" / "config.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SeamlineError, match=message) as caught:
        profiles.load(name, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert caught.value.code is INVALID_CONFIG
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "lines",
    [
        "token_file = 'no/where'",
        f"token_file = '{os.devnull}'",
        "token_command = 'false'",
        "token_command = ['true']",
        "token_command = []",
    ],
)
def test_a_token_that_cannot_be_had_is_named(tmp_path: pathlib.Path, lines: str) -> None:
    (tmp_path / "seamline").mkdir()
    (tmp_path / "seamline" / "config.toml").write_text(f"[profiles.a]\n{lines}", encoding="utf-8")
    found = profiles.load("a", {"XDG_CONFIG_HOME": str(tmp_path)}).credentials()
    with pytest.raises(SeamlineError, match="INVALID_CONFIG"):
        found.authorization()


@pytest.mark.parametrize(
    ("flag", "variable", "profile"), [*itertools.product([None, "a"], [None, "b"], [None, "c"])]
)
def test_what_comes_first(
    monkeypatch: pytest.MonkeyPatch, flag: str | None, variable: str | None, profile: str | None
) -> None:
    monkeypatch.delenv("SEAMLINE_TOKEN", raising=False)
    monkeypatch.delenv("SEAMLINE_USER", raising=False)
    monkeypatch.delenv("SEAMLINE_CA", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    if variable:
        monkeypatch.setenv("SEAMLINE_CA", variable)
        monkeypatch.setenv("SEAMLINE_USER", variable)
    given: dict[str, Any] = dict.fromkeys(("access_token", "user", "ca", "certificate", "key"))
    found = options.credentials_of(
        {**given, "ca": flag, "user": flag}, profiles.Profile(ca=profile, user=profile)
    )
    assert found.user == (flag or variable or profile)
    assert found.ca == (flag or variable or profile)


def test_one_proof_of_who_asks_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_TOKEN", "of a variable")
    monkeypatch.delenv("SEAMLINE_USER", raising=False)
    given: dict[str, Any] = dict.fromkeys(("access_token", "user", "ca", "certificate", "key"))
    found = options.credentials_of(given, profiles.Profile(user="ada"))
    assert (found.access_token, found.user) == ("of a variable", None)
