"""Goal: no page of another site makes a gateway do anything with a browser's own credentials.

Method: every route of every face with each of its methods, as pages elsewhere send requests: with
every content type that needs no preflight, with and without the headers that browsers add, from
origins that resemble the gateway's own. The gateway must refuse each, and have done nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import flask
import pytest
from support import offline
from support.gateway import Gateway

from seamline.errors import PERMISSION_DENIED, SeamlineError
from seamline.gateway.access.authentication import PageRequest, check_page
from seamline.gateway.access.rights import Principal
from seamline.gateway.http import console

HOST = "127.0.0.1:8080"
EXTERNAL = "https://sql.example.com"
FOREIGN = (
    "null",
    "",
    "http://evil.example",
    "https://127.0.0.1",
    "http://127.0.0.1:8081",
    "http://localhost:8080",
    "http://127.0.0.1:8080.evil.example",
    "http://evil.example/127.0.0.1:8080",
    "http://127.0.0.1:8080@evil.example",
    "https://sql.example.com.evil.example",
    "http://sql.example.com",
    "file://",
    "http://127.0.0.1:99999",
)
OWN = ("http://127.0.0.1:8080", "https://127.0.0.1:8080", EXTERNAL, f"{EXTERNAL}:443")
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "")
"""Content types of requests that browsers send without asking first."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    more = f"http:\n  external_url: {EXTERNAL}\n"
    running = Gateway(offline.load_config(folder, more))
    yield running
    running.close()


def _paths(app: flask.Flask) -> Iterator[tuple[str, str]]:
    """Each route's methods, with a path that it serves."""
    for rule in app.url_map.iter_rules():
        path = re.sub(
            "<([^>]*)>", lambda part: "1" if part[1].startswith("int") else "some", rule.rule
        )
        for method in sorted(rule.methods or ()):
            if not console.serves(path) and "any(" not in rule.rule:
                yield method, path


def test_no_route_does_anything_for_a_page_of_another_site(gateway: Gateway) -> None:
    client = gateway.app.test_client()
    types = itertools.cycle(SIMPLE_TYPES)
    pages = [
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": OWN[0]},
        {"Sec-Fetch-Site": "unheard", "Origin": "http://evil.example"},
    ]
    paths = list(_paths(gateway.app))
    assert {"/v1/statement", "/api/v1/statements"} <= {path for _, path in paths}
    for (method, path), page in itertools.product(paths, pages):
        headers = {"Host": HOST, "Content-Type": next(types), **page}
        answer = client.open(path, method=method, headers=headers, data="SELECT 1")
        assert answer.status_code == 403, (method, path, page)
    assert not gateway.service.statements(Principal("anonymous"))


@pytest.mark.parametrize(
    "page",
    [
        {},  # not a browser
        *({"Origin": origin} for origin in OWN),
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"},
    ],
)
def test_the_gateways_own_pages_and_programs_are_answered(
    gateway: Gateway, page: dict[str, str]
) -> None:
    client = gateway.app.test_client()
    for path in ("/v1/statement", "/api/v1/statements"):
        body = "SELECT 1" if path == "/v1/statement" else '{"statement": "SELECT 1"}'
        kind = "text/plain" if path == "/v1/statement" else "application/json"
        headers = {"Host": HOST, "Content-Type": kind, **page}
        answer = client.post(path, headers=headers, data=body)
        assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("site", [None, "", "unheard"])
def test_no_origin_resembles_the_gateways_own(origin: str, site: str | None) -> None:
    with pytest.raises(SeamlineError) as caught:
        check_page(PageRequest(site, origin, HOST), EXTERNAL)
    assert caught.value.code is PERMISSION_DENIED


def test_behind_tls_of_our_own_a_page_without_it_is_another_site() -> None:
    plain = PageRequest(None, "http://sql.example.com:8443", "sql.example.com:8443", is_secure=True)
    with pytest.raises(SeamlineError, match="other sites"):
        check_page(plain, None)
    own = PageRequest(None, "https://sql.example.com:8443", "sql.example.com:8443", is_secure=True)
    check_page(own, None)
