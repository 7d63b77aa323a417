"""Goal: a user and a password let in that user and nobody else, at once, and guessing does not pay.

Method: real hashes in a real file, asked over HTTP by the clients of ours and by plain requests.
The file is changed while the gateway runs; those who guess are many, and others log in meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import pathlib
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import argon2
import bcrypt
import pytest
import urllib3
from click.testing import CliRunner
from fakes.memory import ManualClock
from support import offline
from support.gateway import Gateway

import seamline
from seamline.commands.query import query
from seamline.errors import SeamlineError
from seamline.gateway.access import logins, passwords
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import PASSWORD, Presented
from seamline.gateway.access.logins import FailedLogins
from seamline.gateway.access.passwords import Passwords

QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HERE = "127.0.0.1"


def hashed(password: str, rounds: int = 4, prefix: bytes = b"2b") -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds, b"2b")).decode().replace(
        "$2b$", f"${prefix.decode()}$"
    )  # fmt: skip


FILE = "\n".join(
    (
        "# people",
        f"ann:{hashed('apple')}",
        f"bob:{hashed('böhm', prefix=b'2y')}",
        "",
        f"eve:{QUICK.hash('earth:moon')}",
    )
)


class World:
    """A gateway that knows passwords."""

    def __init__(self, folder: pathlib.Path, more: str = "") -> None:
        self.file = folder / "passwords"
        self.file.write_text(FILE, encoding="utf-8")
        groups = folder / "groups"
        groups.write_text("# who is where\nsecret: ann , eve\nother:bob\n", encoding="utf-8")
        rules = folder / "rules.yaml"
        rules.write_text(
            "queries:\n- {group: secret, allow: [execute]}\n- {user: bob, allow: []}\n",
            encoding="utf-8",
        )
        auth = f"passwords: {self.file}, groups: {groups}, rules: {rules}"
        config = offline.load_config(folder, f"tail: {{follow: false}}\nauth: {{{auth}}}\n{more}")
        self.gateway = Gateway(config)

    def ask(self, user: str, password: str, path: str = "/api/v1/info", **headers: str) -> Any:
        """An answer."""
        headers |= {"Authorization": basic(user, password)} if user else {}
        with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
            return pool.request("GET", self.gateway.url + path, headers=headers)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(tmp_path)
    with contextlib.closing(made.gateway):
        yield made


def test_a_password_says_who_asks(world: World) -> None:
    for user, password in (("ann", "apple"), ("eve", "earth:moon")):
        with world.gateway.connect(user=user, password=password) as connection:
            assert connection.execute("SELECT current_user").fetchall() == [(user,)]
        assert world.ask(user, password, "/iceberg/v1/config").status == 200
    with (
        world.gateway.connect(user="bob", password="böhm") as connection,
        pytest.raises(seamline.Error) as caught,
    ):
        connection.execute("SELECT 1")
    assert caught.value.code.name == "PERMISSION_DENIED"  # it is bob, who is in no group


def test_unknown_users_and_wrong_passwords_look_the_same(world: World) -> None:
    answers = [
        world.ask(*pair) for pair in (("ann", "x"), ("nobody", "x"), ("ann", ""), ("bob", "apple"))
    ]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.data for answer in answers}) == 1
    assert answers[0].headers.getlist("WWW-Authenticate") == [
        "Bearer",
        'Basic realm="seamline", charset="UTF-8"',
    ]


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    "header", ["Basic", "Basic ?", "Basic YW5u", "Basic OmFwcGxl", "Digest x", "Basic /////w=="]
)
def test_a_header_that_says_nothing_is_refused(world: World, header: str) -> None:
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request(
            "GET", f"{world.gateway.url}/api/v1/info", headers={"Authorization": header}
        )
    assert answer.status == 401


def test_a_page_of_another_site_is_not_answered_with_what_a_browser_knows(world: World) -> None:
    assert world.ask("ann", "apple", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert world.ask("ann", "apple", **{"Sec-Fetch-Site": "same-origin"}).status == 200


def test_passwords_that_are_being_checked_hold_up_nobody(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than requests are worked on at a time."""
    looked_at, go_on = threading.Semaphore(0), threading.Event()

    def matches(secret: bytes, _: str) -> bool:
        if secret == b"apple":
            return True
        looked_at.release()
        return not go_on.wait(60)

    monkeypatch.setattr(passwords, "_matches", matches)
    world = World(tmp_path, "http: {threads: 1}\n")
    with contextlib.closing(world.gateway), ThreadPoolExecutor(1) as others:
        assert world.ask("ann", "apple").status == 200
        try:
            slow = others.submit(world.ask, "eve", "x")
            assert looked_at.acquire(timeout=60)
            assert world.ask("ann", "apple").status == 200
        finally:
            go_on.set()
        assert slow.result().status == 401


def test_a_changed_file_holds_from_the_next_request_on(world: World) -> None:
    assert world.ask("ann", "apple").status == 200
    world.file.write_text(f"ann:{hashed('pear')}\n", encoding="utf-8")
    assert [world.ask("ann", p).status for p in ("apple", "pear")] == [401, 200]
    world.file.write_text("ann:plain\n", encoding="utf-8")
    assert world.ask("ann", "pear").status == 200, "the last good file holds"


def test_the_command_line_takes_a_user(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"SEAMLINE_URL": world.gateway.url, "SEAMLINE_PASSWORD": "apple"}
    arguments = ["SELECT current_user", "--format", "csv", "--quiet"]
    for more, said in ((["--user", "ann"], {}), ([], {"SEAMLINE_USER": "ann"})):
        result = CliRunner().invoke(query, [*arguments, *more], env=environment | said)
        assert result.output.split()[1:] == ["ann"], result.output


def test_one_proof_at_a_time(world: World) -> None:
    with pytest.raises(seamline.Error, match="a user and an access token"):
        world.gateway.connect(user="ann", access_token="x")


def test_a_token_may_be_asked_for_each_time(world: World) -> None:
    given = iter(("one", "two", "three"))
    with world.gateway.connect(access_token=lambda: next(given)) as connection:
        for _ in range(2):
            with pytest.raises(seamline.Error) as caught:
                connection.execute("SELECT 1")
            assert caught.value.code.name == "UNAUTHENTICATED"
    assert next(given, None) is None


# --- The file ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no users"),
        ("ann:apple", "line 1: ann has a hash that is neither"),
        ("\nann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "line 2: ann has a hash"),
        ("ann:$apr1$x$y", "line 1: ann has a hash"),
        ("ann", "line 1: ann has a hash"),
        (f"{FILE}\nann:{hashed('x')}", "ann is listed twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: pathlib.Path, text: str, said: str
) -> None:
    file = tmp_path / "passwords"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SeamlineError) as caught:
        Passwords(file, FailedLogins())
    assert caught.value.code.name == "INVALID_CONFIG"
    assert said in caught.value.message
    assert "apple" not in caught.value.message


def test_a_good_password_is_remembered_and_others_take_the_same_time(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"ann:{hashed('apple', rounds=11)}\n", encoding="utf-8")
    known = Passwords(file, FailedLogins())

    def seconds(user: str, password: str) -> float:
        begun = time.thread_time()  # others of this process have nothing to do with it
        with contextlib.suppress(SeamlineError):
            known.identify(user, password, HERE)
        return time.thread_time() - begun

    wrong = min(seconds("ann", f"x{n}") for n in range(5))
    unknown = min(seconds(f"nobody{n}", "x") for n in range(5))
    assert 0.5 < unknown / wrong < 2
    seconds("ann", "apple")
    assert min(seconds("ann", "apple") for _ in range(3)) < wrong / 10


def test_who_was_known_is_known_until_the_password_changes(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    with contextlib.closing(world.gateway):
        known = Authentication(world.gateway.config)
        found = known.identify(Presented(basic("ann", "apple"), address=HERE))
        assert (found.principal.name, found.method) == ("ann", PASSWORD)
        assert known.again(found) == found
        world.file.write_text(f"ann:{hashed('apple')}\n", encoding="utf-8")
        with pytest.raises(SeamlineError) as caught:
            known.again(found)
        assert caught.value.code.name == "UNAUTHENTICATED"


# --- Guessing ------------------------------------------------------------------------------------


def test_guessing_is_slowed_and_nobody_else_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pace in ("USER", "ADDRESS"):  # no further try is due while this asks
        slow = dataclasses.replace(getattr(logins, pace), every_s=3600.0)
        monkeypatch.setattr(logins, pace, slow)
    assert world.ask("eve", "earth:moon").status == 200
    found = [world.ask("ann", f"guess {n}") for n in range(logins.USER.at_once + 3)]
    assert [answer.status for answer in found].count(401) == logins.USER.at_once
    assert {answer.status for answer in found[logins.USER.at_once :]} == {429}
    assert 0 < int(found[-1].headers["Retry-After"]) <= logins.USER.every_s
    assert b"TOO_MANY_LOGINS" in found[-1].data
    for n in range(logins.ADDRESS.at_once):
        world.ask(f"nobody {n}", "x")
    assert world.ask("nobody", "x").status == 429
    assert world.ask("", "", Authorization="Bearer guess").status == 429
    assert world.ask("eve", "earth:moon").status == 200, "who has logged in goes on"


def test_the_pace_of_guessing() -> None:
    clock = ManualClock()
    failed = FailedLogins(lambda: clock.now_ms / 1000)

    def tries(address: str, user: str, count: int) -> int:
        """How many of the tries are checked; all fail."""
        seen = 0
        for _ in range(count):
            with contextlib.suppress(SeamlineError):
                failed.check(address, user)
                failed.count_user(address, user)
                failed.count_address(address)
                seen += 1
        return seen

    failed.succeeded("10.0.0.9", "ann")
    # from everywhere: a user's name is tried at its pace
    assert sum(tries(f"10.0.{n}.1", "ann", 5) for n in range(40)) == logins.USER.at_once
    clock.advance(int(10_000 * logins.USER.every_s))
    assert sum(tries(f"10.1.{n}.1", "ann", 5) for n in range(40)) == 10
    # but not from where the user has logged in
    failed.check("10.0.0.9", "ann")
    assert tries("10.0.0.9", "ann", 40) == logins.USER.at_once
    # from one place: all names at its pace, and a network of IPv6 is one
    assert sum(tries("10.2.0.1", f"u{n}", 5) for n in range(40)) == logins.ADDRESS.at_once
    assert sum(tries(f"2001:db8::{n:x}", f"v{n}", 5) for n in range(40)) == logins.ADDRESS.at_once
    with pytest.raises(SeamlineError) as caught:
        failed.check("10.2.0.1")
    assert caught.value.details["retry_after_s"] <= logins.ADDRESS.every_s


def test_what_htpasswd_writes_is_taken(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "passwords"
    try:
        subprocess.run(["htpasswd", "-cbB", str(file), "ann", "apple"], check=True)
    except FileNotFoundError:
        file.write_text(f"ann:{hashed('apple', prefix=b'2y')}\n", encoding="utf-8")
    found = Passwords(file, FailedLogins()).identify("ann", "apple", HERE)
    assert found.principal.name == "ann"
