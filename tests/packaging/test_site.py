"""Goal: the documentation's site is whole, serves all that it shows, and reads well in both themes.

Method: it is built as `make docs` builds it, where a link or an anchor to nothing is an error. What
its pages show is looked up in their markup; a real browser opens one page of each kind, served on
loopback, and whatever it asks another host for, or reports as wrong, is a failure.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from playwright.sync_api import Browser
from playwright.sync_api import Page as BrowserPage
from support import browser
from support.sources import ROOT

pytestmark = pytest.mark.prove

HOOKS = ROOT / "docs" / "site" / "hooks.py"
SCHEMES = {"light": "default", "dark": "slate"}
OPENED = ("", "concepts/", "http/")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base has it
        """Says nothing."""


@pytest.fixture(scope="module")
def url(site: pathlib.Path) -> Iterator[str]:
    """Where it is served."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as running:
        yield running


def pages(site: pathlib.Path) -> list[str]:
    """The address of each page below the site's."""
    return sorted(str(path.parent.relative_to(site)) for path in site.rglob("index.html"))


def test_every_page_is_in_the_site(site: pathlib.Path) -> None:
    found = set(pages(site))
    wanted = {str(p.relative_to(ROOT / "docs").with_suffix("")) for p in ROOT.glob("docs/**/*.md")}
    assert {"." if name == "index" else name for name in wanted} <= found
    assert {"changelog", "contributing", "examples", "helm", "reporting"} <= found
    assert (site / "reference" / "openapi.json").is_file()
    assert not list(site.rglob("*.py"))


SHOWS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)=["']?([^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref=["']?([^"'\s>]+)|url\(["']?([^"')]+)|@import\s+["']([^"']+)"""
)
"""What a page or a style sheet loads by itself."""


def test_no_page_shows_what_another_host_serves(site: pathlib.Path) -> None:
    loaded = [
        (str(path.relative_to(site)), next(filter(None, found)))
        for path in (*site.rglob("*.html"), *site.rglob("*.css"))
        for found in SHOWS.findall(path.read_text(encoding="utf-8"))
    ]
    assert len({file for file, _ in loaded}) > len(pages(site))
    assert [one for one in loaded if re.match(r"(https?:)?//", one[1])] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_browser_shows_it_and_asks_nobody_else(url: str, chromium: Browser, scheme: Any) -> None:
    problems: list[str] = []
    asked: list[str] = []
    page = chromium.new_page(color_scheme=scheme)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
    for name in OPENED:
        page.goto(f"{url}/{name}")
        shown = page.locator("body").get_attribute("data-md-color-scheme")
        assert shown == SCHEMES[scheme], name
        unseen = "images => images.filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
        assert page.locator("img").evaluate_all(unseen) == [], name
        problems += _barriers(page)
    page.close()
    assert problems == []
    assert len(asked) > len(OPENED)
    assert [one for one in asked if not one.startswith((f"{url}/", "data:"))] == []


def _barriers(page: BrowserPage) -> list[str]:
    """What of a page's content people cannot read."""
    rules: Any = {"runOnly": {"type": "rule", "values": ["color-contrast", "image-alt"]}}
    found: Any = Axe().run(page, context=".md-content", options=rules)
    return [node["html"] for each in found.response["violations"] for node in each["nodes"]]


def test_pictures_go_by_the_theme_and_search_needs_no_server(url: str, chromium: Browser) -> None:
    """The theme of the page, also where the system prefers the other one."""
    page = chromium.new_page(color_scheme="light")
    page.goto(f"{url}/concepts/")
    picture = page.locator(".md-content img").first
    light = picture.screenshot()
    page.locator("label[title='Dark']").click()
    page.locator("body[data-md-color-scheme='slate']").wait_for()
    assert picture.screenshot() != light
    page.locator("input.md-search__input").click()
    page.keyboard.type("tombstone")
    page.locator(".md-search-result__link", has_text="Upsert").first.wait_for()
    page.close()


# --- Links out of docs/ --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(hooks: Any, place: str, text: str) -> str:
    """What the hook makes of a page's text."""
    config: MkDocsConfig = load_config(str(ROOT / "mkdocs.yml"))
    file = File(place, config.docs_dir, config.site_dir, use_directory_urls=True)
    page = Page(None, file, config)
    return str(hooks.on_page_markdown(text, page=page, config=config, files=Files([])))


@pytest.mark.parametrize(
    ("place", "link", "there"),
    [
        ("sql.md", "[a](upserts.md#its-changes)", "[a](upserts.md#its-changes)"),
        ("index.md", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        (
            "reference/errors.md",
            "[a](../../CHANGELOG.md#unreleased)",
            "[a](../changelog.md#unreleased)",
        ),
        ("index.md", "[a\nb](../helm/README.md)", "[a\nb](helm.md)"),
        ("contributing.md", "[a](docs/tables.md#formats)", "[a](tables.md#formats)"),
        ("helm.md", "[`values.yaml`](seamline/values.yaml)", "`values.yaml`"),
        ("contributing.md", "[a](client/errors/__init__.py), [b](#taste)", "a, [b](#taste)"),
        ("index.md", "[a](https://example.com/nowhere.md)", "[a](https://example.com/nowhere.md)"),
        ("index.md", "```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
        ("index.md", r"| `a\|b` | c\|d |", r"| `a|b` | c\|d |"),
    ],
)
def test_links_lead_where_they_lead_in_the_repository(
    hooks: Any, place: str, link: str, there: str
) -> None:
    assert written(hooks, place, link) == there


def test_a_link_to_nothing_ends_the_build(hooks: Any) -> None:
    with pytest.raises(PluginError, match=r"docs/sql\.md links to nowhere\.md"):
        written(hooks, "sql.md", "[a](nowhere.md)")
