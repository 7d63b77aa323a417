"""Goal: the page that is shipped is the one of the sources, and whoever asks for it gets it.

Method: the digest that the build has left beside it; requests as browsers and others send them.
"""

from __future__ import annotations

import hashlib
import pathlib

import pytest
from support import offline
from support.gateway import Gateway
from support.sources import ROOT

SOURCES = ROOT / "gateway" / "console"
BUILT = ROOT / "gateway" / "http" / "console"
CONFIGURATION = ("index.html", "package-lock.json", "vite.config.ts")


KNOWN = hashlib.sha256(b"a token of the tests").hexdigest()
AUTH = f"auth: {{tokens: [{{name: ann, sha256: {KNOWN}}}]}}\n"


def test_the_page_is_built_of_its_sources() -> None:
    names = sorted([*CONFIGURATION, *(f"src/{file.name}" for file in (SOURCES / "src").iterdir())])
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())
    built = (BUILT / "sources.sha256").read_text(encoding="utf-8").strip()
    assert built == digest.hexdigest(), "run: make console"


@pytest.mark.parametrize("path", ["/", "/index.html", "/console.js", "/console.css"])
def test_everybody_gets_the_page_and_nothing_else(tmp_path: pathlib.Path, path: str) -> None:
    gateway = Gateway(offline.load_config(tmp_path, AUTH))
    try:
        client = gateway.app.test_client()
        answer = client.get(path, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 200
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        same = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (same.status_code, same.data) == (304, b"")
        assert client.post(path).status_code in {401, 405}
        assert client.get("/api/v1/info").status_code == 401
        assert client.get("/sources.sha256").status_code in {401, 404}
    finally:
        gateway.close()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/ui/", "../"),
        ("/ui/query.html?2-x_Y", "../#/q/2-x_Y"),
        ("/ui/query.html?//evil.example/%0d%0aX:1", "../#/q/%2F%2Fevil.example%2F%0D%0AX%3A1"),
    ],
)
def test_trino_s_addresses_lead_to_the_page(tmp_path: pathlib.Path, path: str, place: str) -> None:
    gateway = Gateway(offline.load_config(tmp_path, AUTH))
    try:
        answer = gateway.app.test_client().get(path)
        assert (answer.status_code, answer.headers["Location"]) == (302, place)
    finally:
        gateway.close()


def test_a_page_is_not_asked_for_a_password_by_the_browser(tmp_path: pathlib.Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("ann:$2b$04$abcdefghijklmnopqrstuuC5O7TLkrKTUHYTq8LDFZoy6vBO5W8nO\n")
    gateway = Gateway(offline.load_config(tmp_path, f"auth: {{passwords: {passwords}}}\n"))
    try:
        client = gateway.app.test_client()
        challenges = {
            mode: client.get(
                "/api/v1/info", headers=(mode and {"Sec-Fetch-Mode": mode}) or {}
            ).headers.getlist("WWW-Authenticate")
            for mode in ("", "navigate", "cors")
        }
        assert len(challenges[""]) == len(challenges["navigate"]) == 2
        assert challenges["cors"] == ["Bearer"]
    finally:
        gateway.close()
