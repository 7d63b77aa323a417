"""Goal: behind its own proxies the gateway knows who sends a request, and nobody can choose that.

Method: notes of proxies of every spelling, with what a client may have written before them; a
gateway whose peers are proxies is asked over a socket, and says in its audit log who it has seen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import urllib.parse
from typing import Any

import bcrypt
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from support import offline
from support.gateway import Gateway
from support.served import serving
from support.waiting import wait_until

from seamline.errors import SeamlineError
from seamline.gateway.access import logins
from seamline.gateway.http.proxies import FORWARDED, X_FORWARDED_FOR, Proxies

OWN = ("10.0.0.0/8", "fd00::/8", "127.0.0.1")


@pytest.mark.parametrize(
    ("peer", "noted", "client"),
    [
        ("9.9.9.9", "1.1.1.1", "9.9.9.9"),  # no proxy of ours
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),  # the client has written the first
        ("10.0.0.1", "6.6.6.6,1.1.1.1 ,  10.2.2.2", "1.1.1.1"),
        ("10.0.0.1", "10.1.1.1,10.2.2.2", "10.1.1.1"),
        ("10.0.0.1", "1.1.1.1:4711", "1.1.1.1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:1.1.1.1", "1.1.1.1"),
        ("::ffff:9.9.9.9", "", "9.9.9.9"),
        ("10.0.0.1", "6.6.6.6, unknown", "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6, unknown, 10.2.2.2", "10.2.2.2"),
        ("10.0.0.1", "6.6.6.6,", "10.0.0.1"),
        ("10.0.0.1", "٣.3.3.3", "10.0.0.1"),
        ("", "1.1.1.1", ""),
    ],
)
def test_what_proxies_note(peer: str, noted: str, client: str) -> None:
    assert Proxies(OWN).client(peer, noted) == client


@pytest.mark.parametrize(
    ("noted", "client"),
    [
        ("for=1.1.1.1", "1.1.1.1"),
        ('For="[2001:db8::1]:4711";proto=https;by=10.0.0.1', "2001:db8::1"),
        ("for=6.6.6.6, proto=http ; for=1.1.1.1, for=10.2.2.2", "1.1.1.1"),
        ("for=6.6.6.6, for=_hidden", "10.0.0.1"),
        ("for=6.6.6.6, proto=https", "10.0.0.1"),
        ('for=1.1.1.1;host="a;for=6.6.6.6"', "10.0.0.1"),  # who knows which
        ('for="6.6.6.6, for=1.1.1.1', "1.1.1.1"),  # a quote of the client's swallows nothing
        ("1.1.1.1", "10.0.0.1"),
    ],
)
def test_what_proxies_note_as_the_standard_has_it(noted: str, client: str) -> None:
    assert Proxies(OWN, FORWARDED).client("10.0.0.1", noted) == client


@given(st.text(), st.sampled_from([FORWARDED, X_FORWARDED_FOR]))
def test_nobody_chooses_who_they_are(written: str, header: str) -> None:
    """Whatever a client sends, the proxy's own note after it is what counts."""
    note = "1.1.1.1" if header == X_FORWARDED_FOR else "for=1.1.1.1"
    proxies = Proxies(OWN, header)
    assert proxies.client("10.0.0.1", f"{written}, {note}") == "1.1.1.1"
    assert proxies.client("9.9.9.9", written) == "9.9.9.9"


def test_logins_and_the_audit_log_see_clients(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = dataclasses.replace(logins.USER, every_s=3600.0)
    monkeypatch.setattr(logins, "USER", slow)  # no further try is due while this asks
    passwords, log = tmp_path / "passwords", tmp_path / "audit"
    passwords.write_text("ann:" + bcrypt.hashpw(b"apple", bcrypt.gensalt(4)).decode() + "\n")
    config = offline.load_config(
        tmp_path,
        f"tail: {{follow: false}}\nauth: {{passwords: {passwords}}}\naudit: {{file: {log}}}\n"
        "http: {trusted_proxies: [127.0.0.1]}\n",
    )
    with contextlib.closing(Gateway(config)) as gateway, urllib3.PoolManager(retries=False) as pool:

        def ask(noted: str, password: str) -> int:
            headers = urllib3.make_headers(basic_auth=f"ann:{password}") | {
                X_FORWARDED_FOR: noted,
                FORWARDED: "for=6.6.6.6",  # which is not what this proxy writes
            }
            return pool.request("GET", gateway.url + "/api/v1/info", headers=headers).status

        assert ask("1.1.1.1", "apple") == 200
        found = [ask(f"{n}.6.6.6, 2.2.2.2", "guess") for n in range(logins.USER.at_once + 2)]
        assert found.count(429) == 2
        assert [ask(where, "guess") for where in ("2.2.2.2", "1.1.1.1")] == [429, 401]

        def refused() -> list[Any]:
            return [json.loads(line)["address"] for line in log.read_text().splitlines()]

        wait_until(lambda: len(refused()) == logins.USER.at_once + 4, what="the audit log")
        assert refused() == [*["2.2.2.2"] * (logins.USER.at_once + 3), "1.1.1.1"]


@pytest.mark.soak
@pytest.mark.prove
def test_no_other_header_leads_astray(tmp_path: pathlib.Path) -> None:
    """What servers take from proxies on the same machine unless they are told not to."""
    with serving(tmp_path, "tail: {follow: false}\n") as (url, _), urllib3.PoolManager() as pool:
        for headers in (
            {"SCRIPT_NAME": "/api"},
            {"PATH_INFO": "/healthz"},
            {"SCRIPT_NAME": "/nowhere"},
            {"REMOTE_USER": "ann"},
        ):
            answer = pool.request("GET", url + "/api/v1/info", headers=headers, retries=False)
            assert (answer.status, answer.json()["product"]) == (200, "seamline"), headers
        answer = pool.request(
            "POST", url + "/v1/statement", body="SELECT 1", headers={"X-Forwarded-Proto": "https"}
        )
        next_ = answer.json()["nextUri"]
        assert urllib.parse.urlsplit(next_).scheme == "http"


@pytest.mark.parametrize("networks", ["nowhere", "10.0.0.1/8", "1.2.3.4/33", "*"])
def test_what_is_no_network_is_refused_at_the_start(tmp_path: pathlib.Path, networks: str) -> None:
    with pytest.raises(SeamlineError, match="is not a network") as caught:
        offline.load_config(tmp_path, f"http: {{trusted_proxies: ['{networks}']}}\n")
    assert caught.value.code.name == "INVALID_CONFIG"
